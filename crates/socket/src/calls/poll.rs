//! poll and select over our sockets. Owns: the private array in which each of them stands as doorbell and TCP
//! socket.
//!
//! The program's array is written only when the call is over. What the rings say needs no system call: if
//! one of our sockets is ready, the kernel is asked for what is not ours, and every 167 us for all; else by a
//! call that sleeps.

use crate::abandoned::{Call, address};
use crate::conn::Conn;
use crate::decide::in_use;
use crate::end::End;
use crate::held::Held;
use crate::phase::Phase;
use crate::wait::{self, Patience};
use crate::{answer, detour, doorbell, epoll, flag, ready, records, sleepers, unseen, watch};
use os::Errno;
use os::held_back::Interrupted;
use os::mem::Scratch;
use os::poll::{PollFd, bits};
use os::time::Cycles;
use shm::slab::Index;
use sync::Ordering;
use sync::Ordering as Shared;

/// Sockets of a poll whose private array lies on the stack: programs poll on stacks of 8 KiB, in handlers and
/// small threads.
const ON_STACK: usize = 64;
const FEW: usize = 16;
const READ_SIDE: i16 = bits::IN | bits::RDNORM | bits::RDHUP;
const WRITE_SIDE: i16 = bits::OUT | bits::WRNORM | bits::WRBAND;
const NONE: PollFd = PollFd { fd: -1, events: 0, revents: 0 };

/// How the real waiting is done: private entries and a time limit in nanoseconds (`None`: for ever).
pub trait Sleep {
    /// As ppoll(2), with whatever signal mask the call came with.
    fn sleep(&mut self, fds: &mut [PollFd], timeout_ns: Option<u64>) -> Result<usize, Errno>;

    /// A look, where something is ready already: the kernel lets no signal through then that is blocked
    /// outside the call.
    fn glance(&mut self, fds: &mut [PollFd]) -> Result<usize, Errno>;

    /// Whether signals are let through that are blocked outside the call: only a sleep delivers them.
    fn has_mask(&self) -> bool;

    /// Whether the kernel may refuse the program's set for its size: then it is asked before any answer.
    fn may_be_refused(&self) -> bool;

    /// Whether a number that was open when the call began, and is closed meanwhile, counts as ready for all
    /// that was asked (`fs/select.c`; poll says POLLNVAL).
    fn is_closing_ready(&self) -> bool;
}

/// Before [`poll`] for a call of the program's: it waits for these.
#[inline]
pub fn note_wait(fds: impl Iterator<Item = i32>) {
    fds.filter(|fd| *fd >= 0).for_each(unseen::note_polled);
}

/// Whether any entry is a socket of ours; `false` sends the call to libc as it is.
pub fn concerns_us(fds: &[PollFd]) -> bool {
    fds.iter().any(|entry| entry.fd >= 0 && (in_use(entry.fd).is_some() || epoll::is_ours(entry.fd)))
}

/// poll(2) over `fds`. Returns the number of entries with events.
pub fn poll(fds: &mut [PollFd], timeout_ns: Option<u64>, sleep: &mut impl Sleep) -> Result<usize, Errno> {
    if !sleep.may_be_refused() {
        match at_a_glance(fds, timeout_ns != Some(0) && !sleep.has_mask(), sleep) {
            Ok(Some(ready)) => return Ok(ready),
            Ok(None) => {}
            Err(_) => {
                fds.iter_mut().for_each(|entry| entry.revents = 0);
                return Err(Errno::EINTR);
            }
        }
    }
    match fds.len() {
        few if few <= FEW => on_stack::<{ 3 * FEW }>(fds, timeout_ns, sleep),
        many if many <= ON_STACK => on_stack::<{ 3 * ON_STACK }>(fds, timeout_ns, sleep),
        _ => {
            let mut scratch = Scratch::for_poll(3 * fds.len()).map_err(|_| Errno::ENOMEM)?;
            Round { fds, private: scratch.poll_entries() }.run(timeout_ns, sleep)
        }
    }
}

