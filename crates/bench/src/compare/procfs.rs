//! [`Host`] by way of /proc: the files that proc(5) describes, nothing else.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::compare::quiet::{Glance, Host};

/// Flag of a kernel thread in the ninth field of /proc/PID/stat: PF_KTHREAD of linux/sched.h. Their work may be ours.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// This machine.
pub(crate) struct Procfs {
    root: PathBuf,
    own: u32,
    start: Instant,
    ticks_per_second: u64,
}

impl Procfs {
    /// The clock starts now.
    pub(crate) fn new() -> Self {
        Self {
            root: "/proc".into(),
            own: std::process::id(),
            start: Instant::now(),
            ticks_per_second: rustix::param::clock_ticks_per_second(),
        }
    }

    fn read(&self, file: &str) -> Option<String> {
        std::fs::read_to_string(self.root.join(file)).ok()
    }

    fn ticks(&self, ticks: u64) -> Duration {
        Duration::from_nanos(ticks.saturating_mul(1_000_000_000 / self.ticks_per_second.max(1)))
    }

    /// The first line of /proc/stat: user nice system idle iowait irq softirq steal. Guests' time is in user's.
    fn cpus(&self) -> Option<Glance> {
        let text = self.read("stat")?;
        let fields = text.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
        let times: Vec<Duration> = fields.map_while(|field| Some(self.ticks(field.parse().ok()?))).collect();
        let [user, nice, system, idle, iowait, irq, softirq, steal, ..] = times[..] else { return None };
        let work = user + nice + system;
        Some(Glance { work, idle: idle + iowait, interrupts: irq + softirq, steal, ..Glance::default() })
    }

    /// User and system time of our own tree, and of everybody else. A dead child's time is in its parent's.
    fn processes(&self) -> (Duration, Duration) {
        let all = self.list();
        let tree = descendants(self.own, &all);
        let total = |is_ours| {
            let chosen = all.iter().filter(|(pid, one)| is_ours == tree.contains(pid) && !one.is_kernel);
            self.ticks(chosen.map(|(_, one)| one.ticks).sum())
        };
        (total(true), total(false))
    }

    fn list(&self) -> HashMap<u32, Process> {
        let entries = std::fs::read_dir(&self.root).into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        // One that ended meanwhile is as good as one that was never seen.
        pids.filter_map(|pid| Some((pid, Process::parse(&self.read(&format!("{pid}/stat"))?)?))).collect()
    }

    fn pressure(&self) -> Option<Duration> {
        let text = self.read("pressure/cpu")?;
        let some = text.lines().find(|line| line.starts_with("some "))?;
        Some(Duration::from_micros(some.rsplit_once("total=")?.1.trim().parse().ok()?))
    }

    fn runnable(&self) -> u32 {
        let read = || -> Option<u32> {
            let text = self.read("loadavg")?;
            text.split_whitespace().nth(3)?.split_once('/')?.0.parse().ok()
        };
        read().unwrap_or(0).saturating_sub(1)
    }
}

impl Host for Procfs {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn look(&mut self) -> Option<Glance> {
        let runnable = self.runnable();
        let (own, foreign) = self.processes();
        Some(Glance { own, foreign, pressure: self.pressure(), runnable, at: self.now(), ..self.cpus()? })
    }

    fn pause(&mut self, duration: Duration) {
        std::thread::sleep(duration);
    }
}

/// One line of /proc/PID/stat.
struct Process {
    parent: u32,
    is_kernel: bool,
    /// utime, stime, cutime and cstime.
    ticks: u64,
}

impl Process {
    fn parse(text: &str) -> Option<Self> {
        // Field 3, the state, is the first behind the name, which may hold anything.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        let times = [number(14)?, number(15)?, number(16)?, number(17)?];
        Some(Self {
            parent: number(4)?.try_into().ok()?,
            is_kernel: number(9)? & KERNEL_THREAD != 0,
            ticks: times.iter().sum(),
        })
    }
}

fn descendants(own: u32, all: &HashMap<u32, Process>) -> HashSet<u32> {
    let mut tree = HashSet::from([own]);
    loop {
        let children = all.iter().filter(|(_, one)| tree.contains(&one.parent)).map(|(pid, _)| *pid);
        let more: Vec<u32> = children.filter(|pid| !tree.contains(pid)).collect();
        if more.is_empty() {
            return tree;
        }
        tree.extend(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn stat(pid: u32, name: &str, parent: u32, flags: u64, times: [u64; 4]) -> String {
        let [user, system, child_user, child_system] = times;
        format!(
            "{pid} ({name}) S {parent} 1 1 0 -1 {flags} 0 0 0 0 {user} {system} {child_user} {child_system} 20 0"
        )
    }

    fn example() -> (tempfile::TempDir, Procfs) {
        let folder = tempfile::tempdir().expect("a folder for tests");
        let host =
            Procfs { root: folder.path().into(), own: 10, start: Instant::now(), ticks_per_second: 100 };
        let write = |file: &str, text: &str| {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().expect("below the folder")).expect("made");
            fs::write(path, text).expect("written");
        };
        write("stat", "cpu  100 10 50 800 40 3 7 90 5 5\ncpu0 1 1 1 1\n");
        write("loadavg", "2.61 2.12 1.28 4/149 7120\n");
        write(
            "pressure/cpu",
            "some avg10=91.69 avg60=43.50 avg300=24.70 total=1500000\nfull avg10=0.00 total=0\n",
        );
        write("10/stat", &stat(10, "smc_bench", 1, 0, [1, 2, 3, 4]));
        write("11/stat", &stat(11, "odd ) name (", 10, 0, [10, 0, 0, 0]));
        write("12/stat", &stat(12, "grandchild", 11, 0, [100, 0, 0, 0]));
        write("20/stat", &stat(20, "somebody", 1, 0, [0, 7, 0, 0]));
        write("30/stat", &stat(30, "ksoftirqd/0", 2, KERNEL_THREAD, [0, 5000, 0, 0]));
        (folder, host)
    }

    #[test]
    fn our_tree_is_told_from_everybody_else() {
        let (_folder, mut host) = example();
        let glance = host.look().expect("all files are there");
        assert_eq!(glance.own, Duration::from_millis(1200));
        assert_eq!(glance.foreign, Duration::from_millis(70), "kernel threads are nobody's");
    }

    #[test]
    fn counters_are_read_by_their_places() {
        let (_folder, mut host) = example();
        let glance = host.look().expect("all files are there");
        let ms = Duration::from_millis;
        assert_eq!((glance.work, glance.idle), (ms(1600), ms(8400)));
        assert_eq!((glance.interrupts, glance.steal), (ms(100), ms(900)));
        assert_eq!((glance.pressure, glance.runnable), (Some(ms(1500)), 3));
    }

    #[test]
    fn without_proc_there_is_nothing_to_see() {
        let (folder, mut host) = example();
        fs::remove_file(folder.path().join("stat")).expect("it was there");
        assert_eq!(host.look(), None);
    }

    #[test]
    fn this_machine_can_be_looked_at() {
        let mut host = Procfs::new();
        let glance = host.look().expect("/proc is mounted");
        assert!(glance.idle + glance.work > Duration::ZERO);
    }
}
