//! The sockets that the daemon listens on: handed over by the service manager, or made here. Owns: a socket
//! that another daemon serves is never taken from it, nor by two that start at once, for who makes one holds
//! a lock; that lies where no container sees it, who could hold it and so keep a daemon from starting; and
//! each socket is kept, and its name removed, by whether it was made here.

use crate::manager;
use crate::policy::Daemon;
use anyhow::{Context, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, getsockname, listen, socket_with,
    sockopt,
};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tracing::{debug, info, warn};

/// Both sockets, as the service manager hands them over.
#[derive(Default)]
pub(crate) struct Sockets {
    /// For programs.
    pub(crate) programs: Option<Handed>,
    /// For scrapes.
    pub(crate) metrics: Option<Handed>,
}

/// A socket from the service manager.
pub(crate) struct Handed {
    socket: OwnedFd,
    /// Under which an earlier daemon gave it to the store; nothing of a socket unit's.
    kept_as: Option<&'static str>,
}

impl Handed {
    /// A unit's comes before one that was kept, whose name it has by now.
    fn become_one_of(self, place: &mut Option<Handed>) {
        if place.is_none() || self.kept_as.is_none() {
            *place = Some(self);
        }
    }

    /// The socket, if it is a unit's, or lies where the policy wants it today. An earlier daemon's that does
    /// not is given up, with its name.
    fn at(self, wanted: Option<&Path>) -> Option<OwnedFd> {
        let Some(kept_as) = self.kept_as else { return Some(self.socket) };
        let address = getsockname(&self.socket).ok().and_then(|any| SocketAddrUnix::try_from(any).ok());
        let path = address.as_ref().and_then(SocketAddrUnix::path_bytes).map(OsStr::from_bytes);
        if path.is_some() && path == wanted.map(Path::as_os_str) {
            return Some(self.socket);
        }
        info!(name = kept_as, path = ?path, "an earlier daemon's socket is given up: the policy has another");
        manager::forget(kept_as);
        drop(self.socket);
        // (The manager has it for a moment yet: by a connect the name would look served.)
        if let Some(path) = path.map(Path::new).filter(|path| path.is_absolute() && is_socket(path))
            && let Err(error) = fs::remove_file(path)
        {
            debug!(%error, "its name stays");
        }
        None
    }
}

/// What the kernel queues of those who have connected; net.core.somaxconn cuts it.
const BACKLOG: i32 = 4096;

/// What the service manager handed over, by what it is: SOCK_SEQPACKET for programs, SOCK_STREAM for scrapes.
/// It comes from a socket unit, or out of the store.
pub(crate) fn handed_over() -> anyhow::Result<Sockets> {
    let mut sockets = Sockets::default();
    let own = pidfd_open(getpid(), PidfdFlags::empty()).context("pidfd_open")?;
    for (number, name) in sd_notify::listen_fds_with_names().context("LISTEN_FDS")? {
        // (A descriptor of our own, taken by its number.)
        let taken = pidfd_getfd(&own, number, PidfdGetfdFlags::empty());
        os::fd::close(number);
        let Ok(socket) = taken else { continue };
        let listens = sockopt::socket_acceptconn(&socket) == Ok(true);
        let kept_as = manager::KEPT.into_iter().find(|kept| *kept == name);
        let kind = sockopt::socket_type(&socket);
        let socket = Handed { socket, kept_as };
        match kind {
            Ok(SocketType::SEQPACKET) if listens => socket.become_one_of(&mut sockets.programs),
            Ok(SocketType::STREAM) if listens => socket.become_one_of(&mut sockets.metrics),
            _ => warn!(number, "handed over, and of no use"),
        }
    }
    Ok(sockets)
}

/// What the daemon serves.
pub(crate) struct Listening {
    pub(crate) programs: OwnedFd,
    pub(crate) metrics: Option<OwnedFd>,
}

/// Which of them were made here, where, and the locks that say so.
#[derive(Default)]
pub(crate) struct Made {
    pub(crate) programs: bool,
    pub(crate) metrics: bool,
    names: Vec<PathBuf>,
    _locks: Vec<File>,
}

