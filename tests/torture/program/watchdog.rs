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
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

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
            let (threads, inode) = (threads(pid, end.thread()), inode(pid, fd));
            let (kernel, memory) = (by_the_kernel(pid, fd, &inode), by_the_library(&inode));
            let doorbells = doorbells(pid);
            format!("doing {:#x} threads [{threads}] {kernel} {memory} high [{doorbells}]", end.does())
        }
    }
}

fn inode(pid: i32, fd: sys::Fd) -> String {
    link(pid, fd).trim_matches(|c: char| !c.is_ascii_digit()).to_string()
}

/// What the library's tool has of a socket: how its bytes go, and how far both rings are written and read.
fn by_the_library(inode: &str) -> String {
    let library = std::env::var("TORTURE_LIBRARY").unwrap_or_default();
    let Some(dist) = Path::new(&library).ancestors().nth(2).filter(|_| !library.is_empty()) else {
        return String::new();
    };
    let said = Command::new(dist.join("bin/smcss")).args(["-a", "-d", "--json"]).output();
    let text = said.map_or(String::new(), |said| String::from_utf8_lossy(&said.stdout).into_owned());
    let row = text.lines().find(|line| line.contains(&format!("\"inode\": {inode},")));
    format!("row {}", row.map_or("none", |row| row.trim()))
}

/// What the kernel has of a socket: its queues, and the records of epoll sets that name its number.
fn by_the_kernel(pid: i32, fd: sys::Fd, inode: &str) -> String {
    let table =
        ["tcp", "tcp6"].map(|name| read_to_string(format!("/proc/{pid}/net/{name}")).unwrap_or_default());
    let of_socket = |line: &&str| line.split_whitespace().nth(9) == Some(inode);
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
            format!("{mark}{id} {letter} {} call {call}{}", text("wchan"), polled(pid, &call))
        })
        .collect();
    rows.join("; ")
}

/// What a thread waits for in poll or ppoll, where its memory can be read: each descriptor, its events, and
/// what it leads to.
fn polled(pid: i32, call: &str) -> String {
    const MOST: usize = 8;
    let words: Vec<&str> = call.split(' ').collect();
    let number = |at: usize| u64::from_str_radix(words.get(at)?.trim_start_matches("0x"), 16).ok();
    let is_poll = [libc::SYS_poll, libc::SYS_ppoll].iter().any(|nr| words.first() == Some(&&*nr.to_string()));
    let (Some(at), Some(count), true) = (number(1), number(2), is_poll) else { return String::new() };
    let mut bytes = vec![0; 8 * (count as usize).min(MOST)];
    let memory = std::fs::File::open(format!("/proc/{pid}/mem"));
    if !memory.is_ok_and(|memory| memory.read_exact_at(&mut bytes, at).is_ok()) {
        return String::new();
    }
    let entry = |bytes: &[u8]| {
        let fd = i32::from_ne_bytes(bytes[..4].try_into().expect("four bytes"));
        let events = i16::from_ne_bytes(bytes[4..6].try_into().expect("two bytes"));
        format!(" {fd}:{events:#x}:{}", link(pid, fd))
    };
    bytes.chunks_exact(8).map(entry).collect()
}

/// What descriptors of the library's lead to, those at high numbers.
fn doorbells(pid: i32) -> String {
    const LOW: i32 = 256;
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let high = numbers.filter(|number| *number >= LOW);
    high.map(|number| format!("{number}:{}", link(pid, number))).collect::<Vec<_>>().join(" ")
}

fn link(pid: i32, fd: sys::Fd) -> String {
    let link = std::fs::read_link(format!("/proc/{pid}/fd/{fd}")).unwrap_or_default();
    link.to_string_lossy().into_owned()
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
