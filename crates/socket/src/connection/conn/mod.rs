//! A socket this process takes part in. Owns: its phase, its flags, and what it is tied to.
//!
//! All fields are atomics: several threads may be in calls on the socket, and another may close it.

pub(crate) mod interest;
pub(crate) mod life;
pub(crate) mod link;
pub(crate) mod role;
pub(crate) mod stream;

use crate::conn::interest::Interest;
use crate::conn::life::{CALL, FD, FREE, Life};
use crate::conn::link::{Link, Tie};
use crate::conn::role::Role;
use crate::conn::stream::{Stream, Timeouts};
use crate::flag::{self, Flags};
use crate::phase::{self, Event, Phase};
use crate::policy::Learned;
use fabric::rows::RowId;
use fabric::slot::SlotView;
use os::time::Cycles;
use shm::Side;
use shm::slab::Index;
use sync::Ordering;

/// For so long a call that may not wait believes that TCP is as quiet as it was. A program that reads until
/// it is told EAGAIN would make a system call for that each time. Who waits, for whatever, asks TCP itself.
const QUIET_TCP: Cycles = Cycles::from_us(333);
/// The same of who has heard from the peer since he last wrote: a busy pair asks a hundred times a second.
const QUIET_PEER: Cycles = Cycles::from_ms(10);
/// What is written so soon behind such a write, as a body is behind its head, counts as one with it. (Of a
/// peer that is killed between the two the next write hears.)
const SAME_BREATH: Cycles = Cycles::from_us(50);

/// A time in 32 bits, which begin again after some twenty minutes.
#[inline]
fn ticks(time: Cycles) -> u32 {
    (time.word() >> 10) as u32
}

/// One socket: parts that are used together stand together, by cache line (a slab's objects lie 256 bytes
/// apart, with a word of the slab's at the end). What every call touches is on the first line; the second is
/// for who connects, accepts, listens and sleeps, the third for who moves bytes, the fourth for who waits in
/// whatever way.
#[repr(C)]
pub struct Conn {
    pub(crate) life: Life,
    link: Link,
    pub(crate) role: Role,
    /// What waiting on it has taught.
    pub(crate) waits: Learned,
    pub(crate) stream: Stream,
    pub(crate) interest: Interest,
    timeouts: Timeouts,
}

impl Conn {
    pub(crate) fn new() -> Self {
        Conn {
            life: Life::new(),
            link: Link::new(),
            role: Role::new(),
            waits: Learned::new(),
            stream: Stream::new(),
            interest: Interest::new(),
            timeouts: Timeouts::new(),
        }
    }

    /// Begins another life. Whoever adds a field says here, or in its part, what becomes of it: nothing is
    /// left out.
    pub(crate) fn reset(&self, born: Event) {
        let Conn { life, link, role, waits, stream, interest, timeouts: _ } = self;
        life.reset();
        link.reset();
        role.reset();
        stream.reset();
        interest.reset();
        waits.reset();
        // (The time limits are stored before a filter comes, after which they are read.)
        self.transition(born);
    }

    /// Where the socket is in its life.
    #[inline]
    pub fn phase(&self) -> Phase {
        Phase::from_raw(self.life.phase.load(Ordering::Acquire))
    }

    /// Whether it is in this phase: one comparison, where every call asks.
    #[inline]
    pub(crate) fn is(&self, phase: Phase) -> bool {
        self.life.phase.load(Ordering::Acquire) == phase as u8
    }

    /// What `event` makes of its phase; the phase from now on.
    #[inline]
    pub(crate) fn transition(&self, event: Event) -> Phase {
        let phase = self.phase();
        match phase::next(phase, event) {
            Some(next) => {
                self.life.phase.store(next as u8, Ordering::Release);
                next
            }
            None => phase,
        }
    }

    /// Which end of the connection this is.
    #[inline]
    pub fn side(&self) -> Side {
        if self.life.side.load(Ordering::Relaxed) == 0 { Side::Client } else { Side::Server }
    }

    /// Where it is known of the address how its connections end, from 1 on; 0 for nowhere.
    pub(crate) fn brief_place(&self) -> u32 {
        u32::from(self.life.brief.load(Ordering::Relaxed))
    }

    /// It is known there.
    pub(crate) fn note_brief_place(&self, place: u8) {
        self.life.brief.store(place, Ordering::Relaxed);
    }

