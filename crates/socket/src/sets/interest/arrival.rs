//! The order in which an answer tells of several connections. Owns: that it is the kernel's: who was ready
//! first comes first, and whoever was told of, and is ready still, stands behind all others.

use os::time::Cycles;

/// What a look finds of a member.
#[derive(Clone, Copy)]
pub(crate) enum Standing {
    /// Nothing to tell.
    Silent,
    /// The kernel's records will tell of it, in an answer of their own if the rings have nothing to say.
    Announced(Cycles),
    /// It is to be told of, since then.
    Pending(Cycles),
}

/// Most that one look finds.
pub(crate) const MOST: usize = 128;
/// The same, of a set with so few recent members at most.
pub(crate) const FEW: usize = 8;

/// Bits of a member's number (`registration`), which stands below its time in a key.
const NUMBER: u32 = 18;
/// Who has waited for longer than this more than another (seven hours at 2.5 GHz) is at least as old.
const SPAN: u64 = u64::MAX >> NUMBER;

/// Sorts `found`, of which there are [`MOST`] at most (others stay as they are), by `since`. Each is asked
/// once: it is a look at a line of its own.
#[inline]
pub(super) fn sort(found: &mut [u32], since: impl Fn(u32) -> Cycles) {
    match found.len() {
        0 | 1 => {}
        few if few <= FEW => sort_few(found, since),
        _ => sort_many(found, since),
    }
}

/// By insertion.
fn sort_few(found: &mut [u32], since: impl Fn(u32) -> Cycles) {
    let mut times = [Cycles::NONE; FEW];
    for from in 0..found.len() {
        let (member, mut at) = (found[from], from);
        let mine = since(member);
        while at > 0 && times[at - 1] > mine {
            (found[at], times[at]) = (found[at - 1], times[at - 1]);
            at -= 1;
        }
        (found[at], times[at]) = (member, mine);
    }
}

/// (By one word each: in no order at all a sort of pairs takes four times as long.)
#[inline(never)]
fn sort_many(found: &mut [u32], since: impl Fn(u32) -> Cycles) {
    let mut room = [0u64; MOST];
    let Some(keys) = room.get_mut(..found.len()) else { return };
    let mut first = u64::MAX;
    for (key, member) in keys.iter_mut().zip(&*found) {
        *key = since(*member).word();
        first = first.min(*key);
    }
    for (key, member) in keys.iter_mut().zip(&*found) {
        *key = (*key - first).min(SPAN) << NUMBER | u64::from(*member);
    }
    keys.sort_unstable();
    for (key, member) in keys.iter().zip(found) {
        *member = *key as u32 & ((1 << NUMBER) - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_waits_longest_comes_first_and_each_is_asked_once() {
        /// As after months.
        const LATE: u64 = u64::MAX - 1000;
        for count in [0usize, 1, 2, 7, 8, 9, 57, 100, MOST] {
            let mut found: Vec<u32> = (0..count as u32).map(|at| at.wrapping_mul(37) % 131).collect();
            let mut sorted = found.clone();
            sorted.sort_unstable();
            let asked = core::cell::Cell::new(0);
            sort(&mut found, |member| {
                asked.set(asked.get() + 1);
                Cycles::from_word(LATE + u64::from(member))
            });
            assert_eq!(found, sorted);
            assert!(asked.get() <= count);
        }
    }
}
