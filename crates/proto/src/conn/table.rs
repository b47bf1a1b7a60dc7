//! The table of closing: (state, event, guard) to (state, effect). Rows in the order of RFC 7609 section 4.8
//! and `net/smc/smc_close.c`; the first row that matches decides. Every pair has a row that always matches,
//! which a test checks.

use super::State::{
    Active, AppCloseWait1, AppCloseWait2, AppFinCloseWait, Closed, Init, Listen, PeerAbortWait,
    PeerCloseWait1, PeerCloseWait2, PeerFinCloseWait, ProcessAbort,
};
use super::{Effect, Event, Facts, State};

/// When a row applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// Always.
    Always,
    /// The peer has closed.
    PeerClosed,
    /// We have announced our close or abort.
    CloseSent,
    /// We have announced it, and the application has closed (not only shut down both ways).
    Released,
}

impl Guard {
    const fn holds(self, facts: Facts) -> bool {
        match self {
            Self::Always => true,
            Self::PeerClosed => facts.peer_closed,
            Self::CloseSent => facts.close_sent,
            Self::Released => facts.is_released && facts.close_sent,
        }
    }
}

/// One row. `to` is `None` if the state stays.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// States the row is for.
    pub from: &'static [State],
    /// Events the row is for.
    pub on: &'static [Event],
    /// When it applies.
    pub guard: Guard,
    /// The next state.
    pub to: Option<State>,
    /// What to do.
    pub effect: Effect,
}

macro_rules! rows {
    ($([$($from:ident)*] [$($on:ident)*] $guard:ident => $to:tt $effect:ident;)*) => {
        /// Every row.
        pub const ROWS: &[Row] = &[$(Row {
            from: &[$($from),*],
            on: &[$(Event::$on),*],
            guard: Guard::$guard,
            to: rows!(@to $to),
            effect: Effect::$effect,
        },)*];
    };
    (@to stay) => { None };
    (@to $to:ident) => { Some($to) };
}

