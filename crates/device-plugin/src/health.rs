//! Whether the daemon helps containers: it answers what it is asked, in time, and marks connections. Owns: a
//! daemon that stands still is found out, and has one connection of ours in its queue, not one for each look.

use crate::allocation::Allocation;
use crate::plugin::Plugin;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, send,
    socket_with,
};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};
use wire::Reason;
use wire::host::{MESSAGE_MAX, Message};

/// Between an answer and the next question.
const EVERY: Duration = Duration::from_secs(1);
/// So long an answer may take: one that has much to do gives it.
const PATIENCE: Duration = Duration::from_secs(5);
/// So long it is waited for then, before the daemon is asked anew.
const LATE: Duration = Duration::from_secs(60);
/// Where others have filled the daemon's queue there is room in it again and again.
const AGAIN: Duration = Duration::from_millis(10);

/// How the daemon is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Health {
    Well,
    /// It answers, and marks no connections: those between containers are TCP.
    Unmarked,
    Silent,
    Away,
}

/// Keeps the plugin informed, for ever.
pub(crate) async fn watch(specification: PathBuf, plugin: Arc<Plugin>) {
    let mut last = None;
    let mut tell = |health| {
        plugin.set_health(health == Health::Well);
        if last.replace(health) != Some(health) {
            match health {
                Health::Well => info!("the daemon is there: containers get devices"),
                Health::Unmarked => {
                    warn!("the daemon marks no connections, as its log says: no new container gets a device");
                }
                Health::Silent => warn!("the daemon does not answer: no new container gets a device"),
                Health::Away => warn!("the daemon is not there: no new container gets a device"),
            }
        }
    };
    loop {
        let mut asked = pin!(look(&specification));
        let health = match timeout(PATIENCE, &mut asked).await {
            Ok(health) => health,
            Err(_) => {
                tell(Health::Silent);
                timeout(LATE, asked).await.unwrap_or(Health::Silent)
            }
        };
        tell(health);
        sleep(EVERY).await;
    }
}

async fn look(specification: &Path) -> Health {
    let socket = match Allocation::read(specification) {
        Ok(allocation) => allocation.socket,
        Err(error) => {
            debug!(error = format!("{error:#}"), "no specification");
            return Health::Away;
        }
    };
    match ask(&socket).await {
        Ok(Some(Message::Refused(Reason::NOSMCDDEV))) => Health::Unmarked,
        // (Which functions it has is nothing to us, nor whether it tells.)
        Ok(Some(_)) => Health::Well,
        Ok(None) => Health::Silent,
        Err(error) => {
            debug!(%error, socket = %socket.display(), "the daemon cannot be asked");
            Health::Away
        }
    }
}

/// What is behind the last of the daemon's functions; `None` if it hangs up.
async fn ask(path: &Path) -> std::io::Result<Option<Message>> {
    // (A stream in name only, for tokio to watch: packets come whole.)
    let line = UnixStream::from_std(dial(path).await?.into())?;
    let mut bytes = [0; MESSAGE_MAX];
    let len = Message::List { after: u32::MAX }.emit(0, &mut bytes).unwrap_or_default();
    send(&line, &bytes[..len], SendFlags::NOSIGNAL)?;
    loop {
        line.readable().await?;
        let heard = || Ok(recv(&line, &mut bytes[..], RecvFlags::DONTWAIT)?.0);
        match line.try_io(Interest::READABLE, heard) {
            Ok(len) => return Ok(Message::parse(&bytes[..len]).ok().map(|(_, message)| message)),
            Err(error) if [ErrorKind::WouldBlock, ErrorKind::Interrupted].contains(&error.kind()) => {}
            Err(error) => return Err(error),
        }
    }
}

async fn dial(path: &Path) -> std::io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let line = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    loop {
        match connect(&line, &address) {
            Err(Errno::AGAIN) => sleep(AGAIN).await,
            told => return Ok(told.map(|()| line)?),
        }
    }
}
