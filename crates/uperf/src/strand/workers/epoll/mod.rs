//! All strands of a group in one thread that waits for them in one epoll set, as event-driven servers do.
//!
//! A strand here is a state, not a stack: it does what can be done now and remembers where it was ([`task`]). So it can
//! serve what a server of requests and streams does (read, write, send, recv, accept, disconnect); a profile that asks
//! its slave for more is refused.

mod connection;
mod event_loop;
mod task;

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use mio::{Poll, Waker};

use super::{Events, Workers, listen};
use crate::profile::model::{Flowop, FlowopKind};
use crate::strand::control::{BeginNs, Counts, End};
use crate::strand::listeners::Listeners;
use crate::strand::plan::{Plan, Ports};
use event_loop::{EventLoop, WAKER};

/// What the loop is told.
pub(super) enum Order {
    Release(usize),
    End { strand: usize, transaction: usize, end: End },
    Stop,
    Shut,
}

/// What the strands have done, as of their last transaction.
pub(super) type Board = Arc<Mutex<Vec<Counts>>>;

/// See the module.
pub(crate) struct Epoll {
    board: Board,
    orders: Sender<Order>,
    waker: Waker,
    ports: Vec<Ports>,
    /// Until it begins.
    event_loop: Option<EventLoop>,
}

impl Epoll {
    /// `strands` of them, which listen already.
    pub(crate) fn prepare(plan: Plan, strands: u32, events: Events) -> io::Result<Self> {
        let flowops = plan.transactions.iter().flat_map(|transaction| &transaction.flowops);
        if let Some(flowop) = flowops.into_iter().find(|flowop| !can_serve(flowop)) {
            let what = if flowop.options.timeout.is_some() { "timeout=" } else { &flowop.kind.to_string() };
            let why = format!("an epoll server does no {what} ({}): use threads or processes", flowop.place);
            return Err(io::Error::other(why));
        }
        let listeners = listen(&plan, strands, &mut Listeners::default())?;
        let ports = listeners.iter().map(Listeners::ports).collect();
        let board = Board::new(Mutex::new(vec![Counts::default(); listeners.len()]));
        let (orders, taken) = channel();
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let event_loop = EventLoop::new(&plan, poll, listeners, events, (taken, board.clone()))?;
        Ok(Self { board, orders, waker, ports, event_loop: Some(event_loop) })
    }

    fn tell(&self, order: Order) {
        // If the loop has ended nobody needs the order.
        let _ = (self.orders.send(order), self.waker.wake());
    }
}

fn can_serve(flowop: &Flowop) -> bool {
    use FlowopKind::{Accept, Disconnect, Nop, Read, Recv, Send, Write};
    flowop.options.timeout.is_none()
        && matches!(flowop.kind, Read | Write | Send | Recv | Accept | Disconnect | Nop)
}

impl Workers for Epoll {
    fn ports(&self) -> Vec<Ports> {
        self.ports.clone()
    }

    fn begin(&mut self, _: Vec<Vec<Ports>>) -> io::Result<()> {
        let Some(event_loop) = self.event_loop.take() else { return Ok(()) };
        thread::Builder::new().name("epoll".into()).spawn(move || event_loop.serve()).map(drop)
    }

    fn release(&mut self, transaction: usize, _: BeginNs) {
        self.tell(Order::Release(transaction));
    }

    fn end(&mut self, strand: usize, transaction: usize, end: End) {
        self.tell(Order::End { strand, transaction, end });
    }

    fn stop(&mut self) {
        self.tell(Order::Stop);
    }

    fn shut(&mut self) {
        self.tell(Order::Shut);
    }

    fn counts(&self) -> Vec<Counts> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
