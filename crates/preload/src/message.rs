//! sendmsg, recvmsg and the multi-message calls. Owns: what a TCP socket leaves in `struct msghdr`.

use crate::cancel;
use crate::data::{receive_vectors, transmit_vectors};
use crate::hook::{self, hooks};
use crate::pointers;
use crate::real::{Buf, forward};
use core::ffi::{c_int, c_void};
use os::Errno;
use os::net::opt;
use socket::{Outcome, server, table};

/// `struct msghdr`.
#[repr(C)]
struct MsgHdr {
    name: *mut c_void,
    name_len: u32,
    iov: *mut c_void,
    iov_len: usize,
    control: *mut c_void,
    control_len: usize,
    flags: c_int,
}

/// `struct mmsghdr`.
#[repr(C)]
struct MMsgHdr {
    header: MsgHdr,
    len: u32,
}

/// `struct cmsghdr`.
#[repr(C)]
struct CMsgHdr {
    len: usize,
    level: c_int,
    kind: c_int,
}

const SOL_SOCKET: c_int = 1;
const SCM_RIGHTS: c_int = 1;
const MSG_WAITFORONE: c_int = 0x10000;
/// The kernel's own mark of a call by a 32-bit program, which it refuses from anybody else, whatever the
/// socket.
const MSG_CMSG_COMPAT: c_int = c_int::MIN;
/// The one flag of a call that comes back in `msg_flags`.
const MSG_CMSG_CLOEXEC: c_int = 0x4000_0000;

fn is_unknown(fd: c_int) -> bool {
    table::get(fd) == table::Entry::Empty
}

/// As the kernel looks at a msghdr: the address first, then the number of buffers.
fn iov_count(header: &MsgHdr) -> Result<c_int, Errno> {
    if !header.name.is_null() && header.name_len.cast_signed() < 0 {
        return Err(Errno::EINVAL);
    }
    c_int::try_from(header.iov_len).ok().filter(|count| *count <= crate::data::IOV_MAX).ok_or(Errno::EMSGSIZE)
}

fn receive_message(fd: c_int, msg: Buf, flags: c_int) -> Outcome {
    if msg.is_null() || flags & MSG_CMSG_COMPAT != 0 {
        return Outcome::Forward;
    }
    if is_unknown(fd) || !socket::stream::is_shared(fd) {
        return receive_passed(fd, msg, flags);
    }
    if let Err(errno) = pointers::writable(msg, size_of::<MsgHdr>()) {
        return Outcome::Fail(errno);
    }
    // SAFETY: the program passed a msghdr for the call to fill in.
    let header = unsafe { &mut *msg.cast::<MsgHdr>() };
    let outcome = match iov_count(header) {
        Ok(count) => receive_vectors(fd, header.iov, count, flags),
        Err(errno) => Outcome::Fail(errno),
    };
    if let Outcome::Done(_) = outcome {
        if !header.name.is_null() {
            header.name_len = 0;
        }
        header.flags = flags & MSG_CMSG_CLOEXEC;
        let room = if header.control.is_null() { 0 } else { header.control_len };
        header.control_len = match socket::queue::left_to_read(fd) {
            Some(left) => put_left(header, room, left),
            None => 0,
        };
    }
    outcome
}

/// Ancillary data of TCP_INQ, or as much of it as there is `room` for, as put_cmsg of net/core/scm.c has it;
/// returns what it takes.
fn put_left(header: &mut MsgHdr, room: usize, left: usize) -> usize {
    const MSG_CTRUNC: c_int = 0x8;
    const LEN: usize = size_of::<CMsgHdr>() + size_of::<c_int>();
    if room < LEN {
        header.flags |= MSG_CTRUNC;
    }
    if room < size_of::<CMsgHdr>() || pointers::writable(header.control, room.min(LEN)).is_err() {
        return 0;
    }
    let piece = CMsgHdr { len: room.min(LEN), level: opt::IPPROTO_TCP, kind: opt::TCP_INQ };
    let left = c_int::try_from(left).unwrap_or(c_int::MAX).to_ne_bytes();
    let rest = piece.len - size_of::<CMsgHdr>();
    // SAFETY: the program's buffer has room for the piece's head and so much of its number, and is there.
    unsafe {
        let at = header.control.cast::<u8>();
        at.cast::<CMsgHdr>().write_unaligned(piece);
        core::ptr::copy_nonoverlapping(left.as_ptr(), at.add(size_of::<CMsgHdr>()), rest);
    }
    room.min(LEN.next_multiple_of(size_of::<usize>()))
}

