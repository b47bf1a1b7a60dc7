//! One end is missing, foreign, hostile, killed or interrupted: one clear sentence, the documented exit status, and what
//! was measured is not lost.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use procfs::process::Process;

use crate::ends::{self, Profile, Slave, finish, master, number, start_master};

const LONG: [&str; 6] = ["--var", "duration=60s", "--var", "nprocs=2", "-i", "50ms"];

/// What a master says that fails at this port.
fn complaint(port: u16) -> String {
    let run = finish(&mut start_master(port, "rr1c-200x1000", &[]));
    assert_eq!(run.status, Some(1));
    run.errors
}

#[test]
fn no_slave_is_one_sentence() {
    let port = ends::free_port();
    let said = complaint(port);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains(&format!("no slave answers at 127.0.0.1 port {port}")), "{said}");
}

#[test]
fn a_stranger_at_the_port_is_no_slave() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let stranger = thread::spawn(move || {
        let (mut guest, _) = listener.accept().expect("a master");
        guest.write_all(&b"HTTP/1.1 400 Bad Request\r\n".repeat(20)).expect("it listens");
        // Until the master hangs up.
        let _ = guest.read_to_end(&mut vec![]);
    });
    let said = complaint(port);
    stranger.join().expect("no panic");
    assert!(said.contains("is no slave"), "{said}");
}

/// What nobody should send to a slave, and some do.
fn nonsense() -> Vec<Vec<u8>> {
    let hello = |phase: u8| {
        let mut bytes = vec![0; 352];
        bytes[..17].copy_from_slice(b"0xbadcafedeadbeef");
        bytes[32..36].copy_from_slice(&0xBADC_u32.to_ne_bytes());
        bytes[36] = phase;
        bytes[80..85].copy_from_slice(b"0.3.1");
        bytes
    };
    let order = |numbers: [u32; 6]| numbers.iter().flat_map(|n| n.to_ne_bytes()).collect::<Vec<u8>>();
    let greeted = |rest: Vec<u8>| [hello(1), hello(2), rest].concat();
    let mut version = hello(1);
    version[80] = b'9';
    vec![
        vec![],
        b"GET / HTTP/1.0\r\n\r\n".to_vec(),
        vec![b'y'; 352],
        vec![0xff; 100_000],
        version,
        hello(1),
        hello(2),
        greeted(vec![0xff; 100_000]),
        greeted(order([0xBADC, 4, u32::MAX, 1, 0, 0])),
        greeted(order([0xBADC, 4, 1, u32::MAX, 0, 0])),
        greeted([order([0xBADC, 4, 1, 1, 0, 0]), vec![0xff; 168]].concat()),
        greeted([order([0xBADC, 4, 1, 1, 0, 0]), vec![0; 168]].concat()),
        greeted([order([0xBADC, 4, 2, 1, 0, 0]), vec![1; 168 + 944 * 20]].concat()),
    ]
}

#[test]
fn no_bytes_end_a_slave() {
    let mut slave = Slave::start_as(&[]);
    for bytes in nonsense() {
        let mut guest = TcpStream::connect(("127.0.0.1", slave.port)).expect("the slave listens");
        // It may hang up in the middle, which is its right.
        let _ = guest.write_all(&bytes);
        drop(guest);
    }
    for _ in 0..2 {
        let run = master(&slave, "rr1c-1x1", &["--var", "duration=20ms"]);
        assert_eq!(run.status, Some(0), "{}", run.errors);
    }
    assert!(slave.process.0.try_wait().expect("it was started").is_none(), "the slave ended");
}

#[test]
fn an_epoll_server_refuses_what_it_cannot_do() {
    let profile = Profile::new(
        r#"<profile name="p">
  <group nthreads="1">
    <transaction iterations="1"> <flowop type="connect" options="remotehost=127.0.0.1 protocol=tcp"/> </transaction>
    <transaction iterations="1"> <flowop type="think" options="duration=1ms"/> </transaction>
  </group>
</profile>"#,
    );
    let mut slave = Slave::start(&["--server", "epoll"]);
    let run = master(&slave, profile.path(), &[]);
    assert_eq!(run.status, Some(1));
    assert!(run.errors.contains("no think (2:1): use threads or processes"), "{}", run.errors);
    assert_eq!(slave.process.wait(), Some(1));
}

