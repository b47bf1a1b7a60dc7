//! Kills and stops ends that have a process of their own, at any moment. Invariant: a kill is on the board
//! before it happens, and who was stopped goes on.

use crate::board::{BEGUN, CUT, DONE};
use crate::processes::descendants;
use crate::run::run;
use crate::script::{Script, Side};
use crate::watchdog::note_killed;
use isthmus_tests::sys;
use testkit::Random;

pub(crate) struct Disturber {
    random: Random,
    stopped: Vec<(i32, u64)>,
}

impl Disturber {
    pub(crate) fn new() -> Disturber {
        Disturber { random: Random::new(run().seed ^ 0x6b69_6c6c), stopped: Vec::new() }
    }

    /// Perhaps disturbs somebody.
    pub(crate) fn disturb(&mut self) {
        self.wake(sys::now_ms());
        let board = run().board;
        let frontier = board.frontier();
        let number = frontier.saturating_sub(1 + self.random.below(40) as u64);
        let side = Side::BOTH[self.random.below(2)];
        let end = board.end(number, side);
        if !end.is(BEGUN) || end.is(DONE) || !Script::of(run().seed, number).is_solo(side) {
            return;
        }
        let pid = end.pid();
        // (A process that has ended by itself may have left its number to somebody else's.)
        if pid <= 1 || self.stopped.iter().any(|(p, _)| *p == pid) || !descendants().contains(&pid) {
            return;
        }
        if self.random.once_in(3) {
            end.flag(CUT);
            note_killed(pid);
            let _ = sys::kill(pid, libc::SIGKILL);
            end.flag(DONE);
        } else if sys::kill(pid, libc::SIGSTOP).is_ok() {
            self.stopped.push((pid, sys::now_ms() + self.random.below(300) as u64));
        }
    }

    fn wake(&mut self, now: u64) {
        self.stopped.retain(|(pid, until)| {
            let over = *until <= now;
            if over {
                let _ = sys::kill(*pid, libc::SIGCONT);
            }
            !over
        });
    }

    /// All go on.
    pub(crate) fn rest(&mut self) {
        self.wake(u64::MAX);
    }
}
