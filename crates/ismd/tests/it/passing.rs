//! Memory and doorbells between two ends that have nothing in common but the daemon.

use crate::daemon::Daemon;
use fabric::Reason;
use fabric::door::{Doorbell, ForeignMemory, Memory, Whereabouts};
use fabric::process::ProcessId;
use std::sync::atomic::Ordering::Relaxed;

const LEN: usize = 1 << 16;

fn at(owner: u32, number: i32, nonce: u64) -> Whereabouts {
    Whereabouts { pid: owner, number, nonce, holder: ProcessId { row: 0, generation: 0 } }
}

#[test]
fn both_write_both_read_and_both_ring() {
    let daemon = Daemon::start("");
    let (client, server) = (daemon.client(), daemon.client());
    let (own, number) = client.make(LEN, 42).expect("memory");
    let bells = [client.hang(number).expect("one"), client.hang(number).expect("two")];
    let place = at(client.link().place().expect("a place").client, number, 42);
    let theirs = server.open(&place, |memory| {
        assert_eq!(memory.size(), Ok(LEN));
        memory.map(LEN)
    });
    let theirs = theirs.expect("passed");
    own[0].store(1, Relaxed);
    theirs[1].store(2, Relaxed);
    assert_eq!((theirs[0].load(Relaxed), own[1].load(Relaxed)), (1, 2));
    let holder = server.holder(&place, (0, 0)).expect("known");
    for bell in bells {
        let other = server.open_bell(holder, bell).expect("opened");
        server.ring(other);
        assert!(os::poll::is_readable(bell));
        client.drain(bell);
        assert!(!os::poll::is_readable(other));
        server.drop_bell(other);
    }
    assert_eq!(server.open_bell(holder, bells[1] + 1000).err(), Some(Reason::SYNCERR));
    client.close(number);
    let refused = server.open(&place, |memory| memory.map(LEN));
    assert_eq!(refused.err(), Some(Reason::SYNCERR), "it is offered no more");
    theirs[2].store(3, Relaxed);
    assert_eq!(own[2].load(Relaxed), 3, "who has it keeps it");
}

#[test]
fn without_a_daemon_there_is_none_and_nobody_waits() {
    let host = fabric::host::Host::new();
    host.link().set_socket(b"/nonexistent/ismd.sock");
    assert_eq!(host.link().place().err(), Some(Reason::NOSMCDDEV));
    assert_eq!(host.make(LEN, 42).err(), Some(Reason::NOSMCDDEV));
}

#[test]
fn a_daemon_that_stands_still_is_none() {
    let daemon = Daemon::start("");
    let client = daemon.client();
    let (_, number) = client.make(LEN, 42).expect("memory");
    client.link().set_patience(100);
    daemon.signal(rustix::process::Signal::STOP);
    assert_eq!(client.make(LEN, 43).err(), Some(Reason::NOSMCDDEV));
    assert_eq!(client.make(LEN, 43).err(), Some(Reason::NOSMCDDEV), "and nobody waits a second time");
    daemon.signal(rustix::process::Signal::CONT);
    let offers_again = || client.make(LEN, 44).is_ok();
    assert!(crate::daemon::comes_true(offers_again), "it is looked for again");
    client.link().set_patience(20_000);
    let (server, owner) = (daemon.client(), client.link().place().expect("a place").client);
    let passed = server.open(&at(owner, number, 42), |memory| memory.map(LEN));
    assert!(passed.is_ok(), "and told what was offered before");
}

#[test]
fn quotas_end_in_the_code_for_them() {
    let daemon = Daemon::start(
        "[quota.user]\nsegments = 2\nbytes = \"1M\"\n\
         [[fabric]]\nvchid = 0xFF01\nname = \"a\"\nconnections = 1\n",
    );
    let client = daemon.client();
    assert_eq!(client.make(2 << 20, 1).err(), Some(Reason::MAX_DMB), "bytes");
    let (_, number) = client.make(LEN, 2).expect("memory");
    client.make(LEN, 3).expect("memory");
    assert_eq!(client.make(LEN, 4).err(), Some(Reason::MAX_DMB), "segments");
    let bells: Vec<_> = (0..3).map(|_| client.hang(number)).collect();
    assert!(bells[0].is_ok() && bells[1].is_ok() && bells[2].is_err(), "connections");
    client.close(number);
    assert!(client.make(LEN, 5).is_ok(), "what was given back is there again");
}

#[test]
fn two_fabrics_do_not_meet() {
    let daemon =
        Daemon::start("[[fabric]]\nvchid = 0xFF01\nname = \"a\"\n[[fabric]]\nvchid = 0xFF02\nname = \"b\"\n");
    let (client, server) = (daemon.client(), daemon.client());
    server.link().set_fabric(0xFF02);
    let (_, number) = client.make(LEN, 42).expect("memory");
    let place = at(client.link().place().expect("a place").client, number, 42);
    let refused = server.open(&place, |memory| memory.map(LEN));
    assert_eq!(refused.err(), Some(Reason::NOSMCDDEV));
    let nowhere = daemon.client();
    nowhere.link().set_fabric(0xFF03);
    assert_eq!(nowhere.link().place().err(), Some(Reason::NOSMCDDEV));
}

/// A client whose function is taken away tries with every connection that it makes.
#[test]
fn memory_that_is_refused_leaves_no_address_space_behind() {
    const LARGE: usize = 64 << 20;
    const TIMES: usize = 40;
    let pages = || -> usize {
        let text = std::fs::read_to_string("/proc/self/statm").expect("/proc");
        text.split(' ').next().and_then(|pages| pages.parse().ok()).expect("a number")
    };
    let daemon = Daemon::start("");
    let (client, operator) = (daemon.client(), daemon.client());
    client.link().place().expect("a place");
    let mut uid = 0;
    operator.link().each_function(|function| uid = function.uid).expect("a daemon");
    operator.link().enable_function(uid, false).expect("taken away");
    let before = pages();
    for nonce in 1..=TIMES as u64 {
        assert_eq!(client.make(LARGE, nonce).map(drop), Err(Reason::NOSMCDDEV));
    }
    // (Other tests of this process map a little meanwhile.)
    let grown = pages().saturating_sub(before) * 4096;
    assert!(grown < TIMES * LARGE / 2, "{grown} bytes");
}
