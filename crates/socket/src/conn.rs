//! A socket this process takes part in. Owns: its phase, and when its memory may serve another socket.
//!
//! All fields are atomics: several threads may be in calls on the socket, and another may close it. A call holds the
//! connection through [`Held`]; the object is recycled when no descriptor and no call refers to it, by whoever turns
//! its count of uses from zero to [`FREE`]: a late look at a recycled object changes nothing.

use crate::flag::{self, Flags};
use crate::phase::{self, Event, Phase};
use crate::table::{self, Entry};
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use fabric::connection::RowId;
use fabric::slot::SlotView;
use fabric::turn::{Turn, Yielding, me};
use os::Errno;
use shm::bell::{Bell, Pipe, Words};
use shm::layout::Traffic;
use shm::lock::{Denied, SideLock};
use shm::slab::{Index, LEAF, OnceRef, Slab};
use shm::wait::WaitWord;
use shm::{Ring, RxCache, Side, SideBlock, TxCache};

/// Most sockets one process tracks at once; more stay on TCP.
const SOCKETS: usize = 1 << 17;

/// The count of uses: calls in progress in the lower half, descriptors above, and a bit for an object that is nobody's.
const CALL: u64 = 1;
const FD: u64 = 1 << 32;
const FREE: u64 = 1 << 63;

/// For so long a call that may not wait believes that TCP is as quiet as it was: some 300 microseconds. A program that
/// reads until it is told EAGAIN would make a system call for that each time. Who waits, for whatever, asks TCP itself.
const QUIET_TCP_CYCLES: u64 = 1_000_000;

static TABLE: Slab<Conn, { SOCKETS / LEAF }> = Slab::new();
/// One socket.
pub struct Conn {
    phase: AtomicU8,
    side: AtomicU8,
    /// Descriptors of this process that refer to it, calls in progress, and whether it is in use at all.
    uses: AtomicU64,
    /// Registry row; meaningful from Intent or the server's claim on.
    row: AtomicU64,
    view: AtomicU32,
    /// Inode of a socket that came from another process, by which its duplicates are known.
    pub(crate) inode: AtomicU64,
    /// The slot itself.
    slot: OnceRef<SlotView>,
    /// Of the slot, while it was this connection's.
    generation: AtomicU32,
    /// Cookie of the client's socket, key of the row; for listeners their own.
    pub(crate) cookie: AtomicU64,
    /// See [`flag`](crate::flag).
    flags: AtomicU32,
    /// What the doorbell was asked for.
    pub(crate) bell: Bell,
    /// When an unanswered intent is given up, in cycles; the era of the accept while that is undecided, or of listen().
    pub(crate) deadline: AtomicU64,
    /// Looks for the answer since the intent; of a listener the port.
    pub(crate) looks: AtomicU32,
    pub(crate) tx_cache: TxCache,
    pub(crate) rx_cache: RxCache,
    /// How far this process had read when it last wrote.
    pub(crate) heard: AtomicU64,
    /// Rounds to spin before sleeping.
    pub(crate) spin: AtomicU32,
    /// Yields one after the other that gave the core to another program of ours, and how many of them are too many.
    pub(crate) shared_yields: AtomicU32,
    pub(crate) shared_yields_max: AtomicU32,
    /// Short sleeps in a row, see `wait::nap`.
    pub(crate) naps: AtomicU32,
    /// When a sleep last ended that was no nap, in cycles.
    pub(crate) slept_properly: AtomicU64,
    /// Threads asleep for data and for space.
    pub(crate) rx_waiters: AtomicU32,
    pub(crate) tx_waiters: AtomicU32,
    /// epoll registrations: head of the list plus one, and how many want what.
    pub(crate) registrations: AtomicU32,
    pub(crate) registrations_turn: Turn,
    pub(crate) epoll_in: AtomicU32,
    pub(crate) epoll_out: AtomicU32,
    pub(crate) epoll_edge: AtomicU32,
    /// The era (see `era`) in which this process was known to be the only one with the socket; 0 for never.
    exclusive_era: AtomicU64,
    /// SO_RCVLOWAT.
    pub(crate) rcvlowat: AtomicU32,
    /// Of a listener: TCP_DEFER_ACCEPT as the program set it, which the kernel does not know.
    pub(crate) deferral: AtomicU32,
    /// Sends that found no space while an edge-triggered set watched.
    stalls: AtomicU32,
    /// When a poll of sockets of which it is the first last asked the kernel, in cycles, and how many have not asked since.
    pub(crate) polled: AtomicU64,
    pub(crate) polls: AtomicU32,
    /// When a call that may not wait last asked TCP and it had nothing to say, in cycles.
    asked_tcp: AtomicU64,
    /// SO_RCVTIMEO and SO_SNDTIMEO when a filter of system calls came, after which nobody can ask.
    timeouts: [AtomicU64; 2],
    /// The era in which it was tied to its slot: a fork that was under way has not counted the child's copy.
    tied_era: AtomicU64,
}

