//! Moving bytes: receive and send on a tied connection, with TCP's results.
//!
//! Owns: the order of things at the end of a stream. Ring bytes first; then the kernel's own answer for the
//! TCP socket (0, ECONNRESET once, EPIPE), which is exact because the socket is real, and whatever bytes it
//! carries lie behind those in the ring.

mod across;
mod asked;
mod begin;
mod behind;
mod demotion;
mod nothing;
mod outside;
mod overflow;
mod pour;
mod spun;
mod within;

pub use across::Across;
pub use demotion::demote;

use behind::still_ours;

pub use asked::{
    has_ring_bytes, is_shared, may_refuse, note_buffers, note_nonblocking, note_peek_offset, note_rcvlowat,
    note_timeout, note_timeout_is_used, peek_offset, readable_bytes, send_limit_ms,
};

use crate::abandoned::{Stay, address};
use crate::decide::tied;
use crate::detour;
use crate::end::{End, ON_TCP};
use crate::held::Held;
use crate::phase::Phase;
use crate::ready;
use crate::rest::Rest;
use crate::wait::{self, Blocking, Limit, Wish};
use crate::{Outcome, afterwards, answer, flag, handover, kept, push, straight, told};
use os::net::{self, TcpInput, msg, opt};
use os::time::Cycles;
use os::{Errno, process};
use shm::layout::PEEKS_FROM_OFFSET;
use shm::ring::PeerMisbehaved;
use shm::{ClosedBy, Producer, Sink, Supply};
use sync::Ordering;

const SIGPIPE: u32 = 13;

/// What a call does when it cannot go on.
enum Step {
    Retry,
    Return(Outcome),
}

/// recv and its kin. `total` is the room in all `sinks`.
#[inline]
pub fn receive<'a>(
    fd: i32,
    sinks: impl Iterator<Item = Sink<'a>> + Clone,
    total: usize,
    flags: i32,
) -> Outcome {
    let Some((conn, end)) = tied(fd) else { return Outcome::Forward };
    receive_on(&conn, &end, fd, sinks, total, flags)
}

/// The same on a connection that the program's call has found by `fd`.
#[inline(always)]
fn receive_on<'a>(
    conn: &Held,
    end: &End,
    fd: i32,
    sinks: impl Iterator<Item = Sink<'a>> + Clone,
    total: usize,
    flags: i32,
) -> Outcome {
    let (mut rest, mut got) = (Rest::of(sinks.clone()), 0);
    if let Some(sink) = rest.next_part() {
        got = straight::receive(conn, end, sink, total, flags);
        // (A program that takes a short read for "drained" must be right: there may be more on TCP.)
        if got > 0 && (got == total || !outside::goes_on(end)) {
            outside::note_short(conn, end, got, total);
            return Outcome::Done(got);
        }
        rest.done(sink, got);
    }
    let mut call = Receive {
        conn,
        end: *end,
        fd,
        flags,
        total,
        got,
        blocking: Blocking::of(end),
        limit: None,
        peeked: 0,
        has_let_out: false,
        has_gone_on: false,
        is_refused: false,
        stay: Stay::default(),
    };
    if end.mine().low_water.load(Ordering::Relaxed) & PEEKS_FROM_OFFSET != 0 {
        // (Set by another process, perhaps.)
        conn.mark(flag::PEEK_OFFSET);
    }
    let outcome =
        if conn.has(flag::PEEK_OFFSET) { call.run_from_offset(sinks, rest) } else { call.run(sinks, rest) };
    let outcome = still_ours(conn, end, fd, outcome, || call.ended_without_a_number());
    call.stay.end(conn, fd);
    if let Outcome::Done(got) = outcome {
        outside::note_short(conn, end, got, total);
    }
    match outcome {
        // The kernel tells a reader that was in the call, by this, and keeps ECONNRESET for the next one.
        Outcome::Forward if conn.has(flag::DISSOLVED) && flags & msg::ERRQUEUE == 0 => {
            Outcome::Fail(Errno::EPIPE)
        }
        outcome => outcome,
    }
}

