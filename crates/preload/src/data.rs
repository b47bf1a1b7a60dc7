//! read, write and their kin on plain buffers and iovecs. Owns: the argument checks that libc or the kernel would make.
//! (Descriptors that are unknown here never get this far, or find no connection.)

use crate::hook::descriptor_hooks;
use crate::real::Buf;
use core::ffi::c_int;
use core::iter::once;
use socket::buffer::{IoVec, IoVecs, Sink, Source};
use socket::stream::{receive, transmit};
use socket::{Errno, Outcome};

/// Most entries of an iovec array (`UIO_MAXIOV`).
pub(crate) const IOV_MAX: c_int = 1024;

#[inline]
pub(crate) fn receive_into(fd: c_int, buf: Buf, len: usize, flags: c_int) -> Outcome {
    let len = len.min(isize::MAX as usize);
    // SAFETY: the program vouches for its buffer, as it does towards libc.
    let sink = unsafe { Sink::new(buf.cast(), len) };
    receive(fd, once(sink), len, flags)
}

#[inline]
pub(crate) fn transmit_from(fd: c_int, buf: Buf, len: usize, flags: c_int) -> Outcome {
    let len = len.min(isize::MAX as usize);
    // SAFETY: the program vouches for its buffer, as it does towards libc.
    let source = unsafe { Source::new(buf.cast_const().cast(), len) };
    transmit(fd, once(source), len, flags)
}

/// The program's iovec array, checked as the kernel checks it.
pub(crate) fn vectors<'a>(iov: Buf, count: c_int) -> Result<(IoVecs<'a>, usize), Errno> {
    let entries = usize::try_from(count).ok().filter(|_| count <= IOV_MAX).ok_or(Errno::EINVAL)?;
    // SAFETY: the program vouches for the array and what it points to, as it does towards libc.
    let vectors = unsafe { IoVecs::new(iov.cast::<IoVec>(), entries) };
    vectors.total().map(|total| (vectors, total)).ok_or(Errno::EINVAL)
}

pub(crate) fn receive_vectors(fd: c_int, iov: Buf, count: c_int, flags: c_int) -> Outcome {
    if !socket::stream::is_shared(fd) {
        return Outcome::Forward;
    }
    match vectors(iov, count) {
        Ok((vectors, total)) => receive(fd, vectors.sinks(), total, flags),
        Err(errno) => Outcome::Fail(errno),
    }
}

pub(crate) fn transmit_vectors(fd: c_int, iov: Buf, count: c_int, flags: c_int) -> Outcome {
    if !socket::stream::is_shared(fd) {
        return Outcome::Forward;
    }
    match vectors(iov, count) {
        Ok((vectors, total)) => transmit(fd, vectors.sources(), total, flags),
        Err(errno) => Outcome::Fail(errno),
    }
}

/// read(2) of nothing returns 0 at once, unlike recv(2).
fn zero_or(len: usize, fd: c_int, outcome: impl FnOnce() -> Outcome) -> Outcome {
    if len == 0 && socket::stream::is_shared(fd) { Outcome::Done(0) } else { outcome() }
}

/// The same for a scatter list, which the kernel's file layer adds up before the socket hears of it.
#[inline]
fn zero_vectors_or(fd: c_int, iov: Buf, count: c_int, outcome: impl FnOnce() -> Outcome) -> Outcome {
    match vectors(iov, count) {
        Ok((_, 0)) => zero_or(0, fd, || Outcome::Forward),
        _ => outcome(),
    }
}

descriptor_hooks! {
    fn read [__read] (fd: c_int, buf: Buf, len: usize) -> isize {
        if len == 0 { zero_or(len, fd, || Outcome::Forward) } else { receive_into(fd, buf, len, 0) }
    }
    fn __read_chk [] (fd: c_int, buf: Buf, len: usize, room: usize) -> isize {
        if len == 0 || len > room { zero_or(len, fd, || Outcome::Forward) } else { receive_into(fd, buf, len, 0) }
    }
    fn write [__write] (fd: c_int, buf: Buf, len: usize) -> isize {
        transmit_from(fd, buf, len, 0)
    }
    fn readv [] (fd: c_int, iov: Buf, count: c_int) -> isize {
        zero_vectors_or(fd, iov, count, || receive_vectors(fd, iov, count, 0))
    }
    fn writev [] (fd: c_int, iov: Buf, count: c_int) -> isize {
        zero_vectors_or(fd, iov, count, || transmit_vectors(fd, iov, count, 0))
    }
    fn preadv2 [preadv64v2] (fd: c_int, iov: Buf, count: c_int, offset: i64, flags: c_int) -> isize {
        if offset == -1 {
            zero_vectors_or(fd, iov, count, || receive_vectors(fd, iov, count, 0))
        } else {
            Outcome::Forward
        }
    }
    fn pwritev2 [pwritev64v2] (fd: c_int, iov: Buf, count: c_int, offset: i64, flags: c_int) -> isize {
        if offset == -1 {
            zero_vectors_or(fd, iov, count, || transmit_vectors(fd, iov, count, 0))
        } else {
            Outcome::Forward
        }
    }
    fn recv [] (fd: c_int, buf: Buf, len: usize, flags: c_int) -> isize {
        receive_into(fd, buf, len, flags)
    }
    fn __recv_chk [] (fd: c_int, buf: Buf, len: usize, room: usize, flags: c_int) -> isize {
        if len > room { Outcome::Forward } else { receive_into(fd, buf, len, flags) }
    }
    fn recvfrom [] (fd: c_int, buf: Buf, len: usize, flags: c_int, addr: Buf, addr_len: *mut u32) -> isize {
        without_address(receive_into(fd, buf, len, flags), addr, addr_len)
    }
    fn __recvfrom_chk [] (fd: c_int, buf: Buf, len: usize, room: usize, flags: c_int, addr: Buf, addr_len: *mut u32) -> isize {
        if len > room {
            Outcome::Forward
        } else {
            without_address(receive_into(fd, buf, len, flags), addr, addr_len)
        }
    }
    fn send [__send] (fd: c_int, buf: Buf, len: usize, flags: c_int) -> isize {
        transmit_from(fd, buf, len, flags)
    }
    fn sendto [] (fd: c_int, buf: Buf, len: usize, flags: c_int, addr: Buf, addr_len: u32) -> isize {
        // TCP ignores the address of a connected socket.
        transmit_from(fd, buf, len, flags)
    }
}

/// TCP reports no source address: the length becomes 0.
fn without_address(outcome: Outcome, addr: Buf, addr_len: *mut u32) -> Outcome {
    if let Outcome::Done(_) = outcome
        && !addr.is_null()
        && !addr_len.is_null()
    {
        // SAFETY: the program passed a place for the length.
        unsafe { *addr_len = 0 };
    }
    outcome
}
