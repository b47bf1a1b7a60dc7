//! What a close, an exit and the last use mean, decided from what is known: flags, what both sides have
//! closed, and who else holds the socket. Owns: those rules. It touches nothing; `close`, `exit` and
//! `release` do what it says.

use crate::flag::{self, Flags};
use crate::phase::Phase;
use shm::{ClosedBy, Side};

/// What shutdown(`how`) closes: SHUT_RD is 0, SHUT_WR 1, SHUT_RDWR 2.
pub(crate) fn by_shutdown(how: i32) -> u32 {
    match how {
        0 => ClosedBy::READ,
        1 => ClosedBy::WRITE,
        _ => ClosedBy::READ | ClosedBy::WRITE,
    }
}

/// What is known of those who hold the socket beside a process that goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Others {
    /// There are none.
    Nobody,
    /// Some are counted; nobody who lives is written down.
    Counted,
    /// The socket goes on: with a process that is written down and lives, by a number of ours, or for all
    /// that is known before the kernel is asked.
    GoOn,
}

/// What is noted when this process goes though others may hold the socket, or when it ends: should it be the
/// last close all the same, it is an orderly one, unless bytes are unread. Nothing where the socket goes on:
/// what comes after that may be left unread by a process which says nothing, and TCP would reset it.
pub(crate) fn noted_on_leaving(others: Others, is_drained: bool) -> u32 {
    if is_drained && others != Others::GoOn { ClosedBy::EXIT } else { 0 }
}

/// Whether the last close is a reset: TCP answers a close with unread bytes by RST, but not twice.
pub(crate) fn is_reset(is_drained: bool, flags: Flags) -> bool {
    !is_drained && !flags.has_any(flag::RESET)
}

/// What the last close notes with bytes unread where nobody knew it to be the last, and so the kernel did not
/// reset the connection. (Behind our own end of the stream a reset tells no reader anything.)
pub(crate) fn unread_unawares(said: u32) -> u32 {
    if said & ClosedBy::WRITE == 0 { ClosedBy::UNREAD } else { 0 }
}

/// A close that nobody else's holds up.
#[derive(Clone, Copy)]
pub(crate) struct Last {
    /// Which end.
    pub(crate) side: Side,
    /// libc closes this descriptor next, and no other before it.
    pub(crate) is_alone: bool,
    /// It resets the connection.
    pub(crate) is_reset: bool,
    /// What this side had closed before.
    pub(crate) said: u32,
}

/// Whether a close lets the server's FIN be first, of which this client has `heard` (bits of [`ClosedBy`])
/// but which is not there.
pub(crate) fn lets_server_end_first(last: Last, heard: u32) -> bool {
    let may_wait =
        last.is_alone && !last.is_reset && last.said & ClosedBy::WRITE == 0 && last.side == Side::Client;
    may_wait && heard & ClosedBy::CLOSE != 0
}

/// What the end of a process says of a shared connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AtExit {
    /// The kernel is to reset it.
    pub(crate) resets: bool,
    /// What is noted (bits of [`ClosedBy`]).
    pub(crate) noted: u32,
    /// A peer that naps looks.
    pub(crate) wakes: bool,
    /// What it moved is added to the totals.
    pub(crate) counts: bool,
}

/// The destructor and _exit both come here; each connection is counted once.
pub(crate) fn at_exit(others: Others, is_drained: bool, flags: Flags) -> AtExit {
    let is_last = others == Others::Nobody;
    AtExit {
        resets: is_last && !is_drained,
        noted: noted_on_leaving(others, is_drained),
        wakes: is_last,
        counts: is_last && !flags.has_any(flag::COUNTED),
    }
}

/// Whether a process that loses its copy without a close gives its hold back: once per connection.
pub(crate) fn has_hold_to_leave(phase: Phase, flags: Flags) -> bool {
    phase.is_tied() && !flags.has_any(flag::COUNTED | flag::LEFT)
}

/// Whether the last use adds what this side moved to the totals.
pub(crate) fn counts_at_last_use(was: Phase, flags: Flags) -> bool {
    was == Phase::Smc && !flags.has_any(flag::COUNTED | flag::LEFT)
}

/// Whether the last use gives a hold back. (What nobody has counted keeps the slot until the kernel knows the
/// socket no more.)
pub(crate) fn drops_hold(flags: Flags) -> bool {
    !flags.has_any(flag::LEFT | flag::UNCOUNTED)
}

/// Whether the hold that was kept for the server goes with the last one of `side`: no server ever took it, or
/// none will.
pub(crate) fn takes_peers_hold_along(was: Phase, side: Side) -> bool {
    was == Phase::Intent || (was == Phase::Plain && side == Side::Client)
}

