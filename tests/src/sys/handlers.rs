//! Calls that a signal handler makes on the descriptor that its thread is in a call on, and signals that a
//! thread takes without a handler.

use super::{Errno, Fd, Ret};
use libc::c_int;
use std::mem::zeroed;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, AtomicI64, Ordering};

/// What the handler calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InHandler {
    /// `poll(2)` for input and room, without waiting; the result is the revents.
    Poll,
    /// `recv(2)` without waiting.
    Recv,
    /// `recv(2)` that waits.
    Receive,
    /// `send(2)` of one byte.
    Send,
    /// `close(2)`.
    Close,
    /// `dup2(2)` of this one over it.
    Replace(Fd),
    /// Nothing, for some tens of milliseconds.
    Nap,
}

static CALL: AtomicI32 = AtomicI32::new(0);
static FD: AtomicI32 = AtomicI32::new(-1);
static OTHER: AtomicI32 = AtomicI32::new(-1);
static RESULT: AtomicI64 = AtomicI64::new(i64::MIN);

extern "C" fn handle(_: c_int) {
    let (saved, fd) = (super::errno(), FD.load(Ordering::SeqCst));
    let made = match CALL.load(Ordering::SeqCst) {
        0 => {
            let (polled, revents) = poll_once(fd);
            polled.map(|_| revents)
        }
        1 => super::recv(fd, &mut [0; 9], libc::MSG_DONTWAIT),
        2 => super::send(fd, b"!", libc::MSG_NOSIGNAL),
        3 => super::close(fd),
        5 => super::recv(fd, &mut [0; 9], 0),
        6 => nap(),
        _ => super::dup2(OTHER.load(Ordering::SeqCst), fd).map(|_| 0),
    };
    RESULT.store(made.map_or_else(|errno| -i64::from(errno.0), |n| n as i64), Ordering::SeqCst);
    super::set_errno(saved.0);
}

/// Some tens of milliseconds (`nanosleep(2)`, which no library of ours sees).
fn nap() -> Ret {
    let moment = libc::timespec { tv_sec: 0, tv_nsec: 30_000_000 };
    // SAFETY: the time is a live local.
    super::ret32(unsafe { libc::nanosleep(&moment, null_mut()) })
}

/// (Without the vectors of [`super::poll`]: a handler allocates nothing.)
fn poll_once(fd: Fd) -> (Ret, usize) {
    let mut entry = libc::pollfd { fd, events: libc::POLLIN | libc::POLLOUT, revents: 0 };
    // SAFETY: the entry is a live local.
    let polled = super::ret32(unsafe { libc::poll(&mut entry, 1, 0) });
    (polled, entry.revents as usize)
}

/// Installs a handler of `signal` that makes `call` on `fd`.
pub fn call_in_handler(signal: c_int, restart: bool, call: InHandler, fd: Fd) {
    let (number, other) = match call {
        InHandler::Poll => (0, -1),
        InHandler::Recv => (1, -1),
        InHandler::Send => (2, -1),
        InHandler::Close => (3, -1),
        InHandler::Replace(other) => (4, other),
        InHandler::Receive => (5, -1),
        InHandler::Nap => (6, -1),
    };
    CALL.store(number, Ordering::SeqCst);
    FD.store(fd, Ordering::SeqCst);
    OTHER.store(other, Ordering::SeqCst);
    RESULT.store(i64::MIN, Ordering::SeqCst);
    // SAFETY: the handler touches atomics and makes async-signal-safe calls only.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = handle as *const () as usize;
        action.sa_flags = if restart { libc::SA_RESTART } else { 0 };
        libc::sigaction(signal, &action, null_mut());
    }
}

/// What the handler's call returned when it last ran since [`call_in_handler`].
pub fn handler_result() -> Option<Ret> {
    match RESULT.load(Ordering::SeqCst) {
        i64::MIN => None,
        failed @ ..0 => Some(Err(Errno(-failed as c_int))),
        result => Some(Ok(result as usize)),
    }
}

/// Takes `signal`, which this thread has blocked, if it is pending for it or for the process
/// (`sigtimedwait(2)`).
pub fn take_pending(signal: c_int) -> bool {
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: set and time are live locals; what came with the signal is not asked for.
    unsafe {
        let mut set: libc::sigset_t = zeroed();
        libc::sigaddset(&mut set, signal);
        libc::sigtimedwait(&set, null_mut(), &now) == signal
    }
}

/// `F_SETSIG` of fcntl(2).
pub const F_SETSIG: c_int = 10;

static NAMED: AtomicI32 = AtomicI32::new(-1);

extern "C" fn note_descriptor(_: c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // struct siginfo of SIGPOLL: three ints (and padding), si_band, which is a long, and si_fd.
    const AT: usize = 16 + size_of::<libc::c_long>();
    // SAFETY: the kernel's siginfo is 128 bytes long, and lives as long as the handler runs.
    NAMED.store(unsafe { info.cast::<u8>().add(AT).cast::<c_int>().read_unaligned() }, Ordering::SeqCst);
}

/// Installs a handler that notes which descriptor a signal of F_SETSIG is about.
pub fn catch_with_descriptor(signal: c_int) {
    NAMED.store(-1, Ordering::SeqCst);
    // SAFETY: the handler only stores what it is told.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = note_descriptor as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigaction(signal, &action, null_mut());
    }
}

/// The descriptor that the last such signal named, or -1.
pub fn signalled_descriptor() -> Fd {
    NAMED.load(Ordering::SeqCst)
}

static SENDER: [AtomicI32; 3] = [const { AtomicI32::new(-1) }; 3];

extern "C" fn note_sender(_: c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // struct siginfo: the code is its third int; process and user come behind the padding.
    for (place, at) in SENDER.iter().zip([8, 16, 20]) {
        // SAFETY: the kernel's siginfo is 128 bytes long, and lives as long as the handler runs.
        place.store(unsafe { info.cast::<u8>().add(at).cast::<c_int>().read_unaligned() }, Ordering::SeqCst);
    }
}

/// Installs a handler that notes what a signal says of where it comes from.
pub fn catch_with_sender(signal: c_int) {
    // SAFETY: the handler only stores what it is told.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = note_sender as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigaction(signal, &action, null_mut());
    }
}

/// `si_code`, `si_pid` and `si_uid` of the last such signal.
pub fn sender_of_signal() -> (c_int, c_int, c_int) {
    let [code, process, user] = [0, 1, 2].map(|at: usize| SENDER[at].load(Ordering::SeqCst));
    (code, process, user)
}
