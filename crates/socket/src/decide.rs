//! What becomes of a socket at a call. Owns: that every call finds it decided: an undecided one is decided first, whichever call it
//! is; one whose slot serves another connection by now is TCP's.

use crate::conn::Conn;
use crate::held::{Held, hold};
use crate::phase::{Event, Phase};
use crate::{answer, claim, records, watch};
use fabric::Reason;

/// The connection behind `fd` if it is (or may become) shared memory; decides an undecided one.
pub(crate) fn in_use(fd: i32) -> Option<Held> {
    let held = hold(fd)?;
    let phase = match held.phase() {
        Phase::Accepted => claim::decide(&held, fd),
        Phase::Intent => answer::glance(&held, fd),
        phase => phase,
    };
    if !matches!(phase, Phase::Smc | Phase::Intent) {
        return None;
    }
    if held.is_stale() {
        forsake(&held);
        return None;
    }
    Some(held)
}

/// The slot is another connection's by now. It was lent again because the kernel knew this one to be over: it has the last
/// word, and every call from here on.
#[cold]
fn forsake(conn: &Conn) {
    if let Some(_turn) = conn.registrations_turn.take()
        && matches!(conn.phase(), Phase::Smc | Phase::Intent)
    {
        if conn.phase() == Phase::Intent {
            watch::intent_ended();
        }
        conn.transition(Event::Forsaken);
        records::convert(conn);
    }
}

/// Before something only TCP can do, or that needs the bare socket: an undecided socket stays on TCP for good.
pub fn refuse(fd: i32) {
    let Some(conn) = crate::held::hold(fd) else { return };
    if conn.phase() == Phase::Accepted {
        claim::refuse_accepted(&conn, fd);
    }
    if conn.phase() == Phase::Intent {
        answer::retract(&conn, fd, Reason::OPTUNSUPP);
    }
}
