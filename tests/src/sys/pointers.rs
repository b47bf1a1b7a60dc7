//! System calls with pointers that point to nothing, by `syscall(2)` and so past whatever libc's own wrappers
//! look at.

use super::{Ret, ret};

/// Addresses that cannot be a structure's: their names, and whether a data buffer there is told from a good
/// one as well.
pub fn nowhere() -> [(&'static str, usize, bool); 6] {
    [
        ("null", 0, true),
        ("small", 24, true),
        ("hole", hole(), false),
        ("kernel", 1 << 63, true),
        ("edge", (1 << 47) - 4096, true),
        ("last", usize::MAX - 15, true),
    ]
}

/// A page that may not be touched.
fn hole() -> usize {
    // SAFETY: a new private mapping.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    at.addr()
}

/// A page of zeros that may be read and not written.
pub fn read_only() -> usize {
    // SAFETY: a new private mapping.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    at.addr()
}

/// `syscall(2)`. To be used with addresses of live locals that the call may write to, and of [`nowhere`].
pub fn call(number: libc::c_long, args: [usize; 6]) -> Ret {
    let [a, b, c, d, e, f] = args;
    // SAFETY: the tests pass descriptors, numbers, and addresses as described.
    ret(unsafe { libc::syscall(number, a, b, c, d, e, f) } as isize)
}