/// A master whose transaction is well under way.
fn under_way(slave: &Slave, file: &std::path::Path) -> ends::Process {
    let json = file.to_str().expect("a name");
    let mut master =
        start_master(slave.port, "rr1c-200x1000", &[&LONG[..], &["--json", json, "-R"]].concat());
    let mut output = std::io::BufReader::new(master.0.stdout.take().expect("a pipe"));
    let mut line = String::new();
    while !line.contains("name:Txn2") || line.contains("nr_ops:0") {
        line.clear();
        let read = std::io::BufRead::read_line(&mut output, &mut line).expect("a line");
        assert!(read > 0, "it ended too early");
    }
    let mut rest = output.into_inner();
    // The pipe must not fill up, nor break.
    thread::spawn(move || rest.read_to_end(&mut vec![]));
    master
}

fn read_json(file: &std::path::Path) -> serde_json::Value {
    serde_json::from_str(&std::fs::read_to_string(file).expect("it was written")).expect("JSON")
}

#[test]
fn what_was_measured_survives_the_death_of_the_slave() {
    for server in ["threads", "processes"] {
        let slave = Slave::start(&["--server", server]);
        let file = tempfile::NamedTempFile::new().expect("a file");
        let mut master = under_way(&slave, file.path());
        slave.process.signal("-KILL");
        assert_eq!(master.wait(), Some(1), "{server}");
        let mut said = String::new();
        master.0.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains("the slave at 127.0.0.1 is lost in the middle of the run"), "{said}");
        let run = read_json(file.path());
        assert!(number(&run, "/operations") > 0, "{run}");
        assert!(run["failure"].is_string());
    }
}

#[test]
fn ctrl_c_and_a_closed_terminal_show_what_was_measured() {
    for signal in ["-INT", "-TERM", "-HUP"] {
        let mut slave = Slave::start(&[]);
        let file = tempfile::NamedTempFile::new().expect("a file");
        let mut master = under_way(&slave, file.path());
        // A terminal tells all processes in it.
        for strand in children_of(master.0.id()).iter().filter(|_| signal != "-TERM") {
            let sent = Command::new("kill").args([signal, &strand.pid.to_string()]).status();
            assert!(sent.expect("kill starts").success());
        }
        master.signal(signal);
        assert_eq!(master.wait(), Some(130), "{signal}");
        let run = read_json(file.path());
        assert!(number(&run, "/operations") > 0, "{run}");
        assert_eq!(run["failure"], "interrupted", "{signal}");
        assert_eq!(slave.process.wait(), Some(1));
    }
}

#[test]
fn strands_die_with_their_master_and_slave() {
    let mut slave = Slave::start(&["--server", "processes"]);
    let file = tempfile::NamedTempFile::new().expect("a file");
    let mut master = under_way(&slave, file.path());
    let children = [children_of(master.0.id()), children_of(slave.process.0.id())];
    assert_eq!(children.each_ref().map(Vec::len), [2, 2]);
    // The slave first: it would notice the master's death, and end its strands in good order.
    slave.process.signal("-KILL");
    assert_eq!(slave.process.wait(), None);
    master.0.kill().expect("it has not been waited for");
    master.wait();
    let begin = Instant::now();
    while children.iter().flatten().any(is_strand) {
        assert!(begin.elapsed() < Duration::from_secs(30), "a strand lives on");
        thread::sleep(Duration::from_millis(10));
    }
}

fn children_of(parent: u32) -> Vec<Process> {
    let is_child = |one: &Process| one.stat().is_ok_and(|stat| stat.ppid == parent.cast_signed());
    procfs::process::all_processes().expect("proc").flatten().filter(is_child).collect()
}

fn is_strand(process: &Process) -> bool {
    let lives = process.stat().is_ok_and(|stat| stat.state != 'Z');
    lives && process.cmdline().is_ok_and(|line| line.iter().any(|word| word == "strand"))
}

/// Every connect but the first fails: the address that it should come from is nobody's.
#[test]
fn what_can_fail_is_counted_and_ends_nothing() {
    let profile = Profile::new(
        r#"<profile name="canfail">
  <group nthreads="2">
    <transaction iterations="1"> <flowop type="connect" options="remotehost=127.0.0.1 protocol=tcp"/> </transaction>
    <transaction name="measured" iterations="5">
      <flowop type="connect" options="remotehost=127.0.0.1 localhost=192.0.2.1 protocol=tcp canfail"/>
    </transaction>
    <transaction iterations="5"> <flowop type="disconnect"/> </transaction>
  </group>
</profile>"#,
    );
    let slave = Slave::start(&[]);
    let mut process = start_master(slave.port, profile.path(), &["--json", "-", "-t"]);
    let run = finish(&mut process);
    assert_eq!(run.status, Some(0), "{}", run.errors);
    assert_eq!((number(&run.json(), "/errors"), number(&run.json(), "/operations")), (10, 10));
    // More cannot be closed than was opened.
    let closing = &run.json()["groups"][0]["transactions"][2]["counts"];
    assert_eq!(number(closing, "/operations"), 2, "{closing}");
    slave.finish();
}
