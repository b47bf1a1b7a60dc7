//! The roles of a ring: who moves bytes. Owns: that there is one of each at a time, and that each word which
//! the peer can write is read once per operation.
//!
//! A role comes out of a side's turn ([`Sending`], [`Receiving`]), or out of the only reference to what it
//! remembers. It holds its own cursor meanwhile: what the peer scribbles over that is not seen, and
//! overwritten. Two turns at once, of a process that was taken for dead, lose bytes, never memory.

use crate::far::{Far, Loaded};
use crate::known::{REBASE_AFTER, RxCache, TxCache};
use crate::layout::{SideBlock, Traffic};
use crate::lock::{Denied, Guard, Owner, Patience};
use crate::ring::{ODD, PeerMisbehaved, Reader, Ring};
use crate::user::{Sink, Supply};
use sync::Ordering;

/// How often it looks: one read of the consumer's line per so many bytes.
const REBASE_EVERY: u64 = 4 * 1024;
/// A longer write to a consumer on another core walks on: its lines cross faster when that core has long let
/// go of those it fills. (30 KiB back and forth: 160 thousand a second with the whole ring, 130 with its
/// begin; small ones do not care.) Where many share the cores, few pages are better: 50 pairs 16 % more.
const REBASE_UP_TO: usize = 8 * 1024;

macro_rules! turn {
    ($name:ident, $field:ident, $what:literal) => {
        #[doc = concat!("The turn of a side to ", $what, ", given back on drop.")]
        #[derive(Debug)]
        pub struct $name<'a> {
            traffic: &'a Traffic,
            _guard: Guard<'a>,
        }

        impl<'a> $name<'a> {
            /// Waits as long as a living owner has it.
            #[inline]
            pub fn take(side: &'a SideBlock, me: Owner, patience: &impl Patience) -> Result<Self, Denied> {
                let traffic = &side.$field.0;
                traffic.lock.lock(me, patience).map(|guard| $name { traffic, _guard: guard })
            }

            /// Only if nobody has it.
            #[inline]
            pub fn try_take(side: &'a SideBlock, me: Owner) -> Option<Self> {
                let traffic = &side.$field.0;
                traffic.lock.try_lock(me).map(|guard| $name { traffic, _guard: guard })
            }

            /// Counts one call that moved `bytes` bytes.
            #[inline]
            pub fn count(&self, bytes: usize) {
                self.traffic.count(bytes);
            }
        }
    };
}
turn!(Sending, tx, "send");
turn!(Receiving, rx, "receive");

impl Sending<'_> {
    /// Ends the turn of `side` to send into `ring`, for good, if nobody has it; from either end. The peer is
    /// to be rung, and whoever waits for room.
    #[must_use]
    pub fn end(side: &SideBlock, ring: &Ring) -> bool {
        let has_ended = side.tx.0.lock.end();
        if has_ended && !ring.has_ended_for_good() {
            ring.note_end_for_good();
        }
        has_ended
    }

    /// The producer of `ring`, the side's outgoing one.
    #[inline]
    pub fn producer<'t>(&'t mut self, ring: &'t Ring, known: &'t TxCache) -> Producer<'t> {
        Producer::of(ring, known, Loaded(&ring.words().consumer.0.cons))
    }
}

impl Receiving<'_> {
    /// The consumer of `ring`, the side's incoming one.
    #[inline]
    pub fn consumer<'t>(&'t mut self, ring: &'t Ring, known: &'t RxCache) -> Consumer<'t> {
        Consumer::of(ring, known, Loaded(&ring.words().producer.0.prod))
    }
}

/// Who writes into a ring.
#[derive(Debug)]
pub struct Producer<'t, F = Loaded<'t>> {
    pub(crate) ring: &'t Ring,
    known: &'t TxCache,
    far: F,
    /// Bytes written so far.
    pub(crate) at: u64,
    /// How far the consumer is known to be, and whether that was seen in this operation.
    freed: u64,
    is_fresh: bool,
}

/// How much of `wanted` bytes is put where `free` are free: what does not fit does not fill it to the brim.
#[inline(always)]
fn fitting(wanted: usize, free: usize) -> usize {
    if free < wanted { free.saturating_sub(ODD) } else { wanted }
}

impl<'t> Producer<'t> {
    /// For whoever has the only reference to what it remembers.
    #[inline]
    pub fn alone(ring: &'t Ring, known: &'t mut TxCache) -> Self {
        Producer::of(ring, known, Loaded(&ring.words().consumer.0.cons))
    }
}

impl<'t, F: Far> Producer<'t, F> {
    /// The same with another source of the consumer's cursor.
    #[inline]
    pub fn alone_with(ring: &'t Ring, known: &'t mut TxCache, far: F) -> Self {
        Producer::of(ring, known, far)
    }