struct Receive<'c> {
    conn: &'c Held,
    end: End,
    fd: i32,
    flags: i32,
    total: usize,
    got: usize,
    blocking: Blocking,
    limit: Option<Limit>,
    /// Where a peek begins: SO_PEEK_OFF.
    peeked: usize,
    /// It has let out what was held back.
    has_let_out: bool,
    /// It has found itself at a stretch that libc is to read.
    has_gone_on: bool,
    /// It has sent the connection back to TCP.
    is_refused: bool,
    stay: Stay,
}

impl Receive<'_> {
    /// SO_PEEK_OFF is set, perhaps to a negative number: a peek goes on behind the last one, and what is read
    /// brings it nearer. The kernel keeps the number, for everybody who has the socket.
    #[cold]
    fn run_from_offset<'a, I: Iterator<Item = Sink<'a>> + Clone>(
        &mut self,
        sinks: I,
        rest: Rest<Sink<'a>, I>,
    ) -> Outcome {
        let is_peek = self.flags & msg::PEEK != 0;
        let Some(from) = net::peek_offset(self.fd) else { return self.run(sinks, rest) };
        self.peeked = if is_peek { from } else { 0 };
        let outcome = self.run(sinks, rest);
        match outcome {
            Outcome::Done(count) if is_peek => net::set_peek_offset(self.fd, from + count),
            Outcome::Done(count) => net::set_peek_offset(self.fd, from.saturating_sub(count)),
            _ => {}
        }
        outcome
    }

    /// What is not ordinary. `rest` is what of `sinks` has room.
    #[inline(never)]
    fn run<'a, I: Iterator<Item = Sink<'a>> + Clone>(
        &mut self,
        sinks: I,
        mut rest: Rest<Sink<'a>, I>,
    ) -> Outcome {
        if self.flags & (msg::OOB | msg::ERRQUEUE) != 0 {
            return Outcome::Forward;
        }
        if self.conn.has(flag::BROKEN) {
            return Outcome::Done(0);
        }
        loop {
            if self.goes_on_by_tcp() {
                return if self.is_cut_by_tcp() {
                    self.go_on_behind(&mut rest)
                } else {
                    self.go_on_by_tcp(&mut rest)
                };
            }
            let moved = if self.flags & msg::PEEK != 0 {
                self.got = 0;
                self.peek(sinks.clone())
            } else {
                self.take(&mut rest)
            };
            if let Err(outcome) = moved {
                return self.partial_or(outcome);
            }
            // A peek cannot see more than the ring holds, however long it waits.
            let is_all = self.flags & msg::PEEK != 0 && self.peeked + self.got >= self.end.incoming.size();
            let is_enough = self.got > 0 && (self.got >= self.target() || is_all);
            if self.total == 0 && self.is_told_by_tcp() {
                // (It takes nothing, and the kernel does not wait.)
                return Outcome::Forward;
            }
            if is_enough || (self.total == 0 && ready::has_bytes(&self.end, 1)) {
                return Outcome::Done(self.got);
            }
            if self.is_cut() {
                return self.go_on_behind(&mut rest);
            }
            if let Step::Return(outcome) = self.on_empty() {
                return self.what_came_meanwhile(sinks, outcome);
            }
        }
    }

    /// How many bytes end the call: all with MSG_WAITALL, else SO_RCVLOWAT or what there is room for.
    #[inline]
    fn target(&self) -> usize {
        if self.flags & msg::WAITALL != 0 {
            return self.total;
        }
        ready::low_water(self.conn, &self.end).min(self.total)
    }

    /// Whether the call may wait.
    fn may_wait(&self) -> bool {
        self.flags & msg::DONTWAIT == 0 && self.blocking.is_said
    }

    /// How many bytes are worth waking up for: any, but a peek that waits for all takes none on the way.
    fn wanted(&self) -> usize {
        if self.flags & msg::PEEK != 0 { self.peeked + self.target().max(1) } else { 1 }
    }

    fn partial_or(&self, outcome: Outcome) -> Outcome {
        if self.got > 0 { Outcome::Done(self.got) } else { outcome }
    }

    /// Takes what there is, from the ring and from behind it.
    #[inline]
    fn take<'a>(&mut self, rest: &mut Rest<Sink<'a>, impl Iterator<Item = Sink<'a>>>) -> Result<(), Outcome> {
        let mut turn = self
            .end
            .receive_turn(self.conn, self.may_wait())
            .map_err(|errno| told::refused(self.conn, &self.end, self.fd, errno))?;
        let mut consumer = turn.consumer(self.end.incoming, &self.conn.stream.rx_cache);
        let (mut count, mut left) = (0, Ok(()));
        while let Some(sink) = rest.next_part() {
            let step =
                if self.flags & msg::TRUNC != 0 { consumer.discard(sink.len()) } else { consumer.read(sink) };
            let step = step.map_err(|PeerMisbehaved| ready::break_off(self.conn, &self.end, self.fd))?;
            if step == 0 {
                break;
            }
            count += step;
            rest.done(sink, step);
        }
        self.got += count;
        let (in_ring, before) = (count, self.got);
        if self.end.incoming.has_ended() {
            left = self.take_outside(&mut consumer, rest);
            count += self.got - before;
        }
        // (Counted is what came through memory.)
        if in_ring > 0 {
            turn.count(in_ring);
        }
        drop(turn);
        if count > 0 {
            straight::after_freeing(&self.end);
        }
        if count >= ready::MUCH_AT_ONCE {
            ready::note_read(self.conn, &self.end, self.fd);
        }
        left
    }

    fn peek<'a>(&mut self, mut sinks: impl Iterator<Item = Sink<'a>>) -> Result<(), Outcome> {
        let mut turn = self
            .end
            .receive_turn(self.conn, self.may_wait())
            .map_err(|errno| told::refused(self.conn, &self.end, self.fd, errno))?;
        let mut consumer = turn.consumer(self.end.incoming, &self.conn.stream.rx_cache);
        while let Some(sink) = sinks.next() {
            let from = self.peeked + self.got;
            let seen = if self.flags & msg::TRUNC != 0 {
                consumer.available_now().map(|bytes| bytes.saturating_sub(from))
            } else {
                consumer.peek(from, sink)
            };
            let seen = seen
                .map_err(|PeerMisbehaved| ready::break_off(self.conn, &self.end, self.fd))?
                .min(sink.len());
            self.got += seen;
            let is_behind = seen < sink.len() && self.end.incoming.has_ended();
            if is_behind
                && let Ok(in_ring) = self.end.incoming.used()
                && (in_ring == 0 || in_ring == from + seen)
            {
                // (From SO_PEEK_OFF on, which is the kernel's to count where the ring has nothing.)
                return self.peek_outside(&mut consumer, sink.after(seen), sinks, in_ring);
            }
        }
        Ok(())
    }

    /// The ring has nothing (more): the end of the stream, EAGAIN, or a wait.
    fn on_empty(&mut self) -> Step {
        if self.begins_anew() {
            return self.leave(Outcome::Forward);
        }
        let is_undecided = self.conn.phase() == Phase::Intent;
        let phase = if is_undecided { answer::refresh(self.conn, self.fd) } else { self.conn.phase() };
        let is_outside = self.end.incoming.is_at_end();
        if self.end.view.has_word() {
            handover::take_word_back(self.conn);
            // (By this thread or another one.)
            if !self.end.view.has_word() {
                return Step::Retry;
            }
        }
        if phase == Phase::Plain || self.end.is_read_by_libc() {
            // (A stretch that was opened after the look may close again, unless it is told of a reader.)
            if self.goes_on_by_tcp() {
                return Step::Retry;
            }
            if phase == Phase::Plain || self.end.incoming.has_ended_for_good() || self.has_gone_on {
                return if self.is_cut() { Step::Retry } else { self.leave(Outcome::Forward) };
            }
            self.has_gone_on = true;
            return Step::Retry;
        }
        let is_shut = self.end.mine().closed.load(Ordering::Relaxed) & ClosedBy::READ != 0;
        let may_wait = self.may_wait();
        if is_shut && !self.conn.has(flag::TCP_ENDED) {
            // A reset is told also to who has shut down reading.
            let told = os::poll::peek(self.fd, os::poll::bits::RDHUP);
            ready::note_tcp(self.conn, &self.end, self.fd, u32::from(told as u16));
        }
        // (Once a call: a peer that holds ever new bytes back, and lies about the time, keeps nobody here.)
        if !self.has_let_out && self.end.incoming.is_holding() {
            self.has_let_out = push::let_out_if_due(self.conn, &self.end);
            if self.has_let_out {
                return Step::Retry;
            }
        }
        if is_shut || self.has_tcp_ended(may_wait) {
            return if self.has_more(is_outside) { Step::Retry } else { self.leave(self.ended()) };
        }
        if !may_wait {
            return self.not_now();
        }
        let wish =
            if self.flags & msg::PEEK != 0 { Wish::Peek(self.wanted()) } else { Wish::Data(self.wanted()) };
        if self.end.outgoing.has_ended() {
            // (Who waits here wakes sooner where nothing is on TCP.)
            detour::come_back(self.conn, &self.end);
        }
        // (What is on TCP and cannot be read yet is the kernel's to tell of. Who was woken for nothing sleeps
        // on: a signal that comes meanwhile would find no sleep to end.)
        let is_woken_in_vain = self.got == 0 && self.stay.has_slept();
        if !is_woken_in_vain && (!is_outside || self.end.incoming.is_caught_up()) {
            match self.spin(wish) {
                Ok(true) => return Step::Retry,
                Ok(false) => {}
                Err(interrupted) => return self.interrupted(interrupted),
            }
        }
        let fd = self.fd;
        if !self.blocking.is_true(self.conn, fd) {
            return self.not_now();
        }
        let limit =
            *self.limit.get_or_insert_with(|| Limit::after_ns(self.conn.timeout_ns(fd, opt::SO_RCVTIMEO)));
        let entry = address(self);
        let call = self.stay.begin(self.conn, fd, entry);
        let slept = wait::sleep(self.conn, &self.end, fd, wish, limit.with_moved(self.got), call);
        self.fd = kept::number(self.conn, self.conn.index(), self.fd);
        match slept {
            Ok(()) => Step::Retry,
            // (Who asks for no bytes waits once, and is told nothing of how that ended.)
            Err(_) if self.total == 0 => self.leave(Outcome::Done(0)),
            Err(errno) => self.leave(wait::outcome_of(errno)),
        }
    }

    /// A blocking call learns it while asleep; others have to ask.
    fn has_tcp_ended(&self, may_wait: bool) -> bool {
        if self.conn.has(flag::TCP_ENDED) {
            return true;
        }
        // A peer that closes says so first; one that is killed is noticed a moment later. A server that has
        // not looked at the connection yet says nothing when it closes.
        let has_peer_spoken =
            self.end.theirs().closed.load(Ordering::Relaxed) != 0 || self.conn.is(Phase::Intent);
        let is_quiet =
            !has_peer_spoken && !self.conn.has(flag::SIGNAL_DRIVEN) && self.conn.was_tcp_quiet(Cycles::now());
        if may_wait || is_quiet {
            return false;
        }
        match net::tcp_input(self.fd) {
            // (libc says what is wrong with a socket that is not connected.)
            TcpInput::Ended if self.conn.phase() == Phase::Intent && !self.conn.has(flag::ESTABLISHED) => {
                let is_established = answer::is_established(self.conn, self.fd);
                if self.conn.phase() == Phase::Plain {
                    return true;
                }
                // (Asked again: it may have been said of a socket that was not connected yet.)
                if !is_established || net::tcp_input(self.fd) != TcpInput::Ended {
                    return false;
                }
            }
            TcpInput::Ended if !ready::is_its_own(self.conn, self.fd) => return false,
            TcpInput::Ended => {}
            TcpInput::Quiet => {
                self.conn.note_quiet_tcp();
                return false;
            }
            TcpInput::Data if ready::is_contradicted_by_tcp(self.conn, &self.end, self.fd, 0) => {
                ready::break_off(self.conn, &self.end, self.fd);
                return true;
            }
            _ => return false,
        }
        ready::note_end(self.conn, &self.end);
        true
    }

    fn leave(&self, outcome: Outcome) -> Step {
        Step::Return(self.partial_or(outcome))
    }
}

