//! A process as proc(5) shows it. Owns: whether the library is in it, and which registry it uses. Nothing is
//! asked of the process itself, and nothing in it changes.

use crate::{live, registry};
use fabric::observe::REGISTRY_LEN;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Begin of the library's file name; the loader may have followed a link to a name with a version.
const LIBRARY: &[u8] = b"libsmc-preload.so";

/// A process that holds sockets.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    /// Process id.
    pub(crate) pid: u32,
    /// Command name.
    pub(crate) name: String,
    /// Descriptors and inodes of its sockets.
    pub(crate) sockets: Vec<(u32, u64)>,
    /// Descriptors of what may be segments.
    pub(crate) memories: Vec<u32>,
    /// If the library is in it and looks for registries where we do: the user whose registry it uses.
    pub(crate) enabled_as: Option<u32>,
    /// Whether it has a registry mapped.
    pub(crate) has_registry: bool,
    /// If it has none: whether it has no descriptor, or no address space, left for one.
    pub(crate) lacks_room: bool,
    /// Whether a filter of system calls is upon it, behind which the library may not even look.
    pub(crate) is_filtered: bool,
    /// Whether its real, effective and saved users are not one, so that it takes none.
    pub(crate) is_between_users: bool,
}

/// What the descriptors of a process refer to.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    /// Descriptors and inodes of sockets.
    pub(super) sockets: Vec<(u32, u64)>,
    /// Descriptors of registries, and whose their names say they are.
    registries: Vec<(u32, u32)>,
    /// Descriptors of what may be segments.
    memories: Vec<u32>,
    /// How many there are.
    count: usize,
}

/// Every process id in /proc.
pub(super) fn all() -> Vec<u32> {
    let names = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.to_str()?.parse().ok()).collect()
}

fn path(pid: u32, file: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{file}"))
}

/// Inode of the network namespace of a process.
pub(super) fn namespace(pid: u32) -> io::Result<u64> {
    fs::metadata(path(pid, "ns/net")).map(|about| about.ino())
}

/// A table of TCP sockets of the namespace of `pid`; empty if there is none (no IPv6), `None` if the process
/// is gone.
pub(super) fn tables(pid: u32) -> Option<[String; 2]> {
    let read = |file| fs::read_to_string(path(pid, file));
    Some([read("net/tcp").ok()?, read("net/tcp6").unwrap_or_default()])
}

/// Looks through the descriptors of a process; an error if they are closed to us, or it is gone.
pub(super) fn descriptors(pid: u32) -> io::Result<Descriptors> {
    let mut found = Descriptors::default();
    for entry in fs::read_dir(path(pid, "fd"))?.flatten() {
        let Some(fd) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        found.count += 1;
        let target = match fs::read_link(entry.path()) {
            Ok(target) => target,
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return Err(error),
            Err(_) => continue,
        };
        if let Some(inode) = inode(&target) {
            found.sockets.push((fd, inode));
        } else if let Some(uid) = registry_of(&target) {
            found.registries.push((fd, uid));
        } else if is_segment(&target) {
            found.memories.push(fd);
        }
    }
    Ok(found)
}

/// By the name that the library gives its memory. (Whether it is a segment, that memory says.)
fn is_segment(target: &Path) -> bool {
    target.to_str().is_some_and(|name| name.starts_with("/memfd:isthmus-dmb"))
}

