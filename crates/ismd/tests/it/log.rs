//! A log that nobody takes.

use crate::daemon::{Daemon, PROGRAM, comes_true, open_folder};
use crate::raw::Raw;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use wire::host::Message;

/// So many lines and more: a pipe takes 64 KiB.
const LINES: usize = 2000;

/// Connections of which the daemon says something (at debug, as the tests have it).
fn make_it_talk(daemon: &Daemon) {
    for _ in 0..LINES {
        let raw = Raw::connect(daemon);
        raw.enter();
    }
}

fn lost(daemon: &Daemon) -> u64 {
    counted(daemon, "ismd_log_lines_lost_total ")
}

fn counted(daemon: &Daemon, name: &str) -> u64 {
    let mut text = String::new();
    let mut metrics = UnixStream::connect(daemon.metrics()).expect("connected");
    metrics.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("sent");
    metrics.read_to_string(&mut text).expect("answered");
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{text}"))
}

/// (That each is answered is the test.)
#[test]
fn the_daemon_waits_for_no_reader_of_its_log_and_outlives_him() {
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let daemon = Daemon::start_with_log("", writer);
    while lost(&daemon) == 0 {
        make_it_talk(&daemon);
    }
    // Who comes back to read is told of it.
    let mut heard = String::new();
    let is_told = |heard: &mut String, reader: &mut std::io::PipeReader| {
        let mut bytes = [0; 4096];
        let len = reader.read(&mut bytes).expect("read");
        heard.push_str(&String::from_utf8_lossy(&bytes[..len]));
        heard.contains("lines of the log were lost")
    };
    assert!(comes_true(|| is_told(&mut heard, &mut reader)), "{heard}");
    drop(reader);
    let before = lost(&daemon);
    daemon.write_policy("[[fabric]]\nvchid = 3\n");
    assert!(comes_true(|| lost(&daemon) > before));
    make_it_talk(&daemon);
    assert_eq!(daemon.end(), Some(0));
}

#[test]
fn a_full_device_takes_no_log_and_the_daemon_serves() {
    let full = File::options().write(true).open("/dev/full").expect("a device");
    let daemon = Daemon::start_with_log("", full);
    make_it_talk(&daemon);
    assert!(lost(&daemon) > 0);
    assert_eq!(daemon.end(), Some(0));
}

#[test]
fn what_cannot_be_said_changes_no_exit_status() {
    let folder = open_folder();
    let path = folder.path().join("p.toml");
    for (text, expected) in [("", 0), ("colour = 1\n", 2)] {
        fs::write(&path, text).expect("written");
        let full = || Stdio::from(File::options().write(true).open("/dev/full").expect("a device"));
        let status = Command::new(PROGRAM).arg("--check").arg(&path).stdout(full()).stderr(full()).status();
        assert_eq!(status.expect("run").code(), Some(expected), "{text}");
    }
}

/// One line for each question was 122 000 of them in 5 s, by one client.
#[test]
fn whoever_asks_in_vain_fills_no_log_and_is_counted() {
    const QUESTIONS: u64 = 3000;
    let folder = open_folder();
    let path = folder.path().join("log");
    let daemon = Daemon::start_with_log("", File::create(&path).expect("made"));
    let raw = Raw::connect(&daemon);
    raw.enter();
    for _ in 0..QUESTIONS {
        raw.say(&Message::Open { owner: 1, memory: 1, number: 1 }, None);
    }
    let log = || fs::read_to_string(&path).expect("a log");
    let said = |log: &str| log.matches(" refused client=").count() as u64;
    let left_out = |log: &str| -> u64 {
        let lines = log.lines().filter(|line| line.contains("left out of the log what=\"refused\""));
        let count = |line: &str| line.split("lines=").nth(1)?.split(' ').next()?.parse::<u64>().ok();
        lines.filter_map(count).sum()
    };
    assert!(comes_true(|| said(&log()) + left_out(&log()) == QUESTIONS), "{}", log());
    assert!((20..200).contains(&said(&log())), "{}", log());
    assert_eq!(counted(&daemon, "ismd_refusals_total{code=\"0x04000000\"} "), QUESTIONS);
}
