//! fcntl, ioctl, setsockopt: the few requests that concern shared memory; the rest is the kernel socket's.
//! Owns: O_NONBLOCK's copy in the slot, and the refusal of what only TCP can do.

mod by_page;

use crate::hook::{self, descriptor_hooks, hooks};
use crate::lifecycle::{duplicated, duplicated_elsewhere, is_borrowed, made, passed_on};
use crate::pointers;
use crate::real::{Buf, forward};
use core::ffi::c_int;
use os::net::opt;
use socket::confine::stays_out;
use socket::table::{self, Entry};
use socket::{Errno, Outcome, Reason, decide, home, push, queue, server, stream};

const F_DUPFD: c_int = 0;
const F_SETFL: c_int = 4;
const F_DUPFD_CLOEXEC: c_int = 1030;
const F_SETOWN: c_int = 8;
const F_SETSIG: c_int = 10;
const F_SETOWN_EX: c_int = 15;
const O_NONBLOCK: usize = 0o4000;
const O_ASYNC: usize = 0o20000;
const FIONREAD: u64 = 0x541B;
/// TIOCOUTQ as well.
const SIOCOUTQ: u64 = 0x5411;
const SIOCOUTQNSD: u64 = 0x894B;
const SIOCATMARK: u64 = 0x8905;
const FIONBIO: u64 = 0x5421;
const FIOASYNC: u64 = 0x5452;
const FIOSETOWN: u64 = 0x8901;
const SIOCSPGRP: u64 = 0x8902;
/// Of linux/nbd.h: its argument is a socket.
const NBD_SET_SOCK: u64 = 0xAB00;

fn control(fd: c_int, cmd: c_int, arg: usize, libc_fcntl: impl Fn() -> c_int) -> Outcome {
    let makes_one = matches!(cmd, F_DUPFD | F_DUPFD_CLOEXEC);
    if table::get(fd) == Entry::Empty {
        return if makes_one { passed_on(made(libc_fcntl)) } else { Outcome::Forward };
    }
    match cmd {
        F_DUPFD | F_DUPFD_CLOEXEC if is_borrowed() => duplicated_elsewhere(fd, made(libc_fcntl)),
        F_DUPFD | F_DUPFD_CLOEXEC => duplicated(fd, made(libc_fcntl)),
        F_SETFL => {
            let result = libc_fcntl();
            if result < 0 {
                return Outcome::Fail(hook::last());
            }
            stream::note_nonblocking(fd, arg & O_NONBLOCK != 0);
            socket::signals::note_signal_driven(fd, arg & O_ASYNC != 0);
            Outcome::Done(result as usize)
        }
        F_SETOWN | F_SETSIG | F_SETOWN_EX => owner_set(fd, libc_fcntl()),
        _ => Outcome::Forward,
    }
}

/// After a call that changes who is signalled, or by what.
fn owner_set(fd: c_int, result: c_int) -> Outcome {
    if result < 0 {
        return Outcome::Fail(hook::last());
    }
    socket::signals::note_signal_owner(fd);
    Outcome::Done(result as usize)
}

fn request(fd: c_int, request: u64, arg: usize) -> Outcome {
    if request == NBD_SET_SOCK {
        give_to_kernel(arg as c_int);
    }
    if table::get(fd) == Entry::Empty {
        return Outcome::Forward;
    }
    let count = match request {
        FIONREAD => stream::readable_bytes(fd),
        SIOCOUTQ | SIOCOUTQNSD => queue::unacknowledged(fd),
        // Urgent data goes over TCP, behind what is in the ring.
        SIOCATMARK => stream::has_ring_bytes(fd).then_some(0),
        FIONBIO => return switch_nonblocking(fd, request, arg),
        FIOASYNC => return switch_signals(fd, request, arg),
        // SAFETY: the program's own arguments.
        FIOSETOWN | SIOCSPGRP => return owner_set(fd, unsafe { forward::ioctl(fd, request, arg) }),
        _ => None,
    };
    let (Some(count), place) = (count, arg as *mut c_int) else { return Outcome::Forward };
    if pointers::writable(place, size_of::<c_int>()).is_err() {
        return Outcome::Forward;
    }
    // SAFETY: these requests take a pointer to int, and it is there.
    unsafe { place.write_unaligned(c_int::try_from(count).unwrap_or(c_int::MAX)) };
    Outcome::Done(0)
}

/// From now on the kernel itself moves the connection's bytes.
fn give_to_kernel(socket: c_int) {
    decide::refuse(socket);
    home::take(socket, Reason::OPTUNSUPP);
}

fn switch_nonblocking(fd: c_int, request: u64, arg: usize) -> Outcome {
    // SAFETY: the program's own arguments.
    let result = unsafe { forward::ioctl(fd, request, arg) };
    if result < 0 {
        return Outcome::Fail(hook::last());
    }
    // SAFETY: libc accepted the pointer to int.
    stream::note_nonblocking(fd, unsafe { *(arg as *const c_int) } != 0);
    Outcome::Done(0)
}

