//! Waiting for data or space: a bounded spin, then sleep on the doorbell and the TCP socket together.
//!
//! Owns: how a call sleeps. Every sleep is libc's own poll (signals, cancellation, time limits behave as in
//! the call the program made), but for naps, which are short and mind the same (see `nap`). No sleep without
//! having asked to be rung and looked again.

use super::spin::{hand_over, spin_for, waiter};
use crate::abandoned::Call;
use crate::conn::Conn;
use crate::end::End;
use crate::held::Held;
use crate::here::fabric;
use crate::phase::Phase;
use crate::policy::{Saw, Step, Waiter};
use crate::{Outcome, answer, detour, doorbell, flag, kept, push, ready, resting, sleepers};
use fabric::verdict::Verdict;
use os::Errno;
use os::held_back::{self, Interrupted};
use os::poll::{PollFd, bits};
use os::time::Cycles;

/// How long a sleep may last before an unanswered intent is looked at again.
pub(crate) const SLICE_MS: i32 = 10;
/// How often a reader looks whether what its peer holds back is due.
pub(crate) const HELD_SLICE_MS: i32 = 20;
/// How often a writer asks whether a half-closed peer is still there: TCP has nothing more to say about it.
pub(crate) const HALF_CLOSED_SLICE_MS: i32 = 200;

/// How often a sleeper whose side other processes hold as well looks again, unasked: one of them may have
/// been killed after it drained the doorbell, and before it asked anew for everybody.
pub(crate) const SHARED_SLICE_MS: i32 = 500;

/// When a writer looks whether the reader rests: first, and at most between two looks. (Few looks: a signal
/// that comes meanwhile finds no sleep to interrupt.)
const REST_SLICE_MS: (i32, i32) = (30, 240);

/// Longest nap: who is killed or reset without a word is noticed so much later.
const NAP_MS: i32 = 5;

/// What the caller waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// At least so many bytes.
    Data(usize),
    /// So many bytes, all of them in the ring at once, as far as it holds them.
    Peek(usize),
    /// Room in the ring.
    Space,
    /// The same, or room on TCP, where this direction is.
    Outside,
}

impl Wish {
    fn is_to_write(self) -> bool {
        matches!(self, Wish::Space | Wish::Outside)
    }
}

/// When the wait must end, CLOCK_MONOTONIC; `None` for never.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limit(Option<u64>);

impl Limit {
    /// From a socket time-out in nanoseconds, 0 for none.
    pub(crate) fn after_ns(timeout_ns: u64) -> Self {
        Limit((timeout_ns != 0).then(|| os::time::monotonic_ns().saturating_add(timeout_ns)))
    }

    /// The same for a call that has moved so many bytes: a signal handler ends it, whatever its flags say,
    /// since the call has something to return.
    pub(crate) fn with_moved(self, bytes: usize) -> Self {
        if bytes > 0 { Limit(self.0.or(Some(u64::MAX))) } else { self }
    }

    /// Whether the wait never ends by itself.
    pub(crate) fn is_never(self) -> bool {
        self.0.is_none()
    }

    /// Milliseconds left for one sleep of at most `most` (negative: any length), rounded up. `None` if over.
    pub(crate) fn slice_ms(self, most: i32) -> Option<i32> {
        let Some(end) = self.0 else { return Some(most) };
        let left = end.checked_sub(os::time::monotonic_ns()).filter(|left| *left > 0)?;
        let left_ms = i32::try_from(left.div_ceil(1_000_000)).unwrap_or(i32::MAX);
        Some(if most < 0 { left_ms } else { left_ms.min(most) })
    }
}

fn is_granted(conn: &Conn, end: &End, wish: Wish) -> bool {
    match wish {
        Wish::Data(wanted) => ready::has_bytes(end, wanted),
        Wish::Peek(wanted) => {
            let wanted = wanted.min(end.incoming.size());
            push::note_held(end);
            end.incoming.used().map_or(true, |used| used >= wanted) || end.is_read_by_libc()
        }
        // Before the server's answer TCP alone tells of room.
        Wish::Space | Wish::Outside => {
            conn.phase() != Phase::Intent
                && (ready::may_write(conn, end)
                    || ready::is_write_shut(end)
                    || ready::is_on_tcp_for_good(end))
        }
    }
}

