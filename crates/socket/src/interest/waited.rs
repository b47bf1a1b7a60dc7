//! Whether a set is waited on by functions of libc (`unseen`). Owns: that who finds it so finds what was
//! asked before taken up.

use sync::AtomicU32;
use sync::Ordering::{Acquire, Relaxed, SeqCst};

/// What is known of that.
pub(crate) struct Waited {
    by: AtomicU32,
    has_listeners: AtomicU32,
}

/// A first wait has begun; and has taken up what was asked before it.
const BEGUN: u32 = 1;
const TAKEN_UP: u32 = 2;

impl Waited {
    pub(super) fn new() -> Self {
        Waited { by: AtomicU32::new(0), has_listeners: AtomicU32::new(0) }
    }

    /// For another set.
    pub(super) fn reset(&self) {
        self.by.store(0, Relaxed);
        self.has_listeners.store(0, Relaxed);
    }

    /// A function of libc is about to wait on it for the first time.
    pub(crate) fn begin(&self) {
        let _ = self.by.compare_exchange(0, BEGUN, SeqCst, SeqCst);
    }

    /// Whether one was, or is.
    pub(crate) fn has_begun(&self) -> bool {
        self.by.load(SeqCst) != 0
    }

    /// What was asked of it before is taken up.
    pub(crate) fn finish(&self) {
        self.by.store(TAKEN_UP, SeqCst);
    }

    /// Whether that is so.
    #[inline]
    pub(crate) fn is_finished(&self) -> bool {
        self.by.load(Acquire) == TAKEN_UP
    }

    /// A listener is in it.
    pub(crate) fn note_listener(&self) {
        self.has_listeners.store(1, SeqCst);
    }

    /// Whether one is, or was.
    pub(crate) fn has_listeners(&self) -> bool {
        self.has_listeners.load(SeqCst) != 0
    }
}
