//! The ring: one direction of a connection, single producer, single consumer, bytes only.
//!
//! Owns: the meaning of the cursors. Both count bytes since the slot was taken, never wrap in practice (u64)
//! and live on cache lines of their own; each side caches the other's cursor, so the remote line is read only
//! when the cached value says "full" or "empty". A byte with cursor `c` lies at `(c - base) & (size - 1)`;
//! the producer moves `base` when the ring is empty, so that small messages keep using the same few pages
//! instead of walking the whole ring. A [`Ring`] only looks; bytes are moved by its roles (`roles`).

use crate::copy::{copy_run, hand_over};
use crate::user::{Sink, Supply};
use crate::wait::WaitWord;
use core::ptr::NonNull;
use sync::{AtomicU64, Ordering};

/// `end` while the direction runs in the ring.
pub const NO_END: u64 = u64::MAX;
/// Most bytes moved per publication: the reader copies one piece while the writer copies the next.
pub const CHUNK_MAX: usize = 32 * 1024;
/// By so much the pieces of a longer write, and what fills the ring, are less than a power of two. A program
/// that takes a read that fills its buffer for "there is more" is never told EAGAIN then, as it never is by
/// TCP, whose segments over loopback have 65 483 bytes (Apache Thrift's server breaks off at that).
pub const ODD: usize = 27;

/// The shared words contradict each other: the peer (or a stray write) has broken the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerMisbehaved;

/// Where the consumer reads, as far as the producer can tell. Only speed depends on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reader {
    /// On another core, which it has for itself.
    Apart,
    /// There, and it has nothing to do until it has read this: its lines are pushed towards it. For requests
    /// and responses of at most [`HAND_OVER_UP_TO`] bytes; a stream would write on where the lines are gone
    /// (pieces of 1 000 bytes: half the rate).
    Waiting,
    /// On this core, or on one that others share.
    InTurn,
}

/// Most bytes that are worth handing over: more of them fill the way to the outer cache, and the producer
/// waits. (Round trips of 4 000 bytes gain a fifth, of 8 000 nothing.)
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
    /// From this cursor on the direction runs on TCP; [`NO_END`] for "not" (see `detour`).
    pub end: AtomicU64,
    /// Bytes put into TCP so far, in all stretches there.
    pub sent: AtomicU64,
    /// Bytes written so far with those that are held back, if it is beyond `prod` (see `hold`).
    pub held: AtomicU64,
    /// When those are due.
    pub due: AtomicU64,
    /// When the direction was last written to, or ended, by the core's counter: who has several connections
    /// tells of them in the order of arrival.
    pub written_at: AtomicU64,
    /// How far the consumer was when the ring was last found full.
    pub rest_at: AtomicU64,
    /// Since when it was there, by a clock of the producer's; 0 for long.
    pub rest_since: AtomicU64,
}

/// Words written by the consumer.
#[derive(Debug)]
#[repr(C)]
pub struct ConsumerWords {
    /// Bytes read so far.
    pub cons: AtomicU64,
    /// Bytes of this direction read from TCP so far (see `detour`).
    pub taken: AtomicU64,
}

/// The control words of one direction.
#[derive(Debug)]
#[repr(C)]
pub struct RingWords {
    /// Written by the producer.
    pub producer: Line<ProducerWords>,
    /// Written by the consumer.
    pub consumer: Line<ConsumerWords>,
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
                sent: AtomicU64::new(0),
                held: AtomicU64::new(0),
                due: AtomicU64::new(0),
                written_at: AtomicU64::new(0),
                rest_at: AtomicU64::new(0),
                rest_since: AtomicU64::new(0),
            }),
            consumer: Line(ConsumerWords { cons: AtomicU64::new(0), taken: AtomicU64::new(0) }),
            data_wait: Line(WaitWord::new()),
            space_wait: Line(WaitWord::new()),
        }
    }

    /// Empties the ring for a new connection; nobody else may be using it.
    pub fn reset(&self) {
        self.producer.0.prod.store(0, Ordering::Relaxed);
        self.producer.0.base.store(0, Ordering::Relaxed);
        self.producer.0.end.store(NO_END, Ordering::Relaxed);
        self.producer.0.sent.store(0, Ordering::Relaxed);
        self.producer.0.held.store(0, Ordering::Relaxed);
        self.producer.0.due.store(0, Ordering::Relaxed);
        self.producer.0.written_at.store(0, Ordering::Relaxed);
        self.producer.0.rest_at.store(0, Ordering::Relaxed);
        self.producer.0.rest_since.store(0, Ordering::Relaxed);
        self.consumer.0.cons.store(0, Ordering::Relaxed);
        self.consumer.0.taken.store(0, Ordering::Relaxed);
        self.data_wait.0.reset();
        self.space_wait.0.reset();
    }

    /// The direction begins on TCP: nobody knows yet whether the other end will ever look into the ring.
    pub(crate) fn begin_on_tcp(&self) {
        self.producer.0.end.store(0, Ordering::Relaxed);
    }
}

impl Default for RingWords {
    fn default() -> Self {
        Self::new()
    }
}

