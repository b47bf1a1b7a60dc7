//! Files by path and the open-file-description locks that tell the living from the dead. Owns: the byte-lock
//! protocol: a byte is locked for as long as any process that shares the locking description lives and has
//! not exec'ed (the descriptor is close-on-exec; fork shares it).

use crate::raw::{Errno, nr, syscall};
use crate::{Result, check};
use core::ffi::CStr;

const F_OFD_GETLK: u32 = 36;
const F_OFD_SETLK: u32 = 37;
const F_RDLCK: i16 = 0;
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
    /// Read and write an existing file, never through a symbolic link, and never waiting (a FIFO, a lease).
    pub const READ_WRITE: How =
        How { flags: nr::O_RDWR | nr::O_NOFOLLOW | nr::O_NONBLOCK | nr::O_NOCTTY, mode: 0 };
    /// Read an existing file, never through a symbolic link, and never waiting.
    pub const READ: How =
        How { flags: nr::O_RDONLY | nr::O_NOFOLLOW | nr::O_NONBLOCK | nr::O_NOCTTY, mode: 0 };
    /// Make a new file of this user alone; fails if the name is taken.
    pub const CREATE_NEW: How =
        How { flags: nr::O_RDWR | nr::O_CREAT | nr::O_EXCL | nr::O_NOFOLLOW, mode: 0o600 };
    /// Follow one of the kernel's own links under `/proc/PID/fd`.
    pub const MAGIC_LINK: How = How { flags: nr::O_RDWR | nr::O_NONBLOCK | nr::O_NOCTTY, mode: 0 };
    /// Only a name for whatever such a link leads to: nothing is opened, so no device, lease or FIFO notices.
    pub const LOOK: How = How { flags: nr::O_PATH, mode: 0 };
    /// The same for the name itself, symbolic link or not.
    pub const LOOK_AT_NAME: How = How { flags: nr::O_PATH | nr::O_NOFOLLOW, mode: 0 };
}

/// openat(2) from the current directory.
pub fn open(path: &CStr, how: How) -> Result<i32> {
    let flags = how.flags | nr::O_CLOEXEC;
    // SAFETY: `path` is NUL terminated.
    check(unsafe { syscall!(nr::__NR_openat, nr::AT_FDCWD, path.as_ptr(), flags, how.mode) })
        .map(|fd| fd as i32)
}

/// Reads the beginning of a file of the kernel's into `text`; what was read.
pub(crate) fn read_start<'a>(path: &CStr, text: &'a mut [u8]) -> Result<&'a [u8]> {
    let fd = open(path, How::READ)?;
    // SAFETY: `text` is writable for its length.
    let got = check(unsafe { syscall!(nr::__NR_read, fd, text.as_mut_ptr(), text.len()) });
    crate::fd::close(fd);
    Ok(text.get(..got?).unwrap_or_default())
}

/// Bytes that an unprivileged user may still write in a new file in the file system of `path`; [`u64::MAX`]
/// if it has no bound, 0 if it takes no more files.
pub fn room(path: &CStr) -> Result<u64> {
    // SAFETY: all-zero bytes are a valid `statfs`.
    let mut about: nr::statfs = unsafe { core::mem::zeroed() };
    // SAFETY: `path` is NUL terminated and `about` is writable.
    check(unsafe { syscall!(nr::__NR_statfs, path.as_ptr(), &raw mut about) })?;
    let bytes = (about.f_bavail as u64).saturating_mul(about.f_bsize as u64);
    let takes_no_file = about.f_files != 0 && about.f_ffree == 0;
    Ok(match about.f_blocks {
        _ if takes_no_file => 0,
        0 => u64::MAX,
        _ => bytes,
    })
}