/// Whether the slot was this process's to offer, and not another's that it has attached.
pub(crate) fn is_own_memory(side: Side, flags: Flags) -> bool {
    side == Side::Client && !flags.has_any(flag::ATTACHED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phase::PHASES;

    #[test]
    fn a_shutdown_closes_what_it_names() {
        assert_eq!(
            [0, 1, 2].map(by_shutdown),
            [ClosedBy::READ, ClosedBy::WRITE, ClosedBy::READ | ClosedBy::WRITE]
        );
    }

    #[test]
    fn unread_bytes_reset_a_connection_once() {
        assert!(is_reset(false, Flags::NONE) && !is_reset(true, Flags::NONE));
        assert!(!is_reset(false, flag::RESET) && is_reset(false, flag::TCP_ENDED | flag::RESET_TOLD));
    }

    #[test]
    fn unread_bytes_of_a_last_close_that_nobody_knew_for_one_are_noted_unless_the_stream_had_ended() {
        assert_eq!([0, ClosedBy::READ].map(unread_unawares), [ClosedBy::UNREAD; 2]);
        assert_eq!([ClosedBy::WRITE, ClosedBy::WRITE | ClosedBy::READ].map(unread_unawares), [0; 2]);
    }

    #[test]
    fn only_a_client_that_closes_in_order_after_its_server_lets_it_end_first() {
        let last = Last { side: Side::Client, is_alone: true, is_reset: false, said: ClosedBy::READ };
        assert!(lets_server_end_first(last, ClosedBy::CLOSE | ClosedBy::WRITE));
        assert!(!lets_server_end_first(last, ClosedBy::WRITE), "a server that still reads waits for us");
        let others = [
            Last { side: Side::Server, ..last },
            Last { is_alone: false, ..last },
            Last { is_reset: true, ..last },
            Last { said: ClosedBy::WRITE, ..last },
        ];
        assert!(others.iter().all(|last| !lets_server_end_first(*last, ClosedBy::CLOSE)));
    }

    #[test]
    fn an_exit_resets_or_is_orderly_and_counts_once() {
        let orderly = AtExit { resets: false, noted: ClosedBy::EXIT, wakes: true, counts: true };
        assert_eq!(at_exit(Others::Nobody, true, Flags::NONE), orderly);
        assert_eq!(at_exit(Others::Nobody, true, flag::COUNTED), AtExit { counts: false, ..orderly });
        assert_eq!(at_exit(Others::Nobody, false, Flags::NONE), AtExit { resets: true, noted: 0, ..orderly });
        let left = AtExit { resets: false, noted: ClosedBy::EXIT, wakes: false, counts: false };
        assert_eq!(at_exit(Others::Counted, true, Flags::NONE), left, "should it be the last all the same");
        let silent = AtExit { noted: 0, ..left };
        assert_eq!(at_exit(Others::Counted, false, Flags::NONE), silent);
        assert_eq!([true, false].map(|drained| at_exit(Others::GoOn, drained, Flags::NONE)), [silent; 2]);
    }

    #[test]
    fn a_hold_is_given_back_once_and_only_by_who_has_one() {
        let tied = PHASES.map(|phase| has_hold_to_leave(phase, Flags::NONE));
        assert_eq!(tied, [false, false, false, true, true, true, false]);
        assert!(PHASES.iter().all(|phase| !has_hold_to_leave(*phase, flag::LEFT)));
        assert!(drops_hold(flag::COUNTED) && !drops_hold(flag::LEFT) && !drops_hold(flag::UNCOUNTED));
        assert!(
            counts_at_last_use(Phase::Smc, flag::UNCOUNTED) && !counts_at_last_use(Phase::Plain, Flags::NONE)
        );
        assert!(
            !counts_at_last_use(Phase::Smc, flag::COUNTED) && !counts_at_last_use(Phase::Smc, flag::LEFT)
        );
    }

    #[test]
    fn the_servers_hold_goes_along_unless_a_server_has_taken_it() {
        assert!(
            takes_peers_hold_along(Phase::Intent, Side::Client)
                && takes_peers_hold_along(Phase::Plain, Side::Client)
        );
        assert!(
            !takes_peers_hold_along(Phase::Smc, Side::Client)
                && !takes_peers_hold_along(Phase::Plain, Side::Server)
        );
        assert!(is_own_memory(Side::Client, Flags::NONE));
        assert!(!is_own_memory(Side::Client, flag::ATTACHED) && !is_own_memory(Side::Server, Flags::NONE));
    }
}
