//! Detours one step at a time, and against words that lie.

use crate::detour::Back;
use crate::ring::{NO_END, Reader, Ring, RingWords};
use crate::user::Source;
use crate::{Consumer, Producer, RxCache, TxCache};
use core::ptr::NonNull;
use sync::Ordering;

const LIES: [u64; 6] = [0, 1, 7, 1 << 63, u64::MAX - 1, u64::MAX];

fn ring() -> Ring {
    let words: &'static RingWords = Box::leak(Box::new(RingWords::new()));
    let data: &'static mut [u8] = Box::leak(vec![0u8; 64].into_boxed_slice());
    let data = NonNull::new(data.as_mut_ptr()).unwrap();
    // SAFETY: both allocations are leaked, hence valid for ever.
    unsafe { Ring::new(NonNull::from(words), data, 64) }
}

fn with_producer<T>(ring: &Ring, then: impl FnOnce(&mut Producer<'_>) -> T) -> T {
    then(&mut Producer::alone(ring, &mut TxCache::new()))
}

fn with_consumer<T>(ring: &Ring, then: impl FnOnce(&mut Consumer<'_>) -> T) -> T {
    then(&mut Consumer::alone(ring, &mut RxCache::new()))
}

fn write(ring: &Ring, bytes: &[u8]) {
    let count = with_producer(ring, |producer| producer.write(Source::from(bytes), Reader::Apart));
    assert_eq!(count, Ok(bytes.len()));
}

fn send(ring: &Ring, count: usize) {
    assert_eq!(with_producer(ring, |producer| producer.send_outside(|| Ok::<_, ()>(count))), Ok(count));
}

fn take(ring: &Ring, count: usize) -> Option<Result<usize, ()>> {
    with_consumer(ring, |consumer| consumer.take_outside(|| Ok(count)))
}

fn is_back(ring: &Ring) -> bool {
    with_producer(ring, |producer| producer.go_back()) == Back::InRing
}

#[test]
fn the_ring_is_read_first_then_the_stretch_and_then_the_ring_again() {
    let ring = ring();
    let mut bytes = [0; 8];
    write(&ring, b"ab");
    with_producer(&ring, |producer| producer.open_detour());
    send(&ring, 5);
    assert_eq!(take(&ring, 5), None, "two bytes lie before them");
    assert_eq!(with_consumer(&ring, |consumer| consumer.read(bytes.as_mut_slice().into())), Ok(2));
    assert!(ring.is_at_end() && !is_back(&ring));
    assert_eq!(take(&ring, 3), Some(Ok(3)));
    assert_eq!(ring.unread_outside(), Some(2));
    assert!(!ring.is_caught_up() && !is_back(&ring));
    assert_eq!((take(&ring, 2), ring.progress()), (Some(Ok(2)), 7));
    assert!(is_back(&ring) && !ring.has_ended());
    write(&ring, b"cd");
    assert_eq!(take(&ring, 1), None);
    assert_eq!(with_consumer(&ring, |consumer| consumer.read(bytes.as_mut_slice().into())), Ok(2));
    assert_eq!(&bytes[..2], b"cd");
}

#[test]
fn a_direction_that_begins_on_tcp_has_as_much_there_as_a_ring_takes() {
    let ring = ring();
    assert_eq!((ring.left_to_begin_with(), ring.begun_with()), (0, 0), "it has not");
    ring.words().begin_on_tcp();
    assert_eq!((ring.left_to_begin_with(), ring.begun_with()), (64, 0));
    send(&ring, 40);
    assert_eq!((ring.left_to_begin_with(), ring.begun_with()), (24, 40));
    assert_eq!(take(&ring, 30), Some(Ok(30)));
    send(&ring, 40);
    assert_eq!((ring.left_to_begin_with(), ring.begun_with()), (0, 50));
    assert_eq!(take(&ring, 50), Some(Ok(50)));
    assert!(is_back(&ring));
    write(&ring, b"a");
    with_producer(&ring, |producer| producer.open_detour());
    assert_eq!((ring.left_to_begin_with(), ring.begun_with()), (0, 0), "another stretch");
}

#[test]
fn a_stretch_without_bytes_ends_although_the_ring_is_full() {
    let ring = ring();
    write(&ring, &[1; 16]);
    with_producer(&ring, |producer| producer.open_detour());
    assert!(is_back(&ring));
    write(&ring, &[2; 16]);
    assert_eq!(ring.used(), Ok(32));
}

#[test]
fn a_call_that_moves_nothing_counts_nothing() {
    let ring = ring();
    with_producer(&ring, |producer| producer.open_detour());
    assert_eq!(with_producer(&ring, |producer| producer.send_outside(|| Err(11))), Err(11));
    assert_eq!(with_consumer(&ring, |consumer| consumer.take_outside(|| Err(11))), Some(Err(11)));
    assert!(is_back(&ring));
}

#[test]
fn nobody_goes_back_under_a_reader_who_does_not_count_or_who_died() {
    let ring = ring();
    with_producer(&ring, |producer| producer.open_detour());
    assert!(with_consumer(&ring, |consumer| consumer.leave_outside()));
    assert!(!is_back(&ring) && ring.is_at_end());
    assert_eq!(take(&ring, 0), Some(Ok(0)));
    assert!(!is_back(&ring), "what he read is not known");
}

#[test]
fn nobody_goes_back_after_a_writer_who_died_over_a_send() {
    let ring = ring();
    with_producer(&ring, |producer| producer.open_detour());
    let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        with_producer(&ring, |producer| producer.send_outside(|| -> Result<usize, ()> { panic!("killed") }))
    }));
    assert!(died.is_err() && !is_back(&ring));
    send(&ring, 3);
    assert!(ring.has_ended_for_good());
    assert_eq!(take(&ring, 3), Some(Ok(3)));
    assert!(!is_back(&ring));
}

#[test]
fn for_good_is_for_good() {
    let ring = ring();
    assert!(!ring.has_ended_for_good());
    write(&ring, b"a");
    with_producer(&ring, |producer| producer.go_for_good());
    assert!(ring.has_ended_for_good() && !is_back(&ring));
    ring.words().reset();
    assert!(!ring.has_ended() && !ring.has_ended_for_good() && ring.is_caught_up());
}

/// Whatever the words say, nothing is touched but the words, and each side goes on.
#[test]
fn words_that_lie_break_nothing_but_the_order_of_who_lies() {
    for lie in LIES {
        for place in 0..3 {
            let ring = ring();
            write(&ring, b"abc");
            with_producer(&ring, |producer| producer.open_detour());
            send(&ring, 4);
            let words = ring.words();
            let scribbled = [&words.producer.0.end, &words.producer.0.sent, &words.consumer.0.taken][place];
            scribbled.store(lie, Ordering::Relaxed);
            let _ = (ring.is_at_end(), ring.has_ended_for_good(), ring.is_caught_up(), ring.progress());
            let _ = (take(&ring, 4), is_back(&ring), take(&ring, 4));
            let _ = with_producer(&ring, |producer| producer.send_outside(|| Ok::<_, ()>(usize::MAX)));
            let _ = with_consumer(&ring, |consumer| consumer.take_outside(|| Ok::<_, ()>(usize::MAX)));
            let _ = with_consumer(&ring, |consumer| consumer.leave_outside());
            assert!(ring.used().is_ok());
            words.producer.0.end.store(NO_END, Ordering::Relaxed);
            write(&ring, b"d");
        }
    }
}
