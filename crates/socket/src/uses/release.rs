//! Letting go: who else holds a side, and what the last one gives back. Owns: the count of holders in the
//! slot; the flags that tell of a close are up before it is zero.

use crate::closing::Others;
use crate::conn::Conn;
use crate::end::End;
use crate::here::fabric;
use crate::phase::Phase;
use crate::{closing, flag, sleepers, watch, word};
use fabric::verdict::Verdict;
use os::net::Endpoint;
use shm::{ClosedBy, Side};
use sync::Ordering as Shared;

/// A connection's two addresses.
#[derive(Clone, Copy)]
pub struct Ends {
    pub(crate) local: Endpoint,
    pub(crate) peer: Endpoint,
}

/// Whoever was counted beside this process may have been killed, or never have taken what was passed to him.
/// If the kernel knows the socket as open no more, nobody holds the side. (Once both directions have ended it
/// lists none, held or not: then it is believed of who is known to be dead.)
pub(crate) fn end_if_last(conn: &Conn, ends: Ends) {
    /// Of net/tcp_states.h.
    const TIME_WAIT: u8 = 6;
    let (Some(end), Some(cookie)) = (End::still_of(conn), own_cookie(conn)) else { return };
    let is_gone = match os::diag::lookup(ends.local.unmapped(), ends.peer.unmapped()) {
        Ok(found) if found.cookie == cookie && found.state != TIME_WAIT => found.inode == 0,
        Err(errno) if errno != os::Errno::ENOENT => false,
        _ => end.mine().holders.load(Shared::Acquire) <= 1 || are_others_dead(conn, &end),
    };
    if is_gone && !conn.has(flag::LEFT) {
        let said = end.mine().closed.load(Shared::Relaxed);
        if closing::is_reset(end.is_drained(), conn.flags()) {
            end.mine().closed.fetch_or(closing::unread_unawares(said), Shared::Relaxed);
        }
        end.say_closed();
        end.wake_peer();
        end.mine().holders.store(1, Shared::Release);
        fabric().members().clear(end.mine());
        conn.unmark(flag::UNCOUNTED);
    }
}

/// Whether others hold the side beside this process: they are counted, or (between an exec and the first call
/// of the next program) named.
pub(crate) fn has_other_holders(conn: &Conn, end: &End) -> bool {
    conn.has(flag::UNCOUNTED) || has_known_holders(conn, end)
}

/// The same as far as anybody has said so.
pub(crate) fn has_known_holders(conn: &Conn, end: &End) -> bool {
    counted_beside(conn, end) > 0 || fabric().members().has_others(end.mine())
}

/// How many are counted beside this process, whose own share may be given up already: what is left is theirs.
fn counted_beside(conn: &Conn, end: &End) -> u32 {
    end.mine().holders.load(Shared::Acquire).saturating_sub(u32::from(!conn.has(flag::LEFT)))
}

/// What is known of them.
pub(crate) fn others(conn: &Conn, end: &End) -> Others {
    let members = fabric().members();
    match has_other_holders(conn, end) {
        false => Others::Nobody,
        true if members.has_others(end.mine()) && !members.are_others_dead(end.mine(), 0) => Others::GoOn,
        true => Others::Counted,
    }
}

/// Whether all who are counted beside this process were killed, or nobody is and those have ended who became
/// programs that never looked: the next close is the last. (A child that has just been forked is counted, and
/// not written down yet.)
pub(crate) fn are_others_dead(conn: &Conn, end: &End) -> bool {
    let others = counted_beside(conn, end);
    !conn.has(flag::UNCOUNTED) && fabric().members().are_others_dead(end.mine(), others)
}

/// Whether another process published the intent: it will see the answer, and may have use for
/// shared memory yet. (Counting holders would not do: children that were killed are counted for ever.)
pub(crate) fn is_copy(conn: &Conn) -> bool {
    let Some(row) = fabric().rows().row(conn.row()) else { return false };
    let publisher = row.owner_pid.load(Shared::Relaxed);
    // (Who became a daemon has left his intent to a child.)
    publisher != os::process::cached_pid()
        && os::process::life(publisher).is_none_or(|life| !life.is_zombie)
        && os::process::exists(publisher)
}

/// Gives this process's hold of the side back; `true` for the last. The flags are up before the count is
/// zero.
fn drop_holder(end: &End) -> bool {
    let holders = &end.mine().holders;
    let mut count = holders.load(Shared::Acquire);
    loop {
        let is_last = count <= 1 && !fabric().members().has_others(end.mine());
        if is_last {
            end.say_closed();
        }
        match holders.compare_exchange(count, count.saturating_sub(1), Shared::AcqRel, Shared::Acquire) {
            Ok(_) => {
                if is_last {
                    end.wake_peer();
                }
                return is_last;
            }
            Err(now) => count = now,
        }
    }
}

