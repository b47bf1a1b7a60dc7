//! The processes of a run. Invariant: who is gone is excused on the board before anybody judges its
//! connections.

use crate::board::{BEGUN, CUT, DONE, JUDGED};
use crate::run::run;
use crate::script::Side;
use std::collections::HashMap;
use std::fs::read_to_string;

/// What a direct child is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Server(usize),
    Client(u64),
    /// Takes connections off shared memory.
    Operator,
}

/// Ids of all processes below this one.
pub(crate) fn descendants() -> Vec<i32> {
    let stats = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let parents: HashMap<i32, i32> = stats
        .filter_map(|e| {
            let pid = e.file_name().to_str()?.parse().ok()?;
            let stat = read_to_string(e.path().join("stat")).ok()?;
            let parent = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()?;
            Some((pid, parent))
        })
        .collect();
    let me = std::process::id() as i32;
    let is_below = |pid: &i32| {
        let mut at = *pid;
        while let Some(parent) = parents.get(&at) {
            if *parent == me {
                return true;
            }
            at = *parent;
        }
        false
    };
    parents.keys().copied().filter(is_below).collect()
}

/// The connections of a process that is no more may break, and are over at its end.
pub(crate) fn excuse(pid: i32) {
    let board = run().board;
    for number in 0..board.frontier() {
        for side in Side::BOTH {
            let end = board.end(number, side);
            if end.pid() == pid && end.is(BEGUN) && !end.is(DONE) {
                end.flag(CUT | JUDGED | DONE);
            }
        }
    }
}
