//! From the words of a system call to a value of `Call`. Owns: the argument that a simulated kernel reads and
//! writes what the machine's would, and no more: who makes a raw call has vouched for that.

use super::{Call, FileAbout, Kernel, Lock};
use crate::net::{AF_INET, AF_INET6, Endpoint};
use crate::raw::{Errno, nr, real6};
use crate::raw_poll::PollFd;
use core::ffi::{CStr, c_char};
use core::slice::{from_raw_parts, from_raw_parts_mut};
use sync::AtomicU32;

const F_OFD_GETLK: u32 = 36;
const F_OFD_SETLK: u32 = 37;
const MADV_WIPEONFORK: usize = 18;

/// `struct flock` as `file` lays it out.
#[repr(C)]
struct Flock {
    kind: i16,
    whence: i16,
    start: i64,
    len: i64,
    pid: i32,
}

fn answer(result: crate::Result<usize>) -> isize {
    result.map_or_else(|Errno(number)| -(number as isize), |value| value as isize)
}

/// The call with `number` and `args`, carried out by `kernel`.
///
/// # Safety
/// As for the machine's own call with these words.
pub(crate) unsafe fn dispatch(kernel: &dyn Kernel, number: u32, args: [usize; 6]) -> isize {
    // SAFETY: forwarded promise of the caller, here and below.
    answer(unsafe { memory(kernel, number, args) }.unwrap_or_else(|| {
        // SAFETY: as above.
        unsafe { files(kernel, number, args) }.unwrap_or_else(|| {
            // SAFETY: as above.
            unsafe { sockets(kernel, number, args) }.unwrap_or_else(|| {
                // SAFETY: as above.
                unsafe { processes(kernel, number, args) }
            })
        })
    }))
}

/// A C string among the arguments.
///
/// # Safety
/// It is one.
unsafe fn text<'a>(at: usize) -> &'a CStr {
    // SAFETY: by the caller's word.
    unsafe { CStr::from_ptr(at as *const c_char) }
}

/// A place to write to.
///
/// # Safety
/// It is valid for a `T`, and nobody else's meanwhile.
unsafe fn place<'a, T>(at: usize) -> &'a mut T {
    // SAFETY: by the caller's word.
    unsafe { &mut *(at as *mut T) }
}

/// # Safety
/// `len` bytes are writable there, or `len` is 0.
unsafe fn room<'a, T>(at: usize, len: usize) -> &'a mut [T] {
    if len == 0 {
        return &mut [];
    }
    // SAFETY: by the caller's word.
    unsafe { from_raw_parts_mut(at as *mut T, len) }
}

/// # Safety
/// `len` bytes are readable there, or `len` is 0.
unsafe fn bytes<'a>(at: usize, len: usize) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: by the caller's word.
    unsafe { from_raw_parts(at as *const u8, len) }
}

/// # Safety
/// `at` is null or a timespec.
unsafe fn time(at: usize) -> Option<u64> {
    // SAFETY: by the caller's word.
    let limit = unsafe { (at as *const nr::__kernel_timespec).as_ref() }?;
    Some((limit.tv_sec as u64).saturating_mul(1_000_000_000) + limit.tv_nsec as u64)
}

/// Mappings are the machine's, of the memory that the kernel names.
///
/// # Safety
/// As for the machine's own call.
unsafe fn memory(kernel: &dyn Kernel, number: u32, args: [usize; 6]) -> Option<crate::Result<usize>> {
    let [at, len, ..] = args;
    let result = match number {
        nr::__NR_mmap => {
            let is_private = args[3] as u32 & nr::MAP_ANONYMOUS != 0;
            let fd = (!is_private).then_some(args[4] as i32);
            let backing = match fd.map(|fd| kernel.call(Call::Backing(fd))) {
                Some(Err(errno)) => return Some(Err(errno)),
                Some(Ok(backing)) => backing,
                None => usize::MAX,
            };
            // SAFETY: by the caller's word.
            let mapped =
                crate::check(unsafe { real6(number, [at, len, args[2], args[3], backing, args[5]]) });
            mapped.inspect(|at| {
                let _ = kernel.call(Call::Mapped { at: *at, len, fd });
            })
        }
        nr::__NR_mremap if len == 0 => {
            // SAFETY: by the caller's word.
            let mapped = crate::check(unsafe { real6(number, args) });
            mapped.inspect(|new| {
                let _ = kernel.call(Call::MappedAgain { from: at, at: *new, len: args[2] });
            })
        }
        nr::__NR_munmap => {
            let _ = kernel.call(Call::Unmapped { at, len });
            // SAFETY: by the caller's word.
            crate::check(unsafe { real6(number, args) })
        }
        nr::__NR_madvise if args[2] == MADV_WIPEONFORK => kernel.call(Call::WipedOnFork { at, len }),
        nr::__NR_madvise | nr::__NR_fallocate => Ok(0),
        nr::__NR_memfd_create => kernel.call(Call::Memfd),
        nr::__NR_ftruncate => kernel.call(Call::Resize { fd: at as i32, len: len as u64 }),
        nr::__NR_futex => {
            // SAFETY: the word is one, or the call would be refused: `futex` borrows it.
            let word = unsafe { &*(at as *const AtomicU32) };
            match args[1] as u32 {
                nr::FUTEX_WAIT => {
                    // SAFETY: by the caller's word.
                    let timeout_ns = unsafe { time(args[3]) };
                    kernel.call(Call::FutexWait { word, seen: args[2] as u32, timeout_ns })
                }
                nr::FUTEX_WAKE => kernel.call(Call::FutexWake(at)),
                _ => Err(Errno::ENOSYS),
            }
        }
        _ => return None,
    };
    Some(result)
}

