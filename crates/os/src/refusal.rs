//! Whether the kernel would refuse a call. Owns: that it is asked in ways that change nothing, and that a
//! filter of system calls lets through which this process has installed.
//!
//! A filter that came over exec binds us as well (`confined` knows only the process's own), and what it
//! refuses is told by nobody: we go on as ever behind it, and believe no call to have happened before the
//! kernel has said so. Only those by which we wait are asked for before there is anything to wait for.

use crate::part::Part as _;
use crate::poll::{PollFd, bits, peek};
use crate::raw::{nr, syscall};
use crate::{Errno, check};
use sync::{AtomicU8, Ordering};

/// Whether the program began behind a filter: [`NOT_ASKED`], [`FREE`], [`BEHIND_ONE`] or
/// [`WITHOUT_WAITS`].
pub(crate) struct Origin(AtomicU8);

const NOT_ASKED: u8 = 0;
const FREE: u8 = 1;
const BEHIND_ONE: u8 = 2;
/// And it refuses a call by which we wait.
const WITHOUT_WAITS: u8 = 3;

impl Origin {
    pub(crate) const fn new() -> Self {
        Origin(AtomicU8::new(NOT_ASKED))
    }
}

/// Whether there may be a filter, which may answer any call with an error: one that the process has
/// installed, or one that came over exec.
pub fn may_be_a_filters() -> bool {
    crate::confined::is_confined() || origin() != FREE
}

/// Whether a filter that came over exec answers with an error where we wait, and the plain program may wait
/// by another call.
#[inline]
pub fn refuses_waits() -> bool {
    origin() == WITHOUT_WAITS
}

#[inline]
fn origin() -> u8 {
    match Origin::here().0.load(Ordering::Relaxed) {
        NOT_ASKED => ask(),
        origin => origin,
    }
}

/// Asks once. (Not by prctl(2), which a filter may kill for: files are opened by whatever loads a program.)
#[cold]
#[inline(never)]
fn ask() -> u8 {
    let origin = match is_free().unwrap_or(false) {
        true => FREE,
        false if may_wait() => BEHIND_ONE,
        false => WITHOUT_WAITS,
    };
    Origin::here().0.store(origin, Ordering::Relaxed);
    origin
}

/// For no descriptors, and no time.
fn may_wait() -> bool {
    // SAFETY: no entries; integers alone.
    #[cfg(target_arch = "x86_64")]
    let by_poll = check(unsafe { syscall!(nr::__NR_poll, 0, 0, 0) }).is_ok();
    // (There poll(3) is made by ppoll(2).)
    #[cfg(not(target_arch = "x86_64"))]
    let by_poll = true;
    by_poll && crate::poll::wait_raw(&mut [], 0).is_ok()
}

/// Whether the kernel says of this process that it has no filter; `None` where it does not say.
fn is_free() -> Option<bool> {
    /// The list of groups, which comes before, may be long; in most processes all of it is 1.5 KiB.
    const ROOM: usize = 16 * 1024;
    const NAME: &[u8] = b"\nSeccomp:\t";
    let mut scratch = crate::mem::Scratch::for_poll(ROOM / size_of::<PollFd>()).ok()?;
    let text = crate::file::read_start(c"/proc/self/status", scratch.bytes()).ok()?;
    let at = text.windows(NAME.len()).position(|name| name == NAME)?;
    Some(text.get(at + NAME.len()) == Some(&b'0'))
}

/// Whether there is something under this number.
pub fn is_open(fd: i32) -> bool {
    if crate::confined::is_confined() { peek(fd, 0) & bits::NVAL == 0 } else { !crate::fd::is_closed(fd) }
}

/// Whether nothing may be opened under this number, nor above it.
pub fn is_beyond_descriptors(number: i32) -> bool {
    let Ok(number) = usize::try_from(number) else { return true };
    if crate::confined::leaves_nothing() {
        return false;
    }
    match if crate::confined::is_confined() { 0 } else { crate::limits::descriptor_limit() } {
        0 => is_too_many_to_poll(number + 1),
        limit => number >= limit,
    }
}

/// poll(2) says of more descriptors than there may be that they are too many, before it looks for them; and
/// here they are nowhere.
fn is_too_many_to_poll(count: usize) -> bool {
    let (none, no_time) = (core::ptr::null::<PollFd>(), [0i64; 2]);
    // SAFETY: an array that is not there: EFAULT at best.
    check(unsafe { syscall!(nr::__NR_ppoll, none, count, no_time.as_ptr(), 0, 0) }) == Err(Errno::EINVAL)
}
