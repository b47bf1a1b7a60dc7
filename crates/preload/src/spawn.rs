//! posix_spawn and posix_spawnp: libc makes the new program without asking the dynamic linker. Owns: that
//! while one is made, it inherits the memory of the sockets that it may get, for whoever starts it may end
//! before it looks; and that nothing of that is left here afterwards.

use crate::lifecycle::{has_sockets, is_borrowed};
use crate::real::Buf;
use core::ffi::{CStr, c_int, c_void};
use sync::{AtomicPtr, AtomicU32, Ordering};

type Spawn = unsafe extern "C-unwind" fn(Buf, Buf, Buf, Buf, Buf, Buf) -> c_int;

static SPAWN: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static SPAWNP: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

/// Threads that are in one of the two: the last of them takes back what goes along.
static UNDER_WAY: AtomicU32 = AtomicU32::new(0);

const NAME: &CStr = c"posix_spawn";
const NAME_P: &CStr = c"posix_spawnp";

/// Finds libc's functions. Called by the constructor.
pub(crate) fn resolve() {
    SPAWN.store(crate::real::next(NAME), Ordering::Release);
    SPAWNP.store(crate::real::next(NAME_P), Ordering::Release);
}

fn spawning(function: &AtomicPtr<c_void>, name: &CStr, args: [Buf; 6]) -> c_int {
    let known = function.load(Ordering::Acquire);
    // Another library's constructor may call before ours has run.
    let real = if known.is_null() { crate::real::next(name) } else { known };
    if real.is_null() {
        return socket::Errno::ENOSYS.0;
    }
    // SAFETY: dlsym returned one of the two, which have this type.
    let real = unsafe { core::mem::transmute::<*mut c_void, Spawn>(real) };
    let lends = has_sockets() && !is_borrowed();
    if lends {
        UNDER_WAY.fetch_add(1, Ordering::SeqCst);
        socket::lend::before_spawn();
        socket::lend::keep_for_spawned(true);
    }
    let [pid, path, actions, attributes, argv, envp] = args;
    // SAFETY: the program's own arguments.
    let result = unsafe { real(pid, path, actions, attributes, argv, envp) };
    if lends && UNDER_WAY.fetch_sub(1, Ordering::SeqCst) == 1 {
        socket::lend::keep_for_spawned(false);
    }
    result
}

/// The program's call.
///
/// # Safety
/// As posix_spawn(3).
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn posix_spawn(
    pid: Buf,
    path: Buf,
    actions: Buf,
    attributes: Buf,
    argv: Buf,
    envp: Buf,
) -> c_int {
    spawning(&SPAWN, NAME, [pid, path, actions, attributes, argv, envp])
}

/// The program's call.
///
/// # Safety
/// As posix_spawnp(3).
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn posix_spawnp(
    pid: Buf,
    file: Buf,
    actions: Buf,
    attributes: Buf,
    argv: Buf,
    envp: Buf,
) -> c_int {
    spawning(&SPAWNP, NAME_P, [pid, file, actions, attributes, argv, envp])
}
