//! exec(2). Owns: what goes on into the next program, what ends here, and that a failed exec changes nothing.

use crate::conn::Conn;
use crate::end::End;
use crate::epoll;
use crate::held::connections;
use crate::here::fabric;
use crate::lend::{before_spawn, goes_on, leave_a_copy, take_copy_back};
use crate::phase::Phase;
use crate::release::{copied_of, is_copy, leave_to_others, own_cookie};
use crate::table::{self, Entry};
use crate::{answer, flag, handover, settle};
use os::net;

/// In a child that borrows this process's memory (vfork), before it execs: the same, and whichever socket it
/// has made its standard input or output, though the number is not in the table, which is its parent's.
pub fn before_borrower_execs() {
    for (_, held) in connections() {
        held.unmark(flag::LENT_NOW);
    }
    before_spawn();
    connections().for_each(|(_, held)| handover::silence(&held));
    // (In a table of descriptors of its own. Its parent may end before the next program looks.)
    for (fd, held) in connections() {
        if goes_on(fd, &held) {
            handover::keep_memory_over_exec(&held, true);
        }
    }
    for (number, cookie) in low_ones_that_go_on(|_| true) {
        for (fd, held) in connections().filter(|(_, held)| own_cookie(held) == Some(cookie)) {
            leave_a_copy(&held);
            if number <= 2 && net::cookie(fd) == Ok(cookie) {
                handover::lend_word(&held, fd);
            }
            handover::keep_memory_over_exec(&held, true);
        }
    }
    // (Whoever has closed the number may have it higher up.)
    if connections().any(|(fd, _)| os::fd::is_closed(fd)) {
        let _ = os::file::each_own_descriptor(lend_if_high);
    }
}

/// A number above those that are looked at at any rate.
fn lend_if_high(number: i32) {
    if number < UNSEEN || !os::fd::goes_on_over_exec(number) || !net::is_tcp(number) {
        return;
    }
    let Ok(cookie) = net::cookie(number) else { return };
    for (_, held) in connections().filter(|(_, held)| own_cookie(held) == Some(cookie)) {
        leave_a_copy(&held);
        handover::keep_memory_over_exec(&held, true);
    }
}

/// So many numbers are looked at that the table does not tell of: what a program hands on has low ones.
const UNSEEN: i32 = 64;

/// Low numbers of TCP sockets that are not closed on exec, and the sockets' cookies.
fn low_ones_that_go_on(is_wanted: impl Fn(i32) -> bool) -> impl Iterator<Item = (i32, u64)> {
    let goes_on = move |fd: &i32| is_wanted(*fd) && os::fd::goes_on_over_exec(*fd) && net::is_tcp(*fd);
    (0..UNSEEN).filter(goes_on).filter_map(|fd| Some((fd, net::cookie(fd).ok()?)))
}

/// After such an exec that failed: nobody got the copies that were counted for it.
pub fn after_borrower_failed_to_exec() {
    for (_, held) in connections() {
        take_copy_back(&held);
        handover::take_word_back(&held);
    }
}

/// Such a child ends. (Of an exec list that failed nobody has told.)
pub fn borrower_leaves() {
    connections().for_each(|(_, held)| _ = handover::take_word_back(&held));
}

/// Before exec: a connection of which a descriptor goes on into the next program must be found there,
/// whichever number it has then, or goes home, with a word about what is left; one whose descriptors all end
/// here is left to others. Intents are given up; memory that is ours stays open. (What the server's side
/// needs is the client's to keep.)
/// Whether somebody [tells](after_failed_exec) of it if it fails.
pub fn before_exec(is_failure_told: bool) {
    settle::settle_everything();
    // (Of an exec before this one whose failure nobody told us.)
    connections().for_each(|(_, held)| _ = handover::take_word_back(&held));
    mark_what_goes_on();
    for (fd, held) in connections() {
        if held.phase() == Phase::Intent && !is_copy(&held) {
            answer::retract(&held, fd, fabric::Reason::PEERDECL);
        }
        let is_unfindable = held.has(flag::GOES_ON) && handover::is_unfindable(&held);
        if is_unfindable {
            handover::leave_word(&held, fd, is_failure_told);
        }
        if held.has(flag::GOES_ON) {
            epoll::hand_on(&held);
        }
        if !held.has(flag::GOES_ON) || is_unfindable {
            leave_to_others(&held);
            // The next program is the same process by name, but has no part in this connection.
            if let Some(end) = End::still_of(&held) {
                fabric().members().leave(end.mine());
            }
        } else {
            give_up_count(&held);
            handover::keep_memory_over_exec(&held, true);
        }
    }
}

/// The next program counts itself when it finds the connection. Until then its name in the roster, which is
/// this process's, keeps the slot. Once per connection, which may have several descriptors.
fn give_up_count(conn: &Conn) {
    if !conn.has(flag::LEFT)
        && let Some(end) = End::still_of(conn)
    {
        conn.mark(flag::LEFT);
        copied_of(conn, &end, -1);
    }
}

/// After an exec that failed: this process goes on with its connections as if it had never been tried.
pub fn after_failed_exec() {
    for (_, held) in connections() {
        if held.has(flag::GOES_ON) {
            handover::keep_memory_over_exec(&held, false);
            handover::take_word_back(&held);
        }
        let Some(end) = End::still_of(&held) else { continue };
        // (`epoll::hand_on` may have let it go on.)
        let _ = os::fd::set_cloexec(end.my_bell(), true);
        fabric().members().join(end.mine());
        if held.has(flag::LEFT) {
            held.unmark(flag::LEFT);
            copied_of(&held, &end, 1);
        }
    }
}

/// Marks the connections of which a descriptor is not closed on exec, be it a duplicate that was made behind
/// our back.
fn mark_what_goes_on() {
    for (_, held) in connections() {
        held.unmark(flag::GOES_ON);
    }
    for (fd, held) in connections() {
        if !os::fd::is_cloexec(fd) {
            held.mark(flag::GOES_ON);
        }
    }
    for (_, cookie) in low_ones_that_go_on(|fd| table::get(fd) == Entry::Empty) {
        for (_, held) in connections().filter(|(_, held)| own_cookie(held) == Some(cookie)) {
            held.mark(flag::GOES_ON);
        }
    }
}
