//! The roles against a peer that scribbles while they work, without a loadable peer, and one at a time.

use crate::far::{Far, Least, Told};
use crate::layout::SideBlock;
use crate::lock::{Doing, Owner, Patience};
use crate::ring::{PeerMisbehaved, Reader, Ring, RingWords};
use crate::segment::{Geometry, Segment};
use crate::user::Source;
use crate::{Consumer, Producer, Receiving, RxCache, Sending, TxCache};
use sync::{AtomicU64, Ordering};

const SIZE: u32 = 16 * 1024;

struct Alone;
impl Patience for Alone {
    fn give_way(&self, _: u32) {}
    fn doing(&self, _: u32, _: bool) -> Doing {
        Doing::Living
    }
    fn now_ns(&self) -> u64 {
        0
    }
}

/// One slot's memory, for as long as the tests run.
fn segment() -> Segment {
    let geometry = Geometry { slots: 1, ring_size: SIZE };
    let memory: &'static [AtomicU64] =
        Box::leak((0..geometry.len() / 8 + 512).map(|_| AtomicU64::new(0)).collect());
    let aligned = memory.as_ptr().align_offset(4096);
    Segment::format(&memory[aligned..][..geometry.len() / 8], geometry, 1).unwrap()
}

fn slot() -> (Ring, &'static SideBlock) {
    let segment = segment();
    let header = segment.slot(0).unwrap();
    header.reset(1);
    (segment.outgoing(0, crate::Side::Client).unwrap(), &header.sides[0])
}

fn write(producer: &mut Producer<'_, impl Far>, bytes: &[u8]) -> Result<usize, PeerMisbehaved> {
    producer.write(Source::from(bytes), Reader::Apart)
}

fn words(ring: &Ring) -> &RingWords {
    ring.words()
}

#[test]
fn a_producer_goes_by_its_own_cursor_whatever_is_scribbled_over_it() {
    let (ring, _) = slot();
    let mut known = TxCache::new();
    let mut producer = Producer::alone(&ring, &mut known);
    assert_eq!(write(&mut producer, b"one"), Ok(3));
    words(&ring).producer.0.prod.store(u64::MAX / 3, Ordering::Relaxed);
    assert_eq!(write(&mut producer, b"two"), Ok(3));
    assert_eq!(words(&ring).producer.0.prod.load(Ordering::Relaxed), 6);
    let mut bytes = [0; 8];
    assert_eq!(Consumer::alone(&ring, &mut RxCache::new()).read(bytes.as_mut_slice().into()), Ok(6));
    assert_eq!(&bytes[..6], b"onetwo");
}

#[test]
fn a_consumer_goes_by_its_own_cursor_whatever_is_scribbled_over_it() {
    let (ring, _) = slot();
    assert_eq!(write(&mut Producer::alone(&ring, &mut TxCache::new()), b"onetwo"), Ok(6));
    let (mut known, mut bytes) = (RxCache::new(), [0; 3]);
    let mut consumer = Consumer::alone(&ring, &mut known);
    for expected in [b"one", b"two"] {
        words(&ring).consumer.0.cons.store(u64::MAX / 3, Ordering::Relaxed);
        assert_eq!(consumer.read(bytes.as_mut_slice().into()), Ok(3));
        assert_eq!(&bytes, expected);
    }
    assert_eq!(words(&ring).consumer.0.cons.load(Ordering::Relaxed), 6);
}

#[test]
fn who_asks_again_sees_that_room_was_made() {
    let (ring, _) = slot();
    let (mut known, full) = (TxCache::new(), [0; SIZE as usize]);
    let mut producer = Producer::alone(&ring, &mut known);
    let mut written = 0;
    while written < full.len() {
        written += write(&mut producer, &full[written..]).unwrap();
    }
    assert_eq!((producer.has_room(1), write(&mut producer, b"x")), (Ok(false), Ok(0)));
    words(&ring).consumer.0.cons.store(1, Ordering::Relaxed);
    assert_eq!((producer.has_room(1), producer.has_room(2)), (Ok(true), Ok(false)));
    assert_eq!(write(&mut producer, b"xy"), Ok(1));
}

#[test]
fn a_turn_is_one_at_a_time_and_each_direction_has_its_own() {
    let (ring, side) = slot();
    let (me, other) = (Owner::new(1, 1), Owner::new(2, 1));
    let mut sending = Sending::take(side, me, &Alone).unwrap();
    assert!(Sending::try_take(side, other).is_none());
    assert!(Sending::take(side, me, &Alone).is_err(), "a handler that interrupted it");
    let receiving = Receiving::try_take(side, other).expect("the other direction");
    assert_eq!(write(&mut sending.producer(&ring, &TxCache::new()), b"abc"), Ok(3));
    sending.count(3);
    let mut bytes = [0; 3];
    let mut known = RxCache::new();
    assert_eq!(Consumer::alone(&ring, &mut known).read(bytes.as_mut_slice().into()), Ok(3));
    drop((sending, receiving));
    assert!(Sending::try_take(side, other).is_some() && Receiving::try_take(side, me).is_some());
    assert_eq!(side.tx.0.requests.load(Ordering::Relaxed), 1);
}

