//! Each rule by which waiters go, alone: what ARCHITECTURE says under "Waiting", step by step, on a clock
//! that only the test moves. Invariant: a test here fails when its rule is taken out.

use super::{For, Habits, HandOver, Learned, Measured, Rules, Saw, Step, Waiter, Window};
use os::time::Cycles;
use shm::slices::Slices;
use std::cell::Cell;

const MOST: u32 = 16;
const CORE: u32 = 3;
const SHORT_YIELD: Cycles = Cycles::from_us(1);
/// Of a yield among so many that nobody's slice was long; and of one to somebody who computes.
const LONG_YIELD: Cycles = Cycles::from_ms(3);

/// One process with one connection, and a clock.
struct Lone {
    learned: Learned,
    habits: Habits,
    slices: Slices,
    now: Cell<Cycles>,
}

impl Lone {
    fn new() -> Self {
        let now = Cell::new(Cycles::from_ms(5_000));
        Lone { learned: Learned::new(), habits: Habits::new(), slices: Slices::new(), now }
    }

    fn wait(&self, what: For) -> Waiter<'_> {
        Waiter::new(what, &self.learned, &self.habits, MOST)
    }

    fn pass(&self, time: Cycles) {
        self.now.set(self.now.get().plus(time));
    }

    fn next(&self, waiter: &mut Waiter<'_>, saw: Saw<'_>) -> Step {
        waiter.next(|| self.now.get(), saw)
    }

    /// A yield of `time`, meanwhile by `others`.
    fn yields(&self, time: Cycles, others: impl FnOnce()) -> Saw<'_> {
        let given = HandOver::note::<Measured>(Some(&self.slices), CORE, self.now.get());
        others();
        self.pass(time);
        Saw::Core(given, Some(&self.slices))
    }

    /// A yield during which another program of ours had the core for a moment.
    fn yields_to_peer(&self) -> Saw<'_> {
        self.yields(SHORT_YIELD, || {
            self.slices.end(CORE, self.now.get().word() + 1, Measured::LONG_SLICE.word());
        })
    }

    /// A yield to a program without the library, which kept the core.
    fn yields_to_computer(&self) -> Saw<'_> {
        self.yields(LONG_YIELD, || {})
    }

    /// The steps of one wait in vain up to its rest, each yield as `saw` makes it.
    fn steps<'a>(&'a self, waiter: &mut Waiter<'_>, mut saw: impl FnMut(&'a Self) -> Saw<'a>) -> Vec<Step> {
        let mut steps = vec![self.next(waiter, Saw::Nothing)];
        while !matches!(steps.last(), Some(Step::Nap | Step::Sleep)) {
            let seen = if steps.last() == Some(&Step::Yield) { saw(self) } else { Saw::Nothing };
            steps.push(self.next(waiter, seen));
        }
        steps
    }

    fn steps_alone(&self, what: For) -> Vec<Step> {
        self.steps(&mut self.wait(what), |lone| lone.yields(SHORT_YIELD, || {}))
    }

    /// A rest of `time`, proper or not as it is due; what it was.
    fn rest(&self, time: Cycles, is_granted: bool) -> Step {
        let mut waiter = self.wait(For::Peer).with_naps(true);
        let rest = waiter.begin_rest(self.now.get());
        self.pass(time);
        self.next(&mut waiter, Saw::Wake(is_granted));
        rest
    }

    /// Has yielded so often to somebody who computes that it abstains.
    fn abstaining() -> Self {
        let lone = Lone::new();
        for _ in 0..Measured::TOO_MANY / Measured::LONG_YIELD_WEIGHT {
            let Saw::Core(given, slices) = lone.yields_to_computer() else { panic!("no yield") };
            lone.habits.note_yield(given, slices, lone.now.get());
        }
        lone
    }

    fn abstains(&self) -> bool {
        self.habits.abstains(|| self.now.get())
    }
}

fn count(steps: &[Step], step: Step) -> u32 {
    steps.iter().filter(|seen| **seen == step).count() as u32
}

#[test]
fn a_fresh_wait_is_two_rounds_of_looks_and_pauses_each_with_a_yield_and_then_a_last_look() {
    let lone = Lone::new();
    let steps = lone.steps_alone(For::Peer);
    assert_eq!(steps[..3], [Step::Look, Step::Pause, Step::Look]);
    assert_eq!(count(&steps, Step::Yield), Measured::ROUNDS_AT_FIRST);
    assert_eq!(count(&steps, Step::Look), Measured::ROUNDS_AT_FIRST * Measured::LOOKS + 1);
    assert_eq!(steps[steps.len() - 2..], [Step::Look, Step::Sleep]);
}

