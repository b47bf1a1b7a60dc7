//! One call of the program's that moves bytes between a connection and a pipe, in several steps. Owns: that
//! all of them are on the connection that the call found at first, as in the kernel, whatever becomes of its
//! number meanwhile.

use super::{Transmit, asked, receive_on, transmit_on};
use crate::abandoned::{Stay, address};
use crate::decide::tied;
use crate::end::End;
use crate::held::Held;
use crate::phase::Phase;
use crate::rest::Rest;
use crate::{Outcome, kept};
use os::process;
use shm::{Sink, Source};

/// Such a call. What may last, or never return, is done [`aside`](Self::aside).
pub struct Across {
    conn: Held,
    end: End,
    fd: i32,
}

impl Across {
    /// On the connection behind `fd`, if there is one.
    pub fn begin(fd: i32) -> Option<Self> {
        tied(fd).map(|(conn, end)| Across { conn, end, fd })
    }

    /// The number of the socket now; -1 if it has none.
    pub fn number(&self) -> i32 {
        kept::number(&self.conn, self.conn.index(), self.fd)
    }

    /// Whether its bytes still go through shared memory.
    pub fn is_shared(&self) -> bool {
        matches!(self.conn.phase(), Phase::Smc | Phase::Intent) && !self.conn.is_stale()
    }

    /// As [`super::receive`].
    pub fn receive(&self, bytes: &mut [u8], flags: i32) -> Outcome {
        let len = bytes.len();
        receive_on(&self.conn, &self.end, self.fd, core::iter::once(Sink::from(bytes)), len, flags)
    }

    /// As [`super::transmit`].
    pub fn transmit(&self, bytes: &[u8], flags: i32) -> Outcome {
        let mut call = Transmit::new(&self.conn, self.end, self.fd, flags);
        let rest = Rest::of(core::iter::once(Source::from(bytes)));
        let outcome = transmit_on(&mut call, rest, bytes.len());
        if call.is_pipe_broken {
            self.aside(|| process::raise_on_self(super::SIGPIPE));
        }
        outcome
    }

    /// Bytes that a read would return now.
    pub fn readable_bytes(&self) -> usize {
        asked::readable_on(&self.conn, &self.end, self.number())
    }

    /// Bytes that a send of `wanted` would take now without waiting.
    pub fn space(&self, wanted: usize) -> usize {
        asked::space_on(&self.conn, &self.end, self.number(), wanted)
    }

    /// Does something that touches no connection, written down meanwhile: who closes the number keeps the
    /// socket for this call, and what it holds is given back if it never returns.
    pub fn aside<T>(&self, what: impl FnOnce() -> T) -> T {
        let mut stay = Stay::default();
        let entry = address(&stay);
        stay.begin(&self.conn, self.fd, entry);
        let done = what();
        stay.end(&self.conn, self.fd);
        done
    }
}
