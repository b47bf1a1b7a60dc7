//! Our direction goes to TCP for good, by what a program calls: urgent data, and writes that nobody sees.
//! Owns: that nothing is written there before the direction is. (Both directions: `home`.)

use crate::conn::Conn;
use crate::decide::in_use;
use crate::end::{End, ON_TCP};
use crate::phase::Phase;
use crate::{Outcome, answer, home};
use os::Errno;

/// Somebody is about to write to the descriptor behind our back: our direction goes to TCP.
pub fn demote(fd: i32) {
    if let Some(conn) = in_use(fd)
        && let Some(end) = End::of(&conn)
    {
        let _ = demote_for(&conn, &end, fd);
    }
}

/// Moves our direction to TCP for good: the marker in the ring, then bytes on TCP.
pub(super) fn demote_for(conn: &Conn, end: &End, fd: i32) -> Outcome {
    match conn.phase() {
        Phase::Intent if answer::retract(conn, fd, fabric::Reason::OPTUNSUPP) == Phase::Plain => {
            return Outcome::Forward;
        }
        Phase::Smc | Phase::Intent => {}
        _ => return Outcome::Forward,
    }
    let mut turn = match end.send_turn(conn, true) {
        Ok(turn) => turn,
        Err(ON_TCP) => return Outcome::Forward,
        Err(_) => return Outcome::Fail(Errno::EAGAIN),
    };
    if !end.outgoing.has_ended_for_good() {
        turn.producer(end.outgoing, &conn.stream.tx_cache).go_for_good();
        end.ring_peer(&end.outgoing.words().data_wait.0);
        drop(turn);
        home::tell_own(conn, end);
    }
    Outcome::Forward
}
