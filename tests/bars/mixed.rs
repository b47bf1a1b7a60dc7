//! A port that a listener with the library shares with one without it: an offer to the wrong one is waited
//! for, and that may happen now and then, but not every time.

use crate::{LIMIT, PROGRAM, assert_nothing_left, good, load, server, shared_files};
use isthmus_tests::{Bed, Mode, free_port, within};
use std::time::Duration;

/// Connections that the listener without the library gets.
const WRONG: u64 = 16;
/// Offers that it may get: after each, nothing is offered for twice as long as before, two seconds at first.
/// So many take more than a minute.
const IN_VAIN: u64 = 5;
/// Ports to try until the kernel names the enabled listener: each does with a chance of one half.
const PORTS: usize = 20;

/// Offers made in this bed, whatever came of them.
fn offers(bed: &Bed) -> u64 {
    let text = bed.tool("smcd", &["stats", "json"]);
    let number = |name: &str| {
        let rest = text.split(&format!("\"{name}\":")).nth(1).unwrap_or_default();
        rest.split(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse::<u64>().ok()).expect(name)
    };
    number("SMC_INT_TX_BUF_ALLOC_CNT") + number("SMC_INT_TX_BUF_REUSE_CNT")
}

/// Both kinds of listener at one port, and two clients after each other. Offers made and taken up.
fn meet(order: [&str; 2]) -> (u64, u64) {
    let bed = Bed::new("mixed", Mode::Smc);
    let (port, before) = (u64::from(free_port()), shared_files());
    let listeners = order.map(|kind| {
        let command = if kind == "plain" { bed.plain(PROGRAM) } else { bed.server(PROGRAM) };
        let listener = server(&bed, &mut load(command, &["mixed", kind], &[port]), port, kind);
        // (The second one's port has a listener already.)
        let announced = || bed.tool("smcss", &["-l"]).contains(&format!(":{port} "));
        assert!(kind == "plain" || within(Duration::from_secs(10), announced), "not announced");
        listener
    });
    for name in ["client", "another client"] {
        let run =
            bed.run(&mut load(bed.client(PROGRAM), &["mixed", "client"], &[port, WRONG / 2]), name, LIMIT);
        let line = good(&bed, name, run);
        assert!(line.contains(&format!("plain {}", WRONG / 2)), "{line}");
    }
    let ends = (offers(&bed), bed.handshakes());
    drop(listeners);
    assert_nothing_left(&bed, &before);
    ends
}

/// Asked who listens, the kernel chooses one of the two by a hash of the port: where that is the one without
/// the library, nothing is ever offered, and another port is tried.
#[test]
fn a_port_with_both_kinds_of_listener_is_not_waited_for_every_time() {
    if !Mode::wanted().contains(&Mode::Smc) {
        return;
    }
    let orders = [["plain", "enabled"], ["enabled", "plain"]];
    let mut tries = orders.into_iter().cycle().take(PORTS).map(meet);
    let (offered, upgraded) = tries.find(|(offered, _)| *offered > 0).expect("something is offered");
    assert!(offered - upgraded <= IN_VAIN, "{offered} offers, {upgraded} of them taken up");
}
