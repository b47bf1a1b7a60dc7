//! poll and select over our sockets. Owns: the private array in which each of them stands as doorbell and TCP socket.
//!
//! The program's array is written only when the call is over.

use crate::conn::{Conn, End, Held, Phase, flag};
use crate::stream::in_use;
use crate::{client, epoll, ready};
use core::sync::atomic::Ordering;
use os::Errno;
use os::mem::Scratch;
use os::poll::{PollFd, bits};

const ON_STACK: usize = 64;
const READ_SIDE: i16 = bits::IN | bits::RDNORM | bits::RDHUP;
const WRITE_SIDE: i16 = bits::OUT | bits::WRNORM | bits::WRBAND;

/// How the real waiting is done: private entries and a time limit in nanoseconds (`None`: for ever).
pub trait Sleep {
    /// As ppoll(2), with whatever signal mask the call came with.
    fn sleep(&mut self, fds: &mut [PollFd], timeout_ns: Option<u64>) -> Result<usize, Errno>;
}

/// Whether any entry is a socket of ours; `false` sends the call to libc as it is.
pub fn concerns_us(fds: &[PollFd]) -> bool {
    fds.iter().any(|entry| entry.fd >= 0 && in_use(entry.fd).is_some())
}

/// poll(2) over `fds`. Returns the number of entries with events.
pub fn poll(fds: &mut [PollFd], timeout_ns: Option<u64>, sleep: &mut impl Sleep) -> Result<usize, Errno> {
    let mut on_stack = [PollFd { fd: -1, events: 0, revents: 0 }; 2 * ON_STACK];
    if fds.len() <= ON_STACK {
        return Round { fds, private: &mut on_stack }.run(timeout_ns, sleep);
    }
    let mut scratch = Scratch::for_poll(2 * fds.len()).map_err(|_| Errno::ENOMEM)?;
    Round { fds, private: scratch.poll_entries() }.run(timeout_ns, sleep)
}

struct Round<'a> {
    fds: &'a mut [PollFd],
    /// The TCP socket or foreign descriptor of entry `i` at `i`, its doorbell at `fds.len() + i`.
    private: &'a mut [PollFd],
}

impl Round<'_> {
    fn run(&mut self, timeout_ns: Option<u64>, sleep: &mut impl Sleep) -> Result<usize, Errno> {
        let limit = timeout_ns.map(|ns| os::time::monotonic_ns().saturating_add(ns));
        let mut is_first = true;
        loop {
            let now_ready = self.prepare();
            let left = limit.map(|end| end.saturating_sub(os::time::monotonic_ns()));
            let is_over = left == Some(0) && !is_first;
            is_first = false;
            let sliced = self.bounded(if now_ready || is_over { Some(0) } else { left });
            let count = self.fds.len() * 2;
            let slept = sleep.sleep(&mut self.private[..count], sliced);
            self.relax();
            slept?;
            let ready = self.collect();
            if ready > 0 || is_over || timeout_ns == Some(0) {
                return Ok(ready);
            }
        }
    }

    /// Unanswered intents are looked at now and then, however long the program wants to sleep.
    fn bounded(&self, left: Option<u64>) -> Option<u64> {
        let slice = u64::try_from(epoll::slice_ms()).ok().map(|ms| ms * 1_000_000);
        match (left, slice) {
            (Some(left), Some(slice)) => Some(left.min(slice)),
            (left, slice) => left.or(slice),
        }
    }

    /// Fills the private array and asks to be rung. Returns whether something is ready already.
    fn prepare(&mut self) -> bool {
        let mut is_ready = false;
        let count = self.fds.len();
        for at in 0..count {
            let PollFd { fd, events, .. } = self.fds[at];
            self.private[at] = PollFd { fd, events, revents: 0 };
            self.private[count + at] = PollFd { fd: -1, events: 0, revents: 0 };
            let Some((conn, end)) = resolve(fd) else { continue };
            self.private[at].events = tcp_events(&conn, events);
            self.private[count + at] = PollFd { fd: end.my_bell(), events: bits::IN, revents: 0 };
            change_waiters(&conn, events, 1);
            ready::rearm(&conn, &end, events & READ_SIDE != 0, events & WRITE_SIDE != 0);
            is_ready |= level(&conn, &end, fd, 0) & events != 0;
        }
        is_ready
    }

    fn relax(&self) {
        let count = self.fds.len();
        for at in 0..count {
            if self.private[count + at].fd >= 0
                && let Some(conn) = crate::conn::hold(self.fds[at].fd)
            {
                change_waiters(&conn, self.fds[at].events, -1);
            }
        }
    }

    fn collect(&mut self) -> usize {
        let count = self.fds.len();
        let mut ready = 0;
        for at in 0..count {
            let PollFd { fd, events, .. } = self.fds[at];
            let told = self.private[at].revents;
            if self.private[count + at].revents != 0
                && let Some(conn) = crate::conn::hold(fd)
            {
                ready::note_rung(&conn);
            }
            let revents = if self.private[count + at].fd < 0 {
                told
            } else {
                match resolve(fd) {
                    Some((conn, end)) => {
                        level(&conn, &end, fd, told) & (events | bits::ERR | bits::HUP | bits::NVAL)
                    }
                    // It went back to TCP while we slept.
                    None => os::poll::peek(fd, events),
                }
            };
            self.fds[at].revents = revents;
            ready += usize::from(revents != 0);
        }
        ready
    }
}

fn resolve(fd: i32) -> Option<(Held, End)> {
    if fd < 0 {
        return None;
    }
    let conn = in_use(fd)?;
    let end = End::of(&conn)?;
    Some((conn, end))
}

fn change_waiters(conn: &Conn, events: i16, by: i32) {
    let change = |counter: &core::sync::atomic::AtomicU32| {
        let _ =
            counter.fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| count.checked_add_signed(by));
    };
    if events & READ_SIDE != 0 {
        change(&conn.rx_waiters);
    }
    if events & WRITE_SIDE != 0 {
        change(&conn.tx_waiters);
    }
}

fn tcp_events(conn: &Conn, events: i16) -> i16 {
    let mut wanted = events & bits::PRI;
    if conn.phase() == Phase::Intent {
        // Until the answer TCP tells about the connect, and about a server that speaks TCP.
        wanted |= events & (READ_SIDE | if conn.has(flag::ESTABLISHED) { 0 } else { WRITE_SIDE });
        return wanted;
    }
    // TCP bytes come after a move back to TCP, or from a peer that lies; the level tells which.
    if events & READ_SIDE != 0 {
        wanted |= bits::IN;
    }
    // Also who asks for nothing is told of a reset, and a killed peer shows as FIN first.
    if events & READ_SIDE != 0 || !conn.has(flag::TCP_ENDED) {
        wanted |= bits::RDHUP;
    }
    wanted
}

/// What the program would see: rings, and what TCP just told.
fn level(conn: &Conn, end: &End, fd: i32, told: i16) -> i16 {
    if told & bits::IN != 0 && ready::is_contradicted_by_tcp(conn, end, fd) {
        crate::stream::break_off(conn, end, fd);
    }
    let told = told & !(bits::IN | bits::RDNORM | bits::OUT | bits::WRNORM);
    ready::note_tcp(conn, end, u32::from(told as u16));
    let mut level = ready::levels(conn, end, fd) as i16 | told;
    if conn.phase() == Phase::Intent && !client::is_established(conn, fd) {
        level &= !(READ_SIDE | WRITE_SIDE);
    }
    level
}
