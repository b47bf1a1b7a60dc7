//! A node of a test's own: a folder for sockets, a specification, a daemon's socket, and the plugin, which is
//! killed with the value.

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType, accept_with,
    bind, listen, recv, send, shutdown, socket_with,
};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;
use wire::host::{MESSAGE_MAX, Message};

pub(crate) struct Node {
    pub(crate) folder: tempfile::TempDir,
    plugin: Option<Child>,
}

impl Node {
    /// (Nothing runs so far.)
    pub(crate) fn new() -> Node {
        let folder = tempfile::tempdir().expect("a folder");
        let node = Node { folder, plugin: None };
        std::fs::create_dir(node.plugins()).expect("a folder");
        let host = node.folder.path().display();
        let spec = format!(
            r#"{{"cdiVersion": "0.3.0", "kind": "isthmus/smc",
                "devices": [{{"name": "host", "containerEdits": {{
                "env": ["LD_PRELOAD=/l.so", "SMC_ISMD=/run/isthmus/s"], "mounts": [
                {{"hostPath": "{host}", "containerPath": "/run/isthmus", "options": ["bind", "ro"]}},
                {{"hostPath": "/host/l.so", "containerPath": "/l.so", "options": ["bind", "ro"]}}]}}}}]}}"#
        );
        std::fs::write(node.at("cdi.json"), spec).expect("written");
        node
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Where the kubelet's and the plugin's sockets are.
    pub(crate) fn plugins(&self) -> PathBuf {
        self.at("plugins")
    }

    /// The daemon, as far as it is asked whether it is there; it marks connections.
    pub(crate) fn daemon(&self) -> Daemon {
        self.daemon_that(Message::Done)
    }

    /// One that says something else.
    pub(crate) fn daemon_that(&self, says: Message) -> Daemon {
        let daemon = self.silent_daemon(16);
        let socket = Arc::clone(&daemon.0);
        // (Until the socket is shut down.)
        std::thread::spawn(move || {
            while let Ok(line) = accept_with(&socket, SocketFlags::CLOEXEC) {
                let mut bytes = [0; MESSAGE_MAX];
                let Ok((len @ 1.., _)) = recv(&line, &mut bytes[..], RecvFlags::empty()) else { continue };
                let (tag, asked) = Message::parse(&bytes[..len]).expect("a message");
                assert!(matches!(asked, Message::List { .. }), "{asked:?}");
                let len = says.emit(tag, &mut bytes).expect("room");
                send(&line, &bytes[..len], SendFlags::NOSIGNAL).expect("said");
            }
        });
        daemon
    }

    /// One that stands still, with room for so many in its queue.
    pub(crate) fn silent_daemon(&self, room: i32) -> Daemon {
        let _ = std::fs::remove_file(self.at("s"));
        let daemon = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let daemon = daemon.expect("a socket");
        bind(&daemon, &SocketAddrUnix::new(self.at("s")).expect("a path")).expect("bound");
        listen(&daemon, room).expect("listens");
        Daemon(Arc::new(daemon))
    }

    pub(crate) fn start(&mut self, more: &[&str]) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ismd-device-plugin"));
        command.arg("--cdi").arg(self.at("cdi.json")).arg("--folder").arg(self.plugins());
        let log = std::fs::File::create(self.at("log")).expect("a log");
        command.args(["--log-level", "debug"]).args(more).stdout(Stdio::null()).stderr(log);
        self.plugin = Some(command.spawn().expect("started"));
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.at("log")).unwrap_or_default()
    }

    pub(crate) fn terminate(&self) {
        let id = self.plugin.as_ref().expect("it runs").id();
        let id = rustix::process::Pid::from_raw(id.cast_signed()).expect("an id");
        rustix::process::kill_process(id, rustix::process::Signal::TERM).expect("told");
    }

    /// How it has ended.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let plugin = self.plugin.as_mut().expect("it runs");
        let comes = async {
            loop {
                if let Some(status) = plugin.try_wait().expect("our child") {
                    return status;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        crate::kubelet::soon("it ends", comes).await
    }
}

/// A daemon of a test: gone with the value, but for the file.
pub(crate) struct Daemon(Arc<OwnedFd>);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = shutdown(&*self.0, Shutdown::Both);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(plugin) = &mut self.plugin {
            let _ = plugin.kill();
            let _ = plugin.wait();
        }
    }
}
