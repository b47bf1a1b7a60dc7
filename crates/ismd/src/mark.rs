//! The mark: programs in the kernel that let SYN and SYN-ACK carry a token between processes that take part
//! (`bpf/mark.bpf.c`). Owns: that programs, links and maps are pinned, so that nothing depends on the daemon
//! living; that a table, and the number under which a process is known, is given by the daemon alone; that
//! who has ended loses both; and that a policy counts once all of it is written ([`crate::rights`]). What the
//! kernel takes long for is done in a thread of its own.

use crate::rights::{self, LINE, RIGHTS, Rights};
use crate::trace::Tap;
use anyhow::{Context, bail};
use fabric::host::marks;
use os::bpf;
use os::mem::Shared;
use std::collections::HashMap;
use std::ffi::CString;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use tracing::{info, warn};
use wire::Reason;
use wire::host::{MESSAGE_MAX, Message};

/// Inode of the first process namespace (`linux/proc_ns.h`), in which BPF counts processes.
const FIRST_NAMESPACE: u64 = 0xEFFF_FFFC;
/// So many of a user's questions may wait for the thread that makes tables, and of all users': beyond that
/// they are refused, and TCP.
const WAITING: u32 = 8;
const WAITING_OF_ALL: u32 = 256;
/// Changes with the layout of any map.
const LAYOUT: &str = "isthmus-mark-1";

/// The programs, at work.
pub(crate) struct Mark {
    jobs: Sender<(Option<u32>, Job)>,
    /// How many wait, by user.
    waiting: Arc<Mutex<HashMap<u32, u32>>>,
    /// Numbers that processes have from an earlier daemon.
    pub(crate) known: HashMap<u32, Earlier>,
    /// Where the kernel tells what happens.
    pub(crate) tap: Option<Tap>,
}

/// Where its answer goes.
pub(crate) struct Asker {
    pub(crate) pid: u32,
    pub(crate) uid: u32,
    pub(crate) client: u32,
    pub(crate) rights: Rights,
    /// A copy of its connection.
    pub(crate) socket: OwnedFd,
    pub(crate) tag: u32,
    /// It has a table from an earlier connection.
    pub(crate) has_table: bool,
}

enum Job {
    Register(Asker),
    Decline(u32, u64),
    Forget(u32),
    /// A process that has a table is known by this number, or may take no part for now.
    Allow(u32, Option<u32>),
    /// From now on this counts.
    Rule(Ruled),
}

/// A policy, as the kernel has it.
pub(crate) struct Ruled {
    /// All that is said of connections.
    pub(crate) lines: Vec<[u8; LINE]>,
    /// Of everybody who has a table. Nobody else shares memory.
    pub(crate) rights: Vec<(u32, Rights)>,
}

/// A process that has a table from an earlier daemon.
#[derive(Clone, Copy)]
pub(crate) struct Earlier {
    /// Its number.
    pub(crate) client: u32,
    /// The fabric that it was on, if that was known.
    pub(crate) vchid: u16,
}

/// The maps that the daemon writes.
struct Maps {
    tables: i32,
    clients: i32,
    rules: i32,
    rights: i32,
    policy: i32,
    /// Which half counts.
    half: u32,
    /// What the kernel has of processes.
    written: HashMap<u32, [u8; RIGHTS]>,
    /// The tables that it has given, by process, and places of those that it has taken back.
    given: HashMap<u32, Shared>,
    places: Vec<Shared>,
}

impl Drop for Maps {
    fn drop(&mut self) {
        let all = [self.tables, self.clients, self.rules, self.rights, self.policy];
        all.into_iter().for_each(os::fd::close);
    }
}