/// send and its kin. `total` is the length of all `sources`.
#[inline]
pub fn transmit(fd: i32, sources: impl Iterator<Item = impl Supply>, total: usize, flags: i32) -> Outcome {
    let Some((conn, end)) = tied(fd) else { return Outcome::Forward };
    let mut rest = Rest::of(sources);
    if let Some(source) = rest.next_part()
        && straight::send(&conn, &end, fd, source, total, flags)
    {
        if afterwards::any() {
            Transmit::new(&conn, end, fd, flags).send_afterwards();
        }
        return Outcome::Done(total);
    }
    let mut call = Transmit::new(&conn, end, fd, flags);
    let outcome = transmit_on(&mut call, rest, total);
    // The program's handler may never return: nothing is held while it runs.
    let is_pipe_broken = call.is_pipe_broken;
    drop(conn);
    if is_pipe_broken {
        process::raise_on_self(SIGPIPE);
    }
    outcome
}

/// What is not ordinary of a send, on a connection that the program's call has found. (SIGPIPE is the
/// caller's.)
#[inline]
fn transmit_on<S: Supply>(
    call: &mut Transmit<'_>,
    rest: Rest<S, impl Iterator<Item = S>>,
    total: usize,
) -> Outcome {
    let (conn, end, fd) = (call.conn, call.end, call.fd);
    let outcome = call.run(rest, total);
    let outcome = still_ours(conn, &end, fd, outcome, || call.broken_without_a_number());
    call.stay.end(conn, fd);
    // (The kernel's sendfile writes once more after a part, and hears of it there.)
    call.is_pipe_broken |= !S::IS_WHOLE && call.is_broken && call.flags & msg::NOSIGNAL == 0;
    outcome
}

