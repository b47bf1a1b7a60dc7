//! A node of a test's own: a folder for sockets, a specification, a daemon's socket, and the plugin, which is
//! killed with the value.

use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

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

    /// The daemon, as far as its socket: gone with the value, but for the file.
    pub(crate) fn daemon(&self) -> OwnedFd {
        let _ = std::fs::remove_file(self.at("s"));
        let daemon = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).expect("a socket");
        bind(&daemon, &SocketAddrUnix::new(self.at("s")).expect("a path")).expect("bound");
        // (Nobody accepts; who finds the queue full has found a daemon.)
        listen(&daemon, 1).expect("listens");
        daemon
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

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(plugin) = &mut self.plugin {
            let _ = plugin.kill();
            let _ = plugin.wait();
        }
    }
}
