//! The ring: one direction of a connection, single producer, single consumer, bytes only.
//!
//! Owns: the meaning of the cursors. Both count bytes since the slot was taken, never wrap in practice (u64) and live on
//! cache lines of their own; each side caches the other's cursor, so the remote line is read only when the cached
//! value says "full" or "empty". A byte with cursor `c` lies at `(c - base) & (size - 1)`; the producer moves `base`
//! when the ring is empty, so that small messages keep using the same few pages instead of walking the whole ring.
//! Callers serialise each side (`lock`): "single" means one at a time.

use crate::copy::{copy_run, hand_over};
use crate::sync::{AtomicU64, Ordering};
use crate::user::{Sink, Supply};
use crate::wait::WaitWord;
use core::ptr::NonNull;

/// `end` while the producer has not moved back to TCP.
pub const NO_END: u64 = u64::MAX;
/// Once the ring has been used this far into its memory, the producer looks for a chance to start over at its begin.
const REBASE_AFTER: u64 = 8 * 1024;
/// How often it looks: one read of the consumer's line per so many bytes.
const REBASE_EVERY: u64 = 4 * 1024;
/// A longer write to a consumer on another core walks on: its lines cross faster when that core has long let go of those it
/// fills. (30 KiB back and forth: 160 thousand a second with the whole ring, 130 with its begin; small ones do not care.)
/// Where many share the cores, few pages are better: 50 pairs 16 % more.
const REBASE_UP_TO: usize = 8 * 1024;
/// Most bytes moved per publication: the reader copies one piece while the writer copies the next.
pub const CHUNK_MAX: usize = 32 * 1024;

/// The shared words contradict each other: the peer (or a stray write) has broken the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerMisbehaved;

/// Where the consumer reads, as far as the producer can tell. Only speed depends on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reader {
    /// On another core, which it has for itself.
    Apart,
    /// There, and it has nothing to do until it has read this: its lines are pushed towards it. For requests and responses of at
    /// most [`HAND_OVER_UP_TO`] bytes; a stream would write on where the lines are gone (pieces of 1 000 bytes: half the rate).
    Waiting,
    /// On this core, or on one that others share.
    InTurn,
}

/// Most bytes that are worth handing over: more of them fill the way to the outer cache, and the producer waits.
/// (Round trips of 4 000 bytes gain a fifth, of 8 000 nothing.)
pub const HAND_OVER_UP_TO: usize = 4096;

/// A value on a cache line of its own; 128 bytes because adjacent lines are prefetched in pairs.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct Line<T>(pub T);

/// Words written by the producer.
#[derive(Debug)]
#[repr(C)]
pub struct ProducerWords {
    /// Bytes written so far.
    pub prod: AtomicU64,
    /// Cursor whose byte lies at offset 0; changes only while the ring is empty.
    pub base: AtomicU64,
    /// From this cursor on the direction continues on TCP; [`NO_END`] for "not".
    pub end: AtomicU64,
}

/// The control words of one direction.
#[derive(Debug)]
#[repr(C)]
pub struct RingWords {
    /// Written by the producer.
    pub producer: Line<ProducerWords>,
    /// Bytes read so far; written by the consumer.
    pub cons: Line<AtomicU64>,
    /// The consumer waits for data.
    pub data_wait: Line<WaitWord>,
    /// The producer waits for space.
    pub space_wait: Line<WaitWord>,
}

impl RingWords {
    /// Words of an empty ring (tests; slots are born zeroed and reset with [`RingWords::reset`]).
    pub fn new() -> Self {
        RingWords {
            producer: Line(ProducerWords {
                prod: AtomicU64::new(0),
                base: AtomicU64::new(0),
                end: AtomicU64::new(NO_END),
            }),
            cons: Line(AtomicU64::new(0)),
            data_wait: Line(WaitWord::new()),
            space_wait: Line(WaitWord::new()),
        }
    }