fn transmit_message(fd: c_int, msg: Buf, flags: c_int) -> Outcome {
    if flags & MSG_CMSG_COMPAT != 0 {
        return Outcome::Forward;
    }
    if is_unknown(fd) {
        return pass_on(fd, msg, flags);
    }
    if !socket::stream::is_shared(fd) || msg.is_null() {
        return Outcome::Forward;
    }
    if let Err(errno) = pointers::readable(msg, size_of::<MsgHdr>()) {
        return Outcome::Fail(errno);
    }
    // SAFETY: the program passed a msghdr.
    let header = unsafe { &*msg.cast::<MsgHdr>() };
    let count = iov_count(header).and_then(|count| {
        pointers::address(header.name, header.name_len.min(128))?;
        control_is_accepted(fd, header, flags).map(|()| count)
    });
    match count {
        Ok(count) => transmit_vectors(fd, header.iov, count, flags),
        Err(errno) => Outcome::Fail(errno),
    }
}

/// What TCP says to ancillary data: the kernel's own socket is sent it, with no bytes.
fn control_is_accepted(fd: c_int, header: &MsgHdr, flags: c_int) -> Result<(), Errno> {
    if header.control_len == 0 {
        return Ok(());
    }
    let mut bare = MsgHdr {
        name: core::ptr::null_mut(),
        name_len: 0,
        iov: core::ptr::null_mut(),
        iov_len: 0,
        control: header.control,
        control_len: header.control_len,
        flags: 0,
    };
    let flags = flags & os::net::msg::NOSIGNAL | os::net::msg::DONTWAIT;
    // SAFETY: a header of ours around the program's own control data, for the call it made.
    let sent = unsafe { forward::sendmsg(fd, (&raw mut bare).cast(), flags) };
    match hook::last() {
        // (Of a connection that is not there yet: the rest of the call waits for it.)
        Errno::EAGAIN => Ok(()),
        errno if sent < 0 => Err(errno),
        _ => Ok(()),
    }
}

/// Whether there was ever a socket or a set of ours.
fn has_anything_to_pass() -> bool {
    socket::has_been_any() || socket::has_been_any_set()
}

/// A message by a socket that is none of ours, which may pass one that is.
fn pass_on(fd: c_int, msg: Buf, flags: c_int) -> Outcome {
    if !has_anything_to_pass() {
        return Outcome::Forward;
    }
    keep_passed_sockets_plain(msg);
    // SAFETY: the program's own arguments.
    let sent = unsafe { forward::sendmsg(fd, msg, flags) };
    if sent >= 0 {
        return Outcome::Done(sent as usize);
    }
    let errno = hook::last();
    if !msg.is_null() {
        each_passed(msg, socket::lend::after_failed_passing);
    }
    Outcome::Fail(errno)
}

/// A socket passed to another process before its first use stays on TCP: the receiver may not have the
/// library. One in use is not this process's alone any more.
fn keep_passed_sockets_plain(msg: Buf) {
    if !msg.is_null() {
        each_passed(msg, socket::lend::before_passing);
    }
}

