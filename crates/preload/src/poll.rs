//! poll, ppoll, select, pselect. Owns: the conversion of select's bit sets and time limits.

use crate::cancel;
use crate::hook::hooks;
use crate::pointers;
use crate::real::{Buf, Mask, Time, forward};
use core::ffi::{c_int, c_void};
use os::poll::{PollFd, bits};
use socket::poll::Sleep;
use socket::{Errno, Outcome, beside, poll as ours};

/// The program's call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    /// poll(2): the time for which the process is stopped is a part of its limit. (The kernel goes on until a
    /// point in time, and in the others for what was left.)
    Poll,
    /// ppoll(2).
    Ppoll,
    /// select(2) and pselect(2), which are not refused if the set exceeds the descriptor limit.
    Select,
}

/// Sleeps in libc's ppoll with the program's signal mask, or in its poll.
pub(crate) struct LibcSleep {
    mask: Mask,
    call: Call,
}

impl LibcSleep {
    fn is_limited(&self) -> bool {
        self.call != Call::Select
    }

    fn libc(&self, fds: &mut [PollFd], timeout_ns: Option<u64>) -> c_int {
        let time = timeout_ns.map(|ns| [(ns / 1_000_000_000) as i64, (ns % 1_000_000_000) as i64]);
        let (at, count) = (fds.as_mut_ptr(), fds.len() as u64);
        // SAFETY: array, time and the program's mask are valid for the call.
        unsafe {
            match self.call {
                Call::Poll => forward::poll(at, count, to_ms(timeout_ns)),
                Call::Ppoll | Call::Select => {
                    let time = time.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
                    forward::ppoll(at, count, time, self.mask)
                }
            }
        }
    }
}

/// As poll(2) has it, rounded up.
fn to_ms(timeout_ns: Option<u64>) -> c_int {
    timeout_ns.map_or(-1, |ns| c_int::try_from(ns.div_ceil(1_000_000)).unwrap_or(c_int::MAX))
}

impl Sleep for LibcSleep {
    fn sleep(&mut self, fds: &mut [PollFd], timeout_ns: Option<u64>) -> Result<usize, Errno> {
        match usize::try_from(self.libc(fds, timeout_ns)).map_err(|_| crate::hook::last()) {
            // The first half stands for the program's own entries.
            Err(Errno::EINVAL) => {
                let own = fds.len() / 2;
                if self.is_limited() && os::poll::is_refused(&mut fds[..own]) {
                    return Err(Errno::EINVAL);
                }
                os::select::wait(fds, timeout_ns, self.mask)
            }
            told => told,
        }
    }

    fn glance(&mut self, fds: &mut [PollFd]) -> Result<usize, Errno> {
        // (Not libc's: no thread is cancelled in a look.)
        match os::poll::wait_raw(fds, 0) {
            Err(Errno::EINVAL) => LibcSleep { mask: core::ptr::null(), ..*self }.sleep(fds, Some(0)),
            told => told,
        }
    }

    fn has_mask(&self) -> bool {
        !self.mask.is_null()
    }

    fn may_be_refused(&self) -> bool {
        self.is_limited() && os::poll::may_be_refused()
    }

    fn is_closing_ready(&self) -> bool {
        !self.is_limited()
    }
}

pub(crate) fn nanoseconds(time: [i64; 2], per_unit: u64) -> u64 {
    (time[0].max(0) as u64).saturating_mul(1_000_000_000).saturating_add(time[1].max(0) as u64 * per_unit)
}

/// The program's entries; `None` if the call is not for us to judge: the kernel says what is wrong.
fn entries<'a>(fds: *mut PollFd, count: u64) -> Option<&'a mut [PollFd]> {
    let is_there = || pointers::writable(fds, count as usize * size_of::<PollFd>()).is_ok();
    if count == 0 || count > 1 << 20 || !is_there() {
        return None;
    }
    // SAFETY: the program passed `count` entries and leaves them alone during the call.
    Some(unsafe { core::slice::from_raw_parts_mut(fds, count as usize) })
}

/// Whether no number can be one of ours: nothing is asked of the program's structures then.
fn is_nothing_ours() -> bool {
    socket::confine::stays_out() || !(socket::has_been_any() || socket::has_been_any_set())
}

fn poll_all(call: Call, fds: *mut PollFd, count: u64, timeout_ns: Option<u64>, mask: Mask) -> Outcome {
    if is_nothing_ours() {
        return Outcome::Forward;
    }
    if let Some(fds) = entries(fds, count) {
        ours::note_wait(fds.iter().map(|entry| entry.fd));
    }
    poll_unnoted(call, fds, count, timeout_ns, mask)
}

