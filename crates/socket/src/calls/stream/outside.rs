//! Reading behind the ring: the bytes of a stretch on TCP, in one call with those before them; and what a
//! look shows that waited. Owns: what a read or a look there tells the program.

use super::Receive;
use crate::conn::Conn;
use crate::detour::{self, Found};
use crate::end::End;
use crate::rest::Rest;
use crate::{Outcome, flag, home, kept, ready};
use os::Errno;
use os::net::msg;
use os::poll::bits;
use shm::{Consumer, Sink};

/// Whether bytes behind those in the ring may be on TCP, to be read with them in one call.
#[inline]
pub(super) fn goes_on(end: &End) -> bool {
    end.incoming.has_ended()
}

/// A read had fewer bytes than room: the program may take that for "drained", and wait for the next edge.
/// What follows on TCP for good has had its edge, perhaps: it gets another with the socket's own record.
#[inline]
pub(super) fn note_short(conn: &Conn, end: &End, got: usize, total: usize) {
    if got < total && end.incoming.has_ended() && end.incoming.has_ended_for_good() {
        home::notice(conn, end);
    }
}

impl Receive<'_> {
    /// A look that waits for all, and ends before, shows what has come since it began to wait.
    pub(super) fn what_came_meanwhile<'a>(
        &mut self,
        sinks: impl Iterator<Item = Sink<'a>>,
        outcome: Outcome,
    ) -> Outcome {
        let had = self.got;
        let is_look = self.flags & (msg::PEEK | msg::WAITALL) == msg::PEEK | msg::WAITALL;
        if is_look && matches!(outcome, Outcome::Done(_) | Outcome::Fail(Errno::EINTR | Errno::EAGAIN)) {
            self.got = 0;
            let _ = self.peek(sinks);
            if self.got > had {
                return Outcome::Done(self.got);
            }
        }
        outcome
    }

    /// Whether the kernel answers a call for nothing where the next bytes are TCP's: at once, or when these
    /// come.
    #[cold]
    pub(super) fn is_told_by_tcp(&self) -> bool {
        let told = bits::IN | bits::RDHUP | bits::HUP | bits::ERR;
        if !self.end.incoming.is_at_end() || self.end.view.bytes_in_word() > 0 {
            return false;
        }
        !self.may_wait() || self.end.is_read_by_libc() || os::poll::peek(self.fd, told) != 0
    }

    /// Bytes published before TCP ended are in the ring by now, or a stretch on TCP was opened, though they
    /// were not a moment ago. (A peek that has some already leaves them there.)
    pub(super) fn has_more(&self, was_outside: bool) -> bool {
        // (What a dead peer held back nobody else lets out.)
        self.end.incoming.let_out();
        let is_elsewhere = was_outside != self.end.incoming.is_at_end();
        if self.flags & msg::PEEK == 0 {
            return is_elsewhere || ready::has_bytes(&self.end, 1);
        }
        self.got == 0 && (is_elsewhere || self.end.incoming.used().map_or(true, |bytes| bytes > self.peeked))
    }

    /// The same of a stretch on TCP.
    #[cold]
    pub(super) fn take_outside<'a>(
        &mut self,
        consumer: &mut Consumer<'_>,
        rest: &mut Rest<Sink<'a>, impl Iterator<Item = Sink<'a>>>,
    ) -> Result<(), Outcome> {
        while let Some(sink) = rest.next_part() {
            let count = self.look_outside(consumer, sink)?;
            rest.done(sink, count);
            // (More would have come with these.)
            if count < sink.len() {
                break;
            }
        }
        Ok(())
    }

    /// One read of TCP; how much it brought.
    fn look_outside(&mut self, consumer: &mut Consumer<'_>, sink: Sink<'_>) -> Result<usize, Outcome> {
        self.fd = kept::number(self.conn, self.conn.index(), self.fd);
        // (Another thread has: the error is for the next call.)
        if self.conn.has(flag::DISSOLVED) {
            return Err(Outcome::Forward);
        }
        match detour::read(&self.end, consumer, self.fd, sink, self.flags, self.got == 0) {
            Found::Nothing => Ok(0),
            Found::Bytes(count) => {
                self.conn.note_quiet_tcp();
                self.got += count;
                Ok(count)
            }
            Found::End => {
                detour::note_end(self.conn, &self.end, self.fd);
                Err(match self.ended() {
                    Outcome::Forward => Outcome::Done(0),
                    outcome => outcome,
                })
            }
            Found::Failed(errno) => {
                detour::note_error(self.conn, errno);
                Err(Outcome::Fail(errno))
            }
            Found::Libcs => Err(Outcome::Forward),
        }
    }

    /// Looks at what is on TCP behind what the ring holds, of which `in_ring` bytes were passed. A look
    /// always begins with TCP's first bytes: where they go into several buffers, it fills all of them.
    #[cold]
    pub(super) fn peek_outside<'a>(
        &mut self,
        consumer: &mut Consumer<'_>,
        sink: Sink<'a>,
        others: impl Iterator<Item = Sink<'a>>,
        in_ring: usize,
    ) -> Result<(), Outcome> {
        let had = self.got;
        self.peek_outside_into(consumer, sink, in_ring)?;
        if self.got == had + sink.len() && !os::confined::is_confined() && !self.conn.has(flag::PEEK_OFFSET) {
            // (The turn is ours: nobody has read any of it meanwhile.)
            let seen = detour::glance_into(self.fd, core::iter::once(sink).chain(others), self.flags);
            // (As below, where bytes came between in the ring.)
            if in_ring == 0 || self.end.incoming.used() == Ok(in_ring) {
                self.got = self.got.max(had + seen);
            }
        }
        Ok(())
    }

    fn peek_outside_into(
        &mut self,
        consumer: &mut Consumer<'_>,
        sink: Sink<'_>,
        in_ring: usize,
    ) -> Result<(), Outcome> {
        if in_ring == 0 {
            return self.look_outside(consumer, sink).map(drop);
        }
        // (Not read: the ring comes first. The kernel counts SO_PEEK_OFF from the ring's bytes on.)
        if goes_on(&self.end) && !os::confined::is_confined() && !self.conn.has(flag::PEEK_OFFSET) {
            let seen = detour::glance(&self.end, self.fd, sink, self.flags & msg::TRUNC);
            // (Unless bytes came between in the ring: then these are others.)
            self.got += if self.end.incoming.used() == Ok(in_ring) { seen } else { 0 };
        }
        Ok(())
    }
}
