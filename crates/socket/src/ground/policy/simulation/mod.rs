//! Many waiters on few cores in virtual time, so that a rule can be tried in a second. A model: no product
//! code calls it, and its times have the size of real ones and are not measured. Invariant: equal scenarios
//! give equal runs; waiters go by the policy alone, with the rules that the run is given.
//!
//! Each pair plays ball over shared memory: who has the message works for a while, sends it back and waits.
//! Every end is a process of its own, with its own habits; the table of slices is one for all, as in the
//! registry.

mod cores;
mod tests;

use super::{For, Habits, HandOver, Learned, Rules, Saw, Step, Waiter};
use cores::{Cores, Slice, TaskId};
use os::time::Cycles;
use shm::slices::Slices;
use std::ops::Range;
use testkit::Random;

/// Virtual nanoseconds.
type Ns = u64;
const US: Ns = 1_000;
const MS: Ns = 1_000_000;
/// SMC_SPIN, unless somebody sets it.
const MOST_ROUNDS: u32 = 16;

/// What things cost.
mod cost {
    use super::{Ns, US};

    pub(super) const LOOK: Ns = 80;
    pub(super) const PAUSE: Ns = 80;
    pub(super) const YIELD: Ns = 400;
    pub(super) const SEND: Ns = 200;
    /// To fall asleep and to wake somebody, by a futex and by poll and a pipe.
    pub(super) const NAP: Ns = US;
    pub(super) const WAKE_NAP: Ns = US;
    pub(super) const SLEEP: Ns = 3 * US;
    pub(super) const WAKE_SLEEP: Ns = 2 * US;
    /// A nap in vain.
    pub(super) const LONGEST_NAP: Ns = 5_000 * US;
    /// Work is done in pieces: in between others may be seen.
    pub(super) const STRETCH: Ns = 20 * US;
}

/// A reading of the counter, which had run for a while when the run began.
fn at(now: Ns) -> Cycles {
    Cycles::from_ms(10_000).plus(Cycles::from_word(Cycles::from_us(now).word() / US))
}

/// Who is there, and for how long.
#[derive(Clone)]
struct Scenario {
    cores: usize,
    pairs: usize,
    /// How long who has the message works before he answers.
    work: Range<Ns>,
    start: Start,
    /// Until when somebody computes on each core; 0 for nobody.
    computed_until: Ns,
    /// Of the run; and from when it counts.
    until: Ns,
    counted_from: Ns,
    seed: u64,
}

/// Where the ends of a pair begin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    Together,
    Apart,
    Anywhere,
}

/// What all waiters did in the time that counts.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Tally {
    messages: u64,
    /// Of them, to a peer on the same core.
    to_same_core: u64,
    looks: u64,
    yields: u64,
    /// Of them, with signals held back.
    guarded: u64,
    naps: u64,
    sleeps: u64,
    /// Time of cores that went into work, and into looks, pauses, yields and sleeps.
    worked: Ns,
    wasted: Ns,
}

/// What a process knows.
struct Mind<R> {
    habits: Habits<R>,
    learned: Learned<R>,
}

/// One end of a pair.
struct End<'a, R> {
    mind: &'a Mind<R>,
    doing: Doing<'a, R>,
    /// From when the peer's message can be seen.
    inbox: Option<Ns>,
    /// Asleep so that the peer has to wake it: napping or not.
    asleep: Option<Step>,
}

enum Doing<'a, R> {
    Work { left: Ns },
    Wait { waiter: Waiter<'a, R>, after: After },
}

/// What a wait comes back from.
#[derive(Clone, Copy)]
enum After {
    Nothing,
    Yield(HandOver),
    Rest,
}

struct Host<'a, R> {
    cores: Cores,
    ends: Vec<End<'a, R>>,
    slices: Slices,
    random: Random,
    scenario: &'a Scenario,
    tally: Tally,
}

/// Runs `scenario` by the rules `R`.
fn run<R: Rules>(scenario: &Scenario) -> Tally {
    let minds: Vec<Mind<R>> =
        (0..2 * scenario.pairs).map(|_| Mind { habits: Habits::new(), learned: Learned::new() }).collect();
    let mut host = Host::new(scenario, &minds);
    while host.step() < scenario.until {}
    host.tally
}

impl<'a, R: Rules> Host<'a, R> {
    fn new(scenario: &'a Scenario, minds: &'a [Mind<R>]) -> Self {
        let mut random = Random::new(scenario.seed);
        let mut cores = Cores::new(scenario.cores);
        for _ in 0..scenario.pairs {
            let (one, other) = (random.below(scenario.cores), random.below(scenario.cores));
            cores.begin(one);
            cores.begin(match scenario.start {
                Start::Together => one,
                Start::Apart => (one + 1) % scenario.cores,
                Start::Anywhere => other,
            });
        }
        if scenario.computed_until > 0 {
            (0..scenario.cores).for_each(|core| _ = cores.begin(core));
        }
        let ends = minds.iter().enumerate().map(|(at, mind)| {
            let doing = if at % 2 == 0 { Doing::Work { left: US } } else { waiting(mind) };
            End { mind, doing, inbox: None, asleep: None }
        });
        let ends = ends.collect();
        Host { cores, ends, slices: Slices::new(), random, scenario, tally: Tally::default() }
    }

