//! What a process does to confine itself: limits. Owns: that we know of them before they hold.

use crate::hook::hooks;
use crate::real::Buf;
use core::ffi::c_int;
use socket::Outcome;

const RLIMIT_NOFILE: c_int = 7;

/// Before the limits of process `pid` (0: this one) are set to `new`: soft and hard, in 64 bits each.
fn limiting(pid: c_int, resource: c_int, new: Buf) -> Outcome {
    let is_own = pid == 0 || pid as u32 == os::process::cached_pid();
    if resource == RLIMIT_NOFILE && is_own && !new.is_null() && crate::lifecycle::is_active() {
        // SAFETY: a non-null limit is the program's to read, and begins with the soft one.
        os::poll::note_descriptor_limit(unsafe { new.cast::<u64>().read_unaligned() });
    }
    Outcome::Forward
}

hooks! {
    fn setrlimit [] (resource: c_int, limit: Buf) -> c_int {
        limiting(0, resource, limit)
    }
    fn setrlimit64 [] (resource: c_int, limit: Buf) -> c_int {
        limiting(0, resource, limit)
    }
    fn prlimit [] (pid: c_int, resource: c_int, new: Buf, old: Buf) -> c_int {
        limiting(pid, resource, new)
    }
    fn prlimit64 [] (pid: c_int, resource: c_int, new: Buf, old: Buf) -> c_int {
        limiting(pid, resource, new)
    }
}
