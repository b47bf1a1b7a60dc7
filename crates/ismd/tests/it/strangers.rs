//! Ends in different places: other users, other namespaces, other processes on one socket. A stranger is this
//! program again, as another process with one task. What needs privilege is skipped without, in one line.

use crate::daemon::Daemon;
use crate::raw::Heard;
use fabric::door::{Doorbell, ForeignMemory, Memory, Whereabouts};
use fabric::host::Host;
use fabric::process::ProcessId;
use os::passing;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;
use wire::host::{MESSAGE_MAX, Message};

const LEN: usize = 1 << 16;
const NOBODY: u32 = 65534;
const TASK: &str = "ISMD_TEST_TASK";

/// What a stranger does, and says in its last line.
#[test]
fn stranger() {
    let Ok(task) = std::env::var(TASK) else { return };
    let words: Vec<&str> = task.split(' ').collect();
    let number = |at: usize| words[at].parse::<u64>().expect("a number");
    os::process::refresh_pid();
    let said = match words[0] {
        "claim" => {
            let host = Host::new();
            host.link().set_socket(words[1].as_bytes());
            host.link().set_patience(20_000);
            claim(&host, number(2) as u32, number(3) as i32, number(4), number(5) as i32)
        }
        "disable" => {
            let host = Host::new();
            host.link().set_socket(words[1].as_bytes());
            host.link().set_patience(20_000);
            let done = host.link().enable_function(number(2) as u32, false);
            done.map_or_else(|reason| reason.to_string(), |()| "disabled".into())
        }
        "speak" => speak(),
        other => panic!("{other}"),
    };
    println!("STRANGER {said}");
}

/// Takes memory, says what lies in it, writes there, and rings.
fn claim(host: &Host, owner: u32, number: i32, nonce: u64, bell: i32) -> String {
    let place = Whereabouts { pid: owner, number, nonce, holder: ProcessId { row: 0, generation: 0 } };
    let opened = host.open(&place, |memory| memory.map(LEN)).and_then(|memory| {
        let bell = host.open_bell(host.holder(&place, (0, 0))?, bell)?;
        let found = memory[0].load(Relaxed);
        memory[1].store(found + 1, Relaxed);
        host.ring(bell);
        Ok(found)
    });
    opened.map_or_else(|reason| reason.to_string(), |found| format!("found {found}"))
}

/// Goes on with a connection that it has got on its standard input.
fn speak() -> String {
    let mut bytes = [0; MESSAGE_MAX];
    let len = Message::List { after: 0 }.emit(7, &mut bytes).expect("room");
    let sent = passing::send(0, &bytes[..len], None);
    let raw = crate::raw::Raw(0);
    let heard = if sent.is_ok() { raw.hear(20_000) } else { Heard::End };
    match heard {
        Heard::Message(..) => "heard".into(),
        Heard::End => "thrown out".into(),
        Heard::Silence => "silence".into(),
    }
}

/// Another process of this program, started by way of `wrapper`.
fn send_out(wrapper: &[&str], uid: Option<u32>, input: Option<BorrowedFd<'_>>, task: &str) -> String {
    let own = std::env::current_exe().expect("this program");
    let mut command = match wrapper {
        [] => Command::new(&own),
        [program, rest @ ..] => {
            let mut command = Command::new(program);
            command.args(rest).arg(&own);
            command
        }
    };
    command.args(["--exact", "strangers::stranger", "--nocapture"]).env(TASK, task);
    if let Some(uid) = uid {
        command.uid(uid).gid(uid);
    }
    if let Some(input) = input {
        command.stdin(input.try_clone_to_owned().expect("a copy"));
    }
    let output = command.output().expect("run");
    let text = String::from_utf8_lossy(&output.stdout);
    let said = text.lines().find_map(|line| line.split_once("STRANGER ").map(|(_, said)| said.to_string()));
    said.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)))
}

/// Whether a stranger as `uid` behind `wrapper` gets memory of this process's.
fn meets(policy: &str, wrapper: &[&str], uid: Option<u32>) -> String {
    let daemon = Daemon::start(policy);
    let client = daemon.client();
    let (memory, number) = client.make(LEN, 42).expect("memory");
    let bell = client.hang(number).expect("a doorbell");
    memory[0].store(77, Relaxed);
    let owner = client.link().place().expect("a place").client;
    let task = format!("claim {} {owner} {number} 42 {bell}", daemon.socket().display());
    let said = send_out(wrapper, uid, None, &task);
    let has_written = memory[1].load(Relaxed) == 78;
    assert_eq!(has_written, said == "found 77", "{said}");
    assert_eq!(os::poll::is_readable(bell), has_written);
    said
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("skipped: other users and namespaces need root");
    }
    is_root
}

