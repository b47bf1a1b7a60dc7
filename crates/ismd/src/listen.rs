//! The sockets that the daemon listens on: handed over by the service manager, or made here. Owns: a socket
//! that another daemon serves is never taken from it, nor by two that start at once, for who makes one holds
//! a lock beside it; and each is kept, and its name removed, by whether it was made here.

use crate::policy::Daemon;
use anyhow::{Context, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with, sockopt,
};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use std::fs::{self, File, Permissions};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tracing::{debug, warn};

/// Both sockets.
#[derive(Default)]
pub(crate) struct Sockets {
    /// For programs.
    pub(crate) programs: Option<OwnedFd>,
    /// For scrapes.
    pub(crate) metrics: Option<OwnedFd>,
}

/// What the kernel queues of those who have connected; net.core.somaxconn cuts it.
const BACKLOG: i32 = 4096;

/// What the service manager handed over, by what it is: SOCK_SEQPACKET for programs, SOCK_STREAM for scrapes.
/// It comes from a socket unit, or out of the store.
pub(crate) fn handed_over() -> anyhow::Result<Sockets> {
    let mut sockets = Sockets::default();
    let own = pidfd_open(getpid(), PidfdFlags::empty()).context("pidfd_open")?;
    for number in sd_notify::listen_fds().context("LISTEN_FDS")? {
        // (A descriptor of our own, taken by its number.)
        let taken = pidfd_getfd(&own, number, PidfdGetfdFlags::empty());
        os::fd::close(number);
        let Ok(socket) = taken else { continue };
        let listens = sockopt::socket_acceptconn(&socket) == Ok(true);
        match sockopt::socket_type(&socket) {
            Ok(SocketType::SEQPACKET) if listens => sockets.programs = Some(socket),
            Ok(SocketType::STREAM) if listens => sockets.metrics = Some(socket),
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
    let mut made = Made { programs: sockets.programs.is_none(), ..Made::default() };
    let programs = match sockets.programs {
        Some(socket) => socket,
        None => made.make(&daemon.socket, SocketType::SEQPACKET, 0o666)?,
    };
    let metrics = match (sockets.metrics, &daemon.metrics) {
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
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let file = File::options().write(true).create(true).truncate(false).mode(0o600).open(&name);
    let file = file.with_context(|| format!("cannot open {}", name.display()))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(Errno::WOULDBLOCK) => bail!("{} is served by another process", path.display()),
        Err(error) => Err(error).context(format!("cannot lock {}", name.display())),
    }
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
    fn of_two_sockets_only_the_one_that_was_made_here_is_kept_and_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let [given, path] = ["given", "metrics"].map(|name| folder.path().join(name));
        let daemon = Daemon {
            socket: given.clone(),
            metrics: Some(path.clone()),
            clients: 1,
            pins: None,
            cgroup: None,
        };
        let socket = make(&given, SocketType::SEQPACKET, 0o600).expect("made");
        let sockets = Sockets { programs: Some(socket), metrics: None };
        let (_listening, made) = complete(sockets, &daemon).expect("complete");
        assert_eq!((made.programs, made.metrics), (false, true));
        made.abandon();
        assert!(given.exists() && !path.exists());
    }
}
