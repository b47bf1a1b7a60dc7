//! The board: a table in a file that all processes of a run share, one entry per connection, where each end
//! says what it is doing and how far it is. Invariant: an end counts bytes after its call returned, and says
//! that it may break the connection before it does so; so an orderly end with fewer bytes than the board's is
//! a loss.

use crate::script::{CLIENTS, Side};
use isthmus_tests::sys;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Connections a run can have.
pub(crate) const CONNECTIONS: u64 = 1 << 21;
const HEAD: usize = 64;
const PER_END: usize = 8;
const STOP: usize = 0;
const FAULTS: usize = 1;
const OVER: usize = 2;
const HOME: usize = 3;
const ASKED: usize = 4;
const NEXT: usize = 8;
const BROKEN: usize = 32;

/// Set by an end that is about to break the connection, or whose process is about to be killed.
pub(crate) const CUT: u64 = 1;
/// An error of the socket has been seen, so that the next end of file proves nothing.
pub(crate) const ERROR: u64 = 2;
/// The end is over.
pub(crate) const DONE: u64 = 4;
/// The end has begun.
pub(crate) const BEGUN: u64 = 8;
/// Most of the bytes went another way than TCP.
pub(crate) const SHARED: u64 = 16;
/// The kernel's TCP carried the bytes.
pub(crate) const OVER_TCP: u64 = 32;
/// Somebody has judged this end already: what follows is no news.
pub(crate) const JUDGED: u64 = 64;

/// The mapping.
#[derive(Clone, Copy)]
pub(crate) struct Board {
    words: &'static [AtomicU64],
}

/// One end of one connection.
#[derive(Clone, Copy)]
pub(crate) struct End {
    words: &'static [AtomicU64],
}

impl Board {
    pub(crate) fn open(path: &Path) -> Board {
        let count = HEAD + CONNECTIONS as usize * 2 * PER_END;
        Board { words: sys::shared_words(path, count).expect("map the board") }
    }

    pub(crate) fn end(self, number: u64, side: Side) -> End {
        let at = HEAD + (number as usize * 2 + side as usize) * PER_END;
        End { words: &self.words[at..at + PER_END] }
    }

    pub(crate) fn stop(self) {
        self.words[STOP].store(1, SeqCst);
    }

    pub(crate) fn stopped(self) -> bool {
        self.words[STOP].load(SeqCst) != 0
    }

    /// From here on everything is ended, and nothing that happens is a fault.
    pub(crate) fn end_all(self) {
        self.words[OVER].store(1, SeqCst);
    }

    pub(crate) fn is_over(self) -> bool {
        self.words[OVER].load(SeqCst) != 0
    }

    /// A server is about to be ended, or was: who waits to be accepted by it may be reset.
    pub(crate) fn break_server(self, port: usize) {
        self.words[BROKEN + port].store(1, SeqCst);
    }

    pub(crate) fn server_broke(self, port: usize) -> bool {
        self.words[BROKEN + port].load(SeqCst) != 0
    }

    pub(crate) fn count_fault(self) {
        self.words[FAULTS].fetch_add(1, SeqCst);
    }

    /// The operator was asked once more, and took so many connections off shared memory.
    pub(crate) fn count_home(self, more: u64) {
        self.words[HOME].fetch_add(more, SeqCst);
        self.words[ASKED].fetch_add(1, SeqCst);
    }

    /// How many connections the operator took off shared memory, and how often he was asked.
    pub(crate) fn home(self) -> [u64; 2] {
        [HOME, ASKED].map(|word| self.words[word].load(SeqCst))
    }

    pub(crate) fn faults(self) -> u64 {
        self.words[FAULTS].load(SeqCst)
    }

    /// The next connection of a client process; `None` when the run is over.
    pub(crate) fn next(self, process: u64) -> Option<u64> {
        let turn = self.words[NEXT + process as usize].fetch_add(1, SeqCst);
        let number = turn * CLIENTS + process;
        (!self.stopped() && number < CONNECTIONS).then_some(number)
    }

    /// No connection from here on has begun.
    pub(crate) fn frontier(self) -> u64 {
        let turns = (0..CLIENTS as usize).map(|p| self.words[NEXT + p].load(SeqCst)).max().unwrap_or(0);
        (turns * CLIENTS).min(CONNECTIONS)
    }
}

impl End {
    fn get(self, i: usize) -> u64 {
        self.words[i].load(SeqCst)
    }

    fn touch(self) {
        self.words[5].store(sys::now_ms(), SeqCst);
    }

    /// The calling thread is the one that acts for this end from here on.
    pub(crate) fn own(self, fd: sys::Fd) {
        let who = (u64::from(std::process::id()) << 32) | sys::thread_id() as u64;
        self.words[0].store(who, SeqCst);
        self.words[7].store(fd as u64, SeqCst);
        self.flag(BEGUN);
    }

    pub(crate) fn pid(self) -> i32 {
        (self.get(0) >> 32) as i32
    }

    pub(crate) fn thread(self) -> i32 {
        self.get(0) as u32 as i32
    }

    pub(crate) fn fd(self) -> i32 {
        self.get(7) as i32
    }

    pub(crate) fn flags(self) -> u64 {
        self.get(1)
    }

    pub(crate) fn is(self, flag: u64) -> bool {
        self.flags() & flag != 0
    }

    pub(crate) fn flag(self, flag: u64) {
        self.words[1].fetch_or(flag, SeqCst);
        self.touch();
    }

    /// Index of the step of the lane; lanes are packed 16 bits apart.
    pub(crate) fn step(self, lane: usize) -> usize {
        ((self.get(2) >> (16 * lane)) & 0xffff) as usize
    }

    pub(crate) fn set_step(self, lane: usize, step: usize) {
        let mask = 0xffff << (16 * lane);
        let new = (step as u64) << (16 * lane);
        let _ = self.words[2].fetch_update(SeqCst, SeqCst, |w| Some((w & !mask) | new));
        self.touch();
    }

    pub(crate) fn sent(self) -> u64 {
        self.get(3)
    }

    pub(crate) fn received(self) -> u64 {
        self.get(4)
    }

    pub(crate) fn add_sent(self, n: usize) {
        self.words[3].fetch_add(n as u64, SeqCst);
        self.touch();
    }

    pub(crate) fn add_received(self, n: usize) {
        self.words[4].fetch_add(n as u64, SeqCst);
        self.touch();
    }

    /// When it last moved.
    pub(crate) fn stamp(self) -> u64 {
        self.get(5)
    }

    /// What the end is about to call, for the report of a hang.
    pub(crate) fn doing(self, what: u64) {
        self.words[6].store(what, SeqCst);
    }

    pub(crate) fn does(self) -> u64 {
        self.get(6)
    }
}
