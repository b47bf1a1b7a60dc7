//! Every interleaving of a producer that opens stretches and goes back with a consumer, awake or asleep. TCP
//! is a queue.

use crate::detour::Back;
use crate::ring::{Reader, Ring, RingWords};
use crate::user::Source;
use crate::{Consumer, Producer, RxCache, TxCache};
use core::ptr::NonNull;
use loom::sync::{Arc, Mutex};
use loom::thread;
use std::collections::VecDeque;
use sync::Ordering;

type Tcp = Arc<Mutex<VecDeque<u8>>>;

fn ring() -> Ring {
    let words: &'static RingWords = Box::leak(Box::new(RingWords::new()));
    let data: &'static mut [u8] = Box::leak(vec![0u8; 16].into_boxed_slice());
    let data = NonNull::new(data.as_mut_ptr()).unwrap();
    // SAFETY: both allocations are leaked, hence valid for ever.
    unsafe { Ring::new(NonNull::from(words), data, 16) }
}

fn put(ring: &Ring, byte: u8) {
    let mut known = TxCache::new();
    let mut producer = Producer::alone(ring, &mut known);
    assert_eq!(producer.write(Source::from([byte].as_slice()), Reader::Apart), Ok(1));
}

/// Puts one byte into a stretch, which it opens if none is.
fn detour(ring: &Ring, tcp: &Tcp, byte: u8) {
    let mut known = TxCache::new();
    let producer = Producer::alone(ring, &mut known);
    if !ring.has_ended() {
        producer.open_detour();
        ring.words().data_wait.0.take_ring();
    }
    let sent = producer.send_outside(|| {
        tcp.lock().unwrap().push_back(byte);
        Ok::<_, ()>(1)
    });
    assert_eq!(sent, Ok(1));
}

fn is_back(ring: &Ring) -> bool {
    let mut known = TxCache::new();
    Producer::alone(ring, &mut known).go_back() == Back::InRing
}

/// What a read finds, on whichever way.
fn take(ring: &Ring, known: &mut RxCache, tcp: &Tcp) -> Option<u8> {
    let mut byte = [0u8];
    let mut consumer = Consumer::alone(ring, known);
    if consumer.read(byte.as_mut_slice().into()) == Ok(1) {
        return Some(byte[0]);
    }
    let taken = consumer.take_outside(|| {
        tcp.lock().unwrap().pop_front().ok_or(()).map(|seen| {
            byte[0] = seen;
            1
        })
    });
    taken.and_then(Result::ok).map(|_| byte[0])
}

#[test]
fn bytes_keep_their_order_over_both_ways() {
    loom::model(|| {
        let (ring, tcp) = (ring(), Tcp::default());
        let writer = {
            let tcp = tcp.clone();
            thread::spawn(move || {
                detour(&ring, &tcp, 1);
                if is_back(&ring) {
                    put(&ring, 2);
                    detour(&ring, &tcp, 3);
                } else {
                    detour(&ring, &tcp, 2);
                    detour(&ring, &tcp, 3);
                }
            })
        };
        let (mut known, mut expected) = (RxCache::new(), 1);
        for _ in 0..3 {
            if let Some(byte) = take(&ring, &mut known, &tcp) {
                assert_eq!(byte, expected);
                expected += 1;
            }
        }
        writer.join().unwrap();
        while expected <= 3 {
            assert_eq!(take(&ring, &mut known, &tcp), Some(expected), "lost");
            expected += 1;
        }
    });
}

/// A client writes before its server looks, which may be while it learns of the answer.
#[test]
fn a_direction_that_begins_on_tcp_comes_into_the_ring_behind_its_first_bytes() {
    loom::model(|| {
        let (ring, tcp) = (ring(), Tcp::default());
        ring.words().begin_on_tcp();
        let writer = {
            let tcp = tcp.clone();
            thread::spawn(move || {
                detour(&ring, &tcp, 1);
                if is_back(&ring) { put(&ring, 2) } else { detour(&ring, &tcp, 2) }
            })
        };
        let (mut known, mut expected) = (RxCache::new(), 1);
        for _ in 0..2 {
            if let Some(byte) = take(&ring, &mut known, &tcp) {
                assert_eq!(byte, expected);
                expected += 1;
            }
        }
        writer.join().unwrap();
        while expected <= 2 {
            assert_eq!(take(&ring, &mut known, &tcp), Some(expected), "lost");
            expected += 1;
        }
    });
}

/// The reader has read the stretch, and raises its bit while the writer goes back.
#[test]
fn a_read_of_tcp_never_meets_the_bytes_of_a_later_stretch() {
    loom::model(|| {
        let (ring, tcp) = (ring(), Tcp::default());
        let mut known = RxCache::new();
        detour(&ring, &tcp, 1);
        assert_eq!(take(&ring, &mut known, &tcp), Some(1));
        let writer = {
            let tcp = tcp.clone();
            thread::spawn(move || {
                if is_back(&ring) {
                    put(&ring, 2);
                }
                detour(&ring, &tcp, 3);
                ring.words().producer.0.prod.load(Ordering::Relaxed) == 1
            })
        };
        let first = take(&ring, &mut known, &tcp);
        let second = take(&ring, &mut known, &tcp);
        let is_both = writer.join().unwrap();
        let seen: Vec<u8> = [first, second].into_iter().flatten().collect();
        let rest = core::iter::from_fn(|| take(&ring, &mut known, &tcp));
        let all: Vec<u8> = seen.into_iter().chain(rest).collect();
        assert_eq!(all, if is_both { vec![2, 3] } else { vec![3] });
    });
}

/// Who sleeps polls the doorbell and TCP: neither may stay silent.
#[test]
fn a_reader_asleep_hears_of_bytes_on_either_way() {
    loom::model(|| {
        let (ring, tcp) = (ring(), Tcp::default());
        let mut known = RxCache::new();
        detour(&ring, &tcp, 1);
        assert_eq!(take(&ring, &mut known, &tcp), Some(1));
        let writer = {
            let tcp = tcp.clone();
            thread::spawn(move || {
                if is_back(&ring) {
                    put(&ring, 2);
                    return ring.words().data_wait.0.take_ring().bell();
                }
                detour(&ring, &tcp, 2);
                false
            })
        };
        ring.words().data_wait.0.arm();
        let saw = take(&ring, &mut known, &tcp).is_some();
        let is_rung = writer.join().unwrap();
        let is_readable = !tcp.lock().unwrap().is_empty();
        assert!(saw || is_rung || is_readable, "asleep with bytes there");
    });
}

/// Who naps hears of the ring alone, and so naps only where no stretch is open.
#[test]
fn nobody_naps_while_bytes_are_on_tcp() {
    loom::model(|| {
        let (ring, tcp) = (ring(), Tcp::default());
        let writer = thread::spawn(move || {
            let mut known = TxCache::new();
            Producer::alone(&ring, &mut known).open_detour();
            let is_woken = ring.words().data_wait.0.take_ring().nap();
            tcp.lock().unwrap().push_back(1);
            is_woken
        });
        ring.words().data_wait.0.arm_nap();
        let looks_at_tcp = ring.has_ended();
        assert!(looks_at_tcp | writer.join().unwrap(), "napping with bytes on TCP");
    });
}