impl Conn {
    fn new() -> Self {
        Conn {
            phase: AtomicU8::new(0),
            side: AtomicU8::new(0),
            uses: AtomicU64::new(FREE),
            row: AtomicU64::new(0),
            view: AtomicU32::new(u32::MAX),
            inode: AtomicU64::new(0),
            slot: OnceRef::new(),
            generation: AtomicU32::new(0),
            cookie: AtomicU64::new(0),
            flags: AtomicU32::new(0),
            bell: Bell::new(),
            deadline: AtomicU64::new(0),
            looks: AtomicU32::new(0),
            tx_cache: TxCache::new(),
            rx_cache: RxCache::new(),
            heard: AtomicU64::new(0),
            spin: AtomicU32::new(0),
            naps: AtomicU32::new(0),
            slept_properly: AtomicU64::new(0),
            shared_yields: AtomicU32::new(0),
            shared_yields_max: AtomicU32::new(0),
            rx_waiters: AtomicU32::new(0),
            tx_waiters: AtomicU32::new(0),
            registrations: AtomicU32::new(0),
            registrations_turn: Turn::new(),
            epoll_in: AtomicU32::new(0),
            epoll_out: AtomicU32::new(0),
            epoll_edge: AtomicU32::new(0),
            exclusive_era: AtomicU64::new(0),
            rcvlowat: AtomicU32::new(1),
            deferral: AtomicU32::new(0),
            stalls: AtomicU32::new(0),
            polled: AtomicU64::new(0),
            polls: AtomicU32::new(0),
            asked_tcp: AtomicU64::new(0),
            timeouts: [const { AtomicU64::new(0) }; 2],
            tied_era: AtomicU64::new(0),
        }
    }

    fn reset(&self, born: Event) {
        self.asked_tcp.store(0, Ordering::Relaxed);
        self.deadline.store(0, Ordering::Relaxed);
        self.exclusive_era.store(0, Ordering::Relaxed);
        self.view.store(u32::MAX, Ordering::Relaxed);
        self.inode.store(0, Ordering::Relaxed);
        self.slot.take();
        self.flags.store(0, Ordering::Relaxed);
        self.bell.reset();
        self.tx_cache.reset();
        self.rx_cache.reset();
        self.heard.store(0, Ordering::Relaxed);
        self.spin.store(crate::spin::SPIN_START, Ordering::Relaxed);
        self.shared_yields.store(0, Ordering::Relaxed);
        self.shared_yields_max.store(crate::spin::SHARED_YIELDS.0, Ordering::Relaxed);
        let counters = [
            &self.rx_waiters,
            &self.tx_waiters,
            &self.registrations,
            &self.epoll_in,
            &self.epoll_out,
            &self.naps,
        ];
        for counter in counters {
            counter.store(0, Ordering::Relaxed);
        }
        self.epoll_edge.store(0, Ordering::Relaxed);
        self.rcvlowat.store(1, Ordering::Relaxed);
        self.deferral.store(0, Ordering::Relaxed);
        self.transition(born);
    }

