//! Start, reload, death and end.

use crate::daemon::{Daemon, PROGRAM, comes_true, open_folder};
use crate::raw::{Heard, Raw};
use fabric::door::{Doorbell, ForeignMemory, Memory, Whereabouts};
use fabric::process::ProcessId;
use std::fs;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use wire::host::Message;

#[test]
fn a_policy_is_checked_with_line_and_column() {
    let folder = open_folder();
    let path = folder.path().join("p.toml");
    let check = |text: &str| {
        fs::write(&path, text).expect("written");
        let output = Command::new(PROGRAM).arg("--check").arg(&path).output().expect("run");
        (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let (code, text) = check("[[fabric]]\nvchid = 0xFF01\nname = \"a\"\n");
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("no faults (fabrics: 1, rules: 0)"), "{text}");
    let (code, text) = check("[[fabric]]\nvchid = 0xFF01\nname = \"a\"\ncolour = 1\n");
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("p.toml:4:1: unknown field `colour`"), "{text}");
}

/// Of what the daemon is told: 1 is for what it cannot do.
#[test]
fn what_cannot_be_read_or_followed_is_as_a_faulty_policy_is() {
    let folder = open_folder();
    let path = folder.path().join("p.toml");
    fs::write(&path, "[daemon]\nsocket = \"/run/x/s\"\nmetrics = \"/run/x/m\"\n").expect("written");
    let (policy, own) = (path.to_str().expect("text"), PROGRAM);
    for (arguments, words) in [
        (&["--check", "/nosuch.toml"][..], "cannot read /nosuch.toml: No such file"),
        (&["--check", "/"], "cannot read /: Is a directory"),
        (&["-c", "/nosuch.toml", "--socket", "/nosuch/s"], "cannot read /nosuch.toml"),
        (&["-c", policy, "--print-cdi", "--library", own], "scrapes are not to be answered there (/run/x/m)"),
        (&["-c", policy, "--metrics", "", "--print-cdi", "--library", "/nosuch.so"], "no library /nosuch.so"),
    ] {
        let output = Command::new(PROGRAM).args(arguments).output().expect("run");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(words), "{arguments:?}: {text}");
    }
}

#[test]
fn what_a_policy_names_and_is_not_there_is_remarked() {
    let folder = open_folder();
    let path = folder.path().join("p.toml");
    let remarks = |text: &str| {
        fs::write(&path, format!("[daemon]\n{text}\n")).expect("written");
        let output = Command::new(PROGRAM).arg("--check").arg(&path).output().expect("run");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && text.contains("no faults"), "{text}");
        let lines = text.lines().filter(|line| line.starts_with(&format!("{}: ", path.display())));
        lines.skip(1).map(String::from).collect::<Vec<_>>()
    };
    for (text, words) in [
        ("metrics = \"/run/isthmus/m\"", "/run/isthmus: scrapes are not to be answered there"),
        ("pins = \"/proc\"", "pins: /proc is no BPF file system on this machine"),
        ("pins = \"/nosuch/pins\"", "pins: /nosuch/pins is no BPF file system"),
        ("cgroup = \"/nosuch\"", "cgroup: /nosuch is no cgroup of version 2 on this machine"),
        ("cgroup = \"/proc\"", "cgroup: /proc is no cgroup"),
    ] {
        let all = remarks(text);
        assert!(matches!(&all[..], [one] if one.contains(words)), "{text}: {all:?}");
    }
    let none: [String; 0] = [];
    assert_eq!(remarks("pins = \"\""), none);
    assert_eq!(remarks("pins = \"/sys/fs/bpf\""), none);
    // (A folder that is made when it is wanted.)
    if fs::read_to_string("/proc/mounts").is_ok_and(|mounts| mounts.contains(" /sys/fs/bpf bpf ")) {
        assert_eq!(remarks("pins = \"/sys/fs/bpf/isthmus/new\""), none);
    }
}

/// Where the kernel weighs sessions first, a daemon with a nice of its own has its session's made the same.
#[test]
fn a_nice_below_zero_counts_for_its_session_as_well() {
    let nice = Command::new("nice").args(["-n", "-10", "nice"]).output().map(|output| output.stdout);
    if fs::read_to_string("/proc/self/autogroup").is_err() || !nice.is_ok_and(|said| said == b"-10\n") {
        println!("skipped: needs a kernel with sched_autogroup, and who may have precedence");
        return;
    }
    let folder = open_folder();
    fs::write(folder.path().join("ismd.toml"), "").expect("written");
    let usual = Daemon::command(&folder);
    let mut command = Command::new("setsid");
    command.args(["nice", "-n", "-10"]).arg(usual.get_program()).args(usual.get_args()).stderr(Stdio::null());
    command.env_remove("NOTIFY_SOCKET");
    let mut child = command.spawn().expect("started");
    let group = || fs::read_to_string(format!("/proc/{}/autogroup", child.id())).unwrap_or_default();
    let is_preferred = comes_true(|| group().trim_end().ends_with(" nice -10"));
    let last = group();
    child.kill().expect("killed");
    child.wait().expect("dead");
    assert!(is_preferred, "{last}");
}