/// Whether O_NONBLOCK was clear when a call began: what is set meanwhile is for the next one. The copy in the
/// slot is the peer's to overwrite: before the call's first sleep our own counts, or the kernel's.
pub(crate) struct Blocking {
    /// By the slot, as long as nothing else is known.
    pub(crate) is_said: bool,
    is_known: bool,
}

impl Blocking {
    pub(crate) fn of(end: &End) -> Self {
        Blocking { is_said: !end.is_nonblocking(), is_known: false }
    }

    /// Asked before a sleep, where it was said.
    pub(crate) fn is_true(&mut self, conn: &Held, fd: i32) -> bool {
        let is_ours_to_tell = || conn.is_exclusive() || os::confined::is_confined();
        self.is_known = self.is_known
            || match is_ours_to_tell() {
                true => !conn.has(flag::NONBLOCKING),
                false => !os::fd::is_nonblocking(kept::number(conn, conn.index(), fd)),
            };
        // (Who has lied is not asked again.)
        self.is_said &= self.is_known;
        self.is_known
    }
}

/// Before the first sleep of a call its number had become another file's. (No call fails with it.)
const ANOTHER_FILE: Errno = Errno(i32::MAX);

/// What a call is told that waited in vain.
pub(crate) fn outcome_of(errno: Errno) -> Outcome {
    if errno == ANOTHER_FILE { Outcome::Forward } else { Outcome::Fail(errno) }
}

/// Sleeps until the wish may have come true or TCP has something to say; the caller looks for itself.
/// Errors: EINTR (a signal handler without SA_RESTART ran), EAGAIN (time is up), and what is for
/// [`outcome_of`]. The call is [`Blocking`].
///
/// `call` says what the call holds.
#[inline(never)]
pub(crate) fn sleep(
    conn: &Held,
    end: &End,
    fd: i32,
    wish: Wish,
    limit: Limit,
    call: &Call,
) -> Result<(), Errno> {
    let is_first = call.begins_to_sleep();
    if is_first && kept::is_another_file(conn, fd) {
        return Err(ANOTHER_FILE);
    }
    let mut waiter = waiter(conn, fabric().config.spin()).with_naps(may_nap(conn, wish));
    if waiter.begin_rest(Cycles::now()) == Step::Nap
        && let Some(outcome) = nap(conn, end, wish, limit, &mut waiter)
    {
        return outcome;
    }
    // (The child of a handler that forked is in no call yet: its caller looks again, and it sleeps anew.)
    if !call.stands() {
        return Ok(());
    }
    ready::note_read(conn, end, fd);
    let (data, space) = if wish.is_to_write() { (0, 1) } else { (1, 0) };
    sleepers::count_sleepers(conn, end, data, space);
    call.counts(conn, data != 0, space != 0);
    let mut outcome = sleep_once(conn, end, fd, wish, limit, is_first);
    while outcome == Err(Errno::EINTR) && limit.0.is_none() && os::process::all_handlers_restart() {
        outcome = match call.stands() {
            // (The kernel begins the call anew, and sees O_NONBLOCK.)
            true if !Blocking::of(end).is_true(conn, fd) => Err(Errno::EAGAIN),
            true => sleep_once(conn, end, fd, wish, limit, false),
            false => Ok(()),
        };
    }
    if call.stands() {
        call.counts(conn, false, false);
        sleepers::count_sleepers(conn, end, -data, -space);
    }
    waiter.next(Cycles::now, Saw::Wake(outcome.is_ok() && is_granted(conn, end, wish)));
    doorbell::leave(conn, end);
    outcome
}