    /// Where the socket is in its life.
    #[inline]
    pub fn phase(&self) -> Phase {
        Phase::from_raw(self.phase.load(Ordering::Acquire))
    }

    /// What `event` makes of its phase; the phase from now on.
    pub(crate) fn transition(&self, event: Event) -> Phase {
        let phase = self.phase();
        match phase::next(phase, event) {
            Some(next) => {
                self.phase.store(next as u8, Ordering::Release);
                next
            }
            None => phase,
        }
    }

    /// Which end of the connection this is.
    #[inline]
    pub fn side(&self) -> Side {
        if self.side.load(Ordering::Relaxed) == 0 { Side::Client } else { Side::Server }
    }

    /// Remembers that no other process has a copy of the socket so far.
    pub(crate) fn note_exclusive(&self) {
        self.exclusive_era.store(crate::era::now(), Ordering::Relaxed);
    }

    /// Another process may get a copy of the socket from now on.
    pub(crate) fn note_shared(&self) {
        self.exclusive_era.store(0, Ordering::SeqCst);
    }

    /// Whether no other process can have got a copy of the socket.
    #[inline]
    pub(crate) fn is_exclusive(&self) -> bool {
        self.exclusive_era.load(Ordering::Relaxed) == crate::era::now()
    }

    /// Ties the socket to a row and a slot.
    pub(crate) fn tie(&self, to: Tie) {
        self.side.store(to.side as u8, Ordering::Relaxed);
        self.row.store(to.row.word(), Ordering::Relaxed);
        self.cookie.store(to.cookie, Ordering::Relaxed);
        self.generation.store(to.generation, Ordering::Relaxed);
        self.tied_era.store(crate::era::now(), Ordering::Relaxed);
        self.view.store(to.view.0, Ordering::Release);
        if let Some(view) = SlotView::get(to.view) {
            view.tie(to.generation);
            self.slot.set(view);
        }
    }

    /// Whether no other socket of this process is on the slot from now on.
    pub(crate) fn untie(&self) -> bool {
        self.view().is_some_and(|view| view.untie(self.generation.load(Ordering::Relaxed)))
    }

    /// Whether the slot serves another connection by now: then this one was reset long ago, as the kernel's socket will say.
    #[inline]
    pub(crate) fn is_stale(&self) -> bool {
        End::of(self).is_some_and(|end| end.generation() != self.generation.load(Ordering::Relaxed))
    }

    /// O_NONBLOCK is on or off, for this process and for others that hold the side.
    pub(crate) fn see_nonblocking(&self, end: Option<&End>, on: bool) {
        if on {
            self.mark(flag::NONBLOCKING);
        } else {
            self.unmark(flag::NONBLOCKING);
        }
        if let Some(end) = end {
            end.mine().nonblocking.store(u32::from(on), shm::sync::Ordering::Relaxed);
        }
    }

    /// SO_RCVLOWAT may have another value than 1.
    pub(crate) fn see_rcvlowat(&self, fd: i32) {
        if crate::options::is_rcvlowat_used() {
            self.rcvlowat.store(os::net::rcvlowat(fd), Ordering::Relaxed);
        }
    }

    /// SO_RCVTIMEO or SO_SNDTIMEO in nanoseconds, 0 for none; asked only if somebody may have set one.
    pub(crate) fn timeout_ns(&self, fd: i32, name: i32) -> u64 {
        if os::confined::is_confined() {
            return self.timeouts[usize::from(name == os::net::opt::SO_SNDTIMEO)].load(Ordering::Relaxed);
        }
        let is_known = self.is_exclusive() && !crate::options::is_timeout_used();
        if is_known { 0 } else { os::net::timeout_ns(fd, name) }
    }

