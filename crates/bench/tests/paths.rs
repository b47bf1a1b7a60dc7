//! Paths as `smc_bench` sets them up, with a stand-in for the engine that only keeps to its command line. What is asked
//! above all: that nothing is left, however a run ends.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Keeps to the engine's command line: a slave that serves until the master's result is there. $FAKE says what else.
const ENGINE: &str = r#"#!/bin/sh
json= role= args="$*"
while [ $# -gt 0 ]; do
  case $1 in -s) role=slave ;; -m) role=master ;; --json) json=$2 ;; esac
  shift
done
echo "$args" > "$HERE/$role.args"
if [ $role = slave ]; then
  [ "$FAKE" = mute ] && exit 3
  echo $$ > "$HERE/slave.pid"
  echo "slave listens on port 4711"
  [ "$FAKE" = hang ] && { (trap '' HUP TERM; setsid sleep 300) & }
  while [ ! -e "${json%slave}master" ]; do sleep 0.02; done
  echo '{"server": {"cpu_ns": 7, "system_ns": 0, "voluntary_switches": 0, "involuntary_switches": 0}}' > "$json"
else
  [ "$FAKE" = fail ] && { echo "no such profile" >&2; exit 1; }
  [ "$FAKE" = hang ] && { touch "$HERE/hanging"; sleep 300; }
  cat > "$json.part" <<END
{"profile": "x", "strands": 1, "elapsed_ns": 5, "operations": 4, "transactions": 2, "bytes_sent": 1, "bytes_received": 1,
 "latency": {"counts_ns": []}, "client": {"cpu_ns": 3, "system_ns": 0, "voluntary_switches": 0,
 "involuntary_switches": 0}, "server": null, "host": null, "connections": null, "errors": 0}
END
  mv "$json.part" "$json"
fi
"#;

/// A folder with the engine in it; temporary folders of runs are made there as well.
struct Bed {
    folder: TempDir,
}

impl Bed {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let engine = folder.path().join("engine");
        fs::write(&engine, ENGINE).expect("written");
        fs::set_permissions(&engine, fs::Permissions::from_mode(0o755)).expect("its owner may");
        fs::create_dir(folder.path().join("tmp")).expect("created");
        Self { folder }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    fn cell(&self, path: &str, fake: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_smc_bench"));
        command.args(["inner", "cell", "--profile", "rr", "--seconds", "0.05", "--path", path, "--engine"]);
        command.arg(self.file("engine")).stdin(Stdio::null());
        command.env("FAKE", fake).env("HERE", self.folder.path()).env("TMPDIR", self.file("tmp"));
        command
    }

    fn run(&self, path: &str, fake: &str) -> Output {
        self.cell(path, fake).output().expect("the program starts")
    }

    /// No process names this folder any more, and no temporary folder is in it.
    fn is_clean(&self) -> bool {
        let name = self.folder.path().to_string_lossy().into_owned();
        fs::read_dir(self.file("tmp")).expect("it is there").next().is_none()
            && processes(|pid| environment_of(pid).contains(&name)).is_empty()
    }
}

fn environment_of(pid: &Path) -> String {
    fs::read(pid.join("environ"))
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
}

/// Folders in /proc of processes that satisfy `wanted`.
fn processes(wanted: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten().map(|entry| entry.path());
    entries.filter(|path| path.join("stat").exists() && wanted(path)).collect()
}

