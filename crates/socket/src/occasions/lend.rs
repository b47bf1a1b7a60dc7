//! Copies that may leave this process: descriptors that are passed, or that a program which starts gets.
//! Owns: that such a copy is counted before anybody can have it.

use crate::conn::Conn;
use crate::end::End;
use crate::held::{connections, hold};
use crate::phase::Phase;
use crate::release::own_cookie;
use crate::table::{self, Entry};
use crate::{decide, far, flag, handover, home, ready, settle, watch};
use fabric::Reason;
use os::net;
use sync::Ordering;
use sync::Ordering as Shared;

/// Before `fd` is passed to another process: it will not be this one's alone any more.
pub fn before_passing(fd: i32) {
    if let Entry::Epoll(_) = table::get(fd) {
        return crate::epoll::note_passed(fd);
    }
    decide::refuse(fd);
    // (What sets tell of it goes on when it is closed here.)
    crate::epoll::release_fresh(fd);
    if let Some(held) = hold(fd) {
        held.unmark(flag::LENT_NOW);
        take_home(&held, fd);
        if held.phase() == Phase::Smc {
            // (It may come back to this process: as one more number of the same connection.)
            let inode = os::fd::identity(fd).map_or(0, |(_, inode)| inode);
            held.role.inode.store(inode, Ordering::Relaxed);
        }
    }
    before_lending(fd);
}

/// The kernel did not pass it: nobody got the copy that was counted.
pub fn after_failed_passing(fd: i32) {
    if let Some(held) = hold(fd) {
        take_copy_back(&held);
    }
}

/// Nobody got the copy that was counted last.
pub(crate) fn take_copy_back(conn: &Conn) {
    if conn.has(flag::LENT_NOW)
        && let Some(end) = End::of(conn)
    {
        conn.unmark(flag::LENT | flag::LENT_NOW);
        end.mine().holders.fetch_sub(1, Shared::AcqRel);
    }
}

/// Before a program that starts gets a duplicate of `fd`.
pub fn before_lending(fd: i32) {
    if let Some(held) = hold(fd) {
        handover::take_home_if_cut_off(&held);
        leave_a_copy(&held);
        settle::settle_all_of(&held);
    }
}

/// Somebody else may have a copy from now on. It is counted at once: should we close ours before he has
/// looked at his, the connection goes on. (One too many, if nobody takes it, is found when the slot is wanted
/// again: the kernel is asked then.)
pub(crate) fn leave_a_copy(conn: &Conn) {
    conn.note_shared();
    watch::note_shared();
    if far::is_far(conn) {
        return;
    }
    if matches!(conn.phase(), Phase::Smc | Phase::Intent)
        && !conn.has(flag::LENT)
        && let Some(end) = End::still_of(conn)
    {
        conn.mark(flag::LENT | flag::LENT_NOW);
        end.mine().holders.fetch_add(1, Shared::AcqRel);
    }
}

/// The memory of what was lent goes along with a program that starts (`on`), or not any more.
pub fn keep_for_spawned(on: bool) {
    for (_, held) in connections() {
        if held.has(flag::LENT) {
            handover::keep_memory_over_exec(&held, on);
        }
    }
}

/// Before posix_spawn, system and the like: the new program gets the sockets that are not closed on exec.
pub fn before_spawn() {
    if !crate::borrower::is_one() {
        connections().for_each(|(_, held)| _ = handover::take_word_back(&held));
    }
    for (fd, held) in connections() {
        if goes_on(fd, &held) {
            leave_a_copy(&held);
        }
    }
}

/// Whether a program that is started gets the connection under this number. (Who borrows the table may have
/// closed it for himself, or have something else there. One too many counts for less than one too few.)
pub(crate) fn goes_on(fd: i32, conn: &Conn) -> bool {
    let is_another = || {
        let known = own_cookie(conn).filter(|cookie| *cookie != 0);
        net::cookie(fd).is_ok_and(|cookie| known.is_some_and(|known| cookie != known))
    };
    os::fd::goes_on_over_exec(fd) && !(crate::borrower::is_one() && is_another())
}

/// The socket is about to be passed to a program that cannot find the connection's memory, and is to find it
/// on TCP. Bytes that lie in the ring unread go nowhere else: the connection is reset rather than that a
/// program reads a stream with a gap.
#[cold]
fn take_home(conn: &Conn, fd: i32) {
    if !far::is_far(conn) {
        return;
    }
    let Some(end) = End::still_of(conn).filter(|_| conn.phase() == Phase::Smc) else { return };
    home::send(conn, &end, Reason::OPTUNSUPP);
    if !end.is_drained() {
        ready::break_off(conn, &end, fd);
    }
}
