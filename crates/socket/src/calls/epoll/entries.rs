//! The program's array as an answer fills it. Owns: that one answer tells of a member once, however often it
//! was looked at for it, and by whomever.

use crate::end::End;
use crate::epoll::ctl::meant;
use crate::epoll::telling::{Notes, effective, hush, silence_told};
use crate::epoll::turns;
use crate::here::Part as _;
use crate::interest::events::{FLAGS, READ_SIDE, WRITE_SIDE};
use crate::interest::registration::{FAR, Registration, Source, Told};
use crate::interest::set::Set;
use crate::watch;
use core::ops::Range;
use os::Errno;
use os::epoll::{Event, bits};
use os::time::Cycles;
use shm::slab::Index;
use sync::{AtomicU64, Ordering};

/// How many answers there have been: each has a number, from 1 on.
pub(crate) struct Batches(AtomicU64);

impl Batches {
    pub(crate) const fn new() -> Self {
        Batches(AtomicU64::new(0))
    }

    fn next() -> u64 {
        Batches::here().0.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// While the rings keep a program busy, the kernel is asked for everything else about every 20 microseconds,
/// and up to eight times less often while it has nothing to say: beside requests of 30 microseconds each look
/// is one system call more.
const KERNEL_EVERY: (Cycles, Cycles) = (Cycles::from_us(20), Cycles::from_us(160));

/// The program's array, and how much of it is filled.
pub(super) struct Answer<'a> {
    pub(super) events: &'a mut [Event],
    pub(super) kept: usize,
    batch: u64,
    pub(super) notes: Notes,
    /// The kernel is asked for so much of its own lap (`turns`).
    pub(super) dealt: Option<usize>,
    /// The kernel was asked for it, and how many of it the rings have told.
    pub(super) has_asked: bool,
    pub(super) by_rings: usize,
    /// As how many sleepers of the set its thread counts now.
    pub(super) asleep: u32,
    /// Where what the kernel has named by the program's own data stands, since it was first asked.
    named: Range<usize>,
    /// Of the set, when it was begun.
    changes: u32,
    pub(super) life: u32,
}

/// How many members have `data`, ours and the kernel's.
#[cold]
fn count_with(set: &Set, data: u64) -> usize {
    const KNOWN: usize = 16;
    let has_it = |member: &Registration| {
        !member.tells_own_data() && !member.is_parked() && member.data.load(Ordering::Relaxed) == data
    };
    // (Other threads move members about meanwhile: one may be met twice.)
    let (mut known, mut ours) = ([None; KNOWN], 0);
    for (index, _) in set.members().filter(|(_, member)| has_it(member)) {
        if !known.contains(&Some(index)) {
            if let Some(place) = known.get_mut(ours) {
                *place = Some(index);
            }
            ours += 1;
        }
    }
    ours + os::epoll::count_with(set.epfd(), data).unwrap_or(0)
}

impl<'a> Answer<'a> {
    pub(super) fn new(events: &'a mut [Event], set: &Set, life: u32) -> Self {
        let (batch, changes, notes) = (Batches::next(), set.changes(), Notes::default());
        let (dealt, has_asked, by_rings) = (None, false, 0);
        Answer {
            events,
            kept: 0,
            batch,
            notes,
            dealt,
            has_asked,
            by_rings,
            asleep: 0,
            named: 0..0,
            changes,
            life,
        }
    }
}

impl Answer<'_> {
    pub(super) fn is_full(&self) -> bool {
        self.room() == 0
    }

    pub(super) fn room(&self) -> usize {
        self.events.len() - self.kept
    }

    /// Asks the kernel, by `wait`, for what the answer has room for. How much it told, of interest or not.
    pub(super) fn ask(
        &mut self,
        index: Index,
        set: &Set,
        wait: impl FnOnce(&mut [Event]) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let from = self.kept;
        if self.is_full() {
            return Ok(0);
        }
        self.has_asked = true;
        let news = watch::news();
        let room = self.room().min(self.dealt.unwrap_or(usize::MAX));
        let got = wait(&mut self.events[from..from + room])?;
        Cycles::now().store(&set.asked_kernel);
        set.news.store(news, Ordering::Relaxed);
        let (least, most) = KERNEL_EVERY;
        let longer = || Cycles::load(&set.kernel_every).times(2).clamp(least, most);
        if got == 0 { longer() } else { least }.store(&set.kernel_every);
        self.translate(index, set, got);
        Ok(got)
    }

    /// Turns what the kernel put behind the kept records, `got` of its own, into what the program is to see.
    pub(super) fn translate(&mut self, index: Index, set: &Set, got: usize) {
        let (from, mut has_named) = (self.kept, false);
        for at in from..from + got {
            let Event { events: raised, data } = self.events[at];
            match meant(data, index) {
                None => {
                    has_named = true;
                    set.asked_kernel.store(0, Ordering::Relaxed);
                    self.put_plain(set, raised, data, from);
                }
                Some(Some(told))
                    if self.dealt.is_some() && self.leaves_to_rings(set, Told { raised, ..told }) => {}
                Some(Some(told)) => {
                    if told.source == Source::Tcp {
                        set.asked_kernel.store(0, Ordering::Relaxed);
                    }
                    self.notes.has_rung |= told.source == Source::Bell;
                    set.promote(told.registration);
                    self.take(set, Told { raised, ..told });
                }
                Some(None) => {}
            }
        }
        if has_named {
            self.named = if self.named.is_empty() { from } else { self.named.start }..self.kept;
        }
    }

