//! Every interleaving of a producer that holds bytes back and goes on with a consumer that lets them out
//! because they are due. Run by `cargo xtask loom`.

use crate::ring::{Reader, Ring, RingWords};
use crate::user::Source;
use crate::{Consumer, Producer, RxCache, TxCache};
use core::ptr::NonNull;
use loom::thread;
use sync::Ordering;

fn ring() -> Ring {
    let words: &'static RingWords = Box::leak(Box::new(RingWords::new()));
    let data: &'static mut [u8] = Box::leak(vec![0u8; 16].into_boxed_slice());
    let data = NonNull::new(data.as_mut_ptr()).unwrap();
    // SAFETY: both allocations are leaked, hence valid for ever.
    unsafe { Ring::new(NonNull::from(words), data, 16) }
}

fn hold(ring: &Ring, byte: u8) {
    let mut known = TxCache::new();
    let held = Producer::alone(ring, &mut known).write_held(Source::from([byte].as_slice()), 1);
    assert_eq!(held, Ok(1));
}

fn put(ring: &Ring, byte: u8) {
    let mut known = TxCache::new();
    let mut producer = Producer::alone(ring, &mut known);
    assert_eq!(producer.write(Source::from([byte].as_slice()), Reader::Apart), Ok(1));
}

fn take(ring: &Ring, known: &mut RxCache) -> Option<u8> {
    let mut byte = [0u8];
    let read = Consumer::alone(ring, known).read(byte.as_mut_slice().into());
    (read == Ok(1)).then_some(byte[0])
}

#[test]
fn what_two_let_out_keeps_its_order() {
    loom::model(|| {
        let ring = ring();
        let writer = thread::spawn(move || {
            hold(&ring, 1);
            hold(&ring, 2);
            put(&ring, 3);
        });
        let mut known = RxCache::new();
        let mut seen = Vec::new();
        for _ in 0..2 {
            ring.let_out();
            seen.extend(take(&ring, &mut known));
        }
        writer.join().unwrap();
        seen.extend(std::iter::from_fn(|| take(&ring, &mut known)));
        assert_eq!(seen, [1, 2, 3]);
    });
}

#[test]
fn a_sleeper_that_is_rung_for_held_bytes_sees_that_there_are_some() {
    loom::model(|| {
        let ring = ring();
        let writer = thread::spawn(move || {
            hold(&ring, 1);
            ring.words().data_wait.0.take_ring().bell()
        });
        ring.words().data_wait.0.arm();
        let saw_it = ring.is_holding();
        let rung = writer.join().unwrap();
        assert!(saw_it || (rung && ring.is_holding()), "asleep for ever beside bytes that are due some day");
        assert_eq!(ring.words().producer.0.prod.load(Ordering::Relaxed), 0, "held");
    });
}
