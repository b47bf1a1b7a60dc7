//! The waits. Owns: the order of looks: rings first, the kernel when they have nothing to say or has not been
//! asked for a while; that no thread sleeps before every member is armed; and that one answer tells of a
//! member once, however often it was looked at for it.

use crate::conn::Conn;
use crate::end::End;
use crate::epoll::ctl::meant;
use crate::epoll::rounds::{Sharers, look_after_held, look_after_watched, slice_ms};
use crate::epoll::telling::{Notes, effective, hush, ordinary, silence_told};
use crate::epoll::turns;
use crate::held::{hold_index, hold_seen};
use crate::here::Part as _;
use crate::interest::arrival::{FEW, MOST, Standing};
use crate::interest::events::{FLAGS, READ_SIDE, WRITE_SIDE};
use crate::interest::registration::{self, FAR, Registration, Source, Told};
use crate::interest::set::Set;
use crate::phase::Phase;
use crate::wait::{Patience, hand_over, spin_on_set};
use crate::{Outcome, answer, detour, doorbell, flag, home, push, ready, records, unseen, watch};
use core::ops::Range;
use os::Errno;
use os::epoll::{Event, bits};
use os::held_back::Interrupted;
use os::time::Cycles;
use shm::slab::Index;
use sync::Ordering as Shared;
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
/// Between two looks at unanswered intents.
const TICK_EVERY: Cycles = Cycles::from_ms(10);
/// So much a sleep makes silent without a pause: more than any burst leaves, and an end to a peer that rings
/// for nothing.
const HUSHED_MAX: u32 = 1 << 16;
/// So often a wait that has no time left asks again, where the kernel told of nothing but our own affairs.
const IN_VAIN_MAX: u32 = 16;

/// How the kernel is asked: room for its events, and a time limit in nanoseconds (`None`: for ever).
pub trait Kernel {
    /// As epoll_pwait2(2), with whatever signal mask the call came with.
    fn wait(&mut self, events: &mut [Event], timeout_ns: Option<u64>) -> Result<usize, Errno>;

    /// A look, where something is ready already: the kernel lets no signal through then that is blocked
    /// outside the call.
    fn glance(&mut self, events: &mut [Event]) -> Result<usize, Errno>;

    /// Whether signals are let through that are blocked outside the call: only a sleep delivers them.
    fn has_mask(&self) -> bool;
}

/// The program's array, and how much of it is filled.
struct Answer<'a> {
    events: &'a mut [Event],
    kept: usize,
    batch: u64,
    notes: Notes,
    /// The kernel is asked for so much of its own lap (`turns`).
    dealt: Option<usize>,
    /// As how many sleepers of the set its thread counts now.
    asleep: u32,
    /// Where what the kernel has named by the program's own data stands, since it was first asked.
    named: Range<usize>,
    /// Of the set, when it was begun.
    changes: u32,
    life: u32,
}

/// An answer on its way.
struct Asking<'a, 'b> {
    index: Index,
    set: &'a Set,
    answer: &'a mut Answer<'b>,
    kernel: &'a mut dyn Kernel,
}

impl turns::Round for Asking<'_, '_> {
    fn told(&self) -> usize {
        self.answer.kept
    }

    fn room(&self) -> usize {
        self.answer.room()
    }

    fn report(&mut self, found: &[u32]) {
        self.answer.notes.is_lap = true;
        report(self.set, self.answer, found);
        self.answer.notes.is_lap = false;
    }

    fn ask(&mut self, of_its_lap: Option<usize>) -> (usize, bool) {
        self.answer.notes.has_passed_marker = false;
        self.answer.dealt = of_its_lap;
        let got = self.answer.ask(self.index, self.set, |events| self.kernel.glance(events));
        self.answer.dealt = None;
        (got.unwrap_or(0), self.answer.notes.has_passed_marker)
    }

    fn named_in_vain(&self) -> Option<u64> {
        self.answer.events.first().filter(|_| self.answer.kept == 0).map(|named| named.data)
    }

    fn is_kernel_due(&self) -> bool {
        is_kernel_due(self.set)
    }
}

