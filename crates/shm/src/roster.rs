//! Who holds a side, by name: what a counter cannot tell of processes that were killed. Owns: the order of
//! joining and lending. Who joins writes his name, then looks whether the slot still serves his connection;
//! who lends the slot again changes its generation, then looks for names. One of them sees the other (checked
//! with loom in `loom_tests`).
//!
//! A name is a word that is not zero and stands for one process for as long as that lives; what it means is
//! `fabric`'s.

use sync::{AtomicU32, AtomicU64, Ordering, fence};

/// Processes that a roster names. More are rare (who inherits a connection in use), and make it crowded.
pub const NAMES: usize = 8;

/// The holders of one side of a slot.
#[derive(Debug)]
#[repr(C)]
pub struct Roster {
    names: [AtomicU64; NAMES],
    /// A process found no place: nobody knows any more who holds the side.
    is_crowded: AtomicU32,
}

impl Default for Roster {
    fn default() -> Self {
        Self::new()
    }
}

impl Roster {
    /// An empty roster.
    pub fn new() -> Self {
        Roster { names: core::array::from_fn(|_| AtomicU64::new(0)), is_crowded: AtomicU32::new(0) }
    }

    /// Writes `name` down; `false` if it stood there already. Names that are dead make room.
    pub fn join(&self, name: u64, is_alive: impl Fn(u64) -> bool) -> bool {
        let is_new = !self.has(name);
        if is_new && !self.take_place(name, 0) && !self.take_dead_place(name, is_alive) {
            self.is_crowded.store(1, Ordering::SeqCst);
        }
        fence(Ordering::SeqCst);
        is_new
    }

    /// Strikes `name` out.
    pub fn leave(&self, name: u64) {
        for place in &self.names {
            if place.load(Ordering::Relaxed) == name {
                let _ = place.compare_exchange(name, 0, Ordering::AcqRel, Ordering::Relaxed);
            }
        }
    }

    /// Whether `name` is written down.
    pub fn has(&self, name: u64) -> bool {
        self.names.iter().any(|place| place.load(Ordering::Relaxed) == name)
    }

    /// How many others than `name` are written down; `None` if one of them lives, or nobody knows.
    pub fn dead_beside(&self, name: u64, is_alive: impl Fn(u64) -> bool) -> Option<u32> {
        if self.is_crowded.load(Ordering::SeqCst) != 0 {
            return None;
        }
        let names = self.names.iter().map(|place| place.load(Ordering::Relaxed));
        let mut others = names.filter(|other| *other != 0 && *other != name);
        others.try_fold(0, |dead, other| (!is_alive(other)).then_some(dead + 1))
    }

    /// Whether somebody else than `name` is written down, dead or alive.
    pub fn has_others(&self, name: u64) -> bool {
        let mut names = self.names.iter().map(|place| place.load(Ordering::Acquire));
        self.is_crowded.load(Ordering::Acquire) != 0 || names.any(|other| other != 0 && other != name)
    }

    /// Whether nobody is written down.
    pub fn is_empty(&self) -> bool {
        self.is_crowded.load(Ordering::Acquire) == 0
            && self.names.iter().all(|place| place.load(Ordering::Acquire) == 0)
    }

    /// Whether somebody who is written down lives, or may.
    pub fn has_living(&self, is_alive: impl Fn(u64) -> bool) -> bool {
        let names = || self.names.iter().map(|place| place.load(Ordering::Acquire));
        self.is_crowded.load(Ordering::Acquire) != 0 || names().any(|name| name != 0 && is_alive(name))
    }

    /// All who are written down and live, or may.
    pub fn living(&self, is_alive: impl Fn(u64) -> bool) -> impl Iterator<Item = u64> {
        let names = self.names.iter().map(|place| place.load(Ordering::Acquire));
        names.filter(move |name| *name != 0 && is_alive(*name))
    }

    /// Strikes everybody out: the slot is lent again, or the kernel knows that nobody is left.
    pub fn reset(&self) {
        for place in &self.names {
            place.store(0, Ordering::Relaxed);
        }
        self.is_crowded.store(0, Ordering::Relaxed);
    }

    fn take_place(&self, name: u64, from: u64) -> bool {
        let take = |place: &AtomicU64| {
            place.load(Ordering::Relaxed) == from
                && place.compare_exchange(from, name, Ordering::SeqCst, Ordering::Relaxed).is_ok()
        };
        self.names.iter().any(take)
    }

    fn take_dead_place(&self, name: u64, is_alive: impl Fn(u64) -> bool) -> bool {
        let mut names = self.names.iter().map(|place| place.load(Ordering::Acquire));
        names.any(|dead| dead != 0 && !is_alive(dead) && self.take_place(name, dead))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn who_joins_twice_is_there_once() {
        let roster = Roster::new();
        assert!(roster.join(7, |_| true));
        assert!(!roster.join(7, |_| true));
        roster.leave(7);
        assert!(roster.is_empty());
    }

    #[test]
    fn the_dead_make_room_and_too_many_living_are_not_forgotten() {
        let roster = Roster::new();
        (1..=NAMES as u64).for_each(|name| _ = roster.join(name, |_| true));
        roster.join(100, |name| name != 3);
        assert!(roster.has(100) && !roster.has(3));
        roster.join(101, |_| true);
        (1..=101).for_each(|name| roster.leave(name));
        assert!(!roster.is_empty() && roster.has_living(|_| false), "one of them was not written down");
    }

    #[test]
    fn only_living_names_count() {
        let roster = Roster::new();
        roster.join(5, |_| true);
        assert!(roster.has_living(|name| name == 5));
        assert!(!roster.has_living(|_| false));
    }
}
