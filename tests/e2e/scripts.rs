//! Language runtimes: Python, Java, Perl, Ruby. (Node is with the web programs.)

use crate::support::{
    LIMIT, assert_shown, output, programs, python, same_in_all_modes, script, serve, watch,
};
use isthmus_tests::{Bed, Mode, free_port, installed};
use std::path::Path;
use std::process::Command;

fn with(mut c: Command, file: &str, args: &[&str]) -> Command {
    c.arg(script(file)).args(args);
    c
}

#[test]
fn python_asyncio_echo() {
    let Some(python) = python() else { return };
    same_in_all_modes("asyncio", |bed| {
        let port = free_port().to_string();
        let mut s = with(bed.server(&python), "echo_asyncio.py", &["server", &port]);
        let _server = serve(bed, &mut s, port.parse().expect("port"));
        bed.mark();
        let mut c = with(bed.client(&python), "echo_asyncio.py", &["client", &port, "10", "200000"]);
        let (outcome, seen) = watch(bed, &mut c, "client");
        bed.assert_carrier(2 * 10 * 200_000, &seen);
        outcome.must("asyncio client").out
    });
}

/// A stream that was read takes more than a fresh one, as over TCP, whose autotuning does not see what moves
/// through memory: several requests at once of the size of one before.
#[test]
fn python_requests_of_the_size_of_one_before() {
    let Some(python) = python() else { return };
    if !Mode::wanted().contains(&Mode::Smc) {
        return;
    }
    let bed = Bed::new("pipelined", Mode::Smc);
    let outcome = bed.run(&mut with(bed.client(&python), "pipelined.py", &[]), "client", LIMIT);
    let text = outcome.must("pipelined.py").out;
    let taken: Vec<u64> = text.split_whitespace().map(|word| word.parse().expect("a number")).collect();
    assert!(taken[1] >= taken[0] + 1_000_000, "{text}");
}

/// subprocess, os.system, multiprocessing and fork in a process that has live connections.
#[test]
fn python_children_beside_connections() {
    let Some(python) = python() else { return };
    same_in_all_modes("children", |bed| {
        let port = free_port().to_string();
        let mut s = with(bed.server(&python), "echo_asyncio.py", &["server", &port]);
        let _server = serve(bed, &mut s, port.parse().expect("port"));
        bed.mark();
        let mut c = with(bed.client(&python), "children.py", &[&port]);
        let (outcome, seen) = watch(bed, &mut c, "client");
        let text = outcome.must("children.py").out;
        assert!(!text.contains("DIFFERENT") && !text.contains("EOF"), "{text}");
        bed.assert_carrier(2 * 3 * 9 * 50_000, &seen);
        assert_shown(bed, &seen);
        text
    });
}

/// SMC_DISABLE switches everything off, and nothing of the program: it forks and starts others as it does
/// without us.
#[test]
fn python_children_with_the_library_switched_off() {
    let Some(python) = python() else { return };
    let text = [Mode::Plain, Mode::ClientOnly].map(|mode| {
        let (mut bed, port) = (Bed::new("switched-off", mode), free_port());
        let number = port.to_string();
        let _server =
            serve(&bed, &mut with(bed.server(&python), "echo_asyncio.py", &["server", &number]), port);
        bed.mark();
        let mut c = with(bed.client(&python), "children.py", &[&number]);
        let text = output(&bed, c.env("SMC_DISABLE", "1"), "client");
        bed.assert_carrier(2 * 3 * 9 * 50_000, "");
        text
    });
    assert_eq!(text[0], text[1]);
}

/// The listener is an enabled program's, but one without the library accepts: whichever way a client waits,
/// it comes to speak TCP, also if the server speaks first.
#[test]
fn python_clients_of_a_borrowed_listener() {
    let Some(python) = python() else { return };
    same_in_all_modes("borrowed-listener", |bed| {
        let port = free_port().to_string();
        let mut s = with(bed.server(&python), "borrowed_listener.py", &["server", &port]);
        let _server = serve(bed, &mut s, port.parse().expect("port"));
        bed.mark();
        let text =
            output(bed, &mut with(bed.client(&python), "borrowed_listener.py", &["client", &port]), "client");
        assert!(!text.contains("NOT"), "{text}");
        text
    });
}

/// The listener stays with its master, who never accepts: each connection is accepted by a program of its
/// own, which is gone when the next client comes (login processes of mail servers).
#[test]
fn python_accepts_in_a_program_for_each_connection() {
    let Some(python) = python() else { return };
    same_in_all_modes("one-each", |bed| {
        let port = free_port().to_string();
        let _server = serve(
            bed,
            &mut with(bed.server(&python), "one_each.py", &["server", &port]),
            port.parse().expect("port"),
        );
        bed.mark();
        let mut c = with(bed.client(&python), "one_each.py", &["client", &port, "6", "100000"]);
        let text = output(bed, &mut c, "client");
        bed.assert_carrier(2 * 6 * 100_000, "");
        text
    });
}

