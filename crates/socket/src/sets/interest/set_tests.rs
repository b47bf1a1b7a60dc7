//! Registrations and the order of a set's members, in memory alone: no socket, no epoll descriptor.

use super::arrival::Standing;
use super::registration::{Registration, Source, decode, registrations};
use super::set::Set;
use os::epoll::bits;
use os::time::Cycles;
use shm::slab::Index;
use sync::{AtomicU32, Ordering};

/// A set under a number that no descriptor has, with so many members. (Tests run at once: each has numbers of
/// its own.)
fn set_of(epfd: i32, members: usize) -> (Index, &'static Set, Vec<(Index, &'static Registration)>) {
    let (index, is_new) = Set::of(epfd).unwrap();
    assert!(is_new);
    let set = Set::get(index).unwrap();
    let member = |at| {
        let (number, registration) = registrations().take(os::mem::more, Registration::new).unwrap();
        registration.begin(index, Index(u32::MAX), at as i32);
        registration.ask(bits::IN, at as u64);
        assert!(set.add(number));
        (number, registration)
    };
    (index, set, (0..members).map(member).collect())
}

fn numbers(set: &Set) -> Vec<u32> {
    let mut all: Vec<u32> = set.members().map(|(index, _)| index.0).collect();
    all.sort_unstable();
    all
}

#[test]
fn who_has_nothing_for_long_is_left_to_the_kernel_until_it_reports() {
    let (_, set, members) = set_of(100_100, 3);
    assert_eq!(set.recent(), 3);
    for _ in 0..20 {
        assert!(!set.arm_all(|_| false));
        members[1].1.age.store(0, Ordering::Relaxed);
    }
    assert_eq!(set.recent(), 1, "only the member that reported now and then is looked at");
    set.promote(members[2].1);
    assert_eq!(set.recent(), 2);
    let mut found = [0; 4];
    let count = set.look(&mut found, 4, |_| Standing::Pending(Cycles::NONE), |_| false).unwrap();
    let mut found = found[..count].to_vec();
    found.sort_unstable();
    assert_eq!(found, [members[1].0.0, members[2].0.0]);
}

#[test]
fn whoever_leaves_the_others_stay_and_stay_once() {
    let (_, set, mut members) = set_of(100_101, 9);
    for _ in 0..12 {
        set.arm_all(|registration| registration.fd() == 7);
    }
    set.promote(members[0].1);
    for gone in [4, 0, 6, 0, 2] {
        let (_, registration) = members.remove(gone);
        set.remove(registration);
        // Twice is as good as once.
        set.remove(registration);
        let mut expected: Vec<u32> = members.iter().map(|(index, _)| index.0).collect();
        expected.sort_unstable();
        assert_eq!(numbers(set), expected);
        assert!(set.recent() <= set.len());
    }
    assert!(set.has_members());
}

#[test]
fn a_full_look_begins_the_next_behind_it() {
    let (_, set, members) = set_of(100_102, 3);
    let mut seen = vec![];
    for _ in 0..3 {
        let mut found = [0];
        assert_eq!(set.look(&mut found, 1, |_| Standing::Pending(Cycles::NONE), |_| false), Some(1));
        seen.push(found[0]);
    }
    seen.sort_unstable();
    assert_eq!(seen, members.iter().map(|(index, _)| index.0).collect::<Vec<_>>());
}

#[test]
fn what_there_is_to_report_ends_the_arming() {
    let (_, set, _) = set_of(100_103, 3);
    let armed = core::cell::Cell::new(0);
    assert!(set.arm_all(|_| armed.replace(armed.get() + 1) == 1));
    assert_eq!(armed.get(), 2);
}

#[test]
fn the_last_descriptor_closes_a_set_and_another_number_takes_over_before() {
    let (index, set, _) = set_of(100_104, 1);
    crate::table::set(100_105, crate::table::Entry::Epoll(index)).unwrap();
    super::set::share_set(index);
    crate::table::clear(100_104);
    assert!(Set::close_one(index).is_none());
    assert_eq!(set.epfd(), 100_105);
    crate::table::clear(100_105);
    assert!(Set::close_one(index).is_some_and(|last| core::ptr::eq(last, set)));
    assert_eq!(set.epfd(), -1);
}

