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

/// Sorts `found` by `since`, which says the same each time.
pub(super) fn sort(found: &mut [u32], since: impl Fn(u32) -> Cycles) {
    let count = found.len();
    for step in STEPS.into_iter().filter(|step| *step < count) {
        for from in step..count {
            let (member, mut at) = (found[from], from);
            let mine = since(member);
            while at >= step && since(found[at - step]) > mine {
                found[at] = found[at - step];
                at -= step;
            }
            found[at] = member;
        }
    }
}