// (Numbers alone, and minutes long under miri.)
#[cfg(not(miri))]
#[test]
fn a_told_cursor_moves_forward_only_and_by_a_ring_at_most() {
    let told = Told::new(SIZE, SIZE);
    assert_eq!(told.tell(0, SIZE), Err(PeerMisbehaved), "no place in the ring");
    let mut at = 0u64;
    for step in (0..400_000u64).map(|round| (round * 7919) % (u64::from(SIZE) + 1)) {
        at += step;
        let (wrap, count) = ((at / u64::from(SIZE)) as u16, (at % u64::from(SIZE)) as u32);
        assert_eq!(told.tell(wrap, count), Ok(()), "{at}");
        assert_eq!((&told).cursor(), at);
    }
    assert!(at > u64::from(SIZE) << 16, "the wire's cursor has wrapped: {at}");
    for wrong in [at - 1, at + u64::from(SIZE) + 1] {
        let (wrap, count) = ((wrong / u64::from(SIZE)) as u16, (wrong % u64::from(SIZE)) as u32);
        assert_eq!(told.tell(wrap, count), Err(PeerMisbehaved));
        assert_eq!((&told).cursor(), at, "a lie changes nothing");
    }
}

/// What was sent may be overwritten when it was completed, and sent when the other end, whose ring is
/// smaller, has room.
#[test]
fn a_producer_without_a_loadable_peer_minds_both_of_its_cursors() {
    let (ring, _) = slot();
    let (completed, consumed) = (Told::new(SIZE, SIZE), Told::new(SIZE, SIZE / 4));
    let mut known = TxCache::new();
    let mut producer = Producer::alone_with(&ring, &mut known, Least(&completed, &consumed));
    let block = [7; SIZE as usize / 4];
    assert_eq!(producer.has_room(block.len() + 1), Ok(false), "the peer's ring is a quarter of ours");
    assert_eq!(write(&mut producer, &block), Ok(block.len()));
    assert_eq!(write(&mut producer, b"x"), Ok(0));
    completed.tell(0, SIZE / 4).unwrap();
    assert_eq!(write(&mut producer, b"x"), Ok(0), "completed, not consumed");
    consumed.tell(0, 100).unwrap();
    assert_eq!(write(&mut producer, &block), Ok(100));
    consumed.tell(1, 0).unwrap();
    for _ in 0..3 {
        let room = producer.has_room(block.len());
        assert_eq!(room, Ok(false), "100 bytes more lie with the peer");
    }
    let mut again = Producer::alone_with(&ring, &mut known, Least(&completed, &consumed));
    assert_eq!(again.has_room(block.len() - 100), Ok(true));
}

#[test]
fn bytes_keep_their_places_where_the_peer_does_not_see_the_base() {
    let (ring, _) = slot();
    let told = Told::new(SIZE, SIZE);
    let (mut tx, mut rx) = (TxCache::new(), RxCache::new());
    let mut room = [0; 3000];
    for round in 1..200u64 {
        let mut producer = Producer::alone_with(&ring, &mut tx, &told);
        assert_eq!(producer.write(Source::from([round as u8; 3000].as_slice()), Reader::InTurn), Ok(3000));
        assert_eq!(Consumer::alone(&ring, &mut rx).read(room.as_mut_slice().into()), Ok(3000));
        assert!(room == [round as u8; 3000]);
        let at = round * 3000;
        told.tell((at / u64::from(SIZE)) as u16, (at % u64::from(SIZE)) as u32).unwrap();
        assert_eq!(words(&ring).producer.0.base.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn what_is_held_is_written_and_not_to_be_seen() {
    let (ring, _) = slot();
    let (mut tx, mut rx) = (TxCache::new(), RxCache::new());
    let mut hold = |bytes: &[u8], due| Producer::alone(&ring, &mut tx).write_held(Source::from(bytes), due);
    assert_eq!((hold(b"ab", 7), hold(b"c", 9)), (Ok(2), Ok(1)));
    assert_eq!((ring.used(), ring.unread(), ring.held_bytes(), ring.due()), (Ok(0), Ok(3), 3, 7));
    assert!(ring.let_out() && !ring.let_out() && !ring.is_holding());
    let mut bytes = [0; 4];
    assert_eq!(Consumer::alone(&ring, &mut rx).read(bytes.as_mut_slice().into()), Ok(3));
    assert_eq!((hold(b"d", 11), ring.due()), (Ok(1), 11));
    assert_eq!(write(&mut Producer::alone(&ring, &mut tx), b"e"), Ok(1));
    assert_eq!((ring.held_bytes(), ring.used()), (0, Ok(2)), "whoever writes on lets out");
    assert_eq!(Consumer::alone(&ring, &mut rx).read(bytes.as_mut_slice().into()), Ok(2));
    assert_eq!(&bytes, b"dec\0");
}

#[test]
fn a_cursor_of_held_bytes_that_lies_is_found_out() {
    let (ring, _) = slot();
    let mut tx = TxCache::new();
    words(&ring).producer.0.held.store(u64::from(SIZE) + 1, Ordering::Relaxed);
    assert_eq!(write(&mut Producer::alone(&ring, &mut tx), b"x"), Err(PeerMisbehaved));
    assert!(ring.let_out());
    assert_eq!((ring.used(), ring.free()), (Err(PeerMisbehaved), Err(PeerMisbehaved)));
}
