//! The host tier's doorbells: pipes, which the daemon opens anew for whoever has claimed their memory, so
//! that no two processes share a description and its O_NONBLOCK. Owns: nobody is told of a bell whose memory
//! he has not.

use super::Host;
use crate::door::{Doorbell, Whereabouts};
use os::{fd, pipe};
use wire::host::Message;
use wire::reason::Reason;

/// Memory that this process has claimed, and its owner.
#[derive(Clone, Copy, Debug)]
pub struct HolderOfMemory {
    owner: u32,
    memory: u32,
    nonce: u64,
}

impl Host {
    fn ask_for_bell(&self, question: &Message) -> Result<i32, Reason> {
        match self.link.ask(question, None)? {
            (Message::Passed { .. }, Some(low)) => fd::raise(low).map_err(|_| Reason::MEM),
            (_, other) => {
                other.into_iter().for_each(fd::close);
                Err(Reason::SYNCERR)
            }
        }
    }
}

impl Doorbell for Host {
    type Holder = HolderOfMemory;

    fn hang(&self, memory: i32) -> Result<i32, Reason> {
        let bell = pipe::create().map_err(|_| Reason::MEM)?;
        if memory < 0 {
            return Ok(bell);
        }
        let hang = Message::Hang { memory: memory as u32, number: bell as u32 };
        let told = self.link.ask(&hang, Some(bell)).and_then(|_| {
            let is_noted = self.link.offered.add(bell, memory, 0, 0);
            if is_noted { Ok(bell) } else { Err(Reason::MAX_DMB) }
        });
        told.inspect_err(|_| fd::close(bell))
    }

    /// (The daemon gives bells only to who has claimed that very memory.)
    fn holder(&self, place: &Whereabouts, _identity: (u64, u64)) -> Result<HolderOfMemory, Reason> {
        Ok(HolderOfMemory { owner: place.pid, memory: place.number as u32, nonce: place.nonce })
    }

    fn open_bell(&self, holder: HolderOfMemory, number: i32) -> Result<i32, Reason> {
        let HolderOfMemory { owner, memory, nonce } = holder;
        let open = Message::Open { owner, memory, number: number as u32 };
        self.ask_for_bell(&open).or_else(|reason| {
            // A daemon that was started anew does not know who has claimed what.
            let (_, again) = match reason {
                Reason::SYNCERR => self.link.ask(&Message::Claim { owner, number: memory, nonce }, None)?,
                _ => return Err(reason),
            };
            again.into_iter().for_each(fd::close);
            self.ask_for_bell(&open)
        })
    }

    fn drop_bell(&self, bell: i32) {
        self.link.offered.remove(bell);
        fd::close(bell);
    }

    fn ring(&self, bell: i32) {
        pipe::ring(bell);
    }

    fn drain(&self, bell: i32) {
        pipe::drain(bell);
    }

    fn keep_bell_over_exec(&self, bell: i32, on: bool) {
        let _ = fd::set_cloexec(bell, !on);
    }
}
