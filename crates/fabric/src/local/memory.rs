//! The local tier's memory: sealed memfds of the client's, opened through `/proc/PID/fd`. Owns: the ways in
//! which a descriptor of a segment can be had (of its maker, over exec, from who passed the socket on), and
//! the proof that what was opened is memory that cannot shrink.

use super::Local;
use crate::door::{Directory, ForeignMemory, Life, Memory, Whereabouts};
use core::ffi::CStr;
use os::mem::{self, Shared};
use os::{Errno, fd, pipe};
use sync::Ordering::Relaxed;
use wire::reason::Reason;

const NAME: &CStr = c"isthmus-dmb";

/// An opened segment of another process; closed when dropped, for a mapping keeps the memory alive.
pub struct Opened(i32);

impl Drop for Opened {
    fn drop(&mut self) {
        fd::close(self.0);
    }
}

impl Opened {
    pub(crate) fn number(&self) -> i32 {
        self.0
    }
}

/// Opens it anew so that it can only be read: nobody takes this process for one in which the owner's numbers
/// mean what the owner says. -1 if that cannot be had.
pub(crate) fn keep_to_read(number: i32) -> i32 {
    pipe::reopen_memory_to_read(number).unwrap_or(-1)
}

impl ForeignMemory for Opened {
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

    fn keep(&self) -> i32 {
        keep_to_read(self.0)
    }
}

impl Memory for Local {
    type Foreign = Opened;

    fn make(&self, len: usize, _nonce: u64) -> Result<(Shared, i32), Reason> {
        let memfd = mem::sealed_memfd(NAME, len as u64).map_err(|_| Reason::MEM)?;
        match mem::map_shared(memfd, len) {
            Ok(memory) => Ok((memory, memfd)),
            Err(_) => {
                fd::close(memfd);
                Err(Reason::MEM)
            }
        }
    }

    fn make_over(&self, old: Shared, _nonce: u64) -> Result<i32, Reason> {
        let memfd = mem::sealed_memfd(NAME, size_of_val(old) as u64).map_err(|_| Reason::MEM)?;
        mem::remap_shared(old, memfd).map(|()| memfd).map_err(|_| {
            fd::close(memfd);
            Reason::MEM
        })
    }

    fn open<R>(
        &self,
        place: &Whereabouts,
        mut attach: impl FnMut(&Opened) -> Result<R, Reason>,
    ) -> Result<R, Reason> {
        let first = match open_first(place) {
            Ok(memory) => attach(&memory),
            Err(errno) if self.has_adopted.load(Relaxed) => {
                open_inherited(&mut attach).ok_or_else(|| denied(errno))
            }
            Err(errno) => Err(denied(errno)),
        };
        first.or_else(|reason| self.open_held(place, &mut attach).ok_or(reason))
    }

    fn close(&self, number: i32) {
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

    fn note_adopted(&self) {
        self.has_adopted.store(true, Relaxed);
    }

    fn take_over_inherited(&self) {
        if self.has_adopted.load(Relaxed) {
            os::inherited::take_over(NAME);
        }
    }
}

/// Its maker's or, after exec, this process's own under the same number; the nonce tells.
fn open_first(place: &Whereabouts) -> os::Result<Opened> {
    let own = |errno: Errno| match errno.is_shortage() {
        true => Err(errno),
        false => pipe::open_memory_of(os::process::cached_pid(), place.number).map_err(|_| errno),
    };
    pipe::open_memory_of(place.pid, place.number).or_else(own).map(Opened)
}

/// The client's process has died; the program that this one was before may have handed its memory on.
#[cold]
#[inline(never)]
fn open_inherited<R>(attach: &mut impl FnMut(&Opened) -> Result<R, Reason>) -> Option<R> {
    let mut found = None;
    let _ = os::file::each_own_descriptor(|fd| {
        if found.is_none()
            && let Ok(memory) = os::inherited::open_memory(fd)
        {
            found = attach(&Opened(memory)).ok();
            if found.is_some() {
                fd::close(fd);
            }
        }
    });
    found
}

impl Local {
    /// The client's process has died; the one that passed the socket on may still have its memory.
    #[cold]
    #[inline(never)]
    fn open_held<R>(
        &self,
        place: &Whereabouts,
        attach: &mut impl FnMut(&Opened) -> Result<R, Reason>,
    ) -> Option<R> {
        /// Descriptors of ours are out of a program's way.
        const LOWEST: i32 = 128;
        let (map, from) = (self.mapped()?, place.holder);
        if !self.has_adopted.load(Relaxed) || self.seat.is_me(from) || !self.is_alive(map, from) {
            return None;
        }
        let (pid, mut found) = (from.pid(map), None);
        let _ = os::file::each_descriptor_of(pid, |fd| {
            if found.is_none()
                && fd >= LOWEST
                && let Ok(memory) = pipe::open_held_memory(pid, fd)
            {
                found = attach(&Opened(memory)).ok();
            }
        });
        found
    }
}

/// Why a descriptor of the client's could not be had.
pub(super) fn denied(errno: Errno) -> Reason {
    match errno {
        // A process that changed its ids, or made itself undumpable, shows its descriptors to nobody of its
        // own user.
        Errno::EACCES | Errno::EPERM => Reason::OPTUNSUPP,
        _ if errno.is_shortage() => Reason::MEM,
        _ => Reason::NOSMCDDEV,
    }
}
