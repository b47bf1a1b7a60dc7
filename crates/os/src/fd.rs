//! File descriptors: close, duplicate to a high number, flags, identity. Owns: the rule that internal
//! descriptors live out of the application's way, and the list of their numbers, which close loops and
//! close_range() spare (see [`raise`]).

use crate::part::Part as _;
use crate::raw::{nr, syscall};
use crate::{Errno, Result, check};
use sync::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// Numbers up to this one can be remembered; internal descriptors above it are closed by close loops like
/// any other.
const NUMBERS: usize = 1 << 20;

/// Which numbers of a process are ours, a bit each; which one is not to be, and how many are being made.
pub(crate) struct Internal([AtomicU64; NUMBERS / 64], AtomicI32, AtomicU32);

impl Internal {
    pub(crate) const fn new() -> Self {
        Internal([const { AtomicU64::new(0) }; NUMBERS / 64], AtomicI32::new(NONE), AtomicU32::new(0))
    }

    /// In a child after fork: nobody here is in the middle of anything.
    pub(crate) fn forget_reserved(&self) {
        self.1.store(NONE, Ordering::Relaxed);
        self.2.store(0, Ordering::Relaxed);
    }
}

/// No number is reserved. (What is, stands here one higher: all of a process's state is zero at first.)
const NONE: i32 = 0;

/// In a child after fork, where nobody else makes numbers or wants one.
pub fn after_fork() {
    Internal::here().forget_reserved();
}

/// A number that none of ours gets while this lives.
pub struct Reserved(());

/// The program wants `number`, which is ours, for itself: it is about to be free, and no thread is to take
/// it for us again before the program has it. (One number at a time; whoever makes one is waited for, for a
/// moment.)
pub fn reserve(number: i32) -> Option<Reserved> {
    const YIELDS: u32 = 1000;
    let Internal(_, reserved, makers) = Internal::here();
    reserved.compare_exchange(NONE, number + 1, Ordering::SeqCst, Ordering::Relaxed).ok()?;
    for _ in 0..YIELDS {
        if makers.load(Ordering::SeqCst) == 0 {
            break;
        }
        crate::confined::yield_now();
    }
    Some(Reserved(()))
}

impl Drop for Reserved {
    fn drop(&mut self) {
        Internal::here().1.store(NONE, Ordering::SeqCst);
    }
}

/// A number at `floor` or above it, but not the reserved one.
fn duplicate_above(fd: i32, floor: i32) -> Result<usize> {
    let Internal(_, reserved, makers) = Internal::here();
    makers.fetch_add(1, Ordering::SeqCst);
    // (The number above the reserved one, or 0.)
    let floor = reserved.load(Ordering::SeqCst).max(floor);
    let made = fcntl(fd, nr::F_DUPFD_CLOEXEC, floor as usize);
    makers.fetch_sub(1, Ordering::SeqCst);
    made
}

fn place(fd: i32) -> Option<(&'static AtomicU64, u64)> {
    let number = usize::try_from(fd).ok()?;
    Some((Internal::here().0.get(number / 64)?, 1 << (number % 64)))
}

/// Whether `fd` is one of ours.
#[inline]
pub fn is_internal(fd: i32) -> bool {
    place(fd).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
}

/// From now on `fd` is one of ours.
pub(crate) fn mark_internal(fd: i32) {
    if let Some((word, bit)) = place(fd) {
        word.fetch_or(bit, Ordering::Relaxed);
    }
}

/// The first internal number in `first..=last`.
pub fn next_internal(first: u32, last: u32) -> Option<u32> {
    let end = (last as usize).min(NUMBERS - 1);
    let mut number = first as usize;
    while number <= end {
        let rest = Internal::here().0[number / 64].load(Ordering::Relaxed) >> (number % 64);
        if rest == 0 {
            number = (number / 64 + 1) * 64;
            continue;
        }
        let found = number + rest.trailing_zeros() as usize;
        return (found <= end).then_some(found as u32);
    }
    None
}

/// Whether descriptors of ours have numbers that the program could have.
pub fn is_in_the_programs_way() -> bool {
    let limit = u32::try_from(crate::limits::descriptor_limit()).unwrap_or(u32::MAX);
    limit > 0 && next_internal(0, limit - 1).is_some()
}

/// How many numbers below `limit` are internal.
fn internal_below(limit: u32) -> u32 {
    let whole = (limit as usize).min(NUMBERS) / 64;
    let words = Internal::here().0[..whole].iter();
    let count: u32 = words.map(|word| word.load(Ordering::Relaxed).count_ones()).sum();
    let rest = Internal::here().0.get(whole).map_or(0, |word| word.load(Ordering::Relaxed));
    count + (rest & ((1 << (limit % 64)) - 1)).count_ones()
}

