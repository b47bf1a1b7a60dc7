//! Files by path and the open-file-description locks that tell the living from the dead.
//! Owns: the byte-lock protocol: a byte is locked for as long as any process that shares the locking description lives
//! and has not exec'ed (the descriptor is close-on-exec; fork shares it).

use crate::raw::{nr, syscall};
use crate::{Result, check};
use core::ffi::CStr;

const F_OFD_GETLK: u32 = 36;
const F_OFD_SETLK: u32 = 37;
const F_WRLCK: i16 = 1;
const F_UNLCK: i16 = 2;

#[repr(C)]
struct Flock {
    kind: i16,
    whence: i16,
    start: i64,
    len: i64,
    pid: i32,
}

impl Flock {
    fn byte(kind: i16, at: u64) -> Self {
        Flock { kind, whence: 0, start: at as i64, len: 1, pid: 0 }
    }
}

/// How a file is opened.
#[derive(Clone, Copy)]
pub struct How {
    /// `O_*` flags besides O_CLOEXEC, which is always set.
    pub flags: u32,
    /// Permission bits for a file that is created.
    pub mode: u32,
}

impl How {
    /// Read and write an existing file, never through a symbolic link.
    pub const READ_WRITE: How = How { flags: nr::O_RDWR | nr::O_NOFOLLOW, mode: 0 };
    /// Read an existing file, never through a symbolic link.
    pub const READ: How = How { flags: nr::O_RDONLY | nr::O_NOFOLLOW, mode: 0 };
    /// Make a new file of this user alone; fails if the name is taken.
    pub const CREATE_NEW: How =
        How { flags: nr::O_RDWR | nr::O_CREAT | nr::O_EXCL | nr::O_NOFOLLOW, mode: 0o600 };
    /// Follow one of the kernel's own links under `/proc/PID/fd`.
    pub const MAGIC_LINK: How = How { flags: nr::O_RDWR | nr::O_NONBLOCK | nr::O_NOCTTY, mode: 0 };
}

/// openat(2) from the current directory.
pub fn open(path: &CStr, how: How) -> Result<i32> {
    let flags = how.flags | nr::O_CLOEXEC;
    // SAFETY: `path` is NUL terminated.
    check(unsafe { syscall!(nr::__NR_openat, nr::AT_FDCWD, path.as_ptr(), flags, how.mode) })
        .map(|fd| fd as i32)
}

/// mkdir with mode 0700.
pub fn mkdir_private(path: &CStr) -> Result<()> {
    // SAFETY: `path` is NUL terminated.
    check(unsafe { syscall!(nr::__NR_mkdirat, nr::AT_FDCWD, path.as_ptr(), 0o700) }).map(drop)
}

/// Renames `from` to `to` unless `to` exists (EEXIST).
pub fn rename_noreplace(from: &CStr, to: &CStr) -> Result<()> {
    const RENAME_NOREPLACE: u32 = 1;
    let cwd = nr::AT_FDCWD;
    // SAFETY: both paths are NUL terminated.
    check(unsafe { syscall!(nr::__NR_renameat2, cwd, from.as_ptr(), cwd, to.as_ptr(), RENAME_NOREPLACE) })
        .map(drop)
}

/// unlink(2).
pub fn unlink(path: &CStr) {
    // SAFETY: `path` is NUL terminated.
    unsafe { syscall!(nr::__NR_unlinkat, nr::AT_FDCWD, path.as_ptr(), 0) };
}

/// Owner and permission bits of an open file.
pub fn owner_and_mode(fd: i32) -> Result<(u32, u32)> {
    // SAFETY: all-zero bytes are a valid `stat`.
    let mut stat: nr::stat = unsafe { core::mem::zeroed() };
    // SAFETY: `stat` is writable.
    check(unsafe { syscall!(nr::__NR_fstat, fd, &raw mut stat) })?;
    Ok((stat.st_uid, stat.st_mode & 0o7777))
}

/// Locks one byte for this open file description; EAGAIN if another holds it.
pub fn lock_byte(fd: i32, at: u64) -> Result<()> {
    set_lock(fd, Flock::byte(F_WRLCK, at))
}

/// Gives a byte lock up.
pub fn unlock_byte(fd: i32, at: u64) {
    let _ = set_lock(fd, Flock::byte(F_UNLCK, at));
}

fn set_lock(fd: i32, lock: Flock) -> Result<()> {
    // SAFETY: `lock` has the kernel's 64-bit layout and outlives the call.
    check(unsafe { syscall!(nr::__NR_fcntl, fd, F_OFD_SETLK, &raw const lock) }).map(drop)
}

/// Whether some other open file description holds the byte. An error counts as "held": nothing is taken from the living.
pub fn is_byte_locked(fd: i32, at: u64) -> bool {
    is_locked(fd, at, 1)
}

/// Whether another open file description holds a lock anywhere from `from` on. `true` if the kernel cannot say.
pub fn is_locked_from(fd: i32, from: u64) -> bool {
    is_locked(fd, from, 0)
}

fn is_locked(fd: i32, at: u64, len: u64) -> bool {
    // (A length of zero reaches to the end of all files.)
    let mut lock = Flock { len: len as i64, ..Flock::byte(F_WRLCK, at) };
    // SAFETY: `lock` has the kernel's 64-bit layout and is writable.
    let asked = check(unsafe { syscall!(nr::__NR_fcntl, fd, F_OFD_GETLK, &raw mut lock) });
    asked.is_err() || lock.kind != F_UNLCK
}