/// Calls `visit` with every descriptor in the SCM_RIGHTS parts of a message.
fn each_passed(msg: Buf, visit: impl Fn(c_int)) {
    if pointers::readable(msg, size_of::<MsgHdr>()).is_err() {
        return;
    }
    // SAFETY: the program passed a msghdr, filled in by itself or by libc.
    let header = unsafe { &*msg.cast::<MsgHdr>() };
    if pointers::readable(header.control, header.control_len).is_err() {
        return;
    }
    let mut at = 0;
    while !header.control.is_null() && at + size_of::<CMsgHdr>() <= header.control_len {
        // SAFETY: inside the control buffer, whose length the program gave.
        let part = unsafe { header.control.cast::<u8>().add(at).cast::<CMsgHdr>().read_unaligned() };
        if part.len < size_of::<CMsgHdr>() || at + part.len > header.control_len {
            return;
        }
        if part.level == SOL_SOCKET && part.kind == SCM_RIGHTS {
            for index in 0..(part.len - size_of::<CMsgHdr>()) / size_of::<c_int>() {
                let offset = at + size_of::<CMsgHdr>() + index * size_of::<c_int>();
                // SAFETY: inside this part, checked above.
                visit(unsafe { header.control.cast::<u8>().add(offset).cast::<c_int>().read_unaligned() });
            }
        }
        at += part.len.next_multiple_of(size_of::<usize>());
    }
}

/// A message on a socket that is not ours may bring sockets that are.
fn receive_passed(fd: c_int, msg: Buf, flags: c_int) -> Outcome {
    // SAFETY: the program's own arguments.
    let got = unsafe { forward::recvmsg(fd, msg, flags) };
    if got < 0 {
        return Outcome::Fail(hook::last());
    }
    adopt_passed(msg);
    Outcome::Done(got as usize)
}

fn adopt_passed(msg: Buf) {
    if crate::lifecycle::is_active() && !socket::confine::stays_out() {
        each_passed(msg, |passed| {
            if table::get(passed) == table::Entry::Empty {
                server::adopt_passed(passed);
            }
        });
    }
}

/// Runs `one` over an array of messages, as the kernel does: the count so far, or the first error. After each
/// it asks whether that was all, of what the call said of it.
fn each(
    msgs: Buf,
    count: u32,
    mut one: impl FnMut(Buf, u32) -> isize,
    mut is_over: impl FnMut(&MsgHdr, usize) -> bool,
) -> Outcome {
    for index in 0..count {
        // SAFETY: the program passed `count` entries.
        let entry = unsafe { msgs.cast::<MMsgHdr>().add(index as usize) };
        let moved = match pointers::writable(entry, size_of::<MMsgHdr>()) {
            Ok(()) => one(entry.cast(), index),
            Err(errno) => hook::fail(errno),
        };
        if moved < 0 {
            return if index == 0 { Outcome::Fail(hook::last()) } else { Outcome::Done(index as usize) };
        }
        // SAFETY: as above; the length is the call's to write.
        let entry = unsafe { &mut *entry };
        entry.len = moved as u32;
        if is_over(&entry.header, moved as usize) {
            return Outcome::Done(index as usize + 1);
        }
    }
    Outcome::Done(count as usize)
}

/// Whether a message went out in part: what follows it must not come before its rest.
fn is_cut_short(header: &MsgHdr, sent: usize) -> bool {
    let count = c_int::try_from(header.iov_len).unwrap_or(0);
    crate::data::vectors(header.iov, count).is_ok_and(|(_, total)| sent < total)
}