/// `fd` is not this process's: a child that borrows its memory has made it, in a table of its own.
pub fn disown(fd: i32) {
    if let Some((word, bit)) = place(fd) {
        word.fetch_and(!bit, Ordering::Relaxed);
    }
}

/// Closes `fd`, which may be internal. Errors are of no use to anyone here and dropped.
pub fn close(fd: i32) {
    if is_internal(fd) {
        disown(fd);
    }
    // SAFETY: closing a descriptor touches no memory; the callers close only numbers they own.
    unsafe { syscall!(nr::__NR_close, fd) };
}

/// Closes every internal descriptor that is `unwanted`.
pub fn close_internal(unwanted: impl Fn(i32) -> bool) {
    let mut from = 0;
    while let Some(fd) = next_internal(from, NUMBERS as u32) {
        if unwanted(fd as i32) {
            close(fd as i32);
        }
        from = fd + 1;
    }
}

/// Closes `first..=last` with `flags` as close_range(2).
pub fn close_range(first: u32, last: u32, flags: u32) -> Result<()> {
    // SAFETY: closing descriptors touches no memory.
    check(unsafe { syscall!(nr::__NR_close_range, first, last, flags) }).map(drop)
}

fn fcntl(fd: i32, cmd: u32, arg: usize) -> Result<usize> {
    // SAFETY: only commands with integer arguments pass through here.
    check(unsafe { syscall!(nr::__NR_fcntl, fd, cmd, arg) })
}

/// Moves `fd` to a high number with close-on-exec and closes the low one.
///
/// The number lies above the program's soft descriptor limit when the hard limit leaves room (the limit is
/// lifted for the instant of the duplication, so the program's own numbers are not used up), else in the
/// upper half below it. Errors: whatever the kernel says; `fd` is closed then too.
pub fn raise(fd: i32) -> Result<i32> {
    raise_if_room(fd).inspect_err(|_| close(fd))
}

/// The same for what is needed once, and soon gone: where no number is ours to have, it is one of the
/// program's upper half.
pub(crate) fn raise_for_once(fd: i32) -> Result<i32> {
    let number = raise_if_room(fd).or_else(|_| {
        let number = duplicate_above(fd, (crate::limits::descriptor_limit() / 2) as i32)? as i32;
        close(fd);
        mark_internal(number);
        Ok(number)
    });
    number.inspect_err(|_| close(fd))
}

/// As [`raise`], but `fd` stays open where there is no number for it.
pub(crate) fn raise_if_room(fd: i32) -> Result<i32> {
    let number =
        crate::limits::with_room_above_soft_limit(internal_below, |floor| duplicate_above(fd, floor))? as i32;
    close(fd);
    mark_internal(number);
    Ok(number)
}

/// Whether O_NONBLOCK is set on the open file description.
pub fn is_nonblocking(fd: i32) -> bool {
    fcntl(fd, nr::F_GETFL, 0).is_ok_and(|flags| flags as u32 & nr::O_NONBLOCK != 0)
}

/// Whether it can be read and written, and neither waits.
pub(crate) fn is_both_ways_and_nonblocking(fd: i32) -> bool {
    const WAY: u32 = nr::O_WRONLY | nr::O_RDWR;
    fcntl(fd, nr::F_GETFL, 0)
        .is_ok_and(|flags| flags as u32 & (WAY | nr::O_NONBLOCK) == nr::O_RDWR | nr::O_NONBLOCK)
}

/// Another number, high up, for an internal descriptor.
pub fn duplicate_internal(fd: i32) -> Result<i32> {
    fcntl(fd, nr::F_DUPFD_CLOEXEC, 0).and_then(|low| raise(low as i32))
}

/// The same where the number itself is wanted: any above it will do, while the program is short of them, too.
pub fn duplicate_elsewhere(fd: i32) -> Result<i32> {
    let anywhere = |_| {
        let number = duplicate_above(fd, fd + 1)? as i32;
        mark_internal(number);
        Ok(number)
    };
    duplicate_internal(fd).or_else(anywhere)
}

/// Whether `fd` is an end of a pipe.
pub fn is_pipe(fd: i32) -> bool {
    const F_GETPIPE_SZ: u32 = 1032;
    fcntl(fd, F_GETPIPE_SZ, 0).is_ok()
}