/// How far a call has come.
enum Poured {
    /// All of it is in the ring.
    All,
    /// The ring is full.
    UpToTheBrim,
    /// What it takes its bytes from ended before its time.
    UpToItsEnd,
}

struct Transmit<'c> {
    conn: &'c Held,
    end: End,
    fd: i32,
    flags: i32,
    sent: usize,
    blocking: Blocking,
    limit: Option<Limit>,
    /// What it writes is held back.
    holds: bool,
    /// SIGPIPE is due.
    is_pipe_broken: bool,
    /// EPIPE has ended it, perhaps after a part.
    is_broken: bool,
    /// It has sent the connection back to TCP.
    is_refused_room: bool,
    /// It sends what handlers have left.
    is_afterwards: bool,
    /// It has interrupted such a call, or one that had the turn.
    is_within: bool,
    /// The reader rests: what the ring does not take goes to TCP.
    overflows: bool,
    /// TCP took no more.
    is_tcp_full: bool,
    /// TCP took a part, and says that nobody reads.
    is_refused: bool,
    /// Its direction begins on TCP, and it has much to write.
    is_to_pause: bool,
    stay: Stay,
}

impl<'c> Transmit<'c> {
    fn new(conn: &'c Held, end: End, fd: i32, flags: i32) -> Self {
        Transmit {
            holds: push::holds(conn, fd, flags),
            conn,
            end,
            fd,
            flags,
            sent: 0,
            blocking: Blocking::of(&end),
            limit: None,
            is_pipe_broken: false,
            is_broken: false,
            is_refused_room: false,
            is_afterwards: false,
            is_within: false,
            overflows: false,
            is_tcp_full: false,
            is_refused: false,
            is_to_pause: false,
            stay: Stay::default(),
        }
    }