/// Makes those that were not handed over.
pub(crate) fn complete(sockets: Sockets, daemon: &Daemon) -> anyhow::Result<(Listening, Made)> {
    let programs = sockets.programs.and_then(|handed| handed.at(Some(&daemon.socket)));
    let metrics = sockets.metrics.and_then(|handed| handed.at(daemon.metrics.as_deref()));
    let mut made = Made { programs: programs.is_none(), ..Made::default() };
    let programs = match programs {
        Some(socket) => socket,
        None => made.make(&daemon.socket, SocketType::SEQPACKET, 0o666)?,
    };
    let metrics = match (metrics, &daemon.metrics) {
        (Some(socket), _) => Some(socket),
        (None, Some(path)) => Some(made.make(path, SocketType::STREAM, 0o660)?),
        (None, None) => None,
    };
    made.metrics = metrics.is_some() && made.names.len() > usize::from(made.programs);
    Ok((Listening { programs, metrics }, made))
}

impl Made {
    fn make(&mut self, path: &Path, kind: SocketType, mode: u32) -> anyhow::Result<OwnedFd> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        let lock = lock(path)?;
        let socket = make(path, kind, mode)?;
        self.names.push(path.into());
        self._locks.push(lock);
        Ok(socket)
    }

    /// The daemon ends: the names of sockets that nobody keeps go too. (The locks' stay, or two daemons could
    /// hold one each.)
    pub(crate) fn abandon(&self) {
        if std::env::var_os("NOTIFY_SOCKET").is_none() {
            self.names.iter().for_each(|path| _ = fs::remove_file(path));
        }
    }
}

/// Held as long as the daemon lives. Error: somebody has it.
fn lock(path: &Path) -> anyhow::Result<File> {
    let name = lock_name(path)?;
    let file = File::options().write(true).create(true).truncate(false).mode(0o600).open(&name);
    let file = file.with_context(|| format!("cannot open {}", name.display()))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(Errno::WOULDBLOCK) => bail!("{} is served by another process", path.display()),
        Err(error) => Err(error).context(format!("cannot lock {}", name.display())),
    }
}

/// In a folder of the host's own beside the socket's, which containers are given. (Where the daemon can make
/// none it is no daemon for containers either: then beside the socket.)
fn lock_name(path: &Path) -> anyhow::Result<PathBuf> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = folder.canonicalize().with_context(|| format!("no folder {}", folder.display()))?;
    let mut name = path.file_name().with_context(|| format!("{} is no name", path.display()))?.to_owned();
    name.push(".lock");
    let own = private(&folder);
    match DirBuilder::new().mode(0o711).create(&own) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => require_ours(&own)?,
        Err(error) => {
            warn!(folder = %own.display(), %error, "the socket's lock lies beside it");
            return Ok(folder.join(name));
        }
    }
    Ok(own.join(name))
}

/// The host's own folder beside one that is for containers.
fn private(folder: &Path) -> PathBuf {
    const PRIVATE: &str = ".private";
    match folder.file_name().and_then(|name| name.to_str()) {
        Some(name) if !name.ends_with(PRIVATE) => folder.with_file_name(format!("{name}{PRIVATE}")),
        _ => folder.into(),
    }
}

/// Whoever could write there could hold the lock.
fn require_ours(folder: &Path) -> anyhow::Result<()> {
    let about = fs::symlink_metadata(folder).with_context(|| format!("no {}", folder.display()))?;
    let is_ours = [0, rustix::process::geteuid().as_raw()].contains(&about.uid());
    if !about.is_dir() || !is_ours || about.mode() & 0o022 != 0 {
        bail!("{} is for locks, and not this user's alone", folder.display());
    }
    Ok(())
}

fn make(path: &Path, kind: SocketType, mode: u32) -> anyhow::Result<OwnedFd> {
    remove_abandoned(path, kind)?;
    let address = SocketAddrUnix::new(path).with_context(|| format!("{}", path.display()))?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, kind, flags, None)?;
    bind(&socket, &address).with_context(|| format!("cannot bind {}", path.display()))?;
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    listen(&socket, BACKLOG)?;
    debug!(path = %path.display(), "listens");
    Ok(socket)
}

fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|about| about.file_type().is_socket())
}