/// The server accepts, then a forked process serves.
#[test]
fn python_multiprocessing_server() {
    let Some(python) = python() else { return };
    same_in_all_modes("multiprocessing", |bed| {
        let port = free_port().to_string();
        let mut s = with(bed.server(&python), "server_process.py", &[&port]);
        let _server = serve(bed, &mut s, port.parse().expect("port"));
        bed.mark();
        let mut c = with(bed.client(&python), "echo_asyncio.py", &["client", &port, "6", "300000"]);
        let text = output(bed, &mut c, "client");
        bed.assert_carrier(2 * 6 * 300_000, "");
        text
    });
}

fn java(bed: &Bed, command: Command, classes: &Path, [class, role]: [&str; 2], port: u16) -> Command {
    let mut c = command;
    c.args(["-Xshare:auto", "-XX:TieredStopAtLevel=1", "-Xmx128m", "-cp"]).arg(classes);
    c.args([class, role, &port.to_string()]).current_dir(bed.scratch.path());
    if class == "AsyncSockets" {
        // Every wait sleeps then, which is where its threads meet.
        c.env("SMC_SPIN", "0");
    }
    c
}

/// What `Sockets` moves.
const SOCKETS: u64 = 2 * 500_000;
/// And `AsyncSockets`: connections, messages and bytes, both ways.
const ASYNC_SOCKETS: u64 = 2 * 600 * 4 * 1000;

fn java_pair(name: &str, class: &str, [server, client]: [&str; 2], payload: u64) -> Option<String> {
    let [java_, javac] = programs(["java", "javac"])?;
    let classes = isthmus_tests::scratch::Scratch::new("classes");
    let source = script(&format!("{class}.java"));
    let built = Command::new(javac).arg("-d").arg(classes.path()).arg(source).status().expect("javac");
    assert!(built.success(), "{class}.java does not compile");
    let text = std::cell::RefCell::new(String::new());
    same_in_all_modes(name, |bed| {
        let port = free_port();
        let command = java(bed, bed.server(&java_), classes.path(), [class, server], port);
        let _server = serve(bed, &mut { command }, port);
        bed.mark();
        let mut c = java(bed, bed.client(&java_), classes.path(), [class, client], port);
        let (outcome, seen) = watch(bed, &mut c, "client");
        match client.starts_with("nio") {
            true => bed.assert_carrier_of_answers(payload, &seen),
            false => bed.assert_carrier(payload, &seen),
        }
        text.replace(outcome.must("java client").out);
        text.borrow().clone()
    });
    Some(text.into_inner())
}

#[test]
fn java_server_socket() {
    java_pair("java", "Sockets", ["server", "client"], SOCKETS);
}

#[test]
fn java_nio() {
    java_pair("java-nio", "Sockets", ["nioserver", "nioclient"], SOCKETS);
}

#[test]
fn java_nio_server_with_blocking_client() {
    java_pair("java-mixed", "Sockets", ["nioserver", "client"], SOCKETS);
}

/// Threads of a pool take turns at one epoll set, with EPOLLONESHOT; each connection is new to the set after
/// its first read.
#[test]
fn java_asynchronous_channels() {
    let pair = ["server", "client"];
    let Some(text) = java_pair("java-async", "AsyncSockets", pair, ASYNC_SOCKETS) else { return };
    assert_eq!(text.trim(), "600 connections, 2400 messages came back, all ended: true");
}

fn line_echo(name: &str, program: &Path, file: &str, payload: u64) {
    same_in_all_modes(name, |bed| {
        let port = free_port();
        let number = port.to_string();
        let _server = serve(bed, &mut with(bed.server(program), file, &["server", &number]), port);
        bed.mark();
        let mut c = with(bed.client(program), file, &["client", &number]);
        let text = bed.run(&mut c, "client", LIMIT).must(name).out;
        bed.assert_carrier(payload, "");
        text
    });
}

#[test]
fn perl_echo() {
    let Some([perl]) = programs(["perl"]) else { return };
    line_echo("perl", &perl, "echo.pl", 2 * 300 * 1500);
}

#[test]
fn ruby_echo() {
    // Perl or Ruby is asked for; Perl is always there.
    let Some(ruby) = installed(&["ruby"]) else {
        println!("skipped: ruby not installed");
        return;
    };
    line_echo("ruby", &ruby, "echo.rb", 2 * 300 * 1500);
}
