//! Before a process installs a filter of system calls. Owns: that nothing is left to be decided behind it.
//!
//! What is shared stays shared, and goes on with the calls that `os::confined` allows; what is undecided is
//! TCP's, for a decision asks the kernel much. A listener is announced no more by a process that could not
//! answer its clients.

use crate::end::End;
use crate::held::hold_index;
use crate::here::fabric;
use crate::phase::Phase;
use crate::table::{self, Entry};
use crate::{decide, detour, flag, home, stream};
use fabric::Reason;
use fabric::door::{Directory as _, Life as _, Rendezvous as _};
use os::confined::{self, Calls};
use os::net;
use sync::Ordering;

/// Before the filter.
pub fn before(calls: Calls) {
    for (fd, entry) in table::entries() {
        let Entry::Conn(index) = entry else { continue };
        let Some(held) = hold_index(index) else { continue };
        match held.phase() {
            Phase::Listening if is_announced_here(fd) => {
                fabric().tier().forget(held.role.listener.load(Ordering::Relaxed), fd);
                held.mark(flag::WITHDRAWN);
            }
            Phase::Accepted | Phase::Intent => decide::refuse(fd),
            _ => {}
        }
        if held.phase() == Phase::Smc {
            held.note_what_calls_would_tell(fd);
            let is_outside =
                End::of(&held).is_some_and(|end| end.outgoing.has_ended() && !detour::come_back(&held, &end));
            if calls == Calls::Fewest || is_outside {
                // What is written from here on needs no more than a write.
                stream::demote(fd);
            }
            if calls == Calls::Fewest
                && let Some(end) = End::of(&held)
            {
                // Nor what is read, and its end: only a read tells of that.
                let _ = home::send(&held, &end, Reason::OPTUNSUPP);
            }
        }
    }
    confined::confine(calls);
}

/// The kernel did not take the filter. What was decided stays so.
pub fn after_refusal() {
    confined::confine(Calls::All);
    for (fd, entry) in table::entries() {
        let Entry::Conn(index) = entry else { continue };
        let Some(held) = hold_index(index) else { continue };
        if held.has(flag::WITHDRAWN) {
            held.unmark(flag::WITHDRAWN);
            let _ = fabric().tier().announce(fd);
        }
    }
}

/// Whether the listener is this process's own, and not inherited from one that serves on.
fn is_announced_here(fd: i32) -> bool {
    let me = fabric().tier().mapped().and_then(|map| fabric().tier().me(map));
    let Ok(at) = net::local(fd) else { return false };
    me.is_some() && fabric().tier().owner_of(at.connectable()).ok() == me
}
