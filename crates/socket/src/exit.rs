//! The end of a process. Owns: what is said while it can still be said; the kernel does the rest.

use crate::end::End;
use crate::held::{connections, hold_index};
use crate::phase::Phase;
use crate::release::{has_other_holders, is_copy, leave_to_others};
use crate::table::{self, Entry};
use crate::{answer, flag};
use fabric::totals;
use os::net;
use shm::ClosedBy;
use shm::sync::Ordering as Shared;

/// Before abort(), which may yet return to the program by its handler: early bytes go out, and nothing else is given up.
pub fn at_abort() {
    for (fd, held) in connections() {
        if held.phase() == Phase::Intent && !is_copy(&held) {
            answer::retract(&held, fd, fabric::Reason::PEERDECL);
        }
    }
}

/// A thread ends by the system call itself, perhaps the last one, of which nobody else will hear: early bytes go out.
pub fn before_thread_ends() {
    for (fd, held) in connections() {
        if held.phase() == Phase::Intent && !is_copy(&held) {
            answer::retract(&held, fd, fabric::Reason::PEERDECL);
        }
    }
}

/// When the process ends on its own: early bytes go out, unread bytes are answered by RST. The kernel does the rest.
pub fn at_exit() {
    for (fd, entry) in table::entries() {
        let Entry::Conn(index) = entry else { continue };
        let Some(held) = hold_index(index) else { continue };
        match held.phase() {
            Phase::Intent if !is_copy(&held) => {
                answer::retract(&held, fd, fabric::Reason::PEERDECL);
            }
            Phase::Smc => {
                if let Some(end) = End::still_of(&held) {
                    let is_last = !has_other_holders(&held, &end);
                    if is_last && end.incoming.used() != Ok(0) {
                        net::reset_on_close(fd);
                    } else if is_last {
                        end.mine().closed.fetch_or(ClosedBy::EXIT, Shared::SeqCst);
                    }
                    if is_last {
                        end.wake_napping_peer();
                    } else if end.incoming.used() == Ok(0) {
                        // Should this be the last copy all the same, its end is an orderly one.
                        end.mine().closed.fetch_or(ClosedBy::EXIT, Shared::SeqCst);
                    }
                    // The destructor and _exit both come here; each connection is counted once.
                    if is_last && !held.has(flag::COUNTED) {
                        held.mark(flag::COUNTED);
                        totals::settle(end.view.header());
                    }
                }
            }
            _ => {}
        }
        leave_to_others(&held);
    }
}
