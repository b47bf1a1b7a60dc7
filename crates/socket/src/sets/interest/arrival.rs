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

/// Steps of a sort by insertion, the last of which leaves nothing to be done (M. Ciura, 2001).
const STEPS: [usize; 5] = [57, 23, 10, 4, 1];

/// Sorts `found`, of which there are [`MOST`] at most (others stay as they are), by `since`. Each is asked
/// once: it is a look at a line of its own.
#[inline]
pub(super) fn sort(found: &mut [u32], since: impl Fn(u32) -> Cycles) {
    match found.len() {
        0 | 1 => {}
        few if few <= FEW => sort_up_to::<FEW>(found, since),
        _ => sort_up_to::<MOST>(found, since),
    }
}

/// Most that one look finds.
pub(crate) const MOST: usize = 128;
/// The same, of a set with so few recent members at most.
pub(crate) const FEW: usize = 8;

/// (Apart by size: to clear room for many costs more than to sort few.)
fn sort_up_to<const MOST: usize>(found: &mut [u32], since: impl Fn(u32) -> Cycles) {
    let mut room = [Cycles::NONE; MOST];
    let Some(times) = room.get_mut(..found.len()) else { return };
    for (time, member) in times.iter_mut().zip(&*found) {
        *time = since(*member);
    }
    if times.is_sorted() {
        return;
    }
    let count = found.len();
    for step in STEPS.into_iter().filter(|step| *step < count) {
        for from in step..count {
            let (member, mine, mut at) = (found[from], times[from], from);
            while at >= step && times[at - step] > mine {
                (found[at], times[at]) = (found[at - step], times[at - step]);
                at -= step;
            }
            (found[at], times[at]) = (member, mine);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_waits_longest_comes_first_and_each_is_asked_once() {
        for count in [0usize, 1, 2, 7, 8, 9, 57, 100, MOST] {
            let mut found: Vec<u32> = (0..count as u32).map(|at| at.wrapping_mul(37) % 131).collect();
            let mut sorted = found.clone();
            sorted.sort_unstable();
            let asked = core::cell::Cell::new(0);
            sort(&mut found, |member| {
                asked.set(asked.get() + 1);
                Cycles::from_word(u64::from(member))
            });
            assert_eq!(found, sorted);
            assert!(asked.get() <= count);
        }
    }
}