    /// Whether the call may wait.
    fn may_wait(&self) -> bool {
        self.flags & msg::DONTWAIT == 0 && self.blocking.is_said
    }

    /// What is not ordinary.
    #[inline(never)]
    fn run<S: Supply>(&mut self, mut rest: Rest<S, impl Iterator<Item = S>>, total: usize) -> Outcome {
        if self.flags & msg::FASTOPEN != 0 {
            // libc says what it says of a connected socket, and sends nothing.
            return Outcome::Forward;
        }
        if self.flags & msg::ZEROCOPY != 0 && !net::sends_without_copy(self.fd) {
            // (The kernel copies then, without a word.)
            self.flags &= !msg::ZEROCOPY;
        }
        if self.flags & (msg::OOB | msg::ZEROCOPY) != 0 {
            // Urgent data marks a place in the TCP stream, so the direction moves there first.
            return demotion::demote_for(self.conn, &self.end, self.fd);
        }
        if total == 0 {
            ready::ask_for_peer(self.conn, &self.end, self.fd);
            return self.check_open().err().unwrap_or(Outcome::Done(0));
        }
        let outcome = self.run_in_order(&mut rest, total);
        if self.is_refused {
            self.skip(&mut rest, total);
            return Outcome::Done(self.sent);
        }
        outcome
    }

