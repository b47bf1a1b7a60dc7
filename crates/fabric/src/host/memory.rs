//! The host tier's memory: sealed memfds of the client's, which the daemon passes on to who may have them and
//! knows their nonce. Owns: that what was passed is memory that cannot shrink, whoever made it.

use super::Host;
use crate::door::{ForeignMemory, Memory, Whereabouts};
use os::fd;
use os::mem::{self, Shared};
use wire::host::Message;
use wire::reason::Reason;

const NAME: &core::ffi::CStr = c"isthmus-dmb";

/// Memory that the daemon has passed; its descriptor is closed when dropped, for a mapping keeps the memory
/// alive.
pub struct Passed(i32);

impl Drop for Passed {
    fn drop(&mut self) {
        fd::close(self.0);
    }
}

impl ForeignMemory for Passed {
    fn size(&self) -> Result<usize, Reason> {
        mem::require_unshrinkable(self.0).map_err(|_| Reason::SYNCERR)?;
        mem::file_len(self.0).map(|len| len as usize).map_err(|_| Reason::SYNCERR)
    }

    fn identity(&self) -> Result<(u64, u64), Reason> {
        fd::identity(self.0).map_err(|_| Reason::SYNCERR)
    }

    fn map(&self, len: usize) -> Result<Shared, Reason> {
        mem::map_shared(self.0, len).map_err(|_| Reason::MEM)
    }

    fn map_over(&self, old: Shared) -> bool {
        mem::remap_shared(old, self.0).is_ok()
    }

    /// (Tools ask the daemon.)
    fn keep(&self) -> i32 {
        -1
    }
}

impl Host {
    /// Tells the daemon of new memory; it is gone if that does not take it.
    fn offered(&self, memfd: i32, len: usize, nonce: u64) -> Result<i32, Reason> {
        let (number, size) = (memfd as u32, len as u64);
        let told = self.link.ask(&Message::Offer { number, size, nonce }, Some(memfd));
        let told = told.and_then(|_| match self.link.offered.add(memfd, -1, size, nonce) {
            true => Ok(memfd),
            false => Err(Reason::MAX_DMB),
        });
        told.inspect_err(|_| fd::close(memfd))
    }
}

impl Memory for Host {
    type Foreign = Passed;

    fn make(&self, len: usize, nonce: u64) -> Result<(Shared, i32), Reason> {
        let memfd = mem::sealed_memfd(NAME, len as u64).map_err(|_| Reason::MEM)?;
        let memory = mem::map_shared(memfd, len).map_err(|_| {
            fd::close(memfd);
            Reason::MEM
        })?;
        let offered = self.offered(memfd, len, nonce);
        offered.map(|number| (memory, number)).inspect_err(|_| self.retire(memory))
    }

    fn make_over(&self, old: Shared, nonce: u64) -> Result<i32, Reason> {
        let len = size_of_val(old);
        let memfd = mem::sealed_memfd(NAME, len as u64).map_err(|_| Reason::MEM)?;
        mem::remap_shared(old, memfd).map_err(|_| {
            fd::close(memfd);
            Reason::MEM
        })?;
        self.offered(memfd, len, nonce).inspect_err(|_| self.retire(old))
    }

    fn open<R>(
        &self,
        place: &Whereabouts,
        mut attach: impl FnMut(&Passed) -> Result<R, Reason>,
    ) -> Result<R, Reason> {
        let claim = Message::Claim { owner: place.pid, number: place.number as u32, nonce: place.nonce };
        match self.link.ask(&claim, None)? {
            (Message::Passed { .. }, Some(low)) => {
                let memory = Passed(fd::raise(low).map_err(|_| Reason::MEM)?);
                attach(&memory)
            }
            (_, other) => {
                other.into_iter().for_each(fd::close);
                Err(Reason::SYNCERR)
            }
        }
    }

    fn close(&self, number: i32) {
        if self.link.offered.remove(number) {
            let _ = self.link.ask(&Message::Withdraw { number: number as u32 }, None);
        }
        fd::close(number);
    }

    fn keep_over_exec(&self, number: i32, on: bool) {
        let _ = fd::set_cloexec(number, !on);
    }

    fn retire(&self, memory: Shared) {
        let _ = mem::retire(memory);
    }

    fn give_back_pages(&self, memory: Shared) {
        mem::give_back_pages(memory);
    }

    fn note_adopted(&self) {}
}
