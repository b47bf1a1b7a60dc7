//! Doorbells: pipes whose bytes mean nothing but "look again".
//!
//! A pipe and not an eventfd, because a pipe can be opened by another process of the same user through
//! `/proc/PID/fd/N` at any time, without the owner's help. Owns: the fact that a doorbell is opened
//! read-write at both ends, so that neither side ever sees EOF, EPIPE or SIGPIPE from it, whoever dies.

use crate::decimal::decimal;
use crate::file::{self, How, open};
use crate::raw::{Errno, nr, syscall};
use crate::{Result, check};
use core::ffi::CStr;

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
        // A page is enough, and all pipes of a user share a quota (pipe-user-pages-soft) of which this would
        // take sixteen.
        crate::fd::shrink_pipe(bell);
    }
    crate::fd::raise(both_ways?)
}

/// Opens the doorbell that is descriptor `fd` of process `pid`. Errors: EACCES or ENOENT where /proc does not
/// let us (another user, another pid namespace, hidepid); EINVAL if it is no doorbell, since the number comes
/// from memory that the peer writes.
pub fn open_bell_of(pid: u32, fd: i32) -> Result<i32> {
    open_if(pid, fd, is_pipe)
}

/// Opens the memory that is descriptor `fd` of process `pid`. Errors: as [`open_bell_of`]; EINVAL if it is
/// anything but memory.
pub fn open_memory_of(pid: u32, fd: i32) -> Result<i32> {
    open_if(pid, fd, crate::mem::is_plain_memory)
}

/// Opens the memory that is descriptor `fd` of this process anew, at a high number, only to read. Under that
/// number nobody finds it by [`open_memory_of`] or [`identity_of`].
pub fn reopen_memory_to_read(fd: i32) -> Result<i32> {
    let how = How { flags: nr::O_RDONLY, ..How::MAGIC_LINK };
    open(link(b"self", fd, &mut [0u8; PATH_LEN])?, how).and_then(crate::fd::raise)
}

/// Opens memory that is descriptor `fd` of process `pid` anew, at a high number and to write, however that
/// process has opened it; what it is used for proves itself by what lies in it.
pub fn open_held_memory(pid: u32, fd: i32) -> Result<i32> {
    let (mut path, mut digits) = ([0u8; PATH_LEN], [0u8; 10]);
    let link = link(decimal(pid, &mut digits), fd, &mut path)?;
    let low = file::look(link, How::LOOK, |target| {
        if crate::mem::is_plain_memory(target) { open_link(b"self", target) } else { Err(Errno::EINVAL) }
    })?;
    crate::fd::raise(low)
}

/// What descriptor `fd` of process `pid` refers to, by device and inode, if it can read and write. Errors: as
/// [`open_bell_of`].
pub fn identity_of(pid: u32, fd: i32) -> Result<(u64, u64)> {
    let mut path = [0u8; PATH_LEN];
    let mut digits = [0u8; 10];
    let link = link(decimal(pid, &mut digits), fd, &mut path)?;
    require_both_ways(link)?;
    file::look(link, How::LOOK, crate::fd::identity)
}

/// Opens descriptor `fd` of process `pid` anew, read-write and non-blocking, at a high number, if it is
/// `wanted` by what it leads to, and can read and write. Nothing else is ever opened: opening alone can start
/// a device, or wake a FIFO's writer.
fn open_if(pid: u32, fd: i32, wanted: impl FnOnce(i32) -> bool) -> Result<i32> {
    let mut path = [0u8; PATH_LEN];
    let mut digits = [0u8; 10];
    let link = link(decimal(pid, &mut digits), fd, &mut path)?;
    require_both_ways(link)?;
    let low = file::look(link, How::LOOK, |target| {
        if wanted(target) { open_link(b"self", target) } else { Err(Errno::EINVAL) }
    })?;
    crate::fd::raise(low)
}

/// EINVAL unless a descriptor, by its link under /proc, was opened to read and to write. Doorbells and their
/// memory are; no end of a program's pipe is.
fn require_both_ways(link: &CStr) -> Result<()> {
    let about = file::look(link, How::LOOK_AT_NAME, file::about)?;
    if about.mode & 0o600 == 0o600 { Ok(()) } else { Err(Errno::EINVAL) }
}

/// Whether this is a pipe, of a descriptor that anybody may have passed: no file system is asked, which might
/// be slow to say.
pub fn is_passed_pipe(fd: i32) -> bool {
    const F_GETPIPE_SZ: u32 = 1032;
    // SAFETY: asking for a pipe's size touches no memory.
    check(unsafe { syscall!(nr::__NR_fcntl, fd, F_GETPIPE_SZ) }).is_ok() && is_pipe(fd)
}

