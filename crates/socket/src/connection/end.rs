//! One side of a tied connection: its rings, its words, its doorbell, and the turns at them. Owns: how the
//! peer is told, and that whoever naps there hears of what TCP will tell.

use crate::conn::Conn;
use fabric::slot::SlotView;
use fabric::turn::{Yielding, me};
use os::Errno;
use os::time::Cycles;
use shm::bell::{Pipe, Words};
use shm::lock::Denied;
use shm::wait::{Asked, WaitWord};
use shm::{ClosedBy, Receiving, Ring, Sending, Side, SideBlock};
use sync::Ordering;
use sync::Ordering as Shared;

/// One side of a tied connection: everything a data call needs, resolved once.
#[derive(Clone, Copy)]
pub(crate) struct End {
    pub(crate) view: &'static SlotView,
    pub(crate) side: Side,
    pub(crate) outgoing: &'static Ring,
    pub(crate) incoming: &'static Ring,
}

impl End {
    #[inline]
    pub(crate) fn of(conn: &Conn) -> Option<End> {
        let view = conn.view()?;
        let side = conn.side();
        Some(End { view, side, outgoing: view.outgoing(side), incoming: view.incoming(side) })
    }

    /// The same, but for a slot that serves another connection by now: for whoever is about to change its
    /// words.
    pub(crate) fn still_of(conn: &Conn) -> Option<End> {
        End::of(conn).filter(|_| !conn.is_stale())
    }

    #[inline]
    pub(crate) fn mine(&self) -> &'static SideBlock {
        &self.view.header().sides[self.side as usize]
    }

    #[inline]
    pub(crate) fn theirs(&self) -> &'static SideBlock {
        &self.view.header().sides[self.side.peer() as usize]
    }

    #[inline]
    pub(crate) fn my_bell(&self) -> i32 {
        self.view.bell(self.side)
    }

    /// The words that this side waits on.
    #[inline]
    pub(crate) fn words(&self) -> Words<'_> {
        Words { data: &self.incoming.words().data_wait.0, space: &self.outgoing.words().space_wait.0 }
    }

    /// After something the peer may wait for by `word`: tells it, as it asked.
    #[inline(always)]
    pub(crate) fn ring_peer(&self, word: &WaitWord) {
        let asked = word.take_ring();
        if asked.anyhow() {
            self.ring_as(asked, word);
        }
    }

    #[inline(never)]
    fn ring_as(&self, asked: Asked, word: &WaitWord) {
        if asked.bell() {
            os::pipe::ring(self.view.bell(self.side.peer()));
        }
        if asked.nap() {
            os::futex::wake(word.futex());
        }
    }

    /// Something happened that TCP will tell the peer: whoever naps there, and does not look at TCP, is to
    /// sleep properly.
    pub(crate) fn wake_napping_peer(&self) {
        wake_napping([&self.outgoing.words().data_wait.0, &self.incoming.words().space_wait.0]);
    }

    /// The same for other threads of this side.
    pub(crate) fn wake_napping(&self) {
        wake_napping([&self.incoming.words().data_wait.0, &self.outgoing.words().space_wait.0]);
    }

    /// This side writes, or ends its stream, now.
    #[inline(always)]
    pub(crate) fn note_written(&self, now: Cycles) {
        self.outgoing.note_written(now.word());
    }

    /// This side is closed, for good; whoever naps at the other end looks.
    pub(crate) fn say_closed(&self) {
        self.note_written(Cycles::now());
        self.mine().closed.fetch_or(ClosedBy::CLOSE | ClosedBy::WRITE | ClosedBy::READ, Shared::SeqCst);
        sync::fence(Ordering::SeqCst);
        self.wake_napping_peer();
    }

    /// After flags that the peer may wait for without TCP's telling it: a writer that sleeps for space, and
    /// whoever naps. Once the kernel knows as well, so that who is woken finds what TCP says with it.
    pub(crate) fn wake_peer(&self) {
        sync::fence(Ordering::SeqCst);
        self.ring_peer(&self.incoming.words().space_wait.0);
        self.wake_napping_peer();
    }

    /// O_NONBLOCK is on or off, for others that hold the side.
    pub(crate) fn tell_nonblocking(&self, on: bool) {
        self.mine().nonblocking.store(u32::from(on), Shared::Relaxed);
    }

    /// Whether this side has read everything. (A ring that lies is not.)
    pub(crate) fn is_drained(&self) -> bool {
        self.incoming.used() == Ok(0)
    }

    /// Whether nothing is left before what is on TCP: not in what was said to a next program, either. (Asked
    /// twice, for that may come back between two looks.)
    #[inline]
    pub(crate) fn is_all_read(&self) -> bool {
        let is_so = || self.incoming.is_at_end() && !self.view.has_word();
        is_so() && is_so()
    }

    /// Whether what comes next is on TCP and read by libc alone: nobody counts any more, or this process may
    /// hardly call anything.
    #[inline]
    pub(crate) fn is_read_by_libc(&self) -> bool {
        (os::confined::is_strict() || self.incoming.has_ended_for_good()) && self.is_all_read()
    }

    /// Whether the slot serves this connection still.
    #[inline]
    pub(crate) fn serves(&self, conn: &Conn) -> bool {
        self.mine().generation.load(Shared::Relaxed) == conn.generation()
    }

    /// The turn to send: EAGAIN if a signal handler interrupted the same call in the same thread, or if a
    /// process that is stopped has it and the call may not wait; ECONNRESET if the word lies; [`ON_TCP`].
    #[inline]
    pub(crate) fn send_turn(&self, conn: &Conn, may_wait: bool) -> Result<Sending<'static>, Errno> {
        patiently(may_wait, || Sending::take(self.mine(), me(), &patience(conn))).inspect_err(|errno| {
            // (Whoever ended it may have died over saying so.)
            if *errno == ON_TCP && !self.outgoing.has_ended_for_good() {
                self.outgoing.note_end_for_good();
            }
        })
    }

    /// Ends the turn to send of `side`, this one's or the peer's: that direction is on TCP for good. Not
    /// where somebody has it for longer than a copy takes: he is stopped, or interrupted by this very call.
    pub(crate) fn end_turn(&self, side: Side) -> bool {
        let block = &self.view.header().sides[side as usize];
        let ring = self.view.outgoing(side);
        (0..shm::lock::YIELDS).any(|_| {
            let has_ended = Sending::end(block, ring);
            if !has_ended {
                os::process::yield_now();
            }
            has_ended
        })
    }

    /// The turn to receive, the same.
    #[inline]
    pub(crate) fn receive_turn(&self, conn: &Conn, may_wait: bool) -> Result<Receiving<'static>, Errno> {
        patiently(may_wait, || Receiving::take(self.mine(), me(), &patience(conn)))
    }

    #[inline]
    pub(crate) fn is_nonblocking(&self) -> bool {
        self.mine().nonblocking.load(Shared::Relaxed) != 0
    }
}