fn inode(target: &Path) -> Option<u64> {
    target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// Whose registry a path names, even of a file that has been removed.
fn registry_of(target: &Path) -> Option<u32> {
    let name = target.file_name()?.to_str()?;
    registry::user_of(name.strip_suffix(" (deleted)").unwrap_or(name))
}

/// Whether descriptor `fd` of a process still is the socket `inode`.
pub(super) fn holds(pid: u32, fd: u32, inode: u64) -> bool {
    fs::read_link(path(pid, &format!("fd/{fd}"))).is_ok_and(|target| self::inode(&target) == Some(inode))
}

/// A process that holds sockets, judged by the registries in `folder`.
pub(super) fn describe(pid: u32, descriptors: Descriptors, folder: &Path) -> Process {
    let name = fs::read_to_string(path(pid, "comm")).unwrap_or_default();
    let enabled_as = match descriptors.registries.as_slice() {
        [] => without_registry(pid, folder),
        open => with_registry(pid, open, folder),
    };
    let has_registry = !descriptors.registries.is_empty();
    // The registry itself, and the lock on the process's row.
    const WANTED: usize = 2;
    let has_no_descriptor = || {
        let [soft, hard] = limits(pid, "Max open files");
        let is_full = |limit: usize| descriptors.count + WANTED > limit;
        soft.is_some_and(is_full) || hard.is_some_and(|hard| !os::limits::may_be_ours(hard))
    };
    let has_no_memory = || {
        let limit = limit(pid, "Max address space");
        limit.zip(mapped(pid)).is_some_and(|(limit, mapped)| mapped + REGISTRY_LEN > limit)
    };
    Process {
        pid,
        name: live::printable(name.trim_end_matches('\n')),
        lacks_room: enabled_as.is_some() && !has_registry && (has_no_descriptor() || has_no_memory()),
        is_filtered: status(pid, "Seccomp:").is_some_and(|mode| mode != ["0"]),
        sockets: descriptors.sockets,
        memories: descriptors.memories,
        enabled_as,
        has_registry,
        is_between_users: users(pid).is_some_and(|[real, effective, saved]| [real, saved] != [effective; 2]),
    }
}

/// How much of `what` a process may have: the soft limit.
fn limit(pid: u32, what: &str) -> Option<usize> {
    limits(pid, what)[0]
}

/// The soft limit and the hard one; None for as much as it likes.
fn limits(pid: u32, what: &str) -> [Option<usize>; 2] {
    let limits = fs::read_to_string(path(pid, "limits")).unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix(what)).unwrap_or_default();
    let mut words = line.split_ascii_whitespace();
    [(); 2].map(|()| words.next()?.parse().ok())
}

/// Bytes of address space that a process has taken.
fn mapped(pid: u32) -> Option<usize> {
    Some(status(pid, "VmSize:")?.first()?.parse::<usize>().ok()? << 10)
}

/// The library keeps the registry that it has mapped open: its descriptor tells, whatever the path means over
/// there.
fn with_registry(pid: u32, open: &[(u32, u32)], folder: &Path) -> Option<u32> {
    let is_ours = |(fd, uid): &(u32, u32)| {
        let theirs = identity(&path(pid, &format!("fd/{fd}")));
        theirs.is_some() && theirs == identity(&registry::file(folder, *uid))
    };
    open.iter().find(|one| is_ours(one)).map(|(_, uid)| *uid)
}

/// A client that has never met an enabled listener has mapped no registry: the library in it tells, and its
/// environment where that would look.
fn without_registry(pid: u32, folder: &Path) -> Option<u32> {
    if !has_library(pid) {
        return None;
    }
    let environment = fs::read(path(pid, "environ")).ok()?;
    if variable(&environment, b"SMC_DISABLE").and_then(<[u8]>::first).is_some_and(|first| *first != b'0') {
        return None;
    }
    let wanted = variable(&environment, b"SMC_REGISTRY_DIR");
    let wanted = registry::directory(wanted.map(|value| std::ffi::OsString::from_vec(value.to_vec()).into()));
    is_same_folder(pid, &wanted, folder).then(|| users(pid)).flatten().map(|[_, effective, _]| effective)
}

fn has_library(pid: u32) -> bool {
    let Ok(maps) = File::open(path(pid, "maps")) else { return false };
    BufReader::new(maps).split(b'\n').map_while(Result::ok).any(|line| is_library(&line))
}

/// The path is the last column of maps, and the only one with a slash.
fn is_library(line: &[u8]) -> bool {
    line.rsplit(|byte| *byte == b'/').next().is_some_and(|name| name.starts_with(LIBRARY))
}

/// The last value counts, as in the library.
fn variable<'a>(environment: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let entries = environment.split(|byte| *byte == 0);
    entries.filter_map(|entry| entry.strip_prefix(name)?.strip_prefix(b"=")).next_back()
}

/// Whether `theirs`, as process `pid` understands it, is the folder that is `ours` here. Folders that are not
/// there are the same if they are called the same.
fn is_same_folder(pid: u32, theirs: &Path, ours: &Path) -> bool {
    let seen = match theirs.strip_prefix("/") {
        Ok(below) => path(pid, "root").join(below),
        Err(_) => path(pid, "cwd").join(theirs),
    };
    match (identity(&seen), identity(ours)) {
        (None, None) => theirs == ours,
        (one, other) => one == other,
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|about| (about.dev(), about.ino()))
}

