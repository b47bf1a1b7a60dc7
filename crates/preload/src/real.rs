//! libc's own functions: resolved once by the constructor, by raw system call before that.
//! Owns: the pointers. Nothing is resolved inside a hook, but for a fork, an exec or a cancellation before
//! the constructor.

use core::ffi::{CStr, c_char, c_int, c_void};
use os::poll::PollFd;
use sync::{AtomicPtr, Ordering};

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// `RTLD_NEXT`: the next definition after ours.
const NEXT: *mut c_void = -1isize as *mut c_void;

/// The next definition of `name` after this library's, or null.
pub(crate) fn next(name: &CStr) -> *mut c_void {
    // SAFETY: dlsym with a NUL-terminated name; called from the constructor, or for a fork or exec that comes
    // before it.
    unsafe { dlsym(NEXT, name.as_ptr()) }
}

/// The definition of `name` that the program itself uses, or null: for data, which the program may hold a
/// copy of.
pub(crate) fn global(name: &CStr) -> *mut c_void {
    // SAFETY: as in `next`; a null handle is `RTLD_DEFAULT`.
    unsafe { dlsym(core::ptr::null_mut(), name.as_ptr()) }
}

/// The clock in the object that the kernel maps into the process; `None` where the dynamic linker does not
/// show it.
pub(crate) fn kernel_clock() -> Option<os::time::KernelClock> {
    const LAZY_AND_ONLY_IF_LOADED: c_int = 1 | 4;
    #[cfg(target_arch = "x86_64")]
    const NAME: &CStr = c"__vdso_clock_gettime";
    #[cfg(target_arch = "aarch64")]
    const NAME: &CStr = c"__kernel_clock_gettime";
    let dlopen = next(c"dlopen");
    if dlopen.is_null() {
        return None;
    }
    // SAFETY: dlsym returned dlopen, which has this type.
    let dlopen = unsafe {
        core::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void>(dlopen)
    };
    // SAFETY: a NUL-terminated name; what is loaded already runs no constructor. The handle is kept: the
    // object stays.
    let object = unsafe { dlopen(c"linux-vdso.so.1".as_ptr(), LAZY_AND_ONLY_IF_LOADED) };
    if object.is_null() {
        return None;
    }
    // SAFETY: the handle of a loaded object and a NUL-terminated name.
    let clock = unsafe { dlsym(object, NAME.as_ptr()) };
    // SAFETY: the object's function of this name has this type (vdso(7)).
    (!clock.is_null()).then(|| unsafe { core::mem::transmute::<*mut c_void, os::time::KernelClock>(clock) })
}

/// What creat(2) asks of open(2): O_WRONLY, O_CREAT and O_TRUNC.
const CREATE: c_int = 0o1 | 0o100 | 0o1000;

macro_rules! reals {
    ($( fn $name:ident($($arg:ident : $ty:ty),*) -> $ret:ty = $nr:ident($($raw:expr),*); )*) => {
        mod pointers {
            use super::{AtomicPtr, c_void};
            $( #[allow(non_upper_case_globals)]
               pub(super) static $name: AtomicPtr<c_void> =
                   AtomicPtr::new(super::raw::$name as *const c_void as *mut c_void); )*
        }

        /// What is called until libc's function is known, and where there is none.
        #[allow(unused_variables, reason = "not every argument has a place in the system call")]
        mod raw {
            use super::*;
            $(
                pub(super) unsafe extern "C-unwind" fn $name($($arg: $ty),*) -> $ret {
                    // SAFETY: the program's arguments for the very call it made.
                    let ret = unsafe { os::raw::call(os::raw::nr::$nr, &[$($raw as usize),*]) };
                    $crate::errno::from_raw(ret) as $ret
                }
            )*
        }

        /// Looks all of them up.
        pub(crate) fn resolve() {
            $( {
                const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!("a name without NUL"),
                };
                let found = next(NAME);
                if !found.is_null() {
                    pointers::$name.store(found, Ordering::Release);
                }
            } )*
        }

        /// libc's function, or the raw system call while (or where) there is none.
        pub(crate) mod forward {
            use super::*;
            $(
                #[inline]
                pub(crate) unsafe fn $name($($arg: $ty),*) -> $ret {
                    let real = pointers::$name.load(Ordering::Acquire);
                    // SAFETY: it is ours of this type, or dlsym returned the function of this name, whose C
                    // type this is.
                    let real = unsafe {
                        core::mem::transmute::<*mut c_void, unsafe extern "C-unwind" fn($($ty),*) -> $ret>(real)
                    };
                    // SAFETY: the program's own arguments.
                    unsafe { real($($arg),*) }
                }
            )*
        }
    };
}