    fn run_in_order<S: Supply>(
        &mut self,
        rest: &mut Rest<S, impl Iterator<Item = S>>,
        total: usize,
    ) -> Outcome {
        while self.sent < total {
            let pushed = self.push(rest, total);
            if afterwards::any() && !self.is_afterwards && !self.is_within {
                self.send_afterwards();
            }
            match pushed {
                Ok(true) => {}
                Ok(false) => {
                    if let Step::Return(outcome) = self.on_full() {
                        return outcome;
                    }
                }
                Err(outcome) if self.is_cut(outcome) => return self.go_on_behind(rest, total),
                Err(outcome) => return self.partial_or(outcome),
            }
        }
        Outcome::Done(self.sent)
    }

    fn partial_or(&self, outcome: Outcome) -> Outcome {
        if self.sent > 0 { Outcome::Done(self.sent) } else { outcome }
    }

    /// EPIPE after our own shutdown; where nobody reads any more TCP itself answers, as it would have.
    #[inline]
    fn check_open(&mut self) -> Result<(), Outcome> {
        let is_shut = self.end.mine().closed.load(Ordering::Relaxed) & ClosedBy::WRITE != 0;
        if is_shut && !self.conn.has(flag::TCP_ENDED) {
            ready::ask_for_peer(self.conn, &self.end, self.fd);
        }
        if is_shut || self.conn.has(flag::RESET) {
            return Err(self.broken());
        }
        if ready::is_peer_gone(self.conn, &self.end) {
            ready::note_unread(self.conn, &self.end);
            // (A peer that has shut both ways down answers what TCP now brings by its reset.)
            if !ready::has_shut_both_ways(self.end.theirs().closed.load(Ordering::SeqCst)) {
                ready::provoke_reset(self.conn, &self.end, self.fd);
            }
            if self.conn.has(flag::RESET) {
                return Err(self.broken());
            }
            return Err(Outcome::Forward);
        }
        if self.end.outgoing.has_ended_for_good() {
            return Err(Outcome::Forward);
        }
        Ok(())
    }

    /// Moves what fits. `Ok(false)`: full.
    #[inline]
    fn push<S: Supply>(
        &mut self,
        rest: &mut Rest<S, impl Iterator<Item = S>>,
        total: usize,
    ) -> Result<bool, Outcome> {
        let is_early = self.conn.phase() == Phase::Intent;
        if is_early && !answer::is_established(self.conn, self.fd) {
            return Ok(false);
        }
        if is_early && self.conn.has(flag::TCP_ENDED) {
            // (The server has answered by TCP, and shut its end down.)
            answer::refresh(self.conn, self.fd);
        }
        let is_behind = afterwards::any() && self.is_behind();
        let mut turn =
            match if is_behind { Err(Errno::EAGAIN) } else { self.end.send_turn(self.conn, self.may_wait()) }
            {
                Ok(turn) => turn,
                Err(ON_TCP) => return Err(self.check_open().err().unwrap_or(Outcome::Forward)),
                Err(errno) => {
                    self.is_within = true;
                    let refused = told::refused(self.conn, &self.end, self.fd, errno);
                    let next = if errno == Errno::EAGAIN { rest.next_part() } else { None };
                    return Err(self.leave_for_afterwards(next, refused));
                }
            };
        // Asked again with the turn taken: whoever had it may have ended the phase.
        if !matches!(self.conn.phase(), Phase::Smc | Phase::Intent) {
            return Err(Outcome::Forward);
        }
        let now = Cycles::now();
        let has_listened = straight::begin_writing(self.conn, &self.end, now);
        let is_known = self.conn.is_in_the_same_breath(now) && !self.conn.has(flag::TCP_ENDED);
        // (Before the answer TCP says itself what is wrong.)
        if !is_early && !is_known {
            ready::ask_for_peer(self.conn, &self.end, self.fd);
        }
        self.check_open()?;
        self.end.note_written(now);
        let mut producer = turn.producer(self.end.outgoing, &self.conn.stream.tx_cache);
        let is_outside =
            self.end.outgoing.has_ended() && (is_early || !detour::is_back(&self.end, &mut producer));
        if is_outside || !self.fits_as_one(&mut producer, total)? {
            return self.overflow(&mut turn, &mut *rest, total);
        }
        let before = self.sent;
        let poured = match self.holds {
            true => self.pour_held(&mut producer, rest, total),
            false => {
                let reader = straight::reader(&self.end, total, has_listened);
                self.pour(&mut producer, rest, total, reader)
            }
        };
        if self.sent > before {
            turn.count(self.sent - before);
            straight::after_publishing(self.conn, &self.end, self.fd);
        }
        match poured? {
            Poured::All => Ok(true),
            Poured::UpToItsEnd => Err(Outcome::Done(self.sent)),
            Poured::UpToTheBrim => self.overflow(&mut turn, rest, total),
        }
    }

