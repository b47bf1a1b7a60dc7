//! epoll_ctl and the waits. Owns: that every sleep is in libc's own function, with the program's signal mask.

use crate::cancel;
use crate::hook::{self, hooks};
use crate::lifecycle::made;
use crate::pointers;
use crate::real::{Events, Mask, Time, forward};
use core::ffi::c_int;
use os::epoll::{Event, Op};
use socket::confine::stays_out;
use socket::epoll::Kernel;
use socket::{Errno, Outcome, epoll as ours, table};

fn control(epfd: c_int, op: c_int, fd: c_int, event: Events) -> Outcome {
    if stays_out() {
        return Outcome::Forward;
    }
    if op == 1 && !matches!(table::get(fd), table::Entry::Conn(_)) {
        prepare(epfd, fd);
    }
    match control_ours(epfd, op, fd, event) {
        Outcome::Forward if matches!(op, 1 | 3) => ask_bare(epfd, op, fd, event),
        outcome => outcome,
    }
}

/// What is put into a set, and is no socket of ours so far.
fn prepare(epfd: c_int, fd: c_int) {
    ours::prepare_to_be_nested(fd, epfd);
    let may_ask = || crate::lifecycle::is_active() && !os::confined::is_confined();
    if table::get(fd) == table::Entry::Empty && may_ask() {
        ours::note_early(fd);
    }
}

fn control_ours(epfd: c_int, op: c_int, fd: c_int, event: Events) -> Outcome {
    if table::get(fd) == table::Entry::Empty {
        return Outcome::Forward;
    }
    let op = match op {
        1 => Op::Add,
        2 => return ours::ctl(epfd, Op::Del, fd, 0, 0),
        3 => Op::Mod,
        _ => return Outcome::Forward,
    };
    if pointers::readable(event, size_of::<Event>()).is_err() {
        return Outcome::Forward;
    }
    // SAFETY: the program passed an event; the kernel's struct may be unaligned.
    let Event { events, data } = unsafe { event.read_unaligned() };
    ours::ctl(epfd, op, fd, events, data)
}

/// What is none of ours is asked of the set as it is. By then another thread may have the number for a
/// connection.
fn ask_bare(epfd: c_int, op: c_int, fd: c_int, event: Events) -> Outcome {
    // SAFETY: the program's own arguments.
    let result = unsafe { forward::epoll_ctl(epfd, op, fd, event) };
    if result != 0 {
        return Outcome::Fail(hook::last());
    }
    if !table::is_empty(fd) {
        // SAFETY: the kernel has just read it.
        let Event { events, data } = unsafe { event.read_unaligned() };
        match op {
            1 => ours::note_added(epfd, fd, events, data),
            _ => ours::note_modified(epfd, fd, events, data),
        }
    }
    ours::note_asked(epfd);
    Outcome::Done(0)
}

/// `(array, room, timeout in ns, None for ever)` of one of libc's functions. Called through a pointer: what
/// waits is long, and is there once for all of them.
type Wait<'a> = &'a mut dyn FnMut(Events, c_int, Option<u64>) -> c_int;

/// Waits in one of libc's functions, with or without a signal mask.
struct LibcWait<'a> {
    epfd: c_int,
    wait: Wait<'a>,
    has_mask: bool,
}

impl Kernel for LibcWait<'_> {
    fn wait(&mut self, events: &mut [Event], timeout_ns: Option<u64>) -> Result<usize, Errno> {
        let room = c_int::try_from(events.len()).unwrap_or(c_int::MAX);
        usize::try_from((self.wait)(events.as_mut_ptr(), room, timeout_ns)).map_err(|_| hook::last())
    }

    fn glance(&mut self, events: &mut [Event]) -> Result<usize, Errno> {
        if !self.has_mask {
            return self.wait(events, Some(0));
        }
        let room = c_int::try_from(events.len()).unwrap_or(c_int::MAX);
        // SAFETY: an array with room for so many, in the set of the program's own call.
        let got = unsafe { forward::epoll_wait(self.epfd, events.as_mut_ptr(), room, 0) };
        usize::try_from(got).map_err(|_| hook::last())
    }

    fn has_mask(&self) -> bool {
        self.has_mask
    }
}

