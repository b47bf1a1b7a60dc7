//! Processes as proc(5) shows them: who descends from whom, and how long they were on a CPU. Only reads.

use std::collections::BTreeMap;
use std::fs;

use procfs::process::{Process, all_processes};

/// All descendants of `root`, without itself.
pub(crate) fn descendants(root: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (pid, parent) in all() {
        children.entry(parent).or_default().push(pid);
    }
    let (mut found, mut next) = (vec![], 0);
    found.extend(children.remove(&root).unwrap_or_default());
    while let Some(&pid) = found.get(next) {
        found.extend(children.remove(&pid).unwrap_or_default());
        next += 1;
    }
    found
}

/// Nanoseconds that the descendants of `root` were on a CPU so far, those that have ended and were waited for included.
/// The latter count in ticks of a hundredth of a second, and a thread that has ended in a process that lives counts
/// nothing.
pub(crate) fn cpu_ns(root: u32) -> u64 {
    descendants(root).into_iter().filter_map(|pid| Some(threads_ns(pid) + reaped_ns(pid)?)).sum()
}

/// First field of schedstat, of every thread.
fn threads_ns(pid: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let texts = threads.filter_map(|thread| fs::read_to_string(thread.path().join("schedstat")).ok());
    texts.filter_map(|text| text.split_whitespace().next()?.parse::<u64>().ok()).sum()
}

/// Of children that have ended.
fn reaped_ns(pid: u32) -> Option<u64> {
    let stat = Process::new(pid.cast_signed()).and_then(|process| process.stat()).ok()?;
    Some((stat.cutime + stat.cstime).cast_unsigned() * (1_000_000_000 / procfs::ticks_per_second().max(1)))
}

/// Process and parent, of all that can be seen.
fn all() -> impl Iterator<Item = (u32, u32)> {
    let stats = all_processes().into_iter().flatten().flatten().filter_map(|process| process.stat().ok());
    stats.map(|stat| (stat.pid.cast_unsigned(), stat.ppid.cast_unsigned()))
}

#[cfg(test)]
mod tests {
    use super::{cpu_ns, descendants};
    use std::process::Command;

    #[test]
    fn a_child_descends_from_us_and_uses_time() {
        let mut child = Command::new("sleep").arg("30").spawn().expect("sleep runs");
        assert!(descendants(std::process::id()).contains(&child.id()));
        assert!(cpu_ns(std::process::id()) > 0, "starting takes time");
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        assert!(!descendants(std::process::id()).contains(&child.id()));
    }
}
