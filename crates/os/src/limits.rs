//! Limits of this process (prlimit(2)). Owns: that the soft limit of descriptors is lifted for an instant
//! only, and put back.

use crate::part::Part as _;
use crate::raw::{nr, syscall};
use crate::time::monotonic_ns;
use crate::{Result, check};
use sync::{AtomicU64, Ordering};

/// Lowest number an internal descriptor gets where the limit leaves a choice; programs that use `select` or
/// count descriptors stay below.
const INTERNAL_FLOOR: i32 = 512;

/// RLIMIT_FSIZE in bytes.
pub(crate) fn file_size_limit() -> u64 {
    soft(nr::RLIMIT_FSIZE).unwrap_or(0)
}

/// RLIMIT_AS in bytes.
pub(crate) fn address_space() -> u64 {
    soft(nr::RLIMIT_AS).unwrap_or(u64::MAX)
}

/// RLIMIT_MEMLOCK in bytes.
pub(crate) fn lockable() -> u64 {
    soft(nr::RLIMIT_MEMLOCK).unwrap_or(u64::MAX)
}

fn soft(which: u32) -> Result<u64> {
    let mut limit = nr::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the struct has the kernel's layout and outlives the call.
    check(unsafe { syscall!(nr::__NR_prlimit64, 0, which, 0, &raw mut limit) })?;
    Ok(limit.rlim_cur)
}

/// The soft limit of descriptors (RLIMIT_NOFILE); 0 if it cannot be told.
pub fn descriptor_limit() -> usize {
    nofile(None).map_or(0, |limit| usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX))
}

fn nofile(new: Option<nr::rlimit64>) -> Result<nr::rlimit64> {
    let mut old = nr::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    let new_ptr = new.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
    // SAFETY: both structs outlive the call and have the kernel's layout.
    check(unsafe { syscall!(nr::__NR_prlimit64, 0, nr::RLIMIT_NOFILE, new_ptr, &raw mut old) })?;
    Ok(old)
}

/// Where internal descriptors begin at most.
const HIGHEST_FLOOR: i32 = 65_536;

/// So many numbers are the program's in any case, where there are none above its limit; of the rest a quarter
/// is ours at most.
const FEW_NUMBERS: i32 = 128;

/// Whether there may be `count` numbers of ours under the limit as it is, in this process or a program that
/// it becomes, were none there yet.
pub fn has_room_for(count: u32) -> bool {
    nofile(None).is_ok_and(|limit| {
        let soft = i32::try_from(limit.rlim_cur).unwrap_or(i32::MAX);
        is_room_above(soft.max(INTERNAL_FLOOR), limit) || share(soft) >= count
    })
}

/// Whether numbers above the soft limit can be had for a moment. (Tables beyond a million entries are not
/// looked up, in the descriptor table of `socket`, and cost the kernel memory.)
fn is_room_above(above: i32, limit: nr::rlimit64) -> bool {
    above < 500_000 && limit.rlim_max > limit.rlim_cur && limit.rlim_max > above as u64 + 16
}

/// Runs `duplicate(floor)` with the descriptor limit lifted to its hard value if that makes room above the
/// soft one.
///
/// The kernel checks the limit only when a number is handed out, so descriptors made here stay valid after
/// the soft limit is back, and the program can still open as many of its own as before.
pub(crate) fn with_room_above_soft_limit<T>(
    taken_below: impl FnOnce(u32) -> u32,
    duplicate: impl FnOnce(i32) -> Result<T>,
) -> Result<T> {
    let limit = nofile(None)?;
    let soft = i32::try_from(limit.rlim_cur).unwrap_or(i32::MAX);
    let above = soft.max(INTERNAL_FLOOR);
    if is_room_above(above, limit) {
        let lifted = nr::rlimit64 { rlim_cur: limit.rlim_max, rlim_max: limit.rlim_max };
        nofile(Some(lifted))?;
        let outcome = duplicate(above);
        // Put back what was there; if the program changed the limit meanwhile its value is kept.
        if nofile(None).is_ok_and(|now| now.rlim_cur == lifted.rlim_cur) {
            let _ = nofile(Some(limit));
        }
        return outcome;
    }
    // Some of the upper half are ours as well as the program's. (Half of a million would make the kernel keep
    // a table of that size for every process.)
    if taken_below(soft as u32) >= allowance(soft) {
        return Err(crate::Errno::EMFILE);
    }
    duplicate((soft / 2).min(HIGHEST_FLOOR))
}

/// How many of a program's numbers may be ours.
fn allowance(limit: i32) -> u32 {
    if is_short() { 0 } else { share(limit) }
}

/// Whether a process whose hard limit this is ever has a number for us.
pub fn may_be_ours(hard: usize) -> bool {
    hard > FEW_NUMBERS as usize
}

fn share(limit: i32) -> u32 {
    (limit.saturating_sub(FEW_NUMBERS) / 4).max(0) as u32
}

/// Until when none of a program's numbers is to be ours: it was short of them.
pub(crate) struct Shortage(AtomicU64);

impl Shortage {
    pub(crate) const fn new() -> Self {
        Shortage(AtomicU64::new(0))
    }
}

/// A program that was short of numbers most likely is so again soon: for so long it has all of them.
const SHORT_FOR_NS: u64 = 1_000_000_000;

/// The program was short of a number that one of ours had.
pub fn note_shortage() {
    Shortage::here().0.store(monotonic_ns().saturating_add(SHORT_FOR_NS), Ordering::Relaxed);
}

/// Whether it was a while ago.
pub fn is_short() -> bool {
    let until = Shortage::here().0.load(Ordering::Relaxed);
    until != 0 && monotonic_ns() < until
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_few_numbers_has_all_of_them_and_others_most() {
        assert_eq!([0, 32, 64, 128, 256, 1024, 4096].map(allowance), [0, 0, 0, 0, 32, 224, 992]);
    }
}