/// Sleeps on the wait word itself: one system call to sleep, one to wake, nothing to drain. TCP is not looked
/// at meanwhile, so a nap is short, only a connection on which short sleeps follow each other takes any, and
/// whoever closes wakes the peer from it. `None`: to sleep properly.
fn nap(
    conn: &Conn,
    end: &End,
    wish: Wish,
    limit: Limit,
    waiter: &mut Waiter<'_>,
) -> Option<Result<(), Errno>> {
    let word = match wish {
        Wish::Data(_) | Wish::Peek(_) => &end.incoming.words().data_wait.0,
        Wish::Space | Wish::Outside => &end.outgoing.words().space_wait.0,
    };
    let seen = word.arm_nap();
    if is_granted(conn, end, wish) {
        waiter.end_rest(Cycles::now());
        return Some(Ok(()));
    }
    // Who closed or shut down before the word was armed woke nobody; TCP tells the rest.
    let closed = [end.mine(), end.theirs()].map(|side| side.closed.load(sync::Ordering::SeqCst));
    // In a stretch on TCP the kernel tells of bytes, and of room.
    if closed != [0, 0] || end.incoming.has_ended() || end.outgoing.has_ended() {
        waiter.next(Cycles::now, Saw::Nothing);
        return None;
    }
    let Some(longest) = limit.slice_ms(NAP_MS) else {
        waiter.end_rest(Cycles::now());
        return Some(Err(Errno::EAGAIN));
    };
    hand_over();
    let woken = os::futex::wait(word.futex(), seen, longest.unsigned_abs());
    if waiter.next(Cycles::now, Saw::Wake(is_granted(conn, end, wish))) == Step::Look {
        return Some(Ok(()));
    }
    if woken == Err(Errno::EINTR) && !(limit.0.is_none() && os::process::all_handlers_restart()) {
        waiter.end_rest(Cycles::now());
        // A thread that is cancelled ends here, as it would have in a sleep.
        return Some(os::poll::wait(&mut [], 0).and(Err(Errno::EINTR)));
    }
    None
}

/// Whether who publishes can wake the sleeper from a nap.
fn may_nap(conn: &Conn, wish: Wish) -> bool {
    !matches!(wish, Wish::Peek(_))
        && !os::confined::is_confined()
        && conn.is_exclusive()
        && conn.phase() == Phase::Smc
}

/// The short wait before a sleep: whether the wish came true. `before_yield`, and the error, as in
/// [`spin_for`].
pub(crate) fn spin(
    conn: &Conn,
    end: &End,
    wish: Wish,
    before_yield: impl FnMut(),
) -> Result<bool, Interrupted> {
    // Who waits for space waits for any answer; who waits for data, for the refusal, or the data that follow
    // the other.
    let is_answered = || match fabric().rows().verdict(conn.row()) {
        Some(Verdict::Smc) => wish.is_to_write(),
        Some(Verdict::Plain(_)) => true,
        None => false,
    };
    let is_answered = || conn.phase() == Phase::Intent && is_answered();
    // (The peer says what it puts there.)
    let is_outside = !wish.is_to_write() && end.incoming.is_at_end();
    let has_come_outside = || is_outside && !end.incoming.is_caught_up();
    let is_over = || is_granted(conn, end, wish) || is_answered() || has_come_outside();
    spin_for(conn, 1, before_yield, || is_over().then_some(())).map(|found| found.is_some())
}

/// One sleep on a doorbell and a TCP socket, or on the doorbell alone where the socket has an error to tell
/// for good: that is looked at afterwards.
fn rest(
    [bell, socket]: [i32; 2],
    wanted: i16,
    timeout: i32,
    is_erring: bool,
    is_apart: bool,
    mask: Option<u64>,
) -> Result<[PollFd; 3], Errno> {
    let mut fds = [
        PollFd { fd: bell, events: bits::IN, revents: 0 },
        PollFd { fd: if is_erring { -1 } else { socket }, events: wanted, revents: 0 },
        PollFd { fd: -1, events: 0, revents: 0 },
    ];
    hand_over();
    match is_apart {
        true => os::apart::wait(&mut fds, timeout, mask)?,
        false => os::poll::wait_as(&mut fds[..2], timeout, mask)?,
    };
    if is_erring {
        fds[1].revents = os::poll::peek(socket, wanted);
    }
    Ok(fds)
}

