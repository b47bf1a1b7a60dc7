//! A detour: a stretch of a direction's bytes that runs on TCP, between two that run in the ring, or for
//! good.
//!
//! Owns: the order of bytes across the two ways. The words: `end`, the ring cursor from which the direction
//! is on TCP, or [`NO_END`]; `sent`, what the producer has put into TCP in all stretches; `taken`, what the
//! consumer has read from there.
//!
//! The producer opens a stretch by `end`, and publishes nothing in the ring before it has gone back, which it
//! does only once `taken` equals `sent`. So ring bytes behind a stretch exist only after all of its TCP bytes
//! were read, and a consumer who finds the ring empty and `end` at its own cursor has its next bytes on TCP.
//! Between that look and its read the producer could go back, fill the ring and open another stretch:
//! therefore the consumer raises a bit of `taken` first and looks at `end` again, and the producer takes
//! `end` away first and looks at `taken` again (store-buffering, a full fence on both sides): one of them
//! sees the other. Checked with loom in `loom_detour`.
//!
//! A client's direction begins with a stretch, at cursor 0: it writes before the server has answered, and no
//! byte of it may lie where a server that speaks TCP does not look.
//!
//! Whoever reads without counting (another program, a call that is libc's), or dies over a read, leaves
//! `taken` behind: the producer stays on TCP then, which is right.

use crate::far::Far;
use crate::ring::{NO_END, Ring};
use crate::roles::{Consumer, Producer};
use sync::{Ordering, fence};

/// In `sent` and `taken`: bytes are just being moved.
const UNDER_WAY: u64 = 1 << 63;
/// `sent` of a direction that never goes back: nothing is counted any more.
const FOR_GOOD: u64 = u64::MAX;

/// What became of the way back to the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Back {
    /// The direction runs in the ring.
    InRing,
    /// It is on TCP still: the consumer has not read all of that.
    NotYet,
    /// The same, but the consumer may have seen the stretch closed for a moment, and is to be rung.
    Opened,
}

impl Ring {
    /// Whether the direction stays on TCP, and its bytes there are not counted.
    #[inline]
    pub fn has_ended_for_good(&self) -> bool {
        self.has_ended() && self.words().producer.0.sent.load(Ordering::Relaxed) == FOR_GOOD
    }

    /// The turn to send into it has ended: its cursor stands for good, and the direction is on TCP from
    /// there. Whoever finds that out may say so, for they all say the same.
    pub fn note_end_for_good(&self) {
        self.let_out();
        let words = &self.words().producer.0;
        words.sent.store(FOR_GOOD, Ordering::Relaxed);
        words.end.store(self.written(), Ordering::Release);
    }

    /// How far the consumer has come, on both ways. (A measure of movement alone: a consumer that lies
    /// moves.)
    pub fn progress(&self) -> u64 {
        let words = &self.words().consumer.0;
        let taken = words.taken.load(Ordering::Relaxed) & !UNDER_WAY;
        words.cons.load(Ordering::Relaxed).wrapping_add(taken)
    }

    /// In the stretch that the direction begins with: how much of what a ring takes has not been put there.
    pub fn left_to_begin_with(&self) -> usize {
        let words = &self.words().producer.0;
        let sent = words.sent.load(Ordering::Relaxed);
        if words.end.load(Ordering::Relaxed) != 0 || sent == FOR_GOOD {
            return 0;
        }
        self.size().saturating_sub((sent & !UNDER_WAY) as usize)
    }

    /// How much was put there that the consumer has not read.
    pub fn begun_with(&self) -> usize {
        let words = self.words();
        let [sent, taken] = [&words.producer.0.sent, &words.consumer.0.taken]
            .map(|word| word.load(Ordering::Relaxed) & !UNDER_WAY);
        if words.producer.0.end.load(Ordering::Relaxed) == 0 { sent.wrapping_sub(taken) as usize } else { 0 }
    }

