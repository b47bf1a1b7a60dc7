//! The mark: programs in the kernel that let SYN and SYN-ACK carry a token between processes that take part
//! (`bpf/mark.bpf.c`). Owns: that programs, links and maps are pinned, so that nothing depends on the daemon
//! living, and that they see programs begin and end before any connection is marked. What lies in the maps is
//! [`crate::tables`]'s, in a thread of its own: the kernel takes long for some of it.

use crate::policy::{Daemon, file::PINS};
use crate::tables::{Asker, Earlier, Job, Maps, Ruled};
use crate::trace::Tap;
use anyhow::{Context, bail};
use os::bpf;
use rustix::fs::{FlockOperation, flock, statfs};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::CString;
use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use tracing::info;
use wire::Reason;

/// Inode of the first process namespace (`linux/proc_ns.h`), in which BPF counts processes.
const FIRST_NAMESPACE: u64 = 0xEFFF_FFFC;
/// So many of a user's questions may wait for the thread that makes tables, and of all users': beyond that
/// they are refused, and TCP. While there are few in all, one user's may be all of them: many processes may
/// start at once.
const WAITING: u32 = 8;
const WAITING_OF_ALL: u32 = 512;
const FEW_IN_ALL: u32 = 128;
/// Most that is done in one go, beside the first.
const ROUND: usize = 127;
/// Changes with the layout of any map.
const LAYOUT: &str = "isthmus-mark-2";
/// What all of them begin with.
const LAYOUTS: &str = "isthmus-mark-";

/// Another daemon has put its policy and its clients there: this one would overwrite both.
#[derive(Debug)]
pub(crate) struct InUse(PathBuf);

impl fmt::Display for InUse {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let folder = self.0.display();
        write!(to, "{folder} is another daemon's, which runs: end that one, or name another folder (--pins)")
    }
}

impl std::error::Error for InUse {}

/// The programs, at work.
pub(crate) struct Mark {
    /// The lock that keeps other daemons from the folder.
    _folder: fs::File,
    jobs: Sender<(Option<u32>, Job)>,
    /// How many wait, by user.
    waiting: Arc<Mutex<HashMap<u32, u32>>>,
    /// Numbers that processes have from an earlier daemon.
    pub(crate) known: HashMap<u32, Earlier>,
    /// Where the kernel tells what happens.
    pub(crate) tap: Option<Tap>,
}

impl Mark {
    /// Loads the programs, or what is newer of them, and lets them run for the sockets of `cgroup`. `pins` is
    /// a folder of a BPF file system. Errors: [`InUse`]; built without clang, no privilege, no such system.
    pub(crate) fn start(pins: &Path, cgroup: &Path) -> anyhow::Result<Mark> {
        let namespace = fs::metadata("/proc/self/ns/pid").context("/proc/self/ns/pid")?.ino();
        if namespace != FIRST_NAMESPACE {
            bail!("the daemon does not run in the host's first process namespace");
        }
        let folder = pins.join(LAYOUT);
        let made = fs::DirBuilder::new().mode(0o700).recursive(true).create(&folder);
        made.with_context(|| format!("cannot make {}", folder.display()))?;
        let lock = lock(&folder)?;
        // (Also where ours do not run.)
        remove_other_layouts(pins);
        attach(&folder, cgroup)?;
        let mut maps = Maps::of(|name| pinned(&folder, name))?;
        let known = maps.of_the_living();
        let (jobs, queue) = channel();
        let waiting = Arc::<Mutex<HashMap<u32, u32>>>::default();
        let left = Arc::clone(&waiting);
        thread::Builder::new().name("tables".into()).spawn(move || {
            while let Ok(first) = queue.recv() {
                // (What waits is done together: the kernel takes as long for one table as for all.)
                let (askers, jobs): (Vec<_>, Vec<_>) =
                    std::iter::once(first).chain(queue.try_iter().take(ROUND)).unzip();
                maps.perform(jobs);
                for uid in askers.into_iter().flatten() {
                    count(&left, uid, |of_user: u32, _| of_user.saturating_sub(1));
                }
            }
        })?;
        let tap = open_tap(&folder);
        Ok(Mark { _folder: lock, jobs, waiting, known, tap })
    }

    /// Gives a process a table; it is answered when the kernel knows it. Reason: MAX_DMB if too many wait.
    pub(crate) fn register(&self, asker: Asker) -> Result<(), Reason> {
        self.enqueue(asker.uid, Job::Register(asker))
    }

    /// What `pid` offered with its socket is not taken up, says a process of `uid`: it is not to wait for
    /// that. (One that has its table from an earlier daemon waits.)
    pub(crate) fn decline(&self, uid: u32, pid: u32, cookie: u64) {
        let _ = self.enqueue(uid, Job::Decline(pid, cookie));
    }