    /// A time limit was set.
    pub(crate) fn see_timeout(&self, name: i32, ns: u64) {
        let is_for_sending = matches!(name, os::net::opt::SO_SNDTIMEO | os::net::opt::SO_SNDTIMEO_NEW);
        self.timeouts[usize::from(is_for_sending)].store(ns, Ordering::Relaxed);
    }

    /// Before a filter of system calls: what will be asked later is asked now.
    pub(crate) fn note_what_calls_would_tell(&self, fd: i32) {
        let names = [os::net::opt::SO_RCVTIMEO, os::net::opt::SO_SNDTIMEO];
        for (place, name) in self.timeouts.iter().zip(names) {
            place.store(os::net::timeout_ns(fd, name), Ordering::Relaxed);
        }
        self.see_nonblocking(None, os::fd::is_nonblocking(fd));
    }

    /// TCP had nothing to say.
    pub(crate) fn note_quiet_tcp(&self) {
        self.asked_tcp.store(os::time::cycles(), Ordering::Relaxed);
    }

    /// Whether TCP had nothing to say a moment ago.
    pub(crate) fn was_tcp_quiet(&self) -> bool {
        os::time::cycles().wrapping_sub(self.asked_tcp.load(Ordering::Relaxed)) < QUIET_TCP_CYCLES
    }

    /// A send found no space.
    pub(crate) fn note_stall(&self) {
        self.stalls.fetch_add(1, Ordering::AcqRel);
    }

    /// How often a send has found no space.
    pub(crate) fn stalls(&self) -> u32 {
        self.stalls.load(Ordering::Acquire)
    }

    /// The era in which it was tied.
    pub(crate) fn tied_era(&self) -> u64 {
        self.tied_era.load(Ordering::Relaxed)
    }

    pub(crate) fn row(&self) -> RowId {
        RowId::from_word(self.row.load(Ordering::Relaxed))
    }

    pub(crate) fn view_index(&self) -> Index {
        Index(self.view.load(Ordering::Acquire))
    }

    /// The slot, once tied.
    #[inline]
    pub(crate) fn view(&self) -> Option<&'static SlotView> {
        self.slot.get()
    }

    /// Its flags as they are just now.
    #[inline]
    pub(crate) fn flags(&self) -> Flags {
        Flags::from_word(self.flags.load(Ordering::Relaxed))
    }

    /// Whether any of `flags` is set.
    #[inline]
    pub(crate) fn has(&self, flags: Flags) -> bool {
        self.flags().has_any(flags)
    }

    #[inline]
    pub(crate) fn mark(&self, flags: Flags) {
        if !self.flags().has_all(flags) {
            self.flags.fetch_or(flags.word(), Ordering::Relaxed);
        }
    }

    pub(crate) fn unmark(&self, flags: Flags) {
        self.flags.fetch_and(!flags.word(), Ordering::Relaxed);
    }

    /// One more descriptor of this process refers to the socket (dup and its kin).
    pub(crate) fn add_fd(&self) {
        self.uses.fetch_add(FD, Ordering::AcqRel);
    }

    /// One fewer; `true` for the last.
    pub(crate) fn drop_fd(&self) -> bool {
        fds_of(self.uses.fetch_sub(FD, Ordering::AcqRel)) == 1
    }

    /// In a fork child: the threads that were in calls here exist in the parent only.
    pub(crate) fn forget_other_threads(&self) {
        self.rx_waiters.store(0, Ordering::Relaxed);
        self.tx_waiters.store(0, Ordering::Relaxed);
        self.uses.fetch_and(!(FD - CALL), Ordering::Relaxed);
    }

    /// Whether another call than the asking one is in progress.
    pub(crate) fn is_in_other_calls(&self) -> bool {
        self.uses.load(Ordering::Acquire) & (FD - CALL) > 1
    }

    /// Descriptors of this process that refer to it.
    pub(crate) fn fds(&self) -> u32 {
        fds_of(self.uses.load(Ordering::Acquire))
    }
}

