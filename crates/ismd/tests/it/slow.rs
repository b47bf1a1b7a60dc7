//! What lasts, or runs out, and must hold up nobody: descriptors that close slowly, descriptors that are
//! gone, answers that come late.

use crate::daemon::{Daemon, comes_true};
use crate::raw::{Heard, Raw};
use fabric::door::{Doorbell, Memory};
use os::passing;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;
use wire::Reason;
use wire::host::{MESSAGE_MAX, Message};

/// A socket whose close lasts an hour: it lingers, and its peer takes nothing.
fn lingering() -> (OwnedFd, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let full = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
    full.set_nonblocking(true).expect("set");
    while (&full).write(&[0; 65536]).is_ok() {}
    full.set_nonblocking(false).expect("set");
    rustix::net::sockopt::set_socket_linger(&full, Some(Duration::from_secs(3600))).expect("set");
    (full.into(), listener.accept().expect("accepted").0)
}

fn answers(daemon: &Daemon) -> bool {
    let raw = Raw::connect(daemon);
    matches!(raw.say(&Message::Hello { vchid: 0 }, None), Heard::Message(Message::Welcome { .. }, None))
}

/// The daemon holds the last copy of each: with an offer, beside another descriptor, in a packet that is no
/// message, and in one that it never reads.
#[test]
fn a_descriptor_whose_close_lasts_holds_up_nobody() {
    let daemon = Daemon::start("");
    let mut peers = vec![];
    for way in 0..4 {
        let (socket, peer) = lingering();
        peers.push(peer);
        let raw = Raw::connect(&daemon);
        raw.enter();
        let mut bytes = [0; MESSAGE_MAX];
        let offer = Message::Offer { number: 1, size: 4096, nonce: 1 };
        let len = offer.emit(7, &mut bytes).expect("room");
        let number = socket.as_raw_fd();
        // (Or this process could be the last that closes it.)
        daemon.signal(rustix::process::Signal::STOP);
        match way {
            0 => passing::send(raw.0, &bytes[..len], Some(number)).expect("sent"),
            1 => send_many(raw.0, &bytes[..len], number, 2),
            2 => passing::send(raw.0, &[0xFF; 8], Some(number)).expect("sent"),
            _ => {
                passing::send(raw.0, &[0xFF; 8], None).expect("sent");
                passing::send(raw.0, &bytes[..len], Some(number)).ok();
            }
        }
        drop(socket);
        daemon.signal(rustix::process::Signal::CONT);
        assert!(answers(&daemon), "by way {way}");
    }
    assert!(answers(&daemon));
}

/// With so many copies of a descriptor.
fn send_many(line: i32, packet: &[u8], number: i32, copies: usize) {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    let taken = |number| {
        let own =
            rustix::process::pidfd_open(rustix::process::getpid(), rustix::process::PidfdFlags::empty());
        let own = own.expect("a pidfd");
        rustix::process::pidfd_getfd(&own, number, rustix::process::PidfdGetfdFlags::empty()).expect("taken")
    };
    let (line, passed) = (taken(line), taken(number));
    use std::os::fd::AsFd;
    let all = vec![passed.as_fd(); copies];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&all)));
    sendmsg(&line, &[std::io::IoSlice::new(packet)], &mut control, SendFlags::NOSIGNAL).expect("sent");
}

/// Nobody of this user's is closed behind the first of them; nor does what they brought become the daemon's.
#[test]
fn what_is_passed_in_plenty_gets_no_numbers_in_the_daemon() {
    const CONNECTIONS: usize = 10;
    const COPIES: usize = 50;
    let daemon = Daemon::start("");
    let before = daemon.descriptors();
    let (socket, _peer) = lingering();
    let raw = Raw::connect(&daemon);
    daemon.signal(rustix::process::Signal::STOP);
    passing::send(raw.0, &[0xFF; 8], Some(socket.as_raw_fd())).expect("sent");
    drop(socket);
    let (_reader, writer) = std::io::pipe().expect("a pipe");
    for _ in 0..CONNECTIONS {
        let raw = Raw::connect(&daemon);
        (0..2).for_each(|_| send_many(raw.0, &[0xFF; 8], writer.as_raw_fd(), COPIES / 2));
    }
    daemon.signal(rustix::process::Signal::CONT);
    assert!(answers(&daemon));
    // (Of each the socket and one descriptor, and those that serve.)
    let now = daemon.descriptors();
    assert!(now <= before + 2 * CONNECTIONS + 16, "{now} descriptors, {before} before");
}

