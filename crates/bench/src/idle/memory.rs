//! Memory of processes as proc(5) tells it in smaps_rollup. Files are left out: a program's text is shared with whoever
//! runs the same program, and says nothing about connections.

use std::collections::HashMap;
use std::iter::Sum;

use procfs::process::Process;

/// Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Memory {
    /// Resident, files included: what ps and top show.
    pub(super) resident: i64,
    /// Anonymous and shared memory in proportion: what several processes map is divided among them, so that a sum over
    /// all of them counts it once.
    pub(super) proportional: i64,
}

impl Memory {
    /// Of all these processes.
    pub(super) fn of(pids: &[u32]) -> Self {
        let processes = pids.iter().filter_map(|pid| Process::new(pid.cast_signed()).ok());
        let sums = processes.filter_map(|process| process.smaps_rollup().ok()?.memory_map_rollup.0.pop());
        sums.map(|all| Self::read(&all.extension.map)).sum()
    }

    /// Kernels before 5.4 do not divide Pss by kind; there files count.
    fn read(all: &HashMap<String, u64>) -> Self {
        let bytes = |name: &str| all.get(name).map(|bytes| bytes.cast_signed());
        let kinds = bytes("Pss_Anon").zip(bytes("Pss_Shmem")).map(|(anonymous, shared)| anonymous + shared);
        Self {
            resident: bytes("Rss").unwrap_or_default(),
            proportional: kinds.or(bytes("Pss")).unwrap_or_default(),
        }
    }

    /// What has come since `before`, for each of `connections`.
    pub(super) fn per_connection(self, before: Self, connections: u32) -> Self {
        let each = |now: i64, before: i64| (now - before) / i64::from(connections.max(1));
        Self {
            resident: each(self.resident, before.resident),
            proportional: each(self.proportional, before.proportional),
        }
    }
}

impl Sum for Memory {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            resident: sum.resident + one.resident,
            proportional: sum.proportional + one.proportional,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Memory;

    #[test]
    fn text_of_programs_does_not_count() {
        let table = [("Rss", 5512), ("Pss", 1337), ("Pss_Anon", 460), ("Pss_File", 637), ("Pss_Shmem", 240)];
        let mut all = table.map(|(name, bytes)| (name.to_owned(), bytes)).into();
        assert_eq!(Memory::read(&all), Memory { resident: 5512, proportional: 700 });
        all.remove("Pss_Anon");
        assert_eq!(Memory::read(&all).proportional, 1337, "a kernel that does not divide");
    }

    #[test]
    fn what_came_is_divided_among_connections() {
        let before = Memory { resident: 1000, proportional: 100 };
        let now = Memory { resident: 9000, proportional: 2100 };
        let each = now.per_connection(before, 4);
        assert_eq!((each.resident, each.proportional), (2000, 500));
    }

    #[test]
    fn own_memory_is_known() {
        assert!(Memory::of(&[std::process::id()]).proportional > 0);
        assert_eq!(Memory::of(&[]), Memory::default());
    }
}