/// Whether waits on `epfd` are for [`wait`].
#[inline]
pub fn is_ours(epfd: i32) -> bool {
    Set::index_of(epfd).is_some()
}

/// epoll_wait and its kin on a set of ours.
pub fn wait(epfd: i32, events: &mut [Event], timeout_ns: Option<u64>, kernel: &mut dyn Kernel) -> Outcome {
    crate::held::take_note();
    let Some((index, set)) = Set::index_of(epfd).and_then(|index| Some((index, Set::get(index)?))) else {
        return Outcome::Forward;
    };
    let life = set.life();
    if Set::index_of(epfd) != Some(index) {
        return Outcome::Forward;
    }
    unseen::note_wait(set);
    if set.is_newly_inherited() {
        for (_, registration) in set.members() {
            with_end(registration, |_, end| end.mine().set_sharers.fetch_add(1, Shared::AcqRel));
        }
    }
    if set.has_outright() {
        let outright = set.members().filter(|(_, registration)| registration.is_outright());
        outright.for_each(|(_, registration)| look_home(registration));
    }
    let mut timeout_ns = timeout_ns;
    if !set.has_members() {
        match wait_without_members((index, set, life), events, timeout_ns, kernel) {
            Ok(outcome) => return outcome,
            Err(left) => timeout_ns = left,
        }
    }
    tick_if_due(set);
    set.take_untold_in();
    // (A loop whose waits are all shorter looks between them.)
    Sharers::new().look_after();
    let mut answer = Answer::new(events, set, life);
    let is_owed = set.owes_kernel.swap(0, Ordering::Relaxed) != 0;
    if is_owed {
        let _ = answer.ask(index, set, |events| kernel.glance(events));
    }
    if set.laps.are_on() && turns::deal(&mut Asking { index, set, answer: &mut answer, kernel }, set) {
        return leave(set, &answer, false);
    }
    let may_spin = timeout_ns != Some(0) && !kernel.has_mask();
    let found = match collect(set, &mut answer) {
        false if may_spin => spin(set, &mut answer),
        has_some => Ok(has_some),
    };
    let Ok(has_some) = found else { return Outcome::Fail(Errno::EINTR) };
    if has_some {
        let from = answer.kept;
        // (Once for an answer: it would tell of its own descriptors again.)
        if !is_owed && is_kernel_due(set) {
            tick(set);
            turns::fill(&mut Asking { index, set, answer: &mut answer, kernel }, set);
        }
        return leave(set, &answer, answer.kept > from);
    }
    sleep(index, set, &mut answer, timeout_ns, kernel)
}

/// The wait of a set without a socket of ours, as most sets of most programs are: the kernel's, at the price
/// of a glance before and after. `Err`, with the time that is left: the first member came meanwhile, and the
/// kernel told of nothing else.
fn wait_without_members(
    (index, set, life): (Index, &Set, u32),
    events: &mut [Event],
    timeout_ns: Option<u64>,
    kernel: &mut dyn Kernel,
) -> Result<Outcome, Option<u64>> {
    let end = timeout_ns.filter(|ns| *ns > 0).map(|ns| os::time::monotonic_ns().saturating_add(ns));
    // (A set inside this one may wait for it, and a loop whose waits are all short has no slices.)
    if watch::has_held() {
        look_after_held();
    }
    if !set.begin_sleep() {
        return Ok(Outcome::Forward);
    }
    if set.has_members() {
        wake(index, set);
        return Err(timeout_ns);
    }
    let told = wait_in_slices(end, events, timeout_ns, kernel);
    let is_all_plain = |got: usize| {
        !set.has_members() && !events[..got].iter().any(|event| meant(event.data, index).is_some())
    };
    if told.is_err() || told.is_ok_and(is_all_plain) {
        wake(index, set);
        return Ok(told.map_or_else(Outcome::Fail, Outcome::Done));
    }
    let mut answer = Answer::new(events, set, life);
    answer.translate(index, set, told.unwrap_or(0));
    wake(index, set);
    if set.is_over(life) {
        return Ok(Outcome::Done(answer.kept));
    }
    match end.map(|end| end.saturating_sub(os::time::monotonic_ns())) {
        left if answer.kept == 0 && timeout_ns != Some(0) && left != Some(0) => Err(left),
        _ => Ok(Outcome::Done(answer.kept)),
    }
}

