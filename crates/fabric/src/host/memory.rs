//! The host tier's memory: sealed memfds of the client's, which the daemon passes on to who may have them and
//! knows their nonce. Owns: that what was passed is memory that cannot shrink, whoever made it.

use super::Host;
use crate::door::{ForeignMemory, Memory, Whereabouts};
use os::mem::{self, Shared};
use os::{fd, file, pipe};
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

/// Bytes of a segment's memory that are locked, far beyond its end: by its maker, and by who was passed it.
const MAKER: u64 = 1 << 40;
const HOLDERS: u64 = MAKER + 1;

impl Host {
    /// Whether the number is that of memory which this process offers or holds by way of the daemon.
    pub(crate) fn has_memory(&self, number: i32) -> bool {
        self.link.offered.has_memory(number) || self.link.held.has_memory(number)
    }

    /// Whether somebody has the memory that this process made. (Children of its own share its lock.)
    pub(crate) fn is_held_elsewhere(&self, number: i32) -> bool {
        file::is_byte_locked(number, HOLDERS)
    }

    /// Whether the maker of memory that this process holds lives, and needs it.
    pub(crate) fn is_held_by_maker(&self, held: i32) -> bool {
        file::is_byte_locked(held, MAKER)
    }

    /// Brings memory of a client before `attach`, with a number by which it is held from then on: by a
    /// description of this process's own, so that its maker knows when nobody has it any more. (Which can
    /// only read: nobody takes this process for the one in which the maker's numbers mean anything.)
    pub(crate) fn open_held<R>(
        &self,
        place: &Whereabouts,
        mut attach: impl FnMut(i32, i32) -> Result<R, Reason>,
    ) -> Result<R, Reason> {
        let passed = self.claim(place)?;
        mem::require_unshrinkable(passed.0).map_err(|_| Reason::SYNCERR)?;
        let held = pipe::reopen_memory_to_read(passed.0).map_err(|_| Reason::MEM)?;
        let attached = match file::share_byte(held, HOLDERS) {
            Ok(()) if self.link.held.add(held, -1, 0, 0) => attach(passed.0, held),
            _ => Err(Reason::MEM),
        };
        attached.inspect_err(|_| {
            self.link.held.remove(held);
            fd::close(held);
        })
    }

    fn claim(&self, place: &Whereabouts) -> Result<Passed, Reason> {
        let claim = Message::Claim { owner: place.pid, number: place.number as u32, nonce: place.nonce };
        match self.link.ask(&claim, None)? {
            (Message::Passed { .. }, Some(low)) => Ok(Passed(fd::raise(low).map_err(|_| Reason::MEM)?)),
            (_, other) => {
                other.into_iter().for_each(fd::close);
                Err(Reason::SYNCERR)
            }
        }
    }

    /// Tells the daemon of new memory; it is gone if that does not take it.
    fn offered(&self, memfd: i32, len: usize, nonce: u64) -> Result<i32, Reason> {
        let (number, size) = (memfd as u32, len as u64);
        file::share_byte(memfd, MAKER).map_err(|_| Reason::MEM).inspect_err(|_| fd::close(memfd))?;
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
        // (Nobody has seen the addresses yet.)
        offered.map(|number| (memory, number)).inspect_err(|_| mem::unmap(memory))
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
        attach(&self.claim(place)?)
    }

    fn close(&self, number: i32) {
        if !self.link.held.remove(number) && self.link.offered.remove(number) {
            self.link.withdraw(number);
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