    /// How much was put into TCP that the consumer has not read; `None` where that is not counted, or changes
    /// just now. (The consumer's word: it tells how long to wait, no more.)
    pub fn unread_outside(&self) -> Option<u64> {
        let words = self.words();
        let sent = words.producer.0.sent.load(Ordering::Relaxed);
        let taken = words.consumer.0.taken.load(Ordering::Relaxed);
        if (sent | taken) & UNDER_WAY == 0 { Some(sent.wrapping_sub(taken)) } else { None }
    }

    /// Whether the consumer has read all that was put into TCP.
    pub fn is_caught_up(&self) -> bool {
        let sent = self.words().producer.0.sent.load(Ordering::Relaxed);
        sent & UNDER_WAY == 0 && self.words().consumer.0.taken.load(Ordering::Acquire) == sent
    }
}

impl<F: Far> Producer<'_, F> {
    /// Opens a stretch, if none is open: from here on the bytes are on TCP. The consumer is to be rung, who
    /// may not be looking there.
    pub fn open_detour(&self) {
        self.ring.let_out();
        self.ring.words().producer.0.end.store(self.at, Ordering::Release);
    }

    /// The direction stays on TCP, uncounted. The consumer is to be rung.
    pub fn go_for_good(&self) {
        self.ring.words().producer.0.sent.store(FOR_GOOD, Ordering::Relaxed);
        self.open_detour();
    }

    /// In a stretch: goes back to the ring, if all was read.
    #[must_use]
    pub fn go_back(&self) -> Back {
        let words = &self.ring.words().producer.0;
        if !self.ring.is_caught_up() {
            return Back::NotYet;
        }
        words.end.store(NO_END, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if self.ring.is_caught_up() {
            return Back::InRing;
        }
        self.open_detour();
        Back::Opened
    }

    /// In a stretch: puts bytes into TCP by `send`, which says how many.
    pub fn send_outside<E>(&self, send: impl FnOnce() -> Result<usize, E>) -> Result<usize, E> {
        let sent = &self.ring.words().producer.0.sent;
        let before = sent.load(Ordering::Relaxed);
        if before & UNDER_WAY != 0 {
            // Somebody died over a send: how much TCP took of it nobody knows.
            sent.store(FOR_GOOD, Ordering::Relaxed);
            return send();
        }
        sent.store(before | UNDER_WAY, Ordering::Relaxed);
        let done = send();
        let count = done.as_ref().map_or(0, |count| *count as u64);
        sent.store(before.wrapping_add(count) & !UNDER_WAY, Ordering::Release);
        done
    }
}

impl<F: Far> Consumer<'_, F> {
    /// Takes bytes from TCP by `take`, which says how many, if the next ones are there; `None` if not.
    pub fn take_outside<E>(&mut self, take: impl FnOnce() -> Result<usize, E>) -> Option<Result<usize, E>> {
        let before = self.begin_outside()?;
        let done = take();
        let count = done.as_ref().map_or(0, |count| *count as u64);
        // (Raised before, it stays up.)
        self.ring.words().consumer.0.taken.store(before.wrapping_add(count), Ordering::Release);
        Some(done)
    }

    /// Whether the next bytes are on TCP, and stay there: they are read by somebody who does not count.
    #[must_use]
    pub fn leave_outside(&mut self) -> bool {
        self.begin_outside().is_some()
    }

    /// Keeps the producer from going back if the next bytes are on TCP; what was counted so far.
    fn begin_outside(&self) -> Option<u64> {
        let words = self.ring.words();
        if words.producer.0.end.load(Ordering::Relaxed) != self.at {
            return None;
        }
        let taken = &words.consumer.0.taken;
        let before = taken.load(Ordering::Relaxed);
        taken.store(before | UNDER_WAY, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if words.producer.0.end.load(Ordering::Acquire) == self.at {
            return Some(before);
        }
        taken.store(before, Ordering::Release);
        None
    }
}
