//! Changes of user, group and capabilities. Owns: when a process has given something up, so that it must let
//! go of what it shares with processes that have not.
//!
//! It has if it cannot come back by itself. While one of its three user ids is the registry's owner's
//! (seteuid for the time of one file, as servers do), it can, and nothing happens. It has, too, if it loses a
//! group or a capability, though it may join its user's registry anew then. A change that the kernel is going
//! to refuse is none, and setfsuid can always be undone. By `syscall(2)` only the calling thread changes; the
//! process lets go as a whole then, too.

use crate::hook::{hooks, last};
use crate::lifecycle::{is_active, is_borrowed};
use crate::pointers;
use crate::real::{Buf, forward};
use core::ffi::{c_char, c_int, c_void};
use os::raw::nr;
use socket::{Outcome, credentials};
use sync::{AtomicPtr, Ordering};

const CAP_SETGID: u32 = 6;
const CAP_SETUID: u32 = 7;
/// "As it is", in the calls that set more than one.
const SAME: u32 = u32::MAX;

type InitGroups = unsafe extern "C-unwind" fn(*const c_char, u32) -> c_int;
static INITGROUPS: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

/// Finds libc's initgroups, which makes the system call itself, past the hook of setgroups.
pub(crate) fn resolve() {
    INITGROUPS.store(crate::real::next(c"initgroups"), Ordering::Release);
}

/// What a call asks for: real, effective and saved id.
#[derive(Clone, Copy)]
pub(crate) enum Wish {
    /// setuid, setgid: all three if privileged, else the effective one.
    All(u32),
    /// setreuid, setregid.
    Two(u32, u32),
    /// setresuid, setresgid.
    Three([u32; 3]),
}

impl Wish {
    /// The ids afterwards; `None` if the kernel will refuse.
    fn outcome(self, now: [u32; 3], is_privileged: bool) -> Option<[u32; 3]> {
        let or = |wanted: u32, now: u32| if wanted == SAME { now } else { wanted };
        let [real, effective, saved] = now;
        let then = match self {
            Wish::All(SAME) => return None,
            Wish::All(id) if is_privileged => [id; 3],
            Wish::All(id) => [real, id, saved],
            Wish::Two(first, second) => {
                let (first, second) = (or(first, real), or(second, effective));
                let is_new = first != real || (second != effective && second != real);
                [first, second, if is_new { second } else { saved }]
            }
            Wish::Three([first, second, third]) => [or(first, real), or(second, effective), or(third, saved)],
        };
        (is_privileged || then.iter().all(|id| now.contains(id))).then_some(then)
    }
}

fn has(capability: u32) -> bool {
    os::process::capabilities().0 & 1 << capability != 0
}

/// Whether the process shares anything that it could have to let go of.
fn has_something() -> bool {
    is_active() && credentials::owner().is_some()
}

fn leaves_user(wish: Wish) -> bool {
    has_something()
        && wish
            .outcome(os::process::users(), has(CAP_SETUID))
            .is_some_and(|then| credentials::owner().is_some_and(|owner| !then.contains(&owner)))
}

fn leaves_group(wish: Wish) -> bool {
    let now = os::process::groups();
    has_something() && wish.outcome(now, has(CAP_SETGID)).is_some_and(|then| !then.contains(&now[1]))
}

/// The supplementary groups of the calling thread, as far as there is room.
struct Groups {
    ids: [u32; Self::MOST],
    count: usize,
}

impl Groups {
    const MOST: usize = 256;

    fn now() -> Self {
        let mut ids = [0; Self::MOST];
        // SAFETY: the buffer is writable for its length.
        let count = unsafe { os::raw::call(nr::__NR_getgroups, &[Self::MOST, ids.as_mut_ptr().addr()]) };
        Groups { ids, count: usize::try_from(count).unwrap_or(0) }
    }

    /// Whether one of them is missing `then`. (The process's own group counts as one of them in any case.)
    fn lose_any(&self, then: impl Fn(u32) -> bool) -> bool {
        let own = os::process::groups()[1];
        self.ids[..self.count].iter().any(|group| *group != own && !then(*group))
    }
}

/// setgroups: whether a group is taken away. (To be given another is nothing that is given up.)
fn leaves_groups(count: usize, list: Buf) -> bool {
    /// NGROUPS_MAX of linux/limits.h.
    const MOST: usize = 65536;
    if !has_something() || count > MOST || pointers::readable(list, count * size_of::<u32>()).is_err() {
        return false;
    }
    let is_listed = |group| {
        // SAFETY: the program passed a list of `count` ids, and it is there.
        (0..count).any(|at| group == unsafe { list.cast::<u32>().add(at).read_unaligned() })
    };
    has(CAP_SETGID) && Groups::now().lose_any(is_listed)
}

/// capset: whether a capability goes for good. (`header` is version and process, `sets` has three words per
/// half.)
fn leaves_capabilities(header: Buf, sets: Buf) -> bool {
    const VERSION_1: u32 = 0x1998_0330;
    const WORD: usize = size_of::<u32>();
    if !has_something() || pointers::readable(header, 2 * WORD).is_err() {
        return false;
    }
    // SAFETY: the program passed a header of two words, and it is there.
    let (version, pid) =
        unsafe { (header.cast::<u32>().read_unaligned(), header.cast::<u32>().add(1).read_unaligned()) };
    let halves = if version == VERSION_1 { 1 } else { 2 };
    if pointers::readable(sets, halves * 3 * WORD).is_err() {
        return false;
    }
    // SAFETY: and sets of three words each, as many as the version says, which are there.
    let permitted = |half: usize| u64::from(unsafe { sets.cast::<u32>().add(3 * half + 1).read_unaligned() });
    let then = permitted(0) | if version == VERSION_1 { 0 } else { permitted(1) << 32 };
    let is_own = pid == 0 || pid == os::process::tid();
    is_own && os::process::capabilities().1 & !then != 0
}

