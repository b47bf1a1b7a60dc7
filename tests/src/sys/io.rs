//! Data calls: read and write in all their spellings. Invariant: one wrapper, one libc symbol.

use super::{Fd, Ret, ret, ret32};
use libc::{c_int, c_void, iovec, mmsghdr, msghdr};
use std::mem::zeroed;
use std::ptr::{null, null_mut};

/// `read(2)`.
pub fn read(fd: Fd, buf: &mut [u8]) -> Ret {
    // SAFETY: the pointer and length describe `buf`.
    ret(unsafe { libc::read(fd, buf.as_mut_ptr().cast(), buf.len()) })
}

/// `write(2)`.
pub fn write(fd: Fd, buf: &[u8]) -> Ret {
    // SAFETY: the pointer and length describe `buf`.
    ret(unsafe { libc::write(fd, buf.as_ptr().cast(), buf.len()) })
}

/// `recv(2)`.
pub fn recv(fd: Fd, buf: &mut [u8], flags: c_int) -> Ret {
    // SAFETY: the pointer and length describe `buf`.
    ret(unsafe { libc::recv(fd, buf.as_mut_ptr().cast(), buf.len(), flags) })
}

/// `recv(2)` with a null buffer of `len` bytes: with MSG_TRUNC, TCP discards that many.
pub fn recv_null(fd: Fd, len: usize, flags: c_int) -> Ret {
    // SAFETY: with MSG_TRUNC the kernel never writes through the pointer; without it it answers EFAULT.
    ret(unsafe { libc::recv(fd, null_mut(), len, flags) })
}

/// `recv(2)` into address 8, which is never mapped.
pub fn recv_bad(fd: Fd, len: usize) -> Ret {
    // SAFETY: the kernel checks the address; a user-space copy faults, and callers run this in a child.
    ret(unsafe { libc::recv(fd, 8 as *mut c_void, len, 0) })
}

/// `send(2)` from address 8, which is never mapped.
pub fn send_bad(fd: Fd, len: usize) -> Ret {
    // SAFETY: as for `recv_bad`.
    ret(unsafe { libc::send(fd, 8 as *const c_void, len, 0) })
}

/// `send(2)`.
pub fn send(fd: Fd, buf: &[u8], flags: c_int) -> Ret {
    // SAFETY: the pointer and length describe `buf`.
    ret(unsafe { libc::send(fd, buf.as_ptr().cast(), buf.len(), flags) })
}

/// `recvfrom(2)`; also says which address length came back.
pub fn recvfrom(fd: Fd, buf: &mut [u8], flags: c_int) -> (Ret, u32) {
    // SAFETY: an all-zero sockaddr_storage is valid.
    let mut addr: libc::sockaddr_storage = unsafe { zeroed() };
    let mut len = size_of_val(&addr) as u32;
    let addr = (&raw mut addr).cast();
    // SAFETY: `buf`, the address and its length outlive the call.
    let n = unsafe { libc::recvfrom(fd, buf.as_mut_ptr().cast(), buf.len(), flags, addr, &mut len) };
    (ret(n), len)
}

/// `sendto(2)` with no address, as `send` is often spelt.
pub fn sendto(fd: Fd, buf: &[u8], flags: c_int) -> Ret {
    // SAFETY: the pointer and length describe `buf`; a null address is allowed.
    ret(unsafe { libc::sendto(fd, buf.as_ptr().cast(), buf.len(), flags, null(), 0) })
}

pub(super) fn iov_mut(bufs: &mut [&mut [u8]]) -> Vec<iovec> {
    bufs.iter_mut().map(|b| iovec { iov_base: b.as_mut_ptr().cast(), iov_len: b.len() }).collect()
}

pub(super) fn iov(bufs: &[&[u8]]) -> Vec<iovec> {
    bufs.iter().map(|b| iovec { iov_base: b.as_ptr().cast_mut().cast(), iov_len: b.len() }).collect()
}

/// `readv(2)`.
pub fn readv(fd: Fd, bufs: &mut [&mut [u8]]) -> Ret {
    let v = iov_mut(bufs);
    // SAFETY: every iovec describes one of `bufs`.
    ret(unsafe { libc::readv(fd, v.as_ptr(), v.len() as c_int) })
}

/// `readv(2)` of one good buffer followed by one at address 8, which is never mapped.
pub fn readv_half_bad(fd: Fd, good: &mut [u8], bad_len: usize) -> Ret {
    let mut v = iov_mut(&mut [good]);
    v.push(iovec { iov_base: 8 as *mut c_void, iov_len: bad_len });
    // SAFETY: as for `recv_bad`.
    ret(unsafe { libc::readv(fd, v.as_ptr(), v.len() as c_int) })
}

/// `writev(2)`.
pub fn writev(fd: Fd, bufs: &[&[u8]]) -> Ret {
    let v = iov(bufs);
    // SAFETY: every iovec describes one of `bufs`; writev only reads them.
    ret(unsafe { libc::writev(fd, v.as_ptr(), v.len() as c_int) })
}

/// `preadv2(2)`; offset -1 means "like readv".
pub fn preadv2(fd: Fd, bufs: &mut [&mut [u8]], offset: i64, flags: c_int) -> Ret {
    let v = iov_mut(bufs);
    // SAFETY: every iovec describes one of `bufs`.
    ret(unsafe { libc::preadv2(fd, v.as_ptr(), v.len() as c_int, offset, flags) })
}

