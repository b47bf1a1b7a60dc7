//! Connection states and closing (RFC 7609 section 4.8, `net/smc/smc_close.c`). One place changes state:
//! `Conn::handle`, by the table in `table.rs`. Owns: every (state, event) is decided; CLOSED is final; what
//! was announced to the peer is announced once. Does not own the real shutdown() and close() of the TCP
//! socket, nor waiting for unsent data.
//!
//! Differs from Linux on purpose: shutdown(SHUT_RDWR) never aborts because of unread bytes (TCP does not
//! either), and a lost link stays visible as PEERABORTWAIT until the application closes (RFC 7609; Linux
//! passes through that state).

mod state;
mod table;

pub use state::State;
pub use table::{Guard, ROWS, Row};

/// What happens to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// listen().
    Listen,
    /// The verdict is SMC.
    Established,
    /// shutdown(SHUT_RD).
    ShutdownRead,
    /// shutdown(SHUT_WR).
    ShutdownWrite,
    /// shutdown(SHUT_RDWR).
    ShutdownBoth,
    /// close() with nothing left to read.
    Close,
    /// close() while received bytes are unread.
    CloseUnread,
    /// The peer's "done writing" flag.
    PeerDoneWriting,
    /// The peer's "connection closed" flag.
    PeerClosed,
    /// The peer's "abort" flag.
    PeerAbort,
    /// The link group or the TCP connection died.
    LinkLost,
}

impl Event {
    /// Every event.
    pub const ALL: [Self; 11] = [
        Self::Listen,
        Self::Established,
        Self::ShutdownRead,
        Self::ShutdownWrite,
        Self::ShutdownBoth,
        Self::Close,
        Self::CloseUnread,
        Self::PeerDoneWriting,
        Self::PeerClosed,
        Self::PeerAbort,
        Self::LinkLost,
    ];
}

/// What the caller has to do after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    Nothing,
    /// Set our "done writing" flag.
    SendDoneWriting,
    /// Set our "connection closed" flag.
    SendClosed,
    /// Set our "abort" flag.
    SendAbort,
    /// The peer aborted: set our "abort" flag as the echo, reads and writes give ECONNRESET.
    Reset,
    /// The link is lost: set our "abort" flag; writes, and reads once all complete bytes are out, give an
    /// error (Linux SMC says ECONNABORTED, programs made for TCP expect ECONNRESET).
    Abort,
    /// The application's call is refused with ENOTCONN.
    Refuse,
}

/// What else the decision depends on. Never cleared once set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The peer has sent "connection closed".
    pub peer_closed: bool,
    /// We have sent "connection closed" or "abort".
    pub close_sent: bool,
    /// The application has called close().
    pub is_released: bool,
}

/// One connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conn {
    state: State,
    facts: Facts,
}

impl Default for Conn {
    fn default() -> Self {
        Self::new()
    }
}

impl Conn {
    /// A socket in state INIT.
    pub const fn new() -> Self {
        let facts = Facts { peer_closed: false, close_sent: false, is_released: false };
        Self { state: State::Init, facts }
    }

    /// The state now.
    pub const fn state(&self) -> State {
        self.state
    }

    /// The facts now.
    pub const fn facts(&self) -> Facts {
        self.facts
    }

    /// Takes one event; the only place that changes the state.
    pub fn handle(&mut self, event: Event) -> Effect {
        match event {
            Event::Close | Event::CloseUnread => self.facts.is_released = true,
            Event::PeerClosed => self.facts.peer_closed = true,
            _ => {}
        }
        let (state, effect) = table::next(self.state, event, self.facts);
        self.state = state;
        self.facts.close_sent |=
            matches!(effect, Effect::SendClosed | Effect::SendAbort | Effect::Reset | Effect::Abort);
        effect
    }
}
