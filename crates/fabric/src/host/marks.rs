//! The table of marks that this process shares with the kernel (`ismd`'s `bpf/mark.bpf.c`): what it wants
//! with a socket, and what came of it, by the socket's cookie. Owns: the layout of an entry, and that what an
//! entry says is believed of the socket whose cookie is in it only. The kernel writes who is at the other
//! end; this process, and the children that it forked, can write anything, and harm themselves alone.

use os::mem::{self, Shared};
use shm::slab::OnceRef;
use sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use sync::{AtomicU32, AtomicU64};
use wire::reason::Reason;

/// Entries of a table.
pub const ENTRIES: usize = 1024;
/// Bytes of one.
pub const ENTRY: usize = 64;
/// Bytes of a table.
pub const LEN: usize = ENTRIES * ENTRY;

/// So many entries are looked at for a cookie.
const PROBES: u64 = 8;
const WORDS: usize = ENTRY / 8;
/// Words of an entry: the cookie (0: free); the state, and above it the peer's number; the intent.
const COOKIE: usize = 0;
const STATE: usize = 1;
const INTENT: usize = 2;
/// Of the first entry a word that no connection uses: the daemon's proof.
const PROOF: usize = WORDS - 1;

/// As this process has it mapped.
type Table = [AtomicU64; ENTRIES * WORDS];

/// What is asked for, and answered: the lower half of the state.
const CONNECT: u64 = 1;
const LISTEN: u64 = 2;
const NO: u64 = 3;
const YES: u64 = 4;
/// The daemon's policy says so, by the kernel; the upper half is the code.
const REFUSED: u64 = 5;
/// The upper half of a No that the daemon has written.
const DECLINED: u64 = 1 << 32;

/// What a client says with its SYN: where its offer lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Carried {
    /// Its number with the daemon. (The kernel's word; of what follows only it is.)
    pub client: u32,
    /// The kernel's number of its socket.
    pub cookie: u64,
    /// Number of the segment.
    pub number: u32,
    /// Nonce of the segment.
    pub nonce: u64,
    /// Slot in it.
    pub slot: u32,
    /// Which use of the slot.
    pub generation: u32,
}

/// What the kernel says of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Told {
    /// Nothing yet, or it was never asked.
    Nothing,
    /// The other end does not take part, or is not on this kernel.
    No,
    /// It does.
    Yes,
    /// It did, and does not take up what was offered.
    Declined,
    /// The daemon's policy forbids this connection to share memory.
    Refused(Reason),
}

/// What came with an accepted socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrived {
    /// An offer.
    Offer(Carried),
    /// One that the daemon's policy keeps from this process.
    Refused(Reason),
}

/// The table, once this process has one.
pub(super) struct Marks {
    own: OnceRef<Table>,
    /// One of the process that it was forked from, whose listeners it has.
    inherited: OnceRef<Table>,
    /// The process that the own one was given to.
    pid: AtomicU32,
}

fn entries(table: Shared, cookie: u64) -> impl Iterator<Item = &'static [AtomicU64]> {
    (0..PROBES).filter_map(move |probe| {
        let at = (cookie.wrapping_add(probe) % ENTRIES as u64) as usize * WORDS;
        table.get(at..at + WORDS)
    })
}

fn entry_of(table: Shared, cookie: u64) -> Option<&'static [AtomicU64]> {
    entries(table, cookie).find(|entry| entry[COOKIE].load(Acquire) == cookie)
}

/// The daemon tells the process whose table this is that what it offered with a socket is not taken up.
pub fn decline(table: Shared, cookie: u64) {
    if let Some(entry) = entry_of(table, cookie) {
        let _ = entry[STATE].compare_exchange(YES, DECLINED | NO, AcqRel, Relaxed);
    }
}

/// The daemon lays down what the process is to answer with, to which it gives the table.
pub fn lay_proof(table: Shared, proof: u32) {
    table[PROOF].store(proof.into(), Relaxed);
}

impl Marks {
    pub(super) const fn new() -> Self {
        Marks { own: OnceRef::new(), inherited: OnceRef::new(), pid: AtomicU32::new(0) }
    }

