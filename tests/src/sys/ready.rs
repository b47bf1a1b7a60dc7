//! Readiness calls: poll, select and epoll in all spellings. Results print by bit name, in one order.

use super::{Fd, Ret, ret32};
use libc::{c_int, epoll_event, pollfd, timespec as Timespec};
use std::mem::zeroed;
use std::ptr::{null, null_mut};

/// Milliseconds as a timespec.
pub fn timespec(ms: u64) -> Timespec {
    Timespec { tv_sec: (ms / 1000) as i64, tv_nsec: ((ms % 1000) * 1_000_000) as i64 }
}

const BITS: &[(u32, &str)] = &[
    (0x001, "IN"),
    (0x002, "PRI"),
    (0x004, "OUT"),
    (0x008, "ERR"),
    (0x010, "HUP"),
    (0x020, "NVAL"),
    (0x040, "RDNORM"),
    (0x080, "RDBAND"),
    (0x100, "WRNORM"),
    (0x200, "WRBAND"),
    (0x2000, "RDHUP"),
];

/// "IN|OUT" for 5; poll and epoll share the bit values.
pub fn bits(events: u32) -> String {
    let names: Vec<&str> = BITS.iter().filter(|(b, _)| events & b != 0).map(|(_, n)| *n).collect();
    if names.is_empty() { "-".into() } else { names.join("|") }
}

/// `poll(2)` over (fd, events) pairs; the revents come back in order.
pub fn poll(fds: &[(Fd, i16)], timeout: c_int) -> (Ret, Vec<i16>) {
    let mut v: Vec<pollfd> = fds.iter().map(|&(fd, events)| pollfd { fd, events, revents: 0 }).collect();
    // SAFETY: the pointer and count describe `v`.
    let r = ret32(unsafe { libc::poll(v.as_mut_ptr(), v.len() as _, timeout) });
    (r, v.iter().map(|p| p.revents).collect())
}

/// `ppoll(2)` with an optional timeout in milliseconds and no mask.
pub fn ppoll(fds: &[(Fd, i16)], timeout: Option<u64>) -> (Ret, Vec<i16>) {
    let mut v: Vec<pollfd> = fds.iter().map(|&(fd, events)| pollfd { fd, events, revents: 0 }).collect();
    let ts = timeout.map(timespec);
    let tp = ts.as_ref().map_or(null(), |t| t as *const _);
    // SAFETY: the pointer and count describe `v`; the timeout outlives the call; a null mask is allowed.
    let r = ret32(unsafe { libc::ppoll(v.as_mut_ptr(), v.len() as _, tp, null()) });
    (r, v.iter().map(|p| p.revents).collect())
}

/// The revents of one descriptor after `poll(2)`.
pub fn poll1(fd: Fd, events: i16, timeout: c_int) -> String {
    match poll(&[(fd, events)], timeout) {
        (Ok(_), v) => bits(v[0] as u16 as u32),
        (Err(e), _) => e.to_string(),
    }
}

/// Whether `pselect` or `select` is called.
#[derive(Clone, Copy, Debug)]
pub enum Select {
    /// `select(2)`.
    Plain,
    /// `pselect(2)`.
    Precise,
}

/// One select call over three lists; prints the count and which descriptors stayed in which set, by index.
pub fn select(kind: Select, rd: &[Fd], wr: &[Fd], ex: &[Fd], ms: u64) -> String {
    let sets = [rd, wr, ex].map(|fds| {
        // SAFETY: an all-zero fd_set is the empty set; the descriptors are below FD_SETSIZE.
        unsafe {
            let mut s: libc::fd_set = zeroed();
            fds.iter().for_each(|&fd| libc::FD_SET(fd, &mut s));
            s
        }
    });
    let [mut r, mut w, mut e] = sets;
    let n = rd.iter().chain(wr).chain(ex).max().map_or(0, |m| m + 1);
    let mut tv = libc::timeval { tv_sec: (ms / 1000) as i64, tv_usec: (ms % 1000) as i64 * 1000 };
    let ts = timespec(ms);
    // SAFETY: sets and timeouts are live locals.
    let k = ret32(unsafe {
        match kind {
            Select::Plain => libc::select(n, &mut r, &mut w, &mut e, &mut tv),
            Select::Precise => libc::pselect(n, &mut r, &mut w, &mut e, &ts, null()),
        }
    });
    let left = |fds: &[Fd], s: &libc::fd_set| {
        // SAFETY: the set is a live local and the descriptors are below FD_SETSIZE.
        fds.iter().map(|&fd| if unsafe { libc::FD_ISSET(fd, s) } { '1' } else { '0' }).collect::<String>()
    };
    match k {
        Ok(k) => format!("{k} r={} w={} e={}", left(rd, &r), left(wr, &w), left(ex, &e)),
        Err(e) => e.to_string(),
    }
}

