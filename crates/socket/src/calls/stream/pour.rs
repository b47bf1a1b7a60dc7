//! Bytes into the ring. Owns: how much of a call its reader sees at once: over loopback TCP a moderate write
//! is there as a whole or not at all, in however many pieces the program has it, and programs rely on that.

use super::{Poured, Transmit};
use crate::rest::Rest;
use crate::{Outcome, push, ready};
use shm::ring::{ODD, PeerMisbehaved, Reader};
use shm::{Producer, Supply};

/// So much is seen at once. More of it goes a chunk at a time: the reader copies one while the writer copies
/// the next.
const AT_ONCE: usize = 64 * 1024;

impl Transmit<'_> {
    /// Into the ring as far as it has room. A reader sees what fits into [`AT_ONCE`] all at once, whatever
    /// pieces it is in, and more of it a chunk at a time, while the next one is copied.
    pub(super) fn pour<S: Supply>(
        &mut self,
        producer: &mut Producer<'_>,
        rest: &mut Rest<S, impl Iterator<Item = S>>,
        total: usize,
        reader: Reader,
    ) -> Result<Poured, Outcome> {
        let at_once = if total - self.sent <= AT_ONCE { AT_ONCE } else { self.end.outgoing.piece() };
        let mut laid = 0;
        let poured = loop {
            let Some(source) = rest.next_part().filter(|_| self.sent < total) else { break Ok(Poured::All) };
            let count = self.allowance().and_then(|allowed| {
                // (What a small SO_SNDBUF cuts off is odd as well.)
                let allowed = match allowed.saturating_sub(laid) {
                    cut if cut < source.len() && cut != usize::MAX => source.first(cut.saturating_sub(ODD)),
                    all => source.first(all),
                };
                producer
                    .lay(allowed, at_once - laid, reader)
                    .map_err(|PeerMisbehaved| ready::break_off(self.conn, &self.end, self.fd))
            });
            let count = match count {
                Ok(count) => count,
                Err(outcome) => break Err(outcome),
            };
            rest.done(source, count);
            if count == 0 {
                break Ok(if source.has_ended() { Poured::UpToItsEnd } else { Poured::UpToTheBrim });
            }
            self.sent += count;
            laid += count;
            if laid >= at_once && self.sent < total {
                // What is written on behind them needs its lines here.
                self.show(producer, laid, Reader::Apart);
                laid = 0;
            }
        };
        if laid > 0 {
            self.show(producer, laid, reader);
        }
        poured
    }

    #[inline]
    fn show(&self, producer: &mut Producer<'_>, laid: usize, reader: Reader) {
        producer.show(laid, reader);
        self.end.ring_peer(&self.end.outgoing.words().data_wait.0);
    }

    /// The same where the reader is not to see it yet.
    pub(super) fn pour_held<S: Supply>(
        &mut self,
        producer: &mut Producer<'_>,
        rest: &mut Rest<S, impl Iterator<Item = S>>,
        total: usize,
    ) -> Result<Poured, Outcome> {
        while self.sent < total {
            let Some(source) = rest.next_part() else { break };
            let allowed = source.first(self.allowance()?);
            let was_holding = self.end.outgoing.is_holding();
            let written = producer.write_held(allowed, push::due());
            let count = written.map_err(|PeerMisbehaved| ready::break_off(self.conn, &self.end, self.fd))?;
            rest.done(source, count);
            if count == 0 {
                return Ok(if source.has_ended() { Poured::UpToItsEnd } else { Poured::UpToTheBrim });
            }
            self.sent += count;
            if push::is_segment(self.end.outgoing) {
                self.end.outgoing.let_out();
            } else if was_holding {
                // (Who was rung when the holding began looks again by himself.)
                continue;
            }
            self.end.ring_peer(&self.end.outgoing.words().data_wait.0);
        }
        Ok(Poured::All)
    }
}
