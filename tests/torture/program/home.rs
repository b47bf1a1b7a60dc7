//! Connections go back to TCP at any moment: by the end itself, whose process wants a number that the library
//! uses for them, and by an operator's `smc_run -p PID --tcp`. Invariant: nothing but the way of the bytes
//! changes, so nothing is said on the board, but for how many the operator has moved.

use crate::board::{BEGUN, DONE};
use crate::connection::Connection;
use crate::run::{fault, run};
use crate::script::{Side, is_brief};
use isthmus_tests::sys::{self, Fd};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::OnceLock;
use testkit::Random;
use testkit::random::mix;

/// $TORTURE_HOME: smc_run, where connections are to go home.
fn tool() -> Option<&'static str> {
    static TOOL: OnceLock<Option<String>> = OnceLock::new();
    TOOL.get_or_init(|| std::env::var("TORTURE_HOME").ok()).as_deref()
}

/// Whether this run has an operator.
pub(crate) fn is_wanted() -> bool {
    tool().is_some()
}

impl Connection {
    /// Before a call that moves bytes. One end of four goes home after so many bytes as follows from the
    /// connection's number, and takes others of its process along. (In a process with many that is all of
    /// them, and none is shared for a second: brief ones leave it to the operator.)
    pub(crate) fn perhaps_goes_home(&self) {
        let draw = mix(run().seed ^ mix(self.script.number * 2 + self.side as u64) ^ 0x686f_6d65);
        let threshold = (draw >> 32) & ((1 << ((draw >> 8) % 19)) - 1);
        let moved = self.mine.sent() + self.mine.received();
        let is_its_turn = draw.is_multiple_of(4) && !is_brief();
        if is_wanted() && is_its_turn && moved >= threshold && self.goes_home_once() {
            take_a_doorbell(draw >> 16);
        }
    }
}

/// Puts something of the program's on the number of a doorbell, which makes way with its connection.
fn take_a_doorbell(draw: u64) {
    let doorbells = doorbells();
    if doorbells.is_empty() {
        return;
    }
    let number = doorbells[draw as usize % doorbells.len()];
    let Ok(other) = sys::open_null() else { return };
    // (Another thread may do the same: then it replaces what was put there.)
    if sys::dup3(other as Fd, number, libc::O_CLOEXEC).is_ok() {
        let _ = sys::close(number);
    }
    let _ = sys::close(other as Fd);
}

/// Pipes that are open to read and to write: the program makes none. (One at a low number is just being made:
/// the next moment that is a socket of this program.)
fn doorbells() -> Vec<Fd> {
    const LOW: Fd = 256;
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let is_doorbell = |path: &std::path::Path| {
        let is_pipe = std::fs::read_link(path).is_ok_and(|to| to.to_string_lossy().starts_with("pipe:"));
        let mode = |path| std::fs::symlink_metadata(path).map(|about| about.permissions().mode());
        is_pipe && mode(path).is_ok_and(|mode| mode & 0o600 == 0o600)
    };
    let fds = entries.filter(|entry| is_doorbell(&entry.path()));
    let numbers = fds.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|number| *number >= LOW).collect()
}

/// Takes connections off shared memory until the run is over. Who is asked takes its time: of brief ones
/// there are many, for whom several operators ask at once.
pub(crate) fn operate() {
    // (Where that is allowed: it competes with all whom it disturbs.)
    let me = std::process::id().to_string();
    let _ = Command::new("renice").args(["-n", "-5", "-p", &me]).output();
    std::thread::scope(|s| {
        for n in 0..if is_brief() { 3 } else { 1 } {
            s.spawn(move || ask_each(Random::new(run().seed ^ 0x6f70_6572 ^ mix(n))));
        }
    });
}

fn ask_each(mut random: Random) {
    while !run().board.stopped() {
        let board = run().board;
        let number =
            board.frontier().saturating_sub(1 + random.below(if is_brief() { 300 } else { 30 }) as u64);
        let end = board.end(number, Side::BOTH[random.below(2)]);
        let (pid, fd) = (end.pid(), end.fd());
        if !end.is(BEGUN) || end.is(DONE) || pid <= 1 {
            std::thread::yield_now();
            continue;
        }
        match random.below(6) {
            0 => inode(pid, fd).into_iter().for_each(|inode| ask(pid, &["--tcp", "-c", &inode])),
            1..5 => ask(pid, &["--tcp", "-c", "all"]),
            _ => {
                ask(pid, &["--tcp"]);
                ask(pid, &["--smc"]);
            }
        }
    }
}

fn inode(pid: i32, fd: Fd) -> Option<String> {
    let link = std::fs::read_link(format!("/proc/{pid}/fd/{fd}")).ok()?;
    Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_string())
}

/// Runs smc_run; what it has moved is counted.
fn ask(pid: i32, wanted: &[&str]) {
    /// smc_run(8): no process, another's, no library (yet), nothing to do, not all.
    const ALLOWED: [i32; 6] = [0, 2, 3, 4, 5, 6];
    let Some(tool) = tool() else { return };
    let said = Command::new(tool).args(["-p", &pid.to_string()]).args(wanted).output().expect("smc_run");
    let text = String::from_utf8_lossy(&said.stdout) + String::from_utf8_lossy(&said.stderr);
    if !said.status.code().is_some_and(|code| ALLOWED.contains(&code)) {
        fault("operator", None, &format!("smc_run {wanted:?} ends with {}: {}", said.status, text.trim()));
    }
    let text = text.strip_prefix("smc_run: ").unwrap_or(&text);
    let moved = text.split(' ').next().and_then(|count| count.parse().ok());
    let is_count = text.contains("went back to TCP");
    run().board.count_home(moved.filter(|_| is_count).unwrap_or(0));
}
