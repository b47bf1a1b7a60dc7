//! TCP_ZEROCOPY_RECEIVE, by which a program has whole pages of what arrived mapped in place of a copy. Owns:
//! that the kernel takes no byte of a shared connection by itself, whose place among those in memory nobody
//! would know. A page of a ring is lent to nobody: the program is told to read, as it is of bytes that fill
//! no page.

use crate::pointers;
use crate::real::Buf;
use socket::{Errno, Outcome, queue};

/// What is known of it here (`struct tcp_zerocopy_receive` of linux/tcp.h), up to its flags.
#[repr(C)]
struct Asked {
    address: u64,
    length: u32,
    recv_skip_hint: u32,
    inq: u32,
    err: i32,
    copybuf_address: u64,
    copybuf_len: i32,
    flags: u32,
}

/// The least that the kernel takes: up to `length`.
const LEAST: usize = 12;
const PAGE: usize = 4096;

/// What a getsockopt of it says of a shared connection.
pub(super) fn receive(fd: i32, value: Buf, len: *mut u32) -> Outcome {
    if pointers::writable(len, size_of::<u32>()).is_err() {
        return Outcome::Forward;
    }
    // SAFETY: the length is there.
    let room = unsafe { len.read_unaligned() } as usize;
    if room < LEAST || pointers::writable(value, room.min(size_of::<Asked>())).is_err() {
        return Outcome::Forward;
    }
    let Some((unread, has_ended)) = queue::unread(fd) else { return Outcome::Forward };
    // SAFETY: it is all zeros, or what the program has there: integers alone.
    let mut asked: Asked = unsafe { core::mem::zeroed() };
    let known = room.min(size_of::<Asked>());
    // SAFETY: both places are that long.
    unsafe { core::ptr::copy_nonoverlapping(value.cast::<u8>(), (&raw mut asked).cast(), known) };
    if !asked.address.is_multiple_of(PAGE as u64) {
        return Outcome::Fail(Errno::EINVAL);
    }
    if unread == 0 && has_ended {
        return Outcome::Fail(Errno::EIO);
    }
    let hint = if unread < PAGE { unread } else { unread.min(asked.length as usize) };
    let told = (unread + usize::from(has_ended)) as u32;
    asked = Asked { length: 0, recv_skip_hint: hint as u32, inq: told, err: 0, copybuf_len: 0, ..asked };
    // SAFETY: both places are that long, and the program's is its own.
    unsafe { core::ptr::copy_nonoverlapping((&raw const asked).cast(), value.cast::<u8>(), known) };
    Outcome::Done(0)
}