/// `epoll_create1(2)`.
pub fn epoll() -> Fd {
    // SAFETY: no pointers.
    let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    assert!(fd >= 0, "epoll_create1: {}", super::errno());
    fd
}

/// `epoll_ctl(2)`.
pub fn ctl(ep: Fd, op: c_int, fd: Fd, events: u32, data: u64) -> Ret {
    let mut ev = epoll_event { events, u64: data };
    // SAFETY: the event outlives the call.
    ret32(unsafe { libc::epoll_ctl(ep, op, fd, &mut ev) })
}

/// EPOLL_CTL_ADD.
pub fn ep_add(ep: Fd, fd: Fd, events: i32, data: u64) -> Ret {
    ctl(ep, libc::EPOLL_CTL_ADD, fd, events as u32, data)
}

/// EPOLL_CTL_MOD.
pub fn ep_mod(ep: Fd, fd: Fd, events: i32, data: u64) -> Ret {
    ctl(ep, libc::EPOLL_CTL_MOD, fd, events as u32, data)
}

/// EPOLL_CTL_DEL.
pub fn ep_del(ep: Fd, fd: Fd) -> Ret {
    ctl(ep, libc::EPOLL_CTL_DEL, fd, 0, 0)
}

/// Which wait call is made.
#[derive(Clone, Copy, Debug)]
pub enum Wait {
    /// `epoll_wait(2)`.
    Plain,
    /// `epoll_pwait(2)`.
    Mask,
    /// `epoll_pwait2(2)`.
    Nano,
}

/// Waits on an epoll set; events come back as (data, bits) sorted by data.
pub fn ep_wait_by(kind: Wait, ep: Fd, max: usize, ms: c_int) -> Result<Vec<(u64, u32)>, super::Errno> {
    let mut told = ep_wait_in_order(kind, ep, max, ms)?;
    told.sort_unstable();
    Ok(told)
}

/// The same in the order in which they were told.
pub fn ep_wait_in_order(kind: Wait, ep: Fd, max: usize, ms: c_int) -> Result<Vec<(u64, u32)>, super::Errno> {
    let mut v = vec![epoll_event { events: 0, u64: 0 }; max];
    let (p, n) = (v.as_mut_ptr(), max as c_int);
    let ts = timespec(ms.max(0) as u64);
    let tp = if ms < 0 { null() } else { &raw const ts };
    // SAFETY: the pointer and count describe `v`; the timeout outlives the call; a null mask is allowed.
    let n = ret32(unsafe {
        match kind {
            Wait::Plain => libc::epoll_wait(ep, p, n, ms),
            Wait::Mask => libc::epoll_pwait(ep, p, n, ms, null()),
            Wait::Nano => libc::epoll_pwait2(ep, p, n, tp, null()),
        }
    })?;
    Ok(v[..n].iter().map(|e| (e.u64, e.events)).collect())
}

/// A program that has waited for something is known to do so by functions of libc.
pub fn wait_once() {
    let ep = epoll();
    assert_eq!(ep_wait(ep, 0), Ok(vec![]));
    let _ = super::close(ep);
}

/// `epoll_wait(2)` with room for 64 events.
pub fn ep_wait(ep: Fd, ms: c_int) -> Result<Vec<(u64, u32)>, super::Errno> {
    ep_wait_by(Wait::Plain, ep, 64, ms)
}

/// `epoll_wait(2)` printed: "[1:IN 2:IN|OUT]", "[]" or the errno.
pub fn ep_show(ep: Fd, ms: c_int) -> String {
    show_events(ep_wait(ep, ms))
}

/// Prints a wait result.
pub fn show_events(r: Result<Vec<(u64, u32)>, super::Errno>) -> String {
    match r {
        Ok(v) => {
            let items: Vec<String> = v.iter().map(|(d, e)| format!("{d}:{}", bits(*e))).collect();
            format!("[{}]", items.join(" "))
        }
        Err(e) => e.to_string(),
    }
}

/// `epoll_pwait(2)` with `signal` unblocked only while waiting.
pub fn ep_pwait_unblocking(ep: Fd, signal: c_int, ms: c_int) -> Ret {
    let mut ev = epoll_event { events: 0, u64: 0 };
    // SAFETY: mask and event are live locals.
    ret32(unsafe {
        let mut mask: libc::sigset_t = zeroed();
        libc::pthread_sigmask(libc::SIG_SETMASK, null(), &mut mask);
        libc::sigdelset(&mut mask, signal);
        libc::epoll_pwait(ep, &mut ev, 1, ms, &mask)
    })
}

/// `ppoll(2)` on one descriptor with `signal` unblocked only while waiting.
pub fn ppoll_unblocking(fd: Fd, events: i16, signal: c_int, ms: u64) -> Ret {
    let mut p = pollfd { fd, events, revents: 0 };
    let ts = timespec(ms);
    // SAFETY: mask, timeout and entry are live locals.
    ret32(unsafe {
        let mut mask: libc::sigset_t = zeroed();
        libc::pthread_sigmask(libc::SIG_SETMASK, null(), &mut mask);
        libc::sigdelset(&mut mask, signal);
        libc::ppoll(&mut p, 1, &ts, &mask)
    })
}

