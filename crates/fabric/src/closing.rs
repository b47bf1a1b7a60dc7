//! The SMC state of a side. Nobody writes it down while a connection closes, for TCP is the truth then: each
//! side only notes what it has closed. Owns: which events those notes are to the machine in [`proto::conn`],
//! whose table says what follows from them.

pub use proto::conn::State;
use proto::conn::{Conn, Event};
use shm::ClosedBy;

/// The state that a side has `written` down or, while that is ACTIVE or none, the one that follows from what
/// `own` side and `peer` have closed since (bits of [`ClosedBy`]).
pub fn state(written: u32, own: u32, peer: u32) -> State {
    match u8::try_from(written).ok().and_then(State::from_number) {
        None | Some(State::Active) => following(own, peer),
        Some(other) => other,
    }
}

/// Which of two half-closes came first is not known: our own is taken for the first.
fn following(own: u32, peer: u32) -> State {
    let mut conn = Conn::new();
    conn.handle(Event::Established);
    for event in done(own).into_iter().chain(heard(peer)).flatten() {
        conn.handle(event);
    }
    conn.state()
}

/// What a side has done. (shutdown(SHUT_RD) is known to that side alone and changes no state.)
fn done(own: u32) -> [Option<Event>; 2] {
    let (is_closed, is_aborted) = (own & ClosedBy::CLOSE != 0, own & ClosedBy::ABORT != 0);
    let end = match (is_closed, is_aborted) {
        (true, true) => Some(Event::CloseUnread),
        (true, false) => Some(Event::Close),
        // Broken off because of what the peer wrote; the program has yet to close.
        (false, true) => Some(Event::LinkLost),
        (false, false) => None,
    };
    [(own & ClosedBy::WRITE != 0).then_some(Event::ShutdownWrite), end]
}

/// What the other side has announced.
fn heard(peer: u32) -> [Option<Event>; 3] {
    let announced = [
        (ClosedBy::WRITE, Event::PeerDoneWriting),
        (ClosedBy::CLOSE, Event::PeerClosed),
        (ClosedBy::ABORT, Event::PeerAbort),
    ];
    announced.map(|(bit, event)| (peer & bit != 0).then_some(event))
}

#[cfg(test)]
mod tests {
    use super::State::{
        Active, AppCloseWait1, AppCloseWait2, AppFinCloseWait, Closed, PeerAbortWait, PeerCloseWait1,
        PeerCloseWait2, ProcessAbort,
    };
    use super::*;

    #[test]
    fn states_follow_from_what_both_sides_have_closed() {
        let (read, write, abort) = (ClosedBy::READ, ClosedBy::WRITE, ClosedBy::ABORT);
        let close = read | write | ClosedBy::CLOSE;
        let table = [
            (0, 0, Active),
            (read, read, Active),
            (write, 0, PeerCloseWait1),
            (read | write, 0, PeerCloseWait1),
            (close, 0, PeerCloseWait1),
            (close | abort, 0, PeerCloseWait1),
            (write, write, PeerCloseWait2),
            (close, write, PeerCloseWait2),
            (0, write, AppCloseWait1),
            (0, close, AppCloseWait1),
            (write, close, AppFinCloseWait),
            (abort, 0, PeerAbortWait),
            (0, abort, ProcessAbort),
            (0, close | abort, ProcessAbort),
            (write, abort, ProcessAbort),
            (write, close | abort, ProcessAbort),
            (close, abort, Closed),
            (close, close, Closed),
            (close | abort, close, Closed),
        ];
        for (own, peer, wanted) in table {
            assert_eq!(state(1, own, peer), wanted, "{own} {peer}");
            assert_eq!(state(0, own, peer), wanted, "{own} {peer}, nothing written down");
        }
    }

    #[test]
    fn what_is_written_down_counts_if_it_is_a_state() {
        assert_eq!(state(AppCloseWait2.number().into(), 0, 0), AppCloseWait2);
        assert_eq!(state(99, ClosedBy::WRITE, 0), PeerCloseWait1);
        assert_eq!(state(1 << 8 | 7, 0, 0), Active);
    }
}
