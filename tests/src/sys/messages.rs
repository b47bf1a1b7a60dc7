//! Messages with everything a header can hold: an address, ancillary data, a time limit for several.
//! Invariant: what the call left in the header is handed back unjudged.

use super::io::{MsgOut, iov, iov_mut, message};
use super::{Fd, Ret, ret, ret32};
use libc::{c_int, mmsghdr};
use std::mem::size_of_val;
use std::ptr::null_mut;

/// `sendmsg(2)` of `bytes` with one piece of ancillary data, `len` bytes of zeros.
pub fn sendmsg_with(fd: Fd, bytes: &[u8], (level, kind, len): (c_int, c_int, u32)) -> Ret {
    let mut control = [0u64; 16];
    // SAFETY: arithmetic on lengths only.
    let (piece, space) = unsafe { (libc::CMSG_LEN(len), libc::CMSG_SPACE(len)) };
    control[0] = u64::from(piece);
    control[1] = u64::from(level as u32) | u64::from(kind as u32) << 32;
    let mut v = iov(&[bytes]);
    let mut m = message(&mut v);
    m.msg_control = control.as_mut_ptr().cast();
    m.msg_controllen = space as _;
    // SAFETY: the header points at live locals that are as long as it says.
    ret(unsafe { libc::sendmsg(fd, &m, libc::MSG_NOSIGNAL) })
}

/// `sendmsg(2)` of `bytes` with `control_len` bytes of zeros for ancillary data, or with none there though
/// the length says so.
pub fn sendmsg_with_zeros(fd: Fd, bytes: &[u8], control_len: usize, is_there: bool) -> Ret {
    let mut control = [0u64; 16];
    let mut v = iov(&[bytes]);
    let mut m = message(&mut v);
    m.msg_control = if is_there { control.as_mut_ptr().cast() } else { null_mut() };
    m.msg_controllen = control_len as _;
    // SAFETY: the buffers live; a longer length, and a missing buffer, are the kernel's to refuse.
    ret(unsafe { libc::sendmsg(fd, &m, libc::MSG_NOSIGNAL) })
}

/// `sendmsg(2)` to an address whose length is said to be `name_len`.
pub fn sendmsg_to(fd: Fd, bytes: &[u8], name_len: i32) -> Ret {
    let mut name = [0u64; 32];
    let mut v = iov(&[bytes]);
    let mut m = message(&mut v);
    m.msg_name = name.as_mut_ptr().cast();
    m.msg_namelen = name_len as u32;
    // SAFETY: the header points at live locals; no length that is taken exceeds them.
    ret(unsafe { libc::sendmsg(fd, &m, libc::MSG_NOSIGNAL) })
}

/// `recvmsg(2)` with room for an address, or none, and `name_len` whatever the room is.
pub fn recvmsg_from(fd: Fd, buf: &mut [u8], has_name: bool, name_len: i32, flags: c_int) -> (Ret, MsgOut) {
    let (mut name, mut control) = ([0u8; 128], [0u64; 32]);
    let mut v = iov_mut(&mut [buf]);
    let mut m = message(&mut v);
    m.msg_name = if has_name { name.as_mut_ptr().cast() } else { null_mut() };
    m.msg_namelen = name_len as u32;
    m.msg_control = control.as_mut_ptr().cast();
    m.msg_controllen = size_of_val(&control) as _;
    m.msg_flags = 0x7777;
    // SAFETY: every pointer in the header describes a live local buffer; the kernel takes 128 bytes at most.
    let r = ret(unsafe { libc::recvmsg(fd, &mut m, flags) });
    (r, MsgOut { flags: m.msg_flags, control: m.msg_controllen, name: m.msg_namelen })
}

/// `recvmmsg(2)` of three bytes each within `time`; returns what is left of that, too.
pub fn recvmmsg_within(fd: Fd, flags: c_int, time: [i64; 2]) -> (Ret, Vec<u32>, [i64; 2]) {
    let mut room = [[0u8; 3]; 4];
    let mut vs: Vec<Vec<libc::iovec>> = room.iter_mut().map(|b| iov_mut(&mut [b])).collect();
    let mut hs: Vec<mmsghdr> = vs.iter_mut().map(|v| mmsghdr { msg_hdr: message(v), msg_len: 99 }).collect();
    let mut left = libc::timespec { tv_sec: time[0], tv_nsec: time[1] };
    // SAFETY: every header points at an iovec that describes a piece of `room`; the limit outlives the call.
    let r = ret32(unsafe { libc::recvmmsg(fd, hs.as_mut_ptr(), 4, flags as _, &mut left) });
    (r, hs.iter().map(|h| h.msg_len).collect(), [left.tv_sec, left.tv_nsec])
}

/// `recvmsg(2)` of `len` bytes with `room` for ancillary data: what it returned, and all of that.
pub fn recvmsg_left(fd: Fd, len: usize, room: usize, flags: c_int) -> String {
    let (mut buf, mut control) = ([0u8; 16], [0u8; 64]);
    let mut v = iov_mut(&mut [&mut buf[..len]]);
    let mut m = message(&mut v);
    m.msg_control = control.as_mut_ptr().cast();
    m.msg_controllen = room.min(control.len()) as _;
    // SAFETY: the header points at live locals that are at least as long as it says.
    let r = ret(unsafe { libc::recvmsg(fd, &mut m, flags) });
    let got = &control[..m.msg_controllen.min(control.len())];
    format!("{} flags {:x} control {got:?}", super::show(r), m.msg_flags)
}

/// getsockopt(TCP_ZEROCOPY_RECEIVE) with `size` bytes of its structure: what it returned, then how much it
/// has mapped, how much is to be read instead, and how much has arrived.
pub fn receive_by_page(fd: Fd, address: usize, length: u32, size: usize) -> (Ret, [u32; 3]) {
    const TCP_ZEROCOPY_RECEIVE: c_int = 35;
    let mut asked = [0u32; 16];
    [asked[0], asked[1]] = [address as u32, (address as u64 >> 32) as u32];
    asked[2] = length;
    let mut len = size as libc::socklen_t;
    // SAFETY: the structure of linux/tcp.h is no longer than this place.
    let r = unsafe {
        libc::getsockopt(fd, libc::IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE, asked.as_mut_ptr().cast(), &mut len)
    };
    (ret32(r), [asked[2], asked[3], asked[4]])
}

/// Address space in which a TCP socket can show its pages (mmap(2) of it).
pub fn map_socket(fd: Fd, len: usize) -> usize {
    // SAFETY: a new mapping, wherever the kernel likes.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ, libc::MAP_SHARED, fd, 0) };
    assert_ne!(at, libc::MAP_FAILED);
    at.addr()
}