#[test]
fn a_function_is_an_operators_to_take_away() {
    if !is_root() {
        return;
    }
    let daemon = Daemon::start("");
    let client = daemon.client();
    let uid = {
        let mut uids = vec![];
        client.link().place().expect("a function");
        client.link().each_function(|function| uids.push(function.uid)).expect("listed");
        uids[0]
    };
    let task = |uid: u32| format!("disable {} {uid}", daemon.socket().display());
    assert_eq!(send_out(&[], Some(NOBODY), None, &task(uid)), "0x03000000");
    assert_eq!(send_out(&["unshare", "--user", "--map-root-user"], None, None, &task(uid)), "0x03000000");
    client.make(LEN, 42).expect("it has its function");
    assert_eq!(send_out(&[], None, None, &task(uid + 1)), "0x04000000");
    assert_eq!(send_out(&[], None, None, &task(uid)), "disabled");
    assert_eq!(client.make(LEN, 43).err(), Some(fabric::Reason::NOSMCDDEV));
}

/// Where a container would be: namespaces of its own.
const CONTAINER: [&str; 8] = ["unshare", "--net", "--pid", "--ipc", "--uts", "--mount", "--fork", "--"];
const REFUSED: &str = "0x05000000";

#[test]
fn a_process_of_the_same_user_meets_us() {
    assert_eq!(meets("", &[], None), "found 77");
}

#[test]
fn another_user_does_not_unless_the_policy_says_so() {
    if is_root() {
        assert_eq!(meets("", &[], Some(NOBODY)), REFUSED);
        let rule = "[[rule]]\nallow = true\nclient = { uid = 0 }\nserver = { uid = 65534 }\n";
        assert_eq!(meets(rule, &[], Some(NOBODY)), "found 77");
    }
}

#[test]
fn the_same_number_in_a_container_is_another_user() {
    if is_root() {
        assert_eq!(meets("", &CONTAINER, None), REFUSED);
        assert_eq!(meets("[[rule]]\nallow = true\n", &CONTAINER, None), "found 77");
        let user_namespace = ["unshare", "--user", "--map-root-user", "--"];
        assert_eq!(meets("", &user_namespace, None), REFUSED);
        assert_eq!(meets("[[rule]]\nallow = true\n", &user_namespace, None), "found 77");
    }
}

#[test]
fn a_network_namespace_alone_is_no_other_user() {
    if is_root() {
        assert_eq!(meets("", &["unshare", "--net", "--"], None), "found 77");
    }
}

/// A worker has its master's socket, and is not heard on it: neither as the same user nor as another.
#[test]
fn nobody_speaks_on_anothers_connection() {
    for uid in [None, Some(NOBODY)] {
        if uid.is_some() && !is_root() {
            continue;
        }
        let daemon = Daemon::start("");
        let raw = crate::raw::Raw::connect(&daemon);
        raw.enter();
        let copy = duplicate(raw.0);
        assert_eq!(send_out(&[], uid, Some(copy.as_fd()), "speak"), "thrown out");
        assert!(matches!(raw.hear(2000), Heard::End), "and who lent it is not, either");
    }
}

/// A descriptor of this process as a value.
fn duplicate(number: i32) -> std::os::fd::OwnedFd {
    use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
    let own = pidfd_open(getpid(), PidfdFlags::empty()).expect("a pidfd");
    pidfd_getfd(own, number, PidfdGetfdFlags::empty()).expect("a copy")
}

/// Somebody floods the socket with connections that say nothing, and with nonsense: others are answered
/// meanwhile, and the daemon's size stays.
#[test]
fn a_flood_of_another_users_keeps_nobody_from_being_answered() {
    if !is_root() {
        return;
    }
    let daemon = Daemon::start("[quota.user]\nclients = 200\n");
    let client = daemon.client();
    client.link().place().expect("a place");
    let (descriptors, memory) = (daemon.descriptors(), daemon.memory());
    let script = "import socket,sys,time\n\
        end=time.time()+60\n\
        held=[]\n\
        n=0\n\
        while time.time()<end:\n\
        \x20 s=socket.socket(socket.AF_UNIX,socket.SOCK_SEQPACKET);s.setblocking(False)\n\
        \x20 try:\n\
        \x20  s.connect(sys.argv[1]);n+=1\n\
        \x20  if n%3: s.send(b'x'*40)\n\
        \x20 except OSError: pass\n\
        \x20 held=held[-400:]+[s]\n\
        print(n)\n";
    let mut flood = Command::new("python3");
    flood.args(["-c", script]).arg(daemon.socket()).uid(NOBODY).gid(NOBODY);
    let Ok(mut child) = flood.stdout(std::process::Stdio::piped()).spawn() else {
        println!("skipped: no python3 here");
        return;
    };
    let (mut answered, mut most) = (0, 0);
    while answered < 400 && child.try_wait().expect("known").is_none() {
        for nonce in 1..20 {
            let (_, number) = client.make(4096, nonce).expect("an answer");
            client.close(number);
            answered += 1;
        }
        most = most.max(daemon.descriptors());
    }
    child.kill().and_then(|()| child.wait()).expect("ended");
    assert!(answered > 20 && most <= descriptors + 200 + 8, "{answered} {most}");
    assert!(daemon.memory() < memory + 8192, "{} {memory}", daemon.memory());
}
