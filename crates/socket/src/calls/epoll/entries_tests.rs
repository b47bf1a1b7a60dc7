//! One entry for each member of a set, whoever tells of it and how often, in answers that are made by hand.

use super::*;
use crate::interest::registration::registrations;

const NOTHING: Event = Event { events: 0, data: 0 };

/// A set under a number that no descriptor has, with so many members. (Tests run at once: each has numbers of
/// its own.)
fn set_of(epfd: i32, members: u64) -> (&'static Set, Vec<Told>) {
    let (index, _) = Set::of(epfd).unwrap();
    let set = Set::get(index).unwrap();
    let member = |data| {
        let (number, registration) = registrations().take(os::mem::more, Registration::new).unwrap();
        registration.begin(index, Index(u32::MAX), -1);
        registration.ask(bits::IN, data);
        assert!(set.add(number));
        let generation = registration.generation.load(Ordering::Relaxed);
        Told { registration, generation, source: Source::Rings, raised: 0 }
    };
    (set, (0..members).map(member).collect())
}

/// What the answer holds: data and events.
fn entries(answer: &Answer<'_>) -> Vec<(u64, u32)> {
    answer.events[..answer.kept].iter().map(|event| (event.data, event.events)).collect()
}

/// The kernel is asked and names these, each by the program's own data.
fn ask(answer: &mut Answer<'_>, set: &Set, named: &[u64]) {
    let from = answer.kept;
    for data in named {
        answer.put_plain(set, bits::OUT, *data, from);
    }
    answer.named = if answer.named.is_empty() { from } else { answer.named.start }..answer.kept;
}

/// Who takes a question back does it in steps: what another thread tells meanwhile would be told behind a
/// ONESHOT answer, or of a socket that is closed.
#[test]
fn a_question_that_was_taken_back_is_nobodys_to_answer() {
    let (_set, told) = set_of(100_350, 2);
    told.iter().for_each(|told| assert!(told.question().is_some()));
    assert_eq!(told[0].registration.interest.withdraw().events(), bits::IN);
    assert_eq!(told.iter().map(|told| told.question().is_some()).collect::<Vec<_>>(), [false, true]);
    let once = told[1].registration;
    once.ask(bits::IN | bits::ONESHOT, 1);
    let (seen, _) = told[1].question().expect("a question");
    assert!(once.interest.fire(seen), "answered");
    assert!(told[1].question().is_some_and(|(seen, _)| seen.is_fired()), "and may be asked again");
}

#[test]
fn of_two_answers_at_once_neither_names_a_member_twice() {
    let (set, told) = set_of(100_300, 3);
    let (mut first, mut second) = ([NOTHING; 9], [NOTHING; 9]);
    let mut one = Answer::new(&mut first, set, set.life());
    let mut other = Answer::new(&mut second, set, set.life());
    for _ in 0..3 {
        for (at, told) in (0..).zip(&told) {
            one.enter(set, *told, (bits::IN, at));
            other.enter(set, *told, (bits::IN, at));
            one.enter(set, *told, (bits::RDHUP, at));
            other.enter(set, *told, (bits::HUP, at));
        }
    }
    assert_eq!(entries(&one), [0, 1, 2].map(|at| (at, bits::IN | bits::RDHUP)));
    assert_eq!(entries(&other), [0, 1, 2].map(|at| (at, bits::IN | bits::HUP)));
    // The earlier one tells last, of a member that the later one was the first to meet.
    one.enter(set, told[0], (bits::PRI, 0));
    other.enter(set, told[0], (bits::PRI, 0));
    assert_eq!((one.kept, other.kept), (3, 3));
}

#[test]
fn what_the_kernel_is_asked_again_it_names_again() {
    let (set, told) = set_of(100_301, 1);
    let mut events = [NOTHING; 9];
    let mut answer = Answer::new(&mut events, set, set.life());
    answer.enter(set, told[0], (bits::IN, 0));
    ask(&mut answer, set, &[7, 8]);
    ask(&mut answer, set, &[8, 9]);
    ask(&mut answer, set, &[9, 7, 10]);
    let data: Vec<u64> = entries(&answer).iter().map(|(data, _)| *data).collect();
    assert_eq!(data, [0, 7, 8, 9, 10]);
}

#[test]
fn a_record_that_changes_hands_is_told_of_once() {
    let (set, told) = set_of(100_302, 2);
    let mut events = [NOTHING; 9];
    let mut answer = Answer::new(&mut events, set, set.life());
    answer.enter(set, told[0], (bits::IN, 0));
    // It goes home.
    set.remove(told[0].registration);
    ask(&mut answer, set, &[0]);
    assert_eq!(entries(&answer), [(0, bits::IN | bits::OUT)]);
    // The other one is taken up behind what the kernel has told of it.
    let mut events = [NOTHING; 9];
    let mut answer = Answer::new(&mut events, set, set.life());
    ask(&mut answer, set, &[1, 5]);
    set.note_change();
    answer.enter(set, told[1], (bits::IN, 1));
    assert_eq!(entries(&answer), [(1, bits::IN | bits::OUT), (5, bits::OUT)]);
}

#[test]
fn who_is_asked_anew_meanwhile_is_told_of_by_the_new_data_alone() {
    let (set, told) = set_of(100_303, 2);
    let mut events = [NOTHING; 9];
    let mut answer = Answer::new(&mut events, set, set.life());
    (0..2).for_each(|at| answer.enter(set, told[at], (bits::IN, at as u64)));
    told[0].registration.ask(bits::OUT, 11);
    answer.enter(set, told[0], (bits::OUT, 11));
    assert_eq!(entries(&answer), [(11, bits::OUT), (1, bits::IN)]);
}

#[test]
fn two_that_have_the_same_data_are_two() {
    let (set, told) = set_of(100_304, 2);
    told.iter().for_each(|told| _ = told.registration.ask(bits::IN, 4));
    let (mut first, mut second) = ([NOTHING; 9], [NOTHING; 9]);
    let mut one = Answer::new(&mut first, set, set.life());
    let mut other = Answer::new(&mut second, set, set.life());
    for _ in 0..2 {
        told.iter().for_each(|told| other.enter(set, *told, (bits::IN, 4)));
        told.iter().for_each(|told| one.enter(set, *told, (bits::IN, 4)));
    }
    assert_eq!((one.kept, other.kept), (2, 2));
}
