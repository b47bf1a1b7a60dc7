//! `cargo xtask parity [NAME]`: the parity cases in the ways in which a program may meet the library (which
//! ends have it, over which addresses, under which limits; with `--all` each with each other), and a table of
//! what differs from TCP. Invariant: a way's limits hold for the oracle, too, so that what differs is the
//! library's doing.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::exec::{self, Run};
use crate::workspace::Workspace;

/// A way to run the cases.
struct Way {
    name: String,
    /// `$ISTHMUS_MODES`.
    modes: &'static str,
    families: &'static str,
    environment: Settings,
    under: Under,
    /// In how many of the three a way differs from both ends over IPv4 with all that a program may have.
    apart: usize,
}

/// The setting that gives some cases another way in ci, too: others with each number (tests/parity/ways.rs).
pub(crate) const TURN: &str = "PARITY_TURN";

/// Another number for each commit.
pub(crate) fn turn(ws: &Workspace) -> String {
    let head = std::process::Command::new("git")
        .args(["rev-parse", "--short=7", "HEAD"])
        .current_dir(ws.root())
        .output();
    let text = head.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_string()).unwrap_or_default();
    let turn = u64::from_str_radix(&text, 16).unwrap_or(0) % 64;
    println!("   {TURN}={turn}: some parity cases have another way, too");
    turn.to_string()
}

/// What is asked for on the command line.
pub(crate) struct Wanted {
    /// Cases whose titles contain one of these.
    pub(crate) names: Vec<String>,
    /// Ways whose names contain this.
    pub(crate) way: Option<String>,
    /// Ways that differ from the ordinary one in more than one thing, too.
    pub(crate) all: bool,
}

impl Wanted {
    fn has(&self, way: &Way) -> bool {
        match &self.way {
            Some(wanted) if self.all => way.name.contains(wanted.as_str()),
            Some(wanted) => way.name == *wanted || (way.apart < 2 && way.name.contains(wanted.as_str())),
            None => self.all || way.apart < 2,
        }
    }
}

/// What each case is started under.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Under {
    Nothing,
    /// Soft and hard limit of descriptors.
    Descriptors(u32),
    /// A cgroup of so many MiB for the two ends of a case.
    Memory(u32),
}

/// Variables and what they are set to.
type Settings = &'static [(&'static str, &'static str)];

/// Which ends have the library, and what they are told. (The first of each list goes without a name.)
const ENDS: [(&str, &str, Settings); 4] = [
    ("both ends", "smc", &[]),
    ("client only", "client", &[]),
    ("server only", "server", &[]),
    ("no spinning", "smc", &[("SMC_SPIN", "0")]),
];
const FAMILIES: [(&str, &str); 3] = [("IPv4", "4"), ("IPv6", "6"), ("IPv4 to IPv6", "dual")];
const LIMITS: [(&str, Under); 3] =
    [("no limit", Under::Nothing), ("64 descriptors", Under::Descriptors(64)), ("64 MiB", Under::Memory(64))];

/// Each end, family and limit with each other, the ordinary ones first.
fn ways() -> Vec<Way> {
    let mut ways = vec![];
    for (limit, &(under_name, under)) in LIMITS.iter().enumerate() {
        for (family, &(family_name, families)) in FAMILIES.iter().enumerate() {
            for (end, &(ends_name, modes, environment)) in ENDS.iter().enumerate() {
                let names = [(end, ends_name), (family, family_name), (limit, under_name)];
                let apart: Vec<&str> =
                    names.iter().filter(|(nth, _)| *nth > 0).map(|(_, name)| *name).collect();
                let name = if apart.is_empty() { ends_name.to_string() } else { apart.join(", ") };
                ways.push(Way { name, modes, families, environment, under, apart: apart.len() });
            }
        }
    }
    ways.sort_by_key(|way| way.apart);
    ways
}

/// What the cases of one way said.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    passed: u64,
    /// Differ by a cause that LIMITATIONS.md has (tests/parity/ways.rs).
    known: Vec<String>,
    /// Failed without the library, too: they need more than the way allows, or another address.
    beyond: Vec<String>,
    differing: Vec<String>,
}

struct Outcome<'a> {
    way: &'a Way,
    said: Said,
    /// Differed, and did not when they ran again.
    once: Vec<String>,
    seconds: u64,
}

