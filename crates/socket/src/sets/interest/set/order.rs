//! In which order a set's recent members are told of: those that wait longest first, and a lap over all of
//! them before anybody is told of again. Owns: that members only exchange places, by whoever has the turn.

use super::Set;
use crate::interest::arrival;
use crate::interest::registration::{Registration, registrations};
use os::time::Cycles;
use shm::slab::Index;
use sync::{AtomicU32, Ordering};

impl Set {
    /// The first of those that were found come first, and those that there is no `room` for begin the next
    /// look. (Where all are told of they keep their order among each other, as in the kernel's list.)
    pub(super) fn put_in_order(&self, found: &mut [u32], room: usize, is_cut: bool) {
        // (What the peer notes may change at any time; what was noted of it does not.)
        arrival::sort(found, Registration::place_of);
        if found.len() < room {
            return;
        }
        let next = if is_cut { self.line_up_some(found, room) } else { self.line_up(found, room) };
        self.start.store(next, Ordering::Relaxed);
        if found.len() > room {
            let now = Cycles::now();
            for member in found[..room].iter().filter_map(|index| registrations().get(Index(*index))) {
                member.take_turn(now);
            }
        }
    }

    /// Those that wait for the next answer have its first places, then come those that are told of now, and
    /// then who is not ready: whatever comes of him comes behind all others. Where the next look begins. (The
    /// caller has the turn.)
    fn line_up(&self, found: &[u32], room: usize) -> u32 {
        let (told, untold) = found.split_at(room);
        let next = self.recent.load(Ordering::Relaxed) - untold.len() as u32;
        for (from, members) in [(0, told), (next, untold)] {
            for (position, member) in (from..).zip(members) {
                if let Some(registration) = registrations().get(Index(*member)) {
                    self.swap(position, registration.position.load(Ordering::Relaxed));
                }
            }
        }
        next
    }

    /// The same where more may be ready than were found: they wait as well. Of the places that those found
    /// have together each gets his.
    fn line_up_some(&self, found: &[u32], room: usize) -> u32 {
        let recent = self.recent.load(Ordering::Relaxed);
        let start = self.start.load(Ordering::Relaxed) % recent.max(1);
        let mut next = if found.len() == 1 { 1 } else { 0 };
        for step in 0..recent {
            let Some(wanted) = found.get(next) else { break };
            let position = (start + step) % recent;
            let is_theirs = self.member(position).is_some_and(|(index, _)| found[next..].contains(&index.0));
            if is_theirs && let Some(registration) = registrations().get(Index(*wanted)) {
                self.swap(position, registration.position.load(Ordering::Relaxed));
                next += 1;
            }
        }
        let last = registrations().get(Index(found[room - 1]));
        last.map_or(0, |last| last.position.load(Ordering::Relaxed)) + 1
    }

    /// A lap over the recent members begins: those in the list stand in front, in its order. Over how
    /// many it goes. (Where more are in it than `found` holds, over all of them, as they stand.)
    pub(crate) fn begin_lap(
        &self,
        found: &mut [u32],
        pending: impl Fn(&'static Registration) -> Option<Cycles>,
    ) -> u32 {
        let Some(_turn) = self.turn.take() else { return self.recent() };
        // (As of now: behind the recent ones stand those that have left the set.)
        let recent = self.recent.load(Ordering::Relaxed);
        let mut count = 0;
        for (index, registration) in (0..recent).filter_map(|position| self.member(position)) {
            if let Some(arrived) = pending(registration) {
                registration.list(arrived, &self.looked_at);
            } else if !registration.is_listed() {
                continue;
            }
            // (Who has become silent stays in the list until the lap comes to him.)
            let Some(next) = found.get_mut(count) else { return recent };
            *next = index.0;
            count += 1;
        }
        Cycles::now().store(&self.looked_at);
        arrival::sort(&mut found[..count], Registration::place_of);
        self.line_up(&found[..count], count);
        self.start.store(0, Ordering::Relaxed);
        count as u32
    }

    /// How many recent members a look that came to its end has not been at, of a lap over all of them.
    pub(crate) fn left_of_look(&self) -> u32 {
        self.recent().saturating_sub(self.start.load(Ordering::Relaxed))
    }

    /// As [`look`](Set::look), for a lap over the recent members of which so many are `left`.
    pub(crate) fn look_on(
        &self,
        found: &mut [u32],
        left: &AtomicU32,
        is_wanted: impl Fn(&'static Registration) -> bool,
    ) -> usize {
        let Some(_turn) = self.turn.take() else { return 0 };
        let recent = self.recent.load(Ordering::Relaxed);
        let mut count = 0;
        for still_left in (0..left.load(Ordering::Relaxed).min(recent)).rev() {
            if count == found.len() {
                break;
            }
            let position = self.start.load(Ordering::Relaxed) % recent;
            self.start.store(position + 1, Ordering::Relaxed);
            left.store(still_left, Ordering::Relaxed);
            let Some((index, member)) = self.member(position) else { continue };
            if is_wanted(member) {
                member.age.store(0, Ordering::Relaxed);
                found[count] = index.0;
                count += 1;
            } else {
                member.unlist();
            }
        }
        count
    }
}
