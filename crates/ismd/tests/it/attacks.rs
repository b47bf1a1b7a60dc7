//! Clients that lie, flood, or are not who connected. Owns: each is thrown out or refused, costs no more than
//! its quota, and nobody else notices.

use crate::daemon::{Daemon, comes_true};
use crate::raw::{Heard, Raw};
use fabric::door::Memory;
use os::passing;
use std::os::fd::AsRawFd;
use testkit::Random;
use wire::Reason;
use wire::host::{MESSAGE_MAX, Message};

#[test]
fn garbage_throws_out_who_sends_it_and_nobody_else() {
    let daemon = Daemon::start("");
    let honest = daemon.client();
    honest.link().place().expect("a place");
    let before = daemon.descriptors();
    let mut random = Random::new(1);
    for round in 0..300 {
        let raw = Raw::connect(&daemon);
        if round % 2 == 0 {
            raw.enter();
        }
        let mut bytes = [0; MESSAGE_MAX + 8];
        bytes.iter_mut().for_each(|byte| *byte = random.bits() as u8);
        // Every third is nearly a message.
        if round % 3 == 0 {
            bytes[..4].copy_from_slice(&[1, (round % 8) as u8 + 1, 0, 0]);
        }
        let len = 1 + random.bits() as usize % (MESSAGE_MAX + 7);
        let passed = (round % 5 == 0).then_some(raw.0);
        passing::send(raw.0, &bytes[..len], passed).expect("sent");
        let heard = raw.hear(20_000);
        assert!(
            matches!(heard, Heard::End | Heard::Message(Message::Refused(_) | Message::Done, _)),
            "{round}: {heard:?}"
        );
    }
    honest.make(1 << 16, 1).expect("nobody else notices");
    // (One more: the memory.)
    assert!(comes_true(|| daemon.descriptors() <= before + 1), "no descriptor stays");
}

#[test]
fn what_is_no_memory_or_no_doorbell_is_refused() {
    let daemon = Daemon::start("");
    let raw = Raw::connect(&daemon);
    raw.enter();
    let (reader, _writer) = std::io::pipe().expect("a pipe");
    let file = tempfile::tempfile().expect("a file");
    let memory = os::mem::sealed_memfd(c"test", 4096).expect("memory");
    for (fd, size) in [(file.as_raw_fd(), 4096), (reader.as_raw_fd(), 4096), (memory, 8192), (raw.0, 4096)] {
        let heard = raw.say(&Message::Offer { number: 1, size, nonce: 1 }, Some(fd));
        assert!(matches!(heard, Heard::Message(Message::Refused(Reason::SYNCERR), None)), "{heard:?}");
    }
    let heard = raw.say(&Message::Offer { number: 1, size: 4096, nonce: 1 }, Some(memory));
    assert!(matches!(heard, Heard::Message(Message::Done, None)), "{heard:?}");
    for fd in [memory, file.as_raw_fd(), raw.0] {
        let heard = raw.say(&Message::Hang { memory: 1, number: 1 }, Some(fd));
        assert!(matches!(heard, Heard::Message(Message::Refused(Reason::SYNCERR), None)), "{heard:?}");
    }
    let without = raw.say(&Message::Offer { number: 2, size: 4096, nonce: 1 }, None);
    assert!(matches!(without, Heard::End), "{without:?}");
    os::fd::close(memory);
}

#[test]
fn who_guesses_at_nonces_is_thrown_out() {
    let daemon = Daemon::start("");
    let client = daemon.client();
    let (_, number) = client.make(1 << 16, 42).expect("memory");
    let owner = client.link().place().expect("a place").client;
    let guesser = Raw::connect(&daemon);
    guesser.enter();
    let claim = |nonce| guesser.say(&Message::Claim { owner, number: number as u32, nonce }, None);
    let guesses = (100..200).map(claim).take_while(|heard| !matches!(heard, Heard::End));
    assert_eq!(guesses.inspect(|heard| assert!(is_refusal(heard), "{heard:?}")).count(), 16);
}

fn is_refusal(heard: &Heard) -> bool {
    matches!(heard, Heard::Message(Message::Refused(Reason::SYNCERR), None))
}

#[test]
fn who_does_not_read_his_answers_is_thrown_out() {
    let daemon = Daemon::start("");
    let raw = Raw::connect(&daemon);
    raw.enter();
    let before = daemon.memory();
    let mut bytes = [0; MESSAGE_MAX];
    let len = Message::List { after: 0 }.emit(7, &mut bytes).expect("room");
    let is_out = || {
        (0..100).any(|_| {
            let sent = passing::send(raw.0, &bytes[..len], None);
            sent.is_err_and(|errno| errno != os::Errno::EAGAIN)
        })
    };
    assert!(comes_true(is_out));
    daemon.client().link().place().expect("nobody else notices");
    assert!(daemon.memory() < before + 4096, "{} {before}", daemon.memory());
}

#[test]
fn who_says_nothing_is_gone_after_a_moment() {
    let daemon = Daemon::start("");
    let before = daemon.descriptors();
    let silent: Vec<Raw> = (0..200).map(|_| Raw::connect(&daemon)).collect();
    daemon.client().link().place().expect("nobody else notices");
    assert!(comes_true(|| daemon.descriptors() <= before));
    assert!(silent.iter().all(|raw| matches!(raw.hear(20_000), Heard::End)));
}

/// All clients of one user: beyond its quota it is turned away at once, and what it has stays.
#[test]
fn a_user_has_so_many_connections_and_the_daemon_so_many_descriptors() {
    let daemon = Daemon::start("[quota.user]\nclients = 50\n");
    let first = Raw::connect(&daemon);
    first.enter();
    let flood: Vec<Raw> = (0..500).map(|_| Raw::connect(&daemon)).collect();
    let heard = first.say(&Message::List { after: 0 }, None);
    assert!(matches!(heard, Heard::Message(Message::Function(_), None)), "{heard:?}");
    assert!(comes_true(|| daemon.descriptors() < 50 + 20));
    drop(flood);
    assert!(comes_true(|| Raw::connect(&daemon).say(&Message::Hello { vchid: 0 }, None).is_welcome()));
}

impl Heard {
    fn is_welcome(&self) -> bool {
        matches!(self, Heard::Message(Message::Welcome { .. }, None))
    }
}
