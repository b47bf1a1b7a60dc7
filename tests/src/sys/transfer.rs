//! Kernel-side movers and helper descriptors: sendfile, splice, tee, pipes, eventfd, timerfd, memory files.

use super::{Fd, Ret, ret, ret32};
use libc::c_int;
use std::ptr::null_mut;

/// `sendfile(2)`; with an offset the advanced value comes back.
pub fn sendfile(out: Fd, input: Fd, offset: Option<i64>, count: usize) -> (Ret, Option<i64>) {
    let mut o = offset.unwrap_or(0);
    let p = if offset.is_some() { &raw mut o } else { null_mut() };
    // SAFETY: the offset outlives the call.
    let r = ret(unsafe { libc::sendfile(out, input, p, count) });
    (r, offset.map(|_| o))
}

/// `splice(2)` without offsets.
pub fn splice(from: Fd, to: Fd, len: usize, flags: u32) -> Ret {
    // SAFETY: null offsets are allowed for pipes and sockets.
    ret(unsafe { libc::splice(from, null_mut(), to, null_mut(), len, flags) })
}

/// `tee(2)`.
pub fn tee(from: Fd, to: Fd, len: usize) -> Ret {
    // SAFETY: no pointers.
    ret(unsafe { libc::tee(from, to, len, 0) })
}

/// `pipe2(2)`.
pub fn pipe(flags: c_int) -> (Fd, Fd) {
    let mut v = [-1; 2];
    // SAFETY: `v` has room for two descriptors.
    let r = unsafe { libc::pipe2(v.as_mut_ptr(), flags) };
    assert!(r == 0, "pipe2: {}", super::errno());
    (v[0], v[1])
}

/// A memory file with `content`, file position at its start.
pub fn memfile(content: &[u8]) -> Fd {
    // SAFETY: the name is a NUL-terminated literal.
    let fd = unsafe { libc::memfd_create(c"parity".as_ptr(), libc::MFD_CLOEXEC) };
    assert!(fd >= 0, "memfd_create: {}", super::errno());
    assert_eq!(super::write(fd, content), Ok(content.len()));
    seek(fd, 0);
    fd
}

/// Sets the file position.
pub fn seek(fd: Fd, to: i64) {
    // SAFETY: no pointers.
    unsafe { libc::lseek(fd, to, libc::SEEK_SET) };
}

/// The file position.
pub fn position(fd: Fd) -> i64 {
    // SAFETY: no pointers.
    unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) }
}

/// `eventfd(2)`.
pub fn eventfd(value: u32) -> Fd {
    // SAFETY: no pointers.
    unsafe { libc::eventfd(value, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) }
}

/// A timerfd that fires once after `ms`.
pub fn timer(ms: u64) -> Fd {
    // SAFETY: the specification is a live local.
    unsafe {
        let fd = libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC);
        let spec = libc::itimerspec { it_interval: super::timespec(0), it_value: super::timespec(ms) };
        libc::timerfd_settime(fd, 0, &spec, null_mut());
        fd
    }
}

/// `open("/dev/null", O_RDWR)`.
pub fn open_null() -> Ret {
    // SAFETY: the path is a NUL-terminated literal.
    ret32(unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) })
}

/// Sends `fd` over an AF_UNIX socket by SCM_RIGHTS, with one byte of data.
pub fn send_fd(unix: Fd, fd: Fd) -> Ret {
    // SAFETY: `m` is a message whose parts outlive the call.
    with_fd(fd, |m| ret(unsafe { libc::sendmsg(unix, m, 0) }))
}

/// Sends the same message so many times by one sendmmsg. How many it took.
pub fn send_fd_times(unix: Fd, fd: Fd, times: usize) -> Ret {
    with_fd(fd, |m| {
        let mut all = vec![libc::mmsghdr { msg_hdr: *m, msg_len: 0 }; times];
        // SAFETY: `all` has so many messages, whose parts outlive the call.
        ret32(unsafe { libc::sendmmsg(unix, all.as_mut_ptr(), times as _, libc::MSG_DONTWAIT) })
    })
}

/// A message of one byte that passes `fd`.
fn with_fd(fd: Fd, send: impl FnOnce(&libc::msghdr) -> Ret) -> Ret {
    let (mut byte, mut control) = ([b'F'], [0u64; 8]);
    let mut iov = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    // SAFETY: the control buffer is aligned and larger than CMSG_SPACE(4); all pointers are live locals.
    unsafe {
        let mut m: libc::msghdr = std::mem::zeroed();
        (m.msg_iov, m.msg_iovlen) = (&mut iov, 1);
        m.msg_control = control.as_mut_ptr().cast();
        m.msg_controllen = libc::CMSG_SPACE(4) as _;
        let c = libc::CMSG_FIRSTHDR(&m);
        (*c).cmsg_level = libc::SOL_SOCKET;
        (*c).cmsg_type = libc::SCM_RIGHTS;
        (*c).cmsg_len = libc::CMSG_LEN(4) as _;
        libc::CMSG_DATA(c).cast::<c_int>().write_unaligned(fd);
        send(&m)
    }
}

/// Receives one descriptor sent by [`send_fd`].
pub fn recv_fd(unix: Fd) -> Ret {
    let (mut byte, mut control) = ([0u8], [0u64; 8]);
    let mut iov = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    // SAFETY: as for `send_fd`; the header is checked for null before it is read.
    unsafe {
        let mut m: libc::msghdr = std::mem::zeroed();
        (m.msg_iov, m.msg_iovlen) = (&mut iov, 1);
        m.msg_control = control.as_mut_ptr().cast();
        m.msg_controllen = size_of_val(&control) as _;
        ret(libc::recvmsg(unix, &mut m, 0))?;
        let c = libc::CMSG_FIRSTHDR(&m);
        assert!(!c.is_null(), "no descriptor in the message");
        Ok(libc::CMSG_DATA(c).cast::<c_int>().read_unaligned() as usize)
    }
}
