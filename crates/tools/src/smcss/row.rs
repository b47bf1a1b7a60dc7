//! A socket as smcss shows it, wherever it was read. Owns: how a state that nobody has a name for is
//! shown. (Those that have one are `proto::conn`'s.)

use fabric::observe;
use std::net::IpAddr;
use wire::Reason;

/// Number of a connection state. A kernel may have more of them than we know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State(pub(crate) u8);

impl State {
    pub(crate) const ACTIVE: State = State::of(observe::State::Active);
    pub(crate) const INIT: State = State::of(observe::State::Init);
    pub(crate) const CLOSED: State = State::of(observe::State::Closed);
    pub(crate) const LISTEN: State = State::of(observe::State::Listen);

    pub(crate) const fn of(state: observe::State) -> State {
        State(state.number())
    }

    /// As in the first column.
    pub(crate) fn name(self) -> String {
        let named = observe::State::from_number(self.0).map(observe::State::smcss_name);
        named.map_or_else(|| format!("{:#x}?", self.0), str::to_string)
    }
}

/// Address and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) ip: IpAddr,
    pub(crate) port: u16,
}

/// How the bytes travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// TCP, with our reason code and the peer's (0 for none).
    Tcp {
        reason: u32,
        peer: u32,
    },
    Smcd,
    Smcr,
}

/// Position in a ring: times wrapped, offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(crate) wrap: u16,
    pub(crate) count: u32,
}

/// Cursors, buffers and flags; in the order of the kernel's `smc_diag_conninfo`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Details {
    pub(crate) token: u32,
    pub(crate) sndbuf: u32,
    pub(crate) rcvbuf: u32,
    pub(crate) peerbuf: u32,
    /// What the peer told: how far it has written, how far it has read.
    pub(crate) rx_prod: Cursor,
    pub(crate) rx_cons: Cursor,
    /// What we told: how far we have written, how far we have read.
    pub(crate) tx_prod: Cursor,
    pub(crate) tx_cons: Cursor,
    /// Producer and connection state flags of CDC.
    pub(crate) rx_flags: [u8; 2],
    pub(crate) tx_flags: [u8; 2],
    pub(crate) tx_prep: Cursor,
    pub(crate) tx_sent: Cursor,
    pub(crate) tx_fin: Cursor,
}

/// The ISM side of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dmb {
    pub(crate) gid: u64,
    pub(crate) token: u64,
    pub(crate) peer_gid: u64,
    pub(crate) peer_token: u64,
    pub(crate) link_id: u32,
}

/// The RDMA side of a connection; only kernels have one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) is_server: bool,
    pub(crate) device: String,
    pub(crate) port: u8,
    pub(crate) link_id: u8,
    pub(crate) gid: String,
    pub(crate) peer_gid: String,
}

/// Who uses a socket; only known for Isthmus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) pid: u32,
    pub(crate) name: String,
}

/// The text of a code; 0 has one of our own.
pub(crate) fn reason_text(reason: u32) -> &'static str {
    if reason == 0 { "Reason not known" } else { Reason(reason).text() }
}

impl Row {
    /// Whether it is a listener of an enabled program that no client finds.
    pub(crate) fn is_unannounced(&self) -> bool {
        self.state == State::LISTEN && !self.is_kernels && matches!(self.mode, Mode::Tcp { .. })
    }

    /// Why it is TCP, at this end and behind a slash at the other, for rows that show a code.
    pub(crate) fn reason_words(&self) -> Option<String> {
        let shows_mode = self.state != State::INIT && self.state != State::CLOSED;
        match self.mode {
            _ if !shows_mode => None,
            Mode::Tcp { reason, peer: 0 } => Some(reason_text(reason).to_string()),
            Mode::Tcp { reason, peer } => Some(format!("{} / {}", reason_text(reason), reason_text(peer))),
            Mode::Smcd | Mode::Smcr => None,
        }
    }
}

/// One socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// Whether the kernel's SMC has it, and not Isthmus.
    pub(crate) is_kernels: bool,
    pub(crate) state: State,
    pub(crate) uid: u32,
    pub(crate) inode: u64,
    pub(crate) local: Address,
    pub(crate) peer: Address,
    pub(crate) interface: u32,
    pub(crate) mode: Mode,
    /// Bit 0: receiving is shut down, bit 1: sending.
    pub(crate) shutdown: u8,
    pub(crate) details: Option<Details>,
    pub(crate) dmb: Option<Dmb>,
    pub(crate) link: Option<Link>,
    pub(crate) program: Option<Program>,
}
