//! What memory there is for this process: of the machine, of its cgroup, of its address space. Owns: that
//! whatever cannot be read counts as without bound.

use crate::file;
use core::ffi::CStr;

/// Longest path of a cgroup's file.
const PATH_LEN: usize = 384;
/// A bound above this is none.
const BOUNDLESS: u64 = 1 << 60;

/// What there is, in bytes; [`u64::MAX`] for what has no bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// Memory of the machine.
    pub machine: u64,
    /// What of it could be had now without swapping.
    pub available: u64,
    /// The lowest limit of the cgroups that this process is in.
    pub cgroup: u64,
    /// The cgroup with that limit, by its inode; 0 for none.
    pub domain: u64,
    /// RLIMIT_AS; of a process that locks all it maps, what it may lock if that is less.
    pub address_space: u64,
}

/// Looks. (What it asks has frames of its own, one after the other: texts take room on the stack.)
#[inline(never)]
pub fn look() -> Room {
    let [machine, available] = of_machine();
    let (cgroup, domain) = of_cgroup();
    let address_space = crate::limits::address_space().min(lockable());
    Room { machine, available, cgroup, domain, address_space }
}

/// The lowest limit of the cgroups that this process is in.
#[inline(never)]
pub fn of_cgroups() -> u64 {
    of_cgroup().0
}

/// What this process may lock, if it locks whatever it maps (mlockall): then our memory counts, too, and the
/// program's own calls fail when that is used up.
#[inline(never)]
fn lockable() -> u64 {
    const CAP_IPC_LOCK: u32 = 14;
    let limit = crate::limits::lockable();
    let is_bound =
        limit < BOUNDLESS && locks_all() && crate::process::capabilities().0 & 1 << CAP_IPC_LOCK == 0;
    if is_bound { limit } else { u64::MAX }
}

/// Whether most of what is mapped is locked. (Who keeps a key out of the swap has some pages locked.)
fn locks_all() -> bool {
    let mut text = [0u8; 2048];
    let text = file::read_start(c"/proc/self/status", &mut text).unwrap_or_default();
    is_mostly_locked(text)
}

fn is_mostly_locked(status: &[u8]) -> bool {
    let of = |key: &[u8]| number_after(status, key).unwrap_or(0);
    let locked = of(b"VmLck:\t");
    locked != 0 && locked >= of(b"VmSize:\t") / 2
}

/// The number behind `key`.
fn number_after(text: &[u8], key: &[u8]) -> Option<u64> {
    let at = text.windows(key.len()).position(|window| window == key)? + key.len();
    number(&text[at..])
}

