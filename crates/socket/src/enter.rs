//! How a socket gets into the table of descriptors. Owns: that an entry whose number was closed behind our back lets its
//! connection go.

use crate::conn::Conn;
use crate::held::{Held, all, hold_index, make};
use crate::phase::Event;
use crate::records;
use crate::table::{self, Entry};
use core::sync::atomic::Ordering;
use shm::slab::Index;

/// Enters a new socket into the table. `None` without memory: it stays on TCP.
pub(crate) fn enter(fd: i32, born: Event) -> Option<Held> {
    let held = make(born)?;
    match table::set(fd, Entry::Conn(held.index())) {
        Some(Entry::Conn(old)) => forget(old),
        Some(_) => {}
        None => {
            held.drop_fd();
            return None;
        }
    }
    Some(held)
}

/// Makes `fd` another descriptor of the adopted socket with this inode, if there is one.
pub(crate) fn join_adopted(fd: i32, inode: u64) -> bool {
    let is_it =
        |conn: &Conn| inode != 0 && conn.fds() > 0 && conn.role.inode.load(Ordering::Relaxed) == inode;
    let Some(held) = all().find(|(_, conn)| is_it(conn)).and_then(|(index, _)| hold_index(index)) else {
        return false;
    };
    if !is_it(&held) {
        return false;
    }
    held.add_fd();
    match table::set(fd, Entry::Conn(held.index())) {
        Some(Entry::Conn(old)) => forget(old),
        Some(_) => {}
        None => _ = held.drop_fd(),
    }
    true
}

/// Drops a stale entry's claim on a connection: its number was closed without our seeing it.
fn forget(index: Index) {
    if let Some(held) = hold_index(index) {
        if held.fds() == 1 {
            records::remove_all(&held);
        }
        held.drop_fd();
    }
}