/// Whether this user may make files in the folder `path`.
pub fn may_write(path: &CStr) -> bool {
    const W_OK: u32 = 2;
    // SAFETY: `path` is NUL terminated.
    check(unsafe { syscall!(nr::__NR_faccessat, nr::AT_FDCWD, path.as_ptr(), W_OK) }).is_ok()
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

/// Calls `each` with the names in a folder. Names beyond some ten thousand are passed over: another user may
/// make as many as he likes.
#[inline(never)]
pub fn names_in(folder: &CStr, each: &mut dyn FnMut(&[u8])) -> Result<()> {
    names_by(folder, &mut [0; 1024], each)
}

/// The same by a buffer of the caller's, which holds a few names at least.
#[inline(never)]
pub(crate) fn names_by(folder: &CStr, entries: &mut [u8], each: &mut dyn FnMut(&[u8])) -> Result<()> {
    const MOST_READS: usize = 400;
    let flags = nr::O_RDONLY | nr::O_DIRECTORY | nr::O_NONBLOCK;
    let fd = open(folder, How { flags, mode: 0 })?;
    for _ in 0..MOST_READS {
        // SAFETY: the buffer is writable for its length.
        let read = unsafe { syscall!(nr::__NR_getdents64, fd, entries.as_mut_ptr(), entries.len()) };
        let Ok(len @ 1..) = check(read) else { break };
        names_of(&entries[..len], each);
    }
    crate::fd::close(fd);
    Ok(())
}

/// How many descriptors this process has (the size of its /proc/self/fd, Linux 6.2); `None` where the kernel
/// does not say.
pub fn own_descriptors() -> Option<usize> {
    // SAFETY: all-zero bytes are a valid `stat`.
    let mut stat: nr::stat = unsafe { core::mem::zeroed() };
    let path = c"/proc/self/fd".as_ptr();
    // SAFETY: `path` is NUL terminated and `stat` is writable.
    check(unsafe { syscall!(nr::__NR_newfstatat, nr::AT_FDCWD, path, &raw mut stat, 0) }).ok()?;
    usize::try_from(stat.st_size).ok().filter(|count| *count > 0)
}

/// Calls `each` with the numbers of the descriptors that this process has.
pub fn each_own_descriptor(each: impl FnMut(i32)) -> Result<()> {
    each_descriptor_in(c"/proc/self/fd", each)
}

/// The same of another process. Errors: EACCES or ENOENT where /proc does not let us.
pub fn each_descriptor_of(pid: u32, each: impl FnMut(i32)) -> Result<()> {
    const PATH_LEN: usize = "/proc/4294967295/fd\0".len();
    let (mut digits, mut path) = ([0u8; 10], [0u8; PATH_LEN]);
    let parts: [&[u8]; 3] = [b"/proc/", crate::decimal::decimal(pid, &mut digits), b"/fd"];
    for (byte, from) in path.iter_mut().zip(parts.into_iter().flatten()) {
        *byte = *from;
    }
    each_descriptor_in(CStr::from_bytes_until_nul(&path).map_err(|_| Errno::EINVAL)?, each)
}

#[inline(never)]
fn each_descriptor_in(folder: &CStr, mut each: impl FnMut(i32)) -> Result<()> {
    names_in(folder, &mut |name| {
        if let Some(fd) = core::str::from_utf8(name).ok().and_then(|digits| digits.parse().ok()) {
            each(fd);
        }
    })
}

/// `struct linux_dirent64`: inode and offset of 8 bytes, length of the record of 2, type of 1, the name with
/// a NUL.
fn names_of(mut entries: &[u8], each: &mut dyn FnMut(&[u8])) {
    while let Some(entry) = entries.get(16..18).map(|len| u16::from_ne_bytes([len[0], len[1]]) as usize)
        && let Some((this, rest)) = entries.split_at_checked(entry.max(19))
    {
        if let Ok(name) = CStr::from_bytes_until_nul(&this[19..]) {
            each(name.to_bytes());
        }
        entries = rest;
    }
}

/// unlink(2).
pub fn unlink(path: &CStr) {
    // SAFETY: `path` is NUL terminated.
    unsafe { syscall!(nr::__NR_unlinkat, nr::AT_FDCWD, path.as_ptr(), 0) };
}

/// What an open (or only looked at) file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct About {
    /// Owner.
    pub uid: u32,
    /// Type and permission bits.
    pub mode: u32,
    /// Device and inode.
    pub identity: (u64, u64),
}

