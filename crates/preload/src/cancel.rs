//! Cancelled threads. Owns: a call at which POSIX lets a thread be cancelled acts on a request that is
//! pending as it begins, before it holds, takes or gives anything, as libc's own function does, also where it
//! then makes no system call.
//!
//! Where no thread was ever cancelled, that is one look at a word. A call that is no such point, and sleeps
//! as those do, switches cancellation off for itself. And a thread that may be cancelled at any instruction
//! (PTHREAD_CANCEL_ASYNCHRONOUS) is not at ours: libc's calls hold nothing in the program's memory, and ours
//! have the connection's turn. Within a call it is cancelled where it sleeps, and as the call ends.

use crate::real::next;
use core::ffi::{c_int, c_void};
use sync::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

/// Whether this process has asked a thread to end. It stays so: whether one still waits to be ended, libc
/// knows.
static WAS_ASKED: AtomicBool = AtomicBool::new(false);

/// The threads of this process that have asked to be cancelled anywhere, by [`mine`]: others may find
/// themselves here, too, and ask libc in vain. (Each call of these makes two of libc's.)
static ANYWHERE: AtomicU64 = AtomicU64::new(0);

static CANCEL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static TEST: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static SET_STATE: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static SET_TYPE: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

type Cancel = unsafe extern "C-unwind" fn(usize) -> c_int;
type Test = unsafe extern "C-unwind" fn();
type Set = unsafe extern "C-unwind" fn(c_int, *mut c_int) -> c_int;

/// Of pthread_setcancelstate and pthread_setcanceltype, in glibc and musl.
const DISABLE: c_int = 1;
const DEFERRED: c_int = 0;
const ASYNCHRONOUS: c_int = 1;

/// Finds libc's functions. The hook stands for its own even where the library is switched off.
pub(crate) fn resolve() {
    CANCEL.store(next(c"pthread_cancel"), Ordering::Release);
    TEST.store(next(c"pthread_testcancel"), Ordering::Release);
    SET_STATE.store(next(c"pthread_setcancelstate"), Ordering::Release);
    SET_TYPE.store(next(c"pthread_setcanceltype"), Ordering::Release);
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

/// Whether calls of this thread are to be [`whole`].
#[inline]
pub(crate) fn is_anywhere() -> bool {
    let anywhere = ANYWHERE.load(Ordering::Relaxed);
    anywhere != 0 && anywhere & mine() != 0
}

/// The bit of the calling thread, which it shares with some.
fn mine() -> u64 {
    1 << (os::process::thread_mark().wrapping_mul(0x9e37_79b9) >> 26)
}

/// A call of ours: see [`whole`].
pub(crate) struct Whole(bool);

/// From here until the end of a call its thread is cancelled at most where it sleeps.
#[inline]
pub(crate) fn whole() -> Whole {
    Whole(is_anywhere() && put_off())
}

#[cold]
fn put_off() -> bool {
    set(&SET_TYPE, DEFERRED).is_some_and(|before| before == ASYNCHRONOUS)
}

impl Drop for Whole {
    /// (A request that came meanwhile is acted on by libc at this.)
    #[inline]
    fn drop(&mut self) {
        if self.0 {
            set(&SET_TYPE, ASYNCHRONOUS);
        }
    }
}

/// Makes `call`, at which no thread is cancelled, wherever it sleeps: with libc it is no such point. (Who may
/// be cancelled at any time may be cancelled here; a call of his is whole by now, and does not tell.)
#[inline]
pub(crate) fn without_points<T>(call: impl FnOnce() -> T) -> T {
    if !WAS_ASKED.load(Ordering::Relaxed) && !os::process::may_have_threads() || is_anywhere() {
        return call();
    }
    let before = set(&SET_STATE, DISABLE);
    let result = call();
    before.map(|before| set(&SET_STATE, before));
    result
}

/// The same for a call that does not sleep: who was not asked before it is not cancelled in it.
#[inline]
pub(crate) fn without_points_if_asked<T>(call: impl FnOnce() -> T) -> T {
    if WAS_ASKED.load(Ordering::Relaxed) { without_points(call) } else { call() }
}

/// What stood before.
#[cold]
fn set(by: &AtomicPtr<c_void>, to: c_int) -> Option<c_int> {
    let function = by.load(Ordering::Acquire);
    let mut before = 0;
    // SAFETY: dlsym returned one of the two functions, which have this type, and the place is there.
    let is_set = !function.is_null()
        && unsafe { core::mem::transmute::<*mut c_void, Set>(function)(to, &raw mut before) } == 0;
    is_set.then_some(before)
}

/// pthread_setcanceltype: libc's, noted before.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_setcanceltype(to: c_int, before: *mut c_int) -> c_int {
    if to == ASYNCHRONOUS {
        ANYWHERE.fetch_or(mine(), Ordering::Relaxed);
    }
    if SET_TYPE.load(Ordering::Acquire).is_null() {
        resolve();
    }
    let function = SET_TYPE.load(Ordering::Acquire);
    if function.is_null() {
        return os::Errno::ENOSYS.0;
    }
    // SAFETY: dlsym returned the function of this name, which has this type; the program's own arguments.
    unsafe { core::mem::transmute::<*mut c_void, Set>(function)(to, before) }
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