    /// Remembers that no other process has a copy of the socket so far.
    pub(crate) fn note_exclusive(&self) {
        self.life.exclusive_era.store(crate::era::now(), Ordering::Relaxed);
    }

    /// Another process may get a copy of the socket from now on.
    pub(crate) fn note_shared(&self) {
        self.life.exclusive_era.store(0, Ordering::SeqCst);
    }

    /// Whether no other process can have got a copy of the socket.
    #[inline]
    pub(crate) fn is_exclusive(&self) -> bool {
        self.life.exclusive_era.load(Ordering::Relaxed) == crate::era::now()
    }

    /// Ties the socket to a row and a slot.
    pub(crate) fn tie(&self, to: Tie) {
        self.life.side.store(to.side as u8, Ordering::Relaxed);
        self.link.tie(to);
    }

    /// Cookie of the client's socket, key of the row.
    pub(crate) fn cookie(&self) -> u64 {
        self.link.cookie.load(Ordering::Relaxed)
    }

    /// Whether no other socket of this process is on the slot from now on.
    pub(crate) fn untie(&self) -> bool {
        self.view().is_some_and(|view| view.untie(self.link.generation.load(Ordering::Relaxed)))
    }

    /// Of the slot, while it was this connection's.
    #[inline]
    pub(crate) fn generation(&self) -> u32 {
        self.link.generation.load(Ordering::Relaxed)
    }

