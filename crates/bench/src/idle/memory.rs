//! Memory of processes as proc(5) tells it in smaps_rollup. Files are left out: a program's text is shared with whoever
//! runs the same program, and says nothing about connections.

use std::fs;
use std::iter::Sum;

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
        let texts =
            pids.iter().filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok());
        texts.map(|text| Self::read(&text)).sum()
    }

    /// Kernels before 5.4 do not divide Pss by kind; there files count.
    fn read(text: &str) -> Self {
        let bytes = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|line| line.split_whitespace().next()?.parse::<i64>().ok()).map(|kib| kib * 1024)
        };
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

    const TEXT: &str = "\
556ad2c5d000-7fff3b3fe000 ---p 00000000 00:00 0                          [rollup]
Rss:                5512 kB
Pss:                1337 kB
Pss_Dirty:           700 kB
Pss_Anon:            460 kB
Pss_File:            637 kB
Pss_Shmem:           240 kB
";

    #[test]
    fn text_of_programs_does_not_count() {
        assert_eq!(Memory::read(TEXT), Memory { resident: 5512 * 1024, proportional: 700 * 1024 });
        let old = TEXT.replace("Pss_Anon", "Other");
        assert_eq!(Memory::read(&old).proportional, 1337 * 1024, "a kernel that does not divide");
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
