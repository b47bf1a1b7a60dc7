//! What waits are to look after besides what the kernel tells them. Owns: the counts of unanswered intents,
//! of watched connections, and of this process's own doings: while they stand still, a wait costs nothing
//! more for them.

use crate::conn::Conn;
use crate::flag;
use core::sync::atomic::{AtomicU32, Ordering};

/// Unanswered intents of this process: only then waits are sliced.
static INTENTS: AtomicU32 = AtomicU32::new(0);

/// Connections of this process that are watched (`flag::WATCHED`): only then waits are sliced for them.
static WATCHED: AtomicU32 = AtomicU32::new(0);

/// Counts what this process did itself that the kernel has to report.
static NEWS: AtomicU32 = AtomicU32::new(0);

/// Bytes wait for a peer that has ended its stream: TCP would tell of its death, memory does not, so waits
/// look now and then.
pub(crate) fn watch(conn: &Conn) {
    if !conn.has(flag::WATCHED) {
        conn.mark(flag::WATCHED);
        WATCHED.fetch_add(1, Ordering::AcqRel);
    }
}

/// It is not watched any more, or gone.
pub(crate) fn unwatch(conn: &Conn) {
    if conn.has(flag::WATCHED) {
        conn.unmark(flag::WATCHED);
        let _ = WATCHED.fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| count.checked_sub(1));
    }
}

/// A client's intent is unanswered: waits look at it now and then.
pub(crate) fn intent_began() {
    INTENTS.fetch_add(1, Ordering::AcqRel);
}

/// An intent was answered or given up.
pub(crate) fn intent_ended() {
    let _ = INTENTS.fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| count.checked_sub(1));
}

/// Whether any intent of this process is unanswered.
pub(crate) fn has_intents() -> bool {
    INTENTS.load(Ordering::Acquire) != 0
}

/// Whether any connection of this process is watched.
pub(crate) fn has_watched() -> bool {
    WATCHED.load(Ordering::Acquire) != 0
}

/// This process did something to a socket that the kernel will report.
pub(crate) fn note_news() {
    NEWS.fetch_add(1, Ordering::AcqRel);
}

/// How many such doings there have been.
pub(crate) fn news() -> u32 {
    NEWS.load(Ordering::Acquire)
}
