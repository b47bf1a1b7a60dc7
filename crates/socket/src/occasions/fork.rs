//! fork(2). Owns: that the child's copies are counted, whichever thread ties what while it is under way.

use crate::conn::Conn;
use crate::table::{self, Entry};
use crate::{era, handover, held, inherited, records, release, settle, unseen, watch};

fn conns() -> impl Iterator<Item = &'static Conn> + Clone {
    held::all().map(|(_, conn)| conn)
}

fn tied() -> impl Iterator<Item = &'static Conn> {
    inherited::tied(conns())
}

/// Before fork(): the child's copies are counted first, so that neither side ever takes itself for the last
/// by mistake. What another thread ties from here on carries the new era, and is counted by the child.
pub fn before_fork() {
    // (Of an exec that failed, and nobody told of it: what is in a child's memory, too, comes back twice.)
    tied().for_each(|conn| _ = handover::take_word_back(conn));
    unseen::take_up_all();
    era::advance();
    inherited::note_threads();
    watch::note_shared();
    settle::settle_everything();
    let era = era::now();
    for conn in tied().filter(|conn| conn.tied_era() != era) {
        release::copied(conn, 1);
    }
}

/// In the parent after fork(), successful or not: what was known to be unshared while the fork was under way
/// may be shared.
pub fn after_fork_in_parent() {
    era::advance();
}

/// In the parent after a fork() that failed, and after [`after_fork_in_parent`].
pub fn after_failed_fork() {
    let now = era::now();
    let is_counted = |conn: &&Conn| conn.tied_era() != now && conn.tied_era() != now - 1;
    for conn in tied().filter(is_counted) {
        release::copied(conn, -1);
    }
}

/// In the child after fork().
pub fn after_fork_in_child() {
    os::fd::after_fork();
    inherited::take_over(conns(), true);
    if inherited::may_have_latecomers() && !os::confined::is_confined() {
        held::let_go_of_latecomers();
        let_go_of_sets();
    }
}

/// The same of epoll sets, and of what is none of ours.
fn let_go_of_sets() {
    for (fd, entry) in table::entries().filter(|(fd, _)| os::fd::is_closed(*fd)) {
        let is_gone = table::replace(fd, entry, Entry::Empty) == Some(true);
        if let (true, Entry::Epoll(index)) = (is_gone, entry) {
            records::close_set(index);
        }
    }
}

/// At a call that may be the first in a child that was made behind our back.
#[inline]
pub fn take_note() {
    held::take_note();
}
