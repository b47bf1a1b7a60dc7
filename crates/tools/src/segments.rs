//! The memory behind connections, opened out of the descriptors of the process that made it, read-only.
//!
//! Owns: the proof that what is opened is sealed memory of the registry's own user. A row may name any
//! process and any descriptor; only a memfd of that user that cannot shrink is ever opened and mapped.

use fabric::observe::{self, Connection, Slot};
use os::file::How;
use os::mem::Shared;
use os::raw::nr;
use std::collections::HashMap;
use std::ffi::CString;
use std::os::unix::fs::MetadataExt;

const READ: How = How { flags: nr::O_RDONLY | nr::O_NONBLOCK | nr::O_NOCTTY, mode: 0 };

/// Segments of one user's processes, each opened once.
pub(crate) struct Segments {
    uid: u32,
    /// By process and descriptor.
    known: HashMap<(u32, u32), Option<Shared>>,
    /// By process: all that it has, its peers' included.
    held: HashMap<u32, Vec<Shared>>,
}

impl Segments {
    /// None opened yet.
    pub(crate) fn of(uid: u32) -> Self {
        Segments { uid, known: HashMap::new(), held: HashMap::new() }
    }

    /// The slot of a connection, if its memory is within reach. A forked child serves as well as its parent:
    /// both have the descriptor under the same number.
    pub(crate) fn slot(&mut self, connection: &Connection) -> Option<Slot> {
        let holders = connection.ends.iter().filter_map(|end| end.process.map(|process| process.pid));
        let pids: Vec<u32> = std::iter::once(connection.owner_pid).chain(holders).collect();
        let of_owner = pids.iter().find_map(|pid| {
            let pid = *pid;
            let uid = self.uid;
            let key = (pid, connection.memfd);
            let memory = (*self.known.entry(key).or_insert_with(|| open(pid, connection.memfd, uid)))?;
            observe::slot(memory, connection)
        });
        of_owner.or_else(|| pids.iter().find_map(|pid| self.of_peer(*pid, connection)))
    }

    /// The owner is dead: its peer has the memory under a number of its own.
    fn of_peer(&mut self, pid: u32, connection: &Connection) -> Option<Slot> {
        let uid = self.uid;
        let held = self.held.entry(pid).or_insert_with(|| segments_of(pid, uid));
        held.iter().find_map(|memory| observe::slot(memory, connection))
    }
}

fn segments_of(pid: u32, uid: u32) -> Vec<Shared> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(|fd| open(pid, fd, uid)).collect()
}

fn open(pid: u32, memfd: u32, uid: u32) -> Option<Shared> {
    let is_users = std::fs::metadata(format!("/proc/{pid}")).is_ok_and(|about| about.uid() == uid);
    if is_users { open_any(pid, memfd) } else { None }
}

/// The same, whoever's it is.
pub(crate) fn open_any(pid: u32, memfd: u32) -> Option<Shared> {
    let link = format!("/proc/{pid}/fd/{memfd}");
    // Opening may have effects (devices, pipes): look before.
    let is_memfd =
        std::fs::read_link(&link).is_ok_and(|target| target.to_string_lossy().starts_with("/memfd:"));
    if !is_memfd {
        return None;
    }
    let fd = os::file::open(&CString::new(link).ok()?, READ).ok()?;
    let memory = map(fd);
    os::fd::close(fd);
    memory
}

/// Lets go of it.
pub(crate) fn close(memory: Shared) {
    let _ = os::mem::retire(memory);
}

fn map(fd: i32) -> Option<Shared> {
    os::mem::require_unshrinkable(fd).ok()?;
    let len = usize::try_from(os::mem::file_len(fd).ok()?).ok()?;
    os::mem::map_shared_ro(fd, len).ok()
}

#[cfg(test)]
mod tests {
    use super::open;

    #[test]
    fn only_sealed_memory_of_the_user_is_opened() {
        let (me, pid) = (os::process::euid(), os::process::pid());
        let sealed = os::mem::sealed_memfd(c"isthmus-test", 4096).expect("a memfd");
        assert_eq!(open(pid, sealed as u32, me).map(|memory| memory.len()), Some(512));
        assert!(open(pid, sealed as u32, me + 1).is_none(), "of another user");
        os::fd::close(sealed);
        assert!(open(pid, sealed as u32, me).is_none(), "closed");
        let file = std::fs::File::open("/proc/self/exe").expect("our program");
        assert!(open(pid, std::os::fd::AsRawFd::as_raw_fd(&file) as u32, me).is_none(), "a file");
        assert!(open(0, 0, me).is_none(), "no process");
    }
}
