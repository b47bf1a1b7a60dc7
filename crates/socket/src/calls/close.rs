//! shutdown, close and dup. Owns: what a close says to the peer, and what it leaves behind for TCP: FIN after
//! a clean close, RST if bytes were left unread.

use crate::closing::Others;
use crate::conn::Conn;
use crate::end::End;
use crate::held::{Held, hold, hold_index};
use crate::here::fabric;
use crate::phase::{Event, Phase};
use crate::table::{self, Entry};
use crate::wait::spin_until;
use crate::{
    abandoned, answer, brief, callers, closing, doorbell, far, flag, handover, kept, push, ready, records,
    release, settle, sleepers, unseen, watch,
};
use fabric::door::Rendezvous as _;
use os::net::{self, Endpoint};
use os::poll::bits;
use os::time::Cycles;
use shm::ClosedBy;
use sync::Ordering;
use sync::Ordering as Shared;

const SHUT_WR: i32 = 1;

/// SHUT_RD is 0, SHUT_WR 1, SHUT_RDWR 2. Flags first, then libc's shutdown by the caller.
pub fn before_shutdown(fd: i32, how: i32) -> AfterClose {
    let Some(conn) = crate::decide::in_use(fd) else { return AfterClose::Nothing };
    if conn.phase() == Phase::Intent && answer::retract(&conn, fd, fabric::Reason::PEERDECL) == Phase::Plain {
        return AfterClose::Nothing;
    }
    let Some(end) = End::of(&conn) else { return AfterClose::Nothing };
    watch::note_news();
    if conn.phase() == Phase::Smc {
        ready::ask_for_reset(&conn, &end, fd);
    }
    if how != 0 {
        push::push(&end);
        end.note_written(Cycles::now());
    }
    end.mine().closed.fetch_or(closing::by_shutdown(how), Shared::SeqCst);
    sync::fence(Ordering::SeqCst);
    // (The kernel raises no signal for it.)
    if doorbell::is_slept_at(&conn) || sleepers::is_shared(&conn, &end) {
        doorbell::kick(&conn, &end);
    }
    // (Of an end that TCP knows the kernel's record of the socket tells.)
    if how == SHUT_WR && !conn.has(flag::TCP_ENDED) {
        records::raise_edges(&conn, &end, !0);
    }
    end.wake_napping();
    end.wake_napping_peer();
    AfterClose::Told(conn)
}

/// Before connect() to AF_UNSPEC, by which the kernel resets the connection and leaves the socket, with all
/// its descriptors, for another one: that is TCP's.
pub fn before_dissolving(fd: i32) -> AfterClose {
    let Some(conn) = hold(fd) else { return AfterClose::Nothing };
    match conn.phase() {
        Phase::Listening => return before_close(fd),
        Phase::Accepted | Phase::Intent => crate::decide::refuse(fd),
        _ => {}
    }
    let Some(end) = End::still_of(&conn).filter(|_| conn.phase() == Phase::Smc) else {
        return AfterClose::Nothing;
    };
    {
        let Some(_turn) = conn.interest.turn.take() else { return AfterClose::Nothing };
        conn.mark(flag::DISSOLVED);
        fabric().rows().dissolve_side(conn.row(), conn.cookie(), end.side);
        conn.transition(Event::Forsaken);
        records::convert(&conn);
    }
    end.mine().closed.fetch_or(ClosedBy::ABORT, Shared::Relaxed);
    end.say_closed();
    if doorbell::is_waited_for(&conn, &end) {
        doorbell::kick(&conn, &end);
    }
    end.wake_napping();
    AfterClose::Told(conn)
}

/// What remains to be done after libc's close or shutdown.
pub enum AfterClose {
    /// Nothing.
    Nothing,
    /// A listener's announcement may be over.
    Listener(u64, Endpoint),
    /// A peer that sleeps is to be told what the kernel knows by then.
    Told(Held),
    /// Somebody else was counted as a holder of the connection: the kernel knows whether there is anybody.
    Shared(Held, release::Ends),
}

/// Before close(fd) or a dup2 onto it: takes the entry out and, if it was the last of this process, ends our
/// part.
pub fn before_close(fd: i32) -> AfterClose {
    before_close_among(fd, true)
}

