//! `cargo xtask parity [NAME]`: the parity cases in all the ways in which a program may meet the library, and
//! a table of what differs from TCP. Invariant: a way's limits hold for the oracle, too, so that what differs
//! is the library's doing.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::exec::{self, Run};
use crate::workspace::Workspace;

/// A way to run the cases.
struct Way {
    name: &'static str,
    /// `$ISTHMUS_MODES`.
    modes: &'static str,
    families: &'static str,
    environment: &'static [(&'static str, &'static str)],
    under: Under,
}

/// What each case is started under.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Under {
    Nothing,
    /// Soft and hard limit of descriptors.
    Descriptors(u32),
    /// A cgroup of so many MiB, which all of its processes share.
    Memory(u32),
}

const fn way(name: &'static str, modes: &'static str) -> Way {
    Way { name, modes, families: "4", environment: &[], under: Under::Nothing }
}

const WAYS: [Way; 8] = [
    way("both ends", "smc"),
    way("client only", "client"),
    way("server only", "server"),
    Way { environment: &[("SMC_SPIN", "0")], ..way("no spinning", "smc") },
    Way { families: "6", ..way("IPv6", "smc") },
    Way { families: "dual", ..way("IPv4 to IPv6", "smc") },
    Way { under: Under::Descriptors(64), ..way("64 descriptors", "smc") },
    Way { under: Under::Memory(64), ..way("64 MiB", "smc") },
];

/// What differs by a cause that LIMITATIONS.md has: way, cases, cause.
const KNOWN: [(&str, &[&str], &str); 1] = [(
    "64 descriptors",
    &[
        "ends.shut_rd",
        "ends.shut_rdwr",
        "ends.shut_wr",
        "fds.many_connections",
        "left.many_sockets_polled",
        "sharer.killed_writer_is_not_waited_for",
    ],
    "where the hard limit leaves no other numbers, doorbells come out of the program's own from half of it on: EMFILE \
     comes sooner, or a connection stays on TCP",
)];

/// What the cases of one way said.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    passed: u64,
    /// Failed without the library, too: they need more than the way allows, or another address.
    beyond: Vec<String>,
    differing: Vec<String>,
}

struct Outcome {
    way: &'static str,
    said: Said,
    known: Vec<String>,
    seconds: u64,
}

/// Runs the wanted ways, prints the table and fails where a case differs.
pub(crate) fn parity(ws: &Workspace, names: &[String], wanted: Option<&str>) -> anyhow::Result<()> {
    crate::suites::laid_out(ws)?;
    let folder = ws.target().join("parity");
    fs::create_dir_all(&folder)?;
    let mut outcomes = vec![];
    for way in WAYS.iter().filter(|way| wanted.is_none_or(|wanted| way.name.contains(wanted))) {
        match one(ws, way, names, &folder)? {
            Some(outcome) => outcomes.push(outcome),
            None => println!("{}: skipped: only root may make a cgroup", way.name),
        }
    }
    println!("\n| way | passed | differ | known | not even over TCP | took |\n|---|--:|---|---|---|--:|");
    for Outcome { way, said, known, seconds } in &outcomes {
        let (differing, known, beyond) = (said.differing.join(" "), known.join(" "), said.beyond.join(" "));
        println!("| {way} | {} | {differing} | {known} | {beyond} | {seconds} s |", said.passed);
    }
    for (way, _, why) in KNOWN {
        println!("known of {way}: {why}");
    }
    let differing: usize = outcomes.iter().map(|outcome| outcome.said.differing.len()).sum();
    if differing > 0 || outcomes.is_empty() {
        bail!(
            "{differing} cases differ.\n   How to fix it: {}/WAY.log has the lines in which they part",
            folder.display()
        );
    }
    Ok(())
}