/// Whether it may be written to.
pub fn is_for_writing(fd: i32) -> bool {
    way(fd) != Some(nr::O_RDONLY)
}

/// Whether it may be read from.
pub fn is_for_reading(fd: i32) -> bool {
    way(fd) != Some(nr::O_WRONLY)
}

fn way(fd: i32) -> Option<u32> {
    const O_ACCMODE: u32 = nr::O_WRONLY | nr::O_RDWR;
    fcntl(fd, nr::F_GETFL, 0).ok().map(|flags| flags as u32 & O_ACCMODE)
}

/// Makes a pipe as small as pipes are.
pub(crate) fn shrink_pipe(fd: i32) {
    const F_SETPIPE_SZ: u32 = 1031;
    let _ = fcntl(fd, F_SETPIPE_SZ, 4096);
}

/// Makes `bell` signal its readiness as `fd` is set to: the same owner and signal, O_ASYNC on or off.
pub fn copy_signal_driven(fd: i32, bell: i32, on: bool) {
    const F_GETSIG: u32 = 11;
    const F_SETSIG: u32 = 10;
    const O_ASYNC: u32 = 0o20000;
    if let Ok(owner) = fcntl(fd, nr::F_GETOWN, 0) {
        let _ = fcntl(bell, nr::F_SETOWN, owner);
    }
    if let Ok(signal) = fcntl(fd, F_GETSIG, 0) {
        let _ = fcntl(bell, F_SETSIG, signal);
    }
    let flags = nr::O_NONBLOCK | if on { O_ASYNC } else { 0 };
    let _ = fcntl(bell, nr::F_SETFL, flags as usize);
}

/// Makes `bell` signal its readiness to nobody.
pub fn stop_signals(bell: i32) {
    let _ = fcntl(bell, nr::F_SETFL, nr::O_NONBLOCK as usize);
}

/// Whether FD_CLOEXEC is set on `fd`.
pub fn is_cloexec(fd: i32) -> bool {
    fcntl(fd, nr::F_GETFD, 0).is_ok_and(|flags| flags as u32 & nr::FD_CLOEXEC != 0)
}

/// Whether a program that is started gets what is open under this number: there is something, without
/// FD_CLOEXEC.
pub fn goes_on_over_exec(fd: i32) -> bool {
    fcntl(fd, nr::F_GETFD, 0).is_ok_and(|flags| flags as u32 & nr::FD_CLOEXEC == 0)
}

/// Whether there is nothing under this number.
pub fn is_closed(fd: i32) -> bool {
    fcntl(fd, nr::F_GETFD, 0) == Err(Errno::EBADF)
}

/// Sets or clears FD_CLOEXEC.
pub fn set_cloexec(fd: i32, on: bool) -> Result<()> {
    fcntl(fd, nr::F_SETFD, usize::from(on)).map(drop)
}

/// Device and inode of an open descriptor: what it is, whatever its number.
pub fn identity(fd: i32) -> Result<(u64, u64)> {
    // SAFETY: all-zero bytes are a valid `stat`.
    let mut stat: nr::stat = unsafe { core::mem::zeroed() };
    // SAFETY: `stat` is writable for the kernel's struct of this architecture.
    check(unsafe { syscall!(nr::__NR_fstat, fd, &raw mut stat) })?;
    Ok((stat.st_dev as u64, stat.st_ino as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserved_number_is_none_of_ours_until_it_is_let_go_of() {
        let wanted = crate::pipe::create().unwrap();
        let reserved = reserve(wanted).unwrap();
        assert!(reserve(wanted + 1).is_none(), "one at a time");
        close(wanted);
        let others = [(); 3].map(|()| crate::pipe::create().unwrap());
        assert!(others.iter().all(|other| *other > wanted), "{others:?} beside {wanted}");
        drop(reserved);
        // What another thread had reserved at a fork nobody in the child would let go of.
        std::mem::forget(reserve(wanted).unwrap());
        assert!(reserve(wanted).is_none());
        after_fork();
        assert!(reserve(wanted).is_some());
        others.into_iter().for_each(close);
    }

    #[test]
    fn raised_descriptors_are_known_until_they_are_closed() {
        let bell = crate::pipe::create().unwrap();
        assert!(is_internal(bell) && !is_internal(-1) && !is_internal(0));
        assert_eq!(next_internal(bell as u32, bell as u32), Some(bell as u32));
        assert!(internal_below(bell as u32 + 1) > internal_below(bell as u32));
        close(bell);
        assert!(!is_internal(bell));
        assert_eq!(next_internal(bell as u32, bell as u32), None);
    }
}
