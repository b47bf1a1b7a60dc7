//! Whether the kernel is going to agree to a call, asked before what cannot be undone is done. Owns: a call
//! that the kernel refuses has changed nothing here.
//!
//! What the kernel looks at itself is looked at first. A filter may refuse anything, mostly by the call's
//! number: where there may be one, the same call is made with no descriptor (-1) for an argument, by which
//! nothing happens, and to which the kernel itself says EBADF.

use core::ffi::c_int;
use os::Errno;
use os::raw::{call, nr};

const NO_DESCRIPTOR: usize = -1i32 as usize;
/// By which dup2(3) of this architecture is made.
#[cfg(target_arch = "x86_64")]
pub(crate) const DUP2: u32 = nr::__NR_dup2;
#[cfg(not(target_arch = "x86_64"))]
pub(crate) const DUP2: u32 = nr::__NR_dup3;
/// Of close_range(2).
const CLOSE_RANGE_UNSHARE: c_int = 2;

/// Whether no filter stands before a call. `args` name no descriptor.
fn is_let_through(number: u32, args: &[usize]) -> bool {
    // SAFETY: a call of nothing; what pointers there are the program has passed to this very call.
    !os::refusal::may_be_a_filters() || unsafe { call(number, args) } == -(Errno::EBADF.0 as isize)
}

/// To close(2) of an open descriptor.
pub(crate) fn to_close() -> bool {
    is_let_through(nr::__NR_close, &[NO_DESCRIPTOR])
}

/// To shutdown(2). (That of a connection which is over is refused, and changes nothing.)
pub(crate) fn to_shutdown(how: c_int) -> bool {
    is_let_through(nr::__NR_shutdown, &[NO_DESCRIPTOR, how as usize])
}

/// To connect(2) with an address of no family.
pub(crate) fn to_dissolve(addr: usize, addr_len: u32) -> bool {
    is_let_through(nr::__NR_connect, &[NO_DESCRIPTOR, addr, addr_len as usize])
}

/// To dup2 or dup3 (`number`) onto `new`, which is open.
pub(crate) fn to_replace(number: u32, old: c_int, new: c_int, flags: c_int) -> bool {
    os::refusal::is_open(old)
        && !os::refusal::is_beyond_descriptors(new)
        && is_let_through(number, &[NO_DESCRIPTOR, new as usize, flags as usize])
}

/// To close_range(2): of the last number, which nobody has, for flags are known to the kernel alone.
pub(crate) fn to_close_range(flags: c_int) -> bool {
    let last = u32::MAX as usize;
    // SAFETY: integers alone, and nothing is closed.
    unsafe { call(nr::__NR_close_range, &[last, last, (flags & !CLOSE_RANGE_UNSHARE) as usize]) == 0 }
}
