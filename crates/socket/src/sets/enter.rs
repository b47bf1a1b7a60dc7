//! How a socket gets into the table of descriptors. Owns: that an entry whose number was closed behind our
//! back lets its connection go.

use crate::conn::Conn;
use crate::held::{Held, all, hold_index, make};
use crate::phase::Event;
use crate::records;
use crate::table::{self, Entry};
use shm::slab::Index;
use sync::Ordering;

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

/// The same, if the entry of `fd` still is what was `seen`: threads that use a number which another one has
/// closed may enter the same new socket at once. `None` also if somebody else was faster.
pub(crate) fn enter_over(fd: i32, seen: Entry, born: Event) -> Option<Held> {
    let held = make(born)?;
    if table::replace(fd, seen, Entry::Conn(held.index())) != Some(true) {
        held.drop_fd();
        return None;
    }
    if let Entry::Conn(old) = seen {
        forget(old);
    }
    Some(held)
}

/// Makes `fd` another descriptor of the socket with this inode that was adopted, or passed on by this process
/// itself, if there is one.
pub(crate) fn join_adopted(fd: i32, inode: u64) -> bool {
    let is_it =
        |conn: &Conn| inode != 0 && conn.fds() > 0 && conn.role.inode.load(Ordering::Relaxed) == inode;
    let Some(held) = all().find(|(_, conn)| is_it(conn)).and_then(|(index, _)| hold_index(index)) else {
        return false;
    };
    if !is_it(&held) {
        return false;
    }
    crate::settle::settle_all_of(&held);
    held.add_fd();
    match table::set(fd, Entry::Conn(held.index())) {
        Some(Entry::Conn(old)) => forget(old),
        Some(_) => {}
        None => _ = held.drop_fd(),
    }
    true
}

/// The kernel has just made a descriptor of this number, so what stood under it was closed without our seeing
/// it.
#[cold]
pub fn forget_stale(fd: i32) {
    match table::clear(fd) {
        Entry::Conn(index) => forget(index),
        Entry::Epoll(index) => records::close_set(index),
        Entry::Empty | Entry::Foreign => {}
    }
}

/// Drops a stale entry's claim on a connection: its number was closed without our seeing it.
fn forget(index: Index) {
    if let Some(held) = hold_index(index) {
        if held.fds() == 1 {
            records::remove_all(&held, None);
        }
        held.drop_fd();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::held::{hold, peek_index};
    use crate::phase::Phase;

    #[test]
    fn a_number_that_was_closed_behind_our_back_lets_its_socket_go() {
        const FD: i32 = 100_200;
        let first = enter(FD, Event::Accepted).unwrap();
        let (index, second) = (first.index(), enter(FD, Event::Watched).unwrap());
        assert_eq!((first.fds(), second.fds()), (0, 1));
        assert_eq!(hold(FD).unwrap().index(), second.index());
        assert_eq!(peek_index(index).unwrap().phase(), Phase::Accepted, "a call still holds it");
        drop(first);
        assert!(hold_index(index).is_none_or(|held| held.phase() != Phase::Accepted));
        second.drop_fd();
        table::clear(FD);
    }

    #[test]
    fn a_number_that_somebody_else_has_entered_meanwhile_stays_his() {
        const FD: i32 = 100_203;
        let first = enter_over(FD, Entry::Empty, Event::Offered).unwrap();
        assert!(enter_over(FD, Entry::Empty, Event::Watched).is_none());
        assert_eq!((hold(FD).unwrap().index(), first.fds()), (first.index(), 1));
        let second = enter_over(FD, Entry::Conn(first.index()), Event::Watched).unwrap();
        assert_eq!((first.fds(), second.fds(), hold(FD).unwrap().phase()), (0, 1, Phase::Fresh));
        second.drop_fd();
        table::clear(FD);
    }

    #[test]
    fn duplicates_of_an_adopted_socket_are_one_connection() {
        const FDS: (i32, i32) = (100_201, 100_202);
        assert!(!join_adopted(FDS.1, 77_777));
        let held = enter(FDS.0, Event::Accepted).unwrap();
        held.role.inode.store(77_777, Ordering::Relaxed);
        assert!(!join_adopted(FDS.1, 0) && join_adopted(FDS.1, 77_777));
        assert_eq!((held.fds(), hold(FDS.1).unwrap().index()), (2, held.index()));
        for fd in [FDS.0, FDS.1] {
            table::clear(fd);
            held.drop_fd();
        }
        assert_eq!(held.fds(), 0);
    }
}
