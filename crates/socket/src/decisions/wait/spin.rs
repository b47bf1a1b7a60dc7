//! The short wait before a sleep: what `policy` says is done here. Owns: the system call by which a core is
//! given away, that a signal which comes meanwhile ends the call, and the habits of this process.

use crate::conn::Conn;
use crate::here::{Part as _, fabric};
use crate::phase::Phase;
use crate::policy::{For, Habits, HandOver, Measured, Rules, Saw, Step, Waiter, Window};
use fabric::door::Directory as _;
use os::held_back::{self, HeldBack, Interrupted};
use os::time::Cycles;
use shm::slices::Slices;

/// Most rounds that anybody may spin here.
#[inline]
fn most_rounds() -> u32 {
    if os::confined::is_confined() { 0 } else { fabric().config.spin() }
}

/// A wait on `conn`, of so many rounds at most.
#[inline]
pub(super) fn waiter(conn: &Conn, most: u32) -> Waiter<'_> {
    let what = if conn.phase() == Phase::Intent { For::Answer } else { For::Peer };
    Waiter::new(what, &conn.waits, Habits::here(), most)
}

/// Looks again and again for as long as it is worth it on `conn`. A look costs so many of a single one.
/// `before_yield` comes before each of them: on a busy machine the core is away for milliseconds then, in
/// which the call may be left. A signal that came then is an error.
#[inline]
pub(crate) fn spin_for<T>(
    conn: &Conn,
    cost: u32,
    before_yield: impl FnMut(),
    look: impl FnMut() -> Option<T>,
) -> Result<Option<T>, Interrupted> {
    spin_by(waiter(conn, most_rounds()).with_cost(cost), before_yield, look)
}

/// The same over an epoll set, each wait of which is worth `window`, after a look in vain.
#[inline]
pub(crate) fn spin_on_set<T>(
    window: &Window,
    cost: u32,
    look: impl FnMut() -> Option<T>,
) -> Result<Option<T>, Interrupted> {
    spin_by(Waiter::on_set(window, Habits::here(), most_rounds()).with_cost(cost), || (), look)
}

#[inline]
fn spin_by<T>(
    mut waiter: Waiter<'_>,
    mut before_yield: impl FnMut(),
    mut look: impl FnMut() -> Option<T>,
) -> Result<Option<T>, Interrupted> {
    let (mut saw, mut signals) = (Saw::Nothing, None);
    // Signals are asked for behind a look in vain that follows a yield.
    let mut is_back = false;
    loop {
        match waiter.next(Cycles::now, saw) {
            Step::Look => {
                let found = look();
                if found.is_some() {
                    waiter.found();
                    return Ok(found);
                }
                if core::mem::take(&mut is_back)
                    && signals.as_ref().is_some_and(HeldBack::has_any)
                    && let Some(interrupted) = signals.take().and_then(HeldBack::let_come)
                {
                    return Err(interrupted);
                }
                saw = Saw::Nothing;
            }
            Step::Pause => sync::pause(),
            Step::Yield => {
                before_yield();
                if signals.is_none() && waiter.may_be_away_for_long(Cycles::now) {
                    signals = held_back::hold_back();
                }
                saw = Saw::Core(yield_core(), slices());
                is_back = true;
            }
            Step::Nap | Step::Sleep => {
                return signals.take().and_then(HeldBack::let_come).map_or(Ok(None), Err);
            }
        }
    }
}

/// Looks at something else than a connection, between pauses, until `enough` says so or for as long as
/// yielding may pay: somebody is about to do it, most likely at work on another core if this one is wanted by
/// nobody.
pub(crate) fn spin_until(mut enough: impl FnMut() -> bool) {
    while most_rounds() > 0 && !Habits::here().abstains(Cycles::now) && !enough() {
        if has_core_alone() {
            (0..Measured::LOOKS / 2).for_each(|_| sync::pause());
        } else {
            let given = yield_core();
            Habits::here().note_yield(given, slices(), Cycles::now());
        }
    }
}

/// A sleep of `from` until now on what is worth `window`: a short one would have been worth a longer spin.
pub(crate) fn learn(window: &Window, from: Cycles) {
    window.learn::<Measured>(Cycles::now().since(from), fabric().config.spin());
}

/// A sleep ended with what only the kernel tells (another thread of the program, a new client).
pub(crate) fn learn_of_another(window: &Window) {
    window.shrink();
}

/// Whether the last yield found nobody else who wanted the core.
#[inline]
pub(crate) fn has_core_alone() -> bool {
    Habits::here().has_core_alone()
}

/// A thread is about to wait without its core.
pub(crate) fn hand_over() -> HandOver {
    HandOver::note::<Measured>(slices(), os::process::current_cpu(), Cycles::now())
}

fn yield_core() -> HandOver {
    let given = hand_over();
    os::process::yield_now();
    given
}

fn slices() -> Option<&'static Slices> {
    fabric().tier().mapped().map(|map| &map.slices)
}