    #[inline]
    fn of(ring: &'t Ring, known: &'t TxCache, far: F) -> Self {
        let at = ring.written();
        let freed = if F::IS_MAPPED { known.cons.load(Ordering::Relaxed) } else { far.cursor() };
        Producer { ring, known, far, at, freed, is_fresh: false }
    }

    /// Whether `wanted` bytes would fit; the consumer is looked at only if what is known says no.
    #[inline(always)]
    pub fn has_room(&mut self, wanted: usize) -> Result<bool, PeerMisbehaved> {
        self.is_fresh = false;
        self.free_for(wanted).map(|free| free >= wanted)
    }

    /// Copies up to one chunk of `src` into the ring and publishes it. Returns how many bytes; 0 if full, or
    /// if the supply has ended.
    #[inline(always)]
    pub fn write(&mut self, src: impl Supply, reader: Reader) -> Result<usize, PeerMisbehaved> {
        let wanted = src.len().min(self.ring.chunk());
        let free = self.free_for(wanted)?;
        Ok(self.publish(src, wanted.min(free), reader))
    }

    /// The same with all of `src` or nothing: `false` if it has no room, is more than a chunk, or may end
    /// before its time.
    #[inline(always)]
    pub fn write_whole<S: Supply>(&mut self, src: S, reader: Reader) -> Result<bool, PeerMisbehaved> {
        let len = src.len();
        if !S::IS_WHOLE || len > self.ring.chunk() || self.free_for(len)? < len {
            return Ok(false);
        }
        self.publish(src, len, reader);
        Ok(true)
    }

    /// Copies as much of `src` as there is room for, but `most` bytes at most; the consumer is to see it with
    /// the next [`show`](Self::show). Returns how many bytes; 0 if full, or if the supply has ended.
    #[inline(always)]
    pub fn lay(&mut self, src: impl Supply, most: usize, reader: Reader) -> Result<usize, PeerMisbehaved> {
        let wanted = src.len().min(most);
        let walks_on = reader != Reader::InTurn && src.len() > REBASE_UP_TO;
        let free = self.free_for(wanted)?;
        let (_, count) = self.put(src, fitting(wanted, free), walks_on);
        self.is_fresh = false;
        Ok(count)
    }

    /// Publishes what was laid, `count` bytes.
    #[inline]
    pub fn show(&mut self, count: usize, reader: Reader) {
        sync::publish(&self.ring.words().producer.0.prod, self.at);
        if reader == Reader::Waiting {
            let base = self.ring.words().producer.0.base.load(Ordering::Relaxed);
            self.ring.hand_over(self.at.wrapping_sub(count as u64).wrapping_sub(base), count);
        }
    }

    /// The same, but the consumer is not to see it yet: see `hold`.
    pub fn write_held(&mut self, src: impl Supply, due: u64) -> Result<usize, PeerMisbehaved> {
        let wanted = src.len().min(self.ring.piece());
        let free = self.free_for(wanted)?;
        let (_, count) = self.put(src, fitting(wanted, free), false);
        self.ring.hold(self.at, due);
        self.is_fresh = false;
        Ok(count)
    }

    #[inline(always)]
    fn put(&mut self, src: impl Supply, count: usize, walks_on: bool) -> (u64, usize) {
        let from = self.at.wrapping_sub(self.base(walks_on));
        let count = self.ring.copy_in(from, src, count);
        self.at = self.at.wrapping_add(count as u64);
        (from, count)
    }

    #[inline(always)]
    fn publish(&mut self, src: impl Supply, count: usize, reader: Reader) -> usize {
        let walks_on = reader != Reader::InTurn && src.len() > REBASE_UP_TO;
        let (from, count) = self.put(src, count, walks_on);
        sync::publish(&self.ring.words().producer.0.prod, self.at);
        if reader == Reader::Waiting {
            self.ring.hand_over(from, count);
        }
        self.is_fresh = false;
        count
    }

    #[inline(always)]
    fn free_for(&mut self, wanted: usize) -> Result<usize, PeerMisbehaved> {
        let size = self.ring.size();
        let used = self.at.wrapping_sub(self.freed);
        if used <= size as u64 && size - used as usize >= wanted {
            return Ok(size - used as usize);
        }
        self.look();
        Ok(size - self.ring.bounded(self.at.wrapping_sub(self.freed))?)
    }

    #[inline(always)]
    fn look(&mut self) {
        if !self.is_fresh {
            self.freed = self.far.cursor();
            self.known.cons.store(self.freed, Ordering::Relaxed);
            self.is_fresh = true;
        }
    }