rows! {
    // Opening.
    [Init]                          [Listen]            Always => Listen Nothing;
    [Listen]                        [Listen]            Always => stay Nothing;
    [Init]                          [Established]       Always => Active Nothing;

    // shutdown().
    [Active PeerCloseWait1 PeerCloseWait2 AppCloseWait1 AppCloseWait2 AppFinCloseWait]
                                    [ShutdownRead]      Always => stay Nothing;
    [Active]                        [ShutdownWrite]     Always => PeerCloseWait1 SendDoneWriting;
    [AppCloseWait1]                 [ShutdownWrite]     Always => AppCloseWait2 SendDoneWriting;
    [PeerCloseWait1 PeerCloseWait2 AppCloseWait2 AppFinCloseWait]
                                    [ShutdownWrite]     Always => stay Nothing;

    // close(), and shutdown(SHUT_RDWR), which closes as far as the peer is concerned.
    [Active]                        [ShutdownBoth Close] Always => PeerCloseWait1 SendClosed;
    [Active]                        [CloseUnread]       Always => PeerCloseWait1 SendAbort;
    [AppCloseWait1 AppCloseWait2]   [ShutdownBoth Close] PeerClosed => Closed SendClosed;
    [AppCloseWait1 AppCloseWait2]   [CloseUnread]       PeerClosed => Closed SendAbort;
    [AppCloseWait1 AppCloseWait2]   [ShutdownBoth Close] Always => PeerFinCloseWait SendClosed;
    [AppCloseWait1 AppCloseWait2]   [CloseUnread]       Always => PeerFinCloseWait SendAbort;
    [PeerCloseWait1 PeerCloseWait2] [ShutdownBoth Close CloseUnread] CloseSent => stay Nothing;
    [PeerCloseWait1 PeerCloseWait2] [ShutdownBoth Close] Always => stay SendClosed;
    [PeerCloseWait1 PeerCloseWait2] [CloseUnread]       Always => stay SendAbort;
    [AppFinCloseWait]               [ShutdownBoth Close CloseUnread] CloseSent => Closed Nothing;
    [AppFinCloseWait]               [ShutdownBoth Close] Always => Closed SendClosed;
    [AppFinCloseWait]               [CloseUnread]       Always => Closed SendAbort;
    [PeerFinCloseWait]              [Close CloseUnread] Always => stay Nothing;
    [ProcessAbort]                  [Close CloseUnread] CloseSent => Closed Nothing;
    [ProcessAbort]                  [Close CloseUnread] Always => Closed SendAbort;
    [PeerAbortWait Init Listen Closed] [Close CloseUnread] Always => Closed Nothing;

    // The peer.
    [Init Active]                   [PeerDoneWriting PeerClosed] Always => AppCloseWait1 Nothing;
    [PeerCloseWait1]                [PeerDoneWriting]   Always => PeerCloseWait2 Nothing;
    [PeerCloseWait1 PeerCloseWait2] [PeerClosed]        Released => Closed Nothing;
    [PeerCloseWait1 PeerCloseWait2] [PeerClosed]        Always => AppFinCloseWait Nothing;
    [PeerFinCloseWait]              [PeerClosed]        Always => Closed Nothing;
    [PeerCloseWait2 AppCloseWait1 AppCloseWait2 AppFinCloseWait PeerFinCloseWait]
                                    [PeerDoneWriting]   Always => stay Nothing;
    [AppCloseWait1 AppCloseWait2 AppFinCloseWait] [PeerClosed] Always => stay Nothing;
    [Init Active AppCloseWait1 AppFinCloseWait] [PeerAbort] Always => ProcessAbort Reset;
    [PeerCloseWait1 PeerCloseWait2] [PeerAbort]         CloseSent => Closed Reset;
    [PeerCloseWait1 PeerCloseWait2] [PeerAbort]         Always => ProcessAbort Reset;
    [AppCloseWait2 PeerFinCloseWait] [PeerAbort]        Always => Closed Reset;
    [PeerAbortWait]                 [PeerAbort]         Always => Closed Nothing;
    [ProcessAbort]                  [PeerAbort]         Always => stay Nothing;

    // Nobody is left on the other side. After an orderly close that is expected, and what it left can still
    // be read.
    [AppCloseWait1 AppCloseWait2]   [LinkLost]          PeerClosed => stay Nothing;
    [PeerCloseWait1 PeerCloseWait2 PeerFinCloseWait] [LinkLost] Released => Closed Nothing;
    [Active PeerCloseWait1 PeerCloseWait2 AppCloseWait1 AppCloseWait2 PeerFinCloseWait]
                                    [LinkLost]          Always => PeerAbortWait Abort;
    [AppFinCloseWait ProcessAbort PeerAbortWait] [LinkLost] Always => stay Nothing;

    // What is left: calls on sockets that are not connected, and news about connections that are not there.
    [Active PeerCloseWait1 PeerCloseWait2 AppCloseWait1 AppCloseWait2 AppFinCloseWait PeerFinCloseWait
     PeerAbortWait ProcessAbort Closed] [Listen Established] Always => stay Refuse;
    [Listen]                        [Established]       Always => stay Refuse;
    [Init Listen Closed PeerFinCloseWait PeerAbortWait ProcessAbort]
                                    [ShutdownRead ShutdownWrite ShutdownBoth] Always => stay Refuse;
    [Closed PeerAbortWait ProcessAbort] [PeerDoneWriting PeerClosed] Always => stay Nothing;
    [Closed]                        [PeerAbort LinkLost] Always => stay Nothing;
    [Init]                          [LinkLost]          Always => stay Nothing;
    [Listen]                        [PeerDoneWriting PeerClosed PeerAbort LinkLost] Always => stay Nothing;
}

/// The decision; a pair without a row would be refused, but a test shows that there is none.
pub(super) fn next(state: State, event: Event, facts: Facts) -> (State, Effect) {
    let matches = |row: &&Row| row.from.contains(&state) && row.on.contains(&event) && row.guard.holds(facts);
    let row = ROWS.iter().find(matches);
    row.map_or((state, Effect::Refuse), |row| (row.to.unwrap_or(state), row.effect))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_has_exactly_one_row_that_always_matches_and_it_is_the_last() {
        for (state, event) in State::ALL.iter().flat_map(|s| Event::ALL.iter().map(move |e| (s, e))) {
            let rows = || ROWS.iter().filter(|row| row.from.contains(state) && row.on.contains(event));
            let always = rows().filter(|row| row.guard == Guard::Always).count();
            assert_eq!(always, 1, "{state:?} on {event:?}");
            assert_eq!(
                rows().next_back().map(|row| row.guard),
                Some(Guard::Always),
                "{state:?} on {event:?}"
            );
        }
    }
}
