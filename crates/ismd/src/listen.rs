//! The sockets that the daemon listens on: handed over by the service manager, or made here. Owns: a socket
//! that another daemon serves is never taken from it.

use crate::policy::Daemon;
use anyhow::{Context, bail};
use os::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with, sockopt,
};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use std::fs::{self, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
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

/// Makes those that were not handed over. Whether each is new.
pub(crate) fn complete(
    sockets: Sockets,
    daemon: &Daemon,
) -> anyhow::Result<(OwnedFd, Option<OwnedFd>, bool)> {
    let is_new = sockets.programs.is_none();
    let programs = match sockets.programs {
        Some(socket) => socket,
        None => make(&daemon.socket, SocketType::SEQPACKET, 0o666)?,
    };
    let metrics = match (sockets.metrics, &daemon.metrics) {
        (Some(socket), _) => Some(socket),
        (None, Some(path)) => Some(make(path, SocketType::STREAM, 0o660)?),
        (None, None) => None,
    };
    Ok((programs, metrics, is_new))
}

fn make(path: &Path, kind: SocketType, mode: u32) -> anyhow::Result<OwnedFd> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
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

/// The daemon ends, and nobody keeps its sockets: their names go too.
pub(crate) fn abandon(daemon: &Daemon) {
    if std::env::var_os("NOTIFY_SOCKET").is_none() {
        [Some(&daemon.socket), daemon.metrics.as_ref()].into_iter().flatten().for_each(|path| {
            let _ = fs::remove_file(path);
        });
    }
}

/// A socket that nobody listens on is left from a daemon that was killed.
fn remove_abandoned(path: &Path, kind: SocketType) -> anyhow::Result<()> {
    let connected = match kind {
        SocketType::SEQPACKET => os::passing::connect(path.as_os_str().as_bytes()).map(os::fd::close),
        _ => std::os::unix::net::UnixStream::connect(path)
            .map(drop)
            .map_err(|error| Errno(error.raw_os_error().unwrap_or(0))),
    };
    match connected {
        Ok(()) | Err(Errno::EAGAIN) => bail!("{} is served by another process", path.display()),
        Err(Errno::ENOENT) => Ok(()),
        Err(_) => {
            let is_socket = fs::symlink_metadata(path)
                .is_ok_and(|about| std::os::unix::fs::FileTypeExt::is_socket(&about.file_type()));
            if !is_socket {
                bail!("{} is there, and no socket", path.display());
            }
            fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_taken_from_the_dead_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("deep/er/s");
        let first = make(&path, SocketType::SEQPACKET, 0o600).expect("made");
        let refused = make(&path, SocketType::SEQPACKET, 0o600).expect_err("it is served");
        assert!(refused.to_string().contains("served by another process"), "{refused}");
        drop(first);
        let second = make(&path, SocketType::SEQPACKET, 0o600).expect("nobody has it");
        drop(second);
        fs::remove_file(&path).expect("removed");
        fs::write(&path, "precious").expect("written");
        assert!(make(&path, SocketType::SEQPACKET, 0o600).is_err());
        assert_eq!(fs::read_to_string(&path).expect("still there"), "precious");
    }
}
