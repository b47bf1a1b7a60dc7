//! Whether a set is waited on by functions of libc (`unseen`). Owns: that who finds it so finds what was
//! asked before taken up.

use sync::AtomicU32;
use sync::Ordering::{Acquire, Relaxed, SeqCst};

/// What is known of that.
pub(crate) struct Waited {
    by: AtomicU32,
    has_listeners: AtomicU32,
    has_sets: AtomicU32,
    is_in_a_set: AtomicU32,
}

/// A first wait has begun; and has taken up what was asked before it.
const BEGUN: u32 = 1;
const TAKEN_UP: u32 = 2;

impl Waited {
    pub(super) fn new() -> Self {
        let [by, has_listeners, has_sets, is_in_a_set] = [0; 4].map(AtomicU32::new);
        Waited { by, has_listeners, has_sets, is_in_a_set }
    }

    /// For another set.
    pub(super) fn reset(&self) {
        let Waited { by, has_listeners, has_sets, is_in_a_set } = self;
        [by, has_listeners, has_sets, is_in_a_set].iter().for_each(|word| word.store(0, Relaxed));
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
        let _ = self.by.compare_exchange(BEGUN, TAKEN_UP, SeqCst, SeqCst);
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

    /// This one goes into `outer`.
    pub(crate) fn note_nested(&self, outer: &Waited) {
        self.is_in_a_set.store(1, SeqCst);
        outer.has_sets.store(1, SeqCst);
    }

    /// Whether sets are in it, or were.
    pub(crate) fn has_sets(&self) -> bool {
        self.has_sets.load(SeqCst) != 0
    }

    /// Whether it is in a set, or was.
    pub(crate) fn is_in_a_set(&self) -> bool {
        self.is_in_a_set.load(SeqCst) != 0
    }

    /// Whether it is in a set, and not waited on yet.
    pub(crate) fn is_told_by_another(&self) -> bool {
        self.is_in_a_set() && !self.is_finished()
    }
}
