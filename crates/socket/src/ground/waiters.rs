//! Who waits for a socket, as far as that is known (`unseen`). Owns: that what is known only grows, until the
//! object is another socket's.

use sync::AtomicU8;
use sync::Ordering::{AcqRel, Acquire, Relaxed};

/// What is known of who waits for a socket.
pub(crate) struct Waiters(AtomicU8);

/// poll or select has named it, or a set was waited on that has it (of a listener).
pub(crate) const SEEN: u8 = 1;
/// A listener in a set.
pub(crate) const IN_A_SET: u8 = 2;
/// A listener that had nothing to accept.
pub(crate) const NO_CLIENT: u8 = 4;
/// Sets that no function of libc has made, and an io_uring, were looked for; and one may have it.
pub(crate) const LOOKED: u8 = 8;
pub(crate) const ELSEWHERE: u8 = 16;
/// It was taken out of a set that could have told of room.
pub(crate) const HAD_ROOM: u8 = 32;

impl Waiters {
    pub(crate) const fn new() -> Self {
        Waiters(AtomicU8::new(0))
    }

    /// For another socket.
    pub(crate) fn reset(&self) {
        self.0.store(0, Relaxed);
    }

    #[inline]
    pub(crate) fn has(&self, mark: u8) -> bool {
        self.0.load(Acquire) & mark != 0
    }

    #[inline]
    pub(crate) fn mark(&self, mark: u8) {
        if !self.has(mark) {
            self.0.fetch_or(mark, AcqRel);
        }
    }
}
