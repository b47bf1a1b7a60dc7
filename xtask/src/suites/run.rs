//! One part of a suite, one way, to its end or its limit. Invariant: plain and enabled differ in `smc_run`
//! alone: the same script, folder and environment, and, where the kernel allows it, a network of its own
//! each.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::obtain::Room;
use super::verdicts::{Cases, Verdict};
use crate::exec;
use crate::workspace::Workspace;

/// The name of the case that stands for the exit status of the whole part.
pub(super) const END: &str = "(end)";

/// With the library or without.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Plain,
    Enabled,
}

impl Way {
    fn name(self) -> &'static str {
        if self == Way::Plain { "plain" } else { "smc" }
    }
}

/// What one run of a part gave.
pub(super) struct Ran {
    pub(super) cases: Cases,
    /// Connections that the kernel established at accepting ends; 0 without a network of our own.
    pub(super) established: u64,
}

/// Fails where there is nothing to test.
pub(crate) fn laid_out(ws: &Workspace) -> anyhow::Result<()> {
    let (run, library) = (ws.dist().join("bin/smc_run"), ws.dist().join("lib/libsmc-preload.so"));
    if !run.is_file() || !library.is_file() {
        bail!("nothing to test in {}: run cargo xtask dist first", ws.dist().display());
    }
    Ok(())
}

impl Room<'_> {
    /// All of a part.
    pub(super) fn run(&self, part: &str, way: Way) -> anyhow::Result<Ran> {
        let label = format!("{}.{}", plain_name(part), way.name());
        let begun = Instant::now();
        let (text, end) = self.script(self.suite.run, part, "", way, &label)?;
        let mut cases = (self.suite.reader)(&text);
        cases.insert(END.into(), end);
        let count = |wanted| cases.values().filter(|verdict| **verdict == wanted).count();
        println!(
            "   {label}: {} passed, {} failed, {} skipped, {} s",
            count(Verdict::Passed),
            count(Verdict::Failed),
            count(Verdict::Skipped),
            begun.elapsed().as_secs()
        );
        Ok(Ran { cases: named(part, cases), established: established(&text) })
    }

    /// One case alone, or its part where the suite cannot be asked for less.
    pub(super) fn run_case(&self, (part, case): &(String, String), way: Way) -> anyhow::Result<Verdict> {
        let alone =
            if self.suite.again.is_empty() || case == END { self.suite.run } else { self.suite.again };
        let label = format!("again.{}", way.name());
        let (text, end) = self.script(alone, part, case, way, &label)?;
        if case == END {
            return Ok(end);
        }
        Ok((self.suite.reader)(&text).get(case).copied().unwrap_or(Verdict::Missing))
    }

    fn script(
        &self,
        script: &str,
        part: &str,
        case: &str,
        way: Way,
        label: &str,
    ) -> anyhow::Result<(String, Verdict)> {
        let log = self.file(&format!("{label}.log"));
        let scratch = tempfile::Builder::new().prefix("isthmus-suite-").tempdir()?;
        let registry =
            if label.starts_with("again.") { scratch.path().join("registry") } else { self.registry() };
        fs::create_dir_all(&registry)?;
        let mut command = self.command(way);
        command.arg(script).current_dir(self.source()).stdin(Stdio::null());
        // Appended, for whoever opens the file again or has another offset in it must not write over the
        // rest.
        fs::write(&log, "")?;
        let output = fs::File::options().append(true).open(&log)?;
        command.stdout(output.try_clone()?).stderr(output);
        command
            .env("PART", part)
            .env("CASE", case)
            .env("TMPDIR", scratch.path())
            .env("SMC_REGISTRY_DIR", &registry);
        let end = ended(command, Duration::from_secs(self.suite.limit))?;
        for stray in exec::end_descendants() {
            println!("   {label} left {stray}");
        }
        Ok((String::from_utf8_lossy(&fs::read(&log)?).into_owned(), end))
    }

    /// A shell that takes its script as the last argument.
    fn command(&self, way: Way) -> Command {
        let mut words: Vec<String> = vec![];
        if own_network() {
            // The counters of the kernel come last, so that they hold what the suite did.
            let inner = "ip link set lo up; \"$@\"; status=$?; grep ^Tcp: /proc/net/snmp; exit $status";
            words.extend(["unshare", "--net", "sh", "-c", inner, "sh"].map(String::from));
        }
        if way == Way::Enabled {
            words.push(self.ws.dist().join("bin/smc_run").display().to_string());
        }
        words.extend(["bash", "-c"].map(String::from));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).process_group(0);
        command.env_remove("LD_PRELOAD").env_remove("RUST_BACKTRACE").env("TERM", "dumb");
        command
    }
}

fn ended(mut command: Command, limit: Duration) -> anyhow::Result<Verdict> {
    let mut child = command.spawn().context("cannot start sh")?;
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            exec::interrupted()?;
            return Ok(if status.success() { Verdict::Passed } else { Verdict::Failed });
        }
        if Instant::now() >= deadline {
            // What is below it follows: whoever calls ends all descendants.
            child.kill()?;
            child.wait()?;
            return Ok(Verdict::Unfinished);
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Root may have one; others share the host's, and then nobody counts for the kernel.
fn own_network() -> bool {
    rustix::process::geteuid().is_root()
}

fn named(part: &str, cases: BTreeMap<String, Verdict>) -> Cases {
    cases.into_iter().map(|(name, verdict)| ((part.to_owned(), name), verdict)).collect()
}

fn plain_name(part: &str) -> String {
    part.chars().map(|c| if c.is_alphanumeric() || "._-".contains(c) { c } else { '_' }).collect()
}

/// `PassiveOpens` of the last pair of lines that begin with `Tcp:` (proc(5), /proc/net/snmp).
fn established(text: &str) -> u64 {
    let mut lines = text.lines().rev().filter(|line| line.starts_with("Tcp:"));
    let (Some(values), Some(names)) = (lines.next(), lines.next()) else { return 0 };
    let column = names.split_whitespace().position(|name| name == "PassiveOpens");
    column.and_then(|at| values.split_whitespace().nth(at)?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{established, plain_name};

    #[test]
    fn the_kernel_s_count_is_found_by_its_name() {
        let text = "Tcp: 1 2 noise of the suite\nTcp: A ActiveOpens PassiveOpens\nTcp: 1 7 9\n";
        assert_eq!((established(text), established("none")), (9, 0));
    }

    #[test]
    fn a_part_becomes_a_file_s_name() {
        assert_eq!(plain_name("a/b c.py"), "a_b_c.py");
    }
}
