//! Doorbells: pipes whose bytes mean nothing but "look again".
//!
//! A pipe and not an eventfd, because a pipe can be opened by another process of the same user through
//! `/proc/PID/fd/N` at any time, without the owner's help. Owns: the fact that a doorbell is opened read-write at both
//! ends, so that neither side ever sees EOF, EPIPE or SIGPIPE from it, whoever dies.

use crate::file::{How, open};
use crate::raw::{Errno, nr, syscall};
use crate::{Result, check};

/// Longest `/proc/PID/fd/N` path with its NUL.
const PATH_LEN: usize = 40;

/// Makes a doorbell at a high descriptor number, non-blocking.
pub fn create() -> Result<i32> {
    let mut ends = [0i32; 2];
    // SAFETY: `ends` is writable for two descriptors.
    check(unsafe { syscall!(nr::__NR_pipe2, ends.as_mut_ptr(), nr::O_CLOEXEC | nr::O_NONBLOCK) })?;
    let both_ways = open_link(b"self", ends[0]);
    crate::fd::close(ends[0]);
    crate::fd::close(ends[1]);
    if let Ok(bell) = both_ways {
        // A page is enough, and all pipes of a user share a quota (pipe-user-pages-soft) of which this would take sixteen.
        crate::fd::shrink_pipe(bell);
    }
    crate::fd::raise(both_ways?)
}

/// Opens the doorbell that is descriptor `fd` of process `pid`. Errors: as [`open_of`]; EINVAL if it is no pipe, since the
/// number comes from memory that the peer writes.
pub fn open_bell_of(pid: u32, fd: i32) -> Result<i32> {
    let opened = open_of(pid, fd)?;
    if crate::fd::is_pipe(opened) {
        return Ok(opened);
    }
    crate::fd::close(opened);
    Err(Errno::EINVAL)
}

/// Opens descriptor `fd` of process `pid` anew, read-write and non-blocking, at a high number.
/// Errors: EACCES or ENOENT where /proc does not let us (another user, another pid namespace, hidepid).
pub fn open_of(pid: u32, fd: i32) -> Result<i32> {
    let mut digits = [0u8; 10];
    let low = open_link(decimal(pid, &mut digits), fd)?;
    crate::fd::raise(low)
}

fn open_link(pid: &[u8], fd: i32) -> Result<i32> {
    let mut digits = [0u8; 10];
    let mut path = [0u8; PATH_LEN];
    let parts: [&[u8]; 4] = [b"/proc/", pid, b"/fd/", decimal(fd as u32, &mut digits)];
    let mut at = 0;
    for part in parts {
        path[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    let path = core::ffi::CStr::from_bytes_until_nul(&path).map_err(|_| Errno::EINVAL)?;
    open(path, How::MAGIC_LINK)
}

pub(crate) fn decimal(mut value: u32, digits: &mut [u8; 10]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return &digits[at..];
        }
    }
}

/// Rings: the other end becomes readable. A full pipe is as good as rung.
pub fn ring(fd: i32) {
    let byte = 0u8;
    // SAFETY: one readable byte.
    unsafe { syscall!(nr::__NR_write, fd, &raw const byte, 1) };
}

/// Takes whatever rings are pending.
pub fn drain(fd: i32) {
    let mut rings = [0u8; 512];
    // A pipe holds 64 KiB; a peer that refills it faster than it is drained gets no more of our time.
    for _ in 0..128 {
        // SAFETY: `rings` is writable for its length.
        let got = check(unsafe { syscall!(nr::__NR_read, fd, rings.as_mut_ptr(), rings.len()) });
        if got != Ok(rings.len()) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doorbell_opened_through_proc_is_the_same_doorbell() {
        let mine = create().unwrap();
        let theirs = open_of(crate::process::pid(), mine).unwrap();
        assert_eq!(crate::fd::identity(mine), crate::fd::identity(theirs));
        assert!(!crate::poll::is_readable(mine));
        ring(theirs);
        assert!(crate::poll::is_readable(mine));
        drain(mine);
        assert!(!crate::poll::is_readable(theirs));
        crate::fd::close(mine);
        crate::fd::close(theirs);
    }

    #[test]
    fn a_full_doorbell_neither_blocks_nor_fails() {
        let bell = create().unwrap();
        for _ in 0..70_000 {
            ring(bell);
        }
        drain(bell);
        assert!(!crate::poll::is_readable(bell));
        crate::fd::close(bell);
    }
}