    fn counts(&mut self, now: Ns, count: impl FnOnce(&mut Tally)) {
        if now >= self.scenario.counted_from {
            count(&mut self.tally);
        }
    }

    /// The core that is furthest behind does one thing. Returns how far it had come.
    fn step(&mut self) -> Ns {
        let Slice { core, task, now } = self.cores.next();
        match self.ends.get_mut(task.0).map(|end| &mut end.doing) {
            None => self.compute(core, now),
            Some(Doing::Work { left: 0 }) => self.send(core, task, now),
            Some(Doing::Work { left }) => {
                let took = (*left).min(cost::STRETCH);
                *left -= took;
                self.counts(now, |tally| tally.worked += took);
                self.cores.spend(core, took);
            }
            Some(Doing::Wait { .. }) => self.wait(core, task, now),
        }
        now
    }

    fn compute(&mut self, core: usize, now: Ns) {
        self.cores.spend(core, cost::STRETCH);
        if now >= self.scenario.computed_until {
            self.cores.leave(core, None);
        }
    }

    fn send(&mut self, core: usize, task: TaskId, now: Ns) {
        let to = TaskId(task.0 ^ 1);
        let is_near = self.cores.core_of(to) == core;
        self.counts(now, |tally| {
            tally.messages += 1;
            tally.to_same_core += u64::from(is_near);
        });
        self.cores.spend(core, cost::SEND);
        let peer = &mut self.ends[to.0];
        peer.inbox = Some(now + cost::SEND);
        if let Some(rest) = peer.asleep.take() {
            let took = if rest == Step::Nap { cost::WAKE_NAP } else { cost::WAKE_SLEEP };
            self.waste(core, took, now);
            self.cores.wake(to, now + cost::SEND + took);
        }
        self.ends[task.0].doing = waiting(self.ends[task.0].mind);
    }

    fn waste(&mut self, core: usize, time: Ns, now: Ns) {
        self.cores.spend(core, time);
        self.counts(now, |tally| tally.wasted += time);
    }

    fn wait(&mut self, core: usize, task: TaskId, now: Ns) {
        let end = &mut self.ends[task.0];
        let is_there = end.inbox.is_some_and(|from| from <= now);
        let Doing::Wait { waiter, after } = &mut end.doing else { return };
        let saw = match std::mem::replace(after, After::Nothing) {
            After::Nothing => Saw::Nothing,
            After::Yield(given) => Saw::Core(given, Some(&self.slices)),
            After::Rest => Saw::Wake(is_there),
        };
        end.asleep = None;
        let is_woken = matches!(saw, Saw::Wake(_));
        let step = waiter.next(|| at(now), saw);
        let is_guarded = waiter.may_be_away_for_long(|| at(now));
        if step == Step::Yield {
            *after = After::Yield(HandOver::note::<R>(Some(&self.slices), core as u32, at(now)));
        } else if step == Step::Look && is_there && !is_woken {
            waiter.found();
        }
        match step {
            Step::Look if is_there => self.receive(core, task, now),
            Step::Look => {
                self.counts(now, |tally| tally.looks += 1);
                self.waste(core, cost::LOOK, now);
            }
            Step::Pause => self.waste(core, cost::PAUSE, now),
            Step::Yield => {
                self.counts(now, |tally| {
                    tally.yields += 1;
                    tally.guarded += u64::from(is_guarded);
                });
                self.waste(core, cost::YIELD, now);
                self.cores.give_away(core);
            }
            Step::Nap | Step::Sleep => self.rest(core, task, now, step),
        }
    }

    fn receive(&mut self, core: usize, task: TaskId, now: Ns) {
        let Range { start, end } = self.scenario.work;
        let left = start + self.random.below((end - start) as usize) as Ns;
        let end = &mut self.ends[task.0];
        end.inbox = None;
        end.doing = Doing::Work { left };
        self.waste(core, cost::LOOK, now);
    }

    fn rest(&mut self, core: usize, task: TaskId, now: Ns, rest: Step) {
        let is_nap = rest == Step::Nap;
        self.counts(now, |tally| *(if is_nap { &mut tally.naps } else { &mut tally.sleeps }) += 1);
        self.waste(core, if is_nap { cost::NAP } else { cost::SLEEP }, now);
        let end = &mut self.ends[task.0];
        let Doing::Wait { after, .. } = &mut end.doing else { return };
        *after = After::Rest;
        // Armed, then looked again: who sends from here on wakes it.
        if let Some(from) = end.inbox {
            return self.cores.wait_until(core, from);
        }
        HandOver::note::<R>(Some(&self.slices), core as u32, at(now));
        end.asleep = Some(rest);
        self.cores.leave(core, is_nap.then_some(now + cost::LONGEST_NAP));
    }
}

fn waiting<R: Rules>(mind: &Mind<R>) -> Doing<'_, R> {
    let waiter = Waiter::new(For::Peer, &mind.learned, &mind.habits, MOST_ROUNDS).with_naps(true);
    Doing::Wait { waiter, after: After::Nothing }
}