fn number(text: &[u8]) -> Option<u64> {
    let digits = text.iter().skip_while(|byte| **byte == b' ').take_while(|byte| byte.is_ascii_digit());
    let mut digits = digits.peekable();
    digits.peek()?;
    Some(digits.fold(0u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'))))
}

fn of_machine() -> [u64; 2] {
    let mut text = [0u8; 256];
    let text = file::read_start(c"/proc/meminfo", &mut text).unwrap_or_default();
    let of = |key: &[u8]| number_after(text, key).map_or(u64::MAX, |kib| kib.saturating_mul(1024));
    [of(b"MemTotal:"), of(b"MemAvailable:")]
}

/// Where the limits of a hierarchy lie.
struct Hierarchy {
    folder: &'static [u8],
    file: &'static [u8],
}

const SECOND: Hierarchy = Hierarchy { folder: b"/sys/fs/cgroup", file: b"/memory.max" };
const FIRST: Hierarchy = Hierarchy { folder: b"/sys/fs/cgroup/memory", file: b"/memory.limit_in_bytes" };

/// This process's place in the hierarchy that has a say on memory, from the lines of /proc/self/cgroup
/// (cgroups(7)).
fn place_in(lines: &[u8]) -> Option<(&'static Hierarchy, &[u8])> {
    let fields = |line: &'_ [u8]| -> Option<(usize, usize)> {
        let first = line.iter().position(|byte| *byte == b':')?;
        let second = line[first + 1..].iter().position(|byte| *byte == b':')?;
        Some((first + 1, first + 1 + second))
    };
    let mut second = None;
    for line in lines.split(|byte| *byte == b'\n') {
        let Some((from, to)) = fields(line) else { continue };
        let (controllers, path) = (&line[from..to], &line[to + 1..]);
        if controllers.split(|byte| *byte == b',').any(|one| one == b"memory") {
            return Some((&FIRST, path));
        }
        if controllers.is_empty() {
            second = Some((&SECOND, path));
        }
    }
    second
}

/// The lowest limit from this process's cgroup up to the root, and the inode of the cgroup that has it.
fn of_cgroup() -> (u64, u64) {
    let mut lines = [0u8; 1024];
    let lines = file::read_start(c"/proc/self/cgroup", &mut lines).unwrap_or_default();
    let Some((hierarchy, mut path)) = place_in(lines) else { return (u64::MAX, 0) };
    let mut found = (u64::MAX, 0);
    loop {
        path = path.strip_suffix(b"/").unwrap_or(path);
        if let Some(limit) = limit_at(hierarchy, path).filter(|limit| *limit < found.0) {
            found = (limit, inode_at(hierarchy, path));
        }
        let Some(above) = path.iter().rposition(|byte| *byte == b'/') else { return found };
        path = &path[..above];
    }
}

fn joined<'a>(parts: [&[u8]; 3], into: &'a mut [u8; PATH_LEN]) -> Option<&'a CStr> {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    if len >= PATH_LEN {
        return None;
    }
    for (byte, from) in into.iter_mut().zip(parts.into_iter().flatten()) {
        *byte = *from;
    }
    into[len] = 0;
    CStr::from_bytes_until_nul(into).ok()
}

fn limit_at(hierarchy: &Hierarchy, path: &[u8]) -> Option<u64> {
    let (mut name, mut text) = ([0; PATH_LEN], [0u8; 32]);
    let name = joined([hierarchy.folder, path, hierarchy.file], &mut name)?;
    // ("max" is no number.)
    number(file::read_start(name, &mut text).ok()?).filter(|limit| *limit < BOUNDLESS)
}

fn inode_at(hierarchy: &Hierarchy, path: &[u8]) -> u64 {
    let mut name = [0; PATH_LEN];
    let about = joined([hierarchy.folder, path, b""], &mut name).and_then(|name| file::about_name(name).ok());
    about.map_or(0, |about| about.identity.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_behind_their_keys() {
        let text = b"MemTotal:       24683332 kB\nMemFree:  1 kB\nMemAvailable:   24072876 kB\n";
        assert_eq!(number_after(text, b"MemTotal:"), Some(24_683_332));
        assert_eq!(number_after(text, b"MemAvailable:"), Some(24_072_876));
        assert_eq!((number_after(text, b"Swap:"), number(b"max\n")), (None, None));
    }

    #[test]
    fn who_has_a_few_pages_locked_does_not_lock_all() {
        let status =
            b"VmPeak:\t    9000 kB\nVmSize:\t    8000 kB\nVmLck:\t      32 kB\nVmPin:\t       0 kB\n";
        assert!(!is_mostly_locked(status) && !is_mostly_locked(b""));
        assert!(is_mostly_locked(b"VmSize:\t    8000 kB\nVmLck:\t    7996 kB\n"));
    }

    #[test]
    fn the_hierarchy_that_limits_memory_is_found() {
        let mixed = b"9:name=systemd:/a\n4:cpu,memory:/b/c\n0::/d\n";
        assert_eq!(place_in(mixed).map(|(at, path)| (at.file, path)), Some((FIRST.file, &b"/b/c"[..])));
        let second = b"0::/user.slice\n";
        assert_eq!(
            place_in(second).map(|(at, path)| (at.file, path)),
            Some((SECOND.file, &b"/user.slice"[..]))
        );
        assert!(place_in(b"").is_none());
    }

    #[test]
    fn this_machine_has_memory() {
        let room = look();
        assert!(room.machine >= room.available && room.available > 0, "{room:?}");
        assert_eq!(room.domain == 0, room.cgroup == u64::MAX, "{room:?}");
    }
}