    /// Whether the slot serves another connection by now: then this one was reset long ago, as the kernel's
    /// socket will say.
    #[inline]
    pub(crate) fn is_stale(&self) -> bool {
        let side = self.side() as usize;
        let serves = |view: &SlotView| view.header().sides[side].generation.load(sync::Ordering::Relaxed);
        self.view().is_some_and(|view| serves(view) != self.link.generation.load(Ordering::Relaxed))
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
            self.stream.rcvlowat.store(os::net::rcvlowat(fd), Ordering::Relaxed);
        }
    }

    /// SO_PEEK_OFF may be set.
    pub(crate) fn see_peek_offset(&self, fd: i32) {
        if crate::options::is_peek_offset_used() && os::net::peek_offset(fd).is_some() {
            self.mark(flag::PEEK_OFFSET);
        }
    }

    /// TCP_CORK may be on or off.
    pub(crate) fn see_cork(&self, fd: i32) {
        if os::confined::is_confined() {
            return;
        }
        match crate::options::is_cork_used() && os::net::is_corked(fd) {
            true => self.mark(flag::CORKED),
            false => self.unmark(flag::CORKED),
        }
    }

    /// What options say that somebody may have set.
    pub(crate) fn see_options(&self, fd: i32) {
        self.see_cork(fd);
        self.see_rcvlowat(fd);
        self.see_peek_offset(fd);
    }

    /// SO_RCVTIMEO or SO_SNDTIMEO in nanoseconds, 0 for none; asked only if somebody may have set one.
    pub(crate) fn timeout_ns(&self, fd: i32, name: i32) -> u64 {
        if self.has(at_once(name)) {
            return 1;
        }
        if os::confined::is_confined() {
            return self.timeouts.0[usize::from(name == os::net::opt::SO_SNDTIMEO)].load(Ordering::Relaxed);
        }
        let is_known = self.is_exclusive() && !crate::options::is_timeout_used();
        if is_known { 0 } else { os::net::timeout_ns(fd, name) }
    }

    /// A time limit was set; `None` for one that is over before it begins.
    pub(crate) fn see_timeout(&self, name: i32, ns: Option<u64>) {
        self.timeouts.0[usize::from(is_for_sending(name))].store(ns.unwrap_or(1), Ordering::Relaxed);
        match ns {
            Some(_) => self.unmark(at_once(name)),
            None => self.mark(at_once(name)),
        }
    }

    /// Before a filter of system calls: what will be asked later is asked now.
    pub(crate) fn note_what_calls_would_tell(&self, fd: i32) {
        let names = [os::net::opt::SO_RCVTIMEO, os::net::opt::SO_SNDTIMEO];
        for (place, name) in self.timeouts.0.iter().zip(names) {
            place.store(os::net::timeout_ns(fd, name), Ordering::Relaxed);
        }
        self.see_nonblocking(os::fd::is_nonblocking(fd));
    }

    /// TCP had nothing to say.
    pub(crate) fn note_quiet_tcp(&self) {
        Cycles::now().store(&self.stream.asked_tcp);
    }

    /// Whether TCP had nothing to say a moment ago.
    pub(crate) fn was_tcp_quiet(&self, now: Cycles) -> bool {
        now.since(Cycles::load(&self.stream.asked_tcp)) < QUIET_TCP
    }

    /// Whether TCP was asked, and had nothing to say, not long ago.
    #[inline]
    pub(crate) fn was_tcp_asked_lately(&self, now: Cycles) -> bool {
        now.since(Cycles::load(&self.stream.asked_tcp)) < QUIET_PEER
    }

    /// Whether `read_so_far` is more than it was when we last wrote. (After four gigabytes more it is taken
    /// for the same, and TCP is asked.)
    #[inline]
    pub(crate) fn has_read_since_it_wrote(&self, read_so_far: u64) -> bool {
        self.stream.heard.load(Ordering::Relaxed) != read_so_far as u32
    }

    /// We write, and have read so far.
    #[inline]
    pub(crate) fn note_read_so_far(&self, read_so_far: u64) {
        self.stream.heard.store(read_so_far as u32, Ordering::Relaxed);
    }

    /// We write, and have heard from the peer since we last did.
    #[inline]
    pub(crate) fn note_heard(&self, now: Cycles) {
        self.stream.heard_at.store(ticks(now), Ordering::Relaxed);
    }

    /// Whether that was a moment ago.
    #[inline]
    pub(crate) fn is_in_the_same_breath(&self, now: Cycles) -> bool {
        ticks(now).wrapping_sub(self.stream.heard_at.load(Ordering::Relaxed)) < ticks(SAME_BREATH)
    }

    /// A send found no space.
    pub(crate) fn note_stall(&self) {
        self.interest.stalls.fetch_add(1, Ordering::AcqRel);
    }

    /// How often a send has found no space.
    pub(crate) fn stalls(&self) -> u32 {
        self.interest.stalls.load(Ordering::Acquire)
    }

    /// The era in which it was tied.
    pub(crate) fn tied_era(&self) -> u64 {
        self.link.tied_era.load(Ordering::Relaxed)
    }

    pub(crate) fn row(&self) -> RowId {
        RowId::from_word(self.link.row.load(Ordering::Relaxed))
    }

    pub(crate) fn view_index(&self) -> Index {
        Index(self.link.view.load(Ordering::Acquire))
    }

    /// The slot, once tied.
    #[inline]
    pub(crate) fn view(&self) -> Option<&'static SlotView> {
        self.link.slot.get()
    }

    /// Its flags as they are just now.
    #[inline]
    pub(crate) fn flags(&self) -> Flags {
        Flags::from_word(self.life.flags.load(Ordering::Relaxed))
    }

    /// Whether any of `flags` is set.
    #[inline]
    pub(crate) fn has(&self, flags: Flags) -> bool {
        self.flags().has_any(flags)
    }

    #[inline]
    pub(crate) fn mark(&self, flags: Flags) {
        if !self.flags().has_all(flags) {
            self.life.flags.fetch_or(flags.word(), Ordering::Relaxed);
        }
    }

    pub(crate) fn unmark(&self, flags: Flags) {
        self.life.flags.fetch_and(!flags.word(), Ordering::Relaxed);
    }

    /// The same for one flag that is counted elsewhere: whether this call changed it.
    pub(crate) fn mark_anew(&self, flag: Flags) -> bool {
        self.life.flags.fetch_or(flag.word(), Ordering::AcqRel) & flag.word() == 0
    }

    /// And taken off.
    pub(crate) fn unmark_anew(&self, flag: Flags) -> bool {
        self.life.flags.fetch_and(!flag.word(), Ordering::AcqRel) & flag.word() != 0
    }

    /// One more descriptor of this process refers to the socket (dup and its kin).
    pub(crate) fn add_fd(&self) {
        self.life.uses.fetch_add(FD, Ordering::AcqRel);
    }

    /// One fewer; `true` for the last.
    pub(crate) fn drop_fd(&self) -> bool {
        fds_of(self.life.uses.fetch_sub(FD, Ordering::AcqRel)) == 1
    }

    /// In a fork child: the threads that were in calls here exist in the parent only.
    pub(crate) fn forget_other_threads(&self) {
        self.interest.rx_waiters.store(0, Ordering::Relaxed);
        self.interest.tx_waiters.store(0, Ordering::Relaxed);
        self.unmark(flag::KEPT.and(flag::HELD_OPEN));
        self.life.uses.fetch_and(!(FD - CALL), Ordering::Relaxed);
    }

    /// A call goes on that others took for one that never returns.
    pub(crate) fn hold_anew(&self) {
        self.life.uses.fetch_add(CALL, Ordering::AcqRel);
    }

    /// Whether another call than the asking one is in progress.
    pub(crate) fn is_in_other_calls(&self) -> bool {
        self.is_in_other_calls_than(0)
    }

    /// Whether another call is in progress than the asking one and `known` ones.
    pub(crate) fn is_in_other_calls_than(&self, known: u32) -> bool {
        self.life.uses.load(Ordering::SeqCst) & (FD - CALL) > 1 + u64::from(known)
    }

    /// Descriptors of this process that refer to it.
    pub(crate) fn fds(&self) -> u32 {
        fds_of(self.life.uses.load(Ordering::Acquire))
    }
}

