//! What the kernel keeps of a listener: whose its marks are, and since when (`struct kept` of
//! `bpf/mark.bpf.c`). Owns: the layout, that a socket which was never marked is not, and what it is for that
//! who had the marks is over.
//!
//! Who holds a listener can accept from it, wherever its network is: so that is not asked.

use crate::closer::Doubtful;
use os::bpf;
use wire::Reason;

/// Bytes of it.
const KEPT: usize = 32;
const TGID: usize = 8;
const IS_ACTIVE: usize = 12;
const SINCE: usize = 24;

/// A TCP socket that listens, as it came from a client.
pub(crate) struct Listener(pub(crate) Doubtful);

/// Of all sockets, by their descriptors, and when programs ended.
pub(crate) struct Listeners {
    sockets: i32,
    ends: i32,
}

/// The process whose the marks of a listener are.
pub(crate) struct Owner {
    pub(crate) pid: u32,
    /// It has ended since, or become another program.
    pub(crate) is_over: bool,
}

struct Kept([u8; KEPT]);

impl Drop for Listeners {
    fn drop(&mut self) {
        [self.sockets, self.ends].into_iter().for_each(os::fd::close);
    }
}

impl Kept {
    fn of(pid: u32, since: u64) -> Kept {
        let mut bytes = [0; KEPT];
        bytes[TGID..][..4].copy_from_slice(&pid.to_ne_bytes());
        bytes[SINCE..][..8].copy_from_slice(&since.to_ne_bytes());
        Kept(bytes)
    }

    fn bytes<const LEN: usize>(&self, at: usize) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes.copy_from_slice(&self.0[at..at + LEN]);
        bytes
    }

    fn pid(&self) -> u32 {
        u32::from_ne_bytes(self.bytes(TGID))
    }

    fn is_active(&self) -> bool {
        self.bytes(IS_ACTIVE) != [0; 4]
    }

    fn since(&self) -> u64 {
        u64::from_ne_bytes(self.bytes(SINCE))
    }
}

impl Listeners {
    /// By these maps, which are closed with the value.
    pub(crate) fn of(sockets: i32, ends: i32) -> Listeners {
        Listeners { sockets, ends }
    }

    /// Who has the marks of a listener. Reason: SYNCERR if it was never marked.
    pub(crate) fn owner_of(&self, listener: &Listener) -> Result<Owner, Reason> {
        let (number, mut kept) = (listener.0.number().cast_unsigned(), Kept([0; KEPT]));
        bpf::read(self.sockets, number, &mut kept.0).map_err(|_| Reason::SYNCERR)?;
        match kept.pid() {
            0 => Err(Reason::SYNCERR),
            _ if kept.is_active() => Err(Reason::SYNCERR),
            pid => Ok(Owner { pid, is_over: self.has_ended_since(pid, kept.since()) }),
        }
    }

    /// From now on this process has them, as the program that it has been since then. Reason: MEM.
    pub(crate) fn give(&self, listener: &Listener, pid: u32, since: u64) -> Result<(), Reason> {
        let number = listener.0.number().cast_unsigned();
        bpf::put(self.sockets, number, &Kept::of(pid, since).0).map_err(|_| Reason::MEM)
    }

    fn has_ended_since(&self, pid: u32, since: u64) -> bool {
        let mut end = [0; 8];
        bpf::read(self.ends, pid, &mut end).is_ok_and(|()| u64::from_ne_bytes(end) >= since)
            || !os::process::exists(pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_reads_as_it_was_written() {
        let mut kept = Kept::of(77, 0x0102_0304_0506_0708);
        assert_eq!((kept.pid(), kept.is_active(), kept.since()), (77, false, 0x0102_0304_0506_0708));
        kept.0[IS_ACTIVE] = 1;
        assert!(kept.is_active());
    }
}
