//! Every interleaving of a producer with an end that moves its direction to TCP for good, without its turn:
//! the consumer finds all that was published before, and the place behind it.

use crate::lock::{Owner, SideLock};
use crate::ring::{Reader, Ring, RingWords};
use crate::user::Source;
use crate::{Producer, TxCache};
use core::ptr::NonNull;
use loom::sync::Arc;
use loom::thread;
use sync::Ordering;

struct Model {
    lock: SideLock,
    ring: Ring,
}

fn model() -> Arc<Model> {
    let words: &'static RingWords = Box::leak(Box::new(RingWords::new()));
    let data: &'static mut [u8] = Box::leak(vec![0u8; 16].into_boxed_slice());
    let data = NonNull::new(data.as_mut_ptr()).unwrap();
    // SAFETY: both allocations are leaked, hence valid for ever.
    let ring = unsafe { Ring::new(NonNull::from(words), data, 16) };
    Arc::new(Model { lock: SideLock::new(), ring })
}

impl Model {
    /// Publishes a byte, unless the turn has ended.
    fn puts(&self, byte: u8) -> bool {
        let Some(_turn) = self.lock.try_lock(Owner::new(1, 1)) else { return false };
        let mut known = TxCache::new();
        let put =
            Producer::alone(&self.ring, &mut known).write(Source::from([byte].as_slice()), Reader::Apart);
        put == Ok(1)
    }

    /// As `Sending::end`.
    fn ends(&self) -> bool {
        let has_ended = self.lock.end();
        if has_ended && !self.ring.has_ended_for_good() {
            self.ring.note_end_for_good();
        }
        has_ended
    }
}

#[test]
fn nothing_is_published_behind_the_end_that_anybody_sets() {
    loom::model(|| {
        let model = model();
        let [producer, other] = [model.clone(), model.clone()];
        let producing = thread::spawn(move || [1, 2].into_iter().filter(|byte| producer.puts(*byte)).count());
        let ending = thread::spawn(move || other.ends());
        let has_ended = model.ends();
        let known = model.ring.words().producer.0.end.load(Ordering::Acquire);
        let (put, has_other) = (producing.join().unwrap() as u64, ending.join().unwrap());
        let words = &model.ring.words().producer.0;
        assert_eq!(words.prod.load(Ordering::Relaxed), put);
        if has_ended || has_other {
            assert_eq!(words.end.load(Ordering::Relaxed), put, "the cursor stands");
            assert!(!has_ended || known == put);
        }
    });
}