fn is_for_sending(name: i32) -> bool {
    matches!(name, os::net::opt::SO_SNDTIMEO | os::net::opt::SO_SNDTIMEO_NEW)
}

fn at_once(name: i32) -> Flags {
    if is_for_sending(name) { flag::SENDS_AT_ONCE } else { flag::RECEIVES_AT_ONCE }
}

fn fds_of(uses: u64) -> u32 {
    ((uses & !FREE) / FD) as u32
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

    #[test]
    fn each_line_holds_what_is_used_together() {
        use core::mem::{offset_of, size_of};
        assert_eq!(size_of::<Conn>(), 256 - 8);
        // What every call asks: is it in use, decided, tied to a slot that is still its own, nobody else's?
        assert_eq!(offset_of!(Conn, link) + size_of::<Link>(), 64);
        let lines = [offset_of!(Conn, role), offset_of!(Conn, stream), offset_of!(Conn, interest)];
        assert_eq!(lines, [64, 128, 192]);
    }

    #[test]
    fn a_new_life_remembers_nothing_of_the_last() {
        let conn = Conn::new();
        conn.reset(Event::Accepted);
        conn.mark(flag::TCP_ENDED | flag::RESET);
        conn.note_exclusive();
        conn.add_fd();
        let zero = [
            &conn.interest.rx_waiters,
            &conn.interest.tx_waiters,
            &conn.interest.epoll_in,
            &conn.interest.epoll_out,
            &conn.interest.epoll_edge,
            &conn.interest.registrations,
        ];
        zero.iter().for_each(|word| word.store(7, Ordering::Relaxed));
        conn.stream.rcvlowat.store(7, Ordering::Relaxed);
        conn.role.inode.store(7, Ordering::Relaxed);
        conn.role.era.store(7, Ordering::Relaxed);
        conn.drop_fd();
        conn.transition(Event::Closed);
        conn.reset(Event::Offered);
        assert_eq!((conn.phase(), conn.flags(), conn.is_exclusive()), (Phase::Intent, Flags::NONE, false));
        assert!(zero.iter().all(|word| word.load(Ordering::Relaxed) == 0) && conn.view().is_none());
        assert_eq!(conn.stream.rcvlowat.load(Ordering::Relaxed), 1);
        assert_eq!(conn.role.inode.load(Ordering::Relaxed) + conn.role.era.load(Ordering::Relaxed), 0);
        assert_eq!(conn.fds(), 0);
    }

    #[test]
    fn descriptors_and_calls_are_counted_apart_and_a_free_object_has_none() {
        let conn = Conn::new();
        assert_eq!((conn.fds(), conn.is_in_other_calls()), (0, false));
        conn.life.uses.store(2 * FD + 2 * CALL, Ordering::Relaxed);
        assert_eq!((conn.fds(), conn.is_in_other_calls()), (2, true));
        assert!(!conn.drop_fd() && conn.drop_fd());
        conn.forget_other_threads();
        assert!(!conn.is_in_other_calls());
    }
}