/// Runs the wanted ways, prints the table and fails where a case differs.
pub(crate) fn parity(ws: &Workspace, wanted: &Wanted) -> anyhow::Result<()> {
    crate::suites::laid_out(ws)?;
    let folder = ws.target().join("parity");
    fs::create_dir_all(&folder)?;
    let (ways, mut outcomes) = (ways(), vec![]);
    for way in ways.iter().filter(|way| wanted.has(way)) {
        match one(ws, way, &wanted.names, &folder)? {
            Some(outcome) => {
                println!("{}\n{}", HEAD, row(&outcome));
                outcomes.push(outcome);
            }
            None => println!("{}: skipped: only root may make a cgroup", way.name),
        }
    }
    println!("\n{HEAD}");
    outcomes.iter().for_each(|outcome| println!("{}", row(outcome)));
    let differing: usize = outcomes.iter().map(|outcome| outcome.said.differing.len()).sum();
    if differing > 0 || outcomes.is_empty() {
        bail!(
            "{differing} cases differ.\n   How to fix it: {}/WAY.log has the lines in which they part",
            folder.display()
        );
    }
    Ok(())
}

const HEAD: &str = "| way | passed | differ | once of two | known | not even over TCP | took |\n|---|--:|---|---|---|---|--:|";

fn row(outcome: &Outcome<'_>) -> String {
    let Outcome { way, said, once, seconds } = outcome;
    let [differing, once, known, beyond] =
        [&said.differing, once, &said.known, &said.beyond].map(|names| names.join(" "));
    format!("| {} | {} | {differing} | {once} | {known} | {beyond} | {seconds} s |", way.name, said.passed)
}

fn one<'a>(
    ws: &Workspace,
    way: &'a Way,
    names: &[String],
    folder: &Path,
) -> anyhow::Result<Option<Outcome<'a>>> {
    exec::interrupted()?;
    let scratch = tempfile::Builder::new().prefix("isthmus-parity-").tempdir()?;
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o1777))?;
    let Some(under) = Wrap::new(way.under, scratch.path())? else { return Ok(None) };
    let path = folder.join(format!("{}.log", way.name.replace(' ', "-")));
    let begun = Instant::now();
    println!("== {}", way.name);
    let mut said = run(ws, way, &under, names, &path)?;
    let mut once = vec![];
    if !said.differing.is_empty() {
        let again = run(ws, way, &under, &said.differing, &path.with_extension("again.log"))?;
        once = said.differing.extract_if(.., |case| !again.differing.contains(case)).collect();
    }
    Ok(Some(Outcome { way, said, once, seconds: begun.elapsed().as_secs() }))
}

/// Runs the cases whose titles contain one of the names, in one way.
fn run(ws: &Workspace, way: &Way, under: &Wrap, names: &[String], path: &Path) -> anyhow::Result<Said> {
    let log = File::create(path)?;
    let run = Run::cargo("the log tells")
        .args(["test", "--quiet", "--package", "isthmus-tests", "--test", "parity", "--"])
        .args(names)
        .limit(Duration::from_secs(3600))
        .with(|c| {
            c.current_dir(ws.root()).env("ISTHMUS_DIST", ws.dist()).env("ISTHMUS_MODES", way.modes);
            c.env("PARITY_FAMILIES", way.families).envs(way.environment.iter().copied()).stdout(log);
            if let Under::Descriptors(count) = way.under {
                c.env("PARITY_DESCRIPTORS", count.to_string());
            }
            if let Some(program) = &under.program {
                c.env("PARITY_WRAP", program);
            }
        });
    let is_fine = run.go().is_ok();
    exec::interrupted()?;
    let said = read(&fs::read_to_string(path)?)
        .with_context(|| format!("{}: no result in {}", way.name, path.display()))?;
    if !is_fine && said.differing.is_empty() && said.beyond.is_empty() {
        bail!("{}: failed, and no case did: see {}", way.name, path.display());
    }
    Ok(said)
}

