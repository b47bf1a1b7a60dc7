//! `smc_bench overhead`: what the loop around the socket calls costs by itself, measured with sockets that do nothing.

use std::fs::File;
use std::hint::black_box;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::clock::{now_ns, thread_cpu_ns};
use super::control::Control;
use super::network::Network;
use super::plan::{Detail, Peer, Plan, Role};
use super::run::{Observer, Strand};
use super::socket::{Readiness, Stream};
use super::steps::Opening;
use crate::profile::model::{Flowop, FlowopKind, Place, Transaction, Until};
use crate::profile::options::{Options, Size};

/// Of one batch, which takes some milliseconds.
const PASSES: u64 = 100_000;
/// The cheapest of so many counts: the others were disturbed.
const BATCHES: usize = 50;

/// Moves everything and nothing.
struct Nothing;

impl Stream for Nothing {
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(black_box(buffer).len())
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(black_box(bytes).len())
    }

    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read(buffer)
    }

    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.write(bytes)
    }

    fn send_file(&self, _: &File, _: &mut i64, count: usize) -> io::Result<usize> {
        Ok(count)
    }

    fn wait(&self, _: Readiness, _: Duration) -> io::Result<bool> {
        Ok(true)
    }

    fn shut(&self) {}
}

impl Network for Nothing {
    type Stream = Self;

    fn connect(&mut self, _: &Opening) -> io::Result<Self> {
        Ok(Self)
    }

    fn accept(&mut self, _: &Opening) -> io::Result<Option<Self>> {
        Ok(Some(Self))
    }
}

impl Observer for Nothing {
    fn at_gate(&mut self, _: usize, _: u64) {}
}

/// Nanoseconds of one pass of a write and a read, for the master (which keeps a histogram) and the slave; and of the one
/// clock reading that is in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overhead {
    /// At the master.
    pub master_ns: f64,
    /// At the slave.
    pub slave_ns: f64,
    /// Of that, CLOCK_MONOTONIC.
    pub clock_ns: f64,
}

/// Measures it, in CPU time.
pub fn measure() -> Overhead {
    let best = |batch: &dyn Fn() -> u64| {
        let batches = (0..BATCHES).map(|_| batch());
        batches.min().unwrap_or(0) as f64 / PASSES as f64
    };
    Overhead {
        master_ns: best(&|| batch_ns(Role::Master)),
        slave_ns: best(&|| batch_ns(Role::Slave)),
        clock_ns: best(&clock_ns),
    }
}

fn clock_ns() -> u64 {
    let begin_ns = thread_cpu_ns();
    for _ in 0..PASSES {
        black_box(now_ns());
    }
    thread_cpu_ns() - begin_ns
}

fn batch_ns(role: Role) -> u64 {
    let transactions = vec![
        transaction(1, vec![flowop(FlowopKind::Connect, 1)]),
        transaction(PASSES, vec![flowop(FlowopKind::Write, 200), flowop(FlowopKind::Read, 1000)]),
    ];
    let plan = Plan { role, peer: Peer::Ours, transactions, detail: Detail::default() };
    let control = Arc::new(Control::default());
    control.release(1, now_ns());
    let report = Strand::new(Arc::new(plan), control, Nothing).run(&mut Nothing);
    report.transactions.last().map_or(0, |transaction| transaction.usage.cpu_ns)
}

fn transaction(iterations: u64, flowops: Vec<Flowop>) -> Transaction {
    Transaction { name: String::new(), until: Until::Iterations(iterations), rate: None, flowops }
}

fn flowop(kind: FlowopKind, size: u32) -> Flowop {
    let options = Options { size: Some(Size::Fixed(size)), ..Options::default() };
    Flowop { kind, options, place: Place { line: 1, column: 1 } }
}