#[test]
fn sigterm_ends_it_and_takes_its_sockets_away() {
    let daemon = Daemon::start("");
    let (socket, _client) = (daemon.socket(), Raw::connect(&daemon));
    let second = Daemon::command(&daemon.folder).stderr(Stdio::piped()).output().expect("run");
    assert_eq!(second.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&second.stderr).contains("served by another process"));
    let folder = daemon.folder.path().to_path_buf();
    assert!(socket.exists() && folder.exists());
    assert_eq!(daemon.end(), Some(0));
    assert!(!socket.exists());
}

#[test]
fn sighup_brings_a_new_policy_and_a_faulty_one_changes_nothing() {
    let daemon = Daemon::start("[[fabric]]\nvchid = 0xFF01\nname = \"a\"\n");
    let vchid = || {
        let place = daemon.client().link().place();
        place.map(|place| place.vchid)
    };
    assert_eq!(vchid(), Ok(0xFF01));
    daemon.write_policy("[[fabric]]\nvchid = 0xFF02\nname = \"b\"\n");
    assert!(comes_true(|| vchid() == Ok(0xFF02)));
    daemon.write_policy("[[fabric]]\nvchid = 3\nname = \"c\"\n");
    let long = "*".repeat(100_000);
    daemon.write_policy(&format!("[[rule]]\nallow = true\nclient = {{ program = \"{long}\" }}\n"));
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(vchid(), Ok(0xFF02));
}

#[test]
fn a_fault_of_a_new_policy_is_one_line_of_the_log() {
    let folder = open_folder();
    let log = folder.path().join("log");
    let daemon = Daemon::start_with_log("", fs::File::create(&log).expect("a log"));
    daemon.write_policy("[[fabric]]\nvchid = 3\nname = \"c\"\n");
    let line = || {
        let text = fs::read_to_string(&log).expect("a log");
        text.lines().find(|line| line.contains("keeps the policy")).map(String::from)
    };
    assert!(comes_true(|| line().is_some()));
    let line = line().expect("a line");
    assert!(line.contains("ismd.toml:2:9: 3 is not between") && !line.contains("\\n"), "{line}");
}

#[test]
fn what_was_mapped_goes_on_when_it_is_killed_and_what_is_offered_it_is_told_again() {
    let mut daemon = Daemon::start("");
    let (client, server) = (daemon.client(), daemon.client());
    let (own, number) = client.make(1 << 16, 42).expect("memory");
    let bell = client.hang(number).expect("a doorbell");
    let owner = client.link().place().expect("a place").client;
    let place =
        |owner| Whereabouts { pid: owner, number, nonce: 42, holder: ProcessId { row: 0, generation: 0 } };
    let mapped = server.open(&place(owner), |memory| memory.map(1 << 16)).expect("passed");
    let open_bell = |owner| server.open_bell(server.holder(&place(owner), (0, 0))?, bell);
    let theirs = open_bell(owner).expect("a doorbell");
    daemon.start_anew();
    own[7].store(77, Relaxed);
    assert_eq!(mapped[7].load(Relaxed), 77);
    server.ring(theirs);
    assert!(os::poll::is_readable(bell));
    // Whoever is asked for his place tells the new daemon everything first.
    let now = client.link().place().expect("a place again").client;
    assert_ne!(now, owner, "what was published under the old number is nobody's");
    assert!(server.open(&place(owner), |memory| memory.map(1 << 16)).is_err());
    let again = server.open(&place(now), |memory| memory.map(1 << 16)).expect("passed again");
    assert_eq!(again[7].load(Relaxed), 77);
    let rung = open_bell(now).expect("the doorbell, too");
    client.drain(bell);
    server.ring(rung);
    assert!(os::poll::is_readable(bell));
}

#[test]
fn a_service_manager_hears_of_it_and_keeps_its_sockets() {
    let folder = open_folder();
    fs::write(folder.path().join("ismd.toml"), "").expect("written");
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).expect("bound");
    let mut command = Daemon::command(&folder);
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "200000").stderr(Stdio::null());
    let mut child = command.spawn().expect("started");
    let (mut heard, mut kept) = (String::new(), 0);
    let wanted = ["READY=1", "FDNAME=programs", "FDNAME=metrics", "WATCHDOG=1"];
    let all = comes_true(|| {
        let mut bytes = [0; 1024];
        if let Ok(packet) = os::passing::receive(manager.as_raw_fd(), &mut bytes) {
            heard.push_str(&String::from_utf8_lossy(&bytes[..packet.len]));
            kept += packet.passed.into_iter().map(os::fd::close).count();
        }
        wanted.iter().all(|line| heard.contains(line))
    });
    let _ = child.kill();
    let _ = child.wait();
    assert!(all && kept == 2, "{heard}");
    assert!(folder.path().join("run/s").exists(), "the socket is the manager's to keep");
}