    /// Empties the ring for a new connection; nobody else may be using it.
    pub fn reset(&self) {
        self.producer.0.prod.store(0, Ordering::Relaxed);
        self.producer.0.base.store(0, Ordering::Relaxed);
        self.producer.0.end.store(NO_END, Ordering::Relaxed);
        self.cons.0.store(0, Ordering::Relaxed);
        self.data_wait.0.reset();
        self.space_wait.0.reset();
    }
}

impl Default for RingWords {
    fn default() -> Self {
        Self::new()
    }
}

/// What the producing process remembers; stale values are safe, only slower.
#[derive(Debug)]
pub struct TxCache {
    cons: AtomicU64,
    next_rebase: AtomicU64,
}

/// What the consuming process remembers: a producer cursor and the base that belongs to it.
#[derive(Debug)]
pub struct RxCache {
    prod: AtomicU64,
    base: AtomicU64,
}

macro_rules! fresh_cache {
    ($name:ident, $($field:ident = $value:expr),+) => {
        impl $name {
            /// Knows nothing yet.
            pub fn new() -> Self {
                $name { $($field: AtomicU64::new($value)),+ }
            }

            /// Forgets everything, for another connection.
            pub fn reset(&self) {
                $(self.$field.store($value, Ordering::Relaxed);)+
            }
        }
        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }
    };
}
fresh_cache!(TxCache, cons = 0, next_rebase = REBASE_AFTER);
fresh_cache!(RxCache, prod = 0, base = 0);

/// A view of one direction: control words and data area.
#[derive(Clone, Copy, Debug)]
pub struct Ring {
    words: NonNull<RingWords>,
    data: NonNull<u8>,
    size: u64,
}

// SAFETY: a Ring is an address of shared memory; all access goes through atomics or raw copies (rules 2 and 3).
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

impl Ring {
    /// A view of the ring whose words are at `words` and whose `size` data bytes start at `data`.
    ///
    /// # Safety
    /// Both stay mapped and writable for as long as the view or a copy of it is used, and `size` is a power of two.
    pub unsafe fn new(words: NonNull<RingWords>, data: NonNull<u8>, size: u32) -> Self {
        debug_assert!(size.is_power_of_two());
        Ring { words, data, size: u64::from(size) }
    }

    /// The control words.
    #[inline]
    pub fn words(&self) -> &RingWords {
        // SAFETY: `new` promised the words stay mapped; they are atomics only, so a shared reference is sound.
        unsafe { self.words.as_ref() }
    }

    /// Capacity in bytes.
    pub fn size(&self) -> usize {
        self.size as usize
    }

    fn chunk(&self) -> usize {
        CHUNK_MAX.min(self.size as usize / 4)
    }

    /// Bytes in the ring as seen right now (both lines are read).
    #[inline]
    pub fn used(&self) -> Result<usize, PeerMisbehaved> {
        let words = self.words();
        let cons = words.cons.0.load(Ordering::Acquire);
        let prod = words.producer.0.prod.load(Ordering::Acquire);
        self.bounded(prod.wrapping_sub(cons))
    }

    /// Free bytes as seen right now.
    #[inline]
    pub fn free(&self) -> Result<usize, PeerMisbehaved> {
        Ok(self.size as usize - self.used()?)
    }

    #[inline]
    fn bounded(&self, bytes: u64) -> Result<usize, PeerMisbehaved> {
        if bytes > self.size { Err(PeerMisbehaved) } else { Ok(bytes as usize) }
    }

    /// Whether `wanted` bytes would fit; the consumer's line is read only if the cache says no.
    #[inline]
    pub fn has_room(&self, cache: &TxCache, wanted: usize) -> Result<bool, PeerMisbehaved> {
        let prod = self.words().producer.0.prod.load(Ordering::Relaxed);
        self.free_for(cache, prod, wanted).map(|free| free >= wanted)
    }

