//! Sets by the system call instruction itself, as some runtimes have them: no hook sees it. (On other
//! processors than x86-64 by libc's functions: there these tests show nothing.)

use super::{Fd, Ret, ready};
use libc::{c_int, epoll_event};

/// `epoll_create1(2)`.
pub fn epoll_unseen() -> Fd {
    #[cfg(target_arch = "x86_64")]
    return call(libc::SYS_epoll_create1, [libc::EPOLL_CLOEXEC as usize, 0, 0, 0]).expect("a set") as Fd;
    #[cfg(not(target_arch = "x86_64"))]
    ready::epoll()
}

/// EPOLL_CTL_ADD.
pub fn ep_add_unseen(ep: Fd, fd: Fd, events: i32, data: u64) -> Ret {
    #[cfg(target_arch = "x86_64")]
    {
        let mut event = epoll_event { events: events as u32, u64: data };
        let event = (&raw mut event).expose_provenance();
        call(libc::SYS_epoll_ctl, [ep as usize, libc::EPOLL_CTL_ADD as usize, fd as usize, event])
    }
    #[cfg(not(target_arch = "x86_64"))]
    ready::ep_add(ep, fd, events, data)
}

/// `epoll_wait(2)` printed.
pub fn ep_show_unseen(ep: Fd, ms: c_int) -> String {
    #[cfg(target_arch = "x86_64")]
    {
        let mut told = [epoll_event { events: 0, u64: 0 }; 64];
        let room = [ep as usize, told.as_mut_ptr().expose_provenance(), told.len(), ms as usize];
        let got = call(libc::SYS_epoll_wait, room);
        let mut told = got.map(|got| told[..got].iter().map(|e| (e.u64, e.events)).collect::<Vec<_>>());
        told.iter_mut().for_each(|told| told.sort_unstable());
        ready::show_events(told)
    }
    #[cfg(not(target_arch = "x86_64"))]
    ready::ep_show(ep, ms)
}

/// io_uring_setup(2), of eight entries. Errors: ENOSYS or EPERM where there is none, or none for this user.
pub fn io_uring_unseen() -> Ret {
    #[cfg(target_arch = "x86_64")]
    {
        let mut params = [0u64; 15];
        call(libc::SYS_io_uring_setup, [8, params.as_mut_ptr().expose_provenance(), 0, 0])
    }
    #[cfg(not(target_arch = "x86_64"))]
    Err(super::Errno(libc::ENOSYS))
}

/// `poll(2)` of one descriptor for input.
pub fn poll1_unseen(fd: Fd, ms: c_int) -> Ret {
    #[cfg(target_arch = "x86_64")]
    {
        let mut wanted = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        call(libc::SYS_poll, [(&raw mut wanted).expose_provenance(), 1, ms as usize, 0])
    }
    #[cfg(not(target_arch = "x86_64"))]
    ready::poll(&[(fd, libc::POLLIN)], ms).0
}

#[cfg(target_arch = "x86_64")]
fn call(number: i64, [first, second, third, fourth]: [usize; 4]) -> Ret {
    let result: i64;
    // SAFETY: the callers' buffers outlive the call; the kernel writes nothing else.
    unsafe {
        std::arch::asm!("syscall", inlateout("rax") number => result, in("rdi") first, in("rsi") second,
            in("rdx") third, in("r10") fourth, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    usize::try_from(result).map_err(|_| super::Errno(-result as i32))
}

/// A write by the instruction, which goes past every hook.
pub fn write_unseen(fd: Fd, bytes: &[u8]) -> Ret {
    #[cfg(target_arch = "x86_64")]
    return call(libc::SYS_write, [fd as usize, bytes.as_ptr().expose_provenance(), bytes.len(), 0]);
    #[cfg(not(target_arch = "x86_64"))]
    super::write(fd, bytes)
}