#[test]
fn a_socket_that_a_manager_hands_over_is_served() {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
    let folder = open_folder();
    fs::write(folder.path().join("ismd.toml"), "").expect("written");
    let path = folder.path().join("activated");
    let socket =
        socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("made");
    bind(&socket, &SocketAddrUnix::new(&path).expect("short")).expect("bound");
    listen(&socket, 8).expect("listens");
    let client = os::passing::connect(path.as_os_str().as_bytes()).expect("waits in the queue");
    let ismd = Daemon::command(&folder);
    let mut command = Command::new("sh");
    // (By the shell, since the manager says whose descriptors they are.)
    command.arg("-c").arg("exec 3<&0 </dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$0\" \"$@\"");
    command.arg(ismd.get_program()).args(ismd.get_args()).stdin(socket).stderr(Stdio::null());
    let mut child = command.spawn().expect("started");
    let heard = Raw(client).say(&Message::Hello { vchid: 0 }, None);
    let _ = child.kill();
    let _ = child.wait();
    assert!(matches!(heard, Heard::Message(Message::Welcome { .. }, None)), "{heard:?}");
    assert!(!folder.path().join("run/s").exists(), "and no other is made");
}

/// As root of a container can, which has the folder of the socket: what lies there is held, and the folder.
#[test]
fn nothing_that_containers_see_keeps_a_daemon_from_starting() {
    use rustix::fs::{FlockOperation, flock};
    let mut daemon = Daemon::start("");
    let folder = daemon.socket().parent().expect("a folder").to_path_buf();
    let names = || fs::read_dir(&folder).expect("a folder").flatten().map(|entry| entry.path());
    assert_eq!(names().collect::<Vec<_>>(), [daemon.socket()], "neither a lock nor scrapes");
    // (A socket cannot be opened.)
    let held: Vec<_> = names().chain([folder.clone()]).filter_map(|path| fs::File::open(path).ok()).collect();
    for file in &held {
        flock(file, FlockOperation::NonBlockingLockExclusive).expect("held");
    }
    daemon.start_anew();
    drop(held);
}

#[test]
fn scrapes_tell_what_there_is() {
    let daemon = Daemon::start("");
    let client = daemon.client();
    client.make(1 << 16, 42).expect("memory");
    let scrape = || {
        let mut stream = UnixStream::connect(daemon.metrics()).expect("connected");
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: ismd\r\n\r\n").expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        text
    };
    let text = scrape();
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("# EOF\n"), "{text}");
    for line in [
        "ismd_marks 0",
        "ismd_clients 1",
        "ismd_segments 1",
        "ismd_segment_bytes 65536",
        "ismd_function_processes{vchid=\"ff00\",fid=\"0001\"} 1",
    ] {
        assert!(text.lines().any(|is| is == line), "{line} in\n{text}");
    }
    drop(UnixStream::connect(daemon.metrics()));
    client.link().leave();
    assert!(comes_true(|| scrape().contains("ismd_segments 0\n")));
}

/// As `smcd device` asks.
#[test]
fn functions_are_listed_and_none_is_taken_for_who_asks() {
    let daemon = Daemon::start("[[fabric]]\nvchid = 0xFF07\nname = \"a\"\npnet-id = \"NET1\"\n");
    let (tool, client) = (daemon.client(), daemon.client());
    let functions = || {
        let mut found = vec![];
        let told = tool.link().each_function(|function| found.push(function));
        assert_eq!(told, Ok(false), "and that nothing is marked");
        found
    };
    assert_eq!(functions(), []);
    let (_, number) = client.make(1 << 16, 42).expect("memory");
    client.hang(number).expect("a doorbell");
    let [one] = functions()[..] else { panic!("one function") };
    assert_eq!((one.vchid, one.fid, one.uid, one.processes), (0xFF07, 1, 1, 1));
    assert_eq!((one.connections, one.limit, &one.pnet_id[..5]), (1, 1920, &b"NET1\0"[..]));
    assert_eq!(one.user, rustix::process::geteuid().as_raw());
    client.link().leave();
    assert!(comes_true(|| functions().is_empty()), "it goes with its last process");
}

#[test]
fn the_policy_that_is_shipped_has_no_faults_nor_has_it_with_its_examples() {
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/ismd.toml");
    let folder = open_folder();
    let text = fs::read_to_string(shipped).expect("shipped");
    let examples: String = text.lines().map(|line| example(line) + "\n").collect();
    let path = folder.path().join("examples.toml");
    fs::write(&path, examples).expect("written");
    for path in [shipped.as_ref(), path.as_path()] {
        let output = Command::new(PROGRAM).arg("--check").arg(path).output().expect("run");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// A line that is commented out, and no sentence, becomes one that is not.
fn example(line: &str) -> String {
    let key = line.strip_prefix("# ").filter(|rest| rest.starts_with("[[") || rest.contains(" = "));
    key.unwrap_or(line).to_string()
}
