//! Bytes that are written and not yet to be seen, as TCP holds a partial segment back (MSG_MORE, TCP_CORK).
//!
//! Owns: that what is held comes out in time, whoever looks. `held` is the cursor behind such bytes, `due`
//! when they are to be seen all the same. The producer lets them out with whatever it writes without
//! holding, for then its cursor is `prod` again; anybody else by raising `prod` to `held`. Both only ever
//! raise it, and the producer never stores less than it held: so who raises it late undoes nothing. Checked
//! with loom in `loom_hold`.
//!
//! No thread of ours keeps time: a consumer that finds nothing but held bytes sleeps until they are due, at
//! most.

use crate::ring::Ring;
use sync::Ordering;

impl Ring {
    /// The producer's cursor: behind all that is written, seen or held.
    #[inline]
    pub(crate) fn written(&self) -> u64 {
        let words = &self.words().producer.0;
        let (prod, held) = (words.prod.load(Ordering::Acquire), words.held.load(Ordering::Relaxed));
        prod.max(held)
    }

    /// What was written up to `at` and is not to be seen is held; from the first such byte on until `due`.
    pub(crate) fn hold(&self, at: u64, due: u64) {
        let words = &self.words().producer.0;
        if !self.is_holding() {
            words.due.store(due, Ordering::Relaxed);
        }
        words.held.store(at, Ordering::Release);
    }

    /// Whether bytes are held back.
    #[inline]
    pub fn is_holding(&self) -> bool {
        let words = &self.words().producer.0;
        words.held.load(Ordering::Acquire) > words.prod.load(Ordering::Relaxed)
    }

    /// How many bytes are held back, as the words say. (A measure alone: the words may lie.)
    #[inline]
    pub fn held_bytes(&self) -> u64 {
        let words = &self.words().producer.0;
        words.held.load(Ordering::Acquire).saturating_sub(words.prod.load(Ordering::Relaxed))
    }

    /// When what is held back is to be seen; a number on the producer's clock.
    pub fn due(&self) -> u64 {
        self.words().producer.0.due.load(Ordering::Relaxed)
    }

    /// Nothing is held back any more. Whether anything was; the consumer is to be rung then.
    pub fn let_out(&self) -> bool {
        let words = &self.words().producer.0;
        // (Who changes the words for ever is not followed.)
        for _ in 0..4 {
            let prod = words.prod.load(Ordering::Acquire);
            let held = words.held.load(Ordering::Acquire);
            if held <= prod {
                return false;
            }
            // (No maximum: in a slot that was lent again meanwhile the number seen is not there any more.)
            if words.prod.compare_exchange(prod, held, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return true;
            }
        }
        false
    }
}
