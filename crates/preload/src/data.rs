//! read, write and their kin on plain buffers and iovecs. Owns: the argument checks that libc or the kernel
//! would make. (Descriptors that are unknown here never get this far, or find no connection.)

use crate::hook::data_hooks;
use crate::pointers::{self, MOST, address, is_beyond, is_nowhere};
use crate::real::{Buf, forward};
use core::ffi::c_int;
use core::iter::once;
use os::net::msg;
use socket::buffer::{IoVec, IoVecs, Sink, Source};
use socket::stream::{receive, transmit};
use socket::{Errno, Outcome};

/// Most entries of an iovec array (`UIO_MAXIOV`).
pub(crate) const IOV_MAX: c_int = 1024;

#[inline]
pub(crate) fn receive_into(fd: c_int, buf: Buf, len: usize, flags: c_int) -> Outcome {
    if is_nowhere(buf.addr(), len) && may_not_be_nowhere(buf.addr(), len, flags) {
        return receive_outside(fd, is_beyond(buf.addr(), len), flags);
    }
    let len = len.min(MOST);
    // SAFETY: the program vouches for its buffer, as it does towards libc.
    let sink = unsafe { Sink::new(buf.cast(), len) };
    receive(fd, once(sink), len, flags)
}

#[inline]
pub(crate) fn transmit_from(fd: c_int, buf: Buf, len: usize, flags: c_int) -> Outcome {
    if is_nowhere(buf.addr(), len) {
        return transmit_outside(fd, is_beyond(buf.addr(), len), flags);
    }
    if len >= MOST && ends_nowhere(buf) {
        return transmit_outside(fd, false, flags);
    }
    let len = len.min(MOST);
    // SAFETY: the program vouches for its buffer, as it does towards libc.
    let source = unsafe { Source::new(buf.cast_const().cast(), len) };
    transmit(fd, once(source), len, flags)
}

/// Whether the last byte that one call would take is missing: the length was none, as of one that went
/// negative, and the kernel copies nothing of that.
#[cold]
fn ends_nowhere(buf: Buf) -> bool {
    pointers::readable(buf.cast::<u8>().wrapping_add(MOST - 1), 1).is_err()
}

/// Whether it matters where a buffer is: TCP throws away what is received with MSG_TRUNC.
#[cold]
fn may_not_be_nowhere(at: usize, len: usize, flags: c_int) -> bool {
    flags & msg::TRUNC == 0 || is_beyond(at, len)
}

/// Into a buffer that cannot be one: the kernel finds out when it has something to copy, or at once if it
/// `is_beyond` the user's half.
#[cold]
fn receive_outside(fd: c_int, is_beyond: bool, flags: c_int) -> Outcome {
    if is_beyond && socket::stream::is_shared(fd) {
        return Outcome::Fail(Errno::EFAULT);
    }
    let mut byte = [0u8];
    let flags = flags & !msg::WAITALL | msg::PEEK;
    match receive(fd, once(Sink::from(&mut byte[..])), 1, flags) {
        Outcome::Done(1..) => Outcome::Fail(Errno::EFAULT),
        // (It may have become shared by that look.)
        Outcome::Fail(_) if is_beyond && socket::stream::is_shared(fd) => Outcome::Fail(Errno::EFAULT),
        other => other,
    }
}

/// From a buffer that cannot be one.
#[cold]
fn transmit_outside(fd: c_int, is_beyond: bool, flags: c_int) -> Outcome {
    if is_beyond && socket::stream::is_shared(fd) {
        return Outcome::Fail(Errno::EFAULT);
    }
    match transmit(fd, once(Source::from(&[][..])), 0, flags) {
        Outcome::Done(_) => Outcome::Fail(Errno::EFAULT),
        other => other,
    }
}

/// The program's iovec array, checked as the kernel checks it.
pub(crate) fn vectors<'a>(iov: Buf, count: c_int) -> Result<(IoVecs<'a>, usize), Errno> {
    let entries = usize::try_from(count).ok().filter(|_| count <= IOV_MAX).ok_or(Errno::EINVAL)?;
    pointers::readable(iov, entries * size_of::<IoVec>())?;
    // SAFETY: the program vouches for the array and what it points to, as it does towards libc.
    let vectors = unsafe { IoVecs::new(iov.cast::<IoVec>(), entries) };
    vectors.total().map(|total| (vectors, total)).ok_or(Errno::EINVAL)
}