/// Real, effective and saved user.
fn users(pid: u32) -> Option<[u32; 3]> {
    let mut users = status(pid, "Uid:")?.into_iter().map_while(|word| word.parse().ok());
    Some([users.next()?, users.next()?, users.next()?])
}

/// The process that `id` is a thread of: itself, of a process's id.
pub(crate) fn of_thread(id: u32) -> Option<u32> {
    status(id, "Tgid:")?.first()?.parse().ok()
}

/// The words of a line of proc(5)'s status.
fn status(pid: u32, name: &str) -> Option<Vec<String>> {
    let status = fs::read_to_string(path(pid, "status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_ascii_whitespace().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::{
        descriptors, holds, is_library, is_same_folder, limit, limits, mapped, of_thread, registry_of, users,
        variable,
    };
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;
    use std::path::Path;

    #[test]
    fn own_sockets_are_seen_while_they_are_open() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let (pid, fd) = (std::process::id(), listener.as_raw_fd() as u32);
        let (_, inode) = os::fd::identity(listener.as_raw_fd()).expect("open");
        assert!(descriptors(pid).expect("our own").sockets.contains(&(fd, inode)));
        assert!(holds(pid, fd, inode) && !holds(pid, fd, inode + 1));
        drop(listener);
        assert!(!holds(pid, fd, inode));
        assert!(descriptors(u32::MAX).is_err(), "no such process");
    }

    #[test]
    fn the_own_limits_are_read() {
        let me = std::process::id();
        assert_eq!(limit(me, "Max open files"), Some(os::limits::descriptor_limit()));
        assert!(limits(me, "Max open files")[1] >= limit(me, "Max open files"));
        assert_eq!(limits(me, "No such"), [None; 2]);
    }

    #[test]
    fn a_thread_is_told_from_its_process() {
        let me = std::process::id();
        let another = || {
            let link = std::fs::read_link("/proc/thread-self").expect("proc");
            link.file_name().and_then(|name| name.to_str()?.parse().ok()).expect("a number")
        };
        let thread: u32 = std::thread::spawn(another).join().expect("no panic");
        assert_ne!(thread, me);
        assert_eq!((of_thread(me), of_thread(u32::MAX)), (Some(me), None));
        assert!(
            mapped(me) > Some(1 << 20) && mapped(me) < limit(me, "Max address space").or(Some(usize::MAX))
        );
    }

    #[test]
    fn registries_are_told_by_their_names() {
        assert_eq!(registry_of(Path::new("/dev/shm/isthmus.1000")), Some(1000));
        assert_eq!(registry_of(Path::new("/x/isthmus.0 (deleted)")), Some(0));
        for other in ["/dev/shm/isthmus.0.77", "/dev/shm/isthmus.", "/dev/null", "socket:[5]"] {
            assert_eq!(registry_of(Path::new(other)), None, "{other}");
        }
    }

    #[test]
    fn the_library_is_told_by_its_file_name() {
        for line in [
            "7f00-7f01 r-xp 0 fe:00 9    /x y/lib/libsmc-preload.so",
            "7f00 /l/libsmc-preload.so.1 (deleted)",
        ] {
            assert!(is_library(line.as_bytes()), "{line}");
        }
        for line in ["7f00-7f01 r-xp 0 fe:00 9 /libsmc-preload.so/x", "7f00-7f01 rw-p 0 00:00 0", "7f [heap]"]
        {
            assert!(!is_library(line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn the_environment_is_read_as_the_library_reads_it() {
        let environment = b"A=SMC_DISABLE=1\0SMC_REGISTRY_DIR=/a\0SMC_REGISTRY_DIR=/b\0SMC_DISABLED=1\0";
        assert_eq!(variable(environment, b"SMC_REGISTRY_DIR"), Some(&b"/b"[..]));
        assert_eq!(variable(environment, b"SMC_DISABLE"), None);
    }

    #[test]
    fn folders_are_compared_by_what_they_are() {
        let (pid, here) = (std::process::id(), std::env::temp_dir());
        assert!(is_same_folder(pid, &here, &here.join(".")));
        assert!(!is_same_folder(pid, &here, Path::new("/proc")));
        assert!(is_same_folder(pid, Path::new("/nowhere/x"), Path::new("/nowhere/x")));
        assert!(!is_same_folder(pid, Path::new("/nowhere/x"), &here));
        assert_eq!(users(pid), Some([os::process::euid(); 3]));
    }
}