/// (In frames of their own: who polls a few on a small stack does not pay for many.)
#[inline(never)]
fn on_stack<const ENTRIES: usize>(
    fds: &mut [PollFd],
    timeout_ns: Option<u64>,
    sleep: &mut impl Sleep,
) -> Result<usize, Errno> {
    Round { fds, private: &mut [NONE; ENTRIES] }.run(timeout_ns, sleep)
}

/// The answer without a look at what each socket does on TCP, after a short spin if the call may sleep: only
/// if every entry is a socket of ours whose TCP connection is not known to have ended (or none at all), or
/// the kernel's alone, and one of ours is ready by its rings. The kernel is asked for its own alone.
fn at_a_glance(
    fds: &mut [PollFd],
    may_spin: bool,
    sleep: &mut impl Sleep,
) -> Result<Option<usize>, Interrupted> {
    // (While this was 8, pgbench with ten connections had 1.10 of TCP's rate; now it has 1.24 to 1.29.)
    let Some(foreign) = foreign(fds) else { return Ok(None) };
    let look = |fds: &mut [PollFd]| {
        let (mut levels, mut ready) = ([0; ON_STACK], 0);
        for (at, (entry, level)) in fds.iter().zip(&mut levels).enumerate() {
            if entry.fd < 0 || foreign & 1 << at != 0 {
                continue;
            }
            let (conn, end) = resolve(entry.fd)?;
            *level = self::level(&conn, &end, entry.fd, 0) & (entry.events | bits::ERR | bits::HUP);
            ready += usize::from(*level != 0);
        }
        if ready == 0 {
            return None;
        }
        fds.iter_mut().zip(levels).for_each(|(entry, level)| entry.revents = level);
        Some(ready)
    };
    let first = fds.iter().enumerate().find(|(at, entry)| entry.fd >= 0 && foreign & 1 << at == 0);
    let Some(first) = first.and_then(|(_, entry)| crate::held::hold(entry.fd)) else { return Ok(None) };
    let ready = match look(fds) {
        // (Others would not be heard of by a spin.)
        None if may_spin && foreign == 0 => spin(&first, fds, look)?,
        found => found,
    };
    match ready.filter(|_| !is_kernel_due(&first)) {
        Some(ready) if foreign != 0 => {
            // (A handler that the call lets run may never return.)
            let call = Call::on_awake(&first, address(&first));
            let told = ask_for(fds, foreign, sleep);
            call.end_on(&first);
            Ok(told.map(|told| ready + told))
        }
        told => Ok(told),
    }
}

/// A bit for each entry that is the kernel's alone, where all others are the rings' business; nothing if that
/// is not so, or if they are many.
fn foreign(fds: &[PollFd]) -> Option<u64> {
    const { assert!(ON_STACK <= u64::BITS as usize) };
    if fds.len() > ON_STACK {
        return None;
    }
    let mut foreign = 0u64;
    for (at, entry) in fds.iter().enumerate() {
        if !is_the_rings_business(entry) {
            if in_use(entry.fd).is_some() || epoll::is_ours(entry.fd) {
                return None;
            }
            foreign |= 1 << at;
        }
    }
    (foreign.count_ones() as usize <= FEW).then_some(foreign)
}

/// Asks the kernel for the entries in `foreign`, without a sleep. How many are ready; nothing if it refuses.
#[inline(never)]
fn ask_for(fds: &mut [PollFd], foreign: u64, sleep: &mut impl Sleep) -> Option<usize> {
    let (mut asked, mut count) = ([NONE; FEW], 0);
    for (_, entry) in fds.iter().enumerate().filter(|(at, _)| foreign & 1 << at != 0) {
        asked[count] = PollFd { revents: 0, ..*entry };
        count += 1;
    }
    let told = sleep.glance(&mut asked[..count]).ok()?;
    let entries = fds.iter_mut().enumerate().filter(|(at, _)| foreign & 1 << at != 0);
    entries.zip(asked).for_each(|((_, entry), told)| entry.revents = told.revents);
    Some(told)
}

/// The short wait before a sleep. Before the core is given away the call is written down.
fn spin(
    first: &Held,
    fds: &mut [PollFd],
    look: impl Fn(&mut [PollFd]) -> Option<usize>,
) -> Result<Option<usize>, Interrupted> {
    let (entry, mut call) = (address(&first), None);
    let before_yield = || {
        call.get_or_insert_with(|| Call::on_awake(first, entry));
    };
    let ready = wait::spin_for(first, fds.len() as u32, before_yield, || look(fds));
    if let Some(call) = call {
        call.end_on(first);
    }
    ready
}

