//! A wait on more descriptors than poll(2) may name. Owns: that the descriptor limit of a program does not
//! end our sleeps.
//!
//! poll(2) fails with EINVAL if it names more descriptors than RLIMIT_NOFILE allows, open or not; sshd's
//! sandbox sets that limit to 1. Our sleeps name a doorbell beside each TCP socket, so where the program's
//! own set fits ours may not. select(2) knows no such limit. What it cannot tell (RDHUP, HUP, ERR, NVAL) is
//! asked of poll afterwards, in pieces that fit.

use crate::mem::Scratch;
use crate::net::{TcpInput, tcp_input};
use crate::raw::{nr, syscall};
use crate::raw_poll::{PollFd, ask_libc, bits, wait_raw};
use crate::{Errno, Result, check};
use core::ffi::c_void;
use sync::{AtomicPtr, Ordering};

/// Signature of libc's `pselect`, returning -1 and setting errno on failure.
pub type LibcPselect = unsafe extern "C-unwind" fn(
    i32,
    *mut c_void,
    *mut c_void,
    *mut c_void,
    *const [i64; 2],
    *const c_void,
) -> i32;

static LIBC_PSELECT: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// How long a sleep lasts at most that cannot name all it waits for: an end that only HUP or ERR tells.
const SLICE_NS: u64 = 50_000_000;
/// Words of each set that need no memory: 1024 numbers, where doorbells of a small program lie.
const WORDS_ON_STACK: usize = 32;

/// Installs libc's `pselect` for [`wait`].
pub fn use_libc(pselect: LibcPselect) {
    LIBC_PSELECT.store(pselect as *mut (), Ordering::Release);
}

/// As ppoll(2), whatever the descriptor limit; `timeout_ns` `None` for ever. Holds nothing that must be
/// dropped while it sleeps on few descriptors: pthread cancellation may unwind through it.
#[cold]
#[inline(never)]
pub fn wait(fds: &mut [PollFd], timeout_ns: Option<u64>, mask: *const c_void) -> Result<usize> {
    let limit = timeout_ns.map(|ns| crate::time::monotonic_ns().saturating_add(ns));
    let mut was_vain = false;
    loop {
        let left = limit.map(|end| end.saturating_sub(crate::time::monotonic_ns()));
        let is_partial = was_vain || fds.iter().any(|entry| entry.fd >= 0 && entry.events == 0);
        let slice = if is_partial { Some(left.map_or(SLICE_NS, |left| left.min(SLICE_NS))) } else { left };
        let told = select(fds, slice, mask, was_vain)?;
        let ready = look(fds).unwrap_or_else(|| deduce(fds));
        if ready > 0 || left == Some(0) {
            return Ok(ready);
        }
        was_vain = told > 0;
    }
}

/// What poll says now, asked in as many pieces as it takes; `None` if it lets nobody ask for a single one.
fn look(fds: &mut [PollFd]) -> Option<usize> {
    match wait_raw(fds, 0) {
        Ok(ready) => Some(ready),
        Err(Errno::EINVAL) if fds.len() > 1 => {
            let (first, rest) = fds.split_at_mut(fds.len() / 2);
            Some(look(first)? + look(rest)?)
        }
        Err(_) => None,
    }
}

/// The same from what select said, which [`select`] left in the entries. Returns how many have events.
fn deduce(fds: &mut [PollFd]) -> usize {
    let mut ready = 0;
    for entry in fds.iter_mut() {
        let may_have_ended = entry.revents & bits::IN != 0 && entry.events & bits::RDHUP != 0;
        if may_have_ended && tcp_input(entry.fd) == TcpInput::Ended {
            entry.revents |= bits::RDHUP;
        }
        entry.revents &= entry.events | bits::NVAL;
        ready += usize::from(entry.revents != 0);
    }
    ready
}

/// select(2) by the entries; leaves what it said in them and returns how many it spoke of. If the last one
/// woke for what no entry asked, those that made it may be left out: it says "readable" for bytes as for an
/// end.
fn select(fds: &mut [PollFd], timeout_ns: Option<u64>, mask: *const c_void, was_vain: bool) -> Result<usize> {
    let numbers = fds.iter().map(|entry| entry.fd + 1).max().unwrap_or(0).max(0) as usize;
    let words = numbers.div_ceil(64);
    let mut on_stack = [0u64; 3 * WORDS_ON_STACK];
    if words <= WORDS_ON_STACK {
        return Sets { words: &mut on_stack, each: WORDS_ON_STACK }.ask(fds, timeout_ns, mask, was_vain);
    }
    let mut scratch = Scratch::for_poll(3 * words)?;
    Sets { words: scratch.words(), each: words }.ask(fds, timeout_ns, mask, was_vain)
}

