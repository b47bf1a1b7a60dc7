//! A server under test: started, waited for, watched. Dropping it ends it and all its processes.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::paths::launch::{Guarded, Place};
use crate::paths::sockets::{Counted, Watch};
use uperf::result::Connections;

use super::application::Application;

/// Until a server takes requests. PostgreSQL needs a second after a crash.
const PATIENCE: Duration = Duration::from_secs(30);
/// Processes that served connections need a moment to end when these are closed.
const FAREWELL: Duration = Duration::from_secs(2);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// A port of 127.0.0.1 that nobody uses. Somebody may before we do; then the server says so.
pub(super) fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port is free at 127.0.0.1")?;
    Ok(listener.local_addr()?.port())
}

/// It runs and takes requests.
pub(super) struct Server {
    guarded: Guarded,
    port: u16,
    /// How many processes it has without clients.
    processes: usize,
}

impl Server {
    /// Starts the server of `application` in `place`.
    pub(super) fn start(
        application: &dyn Application,
        folder: &Path,
        place: &Place,
        port: u16,
    ) -> anyhow::Result<Self> {
        let program = application.server(folder, port)?;
        let mut guarded = place.start(&program.file, &program.arguments)?;
        let deadline = Instant::now() + PATIENCE;
        while !is_ready(application, port) {
            if !guarded.is_alive() {
                bail!("{} ended at once{}", program.file.display(), guarded.complaint());
            }
            if Instant::now() > deadline {
                bail!("{} took no requests within {} s", program.file.display(), PATIENCE.as_secs());
            }
            thread::sleep(PAUSE);
        }
        let processes = guarded.processes().len();
        Ok(Self { guarded, port, processes })
    }

    /// Its processes' CPU time, once those that only served clients have ended.
    pub(super) fn cpu_ns(&self) -> u64 {
        let deadline = Instant::now() + FAREWELL;
        while self.guarded.processes().len() > self.processes && Instant::now() < deadline {
            thread::sleep(PAUSE);
        }
        self.guarded.cpu_ns()
    }

    /// What clients' connections run over now.
    pub(super) fn connections(&self, smcss: Option<&Path>) -> Connections {
        let watch = Watch { counted: Counted::TcpAt(self.port), smcss, namespaces: None };
        watch.look(&self.guarded.processes())
    }
}

fn is_ready(application: &dyn Application, port: u16) -> bool {
    if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        return false;
    }
    let Some(program) = application.readiness(port) else { return true };
    let place = Place { gently: false, ..application.place() };
    place.start(&program.file, &program.arguments).and_then(|asked| asked.finish(PATIENCE)).is_ok()
}
