//! A process is about to change its credentials for good. Owns: what becomes of its sockets: connections in
//! shared memory go on; what is undecided is decided now, for TCP, while it can still be said; listeners are
//! withdrawn, since nobody who accepts from them could answer a client of the old user any more.

use crate::held::{all, hold_index};
use crate::here::fabric;
use crate::phase::{Event, Phase};
use crate::table::{self, Entry};
use crate::{answer, decide};
use fabric::Reason;
use fabric::door::{Directory as _, Rendezvous as _};
use os::net::Endpoint;
use sync::Ordering;

/// Whose registry this process has mapped.
pub fn owner() -> Option<u32> {
    fabric().tier().owner()
}

/// Whether this process's memory is a copy of its parent's, and not the parent's own.
pub fn is_a_copy() -> bool {
    fabric().tier().is_a_copy()
}

/// Before the change, of which [`after`] tells the end, whatever it was. `is_counted`: this is no copy of a
/// process that nobody has counted (a child of clone), whose undecided sockets are its parent's to decide.
pub fn before(is_counted: bool) {
    let _ = fabric().tier().begin_change();
    if fabric().tier().mapped().is_none() {
        return;
    }
    for (fd, entry) in table::entries() {
        if let Entry::Conn(index) = entry {
            settle(fd, index, is_counted);
        }
    }
    leave();
}

/// Nothing stays but the slots of connections.
fn leave() {
    for (index, _) in all() {
        let Some(held) = hold_index(index) else { continue };
        if held.phase().is_tied() && held.view().is_some() {
            // (It may go back to TCP, and its memory be given up, when nothing can be said of it any more.)
            fabric().rows().note_homeward(held.row(), held.cookie());
            fabric().rows().leave_side(held.row(), held.cookie(), held.side());
        }
    }
    fabric().leave();
}

/// The program is short of descriptors, to the last one: what is shared with others is left as before such a
/// change. Connections in shared memory go on, and listeners are announced again when they accept, once the
/// shortage is over. Whether there was anything to leave.
pub(crate) fn leave_for_a_while() -> bool {
    if fabric().tier().mapped().is_none() {
        return false;
    }
    // (Who is about to publish an offer would wait for its answer in rows that are gone.)
    if !fabric().tier().begin_change() {
        fabric().tier().end_change();
        return false;
    }
    for (fd, entry) in table::entries() {
        let Entry::Conn(index) = entry else { continue };
        let Some(held) = hold_index(index) else { continue };
        match held.phase() {
            Phase::Listening => {
                fabric().tier().forget(held.role.listener.load(Ordering::Relaxed), fd);
                // (As if it had been another's: see `server::announce_again`.)
                held.role.era.store(0, Ordering::Relaxed);
                // Clients that have found it, and that nobody has accepted, do not wait for an answer.
                let port = u32::from(held.role.port.load(Ordering::Relaxed));
                let is_its = |target: Endpoint| u32::from(target.port) == port;
                fabric().rows().refuse_all(Reason::MEM, |_, target| is_its(target));
            }
            Phase::Accepted => decide::refuse(fd),
            // (One that is not established yet, too: who has left the rows hears of no answer any more.)
            Phase::Intent => {
                answer::retract(&held, fd, Reason::MEM);
            }
            _ => {}
        }
    }
    leave();
    fabric().give_up_offers();
    fabric().tier().end_change();
    true
}

/// After the change, or after it has failed.
pub fn after() {
    fabric().tier().end_change();
}

fn settle(fd: i32, index: shm::slab::Index, is_counted: bool) {
    let Some(held) = hold_index(index) else { return };
    match held.phase() {
        Phase::Listening => {
            fabric().tier().forget(held.role.listener.load(Ordering::Relaxed), fd);
            held.transition(Event::Withdrawn);
        }
        Phase::Accepted if is_counted => decide::refuse(fd),
        Phase::Intent if is_counted => {
            answer::retract(&held, fd, Reason::OPTUNSUPP);
        }
        _ => {}
    }
}
