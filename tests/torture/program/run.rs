//! What all processes of a run know: its seed, its folder with the board, and where faults are told.
//! Invariant: a fault is one line of the file "faults", written by one call, and counted on the board.

use crate::board::{Board, CUT, JUDGED};
use crate::script::{Script, Side};
use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A run.
pub(crate) struct Run {
    pub(crate) seed: u64,
    pub(crate) folder: PathBuf,
    pub(crate) board: Board,
}

static RUN: OnceLock<Run> = OnceLock::new();

/// Joins the run in `folder`.
pub(crate) fn join(folder: &Path, seed: u64) {
    let run = Run { seed, folder: folder.to_path_buf(), board: Board::open(&folder.join("board")) };
    assert!(RUN.set(run).is_ok(), "a process joins one run");
    std::panic::set_hook(Box::new(|panic| {
        fault("panic", None, &panic.to_string().replace('\n', " "));
        std::process::exit(101);
    }));
}

/// The run this process joined.
pub(crate) fn run() -> &'static Run {
    RUN.get().expect("joined at the start")
}

/// Long enough for a look.
const HELD: std::time::Duration = std::time::Duration::from_secs(3600);

/// Tells a fault; of each connection only the first, since what follows follows from it.
pub(crate) fn fault(class: &str, place: Option<(u64, Side)>, detail: &dyn Display) {
    let run = run();
    if run.board.is_over() {
        return;
    }
    let mut line = format!("FAULT {class}");
    if let Some((number, side)) = place {
        let ends = Side::BOTH.map(|s| run.board.end(number, s));
        let known = ends.iter().any(|e| e.is(JUDGED));
        ends.iter().for_each(|e| e.flag(JUDGED | CUT));
        if known {
            return;
        }
        let script = Script::of(run.seed, number);
        line += &format!(" connection {number} {side:?} of {:?}{}", script.server, variant(&script));
        line += &format!(": {detail} | {}", describe(&script));
    } else {
        line += &format!(": {detail}");
    }
    run.board.count_fault();
    append("faults", &line);
    if std::env::var_os("TORTURE_HOLD").is_some() {
        std::thread::sleep(HELD);
    }
}

fn variant(script: &Script) -> String {
    if script.server.is_loop() { format!("/{}", script.variant) } else { String::new() }
}

/// Appends a line to a file of the run.
pub(crate) fn append(name: &str, line: &str) {
    let file = std::fs::OpenOptions::new().append(true).create(true).open(run().folder.join(name));
    if let Ok(mut file) = file {
        let _ = file.write_all(format!("{line}\n").as_bytes());
    }
}

/// Both ends' styles and where they stand.
pub(crate) fn describe(script: &Script) -> String {
    let ends = Side::BOTH.map(|side| {
        let (plan, end) = (script.plan(side), run().board.end(script.number, side));
        let lists = [0, 1].map(|lane| plan.lanes.get(lane).map_or(String::new(), |l| place(l, end.step(lane))));
        let [one, two] = lists;
        let solo = if script.is_solo(side) { "solo " } else { "" };
        let threads = if plan.threads && plan.lanes.len() > 1 { "2 threads " } else { "" };
        format!(
            "{side:?}[{solo}{threads}{:?} {:?}/{:?} {} pid {} fd {} flags {:#x} sent {} received {} {one} {two} then {}]",
            plan.wait,
            plan.calls.read,
            plan.calls.write,
            plan.calls.buffer,
            end.pid(),
            end.fd(),
            end.flags(),
            end.sent(),
            end.received(),
            place(&plan.finale, end.step(2)),
        )
    });
    ends.join(" ")
}

/// The steps around the one that an end is at, and all that are special.
fn place(steps: &[crate::script::Step], at: usize) -> String {
    use crate::script::Step;
    let special = |s: &Step| !matches!(s, Step::Send(_) | Step::Recv(_) | Step::Idle(_));
    let shown = steps.iter().enumerate().filter(|(i, s)| i.abs_diff(at) < 2 || special(s));
    let words: Vec<String> =
        shown.map(|(i, s)| format!("{}{i}:{s:?}", if i == at { ">" } else { "" })).collect();
    format!("({} of {}: {})", at, steps.len(), words.join(" "))
}