/// Whether the kernel is to be asked although some are ready: it alone knows whose peer was killed, and a set
/// in which somebody always is ready would never hear of it. The first socket stands for the set. (A program
/// whose every poll takes so long asks at every sixteenth, or it would ask each time.)
fn is_kernel_due(first: &Conn) -> bool {
    const ASKED_EVERY: (Cycles, Cycles) = (Cycles::from_us(167), Cycles::from_us(1_667));
    const POLLS: u16 = 16;
    let now = Cycles::now();
    let since = now.since(Cycles::load(&first.stream.polled));
    let polls = first.stream.polls.load(Ordering::Relaxed) + 1;
    let is_due = since > ASKED_EVERY.1 || (since > ASKED_EVERY.0 && polls >= POLLS);
    if is_due {
        now.store(&first.stream.polled);
    }
    first.stream.polls.store(if is_due { 0 } else { polls.min(POLLS) }, Ordering::Relaxed);
    is_due
}

fn is_the_rings_business(entry: &PollFd) -> bool {
    let is_open = |conn: &Conn, end: &End| {
        let closed = [end.mine(), end.theirs()].map(|side| side.closed.load(Shared::Acquire));
        conn.phase() == Phase::Smc
            && closed == [0, 0]
            && !conn.has(flag::TCP_ENDED | flag::RESET)
            && (!end.outgoing.has_ended() || detour::come_back(conn, end))
            && !end.incoming.has_ended()
    };
    let is_ours = || resolve(entry.fd).is_some_and(|(conn, end)| is_open(&conn, &end));
    entry.fd < 0 || (entry.events & bits::PRI == 0 && is_ours())
}

struct Round<'a> {
    fds: &'a mut [PollFd],
    /// Of entry `i`: at `i` the TCP socket or foreign descriptor, at `fds.len() + i` its doorbell, at `2 *
    /// fds.len() + i` the connection that is held meanwhile and what it waits for.
    private: &'a mut [PollFd],
}

