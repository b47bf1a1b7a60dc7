//! What becomes of a socket at a call. Owns: that every call finds it decided: an undecided one is decided
//! first, whichever call it is; one whose slot serves another connection by now is TCP's.

use crate::conn::Conn;
use crate::end::End;
use crate::held::{Held, hold, hold_in_place};
use crate::interest::registration::of_conn;
use crate::phase::{Event, Phase};
use crate::{answer, claim, flag, home, records, unseen, watch};
use fabric::Reason;

/// The connection behind `fd` if it is (or may become) shared memory; decides an undecided one.
#[inline]
pub(crate) fn in_use(fd: i32) -> Option<Held> {
    match settled(fd)? {
        Ok((held, _)) => Some(held),
        Err(held) => decide(held, fd, false),
    }
}

/// The same for a question how a connect() ended that did not block: from a set the program knows that it
/// has. (Others ask at once, and wait then, as Ruby does.)
pub(crate) fn in_use_after_connect(fd: i32) -> Option<Held> {
    match settled(fd)? {
        Ok((held, _)) => Some(held),
        Err(held) => {
            let is_after_a_wait = is_begun_unseen(&held) && unseen::is_in_a_set(&held, fd);
            decide(held, fd, is_after_a_wait)
        }
    }
}

/// The same with its end, which a connection has that moves bytes.
#[inline(always)]
pub(crate) fn tied(fd: i32) -> Option<(Held, End)> {
    match settled(fd)? {
        Ok(tied) => Some(tied),
        Err(held) => {
            let held = decide(held, fd, true)?;
            End::of(&held).map(|end| (held, end))
        }
    }
}

/// What most calls find: shared memory, and still its own.
#[inline(always)]
fn settled(fd: i32) -> Option<Result<(Held, End), Held>> {
    let held = hold_in_place(fd)?;
    match End::of(&held) {
        Some(end) if held.is(Phase::Smc) && end.serves(&held) => Some(Ok((held, end))),
        _ => Some(Err(held)),
    }
}

#[cold]
fn decide(held: Held, fd: i32, is_after_a_wait: bool) -> Option<Held> {
    let phase = match is_begun_unseen(&held) {
        true if is_after_a_wait => refuse_unseen(&held, fd),
        true => Phase::Intent,
        false => pay(&held, fd),
    };
    match course(phase, || held.is_stale()) {
        Course::Ours => Some(held),
        Course::Libc => None,
        Course::Forsaken => {
            forsake(&held);
            None
        }
    }
}

/// Whether a connect() that did not block has begun it, and no wait was seen that could tell how that ended.
pub(crate) fn is_begun_unseen(conn: &Conn) -> bool {
    conn.is(Phase::Intent)
        && conn.has(flag::NONBLOCKING)
        && !conn.has(flag::ESTABLISHED)
        && !unseen::is_waited_for(conn)
}

/// Does what is due; the phase from now on.
fn pay(conn: &Conn, fd: i32) -> Phase {
    let phase = conn.phase();
    match due(phase) {
        Due::Claim => claim::decide(conn, fd),
        Due::Glance => answer::glance(conn, fd),
        Due::Nothing => phase,
    }
}

/// What a call owes a socket before it goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Due {
    /// The decision: this is the first use.
    Claim,
    /// A glance at the answer.
    Glance,
    /// Nothing: it is decided, or not the calls' to decide.
    Nothing,
}

#[inline]
fn due(phase: Phase) -> Due {
    match phase {
        Phase::Accepted => Due::Claim,
        Phase::Intent => Due::Glance,
        _ => Due::Nothing,
    }
}

/// Where a call goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Course {
    /// To shared memory.
    Ours,
    /// To libc.
    Libc,
    /// To libc, from now on: the slot is another connection's.
    Forsaken,
}

#[inline]
fn course(phase: Phase, is_stale: impl FnOnce() -> bool) -> Course {
    match phase {
        Phase::Smc | Phase::Intent => match is_stale() {
            true => Course::Forsaken,
            false => Course::Ours,
        },
        _ => Course::Libc,
    }
}