    /// Copies up to one chunk of `src` into the ring and publishes it. Returns how many bytes; 0 if full.
    /// (Or if the supply has ended.) The caller is the only producer at this moment, or bytes get lost (never memory).
    #[inline]
    pub fn write(&self, cache: &TxCache, src: impl Supply, reader: Reader) -> Result<usize, PeerMisbehaved> {
        let producer = &self.words().producer.0;
        let prod = producer.prod.load(Ordering::Relaxed);
        let wanted = src.len().min(self.chunk());
        let free = self.free_for(cache, prod, wanted)?;
        let walks_on = reader != Reader::InTurn && src.len() > REBASE_UP_TO;
        let base = if walks_on { producer.base.load(Ordering::Relaxed) } else { self.rebase(cache, prod) };
        let count = self.copy_in(prod.wrapping_sub(base), src, wanted.min(free));
        producer.prod.store(prod.wrapping_add(count as u64), Ordering::Release);
        if reader == Reader::Waiting {
            self.hand_over(prod.wrapping_sub(base), count);
        }
        Ok(count)
    }

    #[inline]
    fn free_for(&self, cache: &TxCache, prod: u64, wanted: usize) -> Result<usize, PeerMisbehaved> {
        let known = prod.wrapping_sub(cache.cons.load(Ordering::Relaxed));
        if known <= self.size && self.size - known >= wanted as u64 {
            return Ok((self.size - known) as usize);
        }
        let cons = self.words().cons.0.load(Ordering::Acquire);
        cache.cons.store(cons, Ordering::Relaxed);
        Ok(self.size as usize - self.bounded(prod.wrapping_sub(cons))?)
    }

    /// Starts over at offset 0 if the ring has been walked a while and is empty right now. Returns the base in force.
    #[inline]
    fn rebase(&self, cache: &TxCache, prod: u64) -> u64 {
        let words = self.words();
        let base = words.producer.0.base.load(Ordering::Relaxed);
        if prod < cache.next_rebase.load(Ordering::Relaxed) {
            return base;
        }
        let cons = words.cons.0.load(Ordering::Acquire);
        if cons != prod {
            cache.next_rebase.store(prod.wrapping_add(REBASE_EVERY), Ordering::Relaxed);
            return base;
        }
        cache.next_rebase.store(prod.wrapping_add(REBASE_AFTER), Ordering::Relaxed);
        // The consumer reads the base only after it has seen a producer cursor beyond `prod`, published later.
        words.producer.0.base.store(prod, Ordering::Relaxed);
        prod
    }

    /// Bytes ready for a consumer that wants `wanted`; the producer's line is read only if the cache has fewer.
    /// (Never fewer than there are: a program that takes a short read for "drained" must be right.)
    #[inline]
    fn available(&self, cache: &RxCache, wanted: usize) -> Result<usize, PeerMisbehaved> {
        let words = self.words();
        let cons = words.cons.0.load(Ordering::Relaxed);
        let known = cache.prod.load(Ordering::Relaxed).wrapping_sub(cons);
        if known >= wanted as u64 && known <= self.size {
            return Ok(known as usize);
        }
        self.refresh(cache, cons)
    }

    /// Bytes ready for the consumer right now.
    #[inline]
    pub fn available_now(&self, cache: &RxCache) -> Result<usize, PeerMisbehaved> {
        self.refresh(cache, self.words().cons.0.load(Ordering::Relaxed))
    }

    #[inline]
    fn refresh(&self, cache: &RxCache, cons: u64) -> Result<usize, PeerMisbehaved> {
        let producer = &self.words().producer.0;
        let prod = producer.prod.load(Ordering::Acquire);
        cache.base.store(producer.base.load(Ordering::Relaxed), Ordering::Relaxed);
        cache.prod.store(prod, Ordering::Relaxed);
        self.bounded(prod.wrapping_sub(cons))
    }

    /// Copies up to one chunk out of the ring to `dst` and frees it. Returns how many bytes; 0 if empty.
    /// The caller is the only consumer at this moment, or bytes get lost (never memory).
    #[inline]
    pub fn read(&self, cache: &RxCache, dst: Sink<'_>) -> Result<usize, PeerMisbehaved> {
        let wanted = dst.len().min(self.chunk());
        let count = wanted.min(self.available(cache, wanted)?);
        // SAFETY: a Sink is writable for its length, and `count` is at most that and at most the ring.
        unsafe { self.copy_out(cache, 0, dst.address(), count) };
        self.advance(count);
        Ok(count)
    }