    /// Whether the rings tell of what the kernel named in its lap. Silent, it is not named in every lap; but
    /// for the marker.
    fn leaves_to_rings(&mut self, set: &Set, told: Told) -> bool {
        let is_marker = turns::is_marker(set, &told);
        self.notes.has_passed_marker |= is_marker;
        let Some(conn) = turns::are_to_tell(set, &told) else { return false };
        if !is_marker
            && told.source == Source::Bell
            && let Some(end) = End::of(&conn)
        {
            hush(&conn, &end, told.registration, 0);
            // (Another thread may have let it go, since its doorbell would ring.)
            set.promote(told.registration);
        }
        true
    }

    /// Whether what the kernel says stands in this answer already, since the rings said it. (Each look costs
    /// system calls where the next bytes are on TCP, as a client's first are, or where the peer has closed.
    /// What has come since is still there at the next look.)
    fn has_told(&self, told: Told) -> bool {
        let Told { registration, source, raised, .. } = told;
        let is_nothing_else = match source {
            Source::Bell => true,
            Source::Tcp => raised & (!(READ_SIDE | WRITE_SIDE) | bits::RDHUP) == 0,
            Source::Rings => false,
        };
        let told_before = |place: usize| {
            let missing = registration.events() & !self.events[place].events;
            source == Source::Bell || raised & missing == 0
        };
        is_nothing_else
            && registration.events() & FLAGS & !bits::ET == 0
            && self.place_of(registration).is_some_and(told_before)
    }

    /// Where this answer tells of `registration`, by what is noted there.
    #[inline]
    fn place_of(&self, registration: &Registration) -> Option<usize> {
        let (batch, place) = registration.told_in();
        (batch == self.batch && place < self.kept.min(FAR)).then_some(place)
    }

    /// The same, of one that has `data`, whoever has told of it: the kernel may have, and of several threads
    /// with the same set only the one that was last to begin keeps its note.
    #[inline]
    fn told_of(&self, set: &Set, registration: &Registration, data: u64) -> Option<usize> {
        if self.kept == 0 {
            return None;
        }
        let (batch, place) = registration.told_in();
        match batch.cmp(&self.batch) {
            core::cmp::Ordering::Less if !self.has_changed(set) => match self.named.is_empty() {
                // (Another process may change the records of a set that it has as well.)
                false if set.may_be_shared() => self.told_with(set, data, self.named.clone()),
                _ => None,
            },
            core::cmp::Ordering::Equal if place < self.kept.min(FAR) => Some(place),
            _ => self.told_with(set, data, 0..self.kept),
        }
    }

    /// Whether what this answer has told of may be told by other words by now: a member came or went, or its
    /// records carry other data.
    fn has_changed(&self, set: &Set) -> bool {
        set.changes() != self.changes
    }

    /// Where this part of the answer has `data`, by which alone the program tells its members apart: but two
    /// that have the same are told of by two entries.
    #[cold]
    fn told_with(&self, set: &Set, data: u64, part: Range<usize>) -> Option<usize> {
        let (from, has_it) = (part.start, |event: &&Event| ({ event.data }) == data);
        let place = from + self.events[part].iter().position(|event| has_it(&event))?;
        let entries = self.events[..self.kept].iter().filter(has_it).count();
        // (Where a doorbell tells of a rest, it does so beside the socket; and of what another process asks
        // of the set nobody here knows.)
        let may_be_another = !set.has_outright() && !set.may_be_shared();
        let is_another = may_be_another && entries < count_with(set, data);
        (!is_another).then_some(place)
    }

    fn put(&mut self, events: u32, data: u64) {
        self.events[self.kept] = Event { events, data };
        self.kept += 1;
    }

    /// What the kernel says of a record that is its own, when it is asked `from` here on. It names each once
    /// whenever it is asked: but so it may have been before, or the record was ours when it was told of.
    fn put_plain(&mut self, set: &Set, events: u32, data: u64, from: usize) {
        let part = match (set.has_outright(), self.has_changed(set) || set.may_be_shared()) {
            // (Where a doorbell tells of a rest, it does so beside the socket.)
            (true, _) => 0..self.kept,
            (_, true) => 0..from,
            _ => self.named.clone(),
        };
        match if part.is_empty() { None } else { self.told_with(set, data, part) } {
            Some(place) => self.events[place].events |= events,
            None => self.put(events, data),
        }
    }

    /// Enters what the program is to see of `registration`, once.
    pub(super) fn take(&mut self, set: &Set, told: Told) {
        if self.has_told(told) {
            if told.source == Source::Bell && !set.laps.are_on() {
                silence_told(told, self.asleep);
            }
            return;
        }
        let registration = told.registration;
        let Some((level, data)) = effective(told, &mut self.notes, self.asleep) else {
            return registration.unlist();
        };
        self.enter(set, told, (level, data));
    }

    pub(super) fn enter(&mut self, set: &Set, told: Told, (level, data): (u32, u64)) {
        let registration = told.registration;
        match self.told_of(set, registration, data) {
            Some(place) if ({ self.events[place].data }) == data => self.events[place].events |= level,
            // (Another thread has asked anew: what was told answers nothing any more.)
            Some(place) => self.events[place] = Event { events: level, data },
            None => {
                // (One that went home just now may be another's.)
                if registration.generation.load(Ordering::Relaxed) == told.generation {
                    registration.note_told_in(self.batch, self.kept);
                }
                registration.note_told(told.source != Source::Rings || self.notes.is_lap);
                self.put(level, data);
            }
        }
    }
}

#[cfg(test)]
#[path = "entries_tests.rs"]
mod tests;