    /// The base in force. Starts over at offset 0 if the ring has been walked a while and is empty right now.
    #[inline(always)]
    fn base(&mut self, walks_on: bool) -> u64 {
        let base = self.ring.words().producer.0.base.load(Ordering::Relaxed);
        if !F::IS_MAPPED || walks_on || self.at < self.known.next_rebase.load(Ordering::Relaxed) {
            return base;
        }
        self.rebase(base)
    }

    #[inline(always)]
    fn rebase(&mut self, base: u64) -> u64 {
        self.look();
        let is_empty = self.freed == self.at;
        let next = if is_empty { REBASE_AFTER } else { REBASE_EVERY };
        self.known.next_rebase.store(self.at.wrapping_add(next), Ordering::Relaxed);
        if !is_empty {
            return base;
        }
        // The consumer reads the base only after it has seen a producer cursor beyond ours, published later.
        self.ring.words().producer.0.base.store(self.at, Ordering::Relaxed);
        self.at
    }
}

/// Who reads from a ring.
#[derive(Debug)]
pub struct Consumer<'t, F = Loaded<'t>> {
    pub(crate) ring: &'t Ring,
    known: &'t RxCache,
    far: F,
    /// Bytes read so far.
    pub(crate) at: u64,
}

impl<'t> Consumer<'t> {
    /// For whoever has the only reference to what it remembers.
    #[inline]
    pub fn alone(ring: &'t Ring, known: &'t mut RxCache) -> Self {
        Consumer::of(ring, known, Loaded(&ring.words().producer.0.prod))
    }
}

impl<'t, F: Far> Consumer<'t, F> {
    /// The same with another source of the producer's cursor.
    #[inline]
    pub fn alone_with(ring: &'t Ring, known: &'t mut RxCache, far: F) -> Self {
        Consumer::of(ring, known, far)
    }

    #[inline]
    fn of(ring: &'t Ring, known: &'t RxCache, far: F) -> Self {
        Consumer { ring, known, far, at: ring.words().consumer.0.cons.load(Ordering::Relaxed) }
    }

    /// Copies up to one chunk out of the ring to `dst` and frees it. Returns how many bytes; 0 if empty.
    #[inline(always)]
    pub fn read(&mut self, dst: Sink<'_>) -> Result<usize, PeerMisbehaved> {
        let wanted = dst.len().min(self.ring.chunk());
        let count = wanted.min(self.available(wanted)?);
        if count > 0 {
            self.copy(0, dst, count);
            self.advance(count);
        }
        Ok(count)
    }

    /// Copies without freeing, starting `skip` bytes into what is available. Returns how many bytes were
    /// copied.
    pub fn peek(&mut self, skip: usize, dst: Sink<'_>) -> Result<usize, PeerMisbehaved> {
        let count = dst.len().min(self.available_now()?.saturating_sub(skip));
        self.copy(skip as u64, dst, count);
        Ok(count)
    }

    /// Frees up to `len` bytes unseen; returns how many.
    pub fn discard(&mut self, len: usize) -> Result<usize, PeerMisbehaved> {
        let count = len.min(self.available(len)?);
        self.advance(count);
        Ok(count)
    }

    /// The `count` bytes that this role discarded last are to be read after all. Only where the producer has
    /// ended, for their room is its own again, and nobody has read since.
    pub fn restore(&mut self, count: usize) {
        self.at = self.at.wrapping_sub(count as u64);
        self.ring.words().consumer.0.cons.store(self.at, Ordering::Release);
    }

    /// Bytes ready right now.
    #[inline(always)]
    pub fn available_now(&mut self) -> Result<usize, PeerMisbehaved> {
        let prod = self.far.cursor();
        let base = self.ring.words().producer.0.base.load(Ordering::Relaxed);
        self.known.base.store(base, Ordering::Relaxed);
        self.known.prod.store(prod, Ordering::Relaxed);
        self.ring.bounded(prod.wrapping_sub(self.at))
    }

    /// Bytes ready for somebody who wants `wanted`; the producer is looked at only if fewer are known of.
    /// (Never fewer than there are: a program that takes a short read for "drained" must be right.)
    #[inline(always)]
    fn available(&mut self, wanted: usize) -> Result<usize, PeerMisbehaved> {
        let known = self.known.prod.load(Ordering::Relaxed).wrapping_sub(self.at);
        if known >= wanted as u64 && known <= self.ring.size() as u64 {
            return Ok(known as usize);
        }
        self.available_now()
    }

    #[inline(always)]
    fn copy(&self, skip: u64, dst: Sink<'_>, count: usize) {
        let base = self.known.base.load(Ordering::Relaxed);
        self.ring.copy_out(self.at.wrapping_add(skip).wrapping_sub(base), dst, count);
    }

    #[inline(always)]
    fn advance(&mut self, count: usize) {
        self.at = self.at.wrapping_add(count as u64);
        self.ring.words().consumer.0.cons.store(self.at, Ordering::Release);
    }
}
