//! What a child inherits: copies of its parent's sockets. Owns: that they are counted before the child uses
//! one. Whoever forks by a call that we see counts them before the child exists; a child that was made behind
//! our back (the system call instruction) finds a word that no child inherits empty, and counts for itself.

use crate::conn::Conn;
use crate::end::End;
use crate::here::{Part as _, fabric};
use crate::{callers, era, flag, kept, release, watch};
use fabric::door::Directory as _;
use fabric::turn::Turn;
use sync::{AtomicBool, Ordering};

pub(crate) struct Inheritance {
    /// Whose turn it is to count: the child may have several threads by then.
    turn: Turn,
    /// Whether a process that forked may have had other threads.
    has_threads: AtomicBool,
}

impl Inheritance {
    pub(crate) const fn new() -> Self {
        Inheritance { turn: Turn::new(), has_threads: AtomicBool::new(false) }
    }
}

/// Before a fork.
pub(crate) fn note_threads() {
    Inheritance::here().has_threads.store(os::process::may_have_threads(), Ordering::Relaxed);
}

/// In the child: whether another thread may have opened something while it was made.
pub(crate) fn may_have_latecomers() -> bool {
    Inheritance::here().has_threads.load(Ordering::Relaxed)
}

/// Whether this process's memory is a copy of its parent's, and nobody has counted what came with it.
#[inline(always)]
pub(crate) fn is_due() -> bool {
    fabric().tier().is_a_copy()
}

/// Those among `all` that have a copy to count.
pub(crate) fn tied(all: impl Iterator<Item = &'static Conn>) -> impl Iterator<Item = &'static Conn> {
    all.filter(|conn| conn.fds() > 0 && conn.phase().is_tied())
}

/// In the child: takes over `all` that its parent had. What was tied before the child was made is counted
/// already if that `was_seen`; what another thread tied meanwhile never is.
pub(crate) fn take_over(all: impl Iterator<Item = &'static Conn> + Clone, was_seen: bool) {
    let era_of_parent = era::now();
    os::process::refresh_pid();
    let Some(_turn) = Inheritance::here().turn.take() else { return };
    if !was_seen && !is_due() {
        return;
    }
    for conn in tied(all.clone()).filter(|conn| !was_seen || conn.tied_era() == era_of_parent) {
        release::copied(conn, 1);
    }
    for conn in tied(all.clone()) {
        // (Its share was counted, whatever its parent has given up of its own.)
        conn.unmark(flag::LEFT);
        if let Some(end) = End::still_of(conn) {
            fabric().members().join(end.mine());
        }
    }
    watch::note_shared();
    callers::forget();
    kept::forget();
    for conn in all {
        conn.forget_other_threads();
    }
    // The last of all: from here on nothing is due.
    fabric().after_fork();
}