#[test]
fn a_cookie_means_one_life_in_one_set_and_one_source() {
    let (set, _, members) = set_of(100_106, 1);
    let (index, registration) = members[0];
    let cookies = [Source::Bell, Source::Tcp].map(|source| registration.cookie(index, source));
    for (cookie, expected) in cookies.into_iter().zip([Source::Bell, Source::Tcp]) {
        let (number, found, source) = decode(cookie).unwrap();
        assert!(number == index && core::ptr::eq(found, registration) && source == expected);
        assert!(registration.life_meant_by(cookie, set).is_some());
        assert!(registration.life_meant_by(cookie, Index(set.0 + 1)).is_none(), "a copy in another set");
    }
    assert!(decode(0x7fff_dead_beef).is_none(), "the program's own data");
    registration.generation.fetch_add(1, Ordering::AcqRel);
    assert!(!registration.is_live() && registration.life_meant_by(cookies[1], set).is_none());
    registration.begin(set, Index(u32::MAX), 1);
    assert!(registration.is_live() && registration.life_meant_by(cookies[1], set).is_none());
}

/// It is not armed, so nobody but a wait that looks at it would tell of it.
#[test]
fn who_has_something_to_report_is_not_let_go_when_all_are_armed_for_others() {
    let (_, set, members) = set_of(100_108, 3);
    for _ in 0..30 {
        set.arm_each(|registration| registration.fd() == 1);
    }
    assert_eq!(set.recent(), 1);
    assert!(set.has_recent(members[1].1));
}

/// A lap of one thread beside members that come and go by another: each that is in the set stands there once.
#[test]
fn laps_beside_members_that_come_and_go_lose_nobody() {
    const LAPS: usize = 2_000;
    // (Who takes a turn again and again keeps the other from it for milliseconds.)
    const BREATH: std::time::Duration = std::time::Duration::from_micros(10);
    let (_, set, members) = set_of(100_109, 3);
    std::thread::scope(|scope| {
        let laps = scope.spawn(|| {
            for _ in 0..LAPS {
                set.begin_lap(&mut [0; 8], |_| Some(Cycles::NONE));
                std::thread::sleep(BREATH);
            }
        });
        let changes = members.iter().cycle().take_while(|_| !laps.is_finished());
        for (nth, (number, registration)) in changes.enumerate() {
            set.remove(registration);
            assert!(set.add(*number) && set.len() == 3, "a member stays behind, or is there twice");
            if nth % 32 == 0 {
                std::thread::sleep(BREATH);
            }
        }
    });
    assert_eq!(numbers(set), members.iter().map(|(number, _)| number.0).collect::<Vec<_>>());
    assert_eq!((set.len(), set.recent()), (3, 3));
}

/// Who asks for something new has either been seen by the one who lets the member go, or finds it among those
/// that the next wait looks at: else nobody would ask to be rung for it.
#[test]
fn nobody_is_let_go_unseen_by_who_asks_anew() {
    const ROUNDS: u32 = 20_000;
    let (_, set, members) = set_of(100_107, 1);
    let member = members[0].1;
    let [wish, seen, begun, done] = [const { AtomicU32::new(0) }; 4];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS {
                await_round(&begun, round);
                wish.store(round, Ordering::Relaxed);
                set.promote(member);
                done.store(round, Ordering::Release);
            }
        });
        for round in 1..=ROUNDS {
            begun.store(round, Ordering::Release);
            set.arm_all(|registration| {
                registration.age.swap(100, Ordering::SeqCst);
                seen.store(wish.load(Ordering::Relaxed), Ordering::Relaxed);
                wish.load(Ordering::Relaxed) == round
            });
            await_round(&done, round);
            assert!(set.recent() == 1 || seen.load(Ordering::Relaxed) == round, "round {round}");
            set.promote(member);
        }
    });
}