    /// Records of several writing threads must not be torn: a blocking call of moderate size starts when all
    /// of it fits.
    #[inline]
    fn fits_as_one(&self, producer: &mut Producer<'_>, total: usize) -> Result<bool, Outcome> {
        if !self.is_record(total) {
            return Ok(true);
        }
        if self.conn.has(flag::LIMITED) && total <= ready::limit(&self.end) / 3 {
            return Ok(total <= self.allowance()?);
        }
        producer.has_room(total).map_err(|PeerMisbehaved| ready::break_off(self.conn, &self.end, self.fd))
    }

    /// Whether the call is to put all that it has in one place, at once.
    #[inline]
    fn is_record(&self, total: usize) -> bool {
        self.sent == 0 && self.may_wait() && total <= self.end.outgoing.size() / 3
    }

    /// How much may be written now.
    #[inline]
    fn allowance(&self) -> Result<usize, Outcome> {
        if !self.conn.has(flag::LIMITED) {
            return Ok(usize::MAX);
        }
        let most = ready::limit(&self.end);
        let used = self.end.outgoing.unread();
        used.map(|used| most.saturating_sub(used))
            .map_err(|PeerMisbehaved| ready::break_off(self.conn, &self.end, self.fd))
    }

    fn on_full(&mut self) -> Step {
        if self.begins_anew() {
            return self.leave(Outcome::Forward);
        }
        push::push(&self.end);
        if self.conn.has(flag::HELD_OUTSIDE) {
            detour::push(self.conn, self.fd);
        }
        let may_wait = self.may_wait();
        if self.conn.phase() == Phase::Intent {
            match answer::refresh(self.conn, self.fd) {
                Phase::Intent => {}
                _ => return Step::Retry,
            }
            if may_wait && !self.conn.has(flag::ESTABLISHED) {
                return self.await_connect();
            }
        }
        if may_wait && !self.is_tcp_full && !(self.sent == 0 && self.stay.has_slept()) {
            match self.spin() {
                Ok(true) => return Step::Retry,
                Ok(false) => {}
                Err(interrupted) => return self.interrupted(interrupted),
            }
        }
        if self.is_to_pause {
            return self.pause();
        }
        if !self.is_tcp_full && self.turns_to_tcp(may_wait) {
            return Step::Retry;
        }
        let stalls = &self.end.mine().tx.0.stalls;
        stalls.store(stalls.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        if !may_wait {
            return self.not_now();
        }
        let fd = self.fd;
        if !self.blocking.is_true(self.conn, fd) {
            return self.not_now();
        }
        let limit = self.limit().with_moved(self.sent);
        if self.is_tcp_full
            && let Some(step) = self.catch_up(limit)
        {
            self.is_tcp_full = false;
            return step;
        }
        let entry = address(self);
        let (fd, call) = (self.fd, self.stay.begin(self.conn, self.fd, entry));
        let wish = if self.is_tcp_full { Wish::Outside } else { Wish::Space };
        let slept = wait::sleep(self.conn, &self.end, fd, wish, limit, call);
        self.fd = kept::number(self.conn, self.conn.index(), self.fd);
        match slept {
            Ok(()) => {
                (self.overflows, self.is_tcp_full) = (false, false);
                Step::Retry
            }
            Err(errno) => self.leave(wait::outcome_of(errno)),
        }
    }

    fn leave(&self, outcome: Outcome) -> Step {
        Step::Return(self.partial_or(outcome))
    }
}
