//! What this process has told the daemon of: memory, and the doorbells in it. Owns: a daemon that was started
//! anew is told the same, before it is asked anything else; and what it could not be told, that memory is
//! offered no more, it is told before that number can be other memory's.

use shm::slab::{Index, LEAF, Slab};
use sync::Ordering::{Acquire, Relaxed, Release};
use sync::{AtomicBool, AtomicI32, AtomicU64};
use wire::host::Message;

/// Most things one process can offer: a function's connections, two doorbells each, and their memory.
const MOST: usize = 1 << 13;

const NONE: i32 = -1;
const OWED: i32 = -2;

/// One of them; free while `number` is negative.
struct Thing {
    /// Descriptor, and number.
    number: AtomicI32,
    /// The memory that a doorbell belongs to; [`NONE`] for memory, [`OWED`] for some that is to be withdrawn.
    memory: AtomicI32,
    len: AtomicU64,
    nonce: AtomicU64,
}

/// All of them. Only who has the line's turn, or is about to ask, comes here.
pub(super) struct Offered {
    things: Slab<Thing, { MOST / LEAF }>,
    /// Whether any of them is owed.
    owes: AtomicBool,
}

impl Offered {
    pub(super) const fn new() -> Self {
        Offered { things: Slab::new(), owes: AtomicBool::new(false) }
    }

    fn all(&self) -> impl Iterator<Item = &'static Thing> {
        (0..self.things.made()).filter_map(|index| self.things.get(Index(index)))
    }

    /// Remembers memory of `len` bytes, or a doorbell (`len` 0). `false` if there is no room.
    pub(super) fn add(&self, number: i32, memory: i32, len: u64, nonce: u64) -> bool {
        let free = self.all().find(|thing| {
            thing.number.load(Relaxed) < 0 && thing.number.compare_exchange(-1, -2, Relaxed, Relaxed).is_ok()
        });
        let made = || Thing {
            number: AtomicI32::new(-2),
            memory: AtomicI32::new(NONE),
            len: AtomicU64::new(0),
            nonce: AtomicU64::new(0),
        };
        let Some(thing) = free.or_else(|| self.things.take(os::mem::more, made).map(|(_, thing)| thing))
        else {
            return false;
        };
        thing.memory.store(memory, Relaxed);
        thing.len.store(len, Relaxed);
        thing.nonce.store(nonce, Relaxed);
        // (Who sees the number sees what it is of.)
        thing.number.store(number, Release);
        true
    }

    /// Whether a descriptor is remembered, as memory.
    pub(super) fn has_memory(&self, number: i32) -> bool {
        number >= 0
            && self
                .all()
                .any(|thing| thing.number.load(Acquire) == number && thing.memory.load(Relaxed) == NONE)
    }

    /// Forgets a descriptor, and the doorbells in it if it is memory's; whether it was known.
    pub(super) fn remove(&self, number: i32) -> bool {
        let mut was_known = false;
        for thing in self.all() {
            let (own, memory) = (thing.number.load(Acquire), thing.memory.load(Relaxed));
            // (What is owed is closed already, and its number may be anything's.)
            if own >= 0 && memory != OWED && (own == number || memory == number) {
                was_known |= own == number;
                thing.number.store(-1, Relaxed);
            }
        }
        was_known
    }

    /// In a fork child: all of it is the parent's.
    pub(super) fn forget(&self) {
        self.all().for_each(|thing| thing.number.store(-1, Relaxed));
        self.owes.store(false, Relaxed);
    }

    /// Memory is to be withdrawn at the next chance. `false` if there is no room.
    pub(super) fn owe(&self, number: i32) -> bool {
        self.owes.store(true, Relaxed);
        self.add(number, OWED, 0, 0)
    }

    fn owed(&self) -> impl Iterator<Item = &'static Thing> {
        let is_owed = |thing: &&Thing| thing.number.load(Acquire) >= 0 && thing.memory.load(Relaxed) == OWED;
        self.all().filter(is_owed)
    }

    /// Says all of that, until one is not heard; whether that is all.
    pub(super) fn pay(&self, mut say: impl FnMut(u32) -> bool) -> bool {
        if !self.owes.load(Relaxed) {
            return true;
        }
        let is_paid = self.owed().all(|thing| say(thing.number.swap(-1, Relaxed) as u32));
        self.owes.store(!is_paid, Relaxed);
        is_paid
    }

    /// The daemon knows of nothing.
    pub(super) fn forgive(&self) {
        self.owed().for_each(|thing| thing.number.store(-1, Relaxed));
        self.owes.store(false, Relaxed);
    }

    /// Says all of it, memory first, until one is not heard.
    pub(super) fn tell(&self, mut say: impl FnMut(Message, i32) -> bool) {
        for is_memory in [true, false] {
            for thing in self.all() {
                let number = thing.number.load(Acquire);
                let is_asked = (thing.memory.load(Relaxed) == NONE) == is_memory;
                if is_asked && number >= 0 && !say(thing.message(number), number) {
                    return;
                }
            }
        }
    }
}

impl Thing {
    fn message(&self, own: i32) -> Message {
        let number = own as u32;
        match self.memory.load(Relaxed) {
            ..0 => Message::Offer { number, size: self.len.load(Relaxed), nonce: self.nonce.load(Relaxed) },
            memory => Message::Hang { memory: memory as u32, number },
        }
    }
}
