//! Where a socket is in its life, and what leads from one phase to the next. Owns: the table.
//! `Conn::transition` alone changes a phase, by what this says; whoever calls it has made sure of the rest
//! (the turn, the verdict).

use Event::{Accepted, Closed, Demoted, Forsaken, Listened, Offered, Refused, Shared, Watched, Withdrawn};
use Phase::{Fresh, Intent, Listening, Plain, Smc};

/// Where a socket is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Phase {
    /// Not in use.
    Free = 0,
    /// listen() was called.
    Listening = 1,
    /// The server's end, not used yet: the decision falls at its first use.
    Accepted = 2,
    /// The client's end, offered and not answered: writes go to TCP, and what comes there is the server's
    /// refusal.
    Intent = 3,
    /// Shared memory.
    Smc = 4,
    /// TCP, for good.
    Plain = 5,
    /// In an epoll set before it is connected: not decided yet whether it is ours.
    Fresh = 6,
}

impl Phase {
    #[inline]
    pub(crate) fn from_raw(raw: u8) -> Self {
        match raw {
            1 => Phase::Listening,
            2 => Phase::Accepted,
            3 => Phase::Intent,
            4 => Phase::Smc,
            5 => Phase::Plain,
            6 => Phase::Fresh,
            _ => Phase::Free,
        }
    }

    /// Whether the socket may be on a slot, or have been until the verdict.
    #[inline]
    pub(crate) fn is_tied(self) -> bool {
        matches!(self, Smc | Intent | Plain)
    }
}

/// What happens to a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// listen() announced it.
    Listened,
    /// accept() returned it, or it came from another process: nothing is decided.
    Accepted,
    /// An epoll set takes it in before it is connected.
    Watched,
    /// Memory was offered for it, by connect() here or in the process it came from.
    Offered,
    /// The verdict is SMC.
    Shared,
    /// The verdict is PLAIN, or it never comes to one.
    Refused,
    /// Both directions are on TCP for good, and nothing is left to read in the ring.
    Demoted,
    /// The slot is another connection's by now.
    Forsaken,
    /// A listener is announced no more.
    Withdrawn,
    /// Nobody refers to it any more.
    Closed,
}

/// The phase that follows; `None` for what cannot happen in `phase`, or changes nothing.
#[inline]
pub(crate) const fn next(phase: Phase, event: Event) -> Option<Phase> {
    match (phase, event) {
        (Phase::Free, Listened) => Some(Listening),
        (Phase::Free, Accepted) => Some(Phase::Accepted),
        (Phase::Free, Watched) => Some(Fresh),
        (Phase::Free | Fresh | Phase::Accepted, Offered) => Some(Intent),
        (Phase::Accepted | Intent, Shared) => Some(Smc),
        // (A fresh socket that listens, or is connected without an offer, is none of ours either.)
        (Phase::Accepted | Intent | Fresh, Refused) => Some(Plain),
        (Smc, Demoted) | (Smc | Intent, Forsaken) => Some(Plain),
        (Listening, Withdrawn) => Some(Plain),
        (Listening | Phase::Accepted | Intent | Smc | Plain | Fresh, Closed) => Some(Phase::Free),
        _ => None,
    }
}

/// All of them.
#[cfg(test)]
pub(crate) const PHASES: [Phase; 7] = [Phase::Free, Listening, Phase::Accepted, Intent, Smc, Plain, Fresh];

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    const EVENTS: [Event; 10] =
        [Listened, Event::Accepted, Watched, Offered, Shared, Refused, Demoted, Forsaken, Withdrawn, Closed];

    fn grid() -> String {
        let mut text = String::from("phase, event: the next phase (what is not here changes nothing)\n");
        for phase in PHASES {
            writeln!(text, "\n{phase:?} ({})", phase as u8).unwrap();
            for (event, to) in EVENTS.iter().filter_map(|event| Some((event, next(phase, *event)?))) {
                writeln!(text, "  {:<10} -> {to:?}", format!("{event:?}")).unwrap();
            }
        }
        text
    }

    #[test]
    fn the_table_is_the_reviewed_one() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/phase.txt");
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            std::fs::write(&path, grid()).unwrap();
        }
        let (now, reviewed) = (grid(), std::fs::read_to_string(&path).unwrap());
        let differing = now.lines().zip(reviewed.lines()).find(|(a, b)| a != b);
        assert!(
            now == reviewed,
            "first change: {differing:?}; if meant, run with UPDATE_SNAPSHOTS=1 and review the diff"
        );
    }

    #[test]
    fn numbers_lead_back_to_their_phase() {
        assert!(PHASES.iter().all(|phase| Phase::from_raw(*phase as u8) == *phase));
        assert_eq!(Phase::from_raw(200), Phase::Free);
    }

    #[test]
    fn tcp_is_for_good_and_every_life_ends_free() {
        assert!(EVENTS.iter().all(|event| matches!(next(Plain, *event), None | Some(Phase::Free))));
        let used = |phase: &&Phase| **phase != Phase::Free;
        assert!(PHASES.iter().filter(used).all(|phase| next(*phase, Closed) == Some(Phase::Free)));
        assert_eq!(next(Phase::Free, Closed), None);
    }

    #[test]
    fn no_way_leads_to_shared_memory_but_a_verdict() {
        let to_smc = PHASES.iter().flat_map(|phase| EVENTS.iter().map(move |event| (*phase, *event)));
        let ways: Vec<_> = to_smc.filter(|(phase, event)| next(*phase, *event) == Some(Smc)).collect();
        assert_eq!(ways, [(Phase::Accepted, Shared), (Intent, Shared)]);
    }
}
