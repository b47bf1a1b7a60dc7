//! The puppet: the other end of every connection, in a process of its own, one command per line on stdin and
//! one answer per line on stdout. Invariant: the answer says only what its calls returned.

use crate::context::{digest, fill, got, pattern, read_all, write_all};
use isthmus_tests::sys::{self, Fd, show};
use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::time::Duration;

type Table = HashMap<u32, Fd>;

/// Obeys stdin until "quit" or end of file.
pub(crate) fn run() {
    let mut table = Table::new();
    let mut listener = None;
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("command");
        if line == "quit" {
            break;
        }
        let answer = obey(&line, &mut table, &mut listener);
        let mut out = std::io::stdout().lock();
        writeln!(out, "{answer}").and_then(|()| out.flush()).expect("answer");
    }
}

fn obey(line: &str, table: &mut Table, listener: &mut Option<(Fd, u16)>) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    match words[..] {
        ["listen"] => listener.get_or_insert_with(sys::listener).1.to_string(),
        ["unlisten"] => listener.take().map_or("none".into(), |(fd, _)| show(sys::close(fd))),
        ["accept", id] => match sys::accept(listener.expect("listening").0) {
            Ok(fd) => keep(table, id, fd as Fd),
            Err(e) => e.to_string(),
        },
        ["connect", id, port] => {
            let fd = sys::tcp(libc::SOCK_CLOEXEC);
            match sys::connect(fd, number(port) as u16) {
                Ok(_) => keep(table, id, fd),
                Err(e) => e.to_string(),
            }
        }
        ["later", ms, ..] => later(number(ms) as u64, &words[2..], table),
        ["few", numbers] => {
            sys::limit_fds_for_good(number(numbers) as u64);
            "few".into()
        }
        ["take_all"] => crate::cases_scarce::take_all_numbers(),
        ["hand", id, by_vfork] => {
            let fd = *table.get(&(number(id) as u32)).expect("a connection of that name");
            crate::cases_handed::hand_on(fd, by_vfork == "true", "other", 0);
            sys::exit_now(0)
        }
        ["die"] => show(sys::kill(std::process::id() as i32, libc::SIGKILL)),
        ["end", id, way, bytes] => {
            let fd = *table.get(&(number(id) as u32)).expect("a connection of that name");
            crate::cases_end::end_by(sys::Way::named(way), fd, number(bytes))
        }
        ["exit"] => sys::exit_now(0),
        [verb, id, ref rest @ ..] => {
            let fd = *table.get(&(number(id) as u32)).expect("a connection of that name");
            if verb == "close" {
                table.remove(&(number(id) as u32));
            }
            act(verb, fd, rest)
        }
        _ => format!("what is '{line}'"),
    }
}

fn keep(table: &mut Table, id: &str, fd: Fd) -> String {
    table.insert(number(id) as u32, fd);
    "0".into()
}

fn number(word: &str) -> usize {
    word.parse().expect("a number")
}

/// Runs a command after a pause, in a thread, and answers at once.
fn later(ms: u64, words: &[&str], table: &Table) -> String {
    let words: Vec<String> = words.iter().map(|w| w.to_string()).collect();
    let mut table = table.clone();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(ms));
        obey(&words.join(" "), &mut table, &mut None)
    });
    "ok".into()
}

