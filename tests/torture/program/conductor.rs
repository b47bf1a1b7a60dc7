//! Starts the servers and clients of a run, disturbs and watches them, and tells what came of it. Invariant: when it ends,
//! so has every process that it started, directly or not.

use crate::board::{BEGUN, CUT, DONE, JUDGED};
use crate::disturb::Disturber;
use crate::mid::program;
use crate::run::{append, fault, run};
use crate::script::{CLIENTS, SERVERS, Side};
use crate::summary;
use crate::watchdog::{self, Watchdog};
use isthmus_tests::sys;
use std::collections::HashMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What a direct child is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Server(usize),
    Client(u64),
}

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
    (0..CLIENTS).for_each(|c| conductor.start(Role::Client(c)));
    conductor.watch(Duration::from_secs(seconds));
    conductor.end();
    summary::tell()
}

impl Conductor {
    fn start(&mut self, role: Role) {
        let mut command = Command::new(program());
        let ports = self.ports.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
        let (kind, index) = match role {
            Role::Server(s) => ("server", s as u64),
            Role::Client(c) => ("client", c),
        };
        command.args([kind, &run().folder.to_string_lossy(), &run().seed.to_string()]);
        command.args([index.to_string(), ports]).stdin(Stdio::null()).stdout(Stdio::null());
        if let Some(library) = std::env::var_os("TORTURE_LIBRARY") {
            command.env("LD_PRELOAD", library);
        }
        let child = command.spawn().expect("start a process");
        append("processes", &format!("{} {role:?}", child.id()));
        self.children.insert(child.id() as i32, role);
    }

    /// Until the time is up and all that has begun is over.
    fn watch(&mut self, time: Duration) {
        let start = Instant::now();
        let (mut watchdog, mut disturber) = (Watchdog::new(), Disturber::new());
        loop {
            self.collect();
            if !self.stopping && start.elapsed() >= time {
                self.stopping = true;
                run().board.stop();
            }
            let open = watchdog.look(&self.children);
            let clients = self.children.values().any(|r| matches!(r, Role::Client(_)));
            if self.stopping && !clients && open == 0 {
                return disturber.rest();
            }
            if !self.stopping {
                disturber.disturb();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Collects what has ended; what should run on is started again.
    fn collect(&mut self) {
        while let Some((pid, status)) = sys::reap(-1, libc::WNOHANG) {
            let Some(role) = self.children.remove(&pid) else { continue };
            let killed = watchdog::take_killed(pid);
            if status != 0 && !killed {
                fault("crash", None, &format!("{role:?} ended with {}", sys::show_status(status)));
            }
            excuse(pid);
            if matches!(role, Role::Server(_)) || !self.stopping {
                self.start(role);
            }
        }
    }

    /// Ends all that is left.
    fn end(&mut self) {
        for _ in 0..200 {
            for pid in watchdog::descendants() {
                let _ = sys::kill(pid, libc::SIGKILL);
            }
            while sys::reap(-1, libc::WNOHANG).is_some() {}
            if watchdog::descendants().is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        fault("left", None, &format!("processes cannot be ended: {:?}", watchdog::descendants()));
    }
}

/// The connections of a process that is no more may break, and are over at its end.
pub(crate) fn excuse(pid: i32) {
    let board = run().board;
    for number in 0..board.frontier() {
        for side in Side::BOTH {
            let end = board.end(number, side);
            if end.pid() == pid && end.is(BEGUN) && !end.is(DONE) {
                end.flag(CUT | JUDGED | DONE);
            }
        }
    }
}
