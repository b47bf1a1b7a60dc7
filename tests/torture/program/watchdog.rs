//! Finds connections that do not get on. Invariant: a connection on the board always can, so one where
//! neither end has moved for long enough hangs; it is told with what both ends were doing, and its processes
//! are ended.

use crate::board::{BEGUN, DONE, End, JUDGED};
use crate::processes::{Role, descendants, excuse};
use crate::run::{append, fault, run};
use crate::script::{SERVERS, Script, Side};
use isthmus_tests::sys;
use std::collections::HashMap;
use std::fs::read_to_string;

/// Whether a process ended with `status` because this run has killed it. (Ids come back, and one that is to
/// be killed may crash before.)
pub(crate) fn has_killed(pid: i32, status: i32) -> bool {
    let text = || read_to_string(run().folder.join(KILLED)).unwrap_or_default();
    sys::is_killed(status) && text().lines().any(|line| line == pid.to_string())
}

/// File of the run with the ids of the processes that it has killed.
const KILLED: &str = "killed";

/// How long a connection may rest: $TORTURE_PATIENCE in seconds.
pub(crate) fn patience_ms() -> u64 {
    std::env::var("TORTURE_PATIENCE").ok().and_then(|s| s.parse().ok()).unwrap_or(10) * 1000
}

pub(crate) struct Watchdog {
    /// All before it are over.
    low: u64,
    patience: u64,
    last: u64,
    open: usize,
}

impl Watchdog {
    pub(crate) fn new() -> Watchdog {
        Watchdog { low: 0, patience: patience_ms(), last: 0, open: 1 }
    }

    /// Looks at all that is open; how many that are.
    pub(crate) fn look(&mut self, children: &HashMap<i32, Role>) -> usize {
        let now = sys::now_ms();
        if now < self.last + 200 {
            return self.open;
        }
        self.last = now;
        let board = run().board;
        self.open = 0;
        let mut all_over = true;
        for number in self.low..board.frontier() {
            let ends = Side::BOTH.map(|side| board.end(number, side));
            let open = ends.iter().any(|e| e.is(BEGUN) && !e.is(DONE));
            let over = ends[0].is(DONE) && (ends[1].is(DONE) || !ends[1].is(BEGUN));
            if open {
                self.open += 1;
                self.judge(number, ends, now, children);
            }
            all_over &= over || !ends[0].is(BEGUN) && number + 1000 < board.frontier();
            if all_over {
                self.low = number + 1;
            }
        }
        self.open
    }

    fn judge(&self, number: u64, ends: [End; 2], now: u64, children: &HashMap<i32, Role>) {
        let moved = ends.iter().map(|e| e.stamp()).max().unwrap_or(0);
        // Not accepted yet: others come first.
        let patience = if ends[1].is(BEGUN) { self.patience } else { 3 * self.patience };
        // (Between the begin of an end and its first stamp there is a moment.)
        if moved == 0 || now.saturating_sub(moved) < patience {
            return;
        }
        let script = Script::of(run().seed, number);
        let known = ends.iter().any(|e| e.is(JUDGED));
        if !known {
            let states = ends.map(state).join(" | server ");
            fault("hang", Some((number, Side::Client)), &format!("for {} ms: client {states}", now - moved));
        }
        let mut victims: Vec<i32> =
            ends.iter().filter(|e| e.is(BEGUN) && !e.is(DONE)).map(|e| e.pid()).collect();
        if !ends[1].is(BEGUN) {
            let server = Role::Server(script.port());
            victims.extend(children.iter().filter(|(_, role)| **role == server).map(|(pid, _)| *pid));
        }
        run().board.break_server(script.port());
        victims.into_iter().for_each(end_process);
        ends.iter().filter(|e| e.is(BEGUN)).for_each(|e| e.flag(DONE));
    }
}

/// A process is about to be killed: how it ends is no fault of its own, whoever of a fork is at its end by
/// then.
pub(crate) fn note_killed(pid: i32) {
    append(KILLED, &pid.to_string());
}

