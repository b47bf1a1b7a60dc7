//! O_ASYNC: the doorbell raises the program's signal. Owns: when it does; that it no longer does for the
//! slot's next connection is `release`'s.

use crate::end::End;
use crate::{doorbell, flag, sleepers};

/// O_ASYNC changed: the doorbell raises the program's signal at every arrival, as the socket would.
pub fn note_signal_driven(fd: i32, on: bool) {
    // To switch it off where it never was on is no use of the socket.
    if !on && !crate::held::hold(fd).is_some_and(|conn| conn.has(flag::SIGNAL_DRIVEN)) {
        return;
    }
    let Some(conn) = crate::decide::in_use(fd) else { return };
    let Some(end) = End::of(&conn) else { return };
    let was_on = conn.has(flag::SIGNAL_DRIVEN);
    if on == was_on {
        return;
    }
    if on {
        conn.mark(flag::SIGNAL_DRIVEN);
        sleepers::count_signals(&conn, &end, 1);
        // (Drained before it raises signals: to switch them on raises none.)
        doorbell::rearm(&conn, &end, false, false);
        doorbell::forget_room(&conn, &end);
        os::fd::copy_signal_driven(fd, end.my_bell(), true);
    } else {
        os::fd::copy_signal_driven(fd, end.my_bell(), false);
        conn.unmark(flag::SIGNAL_DRIVEN);
        sleepers::count_signals(&conn, &end, -1);
    }
}

/// Who is signalled, or how, changed.
pub fn note_signal_owner(fd: i32) {
    if let Some(conn) = crate::held::hold(fd).filter(|conn| conn.has(flag::SIGNAL_DRIVEN))
        && let Some(end) = End::of(&conn)
    {
        os::fd::copy_signal_driven(fd, end.my_bell(), true);
    }
}
