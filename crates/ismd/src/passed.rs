//! Descriptors that clients pass. Owns: nothing is kept, or handed on, that was not proven to be what it was
//! said to be, nobody gets the very description that another process has, whose flags that could change, and
//! the daemon waits for none: only what was proven is closed here, or asked what only a file system can tell.

use crate::closer::Doubtful;
use os::{file, mem, pipe};
use rustix::fs::{Mode, OFlags, SealFlags, fcntl_get_seals, open};
use std::os::fd::{AsRawFd, OwnedFd};
use wire::Reason;

/// What came with a packet: anything. Closed elsewhere, unless it is proven to be something of ours.
pub(crate) struct Passed(Doubtful);

impl Passed {
    pub(crate) fn new(came: Doubtful) -> Self {
        Passed(came)
    }

    fn number(&self) -> i32 {
        self.0.number()
    }

    /// Memory of `size` bytes, of ordinary pages, whose length and seals nobody can change. Reasons: SYNCERR,
    /// MEM.
    pub(crate) fn into_memory(mut self, size: u64) -> Result<OwnedFd, Reason> {
        mem::require_unshrinkable(self.number()).map_err(|_| Reason::SYNCERR)?;
        self.0.is_harmless();
        if size == 0 || mem::file_len(self.number()) != Ok(size) {
            return Err(Reason::SYNCERR);
        }
        let memory = self.anew()?;
        let needed = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        match fcntl_get_seals(&memory) {
            Ok(seals) if seals == needed => Ok(memory),
            _ => Err(Reason::SYNCERR),
        }
    }

    /// A pipe without a name, opened both ways, so that nobody learns from it when others close. Reasons:
    /// SYNCERR, MEM.
    pub(crate) fn into_doorbell(mut self) -> Result<OwnedFd, Reason> {
        if !pipe::is_passed_pipe(self.number()) {
            return Err(Reason::SYNCERR);
        }
        self.0.is_harmless();
        self.anew()
    }

    fn anew(&self) -> Result<OwnedFd, Reason> {
        debug_assert!(file::about(self.number()).is_ok());
        reopen(self.number())
    }
}

/// The same doorbell, for one more process. Reason: MEM.
pub(crate) fn open_anew(bell: &OwnedFd) -> Result<OwnedFd, Reason> {
    reopen(bell.as_raw_fd())
}

/// (Only what was looked at is opened: opening alone can start a device.)
fn reopen(number: i32) -> Result<OwnedFd, Reason> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    open(format!("/proc/self/fd/{number}"), flags, Mode::empty()).map_err(|_| Reason::MEM)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closer::Closer;
    use rustix::fs::{MemfdFlags, fcntl_add_seals, ftruncate, memfd_create};
    use std::os::fd::IntoRawFd;

    fn doubtful(fd: OwnedFd) -> Doubtful {
        Closer::new().doubtful(1, fd.into_raw_fd())
    }

    fn memory(len: u64, seals: SealFlags) -> Passed {
        let made = memfd_create("test", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).expect("memory");
        ftruncate(&made, len).expect("room");
        fcntl_add_seals(&made, seals).expect("sealed");
        Passed::new(doubtful(made))
    }

    #[test]
    fn only_sealed_memory_of_the_right_length_is_memory() {
        let all = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        assert!(memory(4096, all).into_memory(4096).is_ok());
        for (passed, size) in [
            (memory(4096, all), 8192),
            (memory(0, all), 0),
            (memory(4096, SealFlags::SHRINK | SealFlags::SEAL), 4096),
            (memory(4096, SealFlags::SHRINK | SealFlags::GROW), 4096),
            (memory(4096, all | SealFlags::WRITE), 4096),
        ] {
            assert_eq!(passed.into_memory(size).err(), Some(Reason::SYNCERR));
        }
        let file = tempfile::tempfile().expect("a file");
        file.set_len(4096).expect("room");
        assert!(Passed::new(doubtful(file.into())).into_memory(4096).is_err());
    }

    #[test]
    fn only_a_pipe_is_a_doorbell_and_everybody_has_a_description_of_his_own() {
        assert!(memory(4096, SealFlags::SHRINK).into_doorbell().is_err());
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let bell = Passed::new(doubtful(reader.into())).into_doorbell().expect("a doorbell");
        let other = open_anew(&bell).expect("opened");
        rustix::io::ioctl_fionbio(&other, false).expect("set");
        let flags = |fd: &OwnedFd| rustix::fs::fcntl_getfl(fd).expect("flags");
        assert!(flags(&bell).contains(OFlags::NONBLOCK) && !flags(&other).contains(OFlags::NONBLOCK));
        assert_eq!(rustix::io::write(&other, b"x"), Ok(1));
        let mut byte = [0];
        assert_eq!(rustix::io::read(&bell, &mut byte), Ok(1));
        drop(writer);
    }
}