/// Ends a process that hangs; its other connections break with it.
fn end_process(pid: i32) {
    if pid <= 1 || !descendants().contains(&pid) {
        return;
    }
    note_killed(pid);
    excuse(pid);
    let _ = sys::kill(pid, libc::SIGKILL);
}

/// What an end does, by the board and by the kernel.
fn state(end: End) -> String {
    match (end.is(BEGUN), end.is(DONE)) {
        (false, _) => "has not begun".into(),
        (_, true) => "is over".into(),
        _ => {
            let (pid, fd) = (end.pid(), end.fd());
            let (threads, kernel) = (threads(pid, end.thread()), by_the_kernel(pid, fd));
            format!("doing {:#x} threads [{threads}] {kernel}", end.does())
        }
    }
}

/// What the kernel has of a socket: its queues, and the records of epoll sets that name its number.
fn by_the_kernel(pid: i32, fd: sys::Fd) -> String {
    let link = std::fs::read_link(format!("/proc/{pid}/fd/{fd}")).unwrap_or_default();
    let inode = link.to_string_lossy().trim_matches(|c: char| !c.is_ascii_digit()).to_string();
    let table =
        ["tcp", "tcp6"].map(|name| read_to_string(format!("/proc/{pid}/net/{name}")).unwrap_or_default());
    let of_socket = |line: &&str| line.split_whitespace().nth(9) == Some(&inode);
    let queues = table.iter().flat_map(|text| text.lines()).find(of_socket).map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        format!("state {} queues {}", words[3], words[4])
    });
    format!("socket {} sets [{}]", queues.unwrap_or_default(), records(pid, fd).join("; "))
}

fn records(pid: i32, fd: sys::Fd) -> Vec<String> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
    let of_set = |entry: std::fs::DirEntry| {
        let text = read_to_string(entry.path()).ok().filter(|text| text.contains("tfd:"))?;
        let is_it = |line: &&str| line.split_whitespace().nth(1) == Some(&fd.to_string());
        text.lines().any(|line| is_it(&line)).then(|| {
            let lines = text.lines().filter(|line| line.starts_with("tfd:"));
            let short = lines.map(|line| line.split_whitespace().take(6).collect::<Vec<_>>().join(" "));
            format!(
                "{} {}",
                entry.file_name().to_string_lossy(),
                short.take(8).collect::<Vec<_>>().join(", ")
            )
        })
    };
    entries.filter_map(of_set).take(4).collect()
}

/// The threads of a process, the one that matters marked.
fn threads(pid: i32, marked: i32) -> String {
    let task = format!("/proc/{pid}/task");
    let threads = std::fs::read_dir(&task).into_iter().flatten().flatten().take(12);
    let rows: Vec<String> = threads
        .map(|t| {
            let text =
                |name: &str| read_to_string(t.path().join(name)).unwrap_or_default().trim().to_string();
            let id = t.file_name().to_string_lossy().into_owned();
            let mark = if id == marked.to_string() { "*" } else { "" };
            let stat = text("stat");
            let letter = stat.rsplit_once(") ").map_or("?", |(_, rest)| &rest[..1]).to_string();
            let call = text("syscall").split(' ').take(3).collect::<Vec<_>>().join(" ");
            format!("{mark}{id} {letter} {} call {call}", text("wchan"))
        })
        .collect();
    rows.join("; ")
}

/// A client process that does not end though all its connections could.
pub(crate) fn end_late(children: &HashMap<i32, Role>) {
    for (pid, role) in children.iter().filter(|(_, role)| matches!(role, Role::Client(_))) {
        fault("hang", None, &format!("{role:?} does not end: threads [{}]", threads(*pid, *pid)));
        end_process(*pid);
    }
}

/// The servers by name, for the summary.
pub(crate) fn server_name(index: usize) -> String {
    let (kind, variant) = SERVERS[index];
    format!("{kind:?}/{variant}")
}