#[test]
fn no_wait_is_longer_than_the_user_allows() {
    for most in [0, 1, MOST] {
        let lone = Lone::new();
        lone.learned.window.set(1_000);
        let mut waiter = Waiter::new(For::Peer, &lone.learned, &lone.habits, most);
        let steps = lone.steps(&mut waiter, |lone| lone.yields(SHORT_YIELD, || {}));
        assert_eq!(count(&steps, Step::Yield), most);
        assert!(count(&steps, Step::Look) > 0);
    }
}

#[test]
fn short_sleeps_grow_the_window_and_long_ones_shrink_it() {
    let lone = Lone::new();
    let windows = |time, times: u32| -> Vec<u32> {
        let rounds = (0..times).map(|_| (lone.rest(time, true), lone.learned.window.rounds()).1);
        rounds.collect()
    };
    assert_eq!(windows(Cycles::from_us(20), 5), [4, 8, 16, 16, 16]);
    assert_eq!(windows(Cycles::from_us(51), 6), [8, 4, 2, 1, 1, 1]);
    assert_eq!(windows(Cycles::from_us(49), 1), [2]);
}

#[test]
fn what_no_look_would_have_found_makes_a_set_sleep_at_once() {
    let lone = Lone::new();
    let window = Window::new(MOST);
    (0..5).for_each(|_| window.shrink());
    let mut waiter = Waiter::on_set(&window, &lone.habits, MOST);
    let steps = lone.steps(&mut waiter, |lone| lone.yields(SHORT_YIELD, || {}));
    assert_eq!(steps, [Step::Look, Step::Sleep]);
    window.learn::<Measured>(Cycles::from_us(20), MOST);
    assert_eq!(window.rounds(), 2);
}

#[test]
fn a_spin_that_barely_paid_grows_the_window_and_one_that_paid_at_once_does_not() {
    for (yields, expected) in [(0, 4), (1, 4), (2, 8), (3, 8)] {
        let lone = Lone::new();
        lone.learned.window.set(4);
        let mut waiter = lone.wait(For::Peer);
        let (mut step, mut left) = (lone.next(&mut waiter, Saw::Nothing), yields);
        while left > 0 || step != Step::Look {
            left -= u32::from(step == Step::Yield);
            let saw = if step == Step::Yield { lone.yields(SHORT_YIELD, || {}) } else { Saw::Nothing };
            step = lone.next(&mut waiter, saw);
        }
        waiter.found();
        assert_eq!(lone.learned.window.rounds(), expected, "found after {yields} yields");
    }
}

#[test]
fn where_the_core_is_wanted_a_round_is_a_look_and_a_yield() {
    let lone = Lone::new();
    let mut waiter = lone.wait(For::Peer);
    let steps = lone.steps(&mut waiter, |lone| lone.yields(Cycles::from_us(11), || {}));
    // The first round does not know it yet.
    assert_eq!(count(&steps, Step::Look), Measured::LOOKS + 1 + 1);
    assert!(!lone.habits.has_core_alone());
}

#[test]
fn a_window_of_one_is_a_mere_yield_and_that_of_a_set_is_not() {
    let lone = Lone::new();
    lone.learned.window.set(1);
    assert_eq!(count(&lone.steps_alone(For::Peer), Step::Look), 2);
    let window = Window::new(1);
    let mut waiter = Waiter::on_set(&window, &lone.habits, MOST);
    let steps = lone.steps(&mut waiter, |lone| lone.yields(SHORT_YIELD, || {}));
    assert_eq!(count(&steps, Step::Look), Measured::LOOKS + 1);
}

#[test]
fn a_look_at_many_is_taken_less_often_but_taken() {
    for (cost, looks) in [(0, 50), (1, 50), (10, 5), (1_000, 1)] {
        let lone = Lone::new();
        let mut waiter = lone.wait(For::Peer).with_cost(cost);
        let steps = lone.steps(&mut waiter, |lone| lone.yields(SHORT_YIELD, || {}));
        assert_eq!(count(&steps, Step::Look), 2 * looks + 1, "cost {cost}");
    }
}

#[test]
fn one_window_serves_all_answers_of_a_process() {
    let lone = Lone::new();
    let steps = lone.steps_alone(For::Answer);
    assert_eq!(count(&steps, Step::Yield), Measured::ROUNDS_FOR_ANSWER);
    let mut waiter = lone.wait(For::Answer);
    waiter.begin_rest(lone.now.get());
    lone.pass(Cycles::from_us(20));
    lone.next(&mut waiter, Saw::Wake(true));
    lone.learned.reset();
    assert_eq!(lone.habits.answers.rounds(), 2 * Measured::ROUNDS_FOR_ANSWER, "a new connection knows it");
    assert_eq!(lone.learned.window.rounds(), Measured::ROUNDS_AT_FIRST, "and waits for bytes as any does");
}