fn poll_unnoted(call: Call, fds: *mut PollFd, count: u64, timeout_ns: Option<u64>, mask: Mask) -> Outcome {
    if beside::is_so() {
        return match entries(fds, count) {
            Some(fds) if beside::is_any(fds) => {
                // (The same call, which does not wait.)
                let told = LibcSleep { mask, call }.libc(fds, Some(0));
                if told < 0 { Outcome::Fail(crate::hook::last()) } else { Outcome::Done(beside::add(fds)) }
            }
            _ => Outcome::Forward,
        };
    }
    match entries(fds, count) {
        Some(fds) if ours::concerns_us(fds) => {
            ours::poll(fds, timeout_ns, &mut LibcSleep { mask, call }).into()
        }
        _ => Outcome::Forward,
    }
}

fn from_ms(timeout: c_int) -> Option<u64> {
    u64::try_from(timeout).ok().map(|ms| ms * 1_000_000)
}

/// Time limit and mask of ppoll and pselect, as the kernel looks at them first. (libc's own functions read
/// the time before that.)
fn limits(time: Time, mask: Mask) -> Result<Option<u64>, Errno> {
    let time = pointers::time(time)?;
    pointers::mask(mask)?;
    Ok(time.map(|time| nanoseconds(time, 1)))
}

fn poll_within(fds: *mut PollFd, count: u64, timeout: Time, mask: Mask) -> Outcome {
    if is_nothing_ours() {
        return Outcome::Forward;
    }
    limits(timeout, mask)
        .map_or_else(Outcome::Fail, |timeout_ns| poll_all(Call::Ppoll, fds, count, timeout_ns, mask))
}

/// poll(2) of one descriptor inside another call.
pub(crate) fn poll_one(fd: c_int, events: i16, timeout: c_int) -> c_int {
    let mut entry = PollFd { fd, events, revents: 0 };
    let outcome = match is_nothing_ours() {
        true => Outcome::Forward,
        // (It is no wait of the program's for what it has put into a set.)
        false => poll_unnoted(Call::Poll, &raw mut entry, 1, from_ms(timeout), core::ptr::null()),
    };
    match crate::hook::finish(outcome) {
        Some(told) => told as c_int,
        // SAFETY: one entry.
        None => unsafe { forward::poll(&raw mut entry, 1, timeout) },
    }
}

hooks! {
    fn poll [__poll] (fds: *mut PollFd, count: u64, timeout: c_int) -> c_int {
        cancel::point();
        poll_all(Call::Poll, fds, count, from_ms(timeout), core::ptr::null())
    }
    fn __poll_chk [] (fds: *mut PollFd, count: u64, timeout: c_int, room: usize) -> c_int {
        cancel::point();
        if (room as u64) / 8 < count { Outcome::Forward } else { poll_all(Call::Poll, fds, count, from_ms(timeout), core::ptr::null()) }
    }
    fn ppoll [] (fds: *mut PollFd, count: u64, timeout: Time, mask: Mask) -> c_int {
        cancel::point();
        poll_within(fds, count, timeout, mask)
    }
    fn __ppoll_chk [] (fds: *mut PollFd, count: u64, timeout: Time, mask: Mask, room: usize) -> c_int {
        cancel::point();
        if (room as u64) / 8 < count { Outcome::Forward } else { poll_within(fds, count, timeout, mask) }
    }
    fn select [__select] (count: c_int, read: Buf, write: Buf, except: Buf, timeout: *mut [i64; 2]) -> c_int {
        cancel::point();
        // (As long as glibc takes it to be, which keeps 32 bits of the microseconds.)
        Sets { count, sets: [read, write, except] }.select_within(timeout, |us| i64::from(us as i32))
    }
    fn pselect [] (count: c_int, read: Buf, write: Buf, except: Buf, timeout: Time, mask: Mask) -> c_int {
        cancel::point();
        let sets = Sets { count, sets: [read, write, except] };
        if is_nothing_ours() {
            // SAFETY: the program's own arguments.
            return unsafe { forward::pselect(count, read, write, except, timeout, mask) };
        }
        limits(timeout, mask).map_or_else(Outcome::Fail, |timeout_ns| sets.select(timeout_ns, mask))
    }
}

/// Linux leaves in `timeout` the time that was not slept, after a signal as well. `given` are the nanoseconds
/// that stood there, in units of so many.
fn leaving_rest(
    timeout: *mut [i64; 2],
    given: u64,
    per_unit: u64,
    wait: impl FnOnce() -> Outcome,
) -> Outcome {
    let started = if given == 0 { 0 } else { os::time::monotonic_ns() };
    let outcome = wait();
    let is_told = given != 0 && matches!(outcome, Outcome::Done(_) | Outcome::Fail(Errno::EINTR));
    if is_told && pointers::writable(timeout, size_of::<[i64; 2]>()).is_ok() {
        let left = given.saturating_sub(os::time::monotonic_ns() - started);
        let (seconds, rest) = (left / 1_000_000_000, left % 1_000_000_000 / per_unit);
        // SAFETY: the time is the program's, and it can be written to.
        unsafe { *timeout = [seconds as i64, rest as i64] };
    }
    outcome
}