/// What time a process, or a thread, has used, in clock ticks.
fn ticks(of: &str) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{of}/stat")).expect("it lives");
    let fields: Vec<&str> = stat[stat.rfind(')').expect("a name")..].split(' ').collect();
    [fields[12], fields[13]].iter().map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
}

#[test]
fn without_descriptors_the_daemon_rests_and_goes_on_when_there_are_some() {
    let daemon = Daemon::start("");
    let pid = Pid::from_raw(daemon.pid().cast_signed());
    let few = Rlimit { current: Some(3), maximum: Some(4096) };
    prlimit(pid, Resource::Nofile, few).expect("limited");
    let waiting: Vec<Raw> = (0..20).map(|_| Raw::connect(&daemon)).collect();
    let (daemons, own) = (daemon.pid().to_string(), "thread-self");
    let (before, begun) = (ticks(&daemons), ticks(own));
    // (As long as it takes to use that much: whoever spins beside this thread uses about as much.)
    while ticks(own) < begun + 40 {}
    let used = ticks(&daemons) - before;
    assert!(used <= 10, "{used} ticks of doing nothing");
    prlimit(pid, Resource::Nofile, Rlimit { current: Some(4096), maximum: Some(4096) }).expect("lifted");
    drop(waiting);
    assert!(comes_true(|| answers(&daemon)));
}

/// As whoever connects and closes, and does nothing else, fills it. (4096 find room in it, or what
/// net.core.somaxconn says.)
#[test]
fn who_finds_the_queue_full_tries_again_while_he_would_wait_for_an_answer() {
    const MORE: usize = 5000;
    let daemon = Daemon::start("");
    daemon.signal(rustix::process::Signal::STOP);
    let path = daemon.socket();
    let connect = || passing::connect(std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()));
    let full = (0..MORE).find_map(|_| connect().map(os::fd::close).err());
    if full.is_none() {
        println!("skipped: this kernel's queue is longer than the daemon asks for");
    }
    let client = daemon.client();
    std::thread::scope(|scope| {
        let place = scope.spawn(|| client.link().place());
        // (So that he has met it.)
        std::thread::sleep(Duration::from_millis(100));
        daemon.signal(rustix::process::Signal::CONT);
        place.join().expect("asked").expect("let in");
    });
}

/// The process keeps the line, by which the kernel knows it, and its number. The daemon does not keep memory
/// that was given up before it took it, nor what was to be withdrawn meanwhile.
#[test]
fn a_question_that_is_answered_late_is_the_only_one_that_fails() {
    const LEN: usize = 1 << 16;
    let daemon = Daemon::start("");
    let client = daemon.client();
    let place = client.link().place().expect("a place");
    let (_, first) = client.make(LEN, 41).expect("memory");
    let held = daemon.descriptors();
    for is_memory in [true, false] {
        let (_, spare) = client.make(LEN, 42).expect("memory");
        let ask = || match is_memory {
            true => client.make(LEN, 43).map(drop),
            false => client.hang(first).map(drop),
        };
        client.link().set_patience(50);
        daemon.signal(rustix::process::Signal::STOP);
        assert_eq!(ask(), Err(Reason::NOSMCDDEV));
        client.close(spare);
        assert_eq!(ask(), Err(Reason::NOSMCDDEV), "it is not asked as long as it says nothing");
        daemon.signal(rustix::process::Signal::CONT);
        client.link().set_patience(20_000);
        assert!(comes_true(|| client.link().place() == Ok(place)), "by the same line");
        let (_, made) = client.make(LEN, 44).expect("memory");
        client.link().set_patience(50);
        daemon.signal(rustix::process::Signal::STOP);
        client.close(made);
        daemon.signal(rustix::process::Signal::CONT);
        client.link().set_patience(20_000);
        assert!(comes_true(|| client.link().place() == Ok(place)));
    }
    // (And the one doorbell.)
    let now = || daemon.descriptors();
    assert!(comes_true(|| now() == held + 1), "{} descriptors, {held} before", now());
}
