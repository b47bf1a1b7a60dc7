//! Processes as proc(5) shows them: who descends from whom, and how long they were on a CPU. Only reads.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// All descendants of `root`, without itself.
pub(crate) fn descendants(root: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (pid, stat) in all() {
        children.entry(stat.parent).or_default().push(pid);
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

fn reaped_ns(pid: u32) -> Option<u64> {
    Some(stat(pid)?.reaped_ticks * (1_000_000_000 / rustix::param::clock_ticks_per_second()))
}

struct Stat {
    parent: u32,
    /// cutime and cstime.
    reaped_ticks: u64,
}

fn all() -> impl Iterator<Item = (u32, Stat)> {
    let names = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.file_name());
    let pids: BTreeSet<u32> = names.filter_map(|name| name.to_str()?.parse().ok()).collect();
    pids.into_iter().filter_map(|pid| Some((pid, stat(pid)?)))
}

fn stat(pid: u32) -> Option<Stat> {
    parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The name, in brackets, may hold anything; behind it state is the first field and the parent the second.
fn parse(text: &str) -> Option<Stat> {
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |i: usize| fields.get(i)?.parse::<u64>().ok();
    Some(Stat { parent: fields.get(1)?.parse().ok()?, reaped_ticks: number(13)? + number(14)? })
}

#[cfg(test)]
mod tests {
    use super::{cpu_ns, descendants, parse};
    use std::process::Command;

    #[test]
    fn a_name_with_brackets_does_not_mislead() {
        let stat =
            parse("7 (a) b (c) S 5 7 7 0 -1 4 1 2 3 4 50 60 70 80 20 0 1 0 9").expect("a line of proc(5)");
        assert_eq!((stat.parent, stat.reaped_ticks), (5, 150));
    }

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