/// A view of one direction: control words and data area.
#[derive(Clone, Copy, Debug)]
pub struct Ring {
    words: NonNull<RingWords>,
    data: NonNull<u8>,
    size: u64,
}

// SAFETY: a Ring is an address of shared memory; all access goes through atomics or raw copies (rules 2 and
// 3).
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

impl Ring {
    /// A view of the ring whose words are at `words` and whose `size` data bytes start at `data`.
    ///
    /// # Safety
    /// Both stay mapped and writable for as long as the view or a copy of it is used, and `size` is
    /// a power of two.
    pub unsafe fn new(words: NonNull<RingWords>, data: NonNull<u8>, size: u32) -> Self {
        debug_assert!(size.is_power_of_two());
        Ring { words, data, size: u64::from(size) }
    }

    /// The control words.
    #[inline]
    pub fn words(&self) -> &RingWords {
        // SAFETY: `new` promised the words stay mapped; they are atomics only, so a shared reference is
        // sound.
        unsafe { self.words.as_ref() }
    }

    /// Capacity in bytes.
    pub fn size(&self) -> usize {
        self.size as usize
    }

    /// Most bytes that one call moves.
    #[inline]
    pub fn chunk(&self) -> usize {
        CHUNK_MAX.min(self.size as usize / 4)
    }

    /// Most bytes of a longer write that are seen at once.
    #[inline]
    pub fn piece(&self) -> usize {
        self.chunk() - ODD
    }

    /// Bytes that the consumer may read, as seen right now (both lines are read).
    #[inline]
    pub fn used(&self) -> Result<usize, PeerMisbehaved> {
        let words = self.words();
        let cons = words.consumer.0.cons.load(Ordering::Acquire);
        let prod = words.producer.0.prod.load(Ordering::Acquire);
        self.bounded(prod.wrapping_sub(cons))
    }

    /// Bytes that the consumer has not read, those that are held back among them.
    #[inline]
    pub fn unread(&self) -> Result<usize, PeerMisbehaved> {
        let words = self.words();
        let cons = words.consumer.0.cons.load(Ordering::Acquire);
        self.bounded(self.written().wrapping_sub(cons))
    }

    /// Free bytes as seen right now, but for what is held back (a quarter of the ring at most).
    #[inline]
    pub fn free(&self) -> Result<usize, PeerMisbehaved> {
        Ok(self.size as usize - self.used()?)
    }

    #[inline]
    pub(crate) fn bounded(&self, bytes: u64) -> Result<usize, PeerMisbehaved> {
        if bytes > self.size { Err(PeerMisbehaved) } else { Ok(bytes as usize) }
    }

    /// Whether the consumer has reached the point from which the direction continues on TCP.
    #[inline]
    pub fn is_at_end(&self) -> bool {
        let words = self.words();
        words.producer.0.end.load(Ordering::Acquire) == words.consumer.0.cons.load(Ordering::Relaxed)
    }

    /// The direction is about to be written to, or to end, `now` by the core's counter.
    #[inline]
    pub fn note_written(&self, now: u64) {
        self.words().producer.0.written_at.store(now, Ordering::Relaxed);
    }

    /// When that was last. (The producer's word: the order of an answer depends on it, no more.)
    #[inline]
    pub fn written_at(&self) -> u64 {
        self.words().producer.0.written_at.load(Ordering::Relaxed)
    }

    /// Whether the direction runs on TCP.
    #[inline]
    pub fn has_ended(&self) -> bool {
        self.words().producer.0.end.load(Ordering::Relaxed) != NO_END
    }

    /// Splits `count` bytes at ring offset `from` into the run up to the end of the data area and the rest at
    /// its begin.
    #[inline]
    fn runs(&self, from: u64, count: usize) -> (usize, usize) {
        let offset = (from & (self.size - 1)) as usize;
        (offset, count.min(self.size as usize - offset))
    }

    /// Copies the first `count` bytes of `src`, no more than it has or the ring holds; returns how many there
    /// were.
    #[inline(always)]
    pub(crate) fn copy_in(&self, from: u64, src: impl Supply, count: usize) -> usize {
        let count = count.min(self.size as usize);
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
    pub(crate) fn hand_over(&self, from: u64, count: usize) {
        let (offset, first) = self.runs(from, count);
        // SAFETY: `offset + first <= size`, inside the data area.
        unsafe { hand_over(self.data.as_ptr().add(offset), first) }
    }

    /// Copies `count` bytes out, no more than `dst` has room for or the ring holds.
    #[inline(always)]
    pub(crate) fn copy_out(&self, from: u64, dst: Sink<'_>, count: usize) {
        let count = count.min(dst.len()).min(self.size as usize);
        let (offset, first) = self.runs(from, count);
        // SAFETY: as in `copy_in`; a Sink is writable for its length, and `count` is at most that.
        unsafe {
            copy_run(self.data.as_ptr().add(offset), dst.address(), first);
            if count > first {
                copy_run(self.data.as_ptr(), dst.address().add(first), count - first);
            }
        }
    }
}