impl About {
    /// Whether it is an ordinary file.
    pub fn is_regular(self) -> bool {
        self.mode & 0o170_000 == 0o100_000
    }

    /// Whether it is a FIFO or a pipe.
    pub(crate) fn is_fifo(self) -> bool {
        self.mode & 0o170_000 == 0o010_000
    }

    /// Whether it is an ordinary file of `uid` that nobody else may open.
    pub fn is_private_file_of(self, uid: u32) -> bool {
        self.is_regular() && self.uid == uid && self.mode & 0o077 == 0
    }
}

/// fstat(2).
pub fn about(fd: i32) -> Result<About> {
    // SAFETY: all-zero bytes are a valid `stat`.
    let mut stat: nr::stat = unsafe { core::mem::zeroed() };
    // SAFETY: `stat` is writable.
    check(unsafe { syscall!(nr::__NR_fstat, fd, &raw mut stat) })?;
    Ok(About { uid: stat.st_uid, mode: stat.st_mode, identity: (stat.st_dev as u64, stat.st_ino as u64) })
}

/// What has this name, without opening it; a symbolic link is itself.
pub fn about_name(path: &CStr) -> Result<About> {
    look(path, How::LOOK_AT_NAME, about)
}

/// Runs `ask` on what `path` names, which is not opened for it.
pub(crate) fn look<T>(path: &CStr, how: How, ask: impl FnOnce(i32) -> Result<T>) -> Result<T> {
    let fd = open(path, how)?;
    let answer = ask(fd);
    crate::fd::close(fd);
    answer
}

/// The type of file system that an open (or only looked at) file is on, by its magic number.
pub(crate) fn file_system(fd: i32) -> Result<u64> {
    // SAFETY: all-zero bytes are a valid `statfs`.
    let mut about: nr::statfs64 = unsafe { core::mem::zeroed() };
    // SAFETY: `about` is writable; both architectures are 64 bits wide, where the two forms are one.
    check(unsafe { syscall!(nr::__NR_fstatfs, fd, &raw mut about) })?;
    Ok(about.f_type as u64)
}

/// Takes one byte for this open file description, which may be for reading only; EAGAIN if another holds it.
///
/// The lock is a shared one, since an exclusive one needs a description that can write. So whoever sets it
/// looks whether somebody else has, and then gives way; of two that come at once both may.
pub fn lock_byte(fd: i32, at: u64) -> Result<()> {
    if is_byte_locked(fd, at) {
        return Err(Errno::EAGAIN);
    }
    set_lock(fd, Flock::byte(F_RDLCK, at))?;
    if is_byte_locked(fd, at) {
        unlock_byte(fd, at);
        return Err(Errno::EAGAIN);
    }
    Ok(())
}

/// Takes a byte lock that others may have as well, through their own descriptions.
pub fn share_byte(fd: i32, at: u64) -> Result<()> {
    set_lock(fd, Flock::byte(F_RDLCK, at))
}

/// Gives a byte lock up.
pub fn unlock_byte(fd: i32, at: u64) {
    let _ = set_lock(fd, Flock::byte(F_UNLCK, at));
}

fn set_lock(fd: i32, lock: Flock) -> Result<()> {
    // SAFETY: `lock` has the kernel's 64-bit layout and outlives the call.
    check(unsafe { syscall!(nr::__NR_fcntl, fd, F_OFD_SETLK, &raw const lock) }).map(drop)
}

/// Whether some other open file description holds the byte. An error counts as "held": nothing is taken from
/// the living.
pub fn is_byte_locked(fd: i32, at: u64) -> bool {
    is_locked(fd, at, 1)
}

/// Whether another open file description holds a lock anywhere from `from` on. `true` if the kernel cannot
/// say.
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