/// The same; not `alone` where others are to be closed before libc closes this one.
pub fn before_close_among(fd: i32, alone: bool) -> AfterClose {
    match table::get(fd) {
        Entry::Empty => AfterClose::Nothing,
        Entry::Conn(index) => match hold_index(index) {
            Some(held) => close_conn(held, fd, alone),
            None => AfterClose::Nothing,
        },
        Entry::Epoll(index) => {
            // (Of two threads that close it one does.)
            if table::clear(fd) == Entry::Epoll(index) {
                records::close_set(index);
            }
            AfterClose::Nothing
        }
        Entry::Foreign => {
            table::clear(fd);
            AfterClose::Nothing
        }
    }
}

fn close_conn(held: Held, fd: i32, alone: bool) -> AfterClose {
    if held.fds() > 1 {
        // (What the kernel says of this number is said for ever, if a duplicate lives on.)
        unseen::take_up_all_of(&held);
    }
    // Two threads may close two duplicates, or the same number: who takes the entry out counts, and who
    // counts last ends it.
    if table::clear(fd) != Entry::Conn(held.index()) {
        return AfterClose::Nothing;
    }
    // Whoever asks a set by this number has done, or finds that it is gone: the kernel would take it for the
    // number's next socket. (Nothing else says that somebody does.)
    drop(held.interest.turn.take());
    keep_for_other_calls(&held, fd);
    if !held.drop_fd() {
        return AfterClose::Nothing;
    }
    if held.phase() == Phase::Listening {
        // (Behind a filter it was withdrawn before.)
        let at = if os::confined::is_confined() { Err(os::Errno::EPERM) } else { net::local(fd) };
        let cookie = held.role.listener.load(Ordering::Relaxed);
        return at.map_or(AfterClose::Nothing, |at| AfterClose::Listener(cookie, at));
    }
    let is_shared = finish(&held, fd, alone) && !os::confined::is_confined();
    let ends = || Some(release::Ends { local: net::local(fd).ok()?, peer: net::peer(fd).ok()? });
    match if is_shared { ends() } else { None } {
        Some(ends) => AfterClose::Shared(held, ends),
        None if is_waited_on(&held) => AfterClose::Told(held),
        None => AfterClose::Nothing,
    }
}

/// Before a number goes: who is in another call on it finds the socket by one of ours, or knows that it is
/// gone.
fn keep_for_other_calls(held: &Held, fd: i32) {
    if !held.is_in_other_calls() || !abandoned::is_in_other_calls(held) {
        return;
    }
    let end = End::still_of(held).filter(|_| matches!(held.phase(), Phase::Smc | Phase::Intent));
    let is_to_be_kept = end.is_some() && is_in_a_call_by(held, fd);
    kept::note_closed(held, held.index(), is_to_be_kept.then_some(fd));
    if let Some(end) = end.filter(|_| is_to_be_kept) {
        doorbell::kick(held, &end);
    }
}

/// At the last close: a poll of another thread keeps the socket open, as in the kernel, which resets the
/// connection when the poll is over and bytes have come meanwhile. (It is not woken: it goes on by the
/// number, and finds that closed.)
fn keep_for_polls(held: &Held, fd: i32) {
    if !held.has(flag::HELD_OPEN) && callers::noted_on(held.index().0, fd).is_polled {
        kept::note_closed(held, held.index(), Some(fd));
    }
}

/// Whether a call of another thread that looks at the socket by `fd` will return some day. One that has not
/// slept yet (it moves bytes, or looks a few times before it sleeps) ends or sleeps within a moment, unless
/// siglongjmp has left it: that one nobody would ever end. (One of this thread, which a handler has
/// interrupted, the kernel begins anew, by the number.)
fn is_in_a_call_by(held: &Held, fd: i32) -> bool {
    /// A copy of a whole ring takes 100 us, and so does the longest look.
    const LONGEST: Cycles = Cycles::from_us(2_000);
    let from = Cycles::now();
    loop {
        let noted = callers::noted_on(held.index().0, fd);
        if noted.is_by_number {
            return true;
        }
        let is_over = !held.is_in_other_calls_than(noted.holds) || os::confined::is_confined();
        if is_over || Cycles::now().since(from) >= LONGEST {
            return false;
        }
        os::process::yield_now();
    }
}

/// Whether a writer at the other end sleeps for space.
fn is_waited_on(conn: &Conn) -> bool {
    conn.phase() == Phase::Smc
        && End::still_of(conn).is_some_and(|end| end.incoming.words().space_wait.0.is_asked())
}