/// Three bit sets, one behind the other, all empty.
struct Sets<'a> {
    words: &'a mut [u64],
    each: usize,
}

/// What each set stands for.
const ASKED: [i16; 3] = [
    bits::IN | bits::RDNORM | bits::RDBAND | bits::RDHUP,
    bits::OUT | bits::WRNORM | bits::WRBAND,
    bits::PRI,
];

impl Sets<'_> {
    fn ask(
        self,
        fds: &mut [PollFd],
        timeout_ns: Option<u64>,
        mask: *const c_void,
        was_vain: bool,
    ) -> Result<usize> {
        let mut numbers = 0;
        for entry in fds.iter_mut().filter(|entry| entry.fd >= 0) {
            let is_doubtful = entry.events & ASKED[0] == bits::RDHUP;
            for (set, asked) in ASKED.into_iter().enumerate() {
                if entry.events & asked != 0 && !(set == 0 && is_doubtful && was_vain) {
                    self.words[set * self.each + entry.fd as usize / 64] |= 1 << (entry.fd % 64);
                    numbers = numbers.max(entry.fd + 1);
                }
            }
        }
        let told = pselect(numbers, self.words, self.each, timeout_ns, mask);
        let (granted, told) = match told {
            // One of the numbers is closed: poll tells which; if it tells nothing, all are as good as closed.
            Err(Errno::EBADF) => (false, 1),
            told => (true, told?),
        };
        for entry in fds.iter_mut() {
            entry.revents = match (granted && told > 0, entry.fd >= 0) {
                (true, true) => self.told(entry.fd),
                (false, true) if !granted => bits::NVAL,
                _ => 0,
            };
        }
        Ok(told)
    }

    fn told(&self, fd: i32) -> i16 {
        let is_in = |set: usize| self.words[set * self.each + fd as usize / 64] >> (fd % 64) & 1 == 1;
        [bits::IN, bits::OUT, bits::PRI]
            .into_iter()
            .enumerate()
            .fold(0, |told, (set, bit)| if is_in(set) { told | bit } else { told })
    }
}

fn pselect(
    numbers: i32,
    words: &mut [u64],
    each: usize,
    timeout_ns: Option<u64>,
    mask: *const c_void,
) -> Result<usize> {
    let time = timeout_ns.map(|ns| [(ns / 1_000_000_000) as i64, (ns % 1_000_000_000) as i64]);
    let time = time.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
    let mut parts = words.chunks_exact_mut(each).map(|part| part.as_mut_ptr().cast::<c_void>());
    let mut next = || parts.next().unwrap_or(core::ptr::null_mut());
    let (read, write, except) = (next(), next(), next());
    let real = LIBC_PSELECT.load(Ordering::Acquire);
    if real.is_null() {
        // SAFETY: three sets of at least `numbers` bits and a time outlive the call; no mask is passed.
        return check(unsafe { syscall!(nr::__NR_pselect6, numbers, read, write, except, time, 0) });
    }
    // SAFETY: `use_libc` stored a function of exactly this type.
    let real = unsafe { core::mem::transmute::<*mut (), LibcPselect>(real) };
    // SAFETY: as above; the mask is the program's own.
    ask_libc(|| unsafe { real(numbers, read, write, except, time, mask) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_poll_would_say_is_said_of_pipes_and_of_closed_numbers() {
        let (full, empty) = (crate::pipe::create().unwrap(), crate::pipe::create().unwrap());
        crate::pipe::ring(full);
        let entry = |fd| PollFd { fd, events: bits::IN, revents: 0 };
        let mut fds = [entry(empty), entry(-1), entry(full)];
        assert_eq!(wait(&mut fds, None, core::ptr::null()), Ok(1));
        assert_eq!(fds.map(|entry| entry.revents), [0, 0, bits::IN]);
        assert_eq!(wait(&mut fds[..2], Some(1_000_000), core::ptr::null()), Ok(0));
        crate::fd::close(full);
        assert_eq!(wait(&mut fds, None, core::ptr::null()), Ok(1));
        assert_eq!(fds[2].revents, bits::NVAL);
        crate::fd::close(empty);
    }
}