#[test]
fn an_answer_is_waited_for_only_while_nobody_else_wants_the_core() {
    let lone = Lone::new();
    let mut waiter = lone.wait(For::Answer);
    let steps = lone.steps(&mut waiter, Lone::yields_to_peer);
    assert_eq!(count(&steps, Step::Yield), 1, "it may be the server who had it");
    assert_eq!(lone.habits.answers.rounds(), Measured::ROUNDS_FOR_ANSWER / 2);
    lone.steps(&mut lone.wait(For::Peer), |lone| lone.yields(Cycles::from_us(11), || {}));
    let steps = lone.steps_alone(For::Answer);
    assert_eq!((count(&steps, Step::Look), count(&steps, Step::Yield)), (2, 1));
}

#[test]
fn who_yields_to_the_peer_again_and_again_sleeps_once_and_then_less_often() {
    let lone = Lone::new();
    lone.learned.window.set(1);
    let mut yields_between = vec![];
    let mut yields = 0;
    for _ in 0..3 * 512 + 32 + 64 + 128 + 256 + 7 {
        let steps = lone.steps(&mut lone.wait(For::Peer), Lone::yields_to_peer);
        match count(&steps, Step::Yield) {
            0 => yields_between.push(std::mem::take(&mut yields)),
            more => yields += more,
        }
    }
    assert_eq!(yields_between, [32, 64, 128, 256, 512, 512, 512]);
}

#[test]
fn who_waits_on_a_machine_where_each_yield_takes_long_sleeps_soon() {
    let lone = Lone::new();
    let window = Window::new(MOST);
    let crowd = Cycles::from_ms(40);
    let mut waiter = Waiter::on_set(&window, &lone.habits, MOST);
    let steps = lone.steps(&mut waiter, |lone| {
        lone.yields(crowd, || {
            lone.slices.end(CORE, lone.now.get().word() + 1, Measured::LONG_SLICE.word());
        })
    });
    assert_eq!(count(&steps, Step::Yield), 3);
    assert_eq!(steps.last(), Some(&Step::Sleep));
}

#[test]
fn a_yield_to_nobody_ends_the_count_of_those_to_the_peer() {
    let lone = Lone::new();
    lone.learned.window.set(1);
    for _ in 0..4 * Measured::SHARED_YIELDS.0 {
        let steps = lone.steps(&mut lone.wait(For::Peer), Lone::yields_to_peer);
        assert_eq!(count(&steps, Step::Yield), 1, "never parts");
        assert_eq!(count(&lone.steps_alone(For::Peer), Step::Yield), 1, "nor here");
    }
}

#[test]
fn a_set_neither_parts_nor_learns_from_what_it_found() {
    let lone = Lone::new();
    let window = Window::new(MOST / 2);
    for _ in 0..8 {
        let mut waiter = Waiter::on_set(&window, &lone.habits, MOST);
        let steps = lone.steps(&mut waiter, Lone::yields_to_peer);
        assert_eq!(count(&steps, Step::Yield), MOST / 2);
        waiter.found();
    }
    assert_eq!(window.rounds(), MOST / 2);
}

#[test]
fn beside_somebody_who_computes_nobody_yields_for_a_while() {
    let lone = Lone::abstaining();
    assert!(lone.abstains());
    let steps = lone.steps_alone(For::Peer);
    assert_eq!(steps, [Step::Look, Step::Sleep]);
    let window = Window::new(8);
    let mut waiter = Waiter::on_set(&window, &lone.habits, MOST);
    assert_eq!(lone.next(&mut waiter, Saw::Nothing), Step::Sleep, "the members have been looked at");
    lone.pass(Measured::ABSTAIN.0);
    lone.pass(Cycles::from_us(1));
    assert!(!lone.abstains());
}

#[test]
fn one_long_yield_among_short_ones_says_little() {
    let lone = Lone::new();
    for _ in 0..100 {
        for time in [LONG_YIELD].into_iter().chain([SHORT_YIELD; Measured::LONG_YIELD_WEIGHT as usize]) {
            let Saw::Core(given, slices) = lone.yields(time, || {}) else { panic!("no yield") };
            lone.habits.note_yield(given, slices, lone.now.get());
            assert!(!lone.abstains());
        }
    }
}