/// This process is about to lose its copy without a close(): whoever else has one goes on. Once per
/// connection, and never for the last, whose end TCP tells.
pub(crate) fn leave_to_others(conn: &Conn) {
    let Some(end) = End::still_of(conn) else { return };
    if !closing::has_hold_to_leave(conn.phase(), conn.flags()) {
        return;
    }
    let holders = &end.mine().holders;
    let left = holders.fetch_update(Shared::AcqRel, Shared::Acquire, |count| (count > 1).then(|| count - 1));
    if left.is_ok() {
        conn.mark(flag::LEFT);
        fabric().members().leave(end.mine());
        sleepers::count_registrations_again(conn, &end, -1);
    }
}

/// The last call on a socket that was closed under it is over: bytes that it has left unread reset the
/// connection, as at a close.
#[cold]
pub(crate) fn reset_if_unread(conn: &Conn, fd: i32) {
    let Some(end) = End::still_of(conn).filter(|_| conn.phase() == Phase::Smc) else { return };
    if closing::is_reset(end.is_drained(), conn.flags()) && !has_other_holders(conn, &end) {
        end.mine().closed.fetch_or(ClosedBy::ABORT, Shared::Relaxed);
        os::net::reset_on_close(fd);
    }
}

/// The last use in this process is over: gives slot, mapping and row back.
pub(crate) fn let_go(conn: &Conn) {
    // (One that was dissolved has had its verdict, and the server has a hold of its own.)
    let was = if conn.has(flag::DISSOLVED | flag::DEMOTED) { Phase::Smc } else { conn.phase() };
    // A fork child may have inherited a socket that another thread of the parent was just deciding: not ours
    // to end.
    if !was.is_tied() {
        return;
    }
    let Some(end) = End::of(conn) else { return };
    let is_last_here = conn.untie();
    if is_last_here {
        word::forget(end.view);
    }
    watch::unwatch(conn);
    watch::go_on(conn);
    if was == Phase::Intent {
        watch::intent_ended();
    }
    if conn.is_stale() {
        // Lent again since: nothing of the slot is this connection's, but for its place among those mapped
        // here.
        match closing::is_own_memory(end.side, conn.flags()) {
            true => fabric().forgo(end.view),
            false => fabric().detach(end.view),
        }
        return;
    }
    if closing::counts_at_last_use(was, conn.flags()) {
        fabric().totals().settle(end.view, end.side);
    }
    let is_last = closing::drops_hold(conn.flags()) && drop_holder(&end);
    if is_last && was == Phase::Intent {
        fabric().rows().decide(conn.row(), end.side, Verdict::Plain(fabric::Reason::PEERDECL));
    }
    if is_last && closing::takes_peers_hold_along(was, end.side) {
        end.theirs().holders.store(0, Shared::Release);
    }
    if is_last_here {
        fabric().members().leave(end.mine());
    }
    let cookie = conn.cookie();
    match closing::is_own_memory(end.side, conn.flags()) {
        true => fabric().give_back(conn.view_index(), end.view),
        false => fabric().detach(end.view),
    }
    if is_last {
        fabric().rows().close_side(conn.row(), cookie, end.side);
    }
}

/// One more process, or one fewer, has what this one has of the connection.
pub(crate) fn copied(conn: &Conn, by: i32) {
    if let Some(end) = End::still_of(conn) {
        copied_of(conn, &end, by);
    }
}

pub(crate) fn copied_of(conn: &Conn, end: &End, by: i32) {
    end.mine().holders.fetch_add(by as u32, Shared::AcqRel);
    sleepers::count_registrations_again(conn, end, by);
}

/// The kernel's cookie of our own socket.
pub(crate) fn own_cookie(conn: &Conn) -> Option<u64> {
    match conn.side() {
        Side::Client => Some(conn.cookie()),
        Side::Server => Some(conn.view()?.header().server_cookie.load(Shared::Relaxed)),
    }
}

/// The doorbell outlives the connection: its next one must not raise this one's signals.
pub(crate) fn end_signals(conn: &Conn) {
    if conn.has(flag::SIGNAL_DRIVEN)
        && let Some(end) = End::of(conn)
        && !sleepers::is_shared(conn, &end)
    {
        os::fd::stop_signals(end.my_bell());
    }
}
