//! A kubelet as far as plugins see it: a socket in a folder at which they register, and calls to theirs. Like
//! the real one it empties the folder when it starts.

use device_plugin::api::{
    ALLOCATE, AllocateRequest, AllocateResponse, ContainerRequest, Empty, HEALTHY, KUBELET, LIST_AND_WATCH,
    ListAndWatchResponse, REGISTER, RegisterRequest,
};
use device_plugin::kubelet::SOCKET;
use device_plugin::rpc::{self, Answer, Caller, Messages, Service, Status};
use prost::Message;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(60);

/// What comes to be, or the test fails.
pub(crate) async fn soon<T>(what: &str, comes: impl Future<Output = T>) -> T {
    timeout(LIMIT, comes).await.unwrap_or_else(|_| panic!("in vain: {what}"))
}

struct Desk {
    registered: mpsc::UnboundedSender<RegisterRequest>,
    refusal: Option<&'static str>,
}

impl Service for Desk {
    fn call(&self, name: &str, message: &[u8]) -> Result<Answer, Status> {
        assert_eq!(name, REGISTER);
        let request = RegisterRequest::decode(message).expect("a request");
        self.registered.send(request).expect("the test listens");
        match self.refusal {
            Some(words) => Err(Status::new(2, words)),
            None => Ok(Answer::One(Empty {}.encode_to_vec())),
        }
    }
}

pub(crate) struct Kubelet {
    folder: PathBuf,
    desk: JoinHandle<()>,
    registered: mpsc::UnboundedReceiver<RegisterRequest>,
}

impl Kubelet {
    pub(crate) fn start(folder: &Path) -> Kubelet {
        Self::refusing(folder, None)
    }

    pub(crate) fn refusing(folder: &Path, refusal: Option<&'static str>) -> Kubelet {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            std::fs::remove_file(entry.path()).expect("deleted");
        }
        let listener = UnixListener::bind(folder.join(KUBELET)).expect("a socket");
        let (sender, registered) = mpsc::unbounded_channel();
        let desk = tokio::spawn(rpc::serve(listener, Arc::new(Desk { registered: sender, refusal })));
        Kubelet { folder: folder.into(), desk, registered }
    }

    /// The next plugin that registers.
    pub(crate) async fn registered(&mut self) -> RegisterRequest {
        soon("a plugin registers", self.registered.recv()).await.expect("the desk is there")
    }

    /// Connects to the plugin, which has registered.
    pub(crate) async fn connect(&self) -> Caller {
        Caller::connect(&self.folder.join(SOCKET)).await.expect("it listens before it registers")
    }

    /// Waits until it has, and connects.
    pub(crate) async fn connected(&mut self) -> Caller {
        self.registered().await;
        self.connect().await
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.desk.abort();
    }
}

pub(crate) async fn watch(plugin: &Caller) -> Messages {
    plugin.call(LIST_AND_WATCH, &Empty {}.encode_to_vec()).await.expect("a stream")
}

/// Devices, and how many of them are healthy, as soon as that is so many.
pub(crate) async fn healthy(list: &mut Messages, count: usize) -> Vec<String> {
    let comes = async {
        loop {
            let message = list.next().await.expect("no error").expect("a list");
            let devices = ListAndWatchResponse::decode(message).expect("a list").devices;
            if devices.iter().filter(|device| device.health == HEALTHY).count() == count {
                return devices.into_iter().map(|device| device.id).collect();
            }
        }
    };
    soon("devices of that health", comes).await
}

/// What containers get that are given such devices.
pub(crate) async fn allocate(plugin: &Caller, containers: &[&[String]]) -> Result<AllocateResponse, Status> {
    let one = |devices: &&[String]| ContainerRequest { devices: devices.to_vec() };
    let request = AllocateRequest { containers: containers.iter().map(one).collect() };
    let answer = plugin.ask(ALLOCATE, &request.encode_to_vec()).await?;
    Ok(AllocateResponse::decode(answer).expect("an answer"))
}
