//! fcntl, ioctl, setsockopt: the few requests that concern shared memory; the rest is the kernel socket's.
//! Owns: O_NONBLOCK's copy in the slot, and the refusal of what only TCP can do.

use crate::hook::{self, hooks};
use crate::lifecycle::{duplicated, is_borrowed};
use crate::real::{Buf, forward};
use core::ffi::c_int;
use os::net::opt;
use socket::table::{self, Entry};
use socket::{Errno, Outcome, server, stream};

const F_DUPFD: c_int = 0;
const F_SETFL: c_int = 4;
const F_DUPFD_CLOEXEC: c_int = 1030;
const O_NONBLOCK: usize = 0o4000;
const O_ASYNC: usize = 0o20000;
const FIONREAD: u64 = 0x541B;
const SIOCOUTQ: u64 = 0x5411;
const FIONBIO: u64 = 0x5421;
const FIOASYNC: u64 = 0x5452;

fn control(fd: c_int, cmd: c_int, arg: usize, libc_fcntl: impl Fn() -> c_int) -> Outcome {
    if table::get(fd) == Entry::Empty {
        return Outcome::Forward;
    }
    match cmd {
        F_DUPFD | F_DUPFD_CLOEXEC if !is_borrowed() => duplicated(fd, libc_fcntl()),
        F_SETFL => {
            if arg & O_ASYNC != 0 {
                server::refuse(fd);
            }
            let result = libc_fcntl();
            if result < 0 {
                return Outcome::Fail(hook::last());
            }
            stream::note_nonblocking(fd, arg & O_NONBLOCK != 0);
            socket::ready::note_signal_driven(fd, arg & O_ASYNC != 0);
            Outcome::Done(result as usize)
        }
        _ => Outcome::Forward,
    }
}

fn request(fd: c_int, request: u64, arg: usize) -> Outcome {
    if table::get(fd) == Entry::Empty {
        return Outcome::Forward;
    }
    let count = match request {
        FIONREAD => stream::readable_bytes(fd),
        SIOCOUTQ => stream::unread_by_peer(fd),
        FIONBIO => return switch_nonblocking(fd, request, arg),
        FIOASYNC => {
            server::refuse(fd);
            // SAFETY: the request takes a pointer to int, null or not.
            let on = unsafe { (arg as *const c_int).as_ref() }.is_some_and(|on| *on != 0);
            socket::ready::note_signal_driven(fd, on);
            None
        }
        _ => None,
    };
    let (Some(count), false) = (count, arg == 0) else { return Outcome::Forward };
    // SAFETY: these requests take a pointer to int.
    unsafe { *(arg as *mut c_int) = c_int::try_from(count).unwrap_or(c_int::MAX) };
    Outcome::Done(0)
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

/// Options that work on TCP's own bytes: a socket that sets one stays on TCP, as kernel SMC falls back.
fn needs_tcp(level: c_int, name: c_int) -> bool {
    match level {
        // (The kernel does not find a socket by its addresses that is bound to a device.)
        opt::SOL_SOCKET => matches!(name, opt::SO_ZEROCOPY | opt::SO_BINDTODEVICE | opt::SO_BINDTOIFINDEX),
        opt::IPPROTO_TCP => {
            matches!(
                name,
                opt::TCP_DEFER_ACCEPT
                    | opt::TCP_FASTOPEN_CONNECT
                    | opt::TCP_ULP
                    | opt::TCP_MD5SIG
                    | opt::TCP_REPAIR
            )
        }
        _ => false,
    }
}

fn option(fd: c_int, level: c_int, name: c_int) -> Outcome {
    if !needs_tcp(level, name) || !crate::lifecycle::is_active() {
        return Outcome::Forward;
    }
    if table::get(fd) == Entry::Empty {
        table::set(fd, Entry::Foreign);
        return Outcome::Forward;
    }
    server::refuse(fd);
    if level == opt::IPPROTO_TCP && name == opt::TCP_DEFER_ACCEPT {
        // The kernel holds a connection back until TCP bytes arrive; ours never do.
        server::stop_listening(fd);
        return Outcome::Forward;
    }
    if level == opt::IPPROTO_TCP && stream::is_shared(fd) {
        Outcome::Fail(Errno::EOPNOTSUPP)
    } else {
        Outcome::Forward
    }
}

fn is_timeout(name: c_int) -> bool {
    matches!(name, opt::SO_RCVTIMEO | opt::SO_SNDTIMEO | opt::SO_RCVTIMEO_NEW | opt::SO_SNDTIMEO_NEW)
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
        match option(fd, level, name) {
            Outcome::Forward => {
                // SAFETY: the program's own arguments.
                let result = unsafe { forward::setsockopt(fd, level, name, value, len) };
                if result == 0 && level == opt::SOL_SOCKET && name == opt::SO_RCVLOWAT {
                    stream::note_rcvlowat(fd);
                }
                if result == 0 { Outcome::Done(0) } else { Outcome::Fail(hook::last()) }
            }
            other => other,
        }
    }
}