/// libc's poll, for the data path's own waits: this symbol, not ours.
pub(crate) fn forward_poll() -> os::poll::LibcPoll {
    unsafe extern "C-unwind" fn poll(fds: *mut PollFd, count: u64, timeout: c_int) -> c_int {
        // SAFETY: forwarded contract.
        unsafe { forward::poll(fds, count, timeout) }
    }
    poll
}

/// The same of libc's ppoll.
pub(crate) fn forward_ppoll() -> os::poll::LibcPpoll {
    unsafe extern "C-unwind" fn ppoll(fds: *mut PollFd, count: u64, time: Time, mask: Mask) -> c_int {
        // SAFETY: forwarded contract.
        unsafe { forward::ppoll(fds, count, time, mask) }
    }
    ppoll
}

/// The same of libc's pselect.
pub(crate) fn forward_pselect() -> os::select::LibcPselect {
    unsafe extern "C-unwind" fn pselect(
        count: c_int,
        read: Buf,
        write: Buf,
        except: Buf,
        time: Time,
        mask: Mask,
    ) -> c_int {
        // SAFETY: forwarded contract.
        unsafe { forward::pselect(count, read, write, except, time, mask) }
    }
    pselect
}

/// poll's milliseconds as a timespec.
fn limit(timeout: c_int) -> Option<[i64; 2]> {
    (timeout >= 0).then(|| [i64::from(timeout) / 1000, i64::from(timeout) % 1000 * 1_000_000])
}

pub(crate) type Buf = *mut c_void;
pub(crate) type Events = *mut os::epoll::Event;
pub(crate) type Time = *const [i64; 2];
pub(crate) type Mask = *const c_void;

