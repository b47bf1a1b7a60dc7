//! What a waiter does next: looks, pauses and yields while that is worth it, then a nap or a sleep. Owns: the
//! order of these steps, and who is told what they taught. No system call, no static; the clock is asked for
//! only where a rule needs it.

use super::habits::{Habits, HandOver};
use super::learned::{Learned, Window};
use super::rules::{Measured, Rules};
use os::time::Cycles;
use shm::slices::Slices;

/// What a waiter is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Look whether it is there.
    Look,
    /// Let the core breathe.
    Pause,
    /// Give the core away, and stay runnable.
    Yield,
    /// Sleep on the wait word, for a short time at most.
    Nap,
    /// Sleep on everything that may happen.
    Sleep,
}

/// What came of the last step.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Saw<'t> {
    /// Nothing: before the first step, after a look in vain and after a pause; of a nap, that it cannot be
    /// had.
    Nothing,
    /// The core is back that was given away by a yield.
    Core(HandOver, Option<&'t Slices>),
    /// A nap or a sleep is over: whether what is waited for is there.
    Wake(bool),
}

/// What is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum For {
    /// A peer's bytes, or space.
    Peer,
    /// A server that has not answered the offer. Where somebody else wants the core it may be that server,
    /// which has yet to accept.
    Answer,
    /// Any member of an epoll set, all of which have just been looked at.
    Member,
}

/// One wait.
pub(crate) struct Waiter<'a, R = Measured> {
    what: For,
    window: &'a Window,
    learned: Option<&'a Learned<R>>,
    habits: &'a Habits<R>,
    /// Most rounds.
    most: u32,
    /// What a look costs, in looks at a single connection.
    cost: u32,
    may_nap: bool,
    /// The step that was said last.
    last: Option<Step>,
    /// Rounds that the window had, and that this wait has.
    size: u32,
    rounds: u32,
    round: u32,
    /// Looks of this round that are left; [`LAST_LOOK`] after the rounds.
    looks: u32,
    /// How long its yields have taken.
    yielded: Cycles,
    /// When the nap or sleep began.
    since: Cycles,
}

/// No look follows but this one.
const LAST_LOOK: u32 = u32::MAX;

impl<'a, R: Rules> Waiter<'a, R> {
    /// On one connection, with at most so many rounds, by looks that cost so many of a single one.
    #[inline]
    pub(crate) fn new(what: For, learned: &'a Learned<R>, habits: &'a Habits<R>, most: u32) -> Self {
        let window = if what == For::Answer { &habits.answers } else { &learned.window };
        Self::on(what, window, Some(learned), habits, most)
    }

    /// On a set whose waits are worth `window`.
    #[inline]
    pub(crate) fn on_set(window: &'a Window, habits: &'a Habits<R>, most: u32) -> Self {
        Self::on(For::Member, window, None, habits, most)
    }

    #[inline]
    fn on(
        what: For,
        window: &'a Window,
        learned: Option<&'a Learned<R>>,
        habits: &'a Habits<R>,
        most: u32,
    ) -> Self {
        Waiter {
            what,
            window,
            learned,
            habits,
            most,
            cost: 1,
            may_nap: false,
            last: None,
            size: 0,
            rounds: 0,
            round: 0,
            looks: 0,
            yielded: Cycles::NONE,
            since: Cycles::NONE,
        }
    }

    /// A look costs so many of a single one: it is taken less often.
    #[inline]
    pub(crate) fn with_cost(mut self, cost: u32) -> Self {
        self.cost = cost.max(1);
        self
    }

    /// Whoever wakes it can wake it from a nap.
    #[inline]
    pub(crate) fn with_naps(mut self, may_nap: bool) -> Self {
        self.may_nap = may_nap;
        self
    }

    /// What to do next, after what was seen of the last step. (Whoever finds what he waits for does not come
    /// back, but says so by [`Waiter::found`] or [`Waiter::end_rest`].)
    #[inline]
    pub(crate) fn next(&mut self, now: impl Fn() -> Cycles, saw: Saw<'_>) -> Step {
        let step = match (self.last, saw) {
            (None, _) => self.begin(now),
            (Some(Step::Look), _) if self.looks == LAST_LOOK => self.rest(now()),
            (Some(Step::Look), _) => Step::Pause,
            (Some(Step::Pause), _) if self.looks > 1 => {
                self.looks -= 1;
                Step::Look
            }
            (Some(Step::Pause), _) => Step::Yield,
            (Some(Step::Yield), Saw::Core(given, slices)) => self.after_yield(given, slices, now()),
            (Some(Step::Nap), Saw::Wake(is_granted)) => self.after_nap(is_granted, now),
            (Some(Step::Nap), _) => Step::Sleep,
            (Some(Step::Sleep), Saw::Wake(is_granted)) => self.after_sleep(is_granted, now()),
            // The step has not been taken.
            (Some(step), _) => step,
        };
        self.last = Some(step);
        step
    }

