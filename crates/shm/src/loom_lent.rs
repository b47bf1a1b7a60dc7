//! Every interleaving of threads that use a number with one that takes it away: nobody uses it once it is
//! closed.

use crate::lent::Lent;
use loom::sync::Arc;
use loom::thread;
use sync::{AtomicU32, Ordering};

struct Model {
    lent: Lent,
    /// Calls that hold the connection, as they say before they read a number.
    calls: AtomicU32,
    is_closed: AtomicU32,
}

fn model() -> Arc<Model> {
    let lent = Lent::new();
    for place in lent.places() {
        place.store(5, Ordering::Relaxed);
    }
    Arc::new(Model { lent, calls: AtomicU32::new(0), is_closed: AtomicU32::new(0) })
}

impl Model {
    fn is_open(&self) {
        assert_eq!(self.is_closed.load(Ordering::Relaxed), 0, "the number is another's by now");
    }

    /// A call that rings, drains or sleeps on one of them.
    fn uses(&self, which: usize) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        if self.lent.number(which) >= 0 {
            self.is_open();
        }
        self.calls.fetch_sub(1, Ordering::AcqRel);
    }

    fn closes(&self) {
        if self.lent.take_away(|| self.calls.load(Ordering::SeqCst) != 0).is_ok() {
            self.is_closed.store(1, Ordering::Relaxed);
        }
    }
}

#[test]
fn who_rings_and_who_sleeps_never_meets_another_file() {
    loom::model(|| {
        let model = model();
        let [ringer, sleeper] = [model.clone(), model.clone()];
        let threads = [thread::spawn(move || ringer.uses(0)), thread::spawn(move || sleeper.uses(1))];
        model.closes();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn what_could_not_be_closed_is_there_for_the_next_and_goes_then() {
    loom::model(|| {
        let model = model();
        let ringer = model.clone();
        let thread = thread::spawn(move || ringer.uses(0));
        model.closes();
        thread.join().unwrap();
        model.closes();
        assert_eq!((model.lent.number(0), model.is_closed.load(Ordering::Relaxed)), (-1, 1));
    });
}