/// The mask of a call by number, with the length that the kernel looks at first.
pub(crate) fn mask_of_len(mask: Mask, len: usize) -> Result<Mask, Errno> {
    const LEN: usize = 8;
    if mask.is_null() || len == LEN { Ok(mask) } else { Err(Errno::EINVAL) }
}

/// ppoll, pselect6 and select by number: libc's functions keep from the program what time is left.
pub(crate) mod by_number {
    use super::*;

    /// Waits by `wait` for as long as is given and with this mask, if both are in order.
    fn within(
        timeout: usize,
        mask: Result<Mask, Errno>,
        wait: impl FnOnce(Option<u64>, Mask) -> Outcome,
    ) -> Outcome {
        if is_nothing_ours() {
            return Outcome::Forward;
        }
        let timeout = timeout as *mut [i64; 2];
        // (The kernel looks at the time first.)
        let limits = limits(timeout.cast(), core::ptr::null()).and_then(|given| {
            let mask = mask?;
            pointers::mask(mask).map(|()| (given, mask))
        });
        match limits {
            Err(errno) => Outcome::Fail(errno),
            Ok((None, mask)) => wait(None, mask),
            Ok((Some(given), mask)) => leaving_rest(timeout, given, 1, || wait(Some(given), mask)),
        }
    }

    pub(crate) fn ppoll(args: &[usize; 6]) -> Outcome {
        let [fds, count, timeout, mask, len, _] = *args;
        within(timeout, mask_of_len(mask as Mask, len), |given, mask| {
            poll_all(Call::Ppoll, fds as *mut PollFd, count as u64, given, mask)
        })
    }

    /// `mask` lies with its length where the last argument says.
    pub(crate) fn pselect6(args: &[usize; 6], mask: Result<Mask, Errno>) -> Outcome {
        let [count, read, write, except, timeout, _] = *args;
        let sets = Sets { count: count as c_int, sets: [read as Buf, write as Buf, except as Buf] };
        within(timeout, mask, |given, mask| sets.select(given, mask))
    }

    #[cfg(target_arch = "x86_64")]
    pub(crate) fn select(args: &[usize; 6]) -> Outcome {
        let [count, read, write, except, timeout, _] = *args;
        let sets = Sets { count: count as c_int, sets: [read as Buf, write as Buf, except as Buf] };
        sets.select_within(timeout as *mut [i64; 2], |us| us)
    }
}

/// Numbers an fd_set holds.
const FD_SETSIZE: usize = 1024;
/// Entries of the private array that lie on the stack.
const FEW: usize = 16;
const ON_STACK: usize = 128;
/// What each set asks for, and which results put a number into it (`fs/select.c`).
const ASKED: [i16; 3] =
    [bits::IN | bits::RDNORM | bits::RDBAND, bits::OUT | bits::WRNORM | bits::WRBAND, bits::PRI];
const GRANTED: [i16; 3] = [ASKED[0] | bits::HUP | bits::ERR, ASKED[1] | bits::ERR, bits::PRI];

/// select's three bit sets.
struct Sets {
    count: c_int,
    sets: [*mut c_void; 3],
}

impl Sets {
    fn has(&self, set: usize, fd: usize) -> bool {
        let words = self.sets[set].cast::<u64>();
        // SAFETY: a non-null set holds at least `count` bits, in words of 64.
        !words.is_null() && unsafe { *words.add(fd / 64) } >> (fd % 64) & 1 == 1
    }

    fn asked(&self, fd: usize) -> i16 {
        (0..3).filter(|set| self.has(*set, fd)).fold(0, |events, set| events | ASKED[set])
    }

    /// Whether the kernel could read and write all of them.
    fn are_there(&self, count: usize) -> bool {
        let len = count.div_ceil(64) * 8;
        self.sets.iter().all(|set| set.is_null() || pointers::writable(*set, len).is_ok())
    }

    /// select(2). The microseconds of `timeout` are what `taken` makes of them.
    fn select_within(&self, timeout: *mut [i64; 2], taken: fn(i64) -> i64) -> Outcome {
        if is_nothing_ours() {
            return Outcome::Forward;
        }
        if timeout.is_null() {
            return self.select(None, core::ptr::null());
        }
        if let Err(errno) = pointers::readable(timeout, size_of::<[i64; 2]>()) {
            return Outcome::Fail(errno);
        }
        // SAFETY: the time is the program's to read, and it is there.
        let given = unsafe { *timeout };
        let given = [given[0], taken(given[1])];
        if given[0] < 0 || given[1] < 0 {
            return Outcome::Fail(Errno::EINVAL);
        }
        let given = nanoseconds(given, 1000);
        leaving_rest(timeout, given, 1000, || self.select(Some(given), core::ptr::null()))
    }

