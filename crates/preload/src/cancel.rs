//! Cancelled threads. Owns: a call at which POSIX lets a thread be cancelled acts on a request that is
//! pending as it begins, before it holds, takes or gives anything, as libc's own function does, also where it
//! then makes no system call.
//!
//! Where no thread was ever cancelled, that is one look at a word.

use crate::real::next;
use core::ffi::{c_int, c_void};
use sync::{AtomicBool, AtomicPtr, Ordering};

/// Whether this process has asked a thread to end. It stays so: whether one still waits to be ended, libc
/// knows.
static WAS_ASKED: AtomicBool = AtomicBool::new(false);

static CANCEL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static TEST: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static SET_STATE: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

type Cancel = unsafe extern "C-unwind" fn(usize) -> c_int;
type Test = unsafe extern "C-unwind" fn();
type SetState = unsafe extern "C-unwind" fn(c_int, *mut c_int) -> c_int;

/// Of pthread_setcancelstate, in glibc and musl.
const DISABLE: c_int = 1;

/// Finds libc's functions. The hook stands for its own even where the library is switched off.
pub(crate) fn resolve() {
    CANCEL.store(next(c"pthread_cancel"), Ordering::Release);
    TEST.store(next(c"pthread_testcancel"), Ordering::Release);
    SET_STATE.store(next(c"pthread_setcancelstate"), Ordering::Release);
}

/// The beginning of a call at which a thread may be cancelled: it may not return. Who calls holds nothing.
#[inline]
pub(crate) fn point() {
    if WAS_ASKED.load(Ordering::Relaxed) {
        act();
    }
}

#[cold]
#[inline(never)]
fn act() {
    let test = TEST.load(Ordering::Acquire);
    if !test.is_null() {
        // SAFETY: dlsym returned the function of this name, which has this type. What it unwinds has nothing
        // to clean up.
        unsafe { core::mem::transmute::<*mut c_void, Test>(test)() }
    }
}

/// Makes `call`, at which no thread is cancelled that was asked to end before.
#[inline]
pub(crate) fn without_points<T>(call: impl FnOnce() -> T) -> T {
    if !WAS_ASKED.load(Ordering::Relaxed) {
        return call();
    }
    let before = set_state(DISABLE);
    let result = call();
    before.map(set_state);
    result
}

/// The state before.
#[cold]
fn set_state(state: c_int) -> Option<c_int> {
    let set = SET_STATE.load(Ordering::Acquire);
    let mut before = 0;
    // SAFETY: dlsym returned the function of this name, which has this type, and the place is there.
    let is_set = !set.is_null()
        && unsafe { core::mem::transmute::<*mut c_void, SetState>(set)(state, &raw mut before) } == 0;
    is_set.then_some(before)
}

/// pthread_cancel: libc's, noted before, for the thread may cancel itself.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cancel(thread: usize) -> c_int {
    WAS_ASKED.store(true, Ordering::Relaxed);
    // (A libpthread of its own may have come behind the constructor.)
    if CANCEL.load(Ordering::Acquire).is_null() {
        resolve();
    }
    let cancel = CANCEL.load(Ordering::Acquire);
    if cancel.is_null() {
        return os::Errno::ENOSYS.0;
    }
    // SAFETY: dlsym returned the function of this name, which has this type; the program's own argument.
    unsafe { core::mem::transmute::<*mut c_void, Cancel>(cancel)(thread) }
}
