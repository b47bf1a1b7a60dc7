//! Descriptors that several threads use by number, and that one of them may take away. Owns: that nobody uses
//! a number after it was taken away: it may be another file's by then.
//!
//! Who uses a number says so first (it holds what the number belongs to), and reads it then; who takes it
//! away does that first, and then looks whether anybody has said so. One of them sees the other
//! (store-buffering, all in one order): who comes late finds none, and for who is seen it stays where it was.
//! Checked with loom in `loom_lent`.
//!
//! Private memory of one process.

use sync::{AtomicI32, Ordering};

/// Two numbers that come and go together, -1 for none.
#[derive(Debug)]
pub struct Lent([AtomicI32; 2]);

impl Default for Lent {
    fn default() -> Self {
        Self::new()
    }
}

impl Lent {
    /// None.
    pub fn new() -> Self {
        Lent([AtomicI32::new(-1), AtomicI32::new(-1)])
    }

    /// The places, for who makes and closes them while nobody uses them.
    pub fn places(&self) -> &[AtomicI32; 2] {
        &self.0
    }

    /// A number, for who has said that he uses it; -1 for none.
    #[inline]
    pub fn number(&self, which: usize) -> i32 {
        sync::in_one_order();
        self.0[which].load(Ordering::SeqCst)
    }

    /// Takes both away, unless `is_used`, which looks (in that one order) who has said so: then they are
    /// where they were, and whoever came meanwhile has found none. One at a time.
    pub fn take_away(&self, is_used: impl FnOnce() -> bool) -> Result<[i32; 2], [i32; 2]> {
        let taken = self.0.each_ref().map(|number| number.swap(-1, Ordering::SeqCst));
        sync::in_one_order();
        if !is_used() {
            return Ok(taken);
        }
        for (place, number) in self.0.iter().zip(taken) {
            place.store(number, Ordering::SeqCst);
        }
        Err(taken)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_is_taken_away_later() {
        let lent = Lent::new();
        for (place, number) in lent.places().iter().zip([7, 8]) {
            place.store(number, Ordering::Relaxed);
        }
        assert_eq!(lent.take_away(|| true), Err([7, 8]));
        assert_eq!([0, 1].map(|which| lent.number(which)), [7, 8]);
        assert_eq!((lent.take_away(|| false), lent.number(0)), (Ok([7, 8]), -1));
    }
}