fn within(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    while !holds() {
        if Instant::now() > deadline {
            return false;
        }
        thread::sleep(Duration::from_millis(10));
    }
    true
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn both_results_become_one() {
    let bed = Bed::new();
    let output = bed.run("tcp-loopback", "");
    assert!(output.status.success(), "{}", stderr(&output));
    let run: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a run as JSON");
    assert_eq!((run["client"]["cpu_ns"].as_u64(), run["server"]["cpu_ns"].as_u64()), (Some(3), Some(7)));
    let (slave, master) = (bed.text("slave.args"), bed.text("master.args"));
    assert!(slave.starts_with("-s --once -P 0 --server threads --json "), "{slave}");
    assert!(master.contains("-m rr -P 4711 ") && master.contains("--var ?nprocs=1"), "{master}");
    assert!(bed.is_clean());
}

#[test]
fn what_goes_wrong_is_told_and_leaves_nothing() {
    for (path, fault, told) in [
        ("unix", "fail", "no such profile"),
        ("tcp-loopback", "mute", "ended too early"),
        ("tcp-loopback", "hang", "did not end within"),
    ] {
        let bed = Bed::new();
        // Patience is for the one that hangs; the others end by themselves.
        let patience = if fault == "hang" { "0.3" } else { "60" };
        let output = bed.cell(path, fault).args(["--patience", patience]).output().expect("it starts");
        assert!(!output.status.success() && stderr(&output).contains(told), "{fault}: {}", stderr(&output));
        assert!(bed.is_clean(), "{fault}");
    }
}

/// SIGKILL leaves the program no time for anything; SIGINT is what Ctrl-C sends.
#[test]
fn nothing_is_left_when_the_program_is_killed() {
    for signal in [rustix::process::Signal::KILL, rustix::process::Signal::INT] {
        let bed = Bed::new();
        let mut program =
            bed.cell("tcp-loopback", "hang").stdout(Stdio::null()).spawn().expect("the program starts");
        assert!(within(Duration::from_secs(20), || bed.file("hanging").exists()), "the master never ran");
        let pid = rustix::process::Pid::from_child(&program);
        rustix::process::kill_process(pid, signal).expect("it runs");
        program.wait().expect("it ends");
        assert!(within(Duration::from_secs(20), || bed.is_clean()), "left after {signal:?}");
    }
}

/// Namespaces in a user namespace, which any user may have where the host allows it; what is in them runs under guards.
struct Net {
    holder: Child,
    said: serde_json::Value,
}

impl Net {
    fn new() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_smc_bench"));
        command.args(["inner", "net", "--user"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = command.spawn().expect("the program starts");
        let said = serde_json::from_str(&line_of(&mut holder)).expect("JSON");
        Self { holder, said }
    }

    /// An end of one connection with one transaction.
    fn start(&self, end: &str, arguments: &[&str]) -> Child {
        let proc = format!("/proc/{}", self.holder.id());
        let network = format!("{proc}/fd/{}", self.said["Ok"][end]);
        let mut command = Command::new(env!("CARGO_BIN_EXE_smc_bench"));
        command.args(["inner", "guard", "--", env!("CARGO_BIN_EXE_smc_bench"), "inner", "enter"]);
        command.args(["--user-namespace", &format!("{proc}/ns/user"), "--network", &network, "--"]);
        command
            .arg(env!("CARGO_BIN_EXE_smc_bench"))
            .args(arguments)
            .args("--conns 1 --transactions 1".split(' '));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program starts")
    }
}

fn line_of(child: &mut Child) -> String {
    let mut line = String::new();
    let out = child.stdout.as_mut().expect("a pipe");
    let mut byte = [0];
    while out.read(&mut byte).is_ok_and(|n| n > 0) && byte != *b"\n" {
        line.push(byte[0].into());
    }
    line
}

/// Ends a guard or a holder as the end of the program that started it would.
fn end(mut child: Child) {
    drop(child.stdin.take());
    child.wait().expect("it ends");
}

#[test]
fn bytes_cross_between_two_namespaces_of_any_user() {
    let bed = Bed::new();
    let net = Net::new();
    if let Some(reason) = net.said["Err"].as_str() {
        println!("skipped: {reason}");
        return;
    }
    let holder = Path::new("/proc").join(net.holder.id().to_string());
    let hub = fs::read_link(holder.join("ns/user")).expect("it runs");
    let mut server = net.start("server", &["inner", "idle-server", "--address", "198.18.0.2:0"]);
    let address = line_of(&mut server);
    assert!(address.starts_with("198.18.0.2:"), "{address}");
    let go = bed.file("go");
    fs::write(&go, "").expect("written");
    let go = go.to_str().expect("text");
    let mut client = net.start("client", &["inner", "idle-client", "--address", &address, "--go", go]);
    assert_eq!([line_of(&mut client), line_of(&mut client)], ["ready", "used"]);
    assert_eq!(line_of(&mut server), "used");
    [client, server, net.holder].into_iter().for_each(end);
    let interfaces = fs::read_to_string("/proc/net/dev").expect("/proc");
    assert!(!["bridge:", "client:", "server:"].iter().any(|name| interfaces.contains(name)), "{interfaces}");
    assert!(processes(|pid| fs::read_link(pid.join("ns/user")).is_ok_and(|seen| seen == hub)).is_empty());
}

/// Starts a run that hangs in its measured part. None, and the reason printed, where this host has not got the path.
fn hanging(bed: &Bed, path: &str) -> Option<Child> {
    let mut program = bed.cell(path, "hang").stderr(Stdio::piped()).spawn().expect("the program starts");
    let started = within(Duration::from_secs(20), || {
        bed.file("hanging").exists() || matches!(program.try_wait(), Ok(Some(_)))
    });
    assert!(started, "neither a run nor a reason");
    if bed.file("hanging").exists() {
        return Some(program);
    }
    let said = stderr(&program.wait_with_output().expect("it has ended"));
    println!("skipped: {said}");
    assert!(said.contains(&format!("no {path} here: ")) && said.lines().count() == 1, "{said}");
    None
}

/// Both ends of the stand-in run in namespaces of their own, and these are gone afterwards.
#[test]
fn namespaces_end_with_the_program() {
    let bed = Bed::new();
    let Some(mut program) = hanging(&bed, "tcp-veth") else { return };
    let network = |pid: &Path| fs::read_link(pid.join("ns/net")).ok();
    let slave = network(&Path::new("/proc").join(bed.text("slave.pid").trim())).expect("it runs");
    let own = network(Path::new("/proc/self")).expect("own network");
    assert_ne!(slave, own, "the slave has a network of its own");
    program.kill().expect("it runs");
    program.wait().expect("it ends");
    let is_gone = || processes(|pid| network(pid).is_some_and(|seen| seen == slave)).is_empty();
    assert!(within(Duration::from_secs(20), || bed.is_clean() && is_gone()), "left behind");
}

/// The BPF programs are the holder's; what could be left is the cgroup.
#[test]
fn a_cgroup_ends_with_the_program() {
    let bed = Bed::new();
    let Some(mut program) = hanging(&bed, "sockmap") else { return };
    let cgroup =
        fs::read_to_string(format!("/proc/{}/cgroup", bed.text("slave.pid").trim())).expect("it runs");
    let name = cgroup.lines().find_map(|line| line.strip_prefix("0::")).expect("the unified hierarchy");
    assert!(name.contains("smc_bench-"), "{cgroup}");
    let mounts = fs::read_to_string("/proc/self/mounts").expect("/proc");
    let top = mounts.lines().find(|line| line.split(' ').nth(2) == Some("cgroup2")).expect("cgroup v2");
    let folder = Path::new(top.split(' ').nth(1).expect("where")).join(name.trim_start_matches('/'));
    assert!(folder.exists(), "{}", folder.display());
    program.kill().expect("it runs");
    program.wait().expect("it ends");
    assert!(within(Duration::from_secs(20), || bed.is_clean() && !folder.exists()), "left behind");
}