#[test]
fn long_yields_among_too_few_short_ones_add_up() {
    let lone = Lone::new();
    // (A program of low priority, which has the core for milliseconds once in so many yields.)
    let turn = [LONG_YIELD].into_iter().chain([SHORT_YIELD; Measured::LONG_YIELD_WEIGHT as usize / 4]);
    let mut long = 0;
    for time in turn.cycle().take_while(|_| !lone.abstains()).take(100_000) {
        let Saw::Core(given, slices) = lone.yields(time, || {}) else { panic!("no yield") };
        lone.habits.note_yield(given, slices, lone.now.get());
        long += u32::from(time == LONG_YIELD);
    }
    assert!(lone.abstains() && long < 10, "after {long}");
}

#[test]
fn who_abstains_again_soon_does_so_for_longer_up_to_a_second() {
    let lone = Lone::abstaining();
    let mut spans = vec![];
    for _ in 0..8 {
        let from = lone.now.get();
        while lone.abstains() {
            lone.pass(Cycles::from_ms(1));
        }
        spans.push(lone.now.get().since(from));
        while !lone.abstains() {
            let Saw::Core(given, slices) = lone.yields_to_computer() else { panic!("no yield") };
            lone.habits.note_yield(given, slices, lone.now.get());
        }
    }
    let longer = spans.windows(2).filter(|two| two[1] > two[0]).count();
    assert!(longer >= 4 && spans.is_sorted(), "{spans:?}");
    assert!(spans.iter().all(|span| *span <= Measured::ABSTAIN.1.plus(Cycles::from_ms(1))), "{spans:?}");
}

#[test]
fn a_yield_that_lasted_because_many_took_their_slice_is_not_long() {
    let lone = Lone::new();
    for _ in 0..100 {
        let saw = lone.yields(Cycles::NONE, || {
            for _ in 0..100 {
                lone.pass(Cycles::from_us(30));
                lone.slices.end(CORE, lone.now.get().word(), Measured::LONG_SLICE.word());
            }
        });
        let Saw::Core(given, slices) = saw else { panic!("no yield") };
        assert!(!lone.habits.note_yield(given, slices, lone.now.get()), "a crowd is no pair to part");
        assert!(!lone.abstains());
    }
}

#[test]
fn short_sleeps_in_a_row_lead_to_naps_and_a_long_one_ends_them() {
    let lone = Lone::new();
    let short = Cycles::from_us(100);
    for _ in 0..Measured::NAPS_FROM {
        assert_eq!(lone.rest(short, true), Step::Sleep);
    }
    assert_eq!(lone.rest(short, true), Step::Nap);
    assert_eq!(lone.rest(short, false), Step::Nap);
    assert_eq!(lone.rest(short, true), Step::Sleep, "the last nap was in vain");

    for _ in 0..Measured::NAPS_FROM {
        lone.rest(short, true);
    }
    lone.learned.reset();
    for (time, is_granted) in [(Measured::SHORT_NAP, true), (short, false)] {
        for _ in 0..Measured::NAPS_FROM - 1 {
            assert_eq!(lone.rest(short, true), Step::Sleep, "a new connection, or one that begins anew");
        }
        assert_eq!(lone.rest(time, is_granted), Step::Sleep);
    }
    assert_eq!(lone.rest(short, true), Step::Sleep);
}

#[test]
fn after_naps_enough_and_long_enough_a_sleep_is_proper_again() {
    let lone = Lone::new();
    let rests = |time: Cycles, times: u32| -> Vec<u32> {
        let proper = (0..times).filter(|_| lone.rest(time, true) == Step::Sleep);
        proper.collect()
    };
    let often = rests(Cycles::from_us(10), 400);
    assert_eq!(often, [0, 1, 2, 3], "many naps in a short time");
    lone.learned.reset();
    let long = rests(Cycles::from_ms(1), 62);
    assert_eq!(long, [0, 1, 2, 3, 20, 37, 54], "naps of a millisecond");
}

#[test]
fn a_nap_in_vain_or_that_cannot_be_had_is_followed_by_a_proper_sleep() {
    for saw in [Saw::Wake(false), Saw::Nothing] {
        let lone = Lone::new();
        while lone.rest(Cycles::from_us(100), true) != Step::Nap {}
        let mut waiter = lone.wait(For::Peer).with_naps(true);
        assert_eq!(waiter.begin_rest(lone.now.get()), Step::Nap);
        assert_eq!(lone.next(&mut waiter, saw), Step::Sleep);
        assert_eq!(lone.next(&mut waiter, Saw::Wake(true)), Step::Look);
    }
}

#[test]
fn who_cannot_be_woken_from_a_nap_takes_none() {
    let lone = Lone::new();
    while lone.rest(Cycles::from_us(100), true) != Step::Nap {}
    assert_eq!(lone.wait(For::Peer).begin_rest(lone.now.get()), Step::Sleep);
}