/// # Safety
/// As for the machine's own call.
unsafe fn files(kernel: &dyn Kernel, number: u32, args: [usize; 6]) -> Option<crate::Result<usize>> {
    let fd = args[0] as i32;
    // SAFETY: every pointer below is what the manual says of its call, by the caller's word.
    let result = unsafe {
        match number {
            nr::__NR_close => kernel.call(Call::Close(fd)),
            nr::__NR_close_range => kernel.call(Call::CloseRange {
                first: args[0] as u32,
                last: args[1] as u32,
                flags: args[2] as u32,
            }),
            nr::__NR_fcntl => match args[1] as u32 {
                F_OFD_SETLK => kernel.call(Call::LockBytes { fd, lock: lock(place(args[2])) }),
                F_OFD_GETLK => {
                    let told = place::<Flock>(args[2]);
                    let mut asked = lock(told);
                    let result = kernel.call(Call::AskLock { fd, lock: &mut asked });
                    told.kind = asked.kind;
                    result
                }
                command => kernel.call(Call::Fcntl { fd, command, argument: args[2] }),
            },
            nr::__NR_fstat => {
                let mut about = FileAbout::default();
                let result = kernel.call(Call::Stat { fd, into: &mut about });
                fill(place(args[1]), about);
                result
            }
            nr::__NR_fstatfs => kernel.call(Call::FileSystem(fd)).map(|magic| {
                place::<nr::statfs64>(args[1]).f_type = magic as _;
                0
            }),
            // Room without bounds.
            nr::__NR_statfs => Ok(0),
            nr::__NR_openat => {
                kernel.call(Call::Open { path: text(args[1]), flags: args[2] as u32, mode: args[3] as u32 })
            }
            nr::__NR_faccessat => kernel.call(Call::MayWrite(text(args[1]))),
            nr::__NR_renameat2 => kernel.call(Call::Rename { from: text(args[1]), to: text(args[3]) }),
            nr::__NR_unlinkat => kernel.call(Call::Unlink(text(args[1]))),
            nr::__NR_getdents64 => kernel.call(Call::Names { fd, into: room(args[1], args[2]) }),
            nr::__NR_read => kernel.call(Call::Read { fd, into: room(args[1], args[2]) }),
            nr::__NR_write => kernel.call(Call::Write { fd, from: bytes(args[1], args[2]) }),
            nr::__NR_pipe2 => kernel.call(Call::Pipe(place(args[0]))),
            _ => return None,
        }
    };
    Some(result)
}

fn lock(flock: &mut Flock) -> Lock {
    Lock { kind: flock.kind, start: flock.start as u64, len: flock.len as u64 }
}

fn fill(stat: &mut nr::stat, about: FileAbout) {
    stat.st_dev = about.device as _;
    stat.st_ino = about.inode as _;
    stat.st_mode = about.mode;
    stat.st_uid = about.uid;
    stat.st_size = about.len as _;
}