fn switch_signals(fd: c_int, request: u64, arg: usize) -> Outcome {
    // SAFETY: the program's own arguments.
    let result = unsafe { forward::ioctl(fd, request, arg) };
    if result < 0 {
        return Outcome::Fail(hook::last());
    }
    // SAFETY: libc accepted the pointer to int.
    socket::signals::note_signal_driven(fd, unsafe { *(arg as *const c_int) } != 0);
    Outcome::Done(0)
}

/// An option's value as an int, where it is one.
fn int_value(value: Buf, len: u32) -> Option<c_int> {
    let is_int = len >= 4 && pointers::readable(value, size_of::<c_int>()).is_ok();
    // SAFETY: the program passed a value of this length, and it is there.
    is_int.then(|| unsafe { value.cast::<c_int>().read_unaligned() })
}

/// Options that work on TCP's own bytes: a socket that sets one stays on TCP, as kernel SMC falls back.
/// (SO_ZEROCOPY alone changes nothing: a send with MSG_ZEROCOPY moves its direction to TCP.)
fn needs_tcp(name: c_int, value: Buf, len: u32) -> bool {
    match name {
        opt::TCP_FASTOPEN_CONNECT | opt::TCP_REPAIR => int_value(value, len) != Some(0),
        opt::TCP_ULP | opt::TCP_MD5SIG | opt::TCP_MD5SIG_EXT | opt::TCP_AO_ADD_KEY => true,
        _ => false,
    }
}

/// Before an option is set.
fn option(fd: c_int, level: c_int, name: c_int, value: Buf, len: u32) -> Outcome {
    if level != opt::IPPROTO_TCP || !crate::lifecycle::is_active() {
        return Outcome::Forward;
    }
    if name == opt::TCP_DEFER_ACCEPT {
        let is_done = int_value(value, len).is_some_and(|seconds| server::defer(fd, seconds));
        return if is_done { Outcome::Done(0) } else { Outcome::Forward };
    }
    if !needs_tcp(name, value, len) {
        return Outcome::Forward;
    }
    keep_plain(fd);
    // (Of a connected socket the kernel refuses TCP_FASTOPEN_CONNECT itself.)
    if stream::is_shared(fd) && name != opt::TCP_FASTOPEN_CONNECT {
        return Outcome::Fail(refusal(fd, name, value, len));
    }
    Outcome::Forward
}

/// What a shared connection answers to an option that needs TCP: what the kernel would find wrong with it, or
/// that it is not supported. (kTLS is no use to a socket that is not connected, such as the one that is
/// asked.)
#[cold]
fn refusal(fd: c_int, name: c_int, value: Buf, len: u32) -> Errno {
    let complaint = os::net::complaint(fd, (opt::IPPROTO_TCP, name), value.addr(), len);
    complaint.filter(|errno| *errno != Errno::ENOTCONN).unwrap_or(Errno::EOPNOTSUPP)
}

/// After an option was set.
fn option_set(fd: c_int, level: c_int, name: c_int, value: Buf, len: u32) {
    let is_on = || int_value(value, len).is_some_and(|value| value != 0);
    match (level, name) {
        (opt::IPPROTO_TCP, opt::TCP_INQ) => queue::note_inq_is_used(),
        (opt::IPPROTO_TCP, opt::TCP_CORK) => push::note_cork(fd, is_on()),
        (opt::IPPROTO_TCP, opt::TCP_NODELAY) if socket::has_been_any() && is_on() => push::now(fd),
        _ => {}
    }
    if level != opt::SOL_SOCKET {
        return;
    }
    match name {
        opt::SO_RCVLOWAT => stream::note_rcvlowat(fd),
        opt::SO_SNDBUF | opt::SO_RCVBUF | opt::SO_SNDBUFFORCE | opt::SO_RCVBUFFORCE => {
            stream::note_buffers(fd)
        }
        opt::SO_PEEK_OFF => stream::note_peek_offset(fd),
        // Only the kernel knows when its own bytes came.
        name if opt::SO_TIMESTAMPS.contains(&name) && crate::lifecycle::is_active() && is_on() => {
            keep_plain(fd);
        }
        // Connections on this host arrive by the loopback device: bound to that or to none, a socket is
        // found there.
        opt::SO_BINDTODEVICE | opt::SO_BINDTOIFINDEX
            if crate::lifecycle::is_active()
                && os::net::bound_device(fd).unsigned_abs() > os::net::LOOPBACK =>
        {
            keep_plain(fd);
        }
        _ => {}
    }
}

/// A socket that is not connected yet, or whose way is not decided, stays on TCP; and what a listener
/// accepts, which inherits the option.
fn keep_plain(fd: c_int) {
    if server::stop(fd) {
        return;
    }
    if table::get(fd) == Entry::Empty || socket::epoll::is_fresh(fd) {
        crate::lifecycle::leave_fresh(fd);
        table::refuse(fd, Reason::OPTUNSUPP);
    } else {
        decide::refuse(fd);
    }
}

