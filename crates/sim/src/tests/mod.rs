//! The tests, and what they share.

mod costs;
mod ends;
mod handlers;
mod harness;
mod home;
mod lives;
mod numbers;
mod random;
mod readiness;
mod sets;
mod settings;
mod two_processes;

use crate::program::Program;
use std::sync::LazyLock;

pub(crate) const PORT: u16 = 4000;

pub(crate) fn listen(program: &Program) -> i32 {
    let listener = program.socket().unwrap();
    program.bind(listener, PORT).unwrap();
    program.listen(listener, 16).unwrap();
    listener
}

/// Connects as soon as somebody listens.
pub(crate) fn connect(program: &Program) -> i32 {
    loop {
        let fd = program.socket().unwrap();
        match program.connect(fd, PORT) {
            Ok(()) => return fd,
            Err(_) => _ = program.close(fd).unwrap(),
        }
        program.nap(1_000_000);
    }
}

/// Bytes that a reader can check wherever they were cut: each place in the stream has its own.
pub(crate) struct Pattern(Vec<u8>);

impl Pattern {
    /// No power of two divides it, and no size of a ring.
    const PERIOD: usize = 1_000_003;

    /// The one that all tests use.
    pub(crate) fn get() -> &'static Self {
        static PATTERN: LazyLock<Pattern> = LazyLock::new(Pattern::new);
        &PATTERN
    }

    fn new() -> Self {
        let mut bytes = vec![0; 2 * Self::PERIOD];
        testkit::Stream::new(1).fill(&mut bytes[..Self::PERIOD]);
        bytes.copy_within(..Self::PERIOD, Self::PERIOD);
        Pattern(bytes)
    }

    /// `len` bytes from `at` on; at most a million.
    pub(crate) fn at(&self, at: u64, len: usize) -> &[u8] {
        let from = (at % Self::PERIOD as u64) as usize;
        &self.0[from..from + len]
    }
}