/// A sleeper of the set is awake. Who was the last of a set that was closed meanwhile gives it back.
fn wake(index: Index, set: &Set) {
    if set.end_sleep() {
        records::dissolve(index, set);
    }
}

/// The kernel's wait, in slices while there is something to look after: a set inside this one may be waiting
/// for it.
fn wait_in_slices(
    end: Option<u64>,
    events: &mut [Event],
    timeout_ns: Option<u64>,
    kernel: &mut dyn Kernel,
) -> Result<usize, Errno> {
    let (mut left, mut sharers) = (timeout_ns, Sharers::new());
    loop {
        let sliced = sharers.slice_ns().filter(|slice| left.is_none_or(|left| *slice < left));
        let told = kernel.wait(events, sliced.or(left));
        if told != Ok(0) || sliced.is_none() {
            return told;
        }
        look_after_watched();
        sharers.look_after();
        left = end.map(|end| end.saturating_sub(os::time::monotonic_ns()));
    }
}

/// What the rings have to report, into the answer; whether it was anything.
fn collect(set: &Set, answer: &mut Answer<'_>) -> bool {
    if set.recent() == 0 {
        return answer.kept > 0;
    }
    match set.recent() as usize {
        few if few <= FEW => collect_up_to::<FEW>(set, answer),
        _ => collect_up_to::<MOST>(set, answer),
    }
}

/// (Apart by size: to clear room for many costs more than all else of a look at few.)
fn collect_up_to<const COUNT: usize>(set: &Set, answer: &mut Answer<'_>) -> bool {
    let mut found = [0u32; COUNT];
    let room = (answer.events.len() - answer.kept).min(COUNT);
    if room == 0 {
        return true;
    }
    let looked_at = Cycles::load(&set.looked_at);
    let count = set.look(&mut found, room, |registration| {
        let standing = with_end(registration, |conn, end| registration.standing(conn, end, looked_at));
        standing.unwrap_or(Standing::Silent)
    });
    // (A set that another thread closed may serve another descriptor by now.)
    if set.life() == answer.life {
        report(set, answer, &found[..count]);
    }
    answer.kept > 0
}

/// What the rings have to report of those that were found.
fn report(set: &Set, answer: &mut Answer<'_>, found: &[u32]) {
    for index in found {
        if let Some(registration) = registration::registrations().get(Index(*index))
            && registration.epfd() == set.epfd()
        {
            let generation = registration.generation.load(Ordering::Acquire);
            if generation & 1 == 1 {
                let told = Told { registration, generation, source: Source::Rings, raised: 0 };
                match ordinary(told) {
                    Some(found) => answer.enter(set, told, found),
                    None => answer.take(set, told),
                }
            }
        }
    }
}

