//! fork(2). Owns: that the child's copies are counted, whichever thread ties what while it is under way.

use crate::conn::Conn;
use crate::end::End;
use crate::held::all;
use crate::here::fabric;
use crate::{era, release, settle};

fn tied() -> impl Iterator<Item = &'static Conn> {
    all().map(|(_, conn)| conn).filter(|conn| conn.fds() > 0 && conn.phase().is_tied())
}

/// Before fork(): the child's copies are counted first, so that neither side ever takes itself for the last
/// by mistake. What another thread ties from here on carries the new era, and is counted by the child.
pub fn before_fork() {
    era::advance();
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
    let era_of_parent = era::now();
    os::process::refresh_pid();
    for conn in tied().filter(|conn| conn.tied_era() == era_of_parent) {
        release::copied(conn, 1);
    }
    for end in tied().filter_map(End::still_of) {
        fabric().members().join(end.mine());
    }
    fabric().after_fork();
    for (_, conn) in all() {
        conn.forget_other_threads();
    }
}
