//! The states and what the tools print for them.

/// State of an SMC socket. Names as in RFC 7609 and the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Data may flow both ways.
    Active = 1,
    /// Not connected yet.
    Init = 2,
    /// The end.
    Closed = 7,
    /// listen() was called.
    Listen = 10,
    /// We are done writing; the peer is not.
    PeerCloseWait1 = 20,
    /// Both are done writing; the peer has not closed.
    PeerCloseWait2 = 21,
    /// The peer is done writing; we are not.
    AppCloseWait1 = 22,
    /// The peer was done writing first, now we are too.
    AppCloseWait2 = 23,
    /// The peer has closed after our shutdown; our application has not.
    AppFinCloseWait = 24,
    /// We have closed after the peer's shutdown; the peer has not.
    PeerFinCloseWait = 25,
    /// We have aborted; the peer has not answered.
    PeerAbortWait = 26,
    /// The peer has aborted; our application has not closed.
    ProcessAbort = 27,
}

impl State {
    /// Every state, by number.
    pub const ALL: [Self; 12] = [
        Self::Active,
        Self::Init,
        Self::Closed,
        Self::Listen,
        Self::PeerCloseWait1,
        Self::PeerCloseWait2,
        Self::AppCloseWait1,
        Self::AppCloseWait2,
        Self::AppFinCloseWait,
        Self::PeerFinCloseWait,
        Self::PeerAbortWait,
        Self::ProcessAbort,
    ];

    /// The number in sock_diag and in shared rows.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The state of a number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.number() == number)
    }

    /// What smcss prints (the trailing 1 of state 24 is the tool's).
    pub const fn smcss_name(self) -> &'static str {
        match self {
            Self::Active => "ACTIVE",
            Self::Init => "INIT",
            Self::Closed => "CLOSED",
            Self::Listen => "LISTEN",
            Self::PeerCloseWait1 => "PEERCLOSEWAIT1",
            Self::PeerCloseWait2 => "PEERCLOSEWAIT2",
            Self::AppCloseWait1 => "APPCLOSEWAIT1",
            Self::AppCloseWait2 => "APPCLOSEWAIT2",
            Self::AppFinCloseWait => "APPFINCLOSEWAIT1",
            Self::PeerFinCloseWait => "PEERFINCLOSEWAIT",
            Self::PeerAbortWait => "PEERABORTWAIT",
            Self::ProcessAbort => "PROCESSABORT",
        }
    }

    /// Whether the application may still send (otherwise EPIPE, or ENOTCONN before the connection exists).
    pub const fn may_send(self) -> bool {
        matches!(self, Self::Active | Self::AppCloseWait1)
    }

    /// Whether the peer may still send.
    pub const fn may_receive(self) -> bool {
        matches!(self, Self::Active | Self::PeerCloseWait1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lead_back_to_their_state() {
        for number in 0..=255 {
            assert!(State::from_number(number).is_none_or(|state| state.number() == number));
        }
        assert!(State::ALL.iter().all(|state| State::from_number(state.number()) == Some(*state)));
        assert_eq!(State::AppFinCloseWait.smcss_name(), "APPFINCLOSEWAIT1");
    }
}
