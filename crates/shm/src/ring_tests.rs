//! The ring against an oracle, against the model of flow control, and against a peer that scribbles over
//! every shared word.

use crate::ring::{Line, Reader, Ring, RingWords};
use crate::user::Source;
use crate::{Consumer, Producer, RxCache, TxCache};
use core::ptr::NonNull;
use std::collections::VecDeque;
use sync::Ordering;
use testkit::flow::{readable, writable};

struct Memory {
    words: Box<RingWords>,
    data: Vec<u8>,
}

impl Memory {
    fn new(size: usize) -> Self {
        Memory { words: Box::default(), data: vec![0; size] }
    }

    fn ring(&mut self) -> Ring {
        let size = self.data.len() as u32;
        let data = NonNull::new(self.data.as_mut_ptr()).unwrap();
        // SAFETY: both allocations live as long as `self`, which outlives the ring in every test.
        unsafe { Ring::new(NonNull::from(&*self.words), data, size) }
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

fn write(ring: &Ring, cache: &mut TxCache, bytes: &[u8]) -> usize {
    let reader = [Reader::Apart, Reader::Waiting, Reader::InTurn][bytes.len() % 3];
    Producer::alone(ring, cache).write(Source::from(bytes), reader).unwrap()
}

fn read(ring: &Ring, cache: &mut RxCache, bytes: &mut [u8]) -> usize {
    Consumer::alone(ring, cache).read(bytes.into()).unwrap()
}

/// So many rounds; few under miri, where each takes some thousand times as long.
const fn rounds(many: u64) -> u64 {
    if cfg!(miri) { many.div_ceil(400) } else { many }
}

#[test]
fn the_ring_equals_a_queue_under_random_operations() {
    for seed in 1..1 + rounds(39) {
        let mut memory = Memory::new(16 * 1024);
        let ring = memory.ring();
        let (mut tx, mut rx) = (TxCache::new(), RxCache::new());
        let mut oracle = VecDeque::new();
        let mut random = Random(seed * 0x9E37_79B9);
        let mut next = 0u8;
        for _ in 0..rounds(3000) {
            let bits = random.below(15);
            let len = random.below(1 << bits) as usize;
            if random.below(2) == 0 {
                let bytes: Vec<u8> = (0..len).map(|i| next.wrapping_add(i as u8)).collect();
                let taken = write(&ring, &mut tx, &bytes);
                oracle.extend(&bytes[..taken]);
                next = next.wrapping_add(taken as u8);
            } else {
                let mut bytes = vec![0; len];
                let got = read(&ring, &mut rx, &mut bytes);
                let expected: Vec<u8> = oracle.drain(..got).collect();
                assert!(bytes[..got] == expected, "seed {seed}");
            }
            assert_eq!(ring.used().unwrap(), oracle.len(), "seed {seed}");
            if random.below(8) == 0 {
                // The producer's cache may be old, but never so that the answer is another than the model's.
                let (wanted, free) = (random.below(20_000) as usize, free(&ring));
                let has_room = Producer::alone(&ring, &mut tx).has_room(wanted).ok();
                assert_eq!(has_room, free.map(|free| free >= wanted), "seed {seed}");
            }
        }
    }
}

fn cursors(ring: &Ring) -> (u64, u64) {
    let words = ring.words();
    (words.producer.0.prod.load(Ordering::Relaxed), words.consumer.0.cons.load(Ordering::Relaxed))
}

/// Bytes to read by the model; `None` for a lie.
fn there(ring: &Ring) -> Option<usize> {
    let (prod, cons) = cursors(ring);
    readable(cons, prod, ring.size() as u32).ok().map(|bytes| bytes as usize)
}

/// Free bytes by the model; `None` for a lie.
fn free(ring: &Ring) -> Option<usize> {
    let (prod, cons) = cursors(ring);
    writable(prod, cons, ring.size() as u32).ok().map(|bytes| bytes as usize)
}

#[test]
fn cursors_are_believed_as_the_model_believes_them() {
    let mut memory = Memory::new(16 * 1024);
    let ring = memory.ring();
    let (size, mut random, mut lies) = (ring.size() as u64, Random(7), 0);
    for round in 0..rounds(20_000) {
        // Anywhere in u64, from a little behind the consumer to a little beyond a full ring.
        let cons = [random.below(u64::MAX), random.below(3), u64::MAX - random.below(3)][round as usize % 3];
        let edge = [0, size, random.below(size)][random.below(3) as usize];
        let prod = cons.wrapping_add(edge).wrapping_add(random.below(5)).wrapping_sub(2);
        ring.words().producer.0.prod.store(prod, Ordering::Relaxed);
        ring.words().consumer.0.cons.store(cons, Ordering::Relaxed);
        let (mut tx, mut rx) = (TxCache::new(), RxCache::new());
        let at = format!("round {round}: {prod} {cons}");
        // No ring holds so much: a producer that wants it reads the words.
        assert_eq!(
            Producer::alone(&ring, &mut tx).has_room(usize::MAX).ok(),
            free(&ring).map(|_| false),
            "{at}"
        );
        lies += u64::from(free(&ring).is_none());
        assert_eq!((ring.used().ok(), ring.free().ok()), (there(&ring), free(&ring)), "{at}");
        assert_eq!(Consumer::alone(&ring, &mut rx).available_now().ok(), there(&ring), "{at}");
        assert_moves_as_modelled(&ring, &mut tx, &mut rx, &at);
    }
    assert!((rounds(2000)..rounds(18_000)).contains(&lies), "true and false cursors: {lies}");
}

/// A read takes what is there, a write puts what fits; a lie moves nothing.
fn assert_moves_as_modelled(ring: &Ring, tx: &mut TxCache, rx: &mut RxCache, at: &str) {
    let mut bytes = [0u8; 64];
    let there = there(ring).map(|there| bytes.len().min(there));
    assert_eq!(Consumer::alone(ring, rx).read(bytes.as_mut_slice().into()).ok(), there, "{at}");
    let free = free(ring).map(|free| bytes.len().min(free));
    assert_eq!(
        Producer::alone(ring, tx).write(Source::from(bytes.as_slice()), Reader::Apart).ok(),
        free,
        "{at}"
    );
}

// (About places in the ring, and minutes long under miri.)
#[cfg(not(miri))]
#[test]
fn small_messages_stay_in_the_first_pages() {
    let mut memory = Memory::new(256 * 1024);
    let ring = memory.ring();
    let (mut tx, mut rx) = (TxCache::new(), RxCache::new());
    let mut buf = [0u8; 1000];
    for _ in 0..10_000 {
        assert_eq!(write(&ring, &mut tx, &[7u8; 1000]), 1000);
        assert_eq!(read(&ring, &mut rx, &mut buf), 1000);
    }
    let touched = memory.data.iter().rposition(|byte| *byte == 7).unwrap();
    assert!(touched < 24 * 1024, "touched up to {touched}");
}

// (As above.)
#[cfg(not(miri))]
#[test]
fn long_messages_stay_in_the_first_pages_where_turns_are_taken_and_walk_on_where_not() {
    for (reader, stays) in [(Reader::InTurn, true), (Reader::Apart, false), (Reader::Waiting, false)] {
        let mut memory = Memory::new(256 * 1024);
        let ring = memory.ring();
        let (mut tx, mut rx) = (TxCache::new(), RxCache::new());
        let (message, mut room) = ([7; 30_000], [0; 30_000]);
        for _ in 0..20 {
            assert_eq!(
                Producer::alone(&ring, &mut tx).write(Source::from(message.as_slice()), reader),
                Ok(message.len())
            );
            assert_eq!(read(&ring, &mut rx, &mut room), message.len());
            assert!(room == message);
        }
        let far = memory.data.iter().rposition(|byte| *byte == 7).unwrap();
        assert_eq!(far < 64 * 1024, stays, "{reader:?}: up to {far}");
    }
}

#[test]
fn peek_sees_the_bytes_across_the_wrap_and_leaves_them() {
    let mut memory = Memory::new(16 * 1024);
    let ring = memory.ring();
    let (mut tx, mut rx) = (TxCache::new(), RxCache::new());
    let filler = vec![1u8; 4096];
    let mut sink = vec![0u8; 4096];
    // One byte stays in the ring, so that the ring is never empty and walks to its end.
    write(&ring, &mut tx, &[1]);
    for _ in 0..3 {
        write(&ring, &mut tx, &filler);
        read(&ring, &mut rx, &mut sink);
    }
    let message: Vec<u8> = (0..8000u32).map(|i| i as u8).collect();
    let mut sent = 0;
    while sent < message.len() {
        sent += write(&ring, &mut tx, &message[sent..]);
    }
    read(&ring, &mut rx, &mut sink[..1]);
    let mut seen = vec![0u8; 8000];
    for _ in 0..2 {
        let got = Consumer::alone(&ring, &mut rx).peek(0, seen.as_mut_slice().into()).unwrap();
        assert!(got == 8000 && seen == message);
    }
}

#[test]
fn scribbled_words_never_lead_outside_the_ring() {
    let mut random = Random(42);
    let mut misbehaved = 0;
    for _ in 0..rounds(20_000) {
        let mut memory = Memory::new(16 * 1024);
        memory.data.resize(16 * 1024, 0);
        let ring = memory.ring();
        let (mut tx, mut rx) = (TxCache::new(), RxCache::new());
        let words = ring.words();
        words.producer.0.prod.store(random.below(u64::MAX), Ordering::Relaxed);
        words.producer.0.base.store(random.below(u64::MAX), Ordering::Relaxed);
        words.producer.0.end.store(random.below(u64::MAX), Ordering::Relaxed);
        let near = words.producer.0.prod.load(Ordering::Relaxed).wrapping_sub(random.below(20_000));
        words.consumer.0.cons.store(near, Ordering::Relaxed);
        let mut buf = vec![0u8; 40_000];
        let wrote = Producer::alone(&ring, &mut tx).write(Source::from(buf.as_slice()), Reader::Apart);
        let got = Consumer::alone(&ring, &mut rx).read(buf.as_mut_slice().into());
        misbehaved += u64::from(wrote.is_err() || got.is_err());
    }
    assert!(misbehaved > rounds(1000), "the lie is noticed when cursors contradict each other: {misbehaved}");
}

#[test]
fn lines_are_apart() {
    assert_eq!(size_of::<Line<u64>>(), 128);
    assert_eq!(size_of::<RingWords>(), 512);
}

#[test]
fn buckets_follow_the_kernel() {
    use crate::layout::bucket_of;
    let sizes = [0, 1, 8192, 8193, 16384, 16385, 1 << 20, (1 << 20) + 1, usize::MAX];
    assert_eq!(sizes.map(bucket_of), [0, 0, 0, 1, 1, 2, 7, 8, 8]);
}
