//! Random styles of TCP programs against checksums: over plain TCP, where a run must be clean, and with both
//! ends enabled: with spinning, without, with connections that go back to TCP at random, and between two
//! containers. Invariant: a round passes only if its program found no fault and, where both ends are enabled,
//! most connections used shared memory (of those that go back, some did).
//!
//! TORTURE_SECONDS is the time of a round (20), TORTURE_SEED a comma-separated list of seeds, TORTURE_ROUNDS
//! a list of plain, spin, nospin, home, homes and far, TORTURE_PATIENCE the seconds without progress that are
//! a hang (30). With TORTURE_HOLD a process that finds a fault stays as it is, for a look at it with other
//! tools.

use isthmus_tests::containers::Containers;
use isthmus_tests::{Bed, Mode, has_variant};
use std::process::Command;
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_torture-load");

/// Percent of the connections that must use shared memory. All could, but a client whose server is busy for
/// more than a second goes on over TCP, and so many are on a machine that has other things to do, too.
const LEAST_SHARE: u64 = 70;

/// A kind of round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    Spin,
    NoSpin,
    /// Spinning, and connections go back to TCP at any moment.
    Home,
    /// The same of short connections, many at a time.
    Homes,
    /// Servers and clients in two containers.
    Far,
}

struct Round {
    kind: Kind,
    seed: u64,
    /// All connections follow the script of this one.
    only: Option<u64>,
}

/// Scripts that have failed, by seed and number of the connection, each alone for some seconds: a client that
/// has sent all it has and closes in the moment in which the server's end takes the memory, which then hands
/// itself on over exec; one whose next program finds the memory given up; one that goes home while its
/// process is out of the registry, and is passed on; and one whose process leaves the registry with bytes
/// unread, and becomes another program.
const KNOWN: [(Kind, u64, u64); 5] = [
    (Kind::Spin, 12, 6551),
    (Kind::Spin, 11, 4947),
    (Kind::Home, 3, 1143),
    (Kind::Home, 11, 1250),
    (Kind::Home, 1, 3256),
];
const KNOWN_SECONDS: u64 = 10;

fn setting(name: &str, default: &str) -> String {
    std::env::var(name).ok().filter(|v| !v.is_empty()).unwrap_or_else(|| default.to_string())
}

fn seconds() -> u64 {
    setting("TORTURE_SECONDS", "20").parse().expect("TORTURE_SECONDS is a number")
}

fn rounds() -> Vec<Round> {
    let named = |name: &str| match name {
        "plain" => Kind::Plain,
        "spin" => Kind::Spin,
        "nospin" => Kind::NoSpin,
        "home" => Kind::Home,
        "homes" => Kind::Homes,
        "far" => Kind::Far,
        other => panic!("TORTURE_ROUNDS: no round named {other}"),
    };
    let kinds: Vec<Kind> =
        setting("TORTURE_ROUNDS", "plain,spin,nospin,home,homes,far").split(',').map(named).collect();
    let seeds = setting("TORTURE_SEED", "1");
    let seeds = seeds.split(',').map(|s| s.parse().expect("TORTURE_SEED holds numbers"));
    let all = seeds.flat_map(|seed| kinds.iter().map(move |kind| Round { kind: *kind, seed, only: None }));
    // (Each once where several runs share the work.)
    let known = KNOWN.into_iter().enumerate().filter(|(nth, _)| has_variant("torture", *nth));
    let known = known.map(|(_, (kind, seed, only))| Round { kind, seed, only: Some(only) });
    let wanted = Mode::wanted();
    all.chain(known).filter(|r| wanted.contains(&r.mode())).collect()
}

impl Round {
    fn mode(&self) -> Mode {
        if self.kind == Kind::Plain { Mode::Plain } else { Mode::Smc }
    }

    fn title(&self) -> String {
        let only = self.only.map_or_else(String::new, |number| format!(".only-{number}"));
        format!("{:?}.seed-{}{only}", self.kind, self.seed).to_lowercase()
    }