fn with_end<T>(registration: &Registration, then: impl FnOnce(&'static Conn, &End) -> T) -> Option<T> {
    let conn = crate::held::peek_index(Index(registration.conn.load(Ordering::Relaxed)))?;
    End::of(conn).map(|end| then(conn, &end))
}

/// What was left in its ring may have been read: then nothing is to tell of it any more.
fn look_home(registration: &Registration) {
    if let Some(held) = hold_index(Index(registration.conn.load(Ordering::Relaxed)))
        && let Some(end) = End::of(&held)
    {
        home::notice(&held, &end);
    }
}

pub(super) fn kick(registration: &Registration) {
    if let Some(held) = hold_index(Index(registration.conn.load(Ordering::Relaxed)))
        && let Some(end) = End::of(&held)
    {
        doorbell::kick(&held, &end);
    }
}

/// The short wait before a sleep, as `wait::spin`, over all recent members. (Apart, for the frame of waits
/// that need none.)
#[inline(never)]
fn spin(set: &Set, answer: &mut Answer<'_>) -> Result<bool, Interrupted> {
    if set.recent() == 0 {
        return Ok(false);
    }
    let look = || collect(set, answer).then_some(());
    spin_on_set(&set.spin, set.recent(), look).map(|found| found.is_some())
}

/// Whether the kernel may have something to say: it had when it was asked last, a shutdown() may have made
/// some, or it was long ago.
fn is_kernel_due(set: &Set) -> bool {
    Cycles::now().since(Cycles::load(&set.asked_kernel)) > Cycles::load(&set.kernel_every)
        || set.news.load(Ordering::Relaxed) != watch::news()
}

/// A call that reports something leaves members unarmed, for its thread will look at them again; but others
/// may sleep. `by_kernel`: the kernel told of the last of it.
fn leave(set: &Set, answer: &Answer<'_>, by_kernel: bool) -> Outcome {
    turns::note(set, answer.is_full(), by_kernel);
    if set.is_watched() {
        set.arm_each(|registration| {
            let is_there = arm(registration, 0);
            // An edge that came meanwhile may have been drained away under somebody who sleeps.
            if is_there && registration.events() & bits::ET != 0 {
                kick(registration);
            }
            is_there
        });
    }
    Outcome::Done(answer.kept)
}

/// Asks to be rung for what the registration waits for; whether it is there already.
/// The caller counts as `mine` sleepers of the set.
pub(super) fn arm(registration: &Registration, mine: u32) -> bool {
    with_end(registration, |conn, end| {
        if registration.is_fired() || !registration.is_live() {
            return false;
        }
        if registration.is_pending(conn, end) {
            return true;
        }
        let awaits_space = registration.awaits_space(conn, end);
        if registration.events() & WRITE_SIDE != 0 && !conn.has(flag::STALLED) {
            watch_reader(conn, end, registration, awaits_space, mine);
        }
        let is_armed = doorbell::is_armed_for(conn, end, registration.events(), awaits_space);
        let is_shared = end.mine().set_sharers.load(Shared::Relaxed) > 0;
        let has_edge =
            || is_shared && registration.events() & bits::ET != 0 && registration.has_edge(conn, end);
        if !is_armed || has_edge() {
            // (Whoever rings or drains a doorbell holds the connection: see `shm::lent`.)
            let index = Index(registration.conn.load(Ordering::Relaxed));
            let Some(_held) = hold_seen(index, conn) else { return false };
            if !is_armed {
                doorbell::rearm(conn, end, false, false);
            }
            if has_edge() {
                doorbell::kick(conn, end);
            }
        }
        // (Of a level the look below sees it.)
        if registration.events() & bits::ET != 0 {
            push::note_held(end);
        }
        registration.is_pending(conn, end)
    })
    .unwrap_or(false)
}

/// A writer waits for room: the next ticks look whether the reader rests. (The caller may have a turn.)
#[cold]
fn watch_reader(conn: &'static Conn, end: &End, registration: &Registration, awaits_space: bool, mine: u32) {
    let waits = awaits_space || registration.events() & bits::ET == 0;
    let is_told = || ready::writes_outside(conn, end) && registration.hears_of_room_outside();
    if waits
        && !is_told()
        && let Some(held) = hold_seen(Index(registration.conn.load(Ordering::Relaxed)), conn)
    {
        detour::await_reader(&held, end, mine);
    }
}

fn sleep(
    index: Index,
    set: &Set,
    answer: &mut Answer<'_>,
    timeout_ns: Option<u64>,
    kernel: &mut dyn Kernel,
) -> Outcome {
    let end = timeout_ns.map(|ns| os::time::monotonic_ns().saturating_add(ns));
    let (mut patience, mut sharers) = (Patience::default(), Sharers::new());
    let slept_from = Cycles::now();
    let (mut hushed, mut in_vain) = (answer.notes.hushed, 0);
    loop {
        let left = end.map(|end| end.saturating_sub(os::time::monotonic_ns()));
        if !set.begin_sleep() {
            return Outcome::Done(answer.kept);
        }
        set.take_untold_in();
        let is_there = set.arm_all(|registration| arm(registration, 1));
        let sliced = match (left, sharers.slice_ns()) {
            (Some(left), Some(slice)) => Some(left.min(slice)),
            (left, slice) => left.or(slice),
        };
        hand_over();
        answer.notes.has_rung = false;
        let room = answer.room();
        answer.asleep = 1;
        let asked = answer.ask(index, set, |events| match is_there {
            true => kernel.glance(events),
            false => kernel.wait(events, sliced),
        });
        answer.asleep = 0;
        wake(index, set);
        let is_empty = match asked {
            Ok(got) => got == 0,
            Err(errno) => return Outcome::Fail(errno),
        };
        if set.is_over(answer.life) {
            return Outcome::Done(answer.kept);
        }
        let is_kernels = answer.kept > 0 && !is_there && !answer.notes.has_rung;
        if asked == Ok(room) {
            turns::fill(&mut Asking { index, set, answer, kernel }, set);
        }
        let by_kernel = answer.kept > 0;
        if is_there || answer.kept == 0 {
            collect(set, answer);
        }
        if answer.kept > 0 {
            if is_kernels {
                crate::wait::learn_of_another(&set.spin);
            } else {
                crate::wait::learn(&set.spin, slept_from);
            }
            return leave(set, answer, by_kernel);
        }
        // (What the kernel told was ours alone, and is put right by now: it may have stood before the
        // program's own, or for a ONESHOT record that is loaded again.)
        let is_asked_again = !is_empty && in_vain < IN_VAIN_MAX;
        in_vain += 1;
        if left == Some(0) && !is_asked_again || (is_empty && !is_there && sliced == left && left.is_some()) {
            return Outcome::Done(0);
        }
        if left == Some(0) {
            continue;
        }
        tick_if_due(set);
        if is_empty && !is_there {
            tick(set);
            sharers.look_after();
        } else if answer.notes.hushed > hushed && answer.notes.hushed < HUSHED_MAX {
            // After a burst many doorbells and edges may stand for what has long been read; each tells it
            // once.
            hushed = answer.notes.hushed;
        } else {
            // Rung, but not for us: somebody else's level keeps the doorbell loud.
            pause(&mut patience, left);
        }
    }
}

fn pause(patience: &mut Patience, left: Option<u64>) {
    let ms = i64::from(patience.next_ms()).min(left.map_or(i64::MAX, |ns| (ns / 1_000_000) as i64));
    if ms > 0 {
        let _ = os::poll::wait_raw(&mut [], ms as i32);
    }
}

/// [`tick`] now and then: a program that waits for short times only, or is always told something, is owed it
/// as well.
fn tick_if_due(set: &Set) {
    if slice_ms() < 0 {
        return;
    }
    let now = Cycles::now();
    if now.since(Cycles::load(&set.ticked)) > TICK_EVERY {
        now.store(&set.ticked);
        tick(set);
    }
}

/// Looks after the members of the set that need it.
fn tick(set: &Set) {
    if slice_ms() < 0 {
        return;
    }
    for (_, registration) in set.members() {
        if let Some(conn) = hold_index(Index(registration.conn.load(Ordering::Relaxed)))
            && conn.is(Phase::Intent)
        {
            answer::refresh(&conn, registration.number());
        }
    }
    look_after_watched();
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
    fn new(events: &'a mut [Event], set: &Set, life: u32) -> Self {
        let (batch, changes, notes) = (Batches::next(), set.changes(), Notes::default());
        Answer { events, kept: 0, batch, notes, dealt: None, asleep: 0, named: 0..0, changes, life }
    }
}

impl Answer<'_> {
    fn is_full(&self) -> bool {
        self.room() == 0
    }

    fn room(&self) -> usize {
        self.events.len() - self.kept
    }

    /// Asks the kernel, by `wait`, for what the answer has room for. How much it told, of interest or not.
    fn ask(
        &mut self,
        index: Index,
        set: &Set,
        wait: impl FnOnce(&mut [Event]) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let from = self.kept;
        if self.is_full() {
            return Ok(0);
        }
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
    fn translate(&mut self, index: Index, set: &Set, got: usize) {
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
    fn take(&mut self, set: &Set, told: Told) {
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

    fn enter(&mut self, set: &Set, told: Told, (level, data): (u32, u64)) {
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
#[path = "wait_tests.rs"]
mod tests;
