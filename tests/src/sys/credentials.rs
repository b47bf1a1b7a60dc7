//! Changes of user, group and capabilities, each by the call that programs make.
//! Invariant: a wrapper makes that one call and nothing else.

use super::{Ret, ret, ret32};
use libc::c_int;

/// A way to change credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// `setuid(2)`.
    Setuid,
    /// `setreuid(2)`.
    Setreuid,
    /// `setresuid(2)`.
    Setresuid,
    /// `setuid` by `syscall(2)`.
    SetuidByNumber,
    /// `setresuid` by `syscall(2)`.
    SetresuidByNumber,
    /// `seteuid(3)`, from which the process can come back.
    Seteuid,
    /// `setgid(2)`.
    Setgid,
    /// `setgroups(2)`.
    Setgroups,
    /// `initgroups(3)`.
    Initgroups,
    /// `capset(2)`, all capabilities away.
    Capset,
}

/// Makes the change, to user or group `id` where it takes one.
pub fn change(how: Change, id: u32) -> Ret {
    // SAFETY: numbers, and locals that live through the calls.
    unsafe {
        match how {
            Change::Setuid => ret32(libc::setuid(id)),
            Change::Setreuid => ret32(libc::setreuid(id, id)),
            Change::Setresuid => ret32(libc::setresuid(id, id, id)),
            Change::SetuidByNumber => ret(libc::syscall(libc::SYS_setuid, id) as isize),
            Change::SetresuidByNumber => ret(libc::syscall(libc::SYS_setresuid, id, id, id) as isize),
            Change::Seteuid => ret32(libc::seteuid(id)),
            Change::Setgid => ret32(libc::setgid(id)),
            Change::Setgroups => ret32(libc::setgroups(1, &raw const id)),
            Change::Initgroups => ret32(libc::initgroups(c"nobody".as_ptr(), id)),
            Change::Capset => drop_capabilities(),
        }
    }
}

/// `setgroups(2)`.
pub fn set_groups(groups: &[u32]) -> Ret {
    // SAFETY: the list is a live slice of this length.
    ret32(unsafe { libc::setgroups(groups.len(), groups.as_ptr()) })
}

/// No program that this process becomes gets capabilities any more (PR_CAPBSET_DROP). EPERM for an ordinary
/// user.
pub fn bound_capabilities() -> Ret {
    const LAST: libc::c_ulong = 40;
    // SAFETY: numbers alone.
    (0..=LAST).try_fold(0, |_, one| ret32(unsafe { libc::prctl(libc::PR_CAPBSET_DROP, one, 0, 0, 0) }))
}

fn drop_capabilities() -> Ret {
    unsafe extern "C" {
        fn capset(header: *const u32, sets: *const u32) -> c_int;
    }
    let (header, sets) = ([0x2008_0522u32, 0], [0u32; 6]);
    // SAFETY: header and sets are as long as this version wants them.
    ret32(unsafe { capset(header.as_ptr(), sets.as_ptr()) })
}

/// A child by `clone(2)` alone, with memory of its own, past whatever libc does for a fork; returns its pid.
pub fn bare_clone(child: impl FnOnce() -> u8) -> i32 {
    // SAFETY: as `fork`: the caller has one thread.
    match unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) } {
        0 => super::exit_now(child()),
        pid if pid > 0 => pid as i32,
        _ => panic!("clone: {}", super::errno()),
    }
}