/// `poll(NULL, 0, ms)`: a sleep.
pub fn poll_nothing(ms: c_int) -> Ret {
    // SAFETY: zero entries, so the null pointer is never followed.
    ret32(unsafe { libc::poll(null_mut(), 0, ms) })
}

/// `epoll_wait(2)` with room for one event at the null pointer.
pub fn ep_wait_into_null(ep: Fd, ms: c_int) -> Ret {
    // SAFETY: the kernel finds nothing there to write to.
    ret32(unsafe { libc::epoll_wait(ep, std::ptr::null_mut(), 1, ms) })
}

/// ppoll, pselect, epoll_pwait and epoll_pwait2 with a mask that lets `signal` through, within `ms`.
pub fn masked_waits(fd: Fd, ep: Fd, signal: c_int, ms: u64) -> [Ret; 4] {
    let mut entry = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let time = timespec(ms);
    // SAFETY: sets, entries and limits are live locals of the sizes that the calls say.
    unsafe {
        let mut open: libc::sigset_t = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut open);
        libc::sigdelset(&mut open, signal);
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        let mut set: libc::fd_set = std::mem::zeroed();
        libc::FD_SET(fd, &mut set);
        let null = std::ptr::null_mut();
        [
            ret32(libc::ppoll(&mut entry, 1, &time, &open)),
            ret32(libc::pselect(fd + 1, &mut set, null, null, &time, &open)),
            ret32(libc::epoll_pwait(ep, &mut event, 1, ms as c_int, &open)),
            ret32(libc::epoll_pwait2(ep, &mut event, 1, &time, &open)),
        ]
    }
}

/// `poll(2)` of `fd` for input, as the first of `count` entries whose other ones are switched off, over
/// revents that hold something already; what they hold afterwards.
pub fn poll_over(fd: Fd, count: usize, before: i16, timeout: c_int) -> (Ret, i16, i16) {
    let entry = |fd| pollfd { fd, events: libc::POLLIN, revents: before };
    let mut entries: Vec<pollfd> = std::iter::once(entry(fd)).chain((1..count).map(|_| entry(-1))).collect();
    // SAFETY: the pointer and count describe the entries.
    let polled = ret32(unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as _, timeout) });
    (polled, entries[0].revents, entries[count - 1].revents)
}

/// `select(2)` or `pselect(2)` of `fd` for input; whether it is in the set afterwards, and the milliseconds
/// that are left of `ms`.
pub fn select_over(kind: Select, fd: Fd, ms: u64) -> (Ret, bool, u64) {
    let mut time = libc::timeval { tv_sec: (ms / 1000) as i64, tv_usec: (ms % 1000) as i64 * 1000 };
    let precise = timespec(ms);
    // SAFETY: sets and times are live locals; the descriptor is below FD_SETSIZE.
    unsafe {
        let mut set: libc::fd_set = zeroed();
        libc::FD_SET(fd, &mut set);
        let n = fd + 1;
        let selected = ret32(match kind {
            Select::Plain => libc::select(n, &mut set, null_mut(), null_mut(), &mut time),
            Select::Precise => libc::pselect(n, &mut set, null_mut(), null_mut(), &precise, null()),
        });
        let left = match kind {
            Select::Plain => time.tv_sec as u64 * 1000 + time.tv_usec as u64 / 1000,
            Select::Precise => precise.tv_sec as u64 * 1000 + precise.tv_nsec as u64 / 1_000_000,
        };
        (selected, libc::FD_ISSET(fd, &set), left)
    }
}

/// `select(2)` of `fd` for input, with sets of `names` descriptors.
pub fn select_wide(fd: Fd, names: usize, ms: u64) -> Ret {
    let mut set = vec![0u64; names.div_ceil(64).max(1 + fd as usize / 64)];
    set[fd as usize / 64] |= 1 << (fd as usize % 64);
    let mut time = libc::timeval { tv_sec: (ms / 1000) as i64, tv_usec: (ms % 1000) as i64 * 1000 };
    // SAFETY: the set has room for as many bits as the call is told of; the time is a live local.
    ret32(unsafe { libc::select(names as c_int, set.as_mut_ptr().cast(), null_mut(), null_mut(), &mut time) })
}

/// select(2) over nothing, by its name, for so many microseconds.
pub fn select_for_micros(micros: i64) -> Ret {
    let mut time = libc::timeval { tv_sec: 0, tv_usec: micros };
    let none = std::ptr::null_mut();
    // SAFETY: no sets, and a time that is a live local.
    ret32(unsafe { libc::select(0, none, none, none, &raw mut time) })
}
