//! epoll_ctl and the waits. Owns: the loop around libc's own wait while everything reported was of no interest.

use crate::hook::{self, hooks};
use crate::real::{Events, Mask, Time, forward};
use core::ffi::c_int;
use os::epoll::{Event, Op};
use os::time::monotonic_ns;
use socket::{Outcome, epoll as ours, table};

fn control(epfd: c_int, op: c_int, fd: c_int, event: Events) -> Outcome {
    if table::get(fd) == table::Entry::Empty {
        if op == 1 && crate::lifecycle::is_active() {
            socket::epoll::note_early(fd);
        }
        return Outcome::Forward;
    }
    let op = match op {
        1 => Op::Add,
        2 => return ours::ctl(epfd, Op::Del, fd, 0, 0),
        3 => Op::Mod,
        _ => return Outcome::Forward,
    };
    if event.is_null() {
        return Outcome::Forward;
    }
    // SAFETY: the program passed an event; the kernel's struct may be unaligned.
    let Event { events, data } = unsafe { event.read_unaligned() };
    ours::ctl(epfd, op, fd, events, data)
}

/// Waits through `libc_wait(timeout in ns, None for ever)` until something of interest to the program remains.
fn wait(
    epfd: c_int,
    events: Events,
    timeout_ns: Option<u64>,
    libc_wait: impl Fn(Option<u64>) -> c_int,
) -> Outcome {
    if !ours::is_ours(epfd) {
        return Outcome::Forward;
    }
    let end = timeout_ns.map(|ns| monotonic_ns().saturating_add(ns));
    loop {
        let left = end.map(|end| end.saturating_sub(monotonic_ns()));
        let slice = u64::try_from(ours::slice_ms()).ok().map(|ms| ms * 1_000_000);
        let sliced = match (left, slice) {
            (Some(left), Some(slice)) => Some(left.min(slice)),
            (left, slice) => left.or(slice),
        };
        let got = libc_wait(sliced);
        let Ok(got) = usize::try_from(got) else { return Outcome::Fail(hook::last()) };
        // SAFETY: libc wrote `got` events into the program's array. (Event is packed on x86-64, so alignment is 1 there;
        // elsewhere the program's array is aligned as C requires.)
        let reported = unsafe { core::slice::from_raw_parts_mut(events, got) };
        let kept = ours::translate(epfd, reported);
        let is_over = left == Some(0) || (got == 0 && sliced == left && left.is_some());
        if kept > 0 || is_over {
            return Outcome::Done(kept);
        }
        if got == 0 {
            ours::tick(epfd);
        }
    }
}

fn to_ms(timeout_ns: Option<u64>) -> c_int {
    timeout_ns.map_or(-1, |ns| c_int::try_from(ns.div_ceil(1_000_000)).unwrap_or(c_int::MAX))
}

fn from_ms(timeout: c_int) -> Option<u64> {
    u64::try_from(timeout).ok().map(|ms| ms * 1_000_000)
}

hooks! {
    fn epoll_ctl [] (epfd: c_int, op: c_int, fd: c_int, event: Events) -> c_int {
        control(epfd, op, fd, event)
    }
    fn epoll_wait [] (epfd: c_int, events: Events, max: c_int, timeout: c_int) -> c_int {
        // SAFETY: the program's own arguments but for the time limit.
        wait(epfd, events, from_ms(timeout), |ns| unsafe { forward::epoll_wait(epfd, events, max, to_ms(ns)) })
    }
    fn epoll_pwait [] (epfd: c_int, events: Events, max: c_int, timeout: c_int, mask: Mask) -> c_int {
        wait(epfd, events, from_ms(timeout), |ns| {
            // SAFETY: the program's own arguments but for the time limit.
            unsafe { forward::epoll_pwait(epfd, events, max, to_ms(ns), mask) }
        })
    }
    fn epoll_pwait2 [] (epfd: c_int, events: Events, max: c_int, timeout: Time, mask: Mask) -> c_int {
        // SAFETY: a non-null time is the program's to read.
        let given = unsafe { timeout.as_ref() }
            .map(|time| time[0].max(0) as u64 * 1_000_000_000 + time[1].max(0) as u64);
        wait(epfd, events, given, |ns| {
            let time = ns.map(|ns| [(ns / 1_000_000_000) as i64, (ns % 1_000_000_000) as i64]);
            let time = time.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
            // SAFETY: the program's own arguments but for the time limit.
            unsafe { forward::epoll_pwait2(epfd, events, max, time, mask) }
        })
    }
}