    /// What was wrong, if anything.
    fn run(&self) -> Result<(), String> {
        let containers = match self.kind {
            Kind::Far => match Containers::new("torture-far", "") {
                Some(both) => Some(both),
                None => return Ok(()),
            },
            _ => None,
        };
        let bed = Bed::new("torture", self.mode());
        let mut command = containers.as_ref().map_or_else(|| bed.plain(PROGRAM), in_containers);
        let folder = bed.scratch.path().to_string_lossy().into_owned();
        let seconds = self.only.map_or_else(seconds, |_| KNOWN_SECONDS);
        command.args(["run", &folder, &self.seed.to_string(), &seconds.to_string()]);
        if let Some(number) = self.only {
            command.env("TORTURE_ONLY", number.to_string());
        }
        command.env("TORTURE_PROGRAM", PROGRAM).env("TORTURE_PATIENCE", setting("TORTURE_PATIENCE", "30"));
        if let Some(library) = bed.library() {
            command.env("TORTURE_LIBRARY", library);
        }
        // (All of its connections are brief, and it is about shared memory.)
        command.env("SMC_BRIEF", "0");
        if self.kind == Kind::NoSpin {
            command.env("SMC_SPIN", "0");
        }
        if self.kind == Kind::Homes {
            command.env("TORTURE_BRIEF", "1");
        }
        if matches!(self.kind, Kind::Home | Kind::Homes)
            && let Some(tool) = bed.tool_command("smc_run")
        {
            command.env("TORTURE_HOME", tool.get_program());
        }
        let limit = Duration::from_secs(seconds * 2 + 300);
        let outcome = bed.run(&mut command, "run", limit);
        print!("{}", outcome.out);
        eprint!("{}", outcome.err);
        if !outcome.ok() {
            return Err(outcome.status.map_or("hung".into(), |s| s.to_string()));
        }
        // (A known script may be over before its server looks: it is held to be clean.)
        if self.only.is_some() { Ok(()) } else { carrier(self.kind, &bed, &outcome.out) }
    }
}

/// The program in the servers' container, which starts its clients in the other one.
fn in_containers(both: &Containers) -> Command {
    both.publish_loopback();
    let mut command = both.inside(0, "servers", false, PROGRAM);
    command.env("TORTURE_NETWORK", both.network(1)).env("TORTURE_REGISTRY", both.registry(1, "clients"));
    command.current_dir(both.scratch.path());
    command
}

/// Connections must have gone the way that the round is about.
fn carrier(kind: Kind, bed: &Bed, out: &str) -> Result<(), String> {
    let share = out.split(" % of ").next().and_then(|head| head.split(' ').next_back()?.parse::<u64>().ok());
    let handshakes = bed.handshakes();
    match (kind, share) {
        (Kind::Plain, Some(0)) => Ok(()),
        (Kind::Home | Kind::Homes, _) => gone_home(kind, bed, handshakes, out),
        (Kind::Spin | Kind::NoSpin, Some(LEAST_SHARE..)) if handshakes > 0 => Ok(()),
        // (Each container has a registry of its own.)
        (Kind::Far, Some(LEAST_SHARE..)) => Ok(()),
        _ => Err(format!("{share:?} % used shared memory, and smcd stats counts {handshakes} connections")),
    }
}

/// How many ends have gone back to TCP, by whose doing. (A registry that all have left counts anew: of the
/// operator's doing he himself tells.)
fn gone_home(kind: Kind, bed: &Bed, handshakes: u64, out: &str) -> Result<(), String> {
    let text = bed.tool("smcd", &["-d", "-a", "stats"]);
    let lines = text.lines().filter(|line| line.split_whitespace().next() == Some("MEMORY"));
    let by_themselves: u64 =
        lines.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum();
    let told = out.lines().find(|line| line.contains("taken off shared memory by the operator"));
    let by_operator: u64 = told.and_then(|line| line.split(' ').next()?.parse().ok()).unwrap_or(0);
    println!(
        "ends that went back to TCP: {by_themselves} for want of a descriptor; by an operator {by_operator}"
    );
    match (by_themselves > 0 || kind == Kind::Homes) && by_operator > 0 && handshakes > 0 {
        true => Ok(()),
        false => Err("no end went back to TCP in one of the two ways".to_string()),
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let filters: Vec<&String> = args.iter().filter(|a| !a.starts_with('-')).collect();
    let mut rounds = rounds();
    rounds.retain(|r| filters.is_empty() || filters.iter().any(|f| r.title().contains(f.as_str())));
    if args.iter().any(|a| a == "--list") {
        rounds.iter().for_each(|r| println!("{}: test", r.title()));
        return;
    }
    println!("\nrunning {} rounds of torture, {} s each", rounds.len(), seconds());
    let mut failed = Vec::new();
    for round in &rounds {
        println!("round {}", round.title());
        match round.run() {
            Ok(()) => println!("round {} ... ok", round.title()),
            Err(why) => {
                println!("round {} ... FAILED: {why}", round.title());
                failed.push(round.title());
            }
        }
    }
    println!("\ntest result: {} passed; {} failed", rounds.len() - failed.len(), failed.len());
    if !failed.is_empty() {
        println!("failed: {}", failed.join(" "));
        std::process::exit(101);
    }
}