fn fds_of(uses: u64) -> u32 {
    ((uses & !FREE) / FD) as u32
}

/// What [`Conn::tie`] ties a socket to.
#[derive(Clone, Copy)]
pub(crate) struct Tie {
    pub(crate) side: Side,
    pub(crate) row: RowId,
    pub(crate) view: Index,
    pub(crate) cookie: u64,
    /// Of the slot.
    pub(crate) generation: u32,
}

/// One side of a tied connection: everything a data call needs, resolved once.
#[derive(Clone, Copy)]
pub(crate) struct End {
    pub(crate) view: &'static SlotView,
    pub(crate) side: Side,
    pub(crate) outgoing: Ring,
    pub(crate) incoming: Ring,
}

impl End {
    #[inline]
    pub(crate) fn of(conn: &Conn) -> Option<End> {
        let view = conn.view()?;
        let side = conn.side();
        Some(End { view, side, outgoing: view.outgoing(side), incoming: view.incoming(side) })
    }

    /// The same, but for a slot that serves another connection by now: for whoever is about to change its words.
    pub(crate) fn still_of(conn: &Conn) -> Option<End> {
        End::of(conn).filter(|_| !conn.is_stale())
    }

    /// Which connection the slot serves.
    #[inline]
    fn generation(&self) -> u32 {
        self.mine().generation.load(shm::sync::Ordering::Relaxed)
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
    #[inline]
    pub(crate) fn ring_peer(&self, word: &WaitWord) {
        let asked = word.take_ring();
        if asked.bell() {
            os::pipe::ring(self.view.bell(self.side.peer()));
        }
        if asked.nap() {
            os::futex::wake(word.futex());
        }
    }

    /// Something happened that TCP will tell the peer: whoever naps there, and does not look at TCP, is to sleep properly.
    pub(crate) fn wake_napping_peer(&self) {
        wake_napping([&self.outgoing.words().data_wait.0, &self.incoming.words().space_wait.0]);
    }

    /// The same for other threads of this side.
    pub(crate) fn wake_napping(&self) {
        wake_napping([&self.incoming.words().data_wait.0, &self.outgoing.words().space_wait.0]);
    }

    #[inline]
    pub(crate) fn is_nonblocking(&self) -> bool {
        self.mine().nonblocking.load(shm::sync::Ordering::Relaxed) != 0
    }
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
    core::sync::atomic::fence(Ordering::SeqCst);
    for word in words {
        if word.take_nap() {
            os::futex::wake(word.futex());
        }
    }
}

/// The turn of this side and direction, given back on drop.
pub(crate) struct Turned(&'static SideLock);

impl Turned {
    /// EAGAIN if a signal handler interrupted the same call in the same thread; ECONNRESET if the word lies.
    #[inline]
    pub(crate) fn take(conn: &Conn, traffic: &'static Traffic) -> Result<Self, Errno> {
        let patience = Yielding { is_exclusive: conn.is_exclusive() };
        traffic.lock.lock(me(), &patience).map_err(|denied| match denied {
            Denied::Reentered => Errno::EAGAIN,
            Denied::Stuck => Errno::ECONNRESET,
        })?;
        Ok(Turned(&traffic.lock))
    }
}

impl Drop for Turned {
    #[inline]
    fn drop(&mut self) {
        self.0.unlock();
    }
}

/// A connection in use by a call.
pub struct Held {
    conn: &'static Conn,
    index: Index,
}

impl core::ops::Deref for Held {
    type Target = Conn;
    #[inline]
    fn deref(&self) -> &Conn {
        self.conn
    }
}

impl Drop for Held {
    #[inline]
    fn drop(&mut self) {
        if self.conn.uses.fetch_sub(CALL, Ordering::AcqRel) == CALL {
            recycle(self.index, self.conn);
        }
    }
}

impl Held {
    /// Number of the connection.
    pub fn index(&self) -> Index {
        self.index
    }

    /// Goes on holding without the object: for calls that keep their notes in an array of the kernel's.
    pub(crate) fn park(self) -> Index {
        core::mem::ManuallyDrop::new(self).index
    }

    /// Takes up a hold that was parked.
    pub(crate) fn unpark(index: Index) -> Option<Held> {
        Some(Held { conn: TABLE.get(index)?, index })
    }
}

/// The connection behind `fd`, held for a call.
#[inline]
pub fn hold(fd: i32) -> Option<Held> {
    let Entry::Conn(index) = table::get(fd) else { return None };
    let held = hold_index(index)?;
    // The number may have been closed and used again between the look and the hold.
    if table::get(fd) == Entry::Conn(index) { Some(held) } else { None }
}

/// Holds by number: for epoll registrations, whose owner knows that the connection lives.
#[inline]
pub(crate) fn hold_index(index: Index) -> Option<Held> {
    let conn = TABLE.get(index)?;
    let held = Held { conn, index };
    // Whether it is anybody's is told by the same word: a free one is let go again, and stays free.
    if conn.uses.fetch_add(CALL, Ordering::AcqRel) & FREE != 0 { None } else { Some(held) }
}

/// Looks by number, without a hold: what is seen is a hint. (Objects and slots stay readable for ever.)
#[inline]
pub(crate) fn peek_index(index: Index) -> Option<&'static Conn> {
    TABLE.get(index)
}

/// Enters a new socket into the table. `None` without memory: it stays on TCP.
pub(crate) fn enter(fd: i32, born: Event) -> Option<Held> {
    let (index, conn) = TABLE.take(os::mem::more, Conn::new)?;
    conn.reset(born);
    // Added, not stored: a late look at the object's last life may hold it for a moment.
    conn.uses.fetch_add((FD + CALL).wrapping_sub(FREE), Ordering::AcqRel);
    let held = Held { conn, index };
    match table::set(fd, Entry::Conn(index)) {
        Some(Entry::Conn(old)) => crate::close::forget(old),
        Some(_) => {}
        None => {
            conn.drop_fd();
            return None;
        }
    }
    Some(held)
}

/// Makes `fd` another descriptor of the adopted socket with this inode, if there is one.
pub(crate) fn join_adopted(fd: i32, inode: u64) -> bool {
    let is_it = |conn: &Conn| inode != 0 && conn.fds() > 0 && conn.inode.load(Ordering::Relaxed) == inode;
    let Some(held) = all().find(|(_, conn)| is_it(conn)).and_then(|(index, _)| hold_index(index)) else {
        return false;
    };
    if !is_it(&held) {
        return false;
    }
    held.add_fd();
    match table::set(fd, Entry::Conn(held.index())) {
        Some(Entry::Conn(old)) => crate::close::forget(old),
        Some(_) => {}
        None => _ = held.drop_fd(),
    }
    true
}

fn recycle(index: Index, conn: &'static Conn) {
    // Two last holders may arrive here together, and one of them late: who frees the word does the work.
    if conn.uses.compare_exchange(0, FREE, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
        crate::ready::end_signals(conn);
        crate::close::let_go(conn, conn.phase());
        conn.transition(Event::Closed);
        TABLE.give_back(index);
    }
}

/// Every connection ever made, in use or not.
pub(crate) fn all() -> impl Iterator<Item = (Index, &'static Conn)> {
    (0..TABLE.made()).filter_map(|index| Some((Index(index), TABLE.get(Index(index))?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_of_two_bits_is_not_content_with_one() {
        let conn = Conn::new();
        conn.mark(flag::TCP_ENDED);
        conn.mark(flag::TCP_ENDED | flag::TCP_GONE);
        assert!(conn.has(flag::TCP_GONE));
    }
}