impl Mark {
    /// Loads the programs, or what is newer of them, and lets them run for the sockets of `cgroup`. `pins` is
    /// a folder of a BPF file system. Errors: built without clang, no privilege, no BPF file system.
    pub(crate) fn start(pins: &Path, cgroup: &Path) -> anyhow::Result<Mark> {
        let namespace = fs::metadata("/proc/self/ns/pid").context("/proc/self/ns/pid")?.ino();
        if namespace != FIRST_NAMESPACE {
            bail!("the daemon does not run in the host's first process namespace");
        }
        let folder = pins.join(LAYOUT);
        match fs::DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(error).with_context(|| format!("cannot make {}", folder.display()));
            }
            _ => {}
        }
        attach(&folder, cgroup)?;
        let mut maps = Maps::of(&folder)?;
        let known = maps.of_the_living();
        let (jobs, queue) = channel();
        let waiting = Arc::<Mutex<HashMap<u32, u32>>>::default();
        let left = Arc::clone(&waiting);
        thread::Builder::new().name("tables".into()).spawn(move || {
            for (asked_by, job) in queue {
                maps.perform(job);
                if let Some(uid) = asked_by {
                    count(&left, uid, |of_user, _| of_user.saturating_sub(1));
                }
            }
        })?;
        let tap = open_tap(&folder);
        Ok(Mark { jobs, waiting, known, tap })
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
    pub(crate) fn allow(&self, pid: u32, client: Option<u32>) {
        let _ = self.jobs.send((None, Job::Allow(pid, client)));
    }

    /// A policy counts, for connections that are made from now on.
    pub(crate) fn rule(&self, ruled: Ruled) {
        let _ = self.jobs.send((None, Job::Rule(ruled)));
    }

    fn enqueue(&self, uid: u32, job: Job) -> Result<(), Reason> {
        let is_room = |of_user: u32, of_all: u32| of_user < WAITING && of_all < WAITING_OF_ALL;
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

/// Changes how many of a user's questions wait.
fn count(waiting: &Mutex<HashMap<u32, u32>>, uid: u32, change: impl FnOnce(u32, u32) -> u32) {
    let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
    let of_all = waiting.values().sum();
    match change(waiting.get(&uid).copied().unwrap_or(0), of_all) {
        0 => _ = waiting.remove(&uid),
        left => _ = waiting.insert(uid, left),
    }
}

impl Maps {
    fn of(folder: &Path) -> anyhow::Result<Maps> {
        let map = |name| pinned(folder, name);
        let (tables, clients, rules) = (map("tables")?, map("clients")?, map("rules")?);
        let (rights, policy) = (map("rights")?, map("policy")?);
        let half = bpf::get(policy, 0).unwrap_or(0) & 1;
        let (written, given) = (HashMap::new(), HashMap::new());
        Ok(Maps { tables, clients, rules, rights, policy, half, written, given, places: vec![] })
    }

    /// Processes that an earlier daemon knew, with their numbers; those that have ended are forgotten.
    fn of_the_living(&mut self) -> HashMap<u32, Earlier> {
        let (mut living, mut dead, mut last) = (HashMap::new(), vec![], None);
        while let Ok(pid) = bpf::next_key(self.clients, last) {
            last = Some(pid);
            match bpf::get(self.clients, pid) {
                Ok(client) if os::process::exists(pid) => {
                    let mut rights = [0; RIGHTS];
                    let is_known = bpf::read(self.rights, pid, &mut rights).is_ok();
                    let vchid = if is_known { rights::vchid_in(&rights) } else { 0 };
                    self.written.extend(is_known.then_some((pid, rights)));
                    living.insert(pid, Earlier { client, vchid });
                }
                _ => dead.push(pid),
            }
        }
        // (Who was not allowed to take part has a table and no number.)
        last = None;
        while let Ok(pid) = bpf::next_key(self.tables, last) {
            last = Some(pid);
            if !os::process::exists(pid) {
                dead.push(pid);
            }
        }
        dead.into_iter().for_each(|pid| self.forget(pid));
        living
    }

    fn forget(&mut self, pid: u32) {
        if let Some(table) = self.given.remove(&pid)
            && os::mem::retire(table).is_ok()
        {
            self.places.push(table);
        }
        // (Its number first: then it can ask for nothing more.)
        let _ = bpf::remove(self.clients, pid);
        let _ = bpf::remove(self.tables, pid);
        let _ = bpf::remove(self.rights, pid);
        self.written.remove(&pid);
    }

    fn perform(&mut self, job: Job) {
        match job {
            Job::Forget(pid) => self.forget(pid),
            Job::Allow(pid, None) => _ = bpf::remove(self.clients, pid),
            Job::Allow(pid, Some(client)) if self.given.contains_key(&pid) => {
                _ = bpf::set(self.clients, pid, client);
            }
            Job::Allow(..) => {}
            Job::Decline(pid, cookie) => {
                if let Some(table) = self.given.get(&pid) {
                    marks::decline(table, cookie);
                }
            }
            Job::Rule(ruled) => {
                let (lines, processes) = (ruled.lines.len(), ruled.rights.len());
                match self.rule(&ruled) {
                    Ok(()) => info!(lines, processes, "the kernel has the policy"),
                    Err(errno) => warn!(?errno, "the kernel does not take the policy"),
                }
            }
            Job::Register(asker) => {
                if let Err(errno) = self.write(asker.pid, &asker.rights, self.half) {
                    warn!(pid = asker.pid, ?errno, "cannot have rights");
                }
                let has_all = asker.has_table && bpf::get(self.clients, asker.pid) == Ok(asker.client);
                let made = if has_all { Ok(None) } else { self.give_table(&asker).map(Some) };
                let (message, table) = match made {
                    Ok(None) => (Message::Done, None),
                    Ok(Some(table)) => (Message::Passed { size: marks::LEN as u64 }, Some(table)),
                    Err(errno) => {
                        warn!(pid = asker.pid, ?errno, "cannot have a table");
                        (Message::Refused(Reason::MEM), None)
                    }
                };
                asker.answer(message, table);
                table.into_iter().for_each(os::fd::close);
            }
        }
    }

    fn write(&mut self, pid: u32, rights: &Rights, half: u32) -> os::Result<()> {
        let mut known = self.written.get(&pid).copied();
        let bytes = rights.write(half, &mut known);
        bpf::put(self.rights, pid, &bytes).inspect(|()| _ = self.written.insert(pid, bytes))
    }

    /// All of it into the half at which the program does not look, and then it looks there.
    fn rule(&mut self, ruled: &Ruled) -> os::Result<()> {
        let half = self.half ^ 1;
        for (at, line) in ruled.lines.iter().enumerate() {
            bpf::put(self.rules, half * rights::LINES as u32 + at as u32, line)?;
        }
        let others: Vec<u32> = self.written.keys().copied().collect();
        let are_named = |pid: &u32| ruled.rights.iter().any(|(named, _)| named == pid);
        for pid in others.into_iter().filter(|pid| !are_named(pid)) {
            let _ = bpf::remove(self.rights, pid);
            self.written.remove(&pid);
        }
        for (pid, rights) in &ruled.rights {
            // (What counted for it is not to count again.)
            if self.write(*pid, rights, half).is_err() {
                let _ = bpf::remove(self.rights, *pid);
                self.written.remove(pid);
            }
        }
        bpf::set(self.policy, 0, 2 | half)?;
        self.half = half;
        Ok(())
    }

    fn give_table(&mut self, asker: &Asker) -> os::Result<i32> {
        let table = bpf::new_table(marks::ENTRIES as u32, marks::ENTRY as u32)?;
        if let Some(mapped) = self.map(table) {
            self.given.insert(asker.pid, mapped);
        }
        let given = bpf::set(self.tables, asker.pid, table.cast_unsigned())
            .and_then(|()| bpf::set(self.clients, asker.pid, asker.client));
        given.map(|()| table).inspect_err(|_| os::fd::close(table))
    }
}

impl Maps {
    fn map(&mut self, table: i32) -> Option<Shared> {
        match self.places.pop() {
            Some(place) => os::mem::remap_shared(place, table).is_ok().then_some(place),
            None => os::mem::map_shared(table, marks::LEN).ok(),
        }
    }
}

impl Asker {
    fn answer(&self, message: Message, table: Option<i32>) {
        use std::os::fd::AsRawFd;
        let mut bytes = [0; MESSAGE_MAX];
        // (Who is gone, or does not read, learns nothing.)
        if let Ok(len) = message.emit(self.tag, &mut bytes) {
            let _ = os::passing::send(self.socket.as_raw_fd(), &bytes[..len], table);
        }
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
    opened.inspect_err(|error| warn!(error = format!("{error:#}"), "nobody can trace")).ok()
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

#[cfg(not(have_mark))]
fn attach(_folder: &Path, _cgroup: &Path) -> anyhow::Result<()> {
    bail!("this daemon was built where there was no clang")
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