/// Sleeps until there may be what is wished for. A signal that comes while it looks, between two sleeps, is
/// to interrupt the next one; and one that came before it to be followed by what it was sent for.
fn sleep_once(
    conn: &Held,
    end: &End,
    fd: i32,
    wish: Wish,
    limit: Limit,
    is_first: bool,
) -> Result<(), Errno> {
    let mask = held_back::hold_between_sleeps();
    let slept = match is_first && kept::is_another_file(conn, fd) {
        true => Err(ANOTHER_FILE),
        false => sleep_and_look(conn, end, fd, wish, limit, mask),
    };
    if let Some(blocked) = mask {
        held_back::let_go(blocked);
    }
    // (The kernel looks before it minds a signal.)
    if slept == Err(Errno::EINTR) && is_granted(conn, end, wish) { Ok(()) } else { slept }
}

fn sleep_and_look(
    conn: &Held,
    end: &End,
    fd: i32,
    wish: Wish,
    limit: Limit,
    mask: Option<u64>,
) -> Result<(), Errno> {
    let (mut patience, mut slice_ms) = (Patience::default(), REST_SLICE_MS.0);
    // Of calls without a time limit, which some handlers interrupt and others do not: however short its
    // sleeps are.
    let (mut is_long, mut slept_ms) = (limit.0.is_some(), 0);
    // The kernel reports an error of a connection that goes on: it would do so again at once.
    let mut is_erring = false;
    // (A child may have no doorbell that another thread opened while it was made: see `held`.)
    let mut is_bell_missing = false;
    loop {
        let number = kept::number(conn, conn.index(), fd);
        if conn.phase() == Phase::Intent && answer::refresh(conn, number) != Phase::Intent {
            return Ok(());
        }
        let is_loud = doorbell::rearm(conn, end, !wish.is_to_write(), wish.is_to_write()) || is_bell_missing;
        // (Who closes the number from here on rings.)
        let number = kept::number(conn, conn.index(), fd);
        if number < 0 {
            return Err(Errno::EBADF);
        }
        if is_granted(conn, end, wish) {
            return Ok(());
        }
        let is_let_out = end.incoming.is_holding() && push::let_out_if_due(conn, end);
        let longest = if is_let_out { 0 } else { longest_sleep(conn, end, wish, slice_ms) };
        let (most, bell) = if is_loud { (patience.next_ms(), -1) } else { (longest, end.my_bell()) };
        let most = if is_long || (0..os::apart::FIRST_SLICE_MS).contains(&most) {
            most
        } else {
            os::apart::FIRST_SLICE_MS
        };
        let most = if is_erring { SLICE_MS } else { most };
        let timeout = limit.slice_ms(most).ok_or(Errno::EAGAIN)?;
        let is_apart = limit.0.is_none() && is_long;
        let fds = rest([bell, number], tcp_events(end, wish), timeout, is_erring, is_apart, mask)?;
        slept_ms = timeout.max(0).saturating_add(slept_ms);
        is_long |= slept_ms >= os::apart::FIRST_SLICE_MS;
        if fds[0].revents != 0 {
            doorbell::note_rung(conn);
        }
        is_bell_missing |= fds[0].revents & bits::NVAL != 0;
        if is_granted(conn, end, wish) {
            return Ok(());
        }
        if kept::number(conn, conn.index(), fd) != number {
            // What was seen may be another's.
            continue;
        }
        if fds[1].revents & bits::NVAL != 0 {
            return Err(Errno::EBADF);
        }
        if conn.phase() == Phase::Intent && fds[1].revents != 0 {
            // (Or a connect() that failed.)
            answer::is_established(conn, number);
        }
        is_erring = conn.phase() == Phase::Smc && fds[1].revents == bits::ERR;
        let told = if is_erring { 0 } else { fds[1].revents };
        ready::note_tcp(conn, end, number, u32::from(told as u16));
        let is_doubtful = told & bits::IN != 0;
        if is_doubtful && ready::is_contradicted_by_tcp(conn, end, number, u32::from(told as u16)) {
            ready::break_off(conn, end, number);
            return Err(Errno::ECONNRESET);
        }
        if told != 0 {
            return Ok(());
        }
        if is_beyond_tcp(end, wish) || awaits_rest(conn, wish) && resting::is_seen(end) {
            return Ok(());
        }
        slice_ms = (2 * slice_ms).min(REST_SLICE_MS.1);
        // (A doorbell that is loud for another's sake may stay so for ever: then this is asked as well.)
        let is_told_nothing = !is_loud || most == Patience::LONGEST_MS;
        let is_doubtful = || asks_for_peer(end, wish) || fds[0].revents == 0 && is_reader_killed(end, wish);
        if is_told_nothing && is_doubtful() && ready::peer_socket_is_gone(conn, number) {
            conn.mark(flag::TCP_ENDED | flag::TCP_GONE);
            return Ok(());
        }
    }
}