    /// The process has ended, or takes part no more.
    pub(crate) fn forget(&self, pid: u32) {
        let _ = self.jobs.send((None, Job::Forget(pid)));
    }

    /// Whether connections of a process that has a table are marked: by the kernel, whatever it does.
    pub(crate) fn allow(&self, pid: u32, is_allowed: bool) {
        let _ = self.jobs.send((None, Job::Allow(pid, is_allowed)));
    }

    /// A policy counts, for connections that are made from now on.
    pub(crate) fn rule(&self, ruled: Ruled) {
        let _ = self.jobs.send((None, Job::Rule(ruled)));
    }

    fn enqueue(&self, uid: u32, job: Job) -> Result<(), Reason> {
        let mut fits = false;
        count(&self.waiting, uid, |of_user, of_all| {
            fits = is_room(of_user, of_all);
            of_user + u32::from(fits)
        });
        if !fits {
            return Err(Reason::MAX_DMB);
        }
        self.jobs.send((Some(uid), job)).map_err(|_| Reason::NOSMCDDEV)
    }
}

/// What a policy names for the mark and this machine has not. (Another one may, so it is no fault.) A folder
/// for pins is made when it is wanted, in what is there.
pub(crate) fn doubts(daemon: &Daemon) -> Vec<String> {
    const BPF_FS: i64 = 0xCAFE_4A11;
    const CGROUP_2: i64 = 0x6367_7270;
    let doubt = |key, path: &Path, is_what: &str| {
        let path = path.display();
        format!("{key}: {path} is no {is_what} on this machine: no connection would be marked")
    };
    let named = daemon.pins.as_deref().filter(|pins| *pins != Path::new(PINS));
    let pins = named.filter(|pins| pins.ancestors().find_map(file_system).is_some_and(|is| is != BPF_FS));
    let cgroup = daemon.cgroup.as_deref().filter(|path| file_system(path) != Some(CGROUP_2));
    let pins = pins.map(|path| doubt("pins", path, "BPF file system"));
    pins.into_iter().chain(cgroup.map(|path| doubt("cgroup", path, "cgroup of version 2"))).collect()
}

/// On which kind of one it lies, by its magic number; `None` if it is not there.
fn file_system(path: &Path) -> Option<i64> {
    statfs(path).ok().map(|about| about.f_type)
}

/// Held as long as the daemon runs, and let go of by the kernel however it ends.
fn lock(folder: &Path) -> anyhow::Result<fs::File> {
    let opened = fs::File::open(folder).with_context(|| format!("cannot open {}", folder.display()))?;
    match flock(&opened, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(opened),
        Err(Errno::WOULDBLOCK) => Err(InUse(folder.into()).into()),
        Err(errno) => Err(errno).with_context(|| format!("cannot lock {}", folder.display())),
    }
}

fn is_room(of_user: u32, of_all: u32) -> bool {
    of_all < FEW_IN_ALL || (of_user < WAITING && of_all < WAITING_OF_ALL)
}

/// Changes how many of a user's questions wait.
fn count(waiting: &Mutex<HashMap<u32, u32>>, uid: u32, change: impl FnOnce(u32, u32) -> u32) {
    let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
    let of_all = waiting.values().sum();
    match change(waiting.get(&uid).copied().unwrap_or(0), of_all) {
        0 => _ = waiting.remove(&uid),
        left => _ = waiting.insert(uid, left),
    }
}

fn text(path: &Path) -> anyhow::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).with_context(|| format!("{} is no path", path.display()))
}

fn pinned(folder: &Path, name: &str) -> anyhow::Result<i32> {
    let path = folder.join(name);
    bpf::pinned(&text(&path)?).map_err(|errno| anyhow::anyhow!("{}: {errno:?}", path.display()))
}

/// One link for each cgroup: a daemon that is to serve another one leaves nothing behind.
#[cfg(have_mark)]
fn link_name(cgroup: &fs::File) -> anyhow::Result<String> {
    Ok(format!("link-{}", cgroup.metadata().context("the cgroup")?.ino()))
}

#[cfg(have_mark)]
fn open_tap(folder: &Path) -> Option<Tap> {
    let opened = pinned(folder, "tracing").and_then(|switch| Tap::open(folder, switch));
    opened.inspect_err(|error| tracing::warn!(error = format!("{error:#}"), "nobody can trace")).ok()
}

#[cfg(not(have_mark))]
fn open_tap(_folder: &Path) -> Option<Tap> {
    None
}

