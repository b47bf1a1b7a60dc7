//! An epoll set of the program's, known from its birth. Owns: the order of its members: first those that
//! lately had something to report, which every wait looks at; the rest are armed, and the kernel tells.

mod order;

use super::arrival::Standing;
use super::laps::Laps;
use super::registration::{Registration, of_conn, registrations};
use super::waited::Waited;
use crate::conn::Conn;
use crate::end::End;
use crate::here::Part as _;
use crate::policy::Window;
use crate::table::{self, Entry};
use fabric::turn::Turn;
use os::Errno;
use os::epoll::bits;
use os::time::Cycles;
use shm::slab::{Index, OnceRef, Slab};
use sync::{AtomicI32, AtomicU32, AtomicU64, Ordering, fence};

const SETS: usize = 1 << 14;
/// Sets whose memory comes at once: 4 KiB each, and few programs have more than some.
const AT_ONCE: usize = 8;
const LEAF: usize = 512;
const LEAVES: usize = 512;
/// In `sleepers`: whoever is the last of them gives the set back.
const CLOSED: u32 = 1 << 31;
/// So many sleeps without a report, and a member is left to the kernel.
const OLD_AGE: u32 = 8;

/// The sets of a process.
pub(crate) struct Sets {
    table: Slab<Set, { SETS / AT_ONCE }, AT_ONCE>,
    /// Taken to make one.
    making: Turn,
}

impl Sets {
    pub(crate) const fn new() -> Self {
        Sets { table: Slab::new(), making: Turn::new() }
    }
}

fn sets() -> &'static Slab<Set, { SETS / AT_ONCE }, AT_ONCE> {
    &Sets::here().table
}

/// Whether this process has ever had an epoll set.
#[inline]
pub fn has_been_any() -> bool {
    sets().made() != 0
}

/// An epoll set of the program's.
pub(crate) struct Set {
    /// Descriptors of this process that refer to it.
    fds: AtomicU32,
    /// One of them.
    epfd: AtomicI32,
    /// Taken for every change of the order, and for a look at it.
    turn: Turn,
    members: [OnceRef<[AtomicU64; LEAF]>; LEAVES],
    len: AtomicU32,
    /// The first so many members are looked at by every wait.
    recent: AtomicU32,
    /// Where the next look begins, so that no member starves another.
    start: AtomicU32,
    /// When a look last found members ready, by the core's counter.
    pub(crate) looked_at: AtomicU64,
    /// The last of those with an edge to tell whose doorbell somebody else has drained, plus one: the next
    /// wait looks at them.
    untold: AtomicU32,
    /// Threads asleep in the kernel's wait, and whether the last descriptor is [closed](CLOSED).
    sleepers: AtomicU32,
    /// Counts the descriptors that it has served.
    life: AtomicU32,
    /// Watched by another set: it may be waited for without our knowledge.
    is_nested: AtomicU32,
    /// The process that waits on it; a fork's child that does so too says so at every member.
    pid: AtomicU32,
    /// The process that made it, and in which era: since then others may have it.
    maker: AtomicU32,
    era: AtomicU64,
    /// Whether a registration is outright that its process made.
    has_outright: AtomicU32,
    /// Counts the members that came or went, or whose records came to say something else.
    changes: AtomicU32,
    is_inherited: AtomicU32,
    /// Whether it was passed on, or came so: whoever has it, perhaps this process by another number.
    is_passed: AtomicU32,
    /// Whether a function of libc has waited on it.
    pub(crate) waited: Waited,
    /// Rounds to spin before sleeping.
    pub(crate) spin: Window,
    /// When the kernel was last asked, in cycles.
    pub(crate) asked_kernel: AtomicU64,
    /// When unanswered intents were last looked at, in cycles.
    pub(crate) ticked: AtomicU64,
    /// How long the rings may keep it from being asked again, in cycles.
    pub(crate) kernel_every: AtomicU64,
    /// A member was added of which the kernel alone can tell, and at once.
    pub(crate) owes_kernel: AtomicU32,
    /// Where it stands while answers come out full.
    pub(crate) laps: Laps,
    /// What of this process's own doings the kernel has been asked about since.
    pub(crate) news: AtomicU32,
}

