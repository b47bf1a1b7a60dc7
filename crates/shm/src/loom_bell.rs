//! Every interleaving of threads that take turns at one set (EPOLLONESHOT): one waits, another asks, a third
//! publishes.
//!
//! What is checked is the code that the product runs (`bell`, `interest`, `wait`); the kernel around it is
//! modelled: a pipe, and the doorbell's record in a set. Nobody may be asleep for good: when all threads have
//! done their part, what was published is read, or the kernel has a record of a readable doorbell to report,
//! or somebody's next look finds it.

use crate::bell::{Bell, Pipe, Wanted, Words};
use crate::interest::{Interest, ONCE};
use crate::wait::WaitWord;
use loom::sync::{Arc, Mutex};
use loom::thread;
use sync::{AtomicU32, AtomicU64, Ordering, fence};

const IN: u32 = 1 | ONCE;
const OUT: u32 = 4 | ONCE;

/// The kernel's side: its lock makes each call one step.
#[derive(Default)]
struct Kernel {
    is_readable: bool,
    /// The doorbell's record, loaded or spent.
    record: Option<bool>,
}

/// One process with one connection in one set.
struct World {
    kernel: Mutex<Kernel>,
    turn: Mutex<()>,
    data: WaitWord,
    space: WaitWord,
    bell: Bell,
    interest: Interest,
    /// Registrations that want data, and threads that sleep in the kernel's wait.
    wishes: AtomicU32,
    sleepers: AtomicU32,
    published: AtomicU64,
    read: AtomicU64,
}

impl Pipe for World {
    fn ring(&self) {
        self.kernel.lock().unwrap().is_readable = true;
    }
    fn drain(&self) {
        self.kernel.lock().unwrap().is_readable = false;
    }
}

impl World {
    fn new() -> Arc<World> {
        Arc::new(World {
            kernel: Mutex::new(Kernel::default()),
            turn: Mutex::new(()),
            data: WaitWord::new(),
            space: WaitWord::new(),
            bell: Bell::new(),
            interest: Interest::new(),
            wishes: AtomicU32::new(0),
            sleepers: AtomicU32::new(0),
            published: AtomicU64::new(0),
            read: AtomicU64::new(0),
        })
    }

    fn words(&self) -> Words<'_> {
        Words { data: &self.data, space: &self.space }
    }

    fn has_data(&self) -> bool {
        self.published.load(Ordering::Acquire) > self.read.load(Ordering::Acquire)
    }

    fn rearm(&self) -> bool {
        let is_wanted = core::cell::Cell::new(false);
        let wanted = || {
            is_wanted.set(self.wishes.load(Ordering::Acquire) > 0);
            (if is_wanted.get() { Wanted::Once } else { Wanted::No }, false)
        };
        self.bell.rearm(self.words(), self, wanted, |_| is_wanted.get() && self.has_data())
    }

    fn rearm_for_room(&self) -> bool {
        let is_wanted = || self.wishes.load(Ordering::Acquire) > 0;
        let wanted = || (Wanted::No, is_wanted());
        self.bell.rearm(self.words(), self, wanted, |_| is_wanted() && self.has_data())
    }

    fn publish(&self) {
        self.published.fetch_add(1, Ordering::Release);
        if self.data.take_ring().bell() {
            self.ring();
        }
    }

    fn read_all(&self) {
        self.read.store(self.published.load(Ordering::Acquire), Ordering::Release);
    }

    /// EPOLL_CTL_ADD, or EPOLL_CTL_MOD after a report.
    fn ask(&self) {
        self.ask_for(IN);
    }

    fn ask_for(&self, events: u32) {
        let _turn = self.turn.lock().unwrap();
        let before = self.interest.ask(events);
        if before.is_fired() {
            self.wishes.fetch_add(1, Ordering::AcqRel);
        }
        let put = |_| self.kernel.lock().unwrap().record = Some(true);
        match self.interest.bell() {
            Some(bell) => put(bell),
            None => self.interest.attach(3, put),
        }
        self.rearm();
        if self.has_data() {
            self.bell.kick(self);
        }
    }

    /// epoll_wait by a thread that sleeps until it is told. `false`: it sleeps still, without having woken.
    fn sleep(&self) -> bool {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        loop {
            let seen = self.interest.seen();
            if !seen.is_fired() && !(self.bell.is_quiet() && self.data.is_armed()) {
                self.rearm();
            }
            let is_pending = !seen.is_fired() && self.has_data();
            if is_pending && self.report(false) {
                return true;
            }
            if !is_pending {
                return self.is_woken();
            }
        }
    }

    /// Asleep: the kernel tells of a readable doorbell, or does not.
    fn is_woken(&self) -> bool {
        self.take_record() && self.report(true)
    }

    /// The kernel's wait: a loaded record of a readable doorbell is spent.
    fn take_record(&self) -> bool {
        let mut kernel = self.kernel.lock().unwrap();
        let is_due = kernel.is_readable && kernel.record == Some(true);
        if is_due {
            kernel.record = Some(false);
        }
        is_due
    }

    fn report(&self, by_record: bool) -> bool {
        loop {
            let seen = self.interest.seen();
            let is_there = self.has_data();
            if is_there && self.interest.fire(seen) {
                self.wishes.fetch_sub(1, Ordering::AcqRel);
                return true;
            }
            if !self.interest.seen().is_same_question(seen) {
                continue;
            }
            if by_record && !is_there {
                self.hush();
            }
            if by_record {
                self.reload();
            }
            return false;
        }
    }

    fn hush(&self) {
        self.bell.note_rung();
        self.bell.silence(self.words(), self);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            self.rearm();
        }
    }

    fn reload(&self) {
        let _turn = self.turn.lock().unwrap();
        self.interest.reload(|_| {
            if self.interest.bell().is_some()
                && let Some(record) = &mut self.kernel.lock().unwrap().record
            {
                *record = true;
            }
        });
    }

    /// With everybody else's part done: who slept still is woken if there is anything to tell.
    fn settle(&self, was_told: bool) {
        let is_told = was_told || self.is_woken();
        assert!(
            is_told || !self.has_data(),
            "asleep with data published and a spent record or a silent doorbell"
        );
        let is_standing = !self.interest.seen().is_fired();
        assert_eq!(self.wishes.load(Ordering::SeqCst), u32::from(is_standing), "miscounted");
    }

    /// A registration that stands, with its word armed and its record loaded; `is_readable` by a ring that
    /// means nothing.
    fn asked(is_readable: bool) -> Arc<World> {
        let world = World::new();
        world.ask();
        if is_readable {
            world.ring();
        }
        world
    }
}

