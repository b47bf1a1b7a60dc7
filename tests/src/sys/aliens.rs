//! Descriptors that are not what their number promises. Invariant: each is a fresh one of the caller's own.

use std::fs::File;
use std::os::fd::{FromRawFd, OwnedFd};

/// A memfd under the name that the library gives its segments; `flags` as for `memfd_create(2)`.
pub fn memfd(flags: u32) -> Option<File> {
    // SAFETY: the name is NUL terminated.
    let fd = unsafe { libc::memfd_create(c"isthmus-dmb".as_ptr(), flags) };
    // SAFETY: a descriptor just made belongs to nobody else.
    (fd >= 0).then(|| unsafe { File::from_raw_fd(fd) })
}

/// A pipe whose reader and writer are one description of packets.
pub fn packets() -> Option<(OwnedFd, OwnedFd)> {
    let mut ends = [-1; 2];
    // SAFETY: room for two numbers.
    let made = unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_DIRECT) };
    // SAFETY: descriptors just made belong to nobody else.
    let own = |fd| unsafe { OwnedFd::from_raw_fd(fd) };
    (made == 0).then(|| (own(ends[0]), own(ends[1])))
}

/// Deallocates all of a file's first `len` bytes: who maps them reads zeros.
pub fn punch(file: &File, len: u64) {
    use std::os::fd::AsRawFd;
    let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: no pointers.
    unsafe { libc::fallocate(file.as_raw_fd(), how, 0, len as i64) };
}