/// The one buffer of a list of one, of which the kernel takes what it moves in one call, before it looks
/// where it ends. (A length that is negative stays an error.)
fn only_one(iov: Buf, count: c_int) -> Option<(Buf, usize)> {
    if count != 1 || pointers::readable(iov, size_of::<IoVec>()).is_err() {
        return None;
    }
    // SAFETY: one entry, which can be read: an address and a length.
    let [at, len] = unsafe { iov.cast::<[usize; 2]>().read_unaligned() };
    let is_cut = (MOST..=isize::MAX as usize).contains(&len);
    is_cut.then_some((core::ptr::with_exposed_provenance_mut(at), MOST))
}

pub(crate) fn receive_vectors(fd: c_int, iov: Buf, count: c_int, flags: c_int) -> Outcome {
    if !socket::stream::is_shared(fd) {
        return Outcome::Forward;
    }
    if let Some((at, len)) = only_one(iov, count) {
        return receive_into(fd, at, len, flags);
    }
    match vectors(iov, count) {
        Ok((vectors, _))
            if vectors.any(|at, len| is_nowhere(at, len) && may_not_be_nowhere(at, len, flags)) =>
        {
            receive_part(fd, vectors, flags)
        }
        Ok((vectors, total)) => receive(fd, vectors.sinks(), total, flags),
        Err(errno) => Outcome::Fail(errno),
    }
}

/// Some of the buffers cannot be any: what lies before them is used if it suffices.
#[cold]
fn receive_part(fd: c_int, vectors: IoVecs<'_>, flags: c_int) -> Outcome {
    let part = vectors.until(is_nowhere);
    let room = part.total().unwrap_or(0);
    if vectors.any(is_beyond) {
        return Outcome::Fail(Errno::EFAULT);
    }
    if room == 0 || socket::stream::readable_bytes(fd).is_none_or(|bytes| bytes > room) {
        return receive_outside(fd, false, flags);
    }
    receive(fd, part.sinks(), room, flags)
}

pub(crate) fn transmit_vectors(fd: c_int, iov: Buf, count: c_int, flags: c_int) -> Outcome {
    if !socket::stream::is_shared(fd) {
        return Outcome::Forward;
    }
    if let Some((at, len)) = only_one(iov, count) {
        return transmit_from(fd, at, len, flags);
    }
    match vectors(iov, count) {
        Ok((vectors, _)) if vectors.any(is_nowhere) => transmit_outside(fd, vectors.any(is_beyond), flags),
        Ok((vectors, total)) => transmit(fd, vectors.sources(), total, flags),
        Err(errno) => Outcome::Fail(errno),
    }
}

/// read(2) of nothing returns 0 at once, unlike recv(2).
fn zero_or(fd: c_int, at: usize, len: usize, outcome: impl FnOnce() -> Outcome) -> Outcome {
    match len == 0 && socket::stream::is_shared(fd) {
        true if is_beyond(at, len) => Outcome::Fail(Errno::EFAULT),
        true => Outcome::Done(0),
        false => outcome(),
    }
}

/// The same for a scatter list, which the kernel's file layer adds up before the socket hears of it.
#[inline]
fn zero_vectors_or(fd: c_int, iov: Buf, count: c_int, outcome: impl FnOnce() -> Outcome) -> Outcome {
    match vectors(iov, count) {
        Ok((vectors, 0)) if !vectors.any(is_beyond) => zero_or(fd, 0, 0, || Outcome::Forward),
        _ => outcome(),
    }
}

/// What flags of preadv2 and pwritev2 ask of a socket, as flags of a message. EOPNOTSUPP for what this
/// kernel does not know.
fn asked_by(fd: c_int, flags: c_int) -> Result<c_int, Errno> {
    /// RWF_HIPRI, RWF_DSYNC, RWF_SYNC, RWF_NOWAIT, RWF_APPEND and RWF_NOAPPEND of linux/fs.h.
    const KNOWN: c_int = 0x3f;
    const RWF_NOWAIT: c_int = 0x8;
    const RWF_NOSIGNAL: c_int = 0x100;
    if flags & !KNOWN != 0 && socket::stream::is_shared(fd) && is_unknown_to_kernel(fd, flags) {
        return Err(Errno::EOPNOTSUPP);
    }
    let waits = if flags & RWF_NOWAIT != 0 { msg::DONTWAIT } else { 0 };
    Ok(waits | if flags & RWF_NOSIGNAL != 0 { msg::NOSIGNAL } else { 0 })
}