/// A socket that nobody listens on is left from a daemon that was killed.
fn remove_abandoned(path: &Path, kind: SocketType) -> anyhow::Result<()> {
    let shown = path.display();
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).context(format!("cannot look at {shown}")),
        Ok(about) if !about.file_type().is_socket() => bail!("{shown} is there, and no socket"),
        Ok(_) => {}
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let asked = socket_with(AddressFamily::UNIX, kind, flags, None)?;
    match connect(&asked, &SocketAddrUnix::new(path)?) {
        // (Of another kind: somebody else's.)
        Ok(()) | Err(Errno::AGAIN | Errno::PROTOTYPE) => bail!("{shown} is served by another process"),
        Err(Errno::NOENT) => Ok(()),
        Err(Errno::CONNREFUSED) => fs::remove_file(path).with_context(|| format!("cannot remove {shown}")),
        Err(error) => Err(error).context(format!("cannot tell whether somebody serves {shown}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(path: &Path) -> anyhow::Result<(OwnedFd, Made)> {
        let mut made = Made::default();
        made.make(path, SocketType::SEQPACKET, 0o600).map(|socket| (socket, made))
    }

    #[test]
    fn a_socket_is_taken_from_the_dead_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("deep/er/s");
        let (first, lock) = made(&path).expect("made");
        let refused = made(&path).map(drop).expect_err("it is served");
        assert!(refused.to_string().contains("served by another process"), "{refused}");
        drop(first);
        let refused = made(&path).map(drop).expect_err("its maker lives, and may be about to listen");
        assert!(refused.to_string().contains("served by another process"), "{refused}");
        drop(lock);
        let second = made(&path).expect("nobody has it");
        drop(second);
        fs::remove_file(&path).expect("removed");
        fs::write(&path, "precious").expect("written");
        assert!(made(&path).is_err());
        assert_eq!(fs::read_to_string(&path).expect("still there"), "precious");
        fs::remove_file(&path).expect("removed");
        let others = std::os::unix::net::UnixListener::bind(&path).expect("bound");
        let refused = made(&path).map(drop).expect_err("it is of another kind, and served");
        assert!(refused.to_string().contains("served by another process"), "{refused}");
        drop(others);
        fs::remove_file(&path).expect("still there");
    }

    #[test]
    fn locks_lie_where_no_container_sees_them_and_nobody_else_writes() {
        let folder = tempfile::tempdir().expect("a folder");
        let [run, own] = ["run", "run.private"].map(|name| folder.path().join(name));
        let names = |folder: &Path| -> Vec<_> {
            let entries = fs::read_dir(folder).expect("a folder").flatten();
            entries.map(|entry| entry.file_name().into_string().expect("text")).collect()
        };
        let _held = [made(&run.join("s")).expect("made"), made(&own.join("m")).expect("made")];
        assert_eq!(names(&run), ["s"]);
        let mut others = names(&own);
        others.sort();
        assert_eq!(others, ["m", "m.lock", "s.lock"]);
        fs::set_permissions(&own, Permissions::from_mode(0o777)).expect("opened");
        let refused = made(&run.join("t")).map(drop).expect_err("anybody could hold that lock");
        assert!(refused.to_string().contains("not this user's alone"), "{refused}");
    }

    #[test]
    fn of_two_sockets_only_the_one_that_was_made_here_is_kept_and_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("run")).expect("made");
        let [given, path] = ["given", "metrics"].map(|name| folder.path().join("run").join(name));
        let daemon = Daemon {
            socket: given.clone(),
            metrics: Some(path.clone()),
            clients: 1,
            pins: None,
            cgroup: None,
        };
        let socket = make(&given, SocketType::SEQPACKET, 0o600).expect("made");
        let socket = Handed { socket, kept_as: None };
        let sockets = Sockets { programs: Some(socket), metrics: None };
        let (_listening, made) = complete(sockets, &daemon).expect("complete");
        assert_eq!((made.programs, made.metrics), (false, true));
        made.abandon();
        assert!(given.exists() && !path.exists());
    }

    #[test]
    fn what_an_earlier_daemon_kept_is_served_where_the_policy_still_has_it() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("run")).expect("made");
        let [programs, old, new] =
            ["programs", "old", "new"].map(|name| folder.path().join("run").join(name));
        let kept = |path: &Path, kind, kept_as| {
            Some(Handed { socket: make(path, kind, 0o600).expect("made"), kept_as: Some(kept_as) })
        };
        let handed = || Sockets {
            programs: kept(&programs, SocketType::SEQPACKET, "programs"),
            metrics: kept(&old, SocketType::STREAM, "metrics"),
        };
        let daemon = |metrics: Option<&Path>| Daemon {
            socket: programs.clone(),
            metrics: metrics.map(Path::to_owned),
            clients: 1,
            pins: None,
            cgroup: None,
        };
        let serves = |metrics: Option<&Path>| {
            let (listening, made) = complete(handed(), &daemon(metrics)).expect("complete");
            (listening.metrics.is_some(), made.programs, made.metrics)
        };
        assert_eq!(serves(Some(&old)), (true, false, false));
        assert_eq!(serves(Some(&new)), (true, false, true));
        assert!(!old.exists() && new.exists());
        fs::remove_file(&new).expect("still there");
        assert_eq!(serves(None), (false, false, false));
        assert!(!old.exists());
    }
}
