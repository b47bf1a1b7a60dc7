//! The local tier's doorbells: pipes, opened through `/proc/PID/fd`. Owns: the proof that the process whose
//! numbers are believed is one that has the segment's own memory open, to write.

use super::Local;
use super::memory::denied;
use crate::door::{Doorbell, Whereabouts};
use os::{Errno, fd, pipe};
use wire::reason::Reason;

impl Doorbell for Local {
    /// Process id.
    type Holder = u32;

    fn hang(&self, _memory: i32) -> Result<i32, Reason> {
        pipe::create().map_err(|_| Reason::MEM)
    }

    fn holder(&self, place: &Whereabouts, identity: (u64, u64)) -> Result<u32, Reason> {
        let found = holder_of(identity, place.pid, place.number);
        found.inspect_err(|_| await_end(place.pid)).map_err(denied)
    }

    fn open_bell(&self, holder: u32, number: i32) -> Result<i32, Reason> {
        let opened = pipe::open_bell_of(holder, number);
        opened.inspect_err(|_| await_end(holder)).map_err(denied)
    }

    fn drop_bell(&self, bell: i32) {
        fd::close(bell);
    }

    fn ring(&self, bell: i32) {
        pipe::ring(bell);
    }

    #[cold]
    fn ring_every(&self, pid: u32) -> bool {
        // (A program's own pipes are ends, and longer.)
        let Ok(model) = pipe::create() else { return false };
        let (size, mut is_any_rung) = (pipe::size(model), false);
        fd::close(model);
        let _ = os::file::each_descriptor_of(pid, |number| {
            if let Ok(opened) = pipe::open_bell_of(pid, number) {
                if pipe::size(opened) == size {
                    pipe::ring(opened);
                    is_any_rung = true;
                }
                fd::close(opened);
            }
        });
        is_any_rung
    }

    fn drain(&self, bell: i32) {
        pipe::drain(bell);
    }

    fn keep_bell_over_exec(&self, bell: i32, on: bool) {
        let _ = fd::set_cloexec(bell, !on);
    }
}

/// A process that ends has no descriptors any more while its lock still says that it lives: whoever asks the
/// lock next is to hear the truth. Some tens of milliseconds at most, on a machine where it gets no core.
#[cold]
fn await_end(pid: u32) {
    const LOOKS: u32 = shm::lock::YIELDS + 40;
    let is_ending = || os::process::life(pid).is_some_and(|life| life.is_ending && !life.is_zombie);
    (0..LOOKS).take_while(|_| is_ending()).for_each(crate::turn::give_way);
}

/// The process in which the doorbells of a segment are to be found under their numbers: the one that made it
/// or, after exec, this one, which was given them. It has the memory itself open, to write, or it is none of
/// these: a pid may be another's by now, and numbers that a peer wrote must not lead to descriptors of this
/// program.
pub(super) fn holder_of(identity: (u64, u64), owner_pid: u32, memfd: i32) -> os::Result<u32> {
    let mut why_not = Errno::ENOENT;
    for pid in [owner_pid, os::process::cached_pid()] {
        match pipe::identity_of(pid, memfd) {
            Ok(found) if found == identity => return Ok(pid),
            Err(errno) if errno.is_shortage() => return Err(errno),
            Err(errno @ (Errno::EACCES | Errno::EPERM)) if pid == owner_pid => why_not = errno,
            _ => {}
        }
    }
    Err(why_not)
}
