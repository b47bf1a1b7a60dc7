//! The kubelet's folder: our socket there, and its own. Owns: whatever is started anew or deleted, in
//! whichever order, within seconds our socket is there, and the kubelet that runs knows it; at the end our
//! socket goes.
//!
//! All of it by looking, once a second: a kubelet that starts deletes every socket in the folder, ours too,
//! and makes its own.

use crate::allocation::Allocation;
use crate::api::{KUBELET, REGISTER, RegisterRequest, VERSION};
use crate::health;
use crate::plugin::{self, Plugin};
use crate::rpc::{self, Caller, Status};
use anyhow::{Context, bail};
use prost::Message;
use rustix::fs::{FileType, lstat};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tracing::{debug, info};

/// Our socket's name there.
pub const SOCKET: &str = "isthmus-smc.sock";
/// Between two looks.
const EVERY: Duration = Duration::from_secs(1);
/// So long a kubelet may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// So long a kubelet that we are known to may take to ask for our devices.
const UNHEARD: Duration = Duration::from_secs(5);

/// Which socket it is that lies at a path: a new one may have the old one's number.
type Identity = (u64, i64, i64);

fn identity(path: &Path) -> Option<Identity> {
    let about = lstat(path).ok()?;
    let is_socket = FileType::from_raw_mode(about.st_mode) == FileType::Socket;
    is_socket.then_some((about.st_ino, about.st_mtime, about.st_mtime_nsec as i64))
}

/// Our socket, served. Both end with the value.
struct Serving {
    path: PathBuf,
    identity: Identity,
    task: JoinHandle<()>,
}

impl Serving {
    fn start(path: PathBuf, plugin: &Arc<Plugin>) -> anyhow::Result<Serving> {
        if identity(&path).is_some()
            && let Err(error) = std::fs::remove_file(&path)
            && error.kind() != ErrorKind::NotFound
        {
            return Err(error).with_context(|| format!("cannot replace {}", path.display()));
        }
        let listener =
            UnixListener::bind(&path).with_context(|| format!("cannot listen at {}", path.display()))?;
        // (A kubelet that starts may have deleted it by now: then it is made again.)
        let identity = identity(&path).unwrap_or_default();
        let task = tokio::spawn(rpc::serve(listener, Arc::clone(plugin)));
        Ok(Serving { path, identity, task })
    }

    fn is_there(&self) -> bool {
        identity(&self.path) == Some(self.identity)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.task.abort();
        // (Somebody else's is somebody else's.)
        if self.is_there() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Whom we are known to, and since when.
#[derive(Clone, Copy)]
struct Known {
    kubelet: Identity,
    since: Instant,
}

struct Node {
    folder: PathBuf,
    specification: PathBuf,
    plugin: Arc<Plugin>,
    serving: Option<Serving>,
    known: Option<Known>,
}

/// Serves the kubelet of `folder` until SIGTERM or SIGINT. Errors: it wants nothing to do with us, or our
/// socket cannot be made.
pub async fn run(folder: PathBuf, specification: PathBuf, plugin: Plugin) -> anyhow::Result<()> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let plugin = Arc::new(plugin);
    // (Beside it: nobody waits for a daemon that stands still.)
    tokio::spawn(health::watch(specification.clone(), Arc::clone(&plugin)));
    let mut node = Node { folder, specification, plugin, serving: None, known: None };
    let mut looks = interval(EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            looked = async { looks.tick().await; node.look().await } => looked?,
        }
    }
    info!("ends");
    Ok(())
}

impl Node {
    async fn look(&mut self) -> anyhow::Result<()> {
        if self.serving.as_ref().is_none_or(|serving| !serving.is_there()) {
            // (The old one first: it must not take the new one with it.)
            self.serving = None;
            self.known = None;
            if !self.folder.is_dir() {
                debug!(folder = %self.folder.display(), "no kubelet so far");
                return Ok(());
            }
            self.serving = Some(Serving::start(self.folder.join(SOCKET), &self.plugin)?);
        }
        match identity(&self.folder.join(KUBELET)) {
            Some(kubelet) if !self.is_known_to(kubelet) => self.register(kubelet).await,
            _ => Ok(()),
        }
    }

    fn is_known_to(&self, kubelet: Identity) -> bool {
        let is_listened_to = |known: Known| self.plugin.is_heard() || known.since.elapsed() < UNHEARD;
        self.known.is_some_and(|known| known.kubelet == kubelet && is_listened_to(known))
    }

    /// Errors: the kubelet has answered, and will not have us.
    async fn register(&mut self, kubelet: Identity) -> anyhow::Result<()> {
        let answer = timeout(PATIENCE, announce(&self.folder.join(KUBELET), &self.specification)).await;
        match answer.unwrap_or_else(|_| Err(Status::new(Status::UNAVAILABLE, "no answer"))) {
            Ok(resource) => {
                info!(resource, "the kubelet knows of us");
                self.known = Some(Known { kubelet, since: Instant::now() });
            }
            Err(status) if status.code == Status::UNAVAILABLE => debug!(%status, "the kubelet is not there"),
            Err(status) => bail!("the kubelet refuses: {status}"),
        }
        Ok(())
    }
}

/// Tells a kubelet of us; the resource's name.
async fn announce(kubelet: &Path, specification: &Path) -> Result<String, Status> {
    let internal = |error: anyhow::Error| Status::new(Status::INTERNAL, format_args!("{error:#}"));
    let resource_name = Allocation::read(specification).map_err(internal)?.resource;
    let request = RegisterRequest {
        version: VERSION.into(),
        endpoint: SOCKET.into(),
        resource_name,
        options: Some(plugin::options()),
    };
    let caller = Caller::connect(kubelet).await?;
    caller.ask(REGISTER, &request.encode_to_vec()).await?;
    Ok(request.resource_name)
}
