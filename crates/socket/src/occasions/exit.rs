//! The end of a process. Owns: what is said while it can still be said; the kernel does the rest.

use crate::conn::Conn;
use crate::end::End;
use crate::held::hold_index;
use crate::here::fabric;
use crate::phase::Phase;
use crate::release::{is_copy, leave_to_others, others};
use crate::table::{self, Entry};
use crate::{answer, closing, flag, handover, push};
use os::net;
use os::time::Cycles;
use sync::Ordering as Shared;

/// When the process ends on its own: its intents are given up, unread bytes are answered by RST. The kernel
/// does the rest.
pub fn at_exit() {
    for (fd, entry) in table::entries() {
        let Entry::Conn(index) = entry else { continue };
        let Some(held) = hold_index(index) else { continue };
        // (Of an exec that failed: others may read it.)
        handover::take_word_back(&held);
        match held.phase() {
            Phase::Intent if !is_copy(&held) => {
                answer::retract(&held, fd, fabric::Reason::PEERDECL);
            }
            Phase::Smc => {
                if let Some(end) = End::still_of(&held) {
                    end_shared(&held, &end, fd);
                }
            }
            _ => {}
        }
        leave_to_others(&held);
    }
}

fn end_shared(conn: &Conn, end: &End, fd: i32) {
    let others = others(conn, end);
    let _ = end.incoming.is_holding() && push::let_out_if_due(conn, end);
    let due = closing::at_exit(others, end.is_drained(), conn.flags());
    if due.resets {
        net::reset_on_close(fd);
    }
    push::push(end);
    if due.noted != 0 {
        end.note_written(Cycles::now());
    }
    end.mine().closed.fetch_or(due.noted, Shared::SeqCst);
    if due.wakes {
        end.wake_napping_peer();
    }
    if due.counts {
        conn.mark(flag::COUNTED);
        fabric().totals().settle(end.view, end.side);
    }
}