    /// Whether there is anything to be looked up.
    #[inline]
    pub(super) fn has_any(&self) -> bool {
        self.own.get().is_some() || self.inherited.get().is_some()
    }

    /// In a fork child: the table is its parent's, whose listeners the child has.
    pub(super) fn after_fork(&self) {
        if let Some(parents) = self.own.take() {
            self.inherited.take();
            self.inherited.set(parents);
        }
    }

    /// Whether this process, and no parent of it, was given the table.
    pub(super) fn is_own(&self) -> bool {
        self.pid.load(Acquire) == os::process::cached_pid()
    }

    /// Whether this process was, and its listeners are marked by the kernel.
    pub(super) fn was_given(&self) -> bool {
        self.own.get().is_some()
    }

    /// The daemon has passed a table. `false` if it cannot be mapped.
    pub(super) fn adopt(&self, table: i32) -> bool {
        let is_mapped = match self.own.get() {
            Some(old) => mem::remap_shared(old, table).is_ok(),
            None => {
                let mapped = mem::map_shared(table, LEN).ok().and_then(|mapped| mapped.try_into().ok());
                mapped.map(|mapped: &'static Table| self.own.set(mapped)).is_some()
            }
        };
        if is_mapped {
            self.pid.store(os::process::cached_pid(), Release);
        }
        is_mapped
    }

    /// What lies in it for whom it was given to.
    pub(super) fn proof(&self) -> u32 {
        self.own.get().map_or(0, |table| table[PROOF].load(Relaxed) as u32)
    }

    /// The daemon does not know it by the table: nothing is asked there.
    pub(super) fn disown(&self) {
        self.pid.store(0, Release);
    }

    /// The process gives its user up: nothing of what was said stays to be seen.
    pub(super) fn leave(&self) {
        self.pid.store(0, Release);
        for table in [&self.own, &self.inherited].into_iter().filter_map(OnceRef::take) {
            let _ = mem::retire(table);
        }
    }

    fn ask(&self, cookie: u64, what: u64, intent: [u64; 4]) -> bool {
        let Some(table) = self.own.get().filter(|_| self.is_own()) else { return false };
        let known = entry_of(table, cookie);
        let is_free =
            |entry: &&[AtomicU64]| entry[COOKIE].compare_exchange(0, cookie, AcqRel, Relaxed).is_ok();
        let Some(entry) = known.or_else(|| entries(table, cookie).find(is_free)) else { return false };
        entry[INTENT..].iter().zip(intent).for_each(|(word, value)| word.store(value, Relaxed));
        entry[STATE].store(what, Release);
        true
    }

    /// Before connect(): what the SYN is to carry. `false` if there is no room.
    pub(super) fn ask_to_carry(&self, carried: &Carried) -> bool {
        let Carried { cookie, number, nonce, slot, generation, .. } = *carried;
        let halves = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        self.ask(cookie, CONNECT, [cookie, nonce, halves(number, slot), halves(generation, 0)])
    }

    /// Before listen(): marked SYNs are to be answered.
    pub(super) fn ask_to_listen(&self, cookie: u64) -> bool {
        self.ask(cookie, LISTEN, [0; 4])
    }

    /// What the kernel says of the client's socket.
    pub(super) fn told(&self, cookie: u64) -> Told {
        let state = self.own.get().and_then(|table| entry_of(table, cookie));
        let state = state.map_or(0, |entry| entry[STATE].load(Acquire));
        match state & u64::from(u32::MAX) {
            NO if state & DECLINED == 0 => Told::No,
            NO => Told::Declined,
            YES => Told::Yes,
            REFUSED => Told::Refused(Reason((state >> 32) as u32)),
            _ => Told::Nothing,
        }
    }

    /// What came with an accepted socket, once: the entry is free afterwards.
    pub(super) fn take_arrived(&self, own_cookie: u64) -> Option<Arrived> {
        let tables = [&self.own, &self.inherited].into_iter().filter_map(OnceRef::get);
        let entry = tables.into_iter().find_map(|table| entry_of(table, own_cookie))?;
        let state = entry[STATE].load(Acquire);
        let said = state & u64::from(u32::MAX);
        if (said != YES && said != REFUSED)
            || entry[STATE].compare_exchange(state, 0, AcqRel, Relaxed).is_err()
        {
            return None;
        }
        let words = [0, 1, 2, 3].map(|at| entry[INTENT + at].load(Relaxed));
        entry[COOKIE].store(0, Release);
        if said == REFUSED {
            return Some(Arrived::Refused(Reason((state >> 32) as u32)));
        }
        let [cookie, nonce, place, use_] = words;
        Some(Arrived::Offer(Carried {
            client: (state >> 32) as u32,
            cookie,
            number: (place >> 32) as u32,
            nonce,
            slot: place as u32,
            generation: (use_ >> 32) as u32,
        }))
    }

    /// Nothing more is wanted of what was said of a socket.
    pub(super) fn give_back(&self, cookie: u64) {
        if let Some(entry) = self.own.get().and_then(|table| entry_of(table, cookie)) {
            entry[STATE].store(0, Relaxed);
            entry[COOKIE].store(0, Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks() -> Marks {
        os::process::refresh_pid();
        let memfd = mem::sealed_memfd(c"table", LEN as u64).expect("memory");
        let marks = Marks::new();
        assert!(marks.adopt(memfd));
        os::fd::close(memfd);
        marks
    }

    fn carried(cookie: u64) -> Carried {
        Carried { client: 0, cookie, number: 3, nonce: 4, slot: 5, generation: 6 }
    }

    #[test]
    fn what_is_carried_arrives_once_and_leaves_its_place() {
        let marks = marks();
        let table: Shared = marks.own.get().expect("a table");
        assert!(marks.ask_to_carry(&carried(77)));
        assert_eq!(marks.told(77), Told::Nothing);
        // (The kernel's part: the words go to a socket of the server's.)
        let [own, accepted] = [77u64, 1 << 40].map(|cookie| entries(table, cookie).next().expect("an entry"));
        for word in INTENT..INTENT + 4 {
            accepted[word].store(own[word].load(Relaxed), Relaxed);
        }
        accepted[COOKIE].store(1 << 40, Relaxed);
        accepted[STATE].store(9 << 32 | YES, Relaxed);
        let offer = Arrived::Offer(Carried { client: 9, ..carried(77) });
        assert_eq!(marks.take_arrived(1 << 40), Some(offer));
        assert_eq!(marks.take_arrived(1 << 40), None);
        own[STATE].store(YES, Relaxed);
        assert_eq!(marks.told(77), Told::Yes);
        decline(table, 77);
        assert_eq!(marks.told(77), Told::Declined);
        own[STATE].store(NO, Relaxed);
        assert_eq!(marks.told(77), Told::No);
        marks.give_back(77);
        assert_eq!(marks.told(77), Told::Nothing);
    }

    #[test]
    fn both_ends_are_told_why_a_policy_refuses() {
        let marks = marks();
        let table: Shared = marks.own.get().expect("a table");
        assert!(marks.ask_to_carry(&carried(77)));
        let [own, accepted] = [77u64, 1 << 40].map(|cookie| entries(table, cookie).next().expect("an entry"));
        accepted[COOKIE].store(1 << 40, Relaxed);
        for entry in [own, accepted] {
            entry[STATE].store(u64::from(Reason::PEERDECL.0) << 32 | REFUSED, Relaxed);
        }
        assert_eq!(marks.told(77), Told::Refused(Reason::PEERDECL));
        decline(table, 77);
        assert_eq!(marks.told(77), Told::Refused(Reason::PEERDECL));
        assert_eq!(marks.take_arrived(1 << 40), Some(Arrived::Refused(Reason::PEERDECL)));
        assert_eq!(marks.take_arrived(1 << 40), None);
    }

    #[test]
    fn where_there_is_no_room_nothing_is_asked() {
        let marks = marks();
        let same = |step: u64| 5 + step * ENTRIES as u64;
        assert!((0..PROBES).all(|step| marks.ask_to_listen(same(step))));
        assert!(!marks.ask_to_listen(same(PROBES)));
        marks.give_back(same(3));
        assert!(marks.ask_to_carry(&carried(same(PROBES))));
    }
}