/// `pwritev2(2)`; offset -1 means "like writev".
pub fn pwritev2(fd: Fd, bufs: &[&[u8]], offset: i64, flags: c_int) -> Ret {
    let v = iov(bufs);
    // SAFETY: every iovec describes one of `bufs`; pwritev2 only reads them.
    ret(unsafe { libc::pwritev2(fd, v.as_ptr(), v.len() as c_int, offset, flags) })
}

/// `pread(2)`, which a socket refuses.
pub fn pread(fd: Fd, buf: &mut [u8]) -> Ret {
    // SAFETY: the pointer and length describe `buf`.
    ret(unsafe { libc::pread(fd, buf.as_mut_ptr().cast(), buf.len(), 0) })
}

pub(super) fn message(v: &mut [iovec]) -> msghdr {
    // SAFETY: an all-zero msghdr is valid (no name, no control, no iov).
    let mut m: msghdr = unsafe { zeroed() };
    m.msg_iov = v.as_mut_ptr();
    m.msg_iovlen = v.len() as _;
    m
}

/// `sendmsg(2)`.
pub fn sendmsg(fd: Fd, bufs: &[&[u8]], flags: c_int) -> Ret {
    let mut v = iov(bufs);
    let m = message(&mut v);
    // SAFETY: the header points at `v`, which describes `bufs`.
    ret(unsafe { libc::sendmsg(fd, &m, flags) })
}

/// What `recvmsg` left in the header besides the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MsgOut {
    /// `msg_flags` on return.
    pub flags: c_int,
    /// `msg_controllen` on return, bytes.
    pub control: usize,
    /// `msg_namelen` on return, bytes.
    pub name: u32,
}

/// `recvmsg(2)` with room for a name and control data.
pub fn recvmsg(fd: Fd, bufs: &mut [&mut [u8]], flags: c_int) -> (Ret, MsgOut) {
    let mut v = iov_mut(bufs);
    let mut m = message(&mut v);
    let (mut name, mut control) = ([0u8; 128], [0u64; 32]);
    m.msg_name = name.as_mut_ptr().cast();
    m.msg_namelen = name.len() as u32;
    m.msg_control = control.as_mut_ptr().cast();
    m.msg_controllen = size_of_val(&control) as _;
    m.msg_flags = 0x7777;
    // SAFETY: every pointer in the header describes a live local buffer.
    let r = ret(unsafe { libc::recvmsg(fd, &mut m, flags) });
    (r, MsgOut { flags: m.msg_flags, control: m.msg_controllen, name: m.msg_namelen })
}

fn vector(vs: &mut [Vec<iovec>]) -> Vec<mmsghdr> {
    vs.iter_mut().map(|v| mmsghdr { msg_hdr: message(v), msg_len: 0 }).collect()
}

/// `sendmmsg(2)`, one buffer per message; returns the count and each message's length.
pub fn sendmmsg(fd: Fd, msgs: &[&[u8]], flags: c_int) -> (Ret, Vec<u32>) {
    let mut vs: Vec<Vec<iovec>> = msgs.iter().map(|m| iov(&[m])).collect();
    let mut hs = vector(&mut vs);
    // SAFETY: every header points at an iovec that describes one of `msgs`.
    let r = ret32(unsafe { libc::sendmmsg(fd, hs.as_mut_ptr(), hs.len() as u32, flags as _) });
    (r, hs.iter().map(|h| h.msg_len).collect())
}

/// `recvmmsg(2)`, one buffer per message, optional timeout in milliseconds.
pub fn recvmmsg(fd: Fd, bufs: &mut [&mut [u8]], flags: c_int, timeout: Option<u64>) -> (Ret, Vec<u32>) {
    let mut vs: Vec<Vec<iovec>> = bufs.iter_mut().map(|b| iov_mut(&mut [b])).collect();
    let mut hs = vector(&mut vs);
    let mut ts = timeout.map(super::timespec);
    let tp = ts.as_mut().map_or(null_mut(), |t| t as *mut _);
    // SAFETY: every header points at an iovec that describes one of `bufs`; the timeout outlives the call.
    let r = ret32(unsafe { libc::recvmmsg(fd, hs.as_mut_ptr(), hs.len() as u32, flags as _, tp) });
    (r, hs.iter().map(|h| h.msg_len).collect())
}

/// `ioctl(2)` with a pointer to an int, which is returned: FIONREAD, SIOCOUTQ, SIOCATMARK, FIONBIO.
pub fn ioctl_int(fd: Fd, request: u64, value: i32) -> (Ret, i32) {
    let mut arg = value;
    // SAFETY: the requests used here read or write one int.
    let r = ret32(unsafe { libc::ioctl(fd, request as _, &mut arg) });
    (r, arg)
}

/// `ioctl(2)` with a number for an argument.
pub fn ioctl_number(fd: Fd, request: u64, value: usize) -> Ret {
    // SAFETY: the request used here takes no pointer.
    ret32(unsafe { libc::ioctl(fd, request as _, value) })
}

/// `sockatmark(3)`.
pub fn at_mark(fd: Fd) -> Ret {
    unsafe extern "C" {
        fn sockatmark(fd: libc::c_int) -> libc::c_int;
    }
    // SAFETY: an integer alone.
    ret32(unsafe { sockatmark(fd) })
}

/// `ioctl(FIONREAD)`: bytes that can be read.
pub fn queued(fd: Fd) -> i32 {
    ioctl_int(fd, libc::FIONREAD, -1).1
}