/// recvmmsg on a shared connection. The time limit is looked at after each message, and only then; what is
/// left of it is written back if there was any. An error that a message found is told by the next call, if it
/// is the connection's.
fn receive_messages(fd: c_int, msgs: Buf, count: u32, flags: c_int, time: Buf) -> Outcome {
    let limit = match pointers::time(time.cast_const().cast()) {
        Ok(limit) => limit,
        Err(errno) => return Outcome::Fail(errno),
    };
    if flags & os::net::msg::ERRQUEUE == 0
        && let Some(errno) = socket::told::take_error(fd)
    {
        return Outcome::Fail(errno);
    }
    let end = limit.map(|time| os::time::monotonic_ns().saturating_add(crate::poll::nanoseconds(time, 1)));
    let left = || end.map(|end| end.saturating_sub(os::time::monotonic_ns()));
    let mut told = None;
    let one = |msg, index| {
        let waits_once = flags & MSG_WAITFORONE != 0 && index > 0;
        let flags = flags & !MSG_WAITFORONE | if waits_once { os::net::msg::DONTWAIT } else { 0 };
        let got = receive_one(fd, msg, flags);
        if got < 0 && index > 0 {
            socket::told::tell_again(fd, hook::last());
        }
        got
    };
    let outcome = each(msgs, count, one, |_, _| {
        told = left();
        told == Some(0)
    });
    if let (Outcome::Done(1..), Some(left)) = (outcome, told)
        && pointers::writable(time, size_of::<[i64; 2]>()).is_ok()
    {
        let left = [(left / 1_000_000_000) as i64, (left % 1_000_000_000) as i64];
        // SAFETY: the program's time limit, which can be written to.
        unsafe { time.cast::<[i64; 2]>().write_unaligned(left) };
    }
    outcome
}

/// recvmsg, as one of several: a thread is not cancelled between them.
fn receive_one(fd: c_int, msg: Buf, flags: c_int) -> isize {
    // SAFETY: one of the program's own messages.
    hook::finish(receive_message(fd, msg, flags))
        .unwrap_or_else(|| unsafe { forward::recvmsg(fd, msg, flags) })
}

/// The same of sendmsg.
fn transmit_one(fd: c_int, msg: Buf, flags: c_int) -> isize {
    // SAFETY: one of the program's own messages.
    hook::finish(transmit_message(fd, msg, flags))
        .unwrap_or_else(|| unsafe { forward::sendmsg(fd, msg, flags) })
}

hooks! {
    fn recvmsg [] (fd: c_int, msg: Buf, flags: c_int) -> isize {
        cancel::point();
        receive_message(fd, msg, flags)
    }
    fn sendmsg [] (fd: c_int, msg: Buf, flags: c_int) -> isize {
        cancel::point();
        if flags & os::net::msg::FASTOPEN != 0 && pointers::readable(msg, size_of::<MsgHdr>()).is_ok() {
            // SAFETY: the program passed a msghdr, and it is there.
            let header = unsafe { &*msg.cast::<MsgHdr>() };
            crate::lifecycle::fast_opening(fd, header.name, header.name_len);
        }
        transmit_message(fd, msg, flags)
    }
    fn recvmmsg [] (fd: c_int, msgs: Buf, count: u32, flags: c_int, time: Buf) -> c_int {
        cancel::point();
        if is_unknown(fd) {
            // SAFETY: the program's own arguments.
            let got = unsafe { forward::recvmmsg(fd, msgs, count, flags, time) };
            for index in 0..u32::try_from(got).unwrap_or(0) {
                // SAFETY: so many of the program's entries were filled, and the message header comes first.
                adopt_passed(unsafe { msgs.cast::<MMsgHdr>().add(index as usize) }.cast());
            }
            if got < 0 { Outcome::Fail(hook::last()) } else { Outcome::Done(got as usize) }
        } else if flags & MSG_CMSG_COMPAT != 0 || !socket::stream::is_shared(fd) {
            Outcome::Forward
        } else {
            receive_messages(fd, msgs, count, flags, time)
        }
    }
    fn sendmmsg [] (fd: c_int, msgs: Buf, count: u32, flags: c_int) -> c_int {
        cancel::point();
        if is_unknown(fd) {
            for index in 0..if msgs.is_null() || !has_anything_to_pass() { 0 } else { count.min(1024) } {
                // SAFETY: the program passed `count` entries, of which the message header comes first.
                keep_passed_sockets_plain(unsafe { msgs.cast::<MMsgHdr>().add(index as usize) }.cast());
            }
            Outcome::Forward
        } else if flags & MSG_CMSG_COMPAT != 0 || !socket::stream::is_shared(fd) {
            Outcome::Forward
        } else {
            each(msgs, count.min(1024), |msg, _| transmit_one(fd, msg, flags), is_cut_short)
        }
    }
}
