//! The rounds that waits make now and then, over all connections of the process. Owns: whom nobody else would
//! look after: peers that may have been killed, readers that rest, bytes that are held back.

use crate::conn::Conn;
use crate::end::End;
use crate::held::hold;
use crate::table::{self, Entry};
use crate::{detour, doorbell, flag, push, ready, records, sleepers, watch};
use os::time::Cycles;

/// Whether a sleep is to look now and then after what other processes hold as well: one of them may have been
/// killed after it drained a doorbell, and before it asked anew for everybody.
pub(super) struct Sharers(bool);

impl Sharers {
    pub(super) fn new() -> Self {
        Sharers(watch::may_be_shared())
    }

    /// Longest single sleep in nanoseconds; `None` for no bound.
    pub(super) fn slice_ns(&self) -> Option<u64> {
        let ms = match slice_ms() {
            -1 if self.0 => crate::wait::SHARED_SLICE_MS,
            ms => ms,
        };
        u64::try_from(ms).ok().map(|ms| ms * 1_000_000)
    }

    /// After such a sleep. (What is not shared by now hardly will be while the call lasts.)
    pub(super) fn look_after(&mut self) {
        if self.0 && watch::is_shared_look_due() {
            self.0 = look_after_shared();
        }
    }
}

/// Longest single sleep of a wait, in milliseconds; -1 for no bound.
pub(crate) fn slice_ms() -> i32 {
    match (watch::has_intents(), watch::has_held(), watch::has_watched()) {
        (false, false, false) => -1,
        (false, false, true) => crate::wait::HALF_CLOSED_SLICE_MS,
        (false, true, _) => crate::wait::HELD_SLICE_MS,
        (true, _, _) => crate::wait::SLICE_MS,
    }
}

/// Looks whether the peers live that are watched, and the readers move that are waited for, in whatever set
/// (or set of sets) somebody waits for them.
pub(crate) fn look_after_watched() {
    if watch::has_held() {
        look_after_held();
    }
    if !watch::begin_watched_look() {
        return;
    }
    let begun = Cycles::now();
    for (fd, entry) in table::entries() {
        let Entry::Conn(_) = entry else { continue };
        let is_looked_after = flag::WATCHED | flag::STALLED;
        let Some(conn) = hold(fd).filter(|conn| conn.has(is_looked_after)) else { continue };
        let Some(end) = End::still_of(&conn) else { continue };
        if conn.has(flag::STALLED) {
            look_after_stalled(&conn, &end);
        }
        if conn.has(flag::WATCHED) {
            if end.outgoing.used() == Ok(0) {
                watch::unwatch(&conn);
            }
            ready::ask_for_half_closed_peer(&conn, &end, fd);
        }
    }
    watch::end_watched_look(begun);
}

/// A writer waits for room. Where there is some by now, whoever waits is to look: the reader has rung, unless
/// it looked in the moment in which the writer asked.
fn look_after_stalled(conn: &Conn, end: &End) {
    if detour::look_after(conn, end) {
        records::tell_outside(conn);
    } else if ready::may_write(conn, end) {
        doorbell::kick(conn, end);
    }
}

/// Lets out what peers have held back for long enough, and tells whoever waits for it, in whatever way.
#[cold]
pub(super) fn look_after_held() {
    if !watch::begin_held_look() {
        return;
    }
    let begun = Cycles::now();
    for (fd, entry) in table::entries() {
        let Entry::Conn(_) = entry else { continue };
        let Some(conn) = hold(fd) else { continue };
        let Some(end) = End::still_of(&conn).filter(|end| end.incoming.is_holding()) else { continue };
        if !push::let_out_if_due(&conn, &end) {
            push::note_held(&end);
        }
    }
    watch::end_held_look(begun);
}

/// Asks anew for whoever sleeps here by what other processes hold as well, in whatever set. Whether there is
/// any such connection.
pub(super) fn look_after_shared() -> bool {
    let mut are_any = false;
    for (fd, entry) in table::entries() {
        let Entry::Conn(_) = entry else { continue };
        let Some(conn) = hold(fd) else { continue };
        let Some(end) = End::still_of(&conn).filter(|end| sleepers::is_shared(&conn, end)) else { continue };
        are_any = true;
        doorbell::rearm_drained(&conn, &end);
    }
    are_any
}