    fn select(&self, timeout_ns: Option<u64>, mask: Mask) -> Outcome {
        let Ok(count) = usize::try_from(self.count) else { return Outcome::Forward };
        // Beyond that a program has sets of its own making, or names its limit of descriptors with ordinary
        // ones: only the kernel knows where to stop reading.
        if count > FD_SETSIZE || !self.are_there(count) {
            return Outcome::Forward;
        }
        let named = || (0..count).filter(|fd| self.asked(*fd) != 0);
        ours::note_wait(named().map(|fd| fd as i32));
        if !named().any(|fd| ours::concerns_us(&[PollFd { fd: fd as i32, events: 0, revents: 0 }])) {
            return Outcome::Forward;
        }
        if beside::is_so() {
            return self.beside();
        }
        match named().count() {
            few if few <= FEW => self.on_stack::<FEW>(count, timeout_ns, mask),
            many if many <= ON_STACK => self.on_stack::<ON_STACK>(count, timeout_ns, mask),
            many => match os::mem::Scratch::for_poll(many) {
                Ok(mut scratch) => self.poll(count, scratch.poll_entries(), timeout_ns, mask),
                Err(_) => Outcome::Fail(Errno::ENOMEM),
            },
        }
    }

    /// What is left in memory, where no call is ours; if nothing is, the call is libc's. (What else is ready
    /// the next call tells.)
    fn beside(&self) -> Outcome {
        let count = self.count as usize;
        let entry = |fd: usize| PollFd { fd: fd as i32, events: self.asked(fd), revents: 0 };
        if !(0..count).any(|fd| beside::is_any(&[entry(fd)])) {
            return Outcome::Forward;
        }
        let answered = |fd: usize| {
            let mut one = [entry(fd)];
            beside::add(&mut one);
            self.answer(&one)
        };
        Outcome::Done((0..count).map(answered).sum())
    }

    /// (In frames of their own: few descriptors are selected on a small stack.)
    #[inline(never)]
    fn on_stack<const ENTRIES: usize>(&self, count: usize, timeout_ns: Option<u64>, mask: Mask) -> Outcome {
        self.poll(count, &mut [PollFd { fd: -1, events: 0, revents: 0 }; ENTRIES], timeout_ns, mask)
    }

    /// `room` has place for every descriptor named (unless another thread writes into the sets).
    fn poll(&self, count: usize, room: &mut [PollFd], timeout_ns: Option<u64>, mask: Mask) -> Outcome {
        let named = (0..count).map(|fd| (fd, self.asked(fd))).filter(|(_, events)| *events != 0);
        let used = named.zip(&mut *room).fold(0, |used, ((fd, events), entry)| {
            *entry = PollFd { fd: fd as i32, events, revents: 0 };
            used + 1
        });
        let fds = &mut room[..used];
        let limit = timeout_ns.map(|ns| os::time::monotonic_ns().saturating_add(ns));
        loop {
            let left = limit.map(|end| end.saturating_sub(os::time::monotonic_ns()));
            let ready = match ours::poll(fds, left, &mut LibcSleep { mask, call: Call::Select }) {
                Err(errno) => return Outcome::Fail(errno),
                Ok(ready) => ready,
            };
            if fds.iter().any(|entry| entry.revents & bits::NVAL != 0) {
                return Outcome::Fail(Errno::EBADF);
            }
            if ready == 0 || fds.iter().any(|entry| self.is_granted(entry)) {
                return Outcome::Done(self.answer(fds));
            }
            // (poll tells of an end that no set names, and would again: nothing is to come there. The number
            // is kept for the answer.)
            fds.iter_mut().filter(|entry| entry.revents != 0).for_each(|entry| entry.fd = !entry.fd);
        }
    }

    fn is_granted(&self, entry: &PollFd) -> bool {
        let named = GRANTED.iter().enumerate().filter(|(_, granted)| entry.revents & *granted != 0);
        entry.fd >= 0 && named.into_iter().any(|(set, _)| self.has(set, entry.fd as usize))
    }

    /// Writes the sets; returns the number of bits set.
    fn answer(&self, fds: &[PollFd]) -> usize {
        let mut total = 0;
        for entry in fds {
            let fd = entry.fd.max(!entry.fd) as usize;
            for (set, granted) in GRANTED.iter().enumerate() {
                if !self.has(set, fd) {
                    continue;
                }
                let is_granted = entry.fd >= 0 && entry.revents & granted != 0;
                total += usize::from(is_granted);
                if !is_granted {
                    // SAFETY: as in `has`; the sets are the call's to write.
                    unsafe { *self.sets[set].cast::<u64>().add(fd / 64) &= !(1 << (fd % 64)) };
                }
            }
        }
        total
    }
}