fn act(verb: &str, fd: Fd, rest: &[&str]) -> String {
    match (verb, rest) {
        ("send", [text]) => show(sys::send(fd, text.as_bytes(), libc::MSG_NOSIGNAL)),
        ("sendline", [text]) => show(sys::send(fd, format!("{text}\n").as_bytes(), libc::MSG_NOSIGNAL)),
        ("sendn", [n]) => write_all(fd, &pattern(number(n))),
        ("zeros", [n]) => write_all(fd, &vec![0; number(n)]),
        ("oob", [text]) => show(sys::send(fd, text.as_bytes(), libc::MSG_OOB)),
        ("zerocopy", [text]) => {
            let _ = sys::setopt(fd, libc::SOL_SOCKET, libc::SO_ZEROCOPY, 1);
            // (The kernel goes on reading there.)
            show(sys::send(fd, text.to_string().leak().as_bytes(), libc::MSG_ZEROCOPY))
        }
        ("more", [text]) => show(sys::send(fd, text.as_bytes(), libc::MSG_MORE)),
        ("fill", []) => if fill(fd) > 0 { "full" } else { "nothing" }.into(),
        ("recv", [n]) => {
            let mut buf = vec![0; number(n)];
            got(sys::read(fd, &mut buf), &buf)
        }
        ("recvn", [n]) => read_all(fd, number(n)),
        ("drain", []) => read_all(fd, usize::MAX),
        ("discard", []) => discard(fd),
        ("tally", []) => tally(fd),
        ("echo", [n]) => echo(fd, number(n)),
        ("last", [text]) => format!("{} {}", act("send", fd, &[text]), act("shut", fd, &["1"])),
        ("shut", [how]) => show(sys::shutdown(fd, number(how) as i32)),
        ("linger", [on, s]) => show(sys::set_linger(fd, *on == "1", number(s) as i32)),
        ("nonblock", [on]) => {
            sys::nonblocking(fd, *on == "1");
            "0".into()
        }
        ("poll", [events, ms]) => sys::poll1(fd, number(events) as i16, number(ms) as i32),
        ("copy", []) => leave_a_copy(),
        ("plain", [n]) => crate::cases_early::read_by_plain_program(fd, number(n)),
        ("send_unseen", [text]) => show(sys::write_unseen(fd, text.as_bytes())),
        ("shut_unseen", []) => {
            sys::shutdown_unseen(fd);
            "ok".into()
        }
        ("starved", [n]) => crate::cases_early::read_without_descriptors(fd, number(n)),
        ("has_peer", []) => sys::peer_port(fd).map_or_else(|e| e.to_string(), |_| "yes".into()),
        ("compute", [ms]) => {
            let until = std::time::Instant::now() + Duration::from_millis(number(ms) as u64);
            while std::time::Instant::now() < until {}
            "done".into()
        }
        ("queued", []) => sys::queued(fd).to_string(),
        ("close", []) => show(sys::close(fd)),
        _ => format!("what is '{verb} {rest:?}'"),
    }
}

/// A child that holds copies of all connections, uses none, and goes a moment after this process. Says which.
fn leave_a_copy() -> String {
    let parent = std::process::id();
    let child = sys::fork(|| {
        while std::os::unix::process::parent_id() == parent {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(40));
        0
    });
    child.to_string()
}

/// Reads to the end and says only how it ended: for sizes that depend on buffers.
fn discard(fd: Fd) -> String {
    let mut buf = vec![0u8; 65536];
    loop {
        match sys::read(fd, &mut buf) {
            Ok(0) => return "EOF".into(),
            Ok(_) => {}
            Err(e) => return e.to_string(),
        }
    }
}

/// Reads to the end, and tells how much there was of what.
fn tally(fd: Fd) -> String {
    let (mut buf, mut counts) = (vec![0u8; 65536], [0usize; 3]);
    while let Ok(count @ 1..) = sys::read(fd, &mut buf) {
        for byte in &buf[..count] {
            counts[match byte {
                b'a' => 0,
                b'!' => 1,
                _ => 2,
            }] += 1;
        }
    }
    format!("{} of 'a', {} of '!', {} others", counts[0], counts[1], counts[2])
}

/// Reads `n` bytes and sends each piece back as it comes.
fn echo(fd: Fd, n: usize) -> String {
    let (mut left, mut buf, mut all) = (n, vec![0u8; 16384], Vec::new());
    while left > 0 {
        let want = buf.len().min(left);
        match sys::read(fd, &mut buf[..want]) {
            Ok(0) => return format!("{} then EOF", digest(&all)),
            Ok(k) => {
                all.extend_from_slice(&buf[..k]);
                write_all(fd, &buf[..k]);
                left -= k;
            }
            Err(e) => return format!("{} then {e}", digest(&all)),
        }
    }
    digest(&all)
}