fn start<T: 'static>(world: &Arc<World>, part: fn(&World) -> T) -> thread::JoinHandle<T> {
    let world = world.clone();
    thread::spawn(move || part(&world))
}

/// A fresh connection is added while another thread waits, and its doorbell has an old ring in it.
#[test]
fn a_record_spent_while_it_is_made_is_loaded_again() {
    loom::model(|| {
        let world = World::new();
        world.ring();
        let [sleeper, asker] = [
            start(&world, World::sleep),
            start(&world, |world| {
                world.ask();
                false
            }),
        ];
        world.publish();
        asker.join().unwrap();
        world.settle(sleeper.join().unwrap());
    });
}

/// What was reported is read and asked for again while another thread waits already.
#[test]
fn a_question_asked_again_reaches_who_sleeps_already() {
    loom::model(|| {
        let world = World::asked(false);
        world.publish();
        assert!(world.is_woken());
        let [sleeper, asker] = [
            start(&world, World::sleep),
            start(&world, |world| {
                world.read_all();
                world.ask();
                false
            }),
        ];
        world.publish();
        asker.join().unwrap();
        world.settle(sleeper.join().unwrap());
    });
}

/// One thread looks without sleeping and drains an old ring; it does not look again. Another sleeps.
#[test]
fn a_ring_that_another_thread_drained_is_made_up_for() {
    loom::model(|| {
        let world = World::asked(true);
        let [sleeper, passer_by] = [start(&world, World::sleep), start(&world, World::is_woken)];
        world.publish();
        let was_told = passer_by.join().unwrap();
        world.settle(sleeper.join().unwrap() || was_told);
    });
}

/// Who has asked for room, and found some, takes that back as he goes, while another thread begins to wait
/// for it.
#[test]
fn room_that_is_forgotten_is_asked_for_again() {
    loom::model(|| {
        let world = World::new();
        world.bell.ask(world.words(), Wanted::No, true);
        let sleeper = start(&world, |world| {
            world.wishes.fetch_add(1, Ordering::AcqRel);
            world.rearm_for_room();
            world.has_data()
        });
        let other = start(&world, |world| {
            let is_awaited = || world.wishes.load(Ordering::SeqCst) > 0;
            if !is_awaited() {
                world.bell.forget_space(world.words());
                let _ = is_awaited() && world.rearm_for_room();
            }
        });
        world.published.fetch_add(1, Ordering::Release);
        if world.space.take_ring().bell() {
            world.ring();
        }
        other.join().unwrap();
        let is_told = sleeper.join().unwrap() || world.kernel.lock().unwrap().is_readable;
        assert!(is_told, "asleep with room and a silent doorbell");
    });
}

/// A question that has not been answered is replaced while a report of the old one is under way: it stands,
/// or is answered.
#[test]
fn an_answer_to_one_question_is_not_taken_for_the_next() {
    loom::model(|| {
        let world = World::asked(false);
        world.publish();
        let reporter = start(&world, |world| {
            let seen = world.interest.seen();
            let is_fired = world.interest.fire(seen);
            if is_fired {
                world.wishes.fetch_sub(1, Ordering::AcqRel);
            }
            is_fired.then_some(seen.events())
        });
        world.ask_for(OUT);
        let answered = reporter.join().unwrap();
        assert_eq!(
            world.interest.seen().is_fired(),
            answered == Some(OUT),
            "the new question was taken off by an old answer"
        );
        world.settle(true);
    });
}

#[test]
fn one_question_is_answered_once() {
    loom::model(|| {
        let world = World::asked(false);
        world.publish();
        let other = start(&world, |world| world.report(false));
        let mine = world.report(false);
        assert!(mine ^ other.join().unwrap());
        world.settle(true);
    });
}

/// A blocked call reads, and drains the doorbell for itself, while a thread sleeps on the set: it looks for
/// that one after it has asked, and not before.
#[test]
fn who_drains_looks_for_who_sleeps_after_asking() {
    loom::model(|| {
        let world = World::asked(false);
        world.sleepers.store(1, Ordering::SeqCst);
        let other = start(&world, |world| {
            world.read_all();
            world.bell.note_rung();
            world.rearm();
        });
        world.publish();
        world.publish();
        other.join().unwrap();
        world.settle(false);
    });
}

/// The same while a third thread adds the socket: whoever had asked before the doorbell was drained is looked
/// for.
#[test]
fn who_drains_finds_who_asked_before() {
    loom::model(|| {
        let world = World::new();
        world.sleepers.store(1, Ordering::SeqCst);
        let asker = start(&world, World::ask);
        let other = start(&world, |world| {
            world.bell.note_rung();
            world.rearm();
        });
        world.publish();
        asker.join().unwrap();
        other.join().unwrap();
        world.settle(false);
    });
}