/// From what the test printed: a result, the names of the cases that failed, and below each why.
fn read(text: &str) -> Option<Said> {
    let result = text.lines().find_map(|line| line.strip_prefix("test result: "))?;
    let passed = result.split(' ').next()?.parse().ok()?;
    let known = text.lines().find_map(|line| line.strip_prefix("known: ")).unwrap_or_default();
    let failed = text.lines().rev().find_map(|line| line.strip_prefix("failed: ")).unwrap_or_default();
    let fails_plain = |name: &&str| {
        let told = text.split(&format!("test {name} ... FAILED")).nth(1).unwrap_or_default();
        let told = told.split("\ntest ").next().unwrap_or_default();
        told.lines()
            .any(|line| line.starts_with("  client, plain: ") || line.starts_with("  server, plain: "))
    };
    let (beyond, differing) = failed.split_whitespace().partition::<Vec<&str>, _>(fails_plain);
    let owned = |names: Vec<&str>| names.into_iter().map(String::from).collect();
    let known = owned(known.split_whitespace().collect());
    Some(Said { passed, known, beyond: owned(beyond), differing: owned(differing) })
}

/// The program that starts each case, and the cgroup in which each case has one; removed when dropped.
struct Wrap {
    program: Option<PathBuf>,
    group: Option<PathBuf>,
}

impl Wrap {
    /// `None` where this user may not.
    fn new(under: Under, folder: &Path) -> anyhow::Result<Option<Wrap>> {
        let Under::Memory(mib) = under else { return Ok(Some(Wrap { program: None, group: None })) };
        let Some((group, limit)) = group(mib) else { return Ok(None) };
        let own = format!("{}/$$", group.display());
        let script = format!(
            "mkdir -p {own} && echo {mib}M > {own}/{limit} && echo $$ > {own}/cgroup.procs && exec \"$@\""
        );
        let program = folder.join("wrap");
        fs::write(&program, format!("#!/bin/sh\n{script}\n"))?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
        Ok(Some(Wrap { program: Some(program), group: Some(group) }))
    }
}

impl Drop for Wrap {
    fn drop(&mut self) {
        if let Some(group) = &self.group {
            // What was in them has ended, or is ending.
            exec::end_descendants();
            remove(group);
        }
    }
}

/// Removes a cgroup with those in it.
fn remove(group: &Path) {
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
    let _ = fs::remove_dir(group);
}

/// A cgroup whose children may be limited to so many MiB of memory, by either version of the kernel's
/// interface, and the name of that limit.
fn group(mib: u32) -> Option<(PathBuf, &'static str)> {
    let name = format!("isthmus-parity-{}", std::process::id());
    let versions = [("memory/", "memory.limit_in_bytes"), ("", "memory.max")];
    versions.into_iter().find_map(|(controller, limit)| {
        let group = Path::new("/sys/fs/cgroup").join(format!("{controller}{name}"));
        fs::create_dir(&group).ok()?;
        // (The first version has no such file, and needs none.)
        let _ = fs::write(group.join("cgroup.subtree_control"), "+memory");
        let first = group.join("first");
        let is_limited =
            fs::create_dir(&first).and_then(|()| fs::write(first.join(limit), format!("{mib}M")));
        if is_limited.is_err() {
            remove(&group);
            return None;
        }
        Some((group, limit))
    })
}

#[cfg(test)]
mod tests {
    use super::{Said, read, ways};

    #[test]
    fn every_end_family_and_limit_meets_each_other_once() {
        let ways = ways();
        let names: std::collections::HashSet<&str> = ways.iter().map(|way| way.name.as_str()).collect();
        assert_eq!((ways.len(), names.len(), ways.iter().filter(|way| way.apart < 2).count()), (36, 36, 8));
        assert!(names.contains("both ends") && names.contains("client only, IPv6, 64 descriptors"));
    }

    #[test]
    fn what_fails_over_tcp_as_well_is_told_apart() {
        let text = "test a.b ... ok (3 ms)\ntest x.y ... FAILED (3 ms)\n  client, Smc:\n    - TCP  1\n    + this 2\n\
                    test z/6 ... FAILED (1 ms)\n  client, plain: exit status: 101\n\n\
                    known: k.w\ntest result: 4 passed; 2 failed\nfailed: x.y z/6\n";
        let [known, beyond, differing] = ["k.w", "z/6", "x.y"].map(|name| vec![name.to_string()]);
        let said = Said { passed: 4, known, beyond, differing };
        assert_eq!(read(text), Some(said));
        assert_eq!(read("test result: 4 passed; 0 failed\n"), Some(Said { passed: 4, ..Said::default() }));
        assert_eq!(read("nothing"), None);
    }
}
