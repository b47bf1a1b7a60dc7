//! What a process uses, as the kernel says: descriptors, address space, resident memory, and the part of it
//! in which slots lie. Invariant: a process is flat if in the last third of a soak it never uses more than
//! it did in the second, but for what chance may add once.

use std::fs;

/// One look, in KiB where it is memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used {
    descriptors: u64,
    address: u64,
    resident: u64,
    slots: u64,
}

const SLOTS: &str = "KiB of slots";
/// What may come late: a link group's next segment, with two doorbells for each slot that is used; or, while
/// a server is replaced, a group with its successor beside the one with it (1036 and 4132 KiB each), and
/// the next segment of both.
const LATE: Used = Used { descriptors: 12, address: 9 * 1024, resident: 4 * 1024, slots: 4132 };
/// Slots of two groups that have both segments: what chance may bring, whatever there was before.
const BOTH_GROUPS: u64 = 2 * (1036 + 4132);

impl Used {
    /// Of a process; nothing if it is gone.
    pub(crate) fn by(pid: i32) -> Option<Used> {
        let statm = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
        let pages: Vec<u64> = statm.split(' ').filter_map(|word| word.trim().parse().ok()).collect();
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count() as u64;
        let slots = maps.lines().filter(|line| line.contains("isthmus-dmb")).map(length).sum::<u64>() / 1024;
        Some(Used { descriptors, address: 4 * pages.first()?, resident: 4 * pages.get(1)?, slots })
    }

    fn each(self) -> [(&'static str, u64); 4] {
        [
            ("descriptors", self.descriptors),
            ("KiB of addresses", self.address),
            ("KiB resident", self.resident),
            (SLOTS, self.slots),
        ]
    }

    fn most(all: &[Used]) -> Used {
        let most = |of: fn(&Used) -> u64| all.iter().map(of).max().unwrap_or(0);
        Used {
            descriptors: most(|used| used.descriptors),
            address: most(|used| used.address),
            resident: most(|used| used.resident),
            slots: most(|used| used.slots),
        }
    }
}

/// Bytes of a line of /proc/PID/maps.
fn length(line: &str) -> u64 {
    let range = line.split(' ').next().and_then(|range| range.split_once('-'));
    let bounds = range.map(|(from, to)| (u64::from_str_radix(from, 16), u64::from_str_radix(to, 16)));
    if let Some((Ok(from), Ok(to))) = bounds { to - from } else { 0 }
}

/// What grew, if anything.
pub(crate) fn growth(looks: &[Used]) -> Option<String> {
    let third = looks.len() / 3;
    let (before, after) = (Used::most(&looks[third..2 * third]), Used::most(&looks[2 * third..]));
    let late = LATE.each();
    let grown = before.each().into_iter().zip(after.each()).zip(late);
    let grown = grown.filter(|((before, after), late)| {
        let by_chance = if after.0 == SLOTS { BOTH_GROUPS } else { 0 };
        after.1 > (before.1 + late.1).max(by_chance)
    });
    let told: Vec<String> =
        grown.map(|((before, after), _)| format!("{} from {} to {}", before.0, before.1, after.1)).collect();
    (!told.is_empty()).then(|| told.join(", "))
}

#[test]
fn what_grows_for_good_is_seen_and_what_comes_late_is_not() {
    let look = |descriptors| Used { descriptors, ..Used::default() };
    let steady: Vec<Used> = (0..30).map(|n| look(20 + n % 5 + if n > 25 { 6 } else { 0 })).collect();
    assert_eq!(growth(&steady), None);
    let slots = |slots| Used { slots, ..Used::default() };
    let second_of_both = [[2072; 20].as_slice(), &[10336; 10]].concat();
    assert_eq!(growth(&second_of_both.into_iter().map(slots).collect::<Vec<_>>()), None);
    let group_per_reload = [[5168; 10], [10336; 10], [15504; 10]].concat();
    assert!(growth(&group_per_reload.into_iter().map(slots).collect::<Vec<_>>()).is_some());
    let leaking: Vec<Used> = (0..30).map(|n| look(20 + 2 * n)).collect();
    assert_eq!(growth(&leaking).as_deref(), Some("descriptors from 58 to 78"));
}