/// A negative time limit lets no call wait, and the kernel tells it as none: a socket that has it before its
/// way is decided stays on TCP.
fn note_timeout(fd: c_int, name: c_int, time: [i64; 2]) {
    if time[0] < 0 && !stream::is_shared(fd) && crate::lifecycle::is_active() {
        return keep_plain(fd);
    }
    stream::note_timeout(fd, name, (time[0] >= 0).then(|| os::net::nanoseconds(time)));
}

fn is_timeout(name: c_int) -> bool {
    matches!(name, opt::SO_RCVTIMEO | opt::SO_SNDTIMEO | opt::SO_RCVTIMEO_NEW | opt::SO_SNDTIMEO_NEW)
}

/// sockatmark(3), which is an ioctl inside libc.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sockatmark(fd: c_int) -> c_int {
    let mut is_at: c_int = 0;
    // SAFETY: the request writes one int, and it is there.
    let told = unsafe { ioctl(fd, SIOCATMARK, (&raw mut is_at) as usize) };
    if told < 0 { -1 } else { is_at }
}

hooks! {
    fn fcntl [__fcntl] (fd: c_int, cmd: c_int, arg: usize) -> c_int {
        // SAFETY: the program's own arguments.
        control(fd, cmd, arg, || unsafe { forward::fcntl(fd, cmd, arg) })
    }
    fn fcntl64 [] (fd: c_int, cmd: c_int, arg: usize) -> c_int {
        // SAFETY: the program's own arguments.
        control(fd, cmd, arg, || unsafe { forward::fcntl64(fd, cmd, arg) })
    }
    fn ioctl [] (fd: c_int, number: u64, arg: usize) -> c_int {
        // C passes requests as int or unsigned long; the upper half is noise.
        request(fd, number & 0xffff_ffff, arg)
    }
    fn setsockopt [] (fd: c_int, level: c_int, name: c_int, value: Buf, len: u32) -> c_int {
        if level == opt::SOL_SOCKET && is_timeout(name) {
            stream::note_timeout_is_used();
        }
        if level == opt::SOL_SOCKET && name == opt::SO_LINGER {
            queue::note_linger_is_used();
        }
        if stays_out() {
            // SAFETY: the program's own arguments.
            return unsafe { forward::setsockopt(fd, level, name, value, len) };
        }
        match option(fd, level, name, value, len) {
            Outcome::Forward => {
                // SAFETY: the program's own arguments.
                let result = unsafe { forward::setsockopt(fd, level, name, value, len) };
                if result != 0 {
                    return hook::fail(hook::last()) as c_int;
                }
                option_set(fd, level, name, value, len);
                if level == opt::SOL_SOCKET && is_timeout(name) {
                    // SAFETY: the kernel has just read a `struct timeval` there.
                    let time = unsafe { value.cast::<[i64; 2]>().read_unaligned() };
                    note_timeout(fd, name, time);
                }
                Outcome::Done(0)
            }
            other => other,
        }
    }
}

descriptor_hooks! {
    fn getsockopt [] (fd: c_int, level: c_int, name: c_int, value: Buf, len: *mut u32) -> c_int {
        match (level, name) {
            (opt::IPPROTO_TCP, opt::TCP_DEFER_ACCEPT) => tell_deferral(fd, value, len),
            (opt::IPPROTO_TCP, opt::TCP_ZEROCOPY_RECEIVE) => by_page::receive(fd, value, len),
            (opt::SOL_SOCKET, opt::SO_ERROR) => tell_error(fd, value, len),
            _ => Outcome::Forward,
        }
    }
}

fn tell_deferral(fd: c_int, value: Buf, len: *mut u32) -> Outcome {
    match server::deferral(fd) {
        Some(seconds) => {
            tell_instead(fd, (opt::IPPROTO_TCP, opt::TCP_DEFER_ACCEPT), value, len, seconds.cast_signed())
        }
        None => Outcome::Forward,
    }
}

/// A peer that was killed with bytes of the ring unread: TCP would have told ECONNRESET.
fn tell_error(fd: c_int, value: Buf, len: *mut u32) -> Outcome {
    let is_there = pointers::writable(len, size_of::<u32>()).is_ok() && pointers::writable(value, 4).is_ok();
    match if is_there { socket::told::take_reset(fd) } else { None } {
        Some(errno) => tell_instead(fd, (opt::SOL_SOCKET, opt::SO_ERROR), value, len, errno.0),
        None => Outcome::Forward,
    }
}

/// The kernel checks the program's pointers, and writes its own answer, first.
fn tell_instead(fd: c_int, option: (c_int, c_int), value: Buf, len: *mut u32, told: c_int) -> Outcome {
    // SAFETY: the program's own arguments.
    if unsafe { forward::getsockopt(fd, option.0, option.1, value, len) } != 0 {
        return Outcome::Fail(hook::last());
    }
    let bytes = told.to_ne_bytes();
    // SAFETY: the kernel has written so many bytes there, and their number.
    unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), value.cast(), (*len as usize).min(bytes.len())) };
    Outcome::Done(0)
}
