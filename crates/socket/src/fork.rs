//! fork(2). Owns: that the child's copies are counted, whichever thread ties what while it is under way.

use crate::conn::Conn;
use crate::{era, held, inherited, release, settle, watch};

fn conns() -> impl Iterator<Item = &'static Conn> + Clone {
    held::all().map(|(_, conn)| conn)
}

fn tied() -> impl Iterator<Item = &'static Conn> {
    inherited::tied(conns())
}

/// Before fork(): the child's copies are counted first, so that neither side ever takes itself for the last
/// by mistake. What another thread ties from here on carries the new era, and is counted by the child.
pub fn before_fork() {
    era::advance();
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
    inherited::take_over(conns(), true);
}

/// At a call that may be the first in a child that was made behind our back.
#[inline]
pub fn take_note() {
    held::take_note();
}