/// How many bytes a pipe has room for; 0 if the kernel will not say.
pub fn size(fd: i32) -> usize {
    const F_GETPIPE_SZ: u32 = 1032;
    // SAFETY: asking for a pipe's size touches no memory.
    check(unsafe { syscall!(nr::__NR_fcntl, fd, F_GETPIPE_SZ) }).unwrap_or(0)
}

/// Whether this is a pipe, and not a FIFO with a name.
pub fn is_pipe(fd: i32) -> bool {
    const PIPEFS_MAGIC: u64 = 0x5049_5045;
    file::about(fd).is_ok_and(file::About::is_fifo) && file::file_system(fd) == Ok(PIPEFS_MAGIC)
}

/// Whether this is a pipe as [`create`] makes them: unnamed, and open both ways.
pub(crate) fn is_doorbell(fd: i32) -> bool {
    is_passed_pipe(fd) && crate::fd::is_both_ways_and_nonblocking(fd)
}

/// Whether the link of `fd` leads to memory that memfd_create made under this name.
pub(crate) fn is_memory_named(fd: i32, name: &CStr) -> bool {
    leads_to(fd, |target| {
        let name_on = target.strip_prefix(b"/memfd:").unwrap_or_default();
        name_on.strip_prefix(name.to_bytes()) == Some(b" (deleted)")
    })
}

/// Whether `fd` is a set of epoll's.
pub fn is_a_set(fd: i32) -> bool {
    leads_to(fd, |target| target == b"anon_inode:[eventpoll]")
}

/// Whether `fd` is an io_uring.
pub fn is_a_ring_of_the_kernel(fd: i32) -> bool {
    leads_to(fd, |target| target == b"anon_inode:[io_uring]")
}

/// Whether the link of `fd` leads to what `is_it` knows by its first 64 bytes.
fn leads_to(fd: i32, is_it: impl FnOnce(&[u8]) -> bool) -> bool {
    let mut path = [0u8; PATH_LEN];
    let mut target = [0u8; 64];
    let Ok(link) = link(b"self", fd, &mut path) else { return false };
    // SAFETY: the link is NUL terminated, `target` writable for its length.
    let len = check(unsafe {
        syscall!(nr::__NR_readlinkat, nr::AT_FDCWD, link.as_ptr(), target.as_mut_ptr(), target.len())
    });
    len.is_ok_and(|len| is_it(&target[..len]))
}

pub(crate) fn open_link(pid: &[u8], fd: i32) -> Result<i32> {
    open(link(pid, fd, &mut [0u8; PATH_LEN])?, How::MAGIC_LINK)
}

fn link<'a>(pid: &[u8], fd: i32, path: &'a mut [u8; PATH_LEN]) -> Result<&'a CStr> {
    let mut digits = [0u8; 10];
    let parts: [&[u8]; 4] = [b"/proc/", pid, b"/fd/", decimal(fd as u32, &mut digits)];
    let mut at = 0;
    for part in parts {
        path[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    CStr::from_bytes_until_nul(path).map_err(|_| Errno::EINVAL)
}

/// Rings: the other end becomes readable. A full pipe is as good as rung.
pub fn ring(fd: i32) {
    if crate::confined::leaves_nothing() {
        return;
    }
    let byte = 0u8;
    // SAFETY: one readable byte.
    unsafe { syscall!(nr::__NR_write, fd, &raw const byte, 1) };
}

/// Takes whatever rings are pending.
pub fn drain(fd: i32) {
    if crate::confined::leaves_nothing() {
        return;
    }
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
    use std::os::fd::AsRawFd;

    #[test]
    fn a_doorbell_opened_through_proc_is_the_same_doorbell() {
        let mine = create().unwrap();
        let theirs = open_bell_of(crate::process::pid(), mine).unwrap();
        assert_eq!(Ok(crate::fd::identity(mine).unwrap()), identity_of(crate::process::pid(), mine));
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
    fn nothing_but_a_doorbell_is_opened_as_one() {
        let me = crate::process::pid();
        let (reader, writer) = std::io::pipe().unwrap();
        let memory = crate::mem::sealed_memfd(c"test", 4096).unwrap();
        let bell = create().unwrap();
        for (what, fd) in [("reader", reader.as_raw_fd()), ("writer", writer.as_raw_fd()), ("memory", memory)]
        {
            assert_eq!(open_bell_of(me, fd), Err(Errno::EINVAL), "{what}");
        }
        assert_eq!(open_bell_of(me, -1), Err(Errno::ENOENT));
        for (what, fd) in [("reader", reader.as_raw_fd()), ("bell", bell)] {
            assert_eq!(open_memory_of(me, fd), Err(Errno::EINVAL), "{what}");
        }
        let again = open_memory_of(me, memory).unwrap();
        assert_eq!(crate::fd::identity(memory), crate::fd::identity(again));
        [memory, bell, again].into_iter().for_each(crate::fd::close);
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
