//! System calls as values. Owns: what a simulated kernel is asked, in safe types.

use crate::net::Endpoint;
use crate::raw_poll::PollFd;
use core::ffi::CStr;
use sync::AtomicU32;

/// What fstat(2) says.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileAbout {
    /// Device.
    pub device: u64,
    /// Inode.
    pub inode: u64,
    /// Type and permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Bytes.
    pub len: u64,
}

/// A lock of bytes of an open file description (F_OFD_SETLK, F_OFD_GETLK).
#[derive(Clone, Copy, Debug)]
pub struct Lock {
    /// F_RDLCK 0, F_WRLCK 1, F_UNLCK 2.
    pub kind: i16,
    /// First byte.
    pub start: u64,
    /// So many; 0 for all that follow.
    pub len: u64,
}

/// A system call of this room, or of a program above it. Times are nanoseconds, `None` for ever.
#[allow(missing_docs, reason = "each is a system call's, documented in section 2 of the manual")]
pub enum Call<'a> {
    Close(i32),
    CloseRange {
        first: u32,
        last: u32,
        flags: u32,
    },
    Fcntl {
        fd: i32,
        command: u32,
        argument: usize,
    },
    LockBytes {
        fd: i32,
        lock: Lock,
    },
    AskLock {
        fd: i32,
        lock: &'a mut Lock,
    },
    Stat {
        fd: i32,
        into: &'a mut FileAbout,
    },
    /// The magic number of the file system.
    FileSystem(i32),
    Open {
        path: &'a CStr,
        flags: u32,
        mode: u32,
    },
    Unlink(&'a CStr),
    /// Unless `to` exists.
    Rename {
        from: &'a CStr,
        to: &'a CStr,
    },
    MayWrite(&'a CStr),
    Names {
        fd: i32,
        into: &'a mut [u8],
    },
    Read {
        fd: i32,
        into: &'a mut [u8],
    },
    Write {
        fd: i32,
        from: &'a [u8],
    },
    Receive {
        fd: i32,
        into: &'a mut [u8],
        flags: i32,
    },
    Send {
        fd: i32,
        from: &'a [u8],
        flags: i32,
    },
    Poll {
        fds: &'a mut [PollFd],
        timeout_ns: Option<u64>,
    },
    EpollControl {
        set: i32,
        operation: u32,
        fd: i32,
        events: u32,
        data: u64,
    },
    GetOption {
        fd: i32,
        level: i32,
        name: i32,
        into: &'a mut [u8],
    },
    SetOption {
        fd: i32,
        level: i32,
        name: i32,
        value: &'a [u8],
    },
    Name {
        fd: i32,
        is_peer: bool,
        into: &'a mut Endpoint,
    },
    /// connect(2) to AF_UNSPEC.
    Dissolve(i32),
    /// FIONREAD.
    Readable(i32),
    FutexWait {
        word: &'a AtomicU32,
        seen: u32,
        timeout_ns: Option<u64>,
    },
    FutexWake(usize),
    Socket {
        domain: u32,
        kind: u32,
        protocol: u32,
    },
    Pipe(&'a mut [i32; 2]),
    Memfd,
    Resize {
        fd: i32,
        len: u64,
    },
    /// The machine's own descriptor of the memory behind a file.
    Backing(i32),
    /// A range was mapped: shared with a file, or private.
    Mapped {
        at: usize,
        len: usize,
        fd: Option<i32>,
    },
    /// What lies at `from` was mapped once more, and what follows it in the file.
    MappedAgain {
        from: usize,
        at: usize,
        len: usize,
    },
    /// What was mapped there is no more.
    Unmapped {
        at: usize,
        len: usize,
    },
    /// A child finds the range zeroed.
    WipedOnFork {
        at: usize,
        len: usize,
    },
    ProcessId,
    ThreadId,
    User,
    /// Whether there is such a process (kill with signal 0).
    Exists(u32),
    RaiseOnSelf(u32),
    Yield,
    Random(&'a mut [u8]),
    DescriptorLimit {
        new: Option<[u64; 2]>,
        old: &'a mut [u64; 2],
    },
    /// CLOCK_MONOTONIC.
    Now,
    ExitGroup(i32),
}
