//! One end of a connection: its script, its descriptors, and where it stands by the board. Invariant: any
//! process that has the descriptor can go on with it.

use crate::board::{DONE, End, OVER_TCP, SHARED};
use crate::run::{fault, run};
use crate::script::{Plan, Script, Side};
use crate::stream::Stream;
use crate::style::Want;
use isthmus_tests::sys::{self, Fd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering::SeqCst};

/// List of steps: the lanes are 0 and 1.
pub(crate) const FINALE: usize = 2;

/// What came of driving a list of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Would block.
    Wait(Want),
    /// The list is through.
    Finished,
    /// The connection has another descriptor or process now; wait for nothing.
    Moved,
    /// The connection is over at this end.
    Over,
    /// Another process has seen to the rest.
    Gone,
}

/// One end.
pub(crate) struct Connection {
    pub(crate) script: Script,
    pub(crate) side: Side,
    fd: AtomicI32,
    /// Further descriptors of the same socket.
    pub(crate) copies: Mutex<Vec<Fd>>,
    /// Children to be collected.
    pub(crate) children: Mutex<Vec<i32>>,
    /// Stop before this step of the first lane.
    pub(crate) until: AtomicUsize,
    has_gone_home: AtomicBool,
    pub(crate) mine: End,
    pub(crate) theirs: End,
    pub(crate) outgoing: Stream,
    pub(crate) incoming: Stream,
}

impl Connection {
    pub(crate) fn new(number: u64, side: Side, fd: Fd) -> Connection {
        let run = run();
        let mine = run.board.end(number, side);
        mine.own(fd);
        Connection {
            script: Script::of(run.seed, number),
            side,
            fd: AtomicI32::new(fd),
            copies: Mutex::default(),
            children: Mutex::default(),
            until: AtomicUsize::new(usize::MAX),
            has_gone_home: AtomicBool::new(false),
            mine,
            theirs: run.board.end(number, side.other()),
            outgoing: Stream::new(run.seed, number, side),
            incoming: Stream::new(run.seed, number, side.other()),
        }
    }

    pub(crate) fn fd(&self) -> Fd {
        self.fd.load(SeqCst)
    }

    /// The connection goes on under another descriptor, or in another process.
    pub(crate) fn moved(&self, fd: Fd) {
        self.fd.store(fd, SeqCst);
        self.mine.own(fd);
    }

    /// `true` the first time.
    pub(crate) fn goes_home_once(&self) -> bool {
        !self.has_gone_home.swap(true, SeqCst)
    }

    pub(crate) fn plan(&self) -> &Plan {
        self.script.plan(self.side)
    }

    pub(crate) fn fault(&self, class: &str, detail: &str) {
        fault(class, Some((self.script.number, self.side)), &detail);
    }

    /// Says which way the bytes went, while the socket is there to be asked. (A client's may have been there
    /// before its server looked: that they came over TCP says nothing.)
    pub(crate) fn note_carrier(&self) {
        let got = self.mine.received();
        let Some((carried, _)) = sys::tcp_bytes(self.fd()).filter(|_| got >= 2000) else { return };
        if carried < got / 2 {
            self.mine.flag(SHARED);
        } else if self.side == Side::Client {
            self.mine.flag(OVER_TCP);
        }
    }

    /// Closes all descriptors of the socket.
    pub(crate) fn close(&self) {
        for copy in std::mem::take(&mut *self.copies.lock().expect("no panic")) {
            let _ = sys::close(copy);
        }
        let _ = sys::close(self.fd.swap(-1, SeqCst));
    }

    /// This end is over.
    pub(crate) fn finish(&self) {
        if self.fd() >= 0 {
            self.note_carrier();
            self.close();
        }
        self.mine.flag(DONE);
        for child in std::mem::take(&mut *self.children.lock().expect("no panic")) {
            let _ = sys::reap(child, 0);
        }
    }
}
