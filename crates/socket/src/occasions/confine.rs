//! Before a process installs a filter of system calls, or a thread takes a table of descriptors of its own.
//! Owns: that nothing is left to be decided behind it.
//!
//! What is shared stays shared, and goes on with the calls that `os::confined` allows; what is undecided is
//! TCP's, for a decision asks the kernel much. A listener is announced no more by a process that could not
//! answer its clients.

use crate::conn::Conn;
use crate::end::End;
use crate::held::hold_index;
use crate::here::fabric;
use crate::phase::Phase;
use crate::table::{self, Entry};
use crate::{decide, detour, flag, home, lend, records, stream};
use fabric::Reason;
use fabric::door::{Directory as _, Life as _, Rendezvous as _};
use fabric::fallback::What;
use os::confined::{self, Calls};
use os::net;
use sync::Ordering;

/// Whether this process has no socket that is ours, and will not get one, for it is behind a filter: it makes
/// no call then that the plain program would not make.
#[inline]
pub fn stays_out() -> bool {
    confined::is_confined() && !crate::held::has_been_any()
}

/// Before a filter of the program's. Where it does not leave us what we need, what is shared goes back to TCP
/// before it stands, and from then on no call is ours: what is left unread in memory the program's own calls
/// find (`beside`).
pub fn before_filter(left: os::filter::Left) {
    if confined::leaves_nothing() {
        return;
    }
    let is_enough = left.enough && (left.enough_for_sets || !crate::has_been_any_set());
    if !is_enough {
        for (fd, held) in crate::held::connections() {
            if let Some(end) = End::of(&held).filter(|_| held.phase() == Phase::Smc) {
                home::send_in_time(&held, &end, Reason::OPTUNSUPP);
                let _ = home::take(fd, Reason::OPTUNSUPP);
            }
        }
    }
    // (What one refuses the next one does not give back.)
    before(match is_enough {
        true if confined::is_strict() => Calls::Fewest,
        true => Calls::Filtered,
        false => Calls::Programs,
    });
    if !left.process_id {
        let _ = os::process::cached_pid();
        confined::withhold_id(true);
    }
}

/// Before only read, write and exit are left.
pub fn before_strict() {
    if !confined::leaves_nothing() {
        before(Calls::Fewest);
    }
}

fn before(calls: Calls) {
    for (fd, entry) in table::entries() {
        let Entry::Conn(index) = entry else { continue };
        let Some(held) = hold_index(index) else { continue };
        if leave_undecided(&held, fd, Reason::NOSMCDDEV) {
            held.mark(flag::WITHDRAWN);
        }
        if held.phase() == Phase::Smc {
            held.note_what_calls_would_tell(fd);
            let is_outside =
                End::of(&held).is_some_and(|end| end.outgoing.has_ended() && !detour::come_back(&held, &end));
            let are_few = matches!(calls, Calls::Fewest | Calls::Programs);
            if are_few || is_outside {
                // What is written from here on needs no more than a write.
                stream::demote(fd);
            }
            if are_few && let Some(end) = End::of(&held) {
                // Nor what is read, and its end: only a read tells of that.
                let _ = home::send(&held, &end, Reason::OPTUNSUPP);
            }
        }
        if calls == Calls::Programs {
            end_both_ways(&held);
            records::leave_to_program(&held);
        }
    }
    confined::confine(calls);
}

/// Whatever else the rings or the doorbell have to tell (a place to peek at, signals): nothing rings any
/// more, so nothing is to come by them.
fn end_both_ways(held: &Conn) {
    if held.phase() == Phase::Smc
        && let Some(end) = End::of(held)
    {
        let _ = end.end_turn(end.side) && end.end_turn(end.side.peer());
        // (Who waits at the other end looks at TCP now: nobody here will ring again.)
        end.ring_peer(&end.outgoing.words().data_wait.0);
        end.ring_peer(&end.incoming.words().space_wait.0);
    }
}

/// Before a thread takes a table of descriptors of its own and leaves the others the process's: from then on
/// a number means two things here, and nobody looks which thread asks. All that is shared goes back to TCP,
/// where the kernel tells them apart, and counts as held by somebody else whatever is closed. (What has bytes
/// left in memory is asked for by every call until they are read.) Before a module that calls libc past the
/// hooks it is the same: what it does to a number is seen by the kernel alone.
pub fn before_parting() {
    for (fd, entry) in table::entries() {
        let Entry::Conn(index) = entry else { continue };
        let Some(held) = hold_index(index) else { continue };
        let _ = leave_undecided(&held, fd, Reason::OPTUNSUPP);
        if held.phase() == Phase::Smc {
            lend::leave_a_copy(&held);
            if !home::take(fd, Reason::OPTUNSUPP)
                && let Ok(cookie) = net::cookie(fd)
            {
                table::doubt(fd, index, cookie);
            }
        }
    }
}

/// What is undecided is TCP's, and a listener finds no clients any more: whether it was one. (It is told now:
/// nothing can be told behind a filter, of what it accepts neither.)
fn leave_undecided(held: &Conn, fd: i32, reason: Reason) -> bool {
    match held.phase() {
        Phase::Listening if is_announced_here(fd) => {
            fabric().tier().forget(held.role.listener.load(Ordering::Relaxed), fd);
            fabric().stays_on_tcp(fd, What::Listener, reason);
            return true;
        }
        Phase::Accepted | Phase::Intent => decide::refuse(fd),
        _ => {}
    }
    false
}

/// The kernel did not take the filter. What was decided stays so.
pub fn after_refusal() {
    confined::confine(Calls::All);
    for (fd, entry) in table::entries() {
        let Entry::Conn(index) = entry else { continue };
        let Some(held) = hold_index(index) else { continue };
        records::tell_rest_again(&held);
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
    me.is_some() && fabric().tier().owner_of(fd, at.connectable()).ok() == me
}
