//! Parity: each case of `parity-case` runs over plain TCP, which is the oracle, and with both ends, only the
//! case's end, or only the other end enabled, as client and as server. Invariant: all transcripts are equal
//! (but for what `differs.txt` says), and where the case says so, data moved through shared memory exactly
//! when both ends were enabled.
//!
//! `cargo test -p isthmus-tests --test parity -- [--list] [NAME...]`; ISTHMUS_MODES=plain checks the oracle
//! alone. PARITY_FAMILIES is a comma-separated list of 4, 6 and dual for all cases, PARITY_DESCRIPTORS a
//! limit for all, PARITY_WRAP a program that starts each case with what it is given as arguments; with
//! PARITY_FAR the two ends of all are in two containers. `cargo xtask parity` has the combinations. With
//! PARITY_TURN some cases have one of them in a run of all, too: others with the next number.

mod differs;
mod ways;

use isthmus_tests::containers::Containers;
use isthmus_tests::dist::Dist;
use isthmus_tests::{Bed, Mode, Outcome};
use std::panic::AssertUnwindSafe;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use ways::Way;

const PROGRAM: &str = env!("CARGO_BIN_EXE_parity-case");
const LIMIT: Duration = Duration::from_secs(20);

#[derive(Clone)]
struct Case {
    name: String,
    shm: bool,
    way: Way,
}

impl Case {
    /// "epoll.edge", or "epoll.edge/6" in another address family.
    fn title(&self) -> String {
        format!("{}{}", self.name, self.way.suffix())
    }

    /// The modes to compare with the oracle in this run, in the first or second of the roles.
    fn modes(&self, nth_role: u64) -> Vec<Mode> {
        if self.way.is_far {
            return vec![Mode::Smc];
        }
        if BY_PRIVILEGE.iter().any(|group| self.name.starts_with(group)) {
            return Mode::wanted();
        }
        Mode::compared(&self.title(), nth_role)
    }
}

/// Beginnings of the names of cases in which the library may or may not do what it needs, by who runs it: all
/// modes, whoever that is. (Over TCP no case tells users apart.)
const BY_PRIVILEGE: &[&str] = &["limit.", "names.", "scarce."];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let filters: Vec<&String> = args.iter().filter(|a| !a.starts_with('-')).collect();
    let mut cases = cases();
    cases.retain(|c| filters.is_empty() || filters.iter().any(|f| c.title().contains(f.as_str())));
    if args.iter().any(|a| a == "--list") {
        cases.iter().for_each(|c| println!("{}: test", c.title()));
        return;
    }
    let needed = Mode::wanted().iter().any(|m| *m != Mode::Plain);
    if let (true, Err(sentence)) = (needed, Dist::find()) {
        println!("{sentence}");
        std::process::exit(101);
    }
    let place = Place::of(&mut cases);
    println!("\nrunning {} cases", cases.len());
    let (known, failures): (Vec<String>, Vec<String>) =
        run_all(&cases, &place).into_iter().partition(|title| is_known(&cases, title));
    drop(place);
    println!("\nknown: {}", known.join(" "));
    println!("test result: {} passed; {} failed", cases.len() - failures.len() - known.len(), failures.len());
    if !failures.is_empty() {
        println!("failed: {}", failures.join(" "));
        std::process::exit(101);
    }
}

/// Where the two ends of a case are: on the loopback, or in two containers, of which the client's reaches the
/// server by its own 127.0.0.1.
struct Place(Option<Containers>);

impl Place {
    /// What the cases need. Those that need what cannot be had here are left out, with a word.
    fn of(cases: &mut Vec<Case>) -> Place {
        let has_library = Mode::wanted().contains(&Mode::Smc);
        let is_wanted = has_library && cases.iter().any(|case| case.way.is_far);
        let containers = is_wanted.then(|| Containers::new("parity-far", "")).flatten();
        match &containers {
            Some(both) => both.publish_loopback(),
            None => cases.retain(|case| !case.way.is_far),
        }
        Place(containers)
    }

    /// The case is the end its role says; the puppet gets the library when the other end is enabled.
    fn command(&self, case: &Case, role: &str, bed: &Bed) -> Command {
        let (is_own, is_other) = match role {
            "client" => (bed.mode.client(), bed.mode.server()),
            _ => (bed.mode.server(), bed.mode.client()),
        };
        let mut own = match self.0.as_ref().filter(|_| case.way.is_far) {
            None if role == "client" => bed.client(PROGRAM),
            None => bed.server(PROGRAM),
            Some(both) => {
                let (near, name) = (usize::from(role == "client"), bed.name());
                let mut own = both.inside(near, &name, is_own, PROGRAM);
                own.env("PARITY_PEER_NETWORK", both.network(1 - near));
                own.env("PARITY_PEER_REGISTRY", both.registry(1 - near, &name));
                own.env_remove("RUST_BACKTRACE").current_dir(bed.scratch.path());
                own
            }
        };
        if let Some(tool) = bed.tool_command("smc_run") {
            own.env("PARITY_SMC_RUN", tool.get_program());
        }
        let library = bed.library().filter(|_| is_other).unwrap_or_default();
        own.env("PARITY_PEER_PRELOAD", library);
        own.args([&case.name, role]);
        own
    }
}

/// Whether the case differs in its way for a cause that LIMITATIONS has.
fn is_known(cases: &[Case], title: &str) -> bool {
    cases.iter().any(|case| case.title() == *title && case.way.is_known(&case.name))
}