impl Round<'_> {
    #[inline(never)]
    fn run(&mut self, timeout_ns: Option<u64>, sleep: &mut impl Sleep) -> Result<usize, Errno> {
        let entry = address(sleep);
        let limit = timeout_ns.map(|ns| os::time::monotonic_ns().saturating_add(ns));
        let (mut is_first, mut patience) = (true, Patience::default());
        let slept_from = Cycles::now();
        loop {
            let mut call = Call::begin_awake(entry);
            let now_ready = self.prepare(&mut patience, &mut call);
            let left = limit.map(|end| end.saturating_sub(os::time::monotonic_ns()));
            let is_over = left == Some(0) && !is_first;
            is_first = false;
            let at_once = now_ready.is_ready || is_over;
            let sliced = bounded(if at_once { Some(0) } else { left }, now_ready.slice_ms);
            let count = self.fds.len() * 2;
            let private = &mut self.private[..count];
            let slept = if now_ready.is_ready {
                sleep.glance(private)
            } else {
                call.may_sleep();
                sleep.sleep(private, sliced)
            };
            self.relax(slept_from, call);
            if slept == Err(Errno::EINTR) {
                // (As the kernel does; what it refuses it leaves alone.)
                self.fds.iter_mut().for_each(|entry| entry.revents = 0);
            }
            slept?;
            let ready = self.collect(sleep.is_closing_ready());
            if ready > 0 || is_over || timeout_ns == Some(0) {
                return Ok(ready);
            }
        }
    }

    /// Fills the private array and asks to be rung.
    fn prepare(&mut self, patience: &mut Patience, call: &mut Call) -> Prepared {
        epoll::look_after_watched();
        let mut prepared = Prepared { is_ready: false, slice_ms: epoll::slice_ms() };
        let count = self.fds.len();
        for at in 0..count {
            let PollFd { fd, events, .. } = self.fds[at];
            self.private[at] = PollFd { fd, events, revents: 0 };
            self.private[count + at] = NONE;
            self.private[2 * count + at] = NONE;
            let Some((conn, end)) = resolve(fd) else {
                epoll::prepare_to_be_polled(fd);
                continue;
            };
            if ready::is_half_closed_by_peer(&end) {
                ready::ask_for_half_closed_peer(&conn, &end, fd);
            }
            if events & WRITE_SIDE != 0 {
                prepared.slice_ms = look_after(&conn, &end, prepared.slice_ms);
            }
            self.private[at].events = tcp_events(&conn, &end, events);
            let (mut new, mut all) = (events, events);
            if at > 0 && doorbell::is_slept_at(&conn) {
                let earlier = self.asked_earlier(at, conn.index());
                (new, all) = (new_sides(events, earlier), events | earlier);
            }
            change_waiters(&conn, &end, new, 1);
            call.add(&conn, new & READ_SIDE != 0, new & WRITE_SIDE != 0);
            let is_loud = doorbell::rearm(&conn, &end, all & READ_SIDE != 0, all & WRITE_SIDE != 0);
            prepared.is_ready |= level(&conn, &end, fd, 0) & events != 0;
            if events & WRITE_SIDE != 0
                && ready::is_half_closed_by_peer(&end)
                && !ready::has_space(&conn, &end)
            {
                watch::watch(&conn);
                prepared.slice_ms = epoll::slice_ms();
            }
            if prepared.slice_ms < 0 && sleepers::is_shared(&conn, &end) {
                prepared.slice_ms = wait::SHARED_SLICE_MS;
            }
            if is_loud {
                prepared.slice_ms = patience.next_ms();
            } else {
                self.private[count + at] = PollFd { fd: end.my_bell(), events: bits::IN, revents: 0 };
            }
            self.private[2 * count + at] = PollFd { fd: conn.park().0 as i32, events: new, revents: 0 };
        }
        // (A set among them may have been seen to wait for room.)
        let of_sets = epoll::slice_ms();
        if of_sets >= 0 && !(0..=of_sets).contains(&prepared.slice_ms) {
            prepared.slice_ms = of_sets;
        }
        if watch::has_held() && !(0..wait::HELD_SLICE_MS).contains(&prepared.slice_ms) {
            prepared.slice_ms = wait::HELD_SLICE_MS;
        }
        prepared
    }

    /// What entries before `at` wait for on the same connection: who is named twice is one sleeper, or he
    /// would be rung by himself. (Looked for only where somebody sleeps there.)
    #[cold]
    #[inline(never)]
    fn asked_earlier(&self, at: usize, index: Index) -> i16 {
        let earlier = self.fds.iter().zip(&self.private[2 * self.fds.len()..]).take(at);
        earlier.filter(|(_, held)| held.fd == index.0 as i32).fold(0, |all, (entry, _)| all | entry.events)
    }

    /// Whose connection entry `at` is.
    fn held(&self, at: usize) -> Option<(Held, i16)> {
        let PollFd { fd, events, .. } = self.private[2 * self.fds.len() + at];
        (fd >= 0).then(|| Some((Held::unpark(Index(fd as u32))?, events))).flatten()
    }

    fn relax(&mut self, slept_from: Cycles, call: Call) {
        let count = self.fds.len();
        let stood = call.end();
        for at in 0..count {
            let Some((conn, events)) = self.held(at) else { continue };
            if self.private[count + at].revents != 0 {
                doorbell::note_rung(&conn);
            }
            if !stood {
                conn.hold_anew();
            } else if let Some(end) = End::of(&conn) {
                change_waiters(&conn, &end, events, -1);
                doorbell::leave(&conn, &end);
            }
            wait::learn(&conn.waits.window, slept_from);
        }
    }

    fn collect(&mut self, is_closing_ready: bool) -> usize {
        let count = self.fds.len();
        let mut ready = 0;
        for at in 0..count {
            let PollFd { fd, events, .. } = self.fds[at];
            let told = self.private[at].revents;
            let revents = if self.private[2 * count + at].fd < 0 {
                let is_vain = told & bits::IN != 0 && !epoll::has_something(fd);
                if is_vain { told & !(bits::IN | bits::RDNORM) } else { told }
            } else {
                match resolve(fd) {
                    // It may be TCP that the server speaks, and that woke us.
                    Some((conn, _))
                        if conn.phase() == Phase::Intent && answer::refresh(&conn, fd) == Phase::Plain =>
                    {
                        os::poll::peek(fd, events)
                    }
                    Some((conn, end)) => {
                        // (Of another socket, if the number was closed meanwhile, and is had again.)
                        let is_the_same = self.private[2 * count + at].fd == conn.index().0 as i32;
                        let told = if is_the_same { told } else { 0 };
                        level(&conn, &end, fd, told) & (events | bits::ERR | bits::HUP | bits::NVAL)
                    }
                    // It went back to TCP while we slept, or was closed.
                    None => match os::poll::peek(fd, events) {
                        bits::NVAL if is_closing_ready => events,
                        told => told,
                    },
                }
            };
            self.fds[at].revents = revents;
            ready += usize::from(revents != 0);
        }
        ready
    }
}

