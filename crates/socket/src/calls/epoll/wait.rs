//! The waits. Owns: the order of looks: rings first, the kernel when they have nothing to say or it was not
//! asked for a while, and before them beside a connection that others have; that no thread sleeps before
//! every member is armed.

use crate::conn::Conn;
use crate::end::End;
use crate::epoll::ctl::meant;
use crate::epoll::entries::Answer;
use crate::epoll::rounds::{Sharers, look_after_held, look_after_watched, slice_ms};
use crate::epoll::telling::ordinary;
use crate::epoll::turns;
use crate::held::{hold_index, hold_seen};
use crate::interest::arrival::{FEW, MOST, Standing};
use crate::interest::events::WRITE_SIDE;
use crate::interest::registration::{self, Registration, Source, Told};
use crate::interest::set::Set;
use crate::phase::Phase;
use crate::wait::{Patience, hand_over, spin_on_set};
use crate::{Outcome, answer, detour, doorbell, flag, home, push, ready, records, sleepers, unseen, watch};
use os::Errno;
use os::epoll::{Event, bits};
use os::held_back::Interrupted;
use os::time::Cycles;
use shm::slab::Index;
use sync::Ordering as Shared;
use sync::Ordering;

/// Between two looks at unanswered intents.
const TICK_EVERY: Cycles = Cycles::from_ms(10);
/// So much a sleep makes silent without a pause: more than any burst leaves, and an end to a peer that rings
/// for nothing.
const HUSHED_MAX: u32 = 1 << 16;
/// So often a wait that has no time left asks again, where the kernel told of nothing but our own affairs.
const IN_VAIN_MAX: u32 = 16;

/// So often the kernel is asked at most for what was ready before the rings: doorbells that they speak for
/// may stand before it.
const ASKED_AHEAD_MOST: usize = 8;

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
        if found.iter().any(|member| is_anothers_too(*member)) {
            self.ask_once();
        }
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

impl Asking<'_, '_> {
    /// Whether the kernel is asked before the rings are told of. Beside a connection that another process has
    /// as well it is: what is ready there may be that one's word about who reads what comes, and was said
    /// before it came. (Samba passes a connection on, and keeps it until it hears that it has arrived.)
    fn asks_first(&self, found: &[u32]) -> bool {
        !self.answer.has_asked && found.iter().any(|member| is_anothers_too(*member))
    }

    /// What is the rings' to tell is left to them.
    fn ask_ahead(&mut self) {
        for _ in 0..ASKED_AHEAD_MOST {
            let room = self.answer.room();
            if room == 0 || turns::Round::ask(self, Some(room)).0 < room {
                return;
            }
        }
    }

    fn ask_once(&mut self) {
        if !self.answer.has_asked {
            let _ = self.answer.ask(self.index, self.set, |events| self.kernel.glance(events));
        }
    }
}

/// Whether another process may have the member's connection as well.
#[inline]
fn is_anothers_too(member: u32) -> bool {
    let Some(registration) = registration::registrations().get(Index(member)) else { return false };
    registration.peek_conn().is_some_and(|conn| {
        !conn.is_exclusive() && End::of(conn).is_some_and(|end| sleepers::is_shared(conn, &end))
    })
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
    let may_spin = timeout_ns != Some(0) && !kernel.has_mask();
    let mut asking = Asking { index, set, answer: &mut answer, kernel };
    if set.owes_kernel.swap(0, Ordering::Relaxed) != 0 {
        asking.ask_once();
    }
    if set.laps.are_on() && turns::deal(&mut asking, set) {
        return leave(set, &answer, false);
    }
    let found = match collect(&mut asking) {
        false if may_spin => spin(&mut asking),
        has_some => Ok(has_some),
    };
    let Ok(has_some) = found else { return Outcome::Fail(Errno::EINTR) };
    if has_some {
        let from = answer.kept;
        // (Once for an answer: it would tell of its own descriptors again.)
        if !answer.has_asked && is_kernel_due(set) {
            tick(set);
            turns::fill(&mut Asking { index, set, answer: &mut answer, kernel }, set);
        }
        return leave(set, &answer, answer.kept > from || answer.by_rings == 0);
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
fn collect(asking: &mut Asking<'_, '_>) -> bool {
    match asking.set.recent() as usize {
        0 => asking.answer.kept > 0,
        few if few <= FEW => collect_up_to::<FEW>(asking),
        _ => collect_up_to::<MOST>(asking),
    }
}

/// (Apart by size: to clear room for many costs more than all else of a look at few.)
fn collect_up_to<const COUNT: usize>(asking: &mut Asking<'_, '_>) -> bool {
    let mut found = [0u32; COUNT];
    let (set, room) = (asking.set, asking.answer.room().min(COUNT));
    if room == 0 {
        return true;
    }
    let looked_at = Cycles::load(&set.looked_at);
    let standing = |registration: &'static Registration| {
        let standing = with_end(registration, |conn, end| registration.standing(conn, end, looked_at));
        standing.unwrap_or(Standing::Silent)
    };
    let count = set.look(&mut found, room, standing, |found| asking.asks_first(found)).unwrap_or_else(|| {
        asking.ask_ahead();
        let room = asking.answer.room().min(COUNT);
        if room == 0 { 0 } else { set.look(&mut found, room, standing, |_| false).unwrap_or(0) }
    });
    // (A set that another thread closed may serve another descriptor by now.)
    if set.life() == asking.answer.life {
        report(set, asking.answer, &found[..count]);
    }
    asking.answer.kept > 0
}

/// What the rings have to report of those that were found, as far as there is room.
fn report(set: &Set, answer: &mut Answer<'_>, found: &[u32]) {
    for index in found.iter().take(answer.room()) {
        if let Some(registration) = registration::registrations().get(Index(*index))
            && registration.epfd() == set.epfd()
        {
            let generation = registration.generation.load(Ordering::Acquire);
            if generation & 1 == 1 {
                let told = Told { registration, generation, source: Source::Rings, raised: 0 };
                let before = answer.kept;
                match ordinary(told) {
                    Some(found) => answer.enter(set, told, found),
                    None => answer.take(set, told),
                }
                answer.by_rings += answer.kept - before;
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
fn spin(asking: &mut Asking<'_, '_>) -> Result<bool, Interrupted> {
    let set = asking.set;
    if set.recent() == 0 {
        return Ok(false);
    }
    let look = || collect(asking).then_some(());
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
            collect(&mut Asking { index, set, answer, kernel });
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
