//! Starting, waiting for and ending both ends. Everything that is started ends with the test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::Value;

/// More than anything here takes on the busiest machine.
const PATIENCE: Duration = Duration::from_secs(90);

pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_smc_bench"));
    command.stdin(Stdio::null());
    command
}

/// A number in a JSON value.
pub(crate) fn number(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {pointer} in {value}"))
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// A profile in a file.
pub(crate) struct Profile(tempfile::NamedTempFile);

impl Profile {
    pub(crate) fn new(text: &str) -> Self {
        let mut file = tempfile::Builder::new().suffix(".xml").tempfile().expect("a file");
        file.write_all(text.as_bytes()).expect("it takes a profile");
        Self(file)
    }

    pub(crate) fn path(&self) -> &str {
        self.0.path().to_str().expect("a name")
    }
}

/// A process that is killed if nobody waits for it.
pub(crate) struct Process(pub(crate) Child);

impl Process {
    /// Its exit status; None if a signal ended it. A process that hangs is killed and fails the test.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        let (done, is_done) = mpsc::channel::<()>();
        let id = self.0.id().to_string();
        let dog = thread::spawn(move || {
            let hangs = is_done.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout);
            if hangs {
                Command::new("kill").args(["-KILL", &id]).status().expect("kill starts");
            }
            hangs
        });
        let status = self.0.wait().expect("it was started");
        drop(done);
        assert!(!dog.join().expect("no panic"), "it hung and was killed");
        status.code()
    }

    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.0.id().to_string()]).status();
        assert!(sent.expect("kill starts").success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A slave for one master.
pub(crate) struct Slave {
    pub(crate) process: Process,
    pub(crate) port: u16,
    json: tempfile::NamedTempFile,
}

impl Slave {
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::start_as(&[&["--once"], args].concat())
    }

    /// Not only for one master.
    pub(crate) fn start_as(args: &[&str]) -> Self {
        let json = tempfile::NamedTempFile::new().expect("a file");
        let mut command = program();
        command.args(["-s", "-P", "0", "--json"]).arg(json.path()).args(args);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the slave starts");
        let mut line = String::new();
        let output = child.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("it says something");
        let port =
            line.trim().strip_prefix("slave listens on port ").expect("a port").parse().expect("a number");
        Self { process: Process(child), port, json }
    }

    /// Its result, once it has ended well.
    pub(crate) fn finish(mut self) -> Value {
        assert_eq!(self.process.wait(), Some(0));
        let text = std::fs::read_to_string(self.json.path()).expect("it wrote");
        serde_json::from_str(&text).expect("JSON")
    }
}

/// What a master did.
pub(crate) struct Run {
    pub(crate) status: Option<i32>,
    pub(crate) output: String,
    pub(crate) errors: String,
}

impl Run {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.output)
            .unwrap_or_else(|error| panic!("{error}: {}{}", self.output, self.errors))
    }
}

/// Runs a master to its end; its standard output is JSON.
pub(crate) fn master(slave: &Slave, profile: &str, args: &[&str]) -> Run {
    master_with_tables(slave, profile, &[args, &["--json", "-"]].concat())
}

/// The same with tables.
pub(crate) fn master_with_tables(slave: &Slave, profile: &str, args: &[&str]) -> Run {
    let mut master = start_master(slave.port, profile, args);
    finish(&mut master)
}

pub(crate) fn start_master(port: u16, profile: &str, args: &[&str]) -> Process {
    // With SIGHUP as it is by default, whatever this test runs under.
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP", env!("CARGO_BIN_EXE_smc_bench")]).stdin(Stdio::null());
    command.args(["-m", profile, "-P", &port.to_string(), "--var", "?h=127.0.0.1"]).args(args);
    Process(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the master starts"))
}

/// Waits for a master, reading what it says meanwhile.
pub(crate) fn finish(master: &mut Process) -> Run {
    let output = drain(master.0.stdout.take());
    let errors = drain(master.0.stderr.take());
    let status = master.wait();
    Run { status, output: output.join().expect("no panic"), errors: errors.join().expect("no panic") }
}

fn drain(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    let mut pipe = pipe.expect("a pipe");
    thread::spawn(move || {
        let mut text = vec![];
        pipe.read_to_end(&mut text).expect("it can be read");
        String::from_utf8_lossy(&text).into_owned()
    })
}