reals! {
    fn read(fd: c_int, buf: Buf, len: usize) -> isize = __NR_read(fd, buf, len);
    fn write(fd: c_int, buf: Buf, len: usize) -> isize = __NR_write(fd, buf, len);
    fn readv(fd: c_int, iov: Buf, count: c_int) -> isize = __NR_readv(fd, iov, count);
    fn writev(fd: c_int, iov: Buf, count: c_int) -> isize = __NR_writev(fd, iov, count);
    fn preadv2(fd: c_int, iov: Buf, count: c_int, offset: i64, flags: c_int) -> isize
        = __NR_preadv2(fd, iov, count, offset, 0, flags);
    fn pwritev2(fd: c_int, iov: Buf, count: c_int, offset: i64, flags: c_int) -> isize
        = __NR_pwritev2(fd, iov, count, offset, 0, flags);
    fn recv(fd: c_int, buf: Buf, len: usize, flags: c_int) -> isize = __NR_recvfrom(fd, buf, len, flags, 0, 0);
    fn recvfrom(fd: c_int, buf: Buf, len: usize, flags: c_int, addr: Buf, addr_len: *mut u32) -> isize
        = __NR_recvfrom(fd, buf, len, flags, addr, addr_len);
    fn recvmsg(fd: c_int, msg: Buf, flags: c_int) -> isize = __NR_recvmsg(fd, msg, flags);
    fn recvmmsg(fd: c_int, msgs: Buf, count: u32, flags: c_int, time: Buf) -> c_int
        = __NR_recvmmsg(fd, msgs, count, flags, time);
    fn send(fd: c_int, buf: Buf, len: usize, flags: c_int) -> isize = __NR_sendto(fd, buf, len, flags, 0, 0);
    fn sendto(fd: c_int, buf: Buf, len: usize, flags: c_int, addr: Buf, addr_len: u32) -> isize
        = __NR_sendto(fd, buf, len, flags, addr, addr_len);
    fn sendmsg(fd: c_int, msg: Buf, flags: c_int) -> isize = __NR_sendmsg(fd, msg, flags);
    fn sendmmsg(fd: c_int, msgs: Buf, count: u32, flags: c_int) -> c_int = __NR_sendmmsg(fd, msgs, count, flags);
    fn sendfile(out: c_int, from: c_int, offset: *mut i64, count: usize) -> isize
        = __NR_sendfile(out, from, offset, count);
    fn splice(from: c_int, from_at: *mut i64, to: c_int, to_at: *mut i64, len: usize, flags: u32) -> isize
        = __NR_splice(from, from_at, to, to_at, len, flags);
    fn __read_chk(fd: c_int, buf: Buf, len: usize, room: usize) -> isize = __NR_read(fd, buf, len.min(room));
    fn __recv_chk(fd: c_int, buf: Buf, len: usize, room: usize, flags: c_int) -> isize
        = __NR_recvfrom(fd, buf, len.min(room), flags, 0, 0);
    fn __recvfrom_chk(fd: c_int, buf: Buf, len: usize, room: usize, flags: c_int, addr: Buf, addr_len: *mut u32)
        -> isize = __NR_recvfrom(fd, buf, len.min(room), flags, addr, addr_len);
    fn poll(fds: *mut PollFd, count: u64, timeout: c_int) -> c_int
        = __NR_ppoll(fds, count, limit(timeout).as_ref().map_or(0, |time| time.as_ptr().addr()), 0, 8);
    fn ppoll(fds: *mut PollFd, count: u64, timeout: Time, mask: Mask) -> c_int
        = __NR_ppoll(fds, count, timeout, mask, 8);
    fn __poll_chk(fds: *mut PollFd, count: u64, timeout: c_int, room: usize) -> c_int
        = __NR_ppoll(fds, count.min(room as u64 / 8), 0, 0, 8);
    fn __ppoll_chk(fds: *mut PollFd, count: u64, timeout: Time, mask: Mask, room: usize) -> c_int
        = __NR_ppoll(fds, count.min(room as u64 / 8), timeout, mask, 8);
    fn select(count: c_int, read: Buf, write: Buf, except: Buf, timeout: *mut [i64; 2]) -> c_int
        = __NR_pselect6(count, read, write, except, timeout, 0);
    fn pselect(count: c_int, read: Buf, write: Buf, except: Buf, timeout: Time, mask: Mask) -> c_int
        = __NR_pselect6(count, read, write, except, timeout, 0);
    fn epoll_create(size: c_int) -> c_int = __NR_epoll_create1(if size > 0 { 0 } else { -1 });
    fn epoll_create1(flags: c_int) -> c_int = __NR_epoll_create1(flags);
    fn epoll_ctl(epfd: c_int, op: c_int, fd: c_int, event: Events) -> c_int = __NR_epoll_ctl(epfd, op, fd, event);
    fn epoll_wait(epfd: c_int, events: Events, max: c_int, timeout: c_int) -> c_int
        = __NR_epoll_pwait(epfd, events, max, timeout, 0, 8);
    fn epoll_pwait(epfd: c_int, events: Events, max: c_int, timeout: c_int, mask: Mask) -> c_int
        = __NR_epoll_pwait(epfd, events, max, timeout, mask, 8);
    fn epoll_pwait2(epfd: c_int, events: Events, max: c_int, timeout: Time, mask: Mask) -> c_int
        = __NR_epoll_pwait2(epfd, events, max, timeout, mask, 8);
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int = __NR_socket(domain, kind, protocol);
    fn socketpair(domain: c_int, kind: c_int, protocol: c_int, ends: Buf) -> c_int
        = __NR_socketpair(domain, kind, protocol, ends);
    fn open(path: Buf, flags: c_int, mode: u32) -> c_int = __NR_openat(os::raw::nr::AT_FDCWD, path, flags, mode);
    fn open64(path: Buf, flags: c_int, mode: u32) -> c_int
        = __NR_openat(os::raw::nr::AT_FDCWD, path, flags, mode);
    fn openat(folder: c_int, path: Buf, flags: c_int, mode: u32) -> c_int = __NR_openat(folder, path, flags, mode);
    fn openat64(folder: c_int, path: Buf, flags: c_int, mode: u32) -> c_int
        = __NR_openat(folder, path, flags, mode);
    fn creat(path: Buf, mode: u32) -> c_int
        = __NR_openat(os::raw::nr::AT_FDCWD, path, CREATE, mode);
    fn __open_2(path: Buf, flags: c_int) -> c_int = __NR_openat(os::raw::nr::AT_FDCWD, path, flags, 0);
    fn __open64_2(path: Buf, flags: c_int) -> c_int = __NR_openat(os::raw::nr::AT_FDCWD, path, flags, 0);
    fn __openat_2(folder: c_int, path: Buf, flags: c_int) -> c_int = __NR_openat(folder, path, flags, 0);
    fn __openat64_2(folder: c_int, path: Buf, flags: c_int) -> c_int = __NR_openat(folder, path, flags, 0);
    fn inotify_init() -> c_int = __NR_inotify_init1(0);
    fn pidfd_open(pid: c_int, flags: u32) -> c_int = __NR_pidfd_open(pid, flags);
    fn posix_openpt(flags: c_int) -> c_int
        = __NR_openat(os::raw::nr::AT_FDCWD, c"/dev/ptmx".as_ptr(), flags, 0);
    fn pipe(ends: Buf) -> c_int = __NR_pipe2(ends, 0);
    fn pipe2(ends: Buf, flags: c_int) -> c_int = __NR_pipe2(ends, flags);
    fn eventfd(value: u32, flags: c_int) -> c_int = __NR_eventfd2(value, flags);
    fn timerfd_create(clock: c_int, flags: c_int) -> c_int = __NR_timerfd_create(clock, flags);
    fn signalfd(fd: c_int, mask: Buf, flags: c_int) -> c_int = __NR_signalfd4(fd, mask, 8, flags);
    fn inotify_init1(flags: c_int) -> c_int = __NR_inotify_init1(flags);
    fn memfd_create(name: Buf, flags: u32) -> c_int = __NR_memfd_create(name, flags);
    fn accept(fd: c_int, addr: Buf, addr_len: *mut u32) -> c_int = __NR_accept4(fd, addr, addr_len, 0);
    fn accept4(fd: c_int, addr: Buf, addr_len: *mut u32, flags: c_int) -> c_int
        = __NR_accept4(fd, addr, addr_len, flags);
    fn connect(fd: c_int, addr: Buf, addr_len: u32) -> c_int = __NR_connect(fd, addr, addr_len);
    fn listen(fd: c_int, backlog: c_int) -> c_int = __NR_listen(fd, backlog);
    fn shutdown(fd: c_int, how: c_int) -> c_int = __NR_shutdown(fd, how);
    fn close(fd: c_int) -> c_int = __NR_close(fd);
    fn close_range(first: u32, last: u32, flags: c_int) -> c_int = __NR_close_range(first, last, flags);
    fn dup(fd: c_int) -> c_int = __NR_dup(fd);
    fn dup2(old: c_int, new: c_int) -> c_int = __NR_dup3(old, new, 0);
    fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int = __NR_dup3(old, new, flags);
    fn fcntl(fd: c_int, cmd: c_int, arg: usize) -> c_int = __NR_fcntl(fd, cmd, arg);
    fn fcntl64(fd: c_int, cmd: c_int, arg: usize) -> c_int = __NR_fcntl(fd, cmd, arg);
    fn ioctl(fd: c_int, request: u64, arg: usize) -> c_int = __NR_ioctl(fd, request, arg);
    fn execve(path: Buf, argv: Buf, envp: Buf) -> c_int = __NR_execve(path, argv, envp);
    fn execv(path: Buf, argv: Buf) -> c_int = __NR_execve(path, argv, 0);
    fn execvp(file: Buf, argv: Buf) -> c_int = __NR_execve(file, argv, 0);
    fn execvpe(file: Buf, argv: Buf, envp: Buf) -> c_int = __NR_execve(file, argv, envp);
    fn fexecve(fd: c_int, argv: Buf, envp: Buf) -> c_int = __NR_execveat(fd, c"".as_ptr(), argv, envp, 0x1000);
    fn execveat(folder: c_int, path: Buf, argv: Buf, envp: Buf, flags: c_int) -> c_int
        = __NR_execveat(folder, path, argv, envp, flags);
    fn prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int = __NR_prctl(option, a, b, c, d);
    fn unshare(flags: c_int) -> c_int = __NR_unshare(flags);
    fn setrlimit(resource: c_int, limit: Buf) -> c_int = __NR_setrlimit(resource, limit);
    fn setrlimit64(resource: c_int, limit: Buf) -> c_int = __NR_setrlimit(resource, limit);
    fn prlimit(pid: c_int, resource: c_int, new: Buf, old: Buf) -> c_int
        = __NR_prlimit64(pid, resource, new, old);
    fn prlimit64(pid: c_int, resource: c_int, new: Buf, old: Buf) -> c_int
        = __NR_prlimit64(pid, resource, new, old);
    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: Buf, len: u32) -> c_int
        = __NR_setsockopt(fd, level, name, value, len);
    fn setuid(uid: u32) -> c_int = __NR_setuid(uid);
    fn seteuid(uid: u32) -> c_int = __NR_setresuid(u32::MAX, uid, u32::MAX);
    fn setreuid(real: u32, effective: u32) -> c_int = __NR_setreuid(real, effective);
    fn setresuid(real: u32, effective: u32, saved: u32) -> c_int = __NR_setresuid(real, effective, saved);
    fn setgid(gid: u32) -> c_int = __NR_setgid(gid);
    fn setegid(gid: u32) -> c_int = __NR_setresgid(u32::MAX, gid, u32::MAX);
    fn setregid(real: u32, effective: u32) -> c_int = __NR_setregid(real, effective);
    fn setresgid(real: u32, effective: u32, saved: u32) -> c_int = __NR_setresgid(real, effective, saved);
    fn setgroups(count: usize, list: Buf) -> c_int = __NR_setgroups(count, list);
    fn capset(header: Buf, sets: Buf) -> c_int = __NR_capset(header, sets);
    fn getsockopt(fd: c_int, level: c_int, name: c_int, value: Buf, len: *mut u32) -> c_int
        = __NR_getsockopt(fd, level, name, value, len);
}
