//! A socket this process takes part in. Owns: its phase, its flags, and what it is tied to.
//!
//! All fields are atomics: several threads may be in calls on the socket, and another may close it.

use crate::flag::{self, Flags};
use crate::phase::{self, Event, Phase};
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use fabric::connection::RowId;
use fabric::slot::SlotView;
use fabric::turn::Turn;
use shm::bell::Bell;
use shm::slab::{Index, OnceRef};
use shm::{RxCache, Side, TxCache};

/// The count of uses: calls in progress in the lower half, descriptors above, and a bit for an object that is nobody's.
pub(crate) const CALL: u64 = 1;
pub(crate) const FD: u64 = 1 << 32;
pub(crate) const FREE: u64 = 1 << 63;

/// For so long a call that may not wait believes that TCP is as quiet as it was: some 300 microseconds. A program that
/// reads until it is told EAGAIN would make a system call for that each time. Who waits, for whatever, asks TCP itself.
const QUIET_TCP_CYCLES: u64 = 1_000_000;

/// One socket.
pub struct Conn {
    phase: AtomicU8,
    side: AtomicU8,
    /// Descriptors of this process that refer to it, calls in progress, and whether it is in use at all.
    pub(crate) uses: AtomicU64,
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
    pub(crate) fn new() -> Self {
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

    pub(crate) fn reset(&self, born: Event) {
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
        let side = self.side() as usize;
        let serves =
            |view: &SlotView| view.header().sides[side].generation.load(shm::sync::Ordering::Relaxed);
        self.view().is_some_and(|view| serves(view) != self.generation.load(Ordering::Relaxed))
    }

    /// O_NONBLOCK is on or off, for this process.
    pub(crate) fn see_nonblocking(&self, on: bool) {
        if on {
            self.mark(flag::NONBLOCKING);
        } else {
            self.unmark(flag::NONBLOCKING);
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
        self.see_nonblocking(os::fd::is_nonblocking(fd));
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