impl Set {
    fn new() -> Self {
        Set {
            fds: AtomicU32::new(0),
            epfd: AtomicI32::new(-1),
            turn: Turn::new(),
            members: [const { OnceRef::new() }; LEAVES],
            len: AtomicU32::new(0),
            recent: AtomicU32::new(0),
            start: AtomicU32::new(0),
            looked_at: AtomicU64::new(0),
            untold: AtomicU32::new(0),
            sleepers: AtomicU32::new(0),
            life: AtomicU32::new(0),
            is_nested: AtomicU32::new(0),
            pid: AtomicU32::new(0),
            maker: AtomicU32::new(0),
            era: AtomicU64::new(0),
            has_outright: AtomicU32::new(0),
            changes: AtomicU32::new(0),
            is_inherited: AtomicU32::new(0),
            is_passed: AtomicU32::new(0),
            waited: Waited::new(),
            spin: Window::new(0),
            asked_kernel: AtomicU64::new(0),
            ticked: AtomicU64::new(0),
            kernel_every: AtomicU64::new(0),
            owes_kernel: AtomicU32::new(0),
            laps: Laps::new(),
            news: AtomicU32::new(0),
        }
    }

    pub(crate) fn get(index: Index) -> Option<&'static Set> {
        sets().get(index)
    }

    /// Every set ever made, in use or not.
    pub(crate) fn all() -> impl Iterator<Item = &'static Set> {
        (0..sets().made()).filter_map(|index| sets().get(Index(index)))
    }

    /// Number of the set behind `epfd`.
    #[inline]
    pub(crate) fn index_of(epfd: i32) -> Option<Index> {
        match table::get(epfd) {
            Entry::Epoll(index) => Some(index),
            _ => None,
        }
    }

    /// The set behind `epfd`, made if need be; and whether it was.
    pub(crate) fn of(epfd: i32) -> Result<(Index, bool), Errno> {
        // Two threads may add the first two sockets of a set at once.
        let _turn = Sets::here().making.take().ok_or(Errno::ENOMEM)?;
        if let Some(index) = Self::index_of(epfd) {
            return Ok((index, false));
        }
        let (index, set) = sets().take(os::mem::more, Set::new).ok_or(Errno::ENOMEM)?;
        set.begin(epfd);
        table::set(epfd, Entry::Epoll(index)).ok_or(Errno::ENOMEM)?;
        Ok((index, true))
    }

    fn begin(&self, epfd: i32) {
        self.life.fetch_add(1, Ordering::AcqRel);
        self.fds.store(1, Ordering::Relaxed);
        self.epfd.store(epfd, Ordering::Relaxed);
        self.pid.store(os::process::cached_pid(), Ordering::Relaxed);
        self.maker.store(os::process::cached_pid(), Ordering::Relaxed);
        self.era.store(crate::era::now(), Ordering::Relaxed);
        self.spin.reset();
        self.laps.end();
        self.looked_at.store(0, Ordering::Relaxed);
        let zeros = [&self.len, &self.recent, &self.start, &self.sleepers];
        self.waited.reset();
        let more = [&self.is_nested, &self.is_inherited, &self.is_passed, &self.has_outright];
        for zero in zeros.into_iter().chain(more) {
            zero.store(0, Ordering::Relaxed);
        }
    }

    /// A descriptor of a set was closed. The set, if that was the last one: with it its registrations go.
    pub(crate) fn close_one(index: Index) -> Option<&'static Set> {
        let set = sets().get(index)?;
        if set.fds.fetch_sub(1, Ordering::AcqRel) > 1 {
            // The other numbers are in the table; any of them serves for epoll_ctl.
            if let Some((fd, _)) = table::entries().find(|(_, entry)| *entry == Entry::Epoll(index)) {
                set.epfd.store(fd, Ordering::Relaxed);
            }
            return None;
        }
        set.epfd.store(-1, Ordering::Relaxed);
        Some(set)
    }

    /// After the last descriptor was closed: whether nobody sleeps on it, so that it is given back now. Else
    /// the last sleeper does: in the kernel's wait it goes on as it is.
    pub(crate) fn is_left(&self) -> bool {
        if self.pid.load(Ordering::Relaxed) != os::process::cached_pid() {
            // (They are the parent's.)
            self.sleepers.store(0, Ordering::Relaxed);
        }
        self.sleepers.fetch_or(CLOSED, Ordering::SeqCst) == 0
    }

    /// Which of its descriptors it serves: another number each time.
    pub(crate) fn life(&self) -> u32 {
        self.life.load(Ordering::Acquire)
    }

    /// Whether that one is closed.
    pub(crate) fn is_over(&self, life: u32) -> bool {
        self.life() != life || self.is_closed()
    }

    /// Whether its last descriptor is.
    pub(crate) fn is_closed(&self) -> bool {
        self.sleepers.load(Ordering::SeqCst) & CLOSED != 0
    }

    /// The set may serve another descriptor.
    pub(crate) fn give_back(index: Index) {
        sets().give_back(index);
    }

    /// How many members it has.
    pub(crate) fn len(&self) -> u32 {
        self.len.load(Ordering::Acquire)
    }

    /// Takes back a set that turned out to be no epoll descriptor.
    pub(crate) fn unmake(index: Index, epfd: i32) {
        table::clear(epfd);
        sets().give_back(index);
    }

    pub(crate) fn epfd(&self) -> i32 {
        self.epfd.load(Ordering::Relaxed)
    }

    /// Somebody else than a wait of ours watches the set: from now on it may be waited for without our
    /// knowledge.
    pub(crate) fn note_watched(&self) {
        self.is_nested.store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// A thread is about to sleep in the kernel's wait: it is counted before it looks at what the members
    /// wish. `false` once the set is closed.
    pub(crate) fn begin_sleep(&self) -> bool {
        let more = |count: u32| (count & CLOSED == 0).then(|| count + 1);
        let is_open = self.sleepers.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_ok();
        fence(Ordering::SeqCst);
        is_open
    }

    /// Whether somebody may wait for the set while this thread is busy with what it reported.
    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched_beside(0)
    }

    /// The same, of a thread that counts as so many sleepers itself.
    pub(crate) fn is_watched_beside(&self, mine: u32) -> bool {
        self.sleepers.load(Ordering::SeqCst) & !CLOSED > mine
            || self.is_nested.load(Ordering::Relaxed) != 0
            || self.is_inherited.load(Ordering::Relaxed) != 0
    }

    /// Whether another process may have it, since a fork or because it was passed.
    pub(crate) fn may_be_shared(&self) -> bool {
        self.era.load(Ordering::Relaxed) != crate::era::now() || self.is_passed()
    }

    /// It is passed on, or has come so.
    pub(crate) fn note_passed(&self) {
        self.is_passed.store(1, Ordering::SeqCst);
    }

    fn is_passed(&self) -> bool {
        self.is_passed.load(Ordering::Relaxed) != 0
    }

    /// Whether it was made by another process, which has it still, or was passed: whoever has it would not
    /// know what we put there. (A daemon's parent has ended; then the set is ours.)
    pub(crate) fn is_anothers(&self) -> bool {
        if self.is_passed() {
            return true;
        }
        let (maker, me) = (self.maker.load(Ordering::Relaxed), os::process::cached_pid());
        if maker == me {
            return false;
        }
        let is_alive =
            os::process::exists(maker) && os::process::life(maker).is_none_or(|life| !life.is_zombie);
        if !is_alive {
            self.maker.store(me, Ordering::Relaxed);
        }
        is_alive
    }

    /// The same, where this process has not waited on it.
    #[cold]
    pub(crate) fn is_left_to_its_maker(&self) -> bool {
        self.pid.load(Ordering::Relaxed) != os::process::cached_pid() && self.is_anothers()
    }

    /// A registration in it is outright.
    pub(crate) fn note_outright(&self) {
        self.has_outright.store(1, Ordering::Relaxed);
    }

    /// A member comes or goes, or the kernel is about to say something else of it than until now: an answer
    /// that is being made may have told of it already, by other words.
    pub(crate) fn note_change(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// How often that was so.
    #[inline]
    pub(crate) fn changes(&self) -> u32 {
        self.changes.load(Ordering::Acquire)
    }

    /// Whether one may be.
    pub(crate) fn has_outright(&self) -> bool {
        self.has_outright.load(Ordering::Relaxed) != 0
    }

    /// At a wait: `true` for the first in a fork's child.
    pub(crate) fn is_newly_inherited(&self) -> bool {
        let me = os::process::cached_pid();
        let before = self.pid.load(Ordering::Acquire);
        if before == me {
            return false;
        }
        // (The parent's sleepers are not ours: they are gone before anybody of this process is counted.)
        let seen = self.sleepers.load(Ordering::SeqCst);
        self.is_inherited.store(1, Ordering::Relaxed);
        let none = seen & CLOSED;
        let _ = self.sleepers.compare_exchange(seen, none, Ordering::SeqCst, Ordering::Relaxed);
        self.pid.compare_exchange(before, me, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// It sleeps no more. `true` for the last one on a set that was closed meanwhile: he gives it back.
    pub(crate) fn end_sleep(&self) -> bool {
        // (Of two first waits in a fork's child one may have counted the other's sleep out.)
        let fewer = |count: u32| (count & !CLOSED != 0).then(|| count - 1);
        self.sleepers.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer) == Ok(CLOSED + 1)
    }

    /// Whether a socket of ours is in it.
    #[inline]
    pub(crate) fn has_members(&self) -> bool {
        self.len.load(Ordering::SeqCst) != 0
    }

    fn cell(&self, position: u32) -> Option<&AtomicU64> {
        let position = position as usize;
        self.members.get(position / LEAF)?.get().map(|leaf| &leaf[position % LEAF])
    }

    fn place(&self, position: u32, member: Index) {
        if let (Some(cell), Some(registration)) = (self.cell(position), registrations().get(member)) {
            cell.store(u64::from(member.0), Ordering::Release);
            registration.position.store(position, Ordering::Relaxed);
        }
    }

    fn swap(&self, a: u32, b: u32) {
        let at = |position| self.cell(position).map(|cell| Index(cell.load(Ordering::Relaxed) as u32));
        if let (Some(x), Some(y)) = (at(a), at(b)) {
            self.place(b, x);
            self.place(a, y);
        }
    }

    /// Takes a member in, among the recent ones. `false` without memory.
    pub(crate) fn add(&self, member: Index) -> bool {
        self.note_change();
        let Some(_turn) = self.turn.take() else { return false };
        let position = self.len.load(Ordering::Relaxed);
        let Some(leaf) = self.members.get(position as usize / LEAF) else { return false };
        if leaf.get().is_none() {
            let made = os::mem::map_private(LEAF * 8).ok();
            let Some(made) = made.and_then(|memory| <&'static [AtomicU64; LEAF]>::try_from(memory).ok())
            else {
                return false;
            };
            leaf.set(made);
        }
        self.place(position, member);
        self.len.store(position + 1, Ordering::Release);
        self.promote_at(position);
        true
    }

    /// Takes a member out.
    pub(crate) fn remove(&self, registration: &Registration) {
        self.note_change();
        let Some(_turn) = self.turn.take() else { return };
        let Some(last) = self.len.load(Ordering::Relaxed).checked_sub(1) else { return };
        let mut position = registration.position.load(Ordering::Relaxed);
        let is_member = self.member(position).is_some_and(|(_, member)| core::ptr::eq(member, registration));
        // (Behind the last one stand those that have left.)
        if position > last || !is_member {
            return;
        }
        let recent = self.recent.load(Ordering::Relaxed);
        if position < recent {
            self.swap(position, recent - 1);
            self.recent.store(recent - 1, Ordering::Relaxed);
            position = recent - 1;
        }
        self.swap(position, last);
        self.len.store(last, Ordering::Release);
    }

    fn promote_at(&self, position: u32) {
        let recent = self.recent.load(Ordering::Relaxed);
        if position >= recent {
            self.swap(position, recent);
            self.recent.store(recent + 1, Ordering::Relaxed);
        }
    }

    /// A member had something to report, or is asked for something new: every wait looks at it for a while.
    /// What was written before is seen by whoever is found asleep afterwards.
    pub(crate) fn promote(&self, registration: &Registration) {
        registration.age.store(0, Ordering::Relaxed);
        // Who lets it go for its age has looked at its wishes before: either he sees that it is young again,
        // or it is seen here that it has gone.
        fence(Ordering::SeqCst);
        if registration.position.load(Ordering::Relaxed) >= self.recent.load(Ordering::Relaxed)
            && let Some(_turn) = self.turn.take()
        {
            // It may have left the set since the kernel reported it.
            let position = registration.position.load(Ordering::Relaxed);
            let is_member =
                self.member(position).is_some_and(|(_, member)| core::ptr::eq(member, registration));
            if position < self.len.load(Ordering::Relaxed) && is_member {
                self.promote_at(position);
            }
        }
    }

    /// The same by who has drained the doorbell of a member with an edge to tell, and may have a set's turn:
    /// the next wait does it.
    fn promote_later(&self, index: Index, registration: &Registration) {
        registration.age.store(0, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let is_recent = registration.position.load(Ordering::Relaxed) < self.recent();
        if is_recent || !registration.begin_untold() {
            return;
        }
        let mut first = self.untold.load(Ordering::Relaxed);
        loop {
            registration.stand_behind(first);
            match self.untold.compare_exchange(first, index.0 + 1, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }

    /// A wait begins, or is counted as a sleeper: it looks at those whose edges nobody else would tell.
    #[inline]
    pub(crate) fn take_untold_in(&self) {
        if self.untold.load(Ordering::SeqCst) != 0 {
            self.take_each_untold_in();
        }
    }

    #[cold]
    fn take_each_untold_in(&self) {
        let mut next = self.untold.swap(0, Ordering::AcqRel);
        while let Some(registration) = next.checked_sub(1).and_then(|index| registrations().get(Index(index)))
        {
            next = registration.end_untold();
            // (It may be another set's by now.)
            if let Some(set) = Set::get(Index(registration.set.load(Ordering::Relaxed))) {
                set.promote(registration);
            }
        }
    }

    /// How many members every wait looks at.
    pub(crate) fn recent(&self) -> u32 {
        self.recent.load(Ordering::Relaxed)
    }

    fn member(&self, position: u32) -> Option<(Index, &'static Registration)> {
        let index = Index(self.cell(position)?.load(Ordering::Acquire) as u32);
        Some((index, registrations().get(index)?))
    }

    /// Looks at the recent members, beginning where the last full look ended, and puts into `found`, in the
    /// order of arrival, whom an answer with so much `room` is to tell of; returns how many. (`found` holds
    /// more where many are ready: among them are the first.) `None` if somebody else is to be asked before
    /// those that were found are told of, as `is_early` says: nobody's turn has come then.
    pub(crate) fn look(
        &self,
        found: &mut [u32],
        room: usize,
        standing: impl Fn(&'static Registration) -> Standing,
        is_early: impl FnOnce(&[u32]) -> bool,
    ) -> Option<usize> {
        let Some(_turn) = self.turn.take() else { return Some(0) };
        match self.recent.load(Ordering::Relaxed) {
            0 => Some(0),
            1 => self.look_at_the_only_one(found, room, standing, is_early),
            many => self.look_at(many, found, room, standing, is_early),
        }
    }

    #[inline(always)]
    fn look_at_the_only_one(
        &self,
        found: &mut [u32],
        room: usize,
        standing: impl Fn(&'static Registration) -> Standing,
        is_early: impl FnOnce(&[u32]) -> bool,
    ) -> Option<usize> {
        let Some((index, registration)) = self.member(0) else { return Some(0) };
        let Standing::Pending(arrived) = standing(registration) else {
            registration.unlist();
            return Some(0);
        };
        registration.list(arrived, &self.looked_at);
        registration.age.store(0, Ordering::Relaxed);
        found[0] = index.0;
        if is_early(&found[..1]) {
            return None;
        }
        if room <= 1 {
            self.start.store(1, Ordering::Relaxed);
        }
        Some(1)
    }

    #[inline(never)]
    fn look_at(
        &self,
        recent: u32,
        found: &mut [u32],
        room: usize,
        standing: impl Fn(&'static Registration) -> Standing,
        is_early: impl FnOnce(&[u32]) -> bool,
    ) -> Option<usize> {
        let start = self.start.load(Ordering::Relaxed) % recent;
        // (Who is announced stands at the end for now.)
        let (mut count, mut announced, mut is_cut) = (0, 0, false);
        for position in (start..recent).chain(0..start) {
            let Some((index, registration)) = self.member(position) else { continue };
            match standing(registration) {
                Standing::Silent => registration.unlist(),
                Standing::Announced(_) if announced + 1 > found.len() / 4 => {}
                Standing::Announced(arrived) => {
                    registration.list(arrived, &self.looked_at);
                    announced += 1;
                    found[found.len() - announced] = index.0;
                }
                Standing::Pending(arrived) => {
                    registration.list(arrived, &self.looked_at);
                    registration.age.store(0, Ordering::Relaxed);
                    found[count] = index.0;
                    count += 1;
                }
            }
            if count == found.len() - announced {
                is_cut = (position + 1) % recent != start;
                break;
            }
        }
        if count == 0 {
            return Some(0);
        }
        if is_early(&found[..count]) {
            return None;
        }
        Cycles::now().store(&self.looked_at);
        // (They are no reason for an answer, and take nobody's room in one.)
        if count + announced <= room {
            found.copy_within(found.len() - announced.., count);
            count += announced;
        }
        if count > 1 || room <= 1 {
            self.put_in_order(&mut found[..count], room, is_cut);
        }
        Some(count.min(room))
    }

    /// The first recent member that is wanted, from where the next look begins.
    pub(crate) fn find(&self, is_wanted: impl Fn(&'static Registration) -> bool) -> Option<Index> {
        let _turn = self.turn.take()?;
        let recent = self.recent.load(Ordering::Relaxed);
        let start = self.start.load(Ordering::Relaxed);
        let mut in_turn = (0..recent).filter_map(|step| self.member((start.wrapping_add(step)) % recent));
        in_turn.find(|(_, member)| is_wanted(member)).map(|(index, _)| index)
    }

    /// Whether every wait looks at it.
    pub(crate) fn has_recent(&self, registration: &Registration) -> bool {
        let position = registration.position.load(Ordering::Relaxed);
        position < self.recent()
            && self.member(position).is_some_and(|(_, member)| core::ptr::eq(member, registration))
    }

    /// Before a sleep: `arm` for every recent member; it says whether there is something to report, which
    /// ends it. Those that had nothing for long leave the recent ones.
    pub(crate) fn arm_all(&self, arm: impl Fn(&'static Registration) -> bool) -> bool {
        let Some(_turn) = self.turn.take() else { return true };
        let mut position = 0;
        while position < self.recent.load(Ordering::Relaxed) {
            if self.arm_at(&mut position, &arm) {
                return true;
            }
        }
        false
    }

    /// The same of all, whatever there is to report of some: on behalf of others who sleep.
    pub(crate) fn arm_each(&self, arm: impl Fn(&'static Registration) -> bool) {
        let Some(_turn) = self.turn.take() else { return };
        let mut position = 0;
        while position < self.recent.load(Ordering::Relaxed) {
            if self.arm_at(&mut position, &arm) {
                position += 1;
            }
        }
    }

    /// Moves on to the next member, unless there is something to report of this one: that is not armed, so it
    /// stays among those that every wait looks at. (The caller has the turn.)
    fn arm_at(&self, position: &mut u32, arm: &impl Fn(&'static Registration) -> bool) -> bool {
        let Some((_, registration)) = self.member(*position) else {
            *position += 1;
            return false;
        };
        if arm(registration) {
            registration.age.store(0, Ordering::Relaxed);
            return true;
        }
        if registration.age.fetch_add(1, Ordering::Relaxed) >= OLD_AGE {
            self.let_go(*position, registration);
        } else {
            *position += 1;
        }
        false
    }

    /// A recent member is left to the kernel, unless it is [promoted](Set::promote) meanwhile: then it stands
    /// behind all others, to be looked at again. (The caller has the turn.)
    fn let_go(&self, position: u32, registration: &Registration) {
        let recent = self.recent.load(Ordering::Relaxed);
        self.swap(position, recent - 1);
        self.recent.store(recent - 1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if registration.age.load(Ordering::Relaxed) == 0 {
            self.recent.store(recent, Ordering::Relaxed);
        }
    }

    /// All members, as of now.
    pub(crate) fn members(&self) -> impl Iterator<Item = (Index, &'static Registration)> {
        let mut position = 0;
        core::iter::from_fn(move || {
            if position >= self.len.load(Ordering::Acquire) {
                return None;
            }
            position += 1;
            self.member(position - 1)
        })
    }
}

impl Registration {
    /// Where the registration of this number stands in the kernel's list.
    fn place_of(number: u32) -> Cycles {
        registrations().get(Index(number)).map_or(Cycles::NONE, Registration::stands_since)
    }

    /// A descriptor of its set, -1 for none.
    pub(crate) fn epfd(&self) -> i32 {
        Set::get(Index(self.set.load(Ordering::Relaxed))).map_or(-1, Set::epfd)
    }
}

/// The doorbell was drained: each set with an edge of `conn` that has not been reported looks at it, now or
/// at its next wait. Whether somebody may be asleep for one.
#[inline(never)]
pub(crate) fn hand_edges_over(conn: &Conn, end: &End) -> bool {
    let mut is_slept_for = false;
    for (index, registration) in of_conn(conn) {
        let is_untold = registration.events() & bits::ET != 0
            && !registration.is_fired()
            && registration.has_news(conn, end);
        let set = Set::get(Index(registration.set.load(Ordering::Relaxed)));
        // (Who never came back from a sleep on a set that is closed would be woken for ever.)
        if let Some(set) = set.filter(|set| is_untold && !set.is_closed()) {
            // (Looked for sleepers after it: who is not seen to sleep sees what stands here.)
            set.promote_later(index, registration);
            is_slept_for |= set.is_watched();
        }
    }
    is_slept_for
}

/// Whether somebody may sleep on a set that `conn` is in, beside so many of the caller's own.
#[cold]
pub(crate) fn is_slept_on(conn: &Conn, mine: u32) -> bool {
    of_conn(conn).any(|(_, registration)| {
        let set = Set::get(Index(registration.set.load(Ordering::Relaxed)));
        set.is_some_and(|set| set.is_watched_beside(mine) && !set.is_closed())
    })
}

/// A dup of an epoll descriptor.
pub(crate) fn share_set(index: Index) {
    if let Some(set) = sets().get(index) {
        set.fds.fetch_add(1, Ordering::AcqRel);
    }
}
