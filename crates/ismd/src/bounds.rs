//! How often the log says the same. Owns: whoever provokes lines, whatever he asks and however many users he
//! is, adds so many of each kind and no more, and what was left out is told with its count, now and then.
//! (Other counts do not depend on it.)

use std::collections::{HashMap, HashSet};
use std::mem::take;
use std::time::{Duration, Instant};

/// Lines of one kind about one user: enough to see what he does.
const OF_USER: Rate = Rate { at_once: 20, period: Duration::from_secs(1) };
/// Lines of one kind: a day of them is some hundred megabytes.
const OF_KIND: Rate = Rate { at_once: 200, period: Duration::from_millis(50) };
/// Users of a kind that are told apart.
const USERS: usize = 1024;
/// So long after the first one that was left out it is told how many there were.
const TELL: Duration = Duration::from_secs(5);

/// So many at once, and one in each period.
#[derive(Clone, Copy)]
struct Rate {
    at_once: u32,
    period: Duration,
}

/// When the next one would be due, had all of them come evenly.
#[derive(Clone, Copy)]
struct Bucket(Instant);

/// Lines that one place in this program says.
struct Kind {
    what: String,
    all: Bucket,
    users: HashMap<Option<u32>, Bucket>,
    left_out: LeftOut,
}

/// Lines that were not said.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LeftOut {
    pub(crate) lines: u64,
    pub(crate) users: HashSet<Option<u32>>,
}

/// What was said lately, by kind.
pub(crate) struct Bounds<K> {
    kinds: HashMap<K, Kind>,
    /// When to tell what was left out.
    due: Option<Instant>,
    /// When to forget those against whom nothing is held any more.
    tidy: Instant,
}

impl Bucket {
    fn has_one(self, rate: Rate, now: Instant) -> bool {
        self.0.saturating_duration_since(now) <= rate.period * (rate.at_once - 1)
    }

    fn take(&mut self, rate: Rate, now: Instant) {
        self.0 = self.0.max(now) + rate.period;
    }
}

impl<K: Eq + std::hash::Hash> Bounds<K> {
    pub(crate) fn new() -> Self {
        Bounds { kinds: HashMap::new(), due: None, tidy: Instant::now() }
    }

    /// Whether a line is said that is about this user, if about any. `what` says what kind it is.
    pub(crate) fn admit(&mut self, kind: K, user: Option<u32>, what: impl FnOnce() -> String) -> bool {
        let now = Instant::now();
        let new =
            || Kind { what: what(), all: Bucket(now), users: HashMap::new(), left_out: LeftOut::default() };
        if now >= self.tidy {
            self.kinds.values_mut().for_each(|kind| kind.users.retain(|_, bucket| bucket.0 > now));
            self.tidy = now + TELL;
        }
        let kind = self.kinds.entry(kind).or_insert_with(new);
        let is_said = kind.admit(user, now);
        if !is_said {
            self.due.get_or_insert(now + TELL);
        }
        is_said
    }

    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// What was left out since it was last asked, by kind.
    pub(crate) fn left_out(&mut self) -> Vec<(String, LeftOut)> {
        self.due = None;
        let all = self.kinds.values_mut().map(|kind| (kind.what.clone(), take(&mut kind.left_out)));
        all.filter(|(_, left_out)| left_out.lines > 0).collect()
    }
}

impl Kind {
    fn admit(&mut self, user: Option<u32>, now: Instant) -> bool {
        let is_known = self.users.contains_key(&user) || self.users.len() < USERS;
        let user = user.filter(|_| is_known);
        let of_user = self.users.entry(user).or_insert(Bucket(now));
        if of_user.has_one(OF_USER, now) && self.all.has_one(OF_KIND, now) {
            of_user.take(OF_USER, now);
            self.all.take(OF_KIND, now);
            return true;
        }
        self.left_out.lines += 1;
        if self.left_out.users.len() < USERS {
            self.left_out.users.insert(user);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(bounds: &mut Bounds<u8>, kind: u8, user: u32, lines: u32) -> usize {
        (0..lines).filter(|_| bounds.admit(kind, Some(user), || "refused".into())).count()
    }

    #[test]
    fn of_each_kind_and_user_so_much_is_said_and_the_rest_is_counted() {
        let mut bounds = Bounds::new();
        assert!(bounds.due().is_none());
        // (One more for each second that the test is kept off the cores.)
        let first = said(&mut bounds, 1, 1000, 100_000);
        assert!((20..200).contains(&first), "{first}");
        assert!(said(&mut bounds, 1, 1001, 3) == 3 && said(&mut bounds, 2, 1000, 3) == 3, "others");
        assert!(bounds.due().is_some_and(|due| due <= Instant::now() + TELL));
        let [(what, left_out)] = &bounds.left_out()[..] else { panic!("one kind") };
        assert_eq!((&what[..], left_out.lines), ("refused", 100_000 - first as u64));
        assert_eq!(left_out.users, HashSet::from([Some(1000)]));
        assert!(bounds.due().is_none() && bounds.left_out().is_empty());
    }

    #[test]
    fn many_users_do_not_say_more_nor_take_memory() {
        let mut bounds = Bounds::new();
        let all: usize = (0..50_000).map(|user| said(&mut bounds, 1, user, 1)).sum();
        assert!((200..2000).contains(&all), "{all}");
        assert!(bounds.kinds[&1].users.len() <= USERS + 1);
        let left_out = &bounds.left_out()[0].1;
        assert!(left_out.lines + all as u64 == 50_000 && left_out.users.len() <= USERS);
    }

    #[test]
    fn who_waits_is_heard_again() {
        let now = Instant::now();
        let mut bucket = Bucket(now);
        let taken = |bucket: &mut Bucket, now| {
            (0..100)
                .take_while(|_| bucket.has_one(OF_USER, now).then(|| bucket.take(OF_USER, now)).is_some())
                .count()
        };
        assert_eq!(taken(&mut bucket, now), 20);
        assert_eq!(taken(&mut bucket, now + Duration::from_secs(3)), 3);
        assert_eq!(taken(&mut bucket, now + Duration::from_secs(3600)), 20);
    }
}