/// # Safety
/// As for the machine's own call.
unsafe fn sockets(kernel: &dyn Kernel, number: u32, args: [usize; 6]) -> Option<crate::Result<usize>> {
    let fd = args[0] as i32;
    let (level, name) = (args[1] as i32, args[2] as i32);
    // SAFETY: every pointer below is what the manual says of its call, by the caller's word.
    let result = unsafe {
        match number {
            nr::__NR_socket => kernel.call(Call::Socket {
                domain: args[0] as u32,
                kind: args[1] as u32,
                protocol: args[2] as u32,
            }),
            nr::__NR_connect => kernel.call(Call::Dissolve(fd)),
            nr::__NR_sendto => {
                kernel.call(Call::Send { fd, from: bytes(args[1], args[2]), flags: args[3] as i32 })
            }
            nr::__NR_recvfrom => {
                kernel.call(Call::Receive { fd, into: room(args[1], args[2]), flags: args[3] as i32 })
            }
            nr::__NR_getsockopt => {
                let len = place::<u32>(args[4]);
                kernel.call(Call::GetOption { fd, level, name, into: room(args[3], *len as usize) }).map(
                    |got| {
                        *len = got as u32;
                        0
                    },
                )
            }
            nr::__NR_setsockopt => {
                kernel.call(Call::SetOption { fd, level, name, value: bytes(args[3], args[4]) })
            }
            nr::__NR_getsockname | nr::__NR_getpeername => {
                let mut at = Endpoint::default();
                let is_peer = number == nr::__NR_getpeername;
                kernel.call(Call::Name { fd, is_peer, into: &mut at }).map(|_| {
                    let (raw, len) = sockaddr(at);
                    room::<u8>(args[1], len).copy_from_slice(&raw[..len]);
                    *place::<u32>(args[2]) = len as u32;
                    0
                })
            }
            // (SIOCATMARK: no byte is urgent.)
            nr::__NR_ioctl if args[1] == 0x8905 => Ok(0),
            nr::__NR_ioctl => kernel.call(Call::Readable(fd)).map(|count| {
                *place::<i32>(args[2]) = count as i32;
                0
            }),
            nr::__NR_ppoll => {
                let fds: &mut [PollFd] = room(args[0], args[1]);
                kernel.call(Call::Poll { fds, timeout_ns: time(args[2]) })
            }
            nr::__NR_epoll_ctl => {
                let event = (args[3] as *const crate::epoll::Event).read_unaligned();
                kernel.call(Call::EpollControl {
                    set: fd,
                    operation: args[1] as u32,
                    fd: args[2] as i32,
                    events: event.events,
                    data: event.data,
                })
            }
            _ => return None,
        }
    };
    Some(result)
}

/// `struct sockaddr_in` or `sockaddr_in6`, and its length.
fn sockaddr(at: Endpoint) -> ([u8; 28], usize) {
    let mut raw = [0; 28];
    raw[..2].copy_from_slice(&at.family.to_ne_bytes());
    raw[2..4].copy_from_slice(&at.port.to_be_bytes());
    match at.family {
        AF_INET => raw[4..8].copy_from_slice(&at.addr[..4]),
        AF_INET6 => raw[8..24].copy_from_slice(&at.addr),
        _ => {}
    }
    (raw, if at.family == AF_INET { 16 } else { 28 })
}

/// # Safety
/// As for the machine's own call.
unsafe fn processes(kernel: &dyn Kernel, number: u32, args: [usize; 6]) -> crate::Result<usize> {
    // SAFETY: every pointer below is what the manual says of its call, by the caller's word.
    unsafe {
        match number {
            nr::__NR_getpid => kernel.call(Call::ProcessId),
            nr::__NR_gettid => kernel.call(Call::ThreadId),
            nr::__NR_getuid | nr::__NR_geteuid => kernel.call(Call::User),
            nr::__NR_getresuid | nr::__NR_getresgid => kernel.call(Call::User).map(|user| {
                args[..3].iter().for_each(|at| *place::<u32>(*at) = user as u32);
                0
            }),
            nr::__NR_kill => kernel.call(Call::Exists(args[0] as u32)),
            nr::__NR_tgkill | nr::__NR_rt_tgsigqueueinfo => kernel.call(Call::RaiseOnSelf(args[2] as u32)),
            nr::__NR_sched_yield => kernel.call(Call::Yield),
            nr::__NR_getrandom => kernel.call(Call::Random(room(args[0], args[1]))),
            nr::__NR_prlimit64 => {
                let new = (args[2] as *const [u64; 2]).as_ref().copied();
                let old = place::<[u64; 2]>(args[3]);
                match args[1] as u32 {
                    nr::RLIMIT_NOFILE => kernel.call(Call::DescriptorLimit { new, old }),
                    _ => {
                        *old = [u64::MAX; 2];
                        Ok(0)
                    }
                }
            }
            nr::__NR_clock_gettime => kernel.call(Call::Now).map(|now| {
                let into = place::<nr::__kernel_timespec>(args[1]);
                (into.tv_sec, into.tv_nsec) = ((now / 1_000_000_000) as i64, (now % 1_000_000_000) as i64);
                0
            }),
            nr::__NR_exit_group => kernel.call(Call::ExitGroup(args[0] as i32)),
            // Dispositions are the default ones, the name is empty, one core may be used.
            nr::__NR_rt_sigaction | nr::__NR_prctl | nr::__NR_capget => Ok(0),
            _ => Err(Errno::ENOSYS),
        }
    }
}