fn await_round(word: &AtomicU32, round: u32) {
    let mut looks = 0_u64;
    while word.load(Ordering::Acquire) != round {
        looks += 1;
        assert!(looks < 1_000_000_000, "the other thread has failed");
        if looks.is_multiple_of(1000) {
            std::thread::yield_now();
        }
    }
}

/// Looks with room for so many; the members' numbers, and since when each was ready.
fn told(set: &Set, room: usize, ready: &[(i32, u64)]) -> Vec<i32> {
    let mut found = [0; 16];
    let standing = |registration: &'static Registration| {
        let since = ready.iter().find(|(fd, _)| *fd == registration.fd());
        since.map_or(Standing::Silent, |(_, since)| Standing::Pending(Cycles::from_word(*since)))
    };
    let count = set.look(&mut found, room, standing, |_| false).unwrap();
    let number = |index: &u32| registrations().get(Index(*index)).unwrap().fd();
    found[..count].iter().map(number).collect()
}

const LATER: u64 = u64::MAX / 2;

#[test]
fn who_was_ready_first_is_told_of_first() {
    let (_, set, _) = set_of(100_113, 6);
    let ready = [(0, LATER + 4), (1, LATER + 2), (3, LATER + 3), (5, LATER + 1)];
    assert_eq!(told(set, 16, &ready), [5, 1, 3, 0]);
    assert_eq!(told(set, 2, &ready), [5, 1], "the first two of four");
}

#[test]
fn who_was_told_of_and_is_ready_still_stands_behind_the_others() {
    let (_, set, _) = set_of(100_114, 4);
    let ready = [(0, 1), (1, 2), (2, 3), (3, 4)];
    let mut seen: Vec<i32> = (0..8).flat_map(|_| told(set, 1, &ready)).collect();
    assert_eq!(seen[..4], seen[4..], "{seen:?}");
    seen.truncate(4);
    seen.sort_unstable();
    assert_eq!(seen, [0, 1, 2, 3]);
}

#[test]
fn what_is_announced_is_told_of_in_its_place_but_ends_no_wait() {
    let (_, set, _) = set_of(100_115, 2);
    let look = |pending: bool, room: usize| {
        let standing = |registration: &'static Registration| match registration.fd() {
            0 if pending => Standing::Pending(Cycles::from_word(LATER + 2)),
            1 => Standing::Announced(Cycles::from_word(LATER + 1)),
            _ => Standing::Silent,
        };
        let mut found = [0; 4];
        let count = set.look(&mut found, room, standing, |_| false).unwrap();
        found[..count]
            .iter()
            .map(|index| registrations().get(Index(*index)).unwrap().fd())
            .collect::<Vec<_>>()
    };
    assert_eq!(look(false, 4), []);
    assert_eq!(look(true, 4), [1, 0]);
    assert_eq!(look(true, 1), [0], "it takes nobody's room");
}

#[test]
fn who_is_in_the_list_stays_there_until_a_look_finds_nothing_of_him() {
    let (_, set, _) = set_of(100_116, 3);
    let (first, later) = ([(2, LATER), (0, LATER + 1), (1, LATER + 2)], (0, LATER + 9));
    assert_eq!(told(set, 8, &first), [2, 0, 1]);
    assert_eq!(told(set, 8, &[first[0], later, first[2]]), [2, 0, 1], "more came for 0");
    assert_eq!(told(set, 8, &[first[0], first[2]]), [2, 1]);
    assert_eq!(told(set, 8, &[first[0], later, first[2]]), [2, 1, 0], "it was read between");
}

#[test]
fn a_lap_has_who_is_in_the_list_in_front() {
    let (_, set, members) = set_of(100_117, 4);
    let pending = |registration: &'static Registration| match registration.fd() {
        fd @ (1 | 3) => Some(Cycles::from_word(LATER - fd as u64)),
        _ => None,
    };
    assert_eq!(set.begin_lap(&mut [0; 4], pending), 2);
    let order: Vec<u32> = set.members().take(2).map(|(index, _)| index.0).collect();
    assert_eq!(order, [members[3].0.0, members[1].0.0]);
    assert_eq!(set.begin_lap(&mut [0; 1], pending), 4, "no room to sort them: as they stand");
}
