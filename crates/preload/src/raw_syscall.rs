//! `syscall(2)`, the function: libuv closes descriptors with it, and asks for io_uring. Owns: the list of
//! numbers that reach our hooks; every other number passes as it is (a default of "deny" breaks programs
//! every year).

use crate::{
    cancel, credentials, data, epoll, hook, lifecycle, message, options, poll, process, sandbox, transfer,
};
use core::ffi::c_int;
use os::raw::nr;
use socket::{Errno, Outcome};

const EPOLL_PWAIT2: u32 = nr::__NR_epoll_pwait2;

/// syscall(number, ...): integer arguments travel in the same registers with or without the ellipsis.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn syscall(
    number: i64,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> i64 {
    let (number, args) = (number as u32, [a, b, c, d, e, f]);
    // SAFETY: the program's own arguments for the very call it made.
    let call = || unsafe { by_number(number, args) };
    match number {
        // (Whose child goes its own way.)
        nr::__NR_clone | nr::__NR_clone3 => call(),
        // (Nothing of ours, and they sleep: who may be cancelled at any time, or jumps out, does so there.)
        nr::__NR_futex
        | nr::__NR_clock_nanosleep
        | nr::__NR_nanosleep
        | nr::__NR_wait4
        | nr::__NR_waitid
        | nr::__NR_rt_sigsuspend
        | nr::__NR_rt_sigtimedwait => call(),
        // By number no thread is cancelled, asleep or not.
        nr::__NR_read
        | nr::__NR_write
        | nr::__NR_readv
        | nr::__NR_writev
        | nr::__NR_preadv2
        | nr::__NR_pwritev2
        | nr::__NR_recvfrom
        | nr::__NR_sendto
        | nr::__NR_recvmsg
        | nr::__NR_sendmsg
        | nr::__NR_recvmmsg
        | nr::__NR_sendmmsg
        | nr::__NR_sendfile
        | nr::__NR_splice
        | nr::__NR_ppoll
        | nr::__NR_pselect6
        | nr::__NR_epoll_pwait
        | EPOLL_PWAIT2
        | nr::__NR_accept
        | nr::__NR_accept4
        | nr::__NR_connect
        | nr::__NR_close => cancel::without_points(call),
        _ => cancel::without_points_if_asked(call),
    }
}