/// Of a turn to send: nobody takes it any more, for the direction is on TCP for good. (No call of ours fails
/// with it.)
pub(crate) const ON_TCP: Errno = Errno::ENOTCONN;

#[inline]
fn patience(conn: &Conn) -> Yielding {
    Yielding { is_exclusive: conn.is_exclusive() }
}

#[inline]
fn patiently<T>(may_wait: bool, take: impl Fn() -> Result<T, Denied>) -> Result<T, Errno> {
    match take() {
        Ok(turn) => Ok(turn),
        Err(denied) => refused(denied, may_wait, take),
    }
}

/// (Who is stopped goes on some day, or ends.)
#[cold]
fn refused<T>(mut denied: Denied, may_wait: bool, take: impl Fn() -> Result<T, Denied>) -> Result<T, Errno> {
    while denied == Denied::HeldUp && may_wait {
        match take() {
            Ok(turn) => return Ok(turn),
            Err(again) => denied = again,
        }
    }
    Err(match denied {
        Denied::Stuck => Errno::ECONNRESET,
        Denied::Ended => ON_TCP,
        Denied::Reentered | Denied::HeldUp => Errno::EAGAIN,
    })
}

/// This side's own doorbell.
impl Pipe for End {
    fn ring(&self) {
        os::pipe::ring(self.my_bell());
    }

    fn drain(&self) {
        os::pipe::drain(self.my_bell());
    }
}

fn wake_napping(words: [&WaitWord; 2]) {
    // Whoever arms after this finds what was said before it.
    sync::fence(Ordering::SeqCst);
    for word in words {
        if word.take_nap() {
            os::futex::wake(word.futex());
        }
    }
}
