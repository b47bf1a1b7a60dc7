//! Every interleaving of publisher and sleeper, reader and writer. Run: `RUSTFLAGS="--cfg loom" cargo test -p
//! shm --release`.

use crate::lock::{Doing, Owner, Patience, SideLock};
use crate::ring::{Reader, Ring, RingWords};
use crate::user::Source;
use crate::wait::WaitWord;
use crate::{Consumer, Producer, RxCache, TxCache};
use core::ptr::NonNull;
use loom::sync::Arc;
use loom::thread;
use sync::{AtomicU64, Ordering};

#[test]
fn a_sleeper_is_never_forgotten() {
    loom::model(|| {
        let word = Arc::new((WaitWord::new(), AtomicU64::new(0)));
        let publisher = {
            let word = word.clone();
            thread::spawn(move || {
                word.1.store(1, Ordering::Release);
                word.0.take_ring().bell()
            })
        };
        word.0.arm();
        let saw_it = word.1.load(Ordering::Acquire) == 1;
        let rung = publisher.join().unwrap();
        assert!(saw_it || rung, "asleep with data published and nobody ringing");
    });
}

#[test]
fn nobody_naps_on_with_data_published() {
    loom::model(|| {
        let word = Arc::new((WaitWord::new(), AtomicU64::new(0)));
        let publisher = {
            let word = word.clone();
            thread::spawn(move || {
                word.1.store(1, Ordering::Release);
                word.0.take_ring().nap()
            })
        };
        let value = word.0.arm_nap();
        let saw_it = word.1.load(Ordering::Acquire) == 1;
        // The kernel compares the word under its own lock: who finds it changed does not sleep.
        let would_sleep = word.0.futex().load(Ordering::SeqCst) == value;
        let is_woken = publisher.join().unwrap();
        assert!(saw_it || !would_sleep || is_woken, "asleep with data published and nobody waking");
    });
}

#[test]
fn a_nap_and_a_doorbell_are_asked_for_apart() {
    loom::model(|| {
        let word = Arc::new((WaitWord::new(), AtomicU64::new(0)));
        let other = {
            let word = word.clone();
            thread::spawn(move || {
                word.0.arm();
                word.1.load(Ordering::Acquire) == 1
            })
        };
        word.0.arm_nap();
        word.1.store(1, Ordering::Release);
        let asked = word.0.take_ring();
        assert!(asked.nap());
        let saw_it = other.join().unwrap();
        assert!(saw_it || asked.bell(), "the other's request was lost");
    });
}

#[test]
fn one_request_is_answered_by_one_ring() {
    loom::model(|| {
        let word = Arc::new(WaitWord::new());
        word.arm();
        let other = {
            let word = word.clone();
            thread::spawn(move || word.take_ring().bell())
        };
        let mine = word.take_ring().bell();
        assert!(mine ^ other.join().unwrap());
    });
}

#[test]
fn bytes_arrive_whole_and_in_order() {
    loom::model(|| {
        let words: &'static RingWords = Box::leak(Box::new(RingWords::new()));
        let data: &'static mut [u8] = Box::leak(vec![0u8; 16].into_boxed_slice());
        let data = NonNull::new(data.as_mut_ptr()).unwrap();
        // SAFETY: both allocations are leaked, hence valid for ever.
        let ring = unsafe { Ring::new(NonNull::from(words), data, 16) };
        let writer = thread::spawn(move || {
            let mut cache = TxCache::new();
            for byte in [1u8, 2] {
                let mut producer = Producer::alone(&ring, &mut cache);
                assert_eq!(producer.write(Source::from([byte].as_slice()), Reader::Apart), Ok(1));
            }
        });
        let mut cache = RxCache::new();
        let mut expected = 1u8;
        for _ in 0..3 {
            let mut byte = [0u8];
            if Consumer::alone(&ring, &mut cache).read(byte.as_mut_slice().into()) == Ok(1) {
                assert_eq!(byte[0], expected);
                expected += 1;
            }
        }
        writer.join().unwrap();
    });
}

struct Spin;
impl Patience for Spin {
    fn give_way(&self, _: u32) {
        thread::yield_now();
    }
    fn doing(&self, _: u32, _: bool) -> Doing {
        Doing::Living
    }
    fn now_ns(&self) -> u64 {
        0
    }
}

#[test]
fn a_side_lock_excludes() {
    loom::model(|| {
        let shared = Arc::new((SideLock::new(), AtomicU64::new(0)));
        let add = |shared: &(SideLock, AtomicU64), me: u32| {
            let _turn = shared.0.lock(Owner::new(1, me), &Spin).unwrap();
            let before = shared.1.load(Ordering::Relaxed);
            shared.1.store(before + 1, Ordering::Relaxed);
        };
        let other = {
            let shared = shared.clone();
            thread::spawn(move || add(&shared, 2))
        };
        add(&shared, 4);
        other.join().unwrap();
        assert_eq!(shared.1.load(Ordering::Relaxed), 2);
    });
}

/// A process that was cloned without our knowledge makes its first call while its slot is being lent again.
#[test]
fn who_joins_is_seen_or_sees_that_the_slot_is_lent_again() {
    loom::model(|| {
        let slot = Arc::new((crate::roster::Roster::new(), sync::AtomicU32::new(1)));
        let joiner = {
            let slot = slot.clone();
            thread::spawn(move || {
                slot.0.join(7, |_| true);
                slot.1.load(Ordering::Relaxed) == 1
            })
        };
        slot.1.fetch_add(1, Ordering::SeqCst);
        sync::fence(Ordering::SeqCst);
        let is_lent = !slot.0.has_living(|_| true);
        assert!(!(joiner.join().unwrap() && is_lent), "two connections use the slot");
    });
}
