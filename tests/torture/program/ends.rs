//! How an end leaves. Invariant: whatever may break the connection is said on the board first.

use crate::board::{CUT, DONE};
use crate::connection::{Connection, Flow};
use crate::script::Ending;
use isthmus_tests::sys;
use std::time::Duration;

/// Leaves; comes back unless the process ends with it.
pub(crate) fn leave(c: &Connection, ending: Ending) -> Flow {
    c.note_carrier();
    if ending != Ending::Close || !is_in_finale(c) {
        c.mine.flag(CUT);
    }
    match ending {
        Ending::Close => {}
        Ending::Unread => wait_for_some(c),
        Ending::Linger => _ = sys::set_linger(c.fd(), true, 0),
        Ending::Shutdown => shut(c),
        Ending::ExitNow => {
            c.mine.flag(DONE);
            sys::exit_now(0)
        }
        Ending::Exit => {
            c.mine.flag(DONE);
            sys::exit(0)
        }
        Ending::Abort => {
            c.mine.flag(DONE);
            sys::abort_now()
        }
        Ending::Kill => {
            c.mine.flag(DONE);
            let _ = sys::kill(std::process::id() as i32, libc::SIGKILL);
        }
    }
    Flow::Over
}

/// Whether all lanes are through.
fn is_in_finale(c: &Connection) -> bool {
    let lanes = &c.plan().lanes;
    (0..lanes.len()).all(|lane| c.mine.step(lane) >= lanes[lane].len())
}

/// So that something is there to be left unread; not for long, since perhaps nothing comes.
fn wait_for_some(c: &Connection) {
    let _ = sys::poll(&[(c.fd(), libc::POLLIN)], 50);
}

/// With threads at both directions the other one must come back before the descriptor is closed.
fn shut(c: &Connection) {
    let _ = sys::shutdown(c.fd(), libc::SHUT_RDWR);
    std::thread::sleep(Duration::from_millis(20));
}