impl AfterClose {
    /// After libc's close or shutdown.
    pub fn run(self) {
        match self {
            AfterClose::Nothing => {}
            AfterClose::Listener(cookie, at) => fabric().tier().withdraw(cookie, at),
            AfterClose::Told(held) => {
                if let Some(end) = End::still_of(&held) {
                    end.wake_peer();
                }
            }
            AfterClose::Shared(held, ends) => release::end_if_last(&held, ends),
        }
    }
}

/// Our part of a close, while the descriptor is still open. Whether other holders are counted.
fn finish(conn: &Held, fd: i32, alone: bool) -> bool {
    brief::note_end(conn);
    if conn.phase() == Phase::Intent && !release::is_copy(conn) {
        answer::retract(conn, fd, fabric::Reason::PEERDECL);
    }
    records::remove_all(conn, Some(fd));
    handover::take_word_back(conn);
    let Some(end) = End::still_of(conn) else { return false };
    if conn.phase() != Phase::Smc {
        return false;
    }
    let _ = end.incoming.is_holding() && push::let_out_if_due(conn, &end);
    // A thread blocked in a call keeps the socket open, as in the kernel; its call's end is the close then.
    let is_shared = release::has_other_holders(conn, &end);
    if is_shared || abandoned::is_in_other_calls(conn) {
        leave_open(conn, &end, fd, is_shared);
        return is_shared;
    }
    // (SO_LINGER waits until the peer's kernel has the bytes, not its program. The ring is that kernel.)
    let said = end.mine().closed.load(Shared::Relaxed);
    push::push(&end);
    end.say_closed();
    // Looked at after it was said: what the peer publishes later, it knows to have come too late.
    let is_reset = closing::is_reset(end.is_drained(), conn.flags());
    if is_reset {
        end.mine().closed.fetch_or(ClosedBy::ABORT, Shared::Relaxed);
        match far::is_far(conn) {
            // (A child may have become a program that has a copy, and would read on behind the gap.)
            true => net::abort(fd),
            false => net::reset_on_close(fd),
        }
    }
    let last = closing::Last { side: end.side, is_alone: alone, is_reset, said };
    if closing::lets_server_end_first(last, end.theirs().closed.load(Shared::SeqCst)) {
        let_the_server_end_first(conn, fd);
    }
    false
}

/// Our part of a close after which another process has the socket, or a call of another thread.
fn leave_open(conn: &Held, end: &End, fd: i32, is_shared: bool) {
    if !is_shared {
        keep_for_polls(conn, fd);
    }
    let is_held_open = conn.has(flag::HELD_OPEN);
    let goes_on = is_held_open || is_shared && !os::confined::is_confined();
    let others = if goes_on { Others::GoOn } else { Others::Counted };
    end.mine().closed.fetch_or(closing::noted_on_leaving(others, end.is_drained()), Shared::Release);
    // (A call that does not keep it open, for it only looks, or was left, reads nothing any more.)
    let is_last = || if is_shared { release::are_others_dead(conn, end) } else { !is_held_open };
    if closing::is_reset(end.is_drained(), conn.flags()) && is_last() {
        net::reset_on_close(fd);
    }
}

/// Whose FIN is first keeps the port for a minute (RFC 9293 section 3.6.1), and two that cross keep one each.
/// Over TCP a client that closes after a server mostly has its FIN by then; over memory it learns of the
/// close before the server's FIN is sent: 28 thousand short connections took all ports of a client, which
/// over TCP had most of them still.
fn let_the_server_end_first(conn: &Conn, fd: i32) {
    /// A server's close() takes 5 us from its announcement to its FIN.
    const LONGEST: Cycles = Cycles::from_us(33);
    let from = Cycles::now();
    spin_until(|| {
        Cycles::now().since(from) >= LONGEST
            || conn.has(flag::TCP_ENDED | flag::RESET)
            || os::poll::peek(fd, bits::RDHUP) != 0
    });
}

/// After a successful dup, dup2, dup3 or F_DUPFD.
pub fn after_dup(old: i32, new: i32) {
    match table::get(old) {
        Entry::Empty => {}
        Entry::Conn(index) => {
            if let Some(held) = hold(old) {
                settle::settle_all_of(&held);
                held.add_fd();
                if table::set(new, Entry::Conn(index)).is_none() {
                    held.drop_fd();
                }
            }
        }
        Entry::Epoll(index) => {
            crate::interest::set::share_set(index);
            table::set(new, Entry::Epoll(index));
        }
        Entry::Foreign => {
            table::refuse(new, table::refusal(old).unwrap_or(fabric::Reason(0)));
        }
    }
}