/// The program runs for the sockets of `cgroup` from now on, in place of an earlier build of it.
#[cfg(have_mark)]
fn attach(folder: &Path, cgroup: &Path) -> anyhow::Result<()> {
    use aya::EbpfLoader;
    use aya::programs::SockOps;
    use std::os::fd::{AsFd, AsRawFd};

    let group = fs::File::open(cgroup).with_context(|| format!("cannot open {}", cgroup.display()))?;
    let mut loader = EbpfLoader::new();
    // (The kernel's own types are not needed, and reading them takes long.)
    loader.btf(None).allow_unsupported_maps().default_map_pin_directory(folder);
    let object = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/mark.bpf.o"));
    let mut loaded = loader.load(object).context("cannot load the programs of the mark")?;
    watch_programs(&mut loaded, folder)?;
    let program: &mut SockOps =
        loaded.program_mut("isthmus_mark").context("no program")?.try_into().context("no such program")?;
    program.load().context("the kernel refuses the program of the mark")?;
    let program = program.fd().context("no program")?.as_fd().as_raw_fd();
    let name = link_name(&group)?;
    let path = text(&folder.join(&name))?;
    if bpf::relink(&path, program).is_err() {
        // There is none, or its cgroup was removed, and the number is another's now.
        let _ = fs::remove_file(folder.join(&name));
        bpf::link_sock_ops(program, group.as_raw_fd(), &path)
            .map_err(|errno| anyhow::anyhow!("cannot attach to {}: {errno:?}", cgroup.display()))?;
    }
    remove_others(folder, &name)
}

/// From now on the kernel forgets a process at its end, and when it becomes another program.
#[cfg(have_mark)]
fn watch_programs(loaded: &mut aya::Ebpf, folder: &Path) -> anyhow::Result<()> {
    use aya::programs::RawTracePoint;
    use std::os::fd::{AsFd, AsRawFd};

    for (program, place) in [("isthmus_exec", c"sched_process_exec"), ("isthmus_exit", c"sched_process_exit")]
    {
        let found = loaded.program_mut(program).context("no program")?;
        let watch: &mut RawTracePoint = found.try_into().context("no such program")?;
        watch.load().context("the kernel does not let it see programs begin and end (CAP_PERFMON)")?;
        let descriptor = watch.fd().context("no program")?.as_fd().as_raw_fd();
        // (The earlier build's goes once this one runs.)
        let (path, new) = (folder.join(program), folder.join(format!("{program}-new")));
        let _ = fs::remove_file(&new);
        bpf::link_tracepoint(descriptor, place, &text(&new)?)
            .map_err(|errno| anyhow::anyhow!("cannot attach to {}: {errno:?}", place.to_string_lossy()))?;
        fs::rename(&new, &path).with_context(|| format!("cannot pin {}", path.display()))?;
    }
    Ok(())
}

#[cfg(not(have_mark))]
fn attach(_folder: &Path, _cgroup: &Path) -> anyhow::Result<()> {
    bail!("this daemon was built where there was no clang")
}

/// What a daemon of another layout has pinned would run on beside ours, and believe what it knew. Its
/// connections are memory by now, and need nothing of it.
fn remove_other_layouts(pins: &Path) {
    for other in fs::read_dir(pins).into_iter().flatten().flatten() {
        let name = other.file_name();
        // (A link that somebody has put there is not followed.)
        let is_folder = other.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && name != LAYOUT && name.as_bytes().starts_with(LAYOUTS.as_bytes()) {
            let pinned = fs::read_dir(other.path()).into_iter().flatten().flatten();
            pinned.for_each(|pinned| _ = fs::remove_file(pinned.path()));
            let removed = fs::remove_dir(other.path());
            info!(layout = %name.to_string_lossy(), ?removed, "what another build had pinned is gone");
        }
    }
}

#[cfg(have_mark)]
fn remove_others(folder: &Path, name: &str) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder)?.flatten() {
        let other = entry.path();
        let own = entry.file_name();
        if own != name && own.as_bytes().starts_with(b"link-") {
            let _ = fs::remove_file(other);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_has_all_the_room_until_others_come() {
        assert!(is_room(100, 100) && !is_room(200, 200));
        assert!(is_room(0, 200), "somebody else finds room then");
        assert!(!is_room(WAITING, 200) && !is_room(0, WAITING_OF_ALL));
    }

    #[test]
    fn of_several_layouts_one_stays() {
        let pins = std::env::temp_dir().join(format!("ismd-pins-{}", std::process::id()));
        for place in
            ["isthmus-mark-1/link-7", "isthmus-mark-1/clients", &format!("{LAYOUT}/clients"), "others/x"]
        {
            let place = pins.join(place);
            fs::create_dir_all(place.parent().expect("a folder")).expect("made");
            fs::write(place, "").expect("written");
        }
        remove_other_layouts(&pins);
        let mut left: Vec<_> =
            fs::read_dir(&pins).expect("pins").flatten().map(|entry| entry.file_name()).collect();
        left.sort();
        assert_eq!(left, [LAYOUT, "others"]);
        fs::remove_dir_all(&pins).expect("removed");
    }
}
