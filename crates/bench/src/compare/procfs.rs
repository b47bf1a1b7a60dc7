//! [`Host`] by way of /proc, which the crate procfs reads.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use procfs::process::all_processes;
use procfs::{CpuPressure, Current, CurrentSI, KernelStats, LoadAverage};

use crate::compare::quiet::{Glance, Host};

/// Flag of a kernel thread: PF_KTHREAD of linux/sched.h. Their work may be ours.
const KERNEL_THREAD: u32 = 0x0020_0000;

/// This machine.
pub(crate) struct Procfs {
    start: Instant,
}

impl Procfs {
    /// The clock starts now.
    pub(crate) fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Host for Procfs {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn look(&mut self) -> Option<Glance> {
        let runnable = LoadAverage::current().map_or(0, |load| load.cur).saturating_sub(1);
        let pressure = CpuPressure::current().ok().map(|pressure| Duration::from_micros(pressure.some.total));
        let (own, foreign) = shared_out(std::process::id().cast_signed(), &processes());
        // Guests' time is in user's.
        let cpus = KernelStats::current().ok()?.total;
        let other = |ticks: Option<u64>| time(ticks.unwrap_or_default());
        Some(Glance {
            work: time(cpus.user + cpus.nice + cpus.system),
            interrupts: other(cpus.irq) + other(cpus.softirq),
            steal: other(cpus.steal),
            idle: time(cpus.idle) + other(cpus.iowait),
            own,
            foreign,
            pressure,
            runnable,
            at: self.now(),
        })
    }

    fn pause(&mut self, duration: Duration) {
        std::thread::sleep(duration);
    }
}

fn time(ticks: u64) -> Duration {
    Duration::from_nanos(ticks.saturating_mul(1_000_000_000 / procfs::ticks_per_second().max(1)))
}

/// Of a process.
struct Process {
    pid: i32,
    parent: i32,
    is_kernel: bool,
    /// User and system time, its own and that of children that have ended.
    ticks: u64,
}

/// One that ended meanwhile is as good as one that was never seen.
fn processes() -> Vec<Process> {
    let all = all_processes().into_iter().flatten().flatten().filter_map(|process| process.stat().ok());
    let process = |stat: procfs::process::Stat| Process {
        pid: stat.pid,
        parent: stat.ppid,
        is_kernel: stat.flags & KERNEL_THREAD != 0,
        ticks: stat.utime + stat.stime + (stat.cutime + stat.cstime).cast_unsigned(),
    };
    all.map(process).collect()
}

/// Time of the tree of `own`, and of everybody else.
fn shared_out(own: i32, all: &[Process]) -> (Duration, Duration) {
    let mut tree = HashSet::from([own]);
    while let Some(child) = all.iter().find(|one| tree.contains(&one.parent) && !tree.contains(&one.pid)) {
        tree.insert(child.pid);
    }
    let total = |is_ours| {
        let chosen = all.iter().filter(|one| is_ours == tree.contains(&one.pid) && !one.is_kernel);
        time(chosen.map(|one| one.ticks).sum())
    };
    (total(true), total(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_tree_is_told_from_everybody_else() {
        let process = |pid, parent, is_kernel, ticks| Process { pid, parent, is_kernel, ticks };
        let all = [
            process(12, 11, false, 100),
            process(10, 1, false, 10),
            process(11, 10, false, 10),
            process(20, 1, false, 7),
            process(30, 2, true, 5000),
        ];
        let (own, foreign) = shared_out(10, &all);
        assert_eq!((own, foreign), (time(120), time(7)), "kernel threads are nobody's");
    }

    #[test]
    fn this_machine_can_be_looked_at() {
        let glance = Procfs::new().look().expect("/proc is mounted");
        assert!(glance.idle + glance.work > Duration::ZERO && glance.foreign > Duration::ZERO);
    }
}