/// How long to sleep while the doorbell rings for somebody else and so says nothing: yields first, for the
/// other is most likely on its way, then longer and longer.
#[derive(Default)]
pub(crate) struct Patience(u32);

impl Patience {
    const YIELDS: u32 = 8;
    const LONGEST_MS: i32 = 16;

    /// Milliseconds for the next sleep.
    pub(crate) fn next_ms(&mut self) -> i32 {
        self.0 += 1;
        if self.0 <= Self::YIELDS {
            os::process::yield_now();
            return 0;
        }
        (1 << (self.0 - Self::YIELDS - 1).min(4)).min(Self::LONGEST_MS)
    }
}

/// `rest_ms`: when it is to be seen whether the reader rests.
fn longest_sleep(conn: &Conn, end: &End, wish: Wish, rest_ms: i32) -> i32 {
    let bound = bound_of_sleep(conn, end, wish);
    if awaits_rest(conn, wish) { sooner(bound, rest_ms) } else { bound }
}

fn bound_of_sleep(conn: &Conn, end: &End, wish: Wish) -> i32 {
    if conn.phase() == Phase::Intent {
        return SLICE_MS;
    }
    if is_beyond_tcp(end, wish) {
        return SLICE_MS;
    }
    if !wish.is_to_write() && end.incoming.is_holding() {
        return HELD_SLICE_MS;
    }
    if asks_for_peer(end, wish) {
        return HALF_CLOSED_SLICE_MS;
    }
    if sleepers::is_shared(conn, end) { SHARED_SLICE_MS } else { -1 }
}

/// Whether nobody but the kernel's list of sockets tells that the peer is gone.
fn asks_for_peer(end: &End, wish: Wish) -> bool {
    wish.is_to_write() && ready::is_half_closed_by_peer(end)
}

/// Whether all who are known to have held the other end are dead, and may have left their end of the stream
/// behind what they had put into TCP, where nobody hears of it. (Of a server that has not signed nobody is
/// known. It takes a look at each process: who waits for long can afford that.)
fn is_reader_killed(end: &End, wish: Wish) -> bool {
    let members = fabric().members();
    let is_killed = || members.has_dead(end.theirs()) && !members.has_living(end.theirs());
    wish.is_to_write() && !end.view.is_far() && is_killed()
}

/// Whether it is a look at several bytes, some of which may be on TCP: that tells of the first alone.
fn is_beyond_tcp(end: &End, wish: Wish) -> bool {
    matches!(wish, Wish::Peek(2..)) && end.incoming.has_ended()
}

/// The shorter of two sleeps, of which a negative one ends never.
pub(crate) fn sooner(one: i32, other: i32) -> i32 {
    if one < 0 || other < 0 { one.max(other) } else { one.min(other) }
}

/// Whether the caller looks now and then if the reader rests.
fn awaits_rest(conn: &Conn, wish: Wish) -> bool {
    wish == Wish::Space && detour::may_overflow(conn)
}

fn tcp_events(end: &End, wish: Wish) -> i16 {
    match wish {
        _ if is_beyond_tcp(end, wish) => bits::RDHUP,
        // TCP bytes tell an unanswered client that the server speaks TCP, and later that the peer lies about
        // its ring.
        Wish::Data(_) | Wish::Peek(_) => bits::RDHUP | bits::IN,
        // A half-closed peer still reads; its FIN is old news.
        Wish::Outside if ready::is_half_closed_by_peer(end) => bits::OUT,
        Wish::Outside => bits::RDHUP | bits::OUT,
        Wish::Space if ready::is_half_closed_by_peer(end) => 0,
        Wish::Space => bits::RDHUP,
    }
}