/// The slot is another connection's by now. It was lent again because the kernel knew this one to be over: it
/// has the last word, and every call from here on.
#[cold]
fn forsake(conn: &Conn) {
    if let Some(_turn) = conn.interest.turn.take()
        && matches!(conn.phase(), Phase::Smc | Phase::Intent)
    {
        if conn.phase() == Phase::Intent {
            watch::intent_ended();
        }
        conn.transition(Event::Forsaken);
        records::convert(conn);
    }
}

/// Before something only TCP can do, or that needs the bare socket: an undecided socket stays on TCP for
/// good.
pub fn refuse(fd: i32) {
    let Some(conn) = hold(fd) else { return };
    if conn.phase() == Phase::Accepted {
        claim::refuse_accepted(&conn, fd);
    }
    if conn.phase() == Phase::Intent {
        answer::retract(&conn, fd, Reason::OPTUNSUPP);
    }
}

/// This program waits where nobody sees it (`unseen`): what is not decided stays on TCP, and what is shared
/// goes back there. Of what is left in the ring its sets are told by the doorbell.
#[cold]
pub(crate) fn refuse_unseen(conn: &Conn, fd: i32) -> Phase {
    match conn.phase() {
        Phase::Intent => _ = answer::retract(conn, fd, Reason::OPTUNSUPP),
        Phase::Fresh => {
            if let Some(_turn) = conn.interest.turn.take()
                && conn.is(Phase::Fresh)
            {
                conn.transition(Event::Refused);
                records::convert(conn);
            }
        }
        _ => {}
    }
    let Some(end) = End::of(conn).filter(|_| conn.is(Phase::Smc)) else { return conn.phase() };
    home::send_soon(conn, &end, Reason::OPTUNSUPP);
    if !home::notice(conn, &end)
        && end.incoming.has_ended_for_good()
        && let Some(_turn) = conn.interest.turn.take()
    {
        for (index, registration) in of_conn(conn).filter(|(_, registration)| registration.is_unseen()) {
            records::tell_rest(conn, index, registration);
        }
    }
    conn.phase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::enter::enter;
    use crate::table;

    #[test]
    fn a_call_decides_what_is_undecided_and_nothing_else() {
        assert_eq!((due(Phase::Accepted), due(Phase::Intent)), (Due::Claim, Due::Glance));
        let decided = [Phase::Free, Phase::Listening, Phase::Smc, Phase::Plain, Phase::Fresh];
        assert!(decided.iter().all(|phase| due(*phase) == Due::Nothing));
    }

    #[test]
    fn only_a_slot_that_is_still_ours_is_used_and_no_other_is_looked_at() {
        assert_eq!(
            [true, false].map(|is_stale| course(Phase::Smc, || is_stale)),
            [Course::Forsaken, Course::Ours]
        );
        assert_eq!(course(Phase::Intent, || false), Course::Ours);
        for phase in [Phase::Free, Phase::Listening, Phase::Accepted, Phase::Plain, Phase::Fresh] {
            assert_eq!(course(phase, || unreachable!("it has no slot")), Course::Libc);
        }
    }

    #[test]
    fn listeners_fresh_sockets_and_unknown_numbers_are_libcs() {
        const FD: i32 = 100_010;
        assert!(in_use(FD).is_none());
        for born in [Event::Listened, Event::Watched] {
            let held = enter(FD, born).unwrap();
            assert!(in_use(FD).is_none());
            assert!(held.drop_fd());
            table::clear(FD);
        }
        assert!(in_use(FD).is_none());
    }

    #[test]
    fn who_forsakes_a_connection_makes_it_libcs_for_good() {
        const FD: i32 = 100_011;
        let held = enter(FD, Event::Offered).unwrap();
        watch::intent_began();
        forsake(&held);
        assert_eq!(held.phase(), Phase::Plain);
        assert!(in_use(FD).is_none());
        held.drop_fd();
        table::clear(FD);
    }
}
