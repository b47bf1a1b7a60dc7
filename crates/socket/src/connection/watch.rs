//! What waits are to look after besides what the kernel tells them. Owns: the counts of unanswered intents,
//! of watched and stalled connections, and of this process's own doings, whether anything was ever shared or
//! may be held back, and the pace of those looks: while they stand still, a wait costs nothing more for them.

use crate::conn::Conn;
use crate::flag;
use crate::here::Part as _;
use os::time::Cycles;
use sync::{AtomicU32, AtomicU64, Ordering};

/// How often what peers hold back is looked at.
const HELD_EVERY: Cycles = Cycles::from_ms(10);
/// And what is watched or stalled.
const WATCHED_EVERY: Cycles = Cycles::from_ms(3);

/// What the waits of a process look after.
pub(crate) struct Watches {
    /// Unanswered intents: only then waits are sliced.
    intents: AtomicU32,
    /// Connections that are watched (`flag::WATCHED`): only then waits are sliced for them.
    watched: AtomicU32,
    /// Connections that are stalled (`flag::STALLED`).
    stalled: AtomicU32,
    /// Counts what the process did itself that the kernel has to report.
    news: AtomicU32,
    /// Whether another process may ever have held a side of this one's: only then waits look after that.
    are_shared: AtomicU32,
    /// When it last looked after that.
    looked: AtomicU64,
    /// When watched and stalled connections are looked at next.
    watched_look: AtomicU64,
    /// Whether some peer may hold bytes back: only then waits are sliced for that.
    may_hold: AtomicU32,
    /// When that is looked at next.
    held_look: AtomicU64,
}

impl Watches {
    pub(crate) const fn new() -> Self {
        Watches {
            intents: AtomicU32::new(0),
            watched: AtomicU32::new(0),
            stalled: AtomicU32::new(0),
            news: AtomicU32::new(0),
            are_shared: AtomicU32::new(0),
            looked: AtomicU64::new(0),
            watched_look: AtomicU64::new(0),
            may_hold: AtomicU32::new(0),
            held_look: AtomicU64::new(0),
        }
    }
}

/// Bytes wait for a peer that has ended its stream: TCP would tell of its death, memory does not, so waits
/// look now and then.
pub(crate) fn watch(conn: &Conn) {
    if !conn.has(flag::WATCHED) && conn.mark_anew(flag::WATCHED) {
        Watches::here().watched.fetch_add(1, Ordering::AcqRel);
    }
}

/// It is not watched any more, or gone.
pub(crate) fn unwatch(conn: &Conn) {
    if conn.has(flag::WATCHED) && conn.unmark_anew(flag::WATCHED) {
        let _ = Watches::here()
            .watched
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| count.checked_sub(1));
    }
}

/// Somebody waits for room that the reader does not make. Whether that is news. (The caller holds it: what is
/// let go counts for ever.)
pub(crate) fn stall(conn: &Conn) -> bool {
    let is_news = !conn.has(flag::STALLED) && conn.mark_anew(flag::STALLED);
    if is_news {
        Watches::here().stalled.fetch_add(1, Ordering::AcqRel);
        intent_began();
    }
    is_news
}

/// Nobody does any more, or the reader moves, or room was found elsewhere.
pub(crate) fn go_on(conn: &Conn) {
    if conn.has(flag::STALLED) && conn.unmark_anew(flag::STALLED) {
        let _ = Watches::here()
            .stalled
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| count.checked_sub(1));
        intent_ended();
    }
}

/// A client's intent is unanswered: waits look at it now and then.
pub(crate) fn intent_began() {
    Watches::here().intents.fetch_add(1, Ordering::AcqRel);
}

/// An intent was answered or given up.
pub(crate) fn intent_ended() {
    let _ = Watches::here()
        .intents
        .fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| count.checked_sub(1));
}

/// Whether waits look now and then: an intent of this process is unanswered, or a connection stalled.
pub(crate) fn has_intents() -> bool {
    Watches::here().intents.load(Ordering::Acquire) != 0
}

/// Whether any connection of this process is watched.
pub(crate) fn has_watched() -> bool {
    Watches::here().watched.load(Ordering::Acquire) != 0
}

/// Whether any connection of this process is stalled.
pub(crate) fn has_stalled() -> bool {
    Watches::here().stalled.load(Ordering::Acquire) != 0
}

/// Another process may hold a side of this one's, from now on or already.
pub(crate) fn note_shared() {
    Watches::here().are_shared.store(1, Ordering::Release);
}

/// Whether that may be so of any.
pub(crate) fn may_be_shared() -> bool {
    Watches::here().are_shared.load(Ordering::Acquire) != 0
}

/// Whether it is time to look after what is shared: for one of those who ask, twice a second.
pub(crate) fn is_shared_look_due() -> bool {
    const EVERY: Cycles = Cycles::from_ms(500);
    let (now, last) = (Cycles::now(), &Watches::here().looked);
    let is_due = now.since(Cycles::load(last)) >= EVERY;
    if is_due {
        now.store(last);
    }
    is_due
}

/// A peer was seen to hold bytes back. That stands until a look finds none (`begin_held_look`).
pub(crate) fn note_held() {
    Watches::here().may_hold.store(1, Ordering::Release);
}

/// Whether any peer may hold bytes back.
#[inline]
pub(crate) fn has_held() -> bool {
    Watches::here().may_hold.load(Ordering::Acquire) != 0
}

/// Whether it is time to look after that, for one of those who ask: what stands is taken back first, and the
/// look notes anew what it finds.
pub(crate) fn begin_held_look() -> bool {
    let begins = has_held() && begin(&Watches::here().held_look, HELD_EVERY);
    if begins {
        Watches::here().may_hold.store(0, Ordering::SeqCst);
    }
    begins
}

/// Such a look began then: when the next is due.
pub(crate) fn end_held_look(begun: Cycles) {
    end(&Watches::here().held_look, begun, HELD_EVERY);
}

/// Whether it is time to look after what is watched or stalled, for one of those who ask.
pub(crate) fn begin_watched_look() -> bool {
    (has_watched() || has_stalled()) && begin(&Watches::here().watched_look, WATCHED_EVERY)
}

/// Such a look began then: when the next is due.
pub(crate) fn end_watched_look(begun: Cycles) {
    end(&Watches::here().watched_look, begun, WATCHED_EVERY);
}

fn begin(next: &AtomicU64, every: Cycles) -> bool {
    let (now, due) = (Cycles::now(), Cycles::load(next));
    let then = now.plus(every).word();
    !due.is_after(now) && next.compare_exchange(due.word(), then, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// Eight times as long as the look took passes before the next, at least.
fn end(next: &AtomicU64, begun: Cycles, every: Cycles) {
    let now = Cycles::now();
    let pause = now.since(begun).times(8).clamp(every, Cycles::from_ms(500));
    now.plus(pause).store(next);
}

/// This process did something to a socket that the kernel will report.
pub(crate) fn note_news() {
    Watches::here().news.fetch_add(1, Ordering::AcqRel);
}

/// How many such doings there have been.
pub(crate) fn news() -> u32 {
    Watches::here().news.load(Ordering::Acquire)
}