/// What a look before a sleep found.
struct Prepared {
    is_ready: bool,
    /// Longest sleep in milliseconds, negative for no bound: unanswered intents are looked at now and then.
    slice_ms: i32,
}

fn bounded(left: Option<u64>, slice_ms: i32) -> Option<u64> {
    let slice = u64::try_from(slice_ms).ok().map(|ms| ms * 1_000_000);
    match (left, slice) {
        (Some(left), Some(slice)) => Some(left.min(slice)),
        (left, slice) => left.or(slice),
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

/// Those of `events` whose side is not among `counted`.
fn new_sides(events: i16, counted: i16) -> i16 {
    let known = [READ_SIDE, WRITE_SIDE].into_iter().filter(|side| counted & side != 0);
    known.fold(events, |left, side| left & !side)
}

fn change_waiters(conn: &Conn, end: &End, events: i16, by: i32) {
    let counted = |side: i16| if events & side != 0 { by } else { 0 };
    sleepers::count_sleepers(conn, end, counted(READ_SIDE), counted(WRITE_SIDE));
}

/// A writer without room: whether the reader rests is seen by the next look. The longest sleep from now on.
fn look_after(conn: &Conn, end: &End, slice_ms: i32) -> i32 {
    if ready::may_write(conn, end) {
        return slice_ms;
    }
    if detour::look_after(conn, end) {
        records::tell_outside(conn);
    }
    wait::sooner(slice_ms, epoll::slice_ms())
}

fn tcp_events(conn: &Conn, end: &End, events: i16) -> i16 {
    let mut wanted = events & bits::PRI;
    if conn.phase() == Phase::Intent {
        // Until the answer TCP tells about the connect, of room, and of a server that speaks TCP.
        return wanted | events & (READ_SIDE | WRITE_SIDE);
    }
    // TCP bytes come after a move back to TCP, or from a peer that lies; the level tells which.
    if events & READ_SIDE != 0 {
        wanted |= bits::IN;
    }
    if ready::writes_outside(conn, end) {
        wanted |= events & WRITE_SIDE;
    }
    // Also who asks for nothing is told of a reset, and a killed peer shows as FIN first.
    if events & READ_SIDE != 0 || !conn.has(flag::TCP_ENDED) {
        wanted |= bits::RDHUP;
    }
    wanted
}

/// What the program would see: rings, and what TCP just told.
fn level(conn: &Conn, end: &End, fd: i32, told: i16) -> i16 {
    if told & bits::IN != 0 && ready::is_contradicted_by_tcp(conn, end, fd, u32::from(told as u16)) {
        ready::break_off(conn, end, fd);
    }
    let told = told & !(bits::IN | bits::RDNORM | bits::OUT | bits::WRNORM);
    if told != 0 && conn.phase() == Phase::Intent {
        answer::is_established(conn, fd);
    }
    ready::note_tcp(conn, end, fd, u32::from(told as u16));
    let mut level = ready::levels(conn, end, fd) as i16 | told;
    if conn.phase() == Phase::Intent && !answer::is_established(conn, fd) {
        level &= !(READ_SIDE | WRITE_SIDE);
    }
    level
}
