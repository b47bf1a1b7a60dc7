//! One end: its machines, its application, and what it has seen of the peer.

use proto::conn::{Conn, Effect, Event, State};
use proto::handshake::{Client, Server};
use proto::verdict::{Role, Verdict};
use testkit::flow::{PeerCursor, PeerMisbehaved, readable, resume, writable};
use wire::Cursor;
use wire::cdc::{CursorWord, SmcD, StateFlags};

use super::Rng;

/// The byte at a position of a stream.
fn pattern(position: u64) -> u8 {
    (position ^ position >> 8).wrapping_mul(0x9D) as u8
}

/// One end of the connection.
pub(crate) struct End {
    pub(crate) side: Role,
    pub(crate) client: Client,
    pub(crate) server: Server,
    pub(crate) conn: Conn,
    pub(crate) verdict: Option<Verdict>,
    pub(crate) is_established: bool,
    pub(crate) is_dead: bool,
    pub(crate) is_polite: bool,
    pub(crate) lies: bool,
    pub(crate) trusts_bytes: bool,
    /// Bytes the application wants to send, has sent, has told the peer about, has received.
    pub(crate) total: u64,
    pub(crate) sent: u64,
    pub(crate) published: u64,
    pub(crate) received: u64,
    pub(crate) was_reset: bool,
    pub(crate) caught_a_lie: bool,
    size: u32,
    produced: u64,
    consumed: u64,
    peer_produced: PeerCursor,
    peer_consumed: PeerCursor,
    flags: u8,
    peer_flags: u8,
    has_shut_down: bool,
    pub(crate) has_news: bool,
}

impl End {
    /// An end whose streams start at these positions (ours, the peer's).
    pub(crate) fn new(side: Role, size: u32, starts: [u64; 2], total: u64) -> Self {
        Self {
            side,
            client: Client::new(),
            server: Server::new(),
            conn: Conn::new(),
            verdict: None,
            is_established: false,
            is_dead: false,
            is_polite: true,
            lies: false,
            trusts_bytes: true,
            total,
            sent: 0,
            published: 0,
            received: 0,
            was_reset: false,
            caught_a_lie: false,
            size,
            produced: starts[0],
            consumed: starts[1],
            peer_produced: PeerCursor::at(starts[1]),
            peer_consumed: PeerCursor::at(starts[0]),
            flags: 0,
            peer_flags: 0,
            has_shut_down: false,
            has_news: false,
        }
    }

    pub(crate) fn handle(&mut self, event: Event) {
        let flag = match self.conn.handle(event) {
            Effect::SendDoneWriting => StateFlags::DONE_WRITING,
            Effect::SendClosed => StateFlags::CLOSED,
            Effect::SendAbort | Effect::Abort => StateFlags::ABORT,
            Effect::Reset => {
                self.was_reset = true;
                StateFlags::ABORT
            }
            Effect::Nothing | Effect::Refuse => 0,
        };
        self.has_news |= flag != 0;
        self.flags |= flag;
    }

    /// What we tell the peer now.
    pub(crate) fn cdc(&mut self, rng: &mut Rng) -> [u8; SmcD::LEN] {
        let at = |position| Cursor::at_position(position, self.size).unwrap();
        let producer = CursorWord { cursor: at(self.produced), ..CursorWord::default() };
        let state = StateFlags(self.flags);
        let consumer = CursorWord { cursor: at(self.consumed), state, ..CursorWord::default() };
        let mut bytes = [0; SmcD::LEN];
        SmcD { producer, consumer, ..SmcD::default() }.emit(&mut bytes).unwrap();
        if self.lies && rng.one_in(8) {
            bytes[rng.within(1, 31) as usize] ^= rng.within(1, 255) as u8;
        }
        self.published = self.sent;
        self.has_news = false;
        bytes
    }

    /// What the peer tells us: cursors first, then what became of it.
    pub(crate) fn handle_cdc(&mut self, bytes: &[u8]) {
        let message = SmcD::parse(bytes).unwrap();
        if self.believe(&message).is_err() {
            self.caught_a_lie = true;
            return self.handle(Event::LinkLost);
        }
        let new = message.consumer.state.0 & !self.peer_flags;
        self.peer_flags |= new;
        let events = [
            (StateFlags::DONE_WRITING, Event::PeerDoneWriting),
            (StateFlags::CLOSED, Event::PeerClosed),
            (StateFlags::ABORT, Event::PeerAbort),
        ];
        for (_, event) in events.iter().filter(|(flag, _)| new & flag != 0) {
            self.handle(*event);
        }
    }

    fn believe(&mut self, message: &SmcD) -> Result<(), PeerMisbehaved> {
        let produced = resume(self.peer_produced.position(), message.producer.cursor, self.size)?;
        let consumed = resume(self.peer_consumed.position(), message.consumer.cursor, self.size)?;
        self.peer_produced.advance(produced, self.consumed + u64::from(self.size))?;
        self.peer_consumed.advance(consumed, self.produced)?;
        Ok(())
    }

    fn unread(&self) -> u32 {
        readable(self.consumed, self.peer_produced.position(), self.size).expect("a believed cursor")
    }

    /// The application's turn: read some, write some, move towards the end.
    pub(crate) fn act(&mut self, rings: [&mut [u8]; 2], rng: &mut Rng) {
        if self.conn.facts().is_released {
            return;
        }
        let [own_ring, peer_ring] = rings;
        self.read(peer_ring, rng);
        self.write(own_ring, rng);
        self.finish();
    }

    fn read(&mut self, ring: &[u8], rng: &mut Rng) {
        for _ in 0..rng.within(0, u64::from(self.unread())) {
            let byte = ring[(self.consumed % u64::from(self.size)) as usize];
            assert!(!self.trusts_bytes || byte == pattern(self.consumed), "wrong byte at {}", self.consumed);
            self.consumed += 1;
            self.received += 1;
            self.has_news = true;
        }
    }

    fn may_write(&self) -> bool {
        self.conn.state().may_send() && !self.conn.facts().peer_closed
    }

    fn write(&mut self, ring: &mut [u8], rng: &mut Rng) {
        if !self.may_write() {
            return;
        }
        let room =
            writable(self.produced, self.peer_consumed.position(), self.size).expect("a believed cursor");
        let len = rng.within(0, u64::from(room)).min(self.total - self.sent);
        for _ in 0..len {
            ring[(self.produced % u64::from(self.size)) as usize] = pattern(self.produced);
            self.produced += 1;
        }
        self.sent += len;
        self.has_news |= len > 0;
    }

    fn finish(&mut self) {
        let has_written = self.sent == self.total || !self.may_write();
        let has_read = !self.conn.state().may_receive() && self.unread() == 0;
        let is_broken = self.conn.state() == State::ProcessAbort;
        if is_broken || (has_written && (has_read || !self.is_polite)) {
            self.handle(if self.unread() > 0 { Event::CloseUnread } else { Event::Close });
        } else if has_written && !self.has_shut_down {
            self.has_shut_down = true;
            self.handle(Event::ShutdownWrite);
        }
    }
}
