//! Starts the servers and clients of a run, disturbs and watches them, and tells what came of it. Invariant:
//! when it ends, so has every process that it started, directly or not.

use crate::disturb::Disturber;
use crate::home;
use crate::mid::program;
use crate::processes::{Role, descendants, excuse};
use crate::run::{append, fault, run};
use crate::script::{self, CLIENTS, SERVERS, only, takes_part};
use crate::summary;
use crate::watchdog::{self, Watchdog};
use isthmus_tests::sys;
use std::collections::HashMap;
use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) struct Conductor {
    ports: Vec<u16>,
    children: HashMap<i32, Role>,
    stopping: bool,
}

/// A whole run; whether it was without fault.
pub(crate) fn conduct(seconds: u64) -> bool {
    let _ = sys::adopt_orphans();
    let ports = SERVERS.iter().map(|_| isthmus_tests::free_port()).collect();
    let mut conductor = Conductor { ports, children: HashMap::new(), stopping: false };
    (0..SERVERS.len()).for_each(|s| conductor.start(Role::Server(s)));
    std::thread::sleep(Duration::from_millis(100));
    let wanted = |process: &u64| only().is_none_or(|number| number % CLIENTS == *process);
    (0..CLIENTS)
        .filter(|process| takes_part(*process))
        .filter(wanted)
        .for_each(|c| conductor.start(Role::Client(c)));
    if home::is_wanted() {
        conductor.start(Role::Operator);
    }
    conductor.watch(Duration::from_secs(seconds));
    conductor.end();
    summary::tell()
}

/// The program of a role. Clients are in another network, with another registry, where the settings name one.
fn command(role: Role, library: Option<OsString>) -> Command {
    let assigned = |name: &str, value: &OsString| {
        let mut text = OsString::from(format!("{name}="));
        text.push(value);
        text
    };
    let network = script::network().filter(|_| matches!(role, Role::Client(_)));
    let mut command = Command::new(if network.is_some() { "nsenter".into() } else { program() });
    if let Some((network, registry)) = network {
        command.args([assigned("--net", &network), "env".into(), assigned("SMC_REGISTRY_DIR", &registry)]);
        command.args(library.iter().map(|library| assigned("LD_PRELOAD", library)));
        command.arg(program());
    } else if let Some(library) = library {
        command.env("LD_PRELOAD", library);
    }
    command
}

impl Conductor {
    fn start(&mut self, role: Role) {
        let library = std::env::var_os("TORTURE_LIBRARY").filter(|_| role != Role::Operator);
        let mut command = command(role, library);
        let ports = self.ports.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
        let (kind, index) = match role {
            Role::Server(s) => ("server", s as u64),
            Role::Client(c) => ("client", c),
            Role::Operator => ("operator", 0),
        };
        command.args([kind, &run().folder.to_string_lossy(), &run().seed.to_string()]);
        command.args([index.to_string(), ports]).stdin(Stdio::null()).stdout(Stdio::null());
        #[expect(
            clippy::zombie_processes,
            reason = "`collect` waits for all children, adopted ones too, by their ids"
        )]
        let child = command.spawn().expect("start a process");
        append("processes", &format!("{} {role:?}", child.id()));
        self.children.insert(child.id() as i32, role);
    }

    /// Until the time is up and all that has begun is over.
    fn watch(&mut self, time: Duration) {
        let start = Instant::now();
        // What the watchdog finds takes up to three times its patience, and may uncover the next.
        let late = Duration::from_millis(5 * watchdog::patience_ms());
        let (mut watchdog, mut disturber) = (Watchdog::new(), Disturber::new());
        loop {
            self.collect();
            if !self.stopping && start.elapsed() >= time {
                self.stopping = true;
                run().board.stop();
                disturber.rest();
            }
            let open = watchdog.look(&self.children);
            let clients = self.children.values().any(|r| matches!(r, Role::Client(_)));
            if self.stopping && !clients && open == 0 {
                return;
            }
            if !self.stopping {
                disturber.disturb();
            } else if start.elapsed() > time + late {
                watchdog::end_late(&self.children);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Collects what has ended; what should run on is started again.
    fn collect(&mut self) {
        while let Some((pid, status)) = sys::reap(-1, libc::WNOHANG) {
            let Some(role) = self.children.remove(&pid) else { continue };
            if status != 0 && !watchdog::has_killed(pid, status) {
                fault("crash", None, &format!("{role:?} ended with {}", sys::show_status(status)));
            }
            if let Role::Server(port) = role {
                run().board.break_server(port);
            }
            excuse(pid);
            if matches!(role, Role::Server(_)) || !self.stopping {
                self.start(role);
            }
        }
    }

    /// Ends all that is left.
    fn end(&mut self) {
        run().board.end_all();
        let start = Instant::now();
        loop {
            let left = descendants();
            if left.is_empty() {
                return;
            }
            assert!(start.elapsed() < Duration::from_secs(10), "processes cannot be ended: {left:?}");
            left.iter().for_each(|pid| _ = sys::kill(*pid, libc::SIGKILL));
            while sys::reap(-1, libc::WNOHANG).is_some() {}
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