/// # Safety
/// As the system call's.
unsafe fn by_number(number: u32, [a, b, c, d, e, f]: [usize; 6]) -> i64 {
    let fd = a as c_int;
    // SAFETY: the program's own arguments for the very call it made, by its C name.
    let result = unsafe {
        match number {
            nr::__NR_read => data::read(fd, b as _, c),
            nr::__NR_write => data::write(fd, b as _, c),
            nr::__NR_readv => data::readv(fd, b as _, c as c_int),
            nr::__NR_writev => data::writev(fd, b as _, c as c_int),
            // (The higher half of the offset says nothing on machines of 64 bits.)
            nr::__NR_preadv2 => data::preadv2(fd, b as _, c as c_int, d as i64, f as c_int),
            nr::__NR_pwritev2 => data::pwritev2(fd, b as _, c as c_int, d as i64, f as c_int),
            nr::__NR_recvfrom => data::recvfrom(fd, b as _, c, d as c_int, e as _, f as _),
            nr::__NR_sendto => data::sendto(fd, b as _, c, d as c_int, e as _, f as u32),
            nr::__NR_recvmsg => message::recvmsg(fd, b as _, c as c_int),
            nr::__NR_sendmsg => message::sendmsg(fd, b as _, c as c_int),
            nr::__NR_sendfile => transfer::sendfile(fd, b as c_int, c as _, d),
            nr::__NR_splice => transfer::splice(fd, b as _, c as c_int, d as _, e, f as u32),
            nr::__NR_recvmmsg => message::recvmmsg(fd, b as _, c as u32, d as c_int, e as _) as isize,
            nr::__NR_sendmmsg => message::sendmmsg(fd, b as _, c as u32, d as c_int) as isize,
            nr::__NR_pselect6 => {
                let all = [a, b, c, d, e, f];
                finish(poll::by_number::pselect6(&all, mask(f as _)), number, &all)
            }
            nr::__NR_ppoll => {
                let all = [a, b, c, d, e, f];
                finish(poll::by_number::ppoll(&all), number, &all)
            }
            nr::__NR_epoll_create1 => epoll::epoll_create1(fd) as isize,
            nr::__NR_epoll_ctl => epoll::epoll_ctl(fd, b as c_int, c as c_int, d as _) as isize,
            nr::__NR_epoll_pwait | EPOLL_PWAIT2 if poll::mask_of_len(e as _, f).is_err() => {
                hook::fail(Errno::EINVAL)
            }
            nr::__NR_epoll_pwait => epoll::epoll_pwait(fd, b as _, c as c_int, d as c_int, e as _) as isize,
            EPOLL_PWAIT2 => epoll::epoll_pwait2(fd, b as _, c as c_int, d as _, e as _) as isize,
            nr::__NR_accept => lifecycle::accept(fd, b as _, c as _) as isize,
            nr::__NR_accept4 => lifecycle::accept4(fd, b as _, c as _, d as c_int) as isize,
            nr::__NR_connect => lifecycle::connect(fd, b as _, c as u32) as isize,
            nr::__NR_listen => lifecycle::listen(fd, b as c_int) as isize,
            nr::__NR_shutdown => lifecycle::shutdown(fd, b as c_int) as isize,
            nr::__NR_close => lifecycle::close(fd) as isize,
            nr::__NR_close_range => lifecycle::close_range(a as u32, b as u32, c as c_int) as isize,
            nr::__NR_dup => lifecycle::dup(fd) as isize,
            nr::__NR_dup3 => lifecycle::dup3(fd, b as c_int, c as c_int) as isize,
            nr::__NR_pidfd_getfd => lifecycle::pidfd_getfd(fd, b as c_int, c as u32) as isize,
            nr::__NR_fcntl => options::fcntl(fd, b as c_int, c) as isize,
            nr::__NR_ioctl => options::ioctl(fd, b as u64, c) as isize,
            nr::__NR_getsockopt => options::getsockopt(fd, b as c_int, c as c_int, d as _, e as _) as isize,
            nr::__NR_setsockopt => options::setsockopt(fd, b as c_int, c as c_int, d as _, e as u32) as isize,
            nr::__NR_prctl => sandbox::prctl(fd, b, c, d, e) as isize,
            nr::__NR_seccomp => sandbox::seccomp(a, b, c),
            nr::__NR_unshare => sandbox::unshare(fd) as isize,
            nr::__NR_setrlimit => sandbox::setrlimit(fd, b as _) as isize,
            nr::__NR_prlimit64 => sandbox::prlimit64(fd, b as c_int, c as _, d as _) as isize,
            nr::__NR_execve => process::execve(a as _, b as _, c as _) as isize,
            nr::__NR_execveat => process::execveat(fd, b as _, c as _, d as _, e as c_int) as isize,
            nr::__NR_clone | nr::__NR_clone3 => process::clone_by_number(number, [a, b, c, d, e, f]),
            nr::__NR_exit_group => process::exit_by_number(fd) as isize,
            // Rings of the kernel's know nothing of ours; libuv and friends fall back to epoll.
            nr::__NR_io_uring_setup if lifecycle::is_active() => hook::fail(Errno::ENOSYS),
            _ => match credentials::by_number(number, [a, b, c, d, e, f]) {
                Some(result) => result,
                None => other(number, [a, b, c, d, e, f]),
            },
        }
    };
    result as i64
}

/// pselect6 passes its mask and the mask's length by one pointer.
///
/// # Safety
/// As the system call's.
unsafe fn mask(pair: *const [usize; 2]) -> Result<crate::real::Mask, Errno> {
    if pair.is_null() {
        return Ok(core::ptr::null());
    }
    crate::pointers::readable(pair, size_of::<[usize; 2]>())?;
    // SAFETY: the pair is the program's to read, and it is there.
    let [mask, len] = unsafe { pair.read_unaligned() };
    poll::mask_of_len(mask as _, len)
}

/// What came of a call of ours, or of the very call that the program made.
///
/// # Safety
/// As the system call's.
unsafe fn finish(outcome: Outcome, number: u32, args: &[usize; 6]) -> isize {
    // SAFETY: the program's own call.
    hook::finish(outcome).unwrap_or_else(|| hook::from_raw(unsafe { os::raw::call(number, args) }))
}

/// # Safety
/// As the system call's.
#[cfg(target_arch = "x86_64")]
unsafe fn other(number: u32, args: [usize; 6]) -> isize {
    let [a, b, c, d, ..] = args;
    // SAFETY: the older forms that x86-64 still has, by their C names.
    unsafe {
        match number {
            nr::__NR_dup2 => lifecycle::dup2(a as c_int, b as c_int) as isize,
            nr::__NR_select => {
                cancel::without_points(|| finish(poll::by_number::select(&args), number, &args))
            }
            nr::__NR_poll => cancel::without_points(|| poll::poll(a as _, b as u64, c as c_int) as isize),
            nr::__NR_epoll_wait => cancel::without_points(|| {
                epoll::epoll_wait(a as c_int, b as _, c as c_int, d as c_int) as isize
            }),
            nr::__NR_fork => process::fork_by_number(0),
            nr::__NR_vfork => process::fork_by_number(nr::CLONE_VFORK),
            _ => hook::from_raw(os::raw::call(number, &args)),
        }
    }
}

/// # Safety
/// As the system call's.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn other(number: u32, args: [usize; 6]) -> isize {
    // SAFETY: the program's own call.
    hook::from_raw(unsafe { os::raw::call(number, &args) })
}
