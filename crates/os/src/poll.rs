//! Waiting on descriptors. Owns: the one door through which every blocking wait of the data path goes.
//!
//! A wait must be libc's own `ppoll`, so that signals, SA_RESTART rules and pthread cancellation behave as in
//! the call the program made. The preload library hands its resolved pointer in; until then the raw call
//! serves.

use crate::part::Part as _;
use crate::raw::{nr, syscall};
use crate::raw_poll::ask_libc;
use crate::{Errno, Result, raw_poll};
use core::ffi::c_void;
use sync::{AtomicBool, AtomicPtr, Ordering};

pub use crate::raw_poll::{ErrnoLocation, PollFd, bits, wait_raw};

/// Signature of libc's `poll`, returning -1 and setting errno on failure.
pub type LibcPoll = unsafe extern "C-unwind" fn(*mut PollFd, u64, i32) -> i32;

static LIBC_POLL: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Signature of libc's `ppoll`, the same.
pub type LibcPpoll = unsafe extern "C-unwind" fn(*mut PollFd, u64, *const [i64; 2], *const c_void) -> i32;

static LIBC_PPOLL: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Installs libc's `poll`, `ppoll` and `__errno_location` for [`wait`].
pub fn use_libc(poll: LibcPoll, ppoll: LibcPpoll, errno: ErrnoLocation) {
    raw_poll::use_errno(errno);
    LIBC_PPOLL.store(ppoll as *mut (), Ordering::Release);
    LIBC_POLL.store(poll as *mut (), Ordering::Release);
}

/// Whether the descriptor limit of a process is known to be so low that poll may refuse to name what a
/// program asks for.
pub(crate) struct Narrow(AtomicBool);

impl Narrow {
    pub(crate) const fn new() -> Self {
        Narrow(AtomicBool::new(false))
    }
}

/// A limit that no set looked at by its rings alone exceeds.
const WIDE: u64 = 64;

/// The descriptor limit is, or is about to be, `limit`.
pub fn note_descriptor_limit(limit: u64) {
    Narrow::here().0.store(limit < WIDE, Ordering::Relaxed);
}

/// Whether the kernel may refuse a set for its size alone: then it is to be asked.
#[inline]
pub fn may_be_refused() -> bool {
    Narrow::here().0.load(Ordering::Relaxed)
}

/// Whether the kernel refuses to poll so many descriptors, or such.
pub fn is_refused(fds: &mut [PollFd]) -> bool {
    wait_raw(fds, 0) == Err(Errno::EINVAL)
}

/// Waits for at most `timeout_ms` (negative: for ever) and returns how many entries have events.
/// Holds no lock and no value with a destructor: pthread cancellation may unwind through it.
pub fn wait(fds: &mut [PollFd], timeout_ms: i32) -> Result<usize> {
    if crate::confined::is_strict() {
        return wait_raw(fds, timeout_ms);
    }
    let poll = LIBC_POLL.load(Ordering::Acquire);
    if poll.is_null() {
        return wait_raw(fds, timeout_ms);
    }
    // SAFETY: `use_libc` stored a function of exactly this type.
    let poll = unsafe { core::mem::transmute::<*mut (), LibcPoll>(poll) };
    // SAFETY: the slice is valid for its length; libc's poll has no other precondition.
    let told = ask_libc(|| unsafe { poll(fds.as_mut_ptr(), fds.len() as u64, timeout_ms) });
    unless_too_many(told, fds, timeout_ms, core::ptr::null())
}

fn unless_too_many(
    told: Result<usize>,
    fds: &mut [PollFd],
    timeout_ms: i32,
    mask: *const c_void,
) -> Result<usize> {
    match told {
        // More than the descriptor limit allows to name.
        Err(Errno::EINVAL) => {
            let timeout_ns = u64::try_from(timeout_ms).ok().map(|ms| ms * 1_000_000);
            crate::select::wait(fds, timeout_ns, mask)
        }
        told => told,
    }
}

/// As [`wait`], with the signals blocked that `mask` says, if it says any.
pub fn wait_as(fds: &mut [PollFd], timeout_ms: i32, mask: Option<u64>) -> Result<usize> {
    let Some(blocked) = mask else { return wait(fds, timeout_ms) };
    let told = wait_masked(fds, timeout_ms, blocked);
    unless_too_many(told, fds, timeout_ms, (&raw const blocked).cast())
}

/// Whether [`wait_as`] can do what it says.
pub(crate) fn has_masks() -> bool {
    !LIBC_PPOLL.load(Ordering::Acquire).is_null() && !crate::confined::is_strict()
}

/// As [`wait`], with these signals blocked meanwhile, and no others.
pub fn wait_masked(fds: &mut [PollFd], timeout_ms: i32, blocked: u64) -> Result<usize> {
    let ppoll = LIBC_PPOLL.load(Ordering::Acquire);
    if ppoll.is_null() {
        return wait_raw(fds, timeout_ms);
    }
    // SAFETY: `use_libc` stored a function of exactly this type.
    let ppoll = unsafe { core::mem::transmute::<*mut (), LibcPpoll>(ppoll) };
    let (seconds, ms) = (i64::from(timeout_ms) / 1000, i64::from(timeout_ms) % 1000);
    let limit = [seconds, ms * 1_000_000];
    let limit_ptr = if timeout_ms < 0 { core::ptr::null() } else { &raw const limit };
    // (libc's own set is longer than the kernel's.)
    let mut mask = [0u64; 16];
    mask[0] = blocked;
    // SAFETY: slice, time and mask outlive the call.
    ask_libc(|| unsafe { ppoll(fds.as_mut_ptr(), fds.len() as u64, limit_ptr, mask.as_ptr().cast()) })
}

/// Sleeps for so long, or until a signal handler has run.
pub fn pause_ns(ns: u32) {
    if crate::confined::is_strict() {
        return crate::confined::pause();
    }
    let limit = nr::__kernel_timespec { tv_sec: 0, tv_nsec: i64::from(ns) };
    // SAFETY: no entries; the timespec outlives the call.
    unsafe { syscall!(nr::__NR_ppoll, 0, 0, &raw const limit, 0, 8) };
}

/// Events pending on one descriptor right now.
pub fn peek(fd: i32, events: i16) -> i16 {
    let mut one = [PollFd { fd, events, revents: 0 }];
    wait_raw(&mut one, 0).map_or(0, |_| one[0].revents)
}

/// Whether `fd` is readable right now.
pub fn is_readable(fd: i32) -> bool {
    peek(fd, bits::IN) & bits::IN != 0
}
