//! Every interleaving of an edge-triggered writer that tries before it waits, and a reader that finds time to
//! ring late.
//!
//! A ring of one byte, so that each byte fills it and each read empties it. What is checked is the code that
//! the product runs (`bell`, `wait`); the kernel's pipe is modelled, and its record by the writer's next
//! look. When both have done their part, nobody may be asleep for good: the word is armed, the doorbell is
//! readable, or the ring is full and will be read.

use crate::bell::{Bell, Pipe, Wanted, Words};
use crate::wait::WaitWord;
use core::cell::Cell;
use loom::sync::{Arc, Mutex};
use loom::thread;
use sync::{AtomicU32, AtomicU64, Ordering, fence};

struct World {
    is_readable: Mutex<bool>,
    data: WaitWord,
    space: WaitWord,
    bell: Bell,
    prod: AtomicU64,
    cons: AtomicU64,
    stalls: AtomicU32,
    seen_stalls: AtomicU32,
}

impl Pipe for World {
    fn ring(&self) {
        *self.is_readable.lock().unwrap() = true;
    }
    fn drain(&self) {
        *self.is_readable.lock().unwrap() = false;
    }
}

impl World {
    /// One byte lies in the ring, and the writer has found it full.
    fn full() -> Arc<World> {
        let world = World {
            is_readable: Mutex::new(false),
            data: WaitWord::new(),
            space: WaitWord::new(),
            bell: Bell::new(),
            prod: AtomicU64::new(1),
            cons: AtomicU64::new(0),
            stalls: AtomicU32::new(0),
            seen_stalls: AtomicU32::new(0),
        };
        world.stall();
        Arc::new(world)
    }

    fn words(&self) -> Words<'_> {
        Words { data: &self.data, space: &self.space }
    }

    fn has_space(&self) -> bool {
        self.cons.load(Ordering::Acquire) == self.prod.load(Ordering::Acquire)
    }

    /// As a send that finds no space.
    fn stall(&self) {
        self.stalls.fetch_add(1, Ordering::AcqRel);
        self.bell.ask(self.words(), Wanted::No, true);
        if self.has_space() {
            self.bell.kick(self);
        }
    }

    /// As a receiving call that empties the ring.
    fn read(&self) {
        self.cons.fetch_add(1, Ordering::Release);
        if self.space.is_waited_for() && self.has_space() && self.space.take_ring().bell() {
            self.ring();
        }
    }

    fn is_unseen(&self) -> bool {
        self.stalls.load(Ordering::Acquire) != self.seen_stalls.load(Ordering::Relaxed)
    }

    fn has_edge(&self) -> bool {
        self.is_unseen() && self.has_space()
    }

    fn take_edge(&self) -> bool {
        let stalls = self.stalls.load(Ordering::Acquire);
        self.has_space() && self.seen_stalls.swap(stalls, Ordering::AcqRel) != stalls
    }

    fn awaits_space(&self) -> bool {
        self.is_unseen() && !self.has_space()
    }

    /// Before a sleep: whether there is something to report.
    fn arm(&self) -> bool {
        if self.has_edge() {
            return true;
        }
        let awaits = Cell::new(self.awaits_space());
        if !self.bell.is_quiet() || (awaits.get() && !self.space.is_armed()) {
            let wanted = || {
                awaits.set(self.awaits_space());
                (Wanted::No, awaits.get())
            };
            self.bell
                .rearm(self.words(), self, wanted, |was_rung| (was_rung || awaits.get()) && self.has_edge());
        }
        self.has_edge()
    }

    /// epoll_wait, as far as it gets without the reader. `true`: told of space.
    fn wait(&self) -> bool {
        loop {
            if self.arm() && self.take_edge() {
                return true;
            }
            if !*self.is_readable.lock().unwrap() {
                return false;
            }
            if self.take_edge() {
                return true;
            }
            self.bell.note_rung();
            self.bell.silence(self.words(), self);
            fence(Ordering::SeqCst);
        }
    }
}

/// The reader sees the ring empty, and takes the word only after the writer has filled it again and asked
/// anew.
#[test]
fn a_ring_for_space_that_is_gone_asks_again() {
    loom::model(|| {
        let world = World::full();
        let reader = {
            let world = world.clone();
            thread::spawn(move || world.read())
        };
        let mut is_told = world.wait();
        if is_told {
            world.prod.fetch_add(1, Ordering::Release);
            world.stall();
            is_told = world.wait();
        }
        reader.join().unwrap();
        // The sleeper hears of what was rung meanwhile, and sleeps again.
        is_told = is_told || world.wait();
        while !is_told && !world.has_space() {
            world.read();
            is_told = *world.is_readable.lock().unwrap() && world.wait();
        }
        assert!(is_told, "asleep beside an empty ring, with the word unarmed and a silent doorbell");
    });
}
