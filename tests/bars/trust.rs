//! Processes that give up what they were: nothing of root's remains with them but their own connections,
//! which go on, and neither the client nor root's other connections notice. Changing users needs root; others
//! say so and pass.

use crate::{LIMIT, PROGRAM, assert_nothing_left, good, load, serve, shared_files};
use isthmus_tests::{Bed, Mode, free_port, sys};
use std::time::Duration;

/// Memory of one slot: its page and two rings of 256 KiB.
const SLOT_KIB: u64 = 4 + 2 * 256;

/// Runs a worker that changes by `how`, and returns what it found and how many connections were upgraded.
fn worker(how: &str) -> Option<(String, u64)> {
    if !Mode::wanted().contains(&Mode::Smc) {
        return None;
    }
    if sys::euid() != 0 {
        println!("skipped: {how}: changing users needs root");
        return None;
    }
    let bed = Bed::new(&format!("trust-{how}"), Mode::Smc);
    let (port, before) = (u64::from(free_port()), shared_files());
    let server = serve(&bed, &["trust", how], &[port], "server");
    let client = bed.run(&mut load(bed.client(PROGRAM), &["trusting", how], &[port]), "client", LIMIT);
    good(&bed, how, client);
    let out = good(&bed, how, server.finish(Duration::from_secs(20)));
    let found = out.lines().find(|line| line.starts_with("registries")).expect("findings").to_string();
    let upgraded = bed.handshakes();
    assert_nothing_left(&bed, &before);
    Some((found, upgraded))
}

fn number(found: &str, name: &str) -> u64 {
    let mut words = found.split(' ').skip_while(|word| *word != name).skip(1);
    words.next().and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("no {name}: {found}"))
}

/// Nothing is left but one slot, with its two doorbells.
fn assert_let_go(how: &str, (found, upgraded): (String, u64)) {
    for name in ["registries", "descriptors", "netlink"] {
        assert_eq!(number(&found, name), 0, "{how}: {found}");
    }
    assert!(number(&found, "doorbells") <= 2, "{how}: {found}");
    assert!(number(&found, "shared") <= SLOT_KIB, "{how}: {found}");
    assert!(upgraded >= 2, "{how}: only {upgraded} connections used shared memory");
}

#[test]
fn whoever_gives_its_user_up_keeps_its_own_connections_only() {
    let ways =
        ["setuid", "setreuid", "setresuid", "setuid-by-number", "setresuid-by-number", "as-daemons-do"];
    for how in ways.into_iter().chain(["threaded"]) {
        let Some(end) = worker(how) else { return };
        assert_let_go(how, end);
    }
}

#[test]
fn whoever_gives_groups_or_capabilities_up_does_too() {
    for how in ["setgid", "setgroups", "initgroups", "capset"] {
        let Some(end) = worker(how) else { return };
        assert_let_go(how, end);
    }
}

/// No handler is told of such a child. Its copies are not counted, so it keeps all that may be its own.
#[test]
fn a_child_of_clone_keeps_no_registry() {
    let Some((found, _)) = worker("cloned") else { return };
    for name in ["registries", "descriptors"] {
        assert_eq!(number(&found, name), 0, "{found}");
    }
}

/// seteuid and back: all five connections use shared memory, as if nothing had happened.
#[test]
fn who_can_come_back_has_given_nothing_up() {
    let Some((found, upgraded)) = worker("seteuid") else { return };
    assert_eq!((number(&found, "registries"), upgraded), (1, 5), "{found}");
}

/// A helper that a server starts as another user takes the listener's announcement with it; the server gives
/// it anew as soon as it accepts.
#[test]
fn a_helper_of_another_user_does_not_switch_its_server_off() {
    if !Mode::wanted().contains(&Mode::Smc) || sys::euid() != 0 {
        println!("skipped: changing users needs root and the library");
        return;
    }
    let bed = Bed::new("trust-helper", Mode::Smc);
    let port = u64::from(free_port());
    let server = serve(&bed, &["helped", "server"], &[port], "server");
    good(
        &bed,
        "client",
        bed.run(&mut load(bed.client(PROGRAM), &["helped", "client"], &[port]), "client", LIMIT),
    );
    good(&bed, "server", server.finish(Duration::from_secs(20)));
    assert_eq!(bed.handshakes(), 2, "the first and the last of three connections");
}

/// Connections that are being offered, claimed, used and closed in other threads at that moment lose no byte.
#[test]
fn a_change_in_the_midst_of_everything_loses_nothing() {
    if !Mode::wanted().contains(&Mode::Smc) || sys::euid() != 0 {
        println!("skipped: changing users needs root and the library");
        return;
    }
    let bed = Bed::new("trust-busy", Mode::Smc);
    let before = shared_files();
    for round in 0..crate::setting("BARS_CHANGES", 6) {
        let (port, is_servers) = (u64::from(free_port()), round % 2);
        let server = serve(&bed, &["busy", "server"], &[port, is_servers], "server");
        let mut client = load(bed.client(PROGRAM), &["busy", "client"], &[port, 1 - is_servers]);
        let client = good(&bed, "client", bed.run(&mut client, "client", LIMIT));
        let server = good(&bed, "server", server.finish(Duration::from_secs(20)));
        let (changed, other) = if is_servers == 1 { (server, client) } else { (client, server) };
        assert!(changed.contains("good as 65534") && other.contains("good as 0"), "{changed} {other}");
    }
    assert!(bed.handshakes() > 0, "no connection used shared memory");
    assert_nothing_left(&bed, &before);
}

/// Programs whose trade it is: they do under the library what they do without it.
#[test]
fn programs_that_change_users_do_so_as_ever() {
    let bed =
        Bed::new("trust-programs", if Mode::wanted().contains(&Mode::Smc) { Mode::Smc } else { Mode::Plain });
    let ways: [&[&str]; 5] = [
        &["su", "nobody", "-s", "/bin/sh", "-c", "id"],
        &["runuser", "-u", "nobody", "--", "id"],
        &["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "id"],
        &["setpriv", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", "id"],
        &["chroot", "--userspec=65534:65534", "/", "id"],
    ];
    if sys::euid() != 0 {
        println!("skipped: changing users needs root");
        return;
    }
    for way in ways {
        let run = |mut command: std::process::Command| {
            let outcome = command.args(&way[1..]).output();
            outcome.map(|o| (o.status.code(), String::from_utf8_lossy(&o.stdout).into_owned())).ok()
        };
        let Some(plain) = run(bed.plain(way[0])) else {
            println!("skipped: no {}", way[0]);
            continue;
        };
        assert_eq!(run(bed.client(way[0])), Some(plain), "{way:?}");
    }
}