    /// Whether a signal may well come in the yield that is next, and is to be looked for behind it: the wait
    /// is no short one, or the core is likely to be gone for a whole slice. (What comes sooner is as if it
    /// had come before the call.)
    #[inline]
    pub(crate) fn may_be_away_for_long(&self, now: impl Fn() -> Cycles) -> bool {
        self.yielded > R::LONG_AWAY || self.habits.was_away_for_a_slice(now)
    }

    #[inline]
    fn begin(&mut self, now: impl Fn() -> Cycles) -> Step {
        self.size = self.window.rounds();
        let is_alone = self.what != For::Answer || self.habits.has_core_alone();
        self.rounds = if is_alone { self.size } else { 1 };
        if self.learned.is_some_and(Learned::is_time_to_part) {
            // (A wait that was to end is no measure of what waiting is worth.)
            self.size = u32::MAX;
            return self.look_once_more();
        }
        let may_spin = self.most > 0 && !self.habits.abstains(&now);
        match (may_spin, self.what) {
            (true, _) if self.rounds > 0 => self.begin_round(),
            (false, For::Member) => self.rest(now()),
            _ => self.look_once_more(),
        }
    }

    #[inline]
    fn begin_round(&mut self) -> Step {
        // A window of one is a mere yield: its look costs next to nothing where spinning does not pay.
        let has_looks = self.rounds > 1 || self.what == For::Member;
        self.looks = if has_looks { (self.habits.looks() / self.cost).max(1) } else { 1 };
        Step::Look
    }

    #[inline]
    fn look_once_more(&mut self) -> Step {
        self.looks = LAST_LOOK;
        self.round = self.rounds;
        Step::Look
    }

    #[inline]
    fn after_yield(&mut self, given: HandOver, slices: Option<&Slices>, now: Cycles) -> Step {
        self.yielded = self.yielded.plus(given.lasted(now));
        let was_shared = self.habits.note_yield(given, slices, now);
        if let Some(learned) = self.learned {
            learned.note_yield(was_shared);
        }
        if self.what == For::Answer && (was_shared || !self.habits.has_core_alone()) {
            self.window.set((self.size / 2).max(1));
            return self.look_once_more();
        }
        self.round += 1;
        if self.round < self.rounds.min(self.most) && self.yielded <= R::MOST_YIELDING {
            self.begin_round()
        } else {
            self.look_once_more()
        }
    }

    /// A look found it.
    #[inline]
    pub(crate) fn found(&self) {
        if self.what != For::Member {
            self.window.grow(self.round, self.size, self.most);
        }
    }

    /// From now on asleep.
    #[inline]
    fn rest(&mut self, now: Cycles) -> Step {
        self.since = now;
        if self.may_nap && self.learned.is_some_and(|learned| learned.is_nap_due(now)) {
            Step::Nap
        } else {
            Step::Sleep
        }
    }

    /// Without another look, which the caller has just taken: whether to nap or to sleep.
    #[inline]
    pub(crate) fn begin_rest(&mut self, now: Cycles) -> Step {
        let step = self.rest(now);
        self.last = Some(step);
        step
    }

    /// The rest is over before it was a wait, or for another reason than what is waited for.
    pub(crate) fn end_rest(&self, now: Cycles) {
        self.window.learn::<R>(now.since(self.since), self.most);
    }

    /// A nap in vain is followed by a proper sleep, for only that hears of everything.
    fn after_nap(&self, is_granted: bool, now: impl Fn() -> Cycles) -> Step {
        if let Some(learned) = self.learned {
            learned.note_nap(is_granted);
        }
        if !is_granted {
            return Step::Sleep;
        }
        self.end_rest(now());
        Step::Look
    }

    fn after_sleep(&self, is_granted: bool, now: Cycles) -> Step {
        self.end_rest(now);
        if let Some(learned) = self.learned {
            learned.note_sleep(self.since, now, is_granted);
        }
        Step::Look
    }
}
