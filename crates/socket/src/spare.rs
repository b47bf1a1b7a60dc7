//! The program wants numbers that are ours. Owns: that it is not short of them for descriptors which nobody
//! needs; and that it can have a certain one, though a connection needs what is there.

use crate::conn::Conn;
use crate::end::End;
use crate::here::fabric;
use crate::{held, kept, records};
use core::sync::atomic::Ordering;
use shm::Side;
use shm::sync::Ordering::Relaxed;

/// Gives up descriptors that no connection needs, if some of ours have numbers that the program could have;
/// whether it may try again.
#[cold]
pub fn give_back_descriptors() -> bool {
    let is_ours = !os::confined::is_confined() && os::fd::is_in_the_programs_way();
    if is_ours {
        fabric().spare_descriptors();
    }
    is_ours
}

/// The program is to have the number `from`, which is one of ours: what is there gets another one, and `from`
/// is closed. Whether it was.
///
/// Not if a thread sleeps by it, or another process has a record of it in an epoll set that both share.
#[cold]
pub fn make_way(from: i32) -> bool {
    /// Longer than it takes from a look at a number to the call that is made with it.
    const GRACE_MS: i32 = 5;
    if os::confined::is_confined() || conns().any(|conn| is_slept_on(conn, from)) {
        return false;
    }
    let Ok(to) = os::fd::duplicate_to_make_way(from) else { return false };
    if !conns().all(|conn| records::move_bell(conn, from, to)) {
        // (Those that were moved are moved back.)
        conns().for_each(|conn| _ = records::move_bell(conn, to, from));
        os::fd::close(to);
        return false;
    }
    let is_record = conns().any(|conn| records::has_bell(conn, to));
    if !(fabric().renumber(from, to) || kept::renumber(from, to) || is_record) {
        os::fd::close(to);
        return false;
    }
    conns().for_each(|conn| tell_rows(conn, from, to));
    let _ = os::poll::wait_raw(&mut [], GRACE_MS);
    os::fd::close(from);
    true
}

fn conns() -> impl Iterator<Item = &'static Conn> {
    held::all().map(|(_, conn)| conn).filter(|conn| conn.phase().is_tied())
}

/// Whether a thread may be in a poll that names the doorbell `bell`: the kernel looks numbers up anew
/// whenever it wakes.
fn is_slept_on(conn: &Conn, bell: i32) -> bool {
    conn.interest.has_blocked(Ordering::SeqCst)
        && End::still_of(conn).is_some_and(|end| end.my_bell() == bell)
}

/// Where a segment of this process's is, stands in the rows of those connections that are on it.
fn tell_rows(conn: &Conn, from: i32, to: i32) {
    if conn.side() == Side::Client
        && let Some(row) = fabric().connections().row(conn.row())
        && row.owner_pid.load(Relaxed) == os::process::cached_pid()
    {
        let _ = row.memfd.compare_exchange(from as u32, to as u32, Relaxed, Relaxed);
    }
}