fn one(ws: &Workspace, way: &Way, names: &[String], folder: &Path) -> anyhow::Result<Option<Outcome>> {
    exec::interrupted()?;
    let scratch = tempfile::Builder::new().prefix("isthmus-parity-").tempdir()?;
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o1777))?;
    let Some(under) = Wrap::new(way.under, scratch.path())? else { return Ok(None) };
    let path = folder.join(format!("{}.log", way.name.replace(' ', "-")));
    let (log, begun) = (File::create(&path)?, Instant::now());
    println!("== {}", way.name);
    let run = Run::cargo("the log tells")
        .args(["test", "--quiet", "--package", "isthmus-tests", "--test", "parity", "--"])
        .args(names)
        .limit(Duration::from_secs(3600))
        .with(|c| {
            c.current_dir(ws.root()).env("ISTHMUS_DIST", ws.dist()).env("ISTHMUS_MODES", way.modes);
            c.env("PARITY_FAMILIES", way.families).envs(way.environment.iter().copied()).stdout(log);
            if let Some(program) = &under.program {
                c.env("PARITY_WRAP", program);
            }
            if matches!(way.under, Under::Memory(_)) {
                c.env("PARITY_THREADS", "1");
            }
        });
    let is_fine = run.go().is_ok();
    exec::interrupted()?;
    let mut said = read(&fs::read_to_string(&path)?)
        .with_context(|| format!("{}: no result in {}", way.name, path.display()))?;
    if !is_fine && said.differing.is_empty() && said.beyond.is_empty() {
        bail!("{}: failed, and no case did: see {}", way.name, path.display());
    }
    let is_known =
        |case: &mut String| KNOWN.iter().any(|known| known.0 == way.name && known.1.contains(&&**case));
    let known = said.differing.extract_if(.., is_known).collect();
    Ok(Some(Outcome { way: way.name, said, known, seconds: begun.elapsed().as_secs() }))
}

/// From what the test printed: a result, the names of the cases that failed, and below each why.
fn read(text: &str) -> Option<Said> {
    let result = text.lines().find_map(|line| line.strip_prefix("test result: "))?;
    let passed = result.split(' ').next()?.parse().ok()?;
    let failed = text.lines().rev().find_map(|line| line.strip_prefix("failed: ")).unwrap_or_default();
    let fails_plain = |name: &&str| {
        let told = text.split(&format!("test {name} ... FAILED")).nth(1).unwrap_or_default();
        let told = told.split("\ntest ").next().unwrap_or_default();
        told.lines()
            .any(|line| line.starts_with("  client, plain: ") || line.starts_with("  server, plain: "))
    };
    let (beyond, differing) = failed.split_whitespace().partition::<Vec<&str>, _>(fails_plain);
    let owned = |names: Vec<&str>| names.into_iter().map(String::from).collect();
    Some(Said { passed, beyond: owned(beyond), differing: owned(differing) })
}

/// The program that starts each case, and the cgroup that it needs; removed when dropped.
struct Wrap {
    program: Option<PathBuf>,
    group: Option<PathBuf>,
}

impl Wrap {
    /// `None` where this user may not.
    fn new(under: Under, folder: &Path) -> anyhow::Result<Option<Wrap>> {
        let (script, group) = match under {
            Under::Nothing => return Ok(Some(Wrap { program: None, group: None })),
            Under::Descriptors(count) => (format!("ulimit -n {count} && exec \"$@\""), None),
            Under::Memory(mib) => {
                let Some(group) = group(mib) else { return Ok(None) };
                (format!("echo $$ > {}/cgroup.procs && exec \"$@\"", group.display()), Some(group))
            }
        };
        let program = folder.join("wrap");
        fs::write(&program, format!("#!/bin/sh\n{script}\n"))?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
        Ok(Some(Wrap { program: Some(program), group }))
    }
}

impl Drop for Wrap {
    fn drop(&mut self) {
        if let Some(group) = &self.group {
            // What was in it has ended, or is ending.
            exec::end_descendants();
            let _ = fs::remove_dir(group);
        }
    }
}

/// A cgroup of so many MiB of memory, by either version of the kernel's interface.
fn group(mib: u32) -> Option<PathBuf> {
    let name = format!("isthmus-parity-{}", std::process::id());
    let versions = [("memory/", "memory.limit_in_bytes"), ("", "memory.max")];
    versions.into_iter().find_map(|(controller, limit)| {
        let group = Path::new("/sys/fs/cgroup").join(format!("{controller}{name}"));
        fs::create_dir(&group).ok()?;
        if fs::write(group.join(limit), format!("{mib}M")).is_err() {
            let _ = fs::remove_dir(&group);
            return None;
        }
        Some(group)
    })
}

#[cfg(test)]
mod tests {
    use super::{Said, read};

    #[test]
    fn what_fails_over_tcp_as_well_is_told_apart() {
        let text = "test a.b ... ok (3 ms)\ntest x.y ... FAILED (3 ms)\n  client, Smc:\n    - TCP  1\n    + this 2\n\
                    test z/6 ... FAILED (1 ms)\n  client, plain: exit status: 101\n\n\
                    test result: 4 passed; 2 failed\nfailed: x.y z/6\n";
        let said = Said { passed: 4, beyond: vec!["z/6".into()], differing: vec!["x.y".into()] };
        assert_eq!(read(text), Some(said));
        assert_eq!(read("test result: 4 passed; 0 failed\n"), Some(Said { passed: 4, ..Said::default() }));
        assert_eq!(read("nothing"), None);
    }
}