/// Waits through `libc_wait` and our own looks at the rings.
fn wait(
    epfd: c_int,
    events: Events,
    max: c_int,
    timeout_ns: Option<u64>,
    mask: Mask,
    libc_wait: Wait<'_>,
) -> Outcome {
    /// EP_MAX_EVENTS of fs/eventpoll.c.
    const MOST: usize = i32::MAX as usize / size_of::<Event>();
    let Ok(room @ 1..=MOST) = usize::try_from(max) else { return Outcome::Forward };
    if stays_out() || !ours::is_ours(epfd) {
        return Outcome::Forward;
    }
    let mut kernel = LibcWait { epfd, wait: libc_wait, has_mask: !mask.is_null() };
    // (Only the kernel's own set would be looked at there.)
    let len = room.saturating_mul(size_of::<Event>());
    let is_beyond = pointers::is_beyond(events.addr(), len);
    if is_beyond || pointers::mask(mask).is_err() {
        return Outcome::Fail(Errno::EFAULT);
    }
    if pointers::writable(events, size_of::<Event>()).is_err() {
        return wait_for_nobody(epfd, timeout_ns, &mut kernel);
    }
    // SAFETY: the program's array of `max` events, its own to be written. (Event is packed on x86-64, so
    // alignment is 1 there; elsewhere the program's array is aligned as C requires.) What is read of it was
    // written before.
    let room = unsafe { core::slice::from_raw_parts_mut(events, room) };
    if socket::beside::is_so() {
        let told = socket::beside::wait(epfd, room);
        if told == 0 {
            return Outcome::Forward;
        }
        // (The same call, which does not wait.)
        let got = if told < room.len() { kernel.wait(&mut room[told..], Some(0)).unwrap_or(0) } else { 0 };
        return Outcome::Done(socket::beside::merge(room, told, got));
    }
    ours::wait(epfd, room, timeout_ns, &mut kernel)
}

/// With no room for an event that is one: the kernel waits all the same, and finds out when it has something
/// to tell.
#[cold]
fn wait_for_nobody(epfd: c_int, timeout_ns: Option<u64>, kernel: &mut dyn Kernel) -> Outcome {
    match ours::wait(epfd, &mut [Event { events: 0, data: 0 }], timeout_ns, kernel) {
        Outcome::Done(1..) => Outcome::Fail(Errno::EFAULT),
        other => other,
    }
}

fn to_ms(timeout_ns: Option<u64>) -> c_int {
    timeout_ns.map_or(-1, |ns| c_int::try_from(ns.div_ceil(1_000_000)).unwrap_or(c_int::MAX))
}

fn from_ms(timeout: c_int) -> Option<u64> {
    u64::try_from(timeout).ok().map(|ms| ms * 1_000_000)
}

fn created(epfd: c_int) -> Outcome {
    if epfd < 0 {
        return Outcome::Fail(hook::last());
    }
    if crate::lifecycle::is_active() && !stays_out() && !crate::lifecycle::is_borrowed() {
        ours::note_created(epfd);
    }
    Outcome::Done(epfd as usize)
}

hooks! {
    fn epoll_create [] (size: c_int) -> c_int {
        // SAFETY: the program's own argument.
        created(made(|| unsafe { forward::epoll_create(size) }))
    }
    fn epoll_create1 [] (flags: c_int) -> c_int {
        // SAFETY: the program's own argument.
        created(made(|| unsafe { forward::epoll_create1(flags) }))
    }
    fn epoll_ctl [] (epfd: c_int, op: c_int, fd: c_int, event: Events) -> c_int {
        control(epfd, op, fd, event)
    }
    fn epoll_wait [] (epfd: c_int, events: Events, max: c_int, timeout: c_int) -> c_int {
        cancel::point();
        // SAFETY: the program's own arguments but for the time limit.
        wait(epfd, events, max, from_ms(timeout), core::ptr::null(), &mut |into, room, ns| unsafe {
            forward::epoll_wait(epfd, into, room, to_ms(ns))
        })
    }
    fn epoll_pwait [] (epfd: c_int, events: Events, max: c_int, timeout: c_int, mask: Mask) -> c_int {
        cancel::point();
        wait(epfd, events, max, from_ms(timeout), mask, &mut |into, room, ns| {
            // SAFETY: the program's own arguments but for room and time limit.
            unsafe { forward::epoll_pwait(epfd, into, room, to_ms(ns), mask) }
        })
    }
    fn epoll_pwait2 [] (epfd: c_int, events: Events, max: c_int, timeout: Time, mask: Mask) -> c_int {
        cancel::point();
        let given = if stays_out() { Err(Errno::EFAULT) } else { pointers::time(timeout) };
        let Ok(given) = given else {
            // SAFETY: the program's own arguments, of which libc and the kernel say what is wrong.
            return unsafe { forward::epoll_pwait2(epfd, events, max, timeout, mask) };
        };
        let given = given.map(|time| (time[0] as u64).saturating_mul(1_000_000_000) + time[1] as u64);
        wait(epfd, events, max, given, mask, &mut |into, room, ns| {
            let time = ns.map(|ns| [(ns / 1_000_000_000) as i64, (ns % 1_000_000_000) as i64]);
            let time = time.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
            // SAFETY: the program's own arguments but for the time limit.
            unsafe { forward::epoll_pwait2(epfd, into, room, time, mask) }
        })
    }
}