    /// Copies without freeing, starting `skip` bytes into what is available. Returns how many bytes were copied.
    pub fn peek(&self, cache: &RxCache, skip: usize, dst: Sink<'_>) -> Result<usize, PeerMisbehaved> {
        let count = dst.len().min(self.available_now(cache)?.saturating_sub(skip));
        // SAFETY: as in `read`.
        unsafe { self.copy_out(cache, skip as u64, dst.address(), count) };
        Ok(count)
    }

    /// Frees up to `len` bytes unseen; returns how many.
    pub fn discard(&self, cache: &RxCache, len: usize) -> Result<usize, PeerMisbehaved> {
        let count = len.min(self.available(cache, len)?);
        self.advance(count);
        Ok(count)
    }

    #[inline]
    fn advance(&self, count: usize) {
        let cons = &self.words().cons.0;
        cons.store(cons.load(Ordering::Relaxed).wrapping_add(count as u64), Ordering::Release);
    }

    /// Marks the present producer cursor as the end of this direction's bytes in shared memory.
    pub fn mark_end(&self) {
        let producer = &self.words().producer.0;
        producer.end.store(producer.prod.load(Ordering::Relaxed), Ordering::Release);
    }

    /// Whether the consumer has reached the point from which the direction continues on TCP.
    #[inline]
    pub fn is_at_end(&self) -> bool {
        let words = self.words();
        words.producer.0.end.load(Ordering::Acquire) == words.cons.0.load(Ordering::Relaxed)
    }

    /// Whether the producer has moved on to TCP.
    #[inline]
    pub fn has_ended(&self) -> bool {
        self.words().producer.0.end.load(Ordering::Relaxed) != NO_END
    }

    /// Splits `count` bytes at ring offset `from` into the run up to the end of the data area and the rest at its begin.
    #[inline]
    fn runs(&self, from: u64, count: usize) -> (usize, usize) {
        let offset = (from & (self.size - 1)) as usize;
        (offset, count.min(self.size as usize - offset))
    }

    /// Copies the first `count` bytes of `src`, no more than it has or the ring holds; returns how many there were.
    #[inline]
    fn copy_in(&self, from: u64, src: impl Supply, count: usize) -> usize {
        let (offset, first) = self.runs(from, count);
        // SAFETY: `offset + first <= size`, inside the data area.
        let room = unsafe { Sink::new(self.data.as_ptr().add(offset), first) };
        let done = src.copy_to(room).min(first);
        if done < first || count == first {
            return done;
        }
        // SAFETY: `count - first <= offset`, inside the data area.
        let room = unsafe { Sink::new(self.data.as_ptr(), count - first) };
        done + src.after(first).copy_to(room).min(count - first)
    }

    /// Pushes what was written towards the consumer's core, but for what lies at the ring's begin again.
    #[inline]
    fn hand_over(&self, from: u64, count: usize) {
        let (offset, first) = self.runs(from, count);
        // SAFETY: `offset + first <= size`, inside the data area.
        unsafe { hand_over(self.data.as_ptr().add(offset), first) }
    }

    /// # Safety
    /// `dst` is writable for `count` bytes and `count <= size`.
    #[inline]
    unsafe fn copy_out(&self, cache: &RxCache, skip: u64, dst: *mut u8, count: usize) {
        let cons = self.words().cons.0.load(Ordering::Relaxed);
        let from = cons.wrapping_add(skip).wrapping_sub(cache.base.load(Ordering::Relaxed));
        let (offset, first) = self.runs(from, count);
        // SAFETY: as in `copy_in`.
        unsafe {
            copy_run(self.data.as_ptr().add(offset), dst, first);
            if count > first {
                copy_run(self.data.as_ptr(), dst.add(first), count - first);
            }
        }
    }
}
