//! What a process does to confine itself: limits, filters of system calls. Owns: that we know of them before
//! they hold, and forget them if the kernel refuses.

use crate::hook::hooks;
use crate::real::{Buf, forward};
use core::ffi::c_int;
use os::filter::{self, Instruction, Left};
use socket::{Outcome, confine};

const RLIMIT_NOFILE: c_int = 7;

/// The limits of process `pid` (0: this one) are `set` to `new`: soft and hard, in 64 bits each.
fn limiting(pid: c_int, resource: c_int, new: Buf, set: impl FnOnce() -> c_int) -> Outcome {
    let is_own = pid == 0 || pid as u32 == os::process::cached_pid();
    let is_meant = resource == RLIMIT_NOFILE && is_own && crate::lifecycle::is_active();
    if !is_meant
        || socket::confine::stays_out()
        || crate::pointers::readable(new, 2 * size_of::<u64>()).is_err()
    {
        return Outcome::Forward;
    }
    // SAFETY: the limit is the program's to read, and is there; it begins with the soft one.
    let soft = unsafe { new.cast::<u64>().read_unaligned() };
    if !crate::lifecycle::is_borrowed() && soft < os::limits::descriptor_limit() as u64 {
        socket::server::take_up_inherited();
    }
    let was_low = os::poll::may_be_refused();
    os::poll::note_descriptor_limit(soft);
    let result = set();
    if result < 0 {
        let errno = crate::hook::last();
        os::poll::note_descriptor_limit(if was_low { 0 } else { u64::MAX });
        return Outcome::Fail(errno);
    }
    Outcome::Done(result as usize)
}

const PR_SET_SECCOMP: c_int = 22;

/// `struct sock_fprog`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Filter {
    len: u16,
    steps: *const Instruction,
}

/// Most instructions of one (BPF_MAXINSNS).
const STEPS: usize = 4096;

/// What it leaves us; what the kernel will find wrong with it, the kernel says.
fn left_by(filter: *const Filter) -> Left {
    if crate::pointers::readable(filter, size_of::<Filter>()).is_err() {
        return Left::ALL;
    }
    // SAFETY: it is the program's to read, and is there.
    let Filter { len, steps } = unsafe { filter.read_unaligned() };
    let len = usize::from(len);
    if len > STEPS
        || !steps.is_aligned()
        || crate::pointers::readable(steps, len * size_of::<Instruction>()).is_err()
    {
        return Left::ALL;
    }
    // SAFETY: as above; the program has them ready for the kernel, and writes nothing meanwhile.
    filter::left_by(unsafe { core::slice::from_raw_parts(steps, len) })
}

/// The call that installs a filter: what comes after it is prepared before, and taken back if the kernel
/// refuses. Without one it is that of SECCOMP_MODE_STRICT.
fn filtering(filter: Option<*const Filter>, install: impl FnOnce() -> isize) -> Outcome {
    // Programs ask with a null filter whether there would be any.
    let is_meant = filter.is_none_or(|filter| !filter.is_null());
    if !is_meant
        || socket::confine::stays_out()
        || !crate::lifecycle::is_active()
        || crate::lifecycle::is_borrowed()
    {
        return Outcome::Forward;
    }
    let (was_confined, was_withheld) = (os::confined::is_confined(), os::confined::withholds_id());
    match filter {
        None => confine::before_strict(),
        Some(filter) => confine::before_filter(left_by(filter)),
    }
    let result = install();
    if result < 0 {
        let errno = crate::hook::last();
        if !was_confined {
            confine::after_refusal();
        }
        os::confined::withhold_id(was_withheld);
        return Outcome::Fail(errno);
    }
    Outcome::Done(result as usize)
}

/// seccomp(2), which glibc has under no name.
///
/// # Safety
/// As the system call's.
pub(crate) unsafe fn seccomp(operation: usize, flags: usize, argument: usize) -> isize {
    const STRICT: usize = 0;
    const FILTER: usize = 1;
    let install = || {
        // SAFETY: the program's own arguments.
        let ret = unsafe { os::raw::call(os::raw::nr::__NR_seccomp, &[operation, flags, argument]) };
        crate::hook::from_raw(ret)
    };
    let filter = match operation {
        STRICT => None,
        FILTER => Some(core::ptr::with_exposed_provenance(argument)),
        _ => return install(),
    };
    crate::hook::finish(filtering(filter, install)).unwrap_or_else(install)
}

const CLONE_FILES: c_int = 0x400;
/// CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET.
const ANOTHER_PLACE: c_int = 0x0002_0000 | 0x0800_0000 | 0x1000_0000 | 0x2000_0000 | 0x4000_0000;

hooks! {
    fn unshare [] (flags: c_int) -> c_int {
        // (Behind a namespace it may find neither the registry nor a peer any more.)
        let is_another_place = flags & ANOTHER_PLACE != 0;
        if is_another_place && crate::lifecycle::has_sockets() && !socket::confine::stays_out() {
            socket::server::take_up_inherited();
        }
        if flags & CLONE_FILES != 0 {
            crate::lifecycle::parting();
        }
        Outcome::Forward
    }
    fn prctl [] (option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int {
        // SAFETY: the program's own arguments.
        let install = || unsafe { forward::prctl(option, a, b, c, d) } as isize;
        match (option, a) {
            (PR_SET_SECCOMP, 1) => filtering(None, install),
            (PR_SET_SECCOMP, _) => filtering(Some(core::ptr::with_exposed_provenance(b)), install),
            _ => Outcome::Forward,
        }
    }
    fn setrlimit [] (resource: c_int, limit: Buf) -> c_int {
        // SAFETY: the program's own arguments.
        limiting(0, resource, limit, || unsafe { forward::setrlimit(resource, limit) })
    }
    fn setrlimit64 [] (resource: c_int, limit: Buf) -> c_int {
        // SAFETY: the program's own arguments.
        limiting(0, resource, limit, || unsafe { forward::setrlimit64(resource, limit) })
    }
    fn prlimit [] (pid: c_int, resource: c_int, new: Buf, old: Buf) -> c_int {
        // SAFETY: the program's own arguments.
        limiting(pid, resource, new, || unsafe { forward::prlimit(pid, resource, new, old) })
    }
    fn prlimit64 [] (pid: c_int, resource: c_int, new: Buf, old: Buf) -> c_int {
        // SAFETY: the program's own arguments.
        limiting(pid, resource, new, || unsafe { forward::prlimit64(pid, resource, new, old) })
    }
}
