//! sendmsg, recvmsg and the multi-message calls. Owns: what a TCP socket leaves in `struct msghdr`.

use crate::data::{receive_vectors, transmit_vectors};
use crate::hook::{self, hooks};
use crate::pointers;
use crate::real::{Buf, forward};
use core::ffi::{c_int, c_void};
use os::Errno;
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

fn is_unknown(fd: c_int) -> bool {
    table::get(fd) == table::Entry::Empty
}

fn iov_count(header: &MsgHdr) -> Result<c_int, Errno> {
    c_int::try_from(header.iov_len).ok().filter(|count| *count <= crate::data::IOV_MAX).ok_or(Errno::EMSGSIZE)
}

fn receive_message(fd: c_int, msg: Buf, flags: c_int) -> Outcome {
    if msg.is_null() {
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
        header.name_len = 0;
        header.control_len = 0;
        header.flags = 0;
    }
    outcome
}

fn transmit_message(fd: c_int, msg: Buf, flags: c_int) -> Outcome {
    if is_unknown(fd) {
        keep_passed_sockets_plain(msg);
        return Outcome::Forward;
    }
    if !socket::stream::is_shared(fd) || msg.is_null() {
        return Outcome::Forward;
    }
    if let Err(errno) = pointers::readable(msg, size_of::<MsgHdr>()) {
        return Outcome::Fail(errno);
    }
    // SAFETY: the program passed a msghdr.
    let header = unsafe { &*msg.cast::<MsgHdr>() };
    let count =
        crate::pointers::address(header.name, header.name_len.min(128)).and_then(|()| iov_count(header));
    match count {
        Ok(count) => transmit_vectors(fd, header.iov, count, flags),
        Err(errno) => Outcome::Fail(errno),
    }
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
    if crate::lifecycle::is_active() {
        each_passed(msg, |passed| {
            if table::get(passed) == table::Entry::Empty {
                server::adopt(passed);
            }
        });
    }
}

/// Runs `one` over an array of messages, as the kernel does: the count so far, or the first error.
fn each(msgs: Buf, count: u32, mut one: impl FnMut(Buf, u32) -> isize) -> Outcome {
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
        unsafe { (*entry).len = moved as u32 };
    }
    Outcome::Done(count as usize)
}

hooks! {
    fn recvmsg [] (fd: c_int, msg: Buf, flags: c_int) -> isize {
        receive_message(fd, msg, flags)
    }
    fn sendmsg [] (fd: c_int, msg: Buf, flags: c_int) -> isize {
        if flags & os::net::msg::FASTOPEN != 0 && !msg.is_null() {
            // SAFETY: the program passed a msghdr.
            let header = unsafe { &*msg.cast::<MsgHdr>() };
            crate::lifecycle::fast_opening(fd, header.name, header.name_len);
        }
        transmit_message(fd, msg, flags)
    }
    fn recvmmsg [] (fd: c_int, msgs: Buf, count: u32, flags: c_int, time: Buf) -> c_int {
        if is_unknown(fd) {
            // SAFETY: the program's own arguments.
            let got = unsafe { forward::recvmmsg(fd, msgs, count, flags, time) };
            for index in 0..u32::try_from(got).unwrap_or(0) {
                // SAFETY: so many of the program's entries were filled, and the message header comes first.
                adopt_passed(unsafe { msgs.cast::<MMsgHdr>().add(index as usize) }.cast());
            }
            if got < 0 { Outcome::Fail(hook::last()) } else { Outcome::Done(got as usize) }
        } else if !socket::stream::is_shared(fd) {
            Outcome::Forward
        } else if let Err(errno) = pointers::time(time.cast_const().cast()) {
            Outcome::Fail(errno)
        } else {
            each(msgs, count, |msg, index| {
                let waits_once = flags & MSG_WAITFORONE != 0 && index > 0;
                let flags = flags & !MSG_WAITFORONE | if waits_once { os::net::msg::DONTWAIT } else { 0 };
                // SAFETY: one of the program's own messages.
                unsafe { recvmsg(fd, msg, flags) }
            })
        }
    }
    fn sendmmsg [] (fd: c_int, msgs: Buf, count: u32, flags: c_int) -> c_int {
        if is_unknown(fd) {
            for index in 0..if msgs.is_null() { 0 } else { count.min(1024) } {
                // SAFETY: the program passed `count` entries, of which the message header comes first.
                keep_passed_sockets_plain(unsafe { msgs.cast::<MMsgHdr>().add(index as usize) }.cast());
            }
            Outcome::Forward
        } else if !socket::stream::is_shared(fd) {
            Outcome::Forward
        } else {
            // SAFETY: one of the program's own messages.
            each(msgs, count.min(1024), |msg, _| unsafe { sendmsg(fd, msg, flags) })
        }
    }
}