/// Whether the kernel refuses these flags: a write from nowhere, which puts nothing into the socket, asks
/// it.
#[cold]
fn is_unknown_to_kernel(fd: c_int, flags: c_int) -> bool {
    if os::confined::is_confined() {
        return true;
    }
    let nowhere = [0usize, 1];
    let before = crate::hook::last();
    // SAFETY: one entry, of one byte at the null page, which the kernel finds missing.
    let wrote = unsafe { forward::pwritev2(fd, nowhere.as_ptr().cast_mut().cast(), 1, -1, flags) };
    let is_refused = wrote < 0 && crate::hook::last() == Errno::EOPNOTSUPP;
    let _ = crate::hook::fail(before);
    is_refused
}

data_hooks! {
    fn read [__read] (fd: c_int, buf: Buf, len: usize) -> isize {
        if len == 0 { zero_or(fd, buf.addr(), len, || Outcome::Forward) } else { receive_into(fd, buf, len, 0) }
    }
    fn __read_chk [] (fd: c_int, buf: Buf, len: usize, room: usize) -> isize {
        if len == 0 || len > room {
            zero_or(fd, buf.addr(), len, || Outcome::Forward)
        } else {
            receive_into(fd, buf, len, 0)
        }
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
            zero_vectors_or(fd, iov, count, || match asked_by(fd, flags) {
                Ok(flags) => receive_vectors(fd, iov, count, flags & msg::DONTWAIT),
                Err(errno) => Outcome::Fail(errno),
            })
        } else {
            Outcome::Forward
        }
    }
    fn pwritev2 [pwritev64v2] (fd: c_int, iov: Buf, count: c_int, offset: i64, flags: c_int) -> isize {
        if offset == -1 {
            zero_vectors_or(fd, iov, count, || match asked_by(fd, flags) {
                Ok(flags) => transmit_vectors(fd, iov, count, flags),
                Err(errno) => Outcome::Fail(errno),
            })
        } else {
            Outcome::Forward
        }
    }
    fn recv [] (fd: c_int, buf: Buf, len: usize, flags: c_int) -> isize {
        receive_into(fd, buf, len.min(MOST), flags)
    }
    fn __recv_chk [] (fd: c_int, buf: Buf, len: usize, room: usize, flags: c_int) -> isize {
        if len > room { Outcome::Forward } else { receive_into(fd, buf, len.min(MOST), flags) }
    }
    fn recvfrom [] (fd: c_int, buf: Buf, len: usize, flags: c_int, addr: Buf, addr_len: *mut u32) -> isize {
        without_address(receive_into(fd, buf, len.min(MOST), flags), addr, addr_len)
    }
    fn __recvfrom_chk [] (fd: c_int, buf: Buf, len: usize, room: usize, flags: c_int, addr: Buf, addr_len: *mut u32) -> isize {
        if len > room {
            Outcome::Forward
        } else {
            without_address(receive_into(fd, buf, len.min(MOST), flags), addr, addr_len)
        }
    }
    fn send [__send] (fd: c_int, buf: Buf, len: usize, flags: c_int) -> isize {
        transmit_from(fd, buf, len.min(MOST), flags)
    }
}

crate::hook::hooks! {
    fn sendto [] (fd: c_int, buf: Buf, len: usize, flags: c_int, addr: Buf, addr_len: u32) -> isize {
        crate::cancel::point();
        if flags & os::net::msg::FASTOPEN != 0 {
            crate::lifecycle::fast_opening(fd, addr, addr_len);
        }
        if socket::table::is_empty(fd) {
            Outcome::Forward
        } else {
            match address(addr, addr_len) {
                Err(errno) if socket::stream::is_shared(fd) => Outcome::Fail(errno),
                _ => transmit_from(fd, buf, len.min(MOST), flags),
            }
        }
    }
}

/// TCP reports no source address: the length becomes 0.
fn without_address(outcome: Outcome, addr: Buf, addr_len: *mut u32) -> Outcome {
    if addr.is_null() || !matches!(outcome, Outcome::Done(_)) {
        return outcome;
    }
    // (The bytes are taken by then, as the kernel has it.)
    if let Err(errno) = pointers::writable(addr_len, size_of::<u32>()) {
        return Outcome::Fail(errno);
    }
    // SAFETY: the program passed a place for the length, and it is there.
    let room = unsafe { &mut *addr_len };
    if room.cast_signed() < 0 {
        return Outcome::Fail(Errno::EINVAL);
    }
    *room = 0;
    outcome
}