fn cases() -> Vec<Case> {
    let out = Command::new(PROGRAM).arg("--list").output().expect("list the cases");
    let text = String::from_utf8(out.stdout).expect("names");
    let parse = |l: &str| l.split_once(' ').map(|(name, how)| (name.to_string(), how == "shm"));
    let in_ways = |(name, shm): (String, bool)| {
        let ways = ways::of(&name).into_iter();
        ways.map(|way| Case { name: name.clone(), shm, way }).collect::<Vec<_>>()
    };
    text.lines().filter_map(parse).flat_map(in_ways).collect()
}

/// Several cases at a time: most of them wait.
fn run_all(cases: &[Case], place: &Place) -> Vec<String> {
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let width = std::env::var("PARITY_THREADS").ok().and_then(|n| n.parse().ok()).unwrap_or(5);
    std::thread::scope(|s| {
        for _ in 0..width {
            s.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let begin = Instant::now();
                    let problems = std::panic::catch_unwind(AssertUnwindSafe(|| check(case, place)))
                        .unwrap_or_else(|_| vec!["panicked".into()]);
                    let verdict = if problems.is_empty() { "ok" } else { "FAILED" };
                    println!("test {} ... {verdict} ({} ms)", case.title(), begin.elapsed().as_millis());
                    problems.iter().for_each(|p| println!("{p}"));
                    if !problems.is_empty() {
                        failures.lock().expect("failures").push(case.title());
                    }
                }
            });
        }
    });
    failures.into_inner().expect("failures")
}

/// Everything wrong with one case, in the modes and roles that this run has.
fn check(case: &Case, place: &Place) -> Vec<String> {
    let mut problems = Vec::new();
    for (role, nth) in [("client", 0), ("server", 1)] {
        let modes = case.modes(nth);
        if modes.is_empty() {
            continue;
        }
        let oracle = match transcript(case, place, role, Mode::Plain) {
            Ok(run) => run,
            // (What needs more than another way allows is told of in the ordinary one.)
            Err(_) if case.way.is_extra => return vec![],
            Err(e) => return vec![format!("  {role}, plain: {e}")],
        };
        problems.extend(carrier_problem(case, role, Mode::Plain, &oracle));
        for mode in modes {
            match transcript(case, place, role, mode) {
                Err(e) => problems.push(format!("  {role}, {mode:?}: {e}")),
                Ok(run) => {
                    let want = differs::expected(&case.name, oracle.lines.clone(), is_own(role, mode), mode);
                    problems.extend(
                        want.and_then(|want| difference(&want, &run.lines).map_or(Ok(()), Err))
                            .err()
                            .map(|d| format!("  {role}, {mode:?}:\n{d}")),
                    );
                    problems.extend(carrier_problem(case, role, mode, &run));
                }
            }
        }
    }
    problems
}

/// Whether the case's own end is enabled.
fn is_own(role: &str, mode: Mode) -> bool {
    if role == "client" { mode.client() } else { mode.server() }
}

struct Run {
    lines: Vec<String>,
    /// Payload the kernel's TCP carried on the watched connection, both ways.
    tcp: Option<u64>,
    /// What of it the client wrote before the server's first look.
    early: u64,
}

fn transcript(case: &Case, place: &Place, role: &str, mode: Mode) -> Result<Run, String> {
    let bed = Bed::new("parity", mode);
    let mut command = case.way.apply(place.command(case, role, &bed));
    let outcome = bed.run(&mut command, "case", LIMIT);
    if !outcome.ok() || !outcome.out.ends_with("done\n") {
        return Err(outcome.to_string());
    }
    Ok(parse(&outcome))
}

fn parse(outcome: &Outcome) -> Run {
    let (remarks, lines): (Vec<&str>, Vec<&str>) = outcome.out.lines().partition(|l| l.starts_with('#'));
    let numbers = |line: &&str| -> Vec<u64> {
        line.split('=').skip(1).filter_map(|word| word.split(' ').next()?.parse().ok()).collect()
    };
    let told = remarks.iter().find(|line| line.starts_with("#tcp")).map(numbers);
    let tcp = told.as_ref().map(|told| told.iter().take(2).sum());
    let early = told.and_then(|told| told.get(2).copied()).unwrap_or(0);
    Run { lines: lines.iter().map(|l| l.to_string()).collect(), tcp, early }
}

/// The first line where two transcripts part, with what came before.
fn difference(want: &[String], got: &[String]) -> Option<String> {
    let at = (0..want.len().max(got.len())).find(|&i| want.get(i) != got.get(i))?;
    let before = want[at.saturating_sub(3)..at].iter().map(|l| format!("      {l}\n")).collect::<String>();
    let line = |v: &[String]| v.get(at).map_or("(end)".to_string(), String::clone);
    Some(format!("{before}    - TCP  {}\n    + this {}", line(want), line(got)))
}

/// Three may be counted (a client's SYN and both FINs); real payload must not when both ends are enabled, but
/// what a client wrote before the server's first look.
fn carrier_problem(case: &Case, role: &str, mode: Mode, run: &Run) -> Option<String> {
    let tcp = run.tcp.filter(|_| case.shm)?;
    match mode {
        // (Of so few numbers none may be the library's.)
        Mode::Smc if tcp > 3 + run.early && !case.way.has_few_numbers() => {
            Some(format!("  {role}, {mode:?}: {tcp} payload bytes went over TCP"))
        }
        Mode::Plain | Mode::ServerOnly | Mode::ClientOnly if tcp < 3 => {
            Some(format!("  {role}, {mode:?}: only {tcp} payload bytes went over TCP"))
        }
        _ => None,
    }
}
