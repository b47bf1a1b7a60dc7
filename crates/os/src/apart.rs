//! A sleep in a call that goes on after a handler with SA_RESTART, and is interrupted by any other. Owns:
//! that the two are told apart in a process that has both.
//!
//! poll(2) fails with EINTR whichever handler ran. So those that let calls go on are held back for the
//! length of the sleep, and a signalfd, which nobody reads, wakes it when one is due: it runs as the sleep
//! ends. What interrupts the sleep itself is one of the others.

use crate::part::Part as _;
use crate::poll::{PollFd, bits};
use crate::raw::{nr, syscall};
use crate::{Errno, Result, check, signals};
use sync::{AtomicI32, AtomicU64, Ordering};

/// A call is told apart once it has lasted so long: most never ask. What the kernel has said of the handlers
/// is believed for less than that, so it is no older than the call.
pub const FIRST_SLICE_MS: i32 = 50;
const BELIEVED_NS: u64 = 40_000_000;

/// Sets of signals that are told of at once: threads of a program seldom block different ones.
const PLACES: usize = 4;

/// A signalfd and the signals that it tells of (0: nobody's). Made where it is first wanted, and kept: a
/// handler may jump out of the sleep, and who polls a number must find there what he has looked up.
struct Place {
    signals: AtomicU64,
    /// Plus one; 0 while there is none.
    fd: AtomicI32,
}

/// The signalfds of a process; which signals are to be held back, and when that was asked.
pub(crate) struct Due {
    places: [Place; PLACES],
    held_back: AtomicU64,
    asked_ns: AtomicU64,
}

impl Due {
    pub(crate) const fn new() -> Self {
        Due {
            places: [const { Place { signals: AtomicU64::new(0), fd: AtomicI32::new(0) } }; PLACES],
            held_back: AtomicU64::new(0),
            asked_ns: AtomicU64::new(0),
        }
    }

    /// The place that tells of `signals`; `None` if there is none to be had, or none yet.
    fn of(&self, signals: u64) -> Option<&Place> {
        let is_it = |place: &&Place| place.signals.load(Ordering::Acquire) == signals;
        if let Some(known) = self.places.iter().find(is_it) {
            return Some(known).filter(|place| place.fd.load(Ordering::Acquire) != 0);
        }
        let take = |place: &&Place| {
            place.signals.compare_exchange(0, signals, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let place = self.places.iter().find(take)?;
        // SAFETY: the mask is readable for its eight bytes.
        let made = unsafe { syscall!(nr::__NR_signalfd4, usize::MAX, &raw const signals, 8, nr::O_CLOEXEC) };
        let Ok(fd) = check(made).and_then(|made| crate::fd::raise(made as i32)) else {
            place.signals.store(0, Ordering::Release);
            return None;
        };
        place.fd.store(fd + 1, Ordering::Release);
        Some(place)
    }

    fn held_back(&self) -> u64 {
        let now = crate::time::monotonic_ns();
        let asked = self.asked_ns.load(Ordering::Acquire);
        if now.wrapping_sub(asked) < BELIEVED_NS {
            return self.held_back.load(Ordering::Relaxed);
        }
        let held_back = signals::restarting_beside_others();
        self.held_back.store(held_back, Ordering::Relaxed);
        self.asked_ns.store(now, Ordering::Release);
        held_back
    }
}

impl Place {
    /// It was closed behind our back.
    fn forget(&self) {
        self.fd.store(0, Ordering::Release);
        self.signals.store(0, Ordering::Release);
    }
}

fn blocked() -> u64 {
    let mut blocked = 0u64;
    // SAFETY: asking for the mask writes its eight bytes.
    unsafe { syscall!(nr::__NR_rt_sigprocmask, 0, 0, &raw mut blocked, 8) };
    blocked
}

/// As `poll::wait_as`. Where a handler with SA_RESTART ran, and once a second, it may return early with
/// nothing to tell; EINTR if another one ran with it. The last of `fds` is for this function's own use. For
/// calls that have lasted for [`FIRST_SLICE_MS`].
#[inline(never)]
pub fn wait(fds: &mut [PollFd], timeout_ms: i32, mask: Option<u64>) -> Result<usize> {
    /// Should somebody have closed the signalfd, and have its number, no handler is late for longer.
    const LONGEST_MS: i32 = 1000;
    let Some((due, own)) = fds.split_last_mut() else { return Ok(0) };
    let held_back = if crate::confined::is_confined() { 0 } else { Due::here().held_back() };
    let blocked = mask.unwrap_or_else(|| if held_back == 0 { 0 } else { blocked() });
    let told = match held_back & !blocked {
        0 => None,
        signals => Due::here().of(signals),
    };
    let Some(told) = told else { return crate::poll::wait_as(own, timeout_ms, mask) };
    *due = PollFd { fd: told.fd.load(Ordering::Acquire) - 1, events: bits::IN, revents: 0 };
    let most = if timeout_ms < 0 { LONGEST_MS } else { timeout_ms.min(LONGEST_MS) };
    let ready = match crate::poll::wait_masked(fds, most, blocked | held_back) {
        // More than the descriptor limit allows to name: the plain wait knows a way.
        Err(Errno::EINVAL) => {
            let own = fds.len() - 1;
            return crate::poll::wait_as(&mut fds[..own], timeout_ms, mask);
        }
        told => told?,
    };
    match fds.last().map_or(0, |due| due.revents) {
        0 => Ok(ready),
        seen => {
            if seen & bits::NVAL != 0 {
                told.forget();
            } else if let Some(blocked) = mask {
                crate::held_back::let_through(blocked)?;
            }
            Ok(ready - 1)
        }
    }
}