/// Makes the change, and lets go before it if that is what it means.
fn change(leaves: bool, make: impl FnOnce() -> c_int) -> Outcome {
    // What a vfork child borrows is its parent's; what a child of clone has got is a copy.
    let is_copy = is_borrowed();
    if !leaves || (is_copy && !credentials::is_a_copy()) {
        return done(make());
    }
    credentials::before(!is_copy);
    let result = make();
    credentials::after();
    done(result)
}

fn done(result: c_int) -> Outcome {
    if result < 0 { Outcome::Fail(last()) } else { Outcome::Done(result as usize) }
}

hooks! {
    fn setuid [] (uid: u32) -> c_int {
        // SAFETY: a plain number.
        change(leaves_user(Wish::All(uid)), || unsafe { forward::setuid(uid) })
    }
    fn seteuid [] (uid: u32) -> c_int {
        // SAFETY: as above.
        change(leaves_user(Wish::Three([SAME, uid, SAME])), || unsafe { forward::seteuid(uid) })
    }
    fn setreuid [] (real: u32, effective: u32) -> c_int {
        // SAFETY: as above.
        change(leaves_user(Wish::Two(real, effective)), || unsafe { forward::setreuid(real, effective) })
    }
    fn setresuid [] (real: u32, effective: u32, saved: u32) -> c_int {
        let wish = Wish::Three([real, effective, saved]);
        // SAFETY: as above.
        change(leaves_user(wish), || unsafe { forward::setresuid(real, effective, saved) })
    }
    fn setgid [] (gid: u32) -> c_int {
        // SAFETY: as above.
        change(leaves_group(Wish::All(gid)), || unsafe { forward::setgid(gid) })
    }
    fn setegid [] (gid: u32) -> c_int {
        // SAFETY: as above.
        change(leaves_group(Wish::Three([SAME, gid, SAME])), || unsafe { forward::setegid(gid) })
    }
    fn setregid [] (real: u32, effective: u32) -> c_int {
        // SAFETY: as above.
        change(leaves_group(Wish::Two(real, effective)), || unsafe { forward::setregid(real, effective) })
    }
    fn setresgid [] (real: u32, effective: u32, saved: u32) -> c_int {
        let wish = Wish::Three([real, effective, saved]);
        // SAFETY: as above.
        change(leaves_group(wish), || unsafe { forward::setresgid(real, effective, saved) })
    }
    fn setgroups [] (count: usize, list: Buf) -> c_int {
        // SAFETY: the program's own arguments.
        change(leaves_groups(count, list), || unsafe { forward::setgroups(count, list) })
    }
    fn capset [] (header: Buf, sets: Buf) -> c_int {
        // SAFETY: as above.
        change(leaves_capabilities(header, sets), || unsafe { forward::capset(header, sets) })
    }
}

/// initgroups(3): the groups of a user, as libc finds them.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn initgroups(user: *const c_char, group: u32) -> c_int {
    let known = INITGROUPS.load(Ordering::Acquire);
    // Another library's constructor may call before ours has run.
    let real = if known.is_null() { crate::real::next(c"initgroups") } else { known };
    if real.is_null() {
        return crate::hook::fail(socket::Errno::ENOSYS) as c_int;
    }
    // SAFETY: dlsym returned initgroups, which has this type.
    let real = unsafe { core::mem::transmute::<*mut c_void, InitGroups>(real) };
    let before = has_something().then(Groups::now);
    // SAFETY: the program's own arguments.
    let result = unsafe { real(user, group) };
    // Which groups they are only libc knows, so this comes after the change: who may make it is its user
    // still.
    let errno = last();
    let has_lost = |before: Groups| {
        let after = Groups::now();
        before.lose_any(|group| after.ids[..after.count].contains(&group))
    };
    if result == 0 && before.is_some_and(has_lost) {
        change(true, || 0);
    }
    if result < 0 {
        return crate::hook::fail(errno) as c_int;
    }
    result
}

/// The same changes by number: of the calling thread, by the system call itself.
pub(crate) fn by_number(number: u32, args: [usize; 6]) -> Option<isize> {
    let [a, b, c] = [args[0] as u32, args[1] as u32, args[2] as u32];
    let leaves = match number {
        nr::__NR_setuid => leaves_user(Wish::All(a)),
        nr::__NR_setreuid => leaves_user(Wish::Two(a, b)),
        nr::__NR_setresuid => leaves_user(Wish::Three([a, b, c])),
        nr::__NR_setgid => leaves_group(Wish::All(a)),
        nr::__NR_setregid => leaves_group(Wish::Two(a, b)),
        nr::__NR_setresgid => leaves_group(Wish::Three([a, b, c])),
        nr::__NR_setgroups => leaves_groups(args[0], args[1] as Buf),
        nr::__NR_capset => leaves_capabilities(args[0] as Buf, args[1] as Buf),
        _ => return None,
    };
    let outcome = change(leaves, || {
        // SAFETY: the program's own call.
        crate::hook::from_raw(unsafe { os::raw::call(number, &args) }) as c_int
    });
    crate::hook::finish(outcome)
}
