//! The loads behind the bars: each is a server or a client that checks every byte it reads and says on its
//! last line what it found. Invariant: a wrong byte, a lost connection or a missing end is a line with "BAD"
//! and exit 1.
//!
//! `bar-load integrity|pump|churn|many|space|idle|verdict|full|ebb server|client PORT [COUNT] [SEED]`,
//! `bar-load attacker client PORT MS SEED`, `bar-load attacker server PORT SEED`,
//! `bar-load attacker torn PORT LIAR MS SEED`,
//! `bar-load squat KIND`, `bar-load trust|trusting CHANGE PORT`, `bar-load busy server|client PORT CHANGES`,
//! `bar-load most server|client PORT LIMIT`,
//! `bar-load peers servers|clients COUNT`,
//! `bar-load helped server|client PORT`, `bar-load mixed enabled|plain|client PORT [COUNT]`,
//! `bar-load stall server|client PORT COUNT`, `bar-load forked client PORT`

mod attack;
mod attacker;
mod churn;
mod forked;
mod full;
mod hostile;
mod idle;
mod integrity;
mod many;
mod mixed;
mod peers;
mod place;
mod pump;
mod space;
mod stall;
mod trust;
mod verdict;

use isthmus_tests::sys::{self, Denied};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

fn main() {
    if let Ok(list) = std::env::var("BAR_DENY") {
        let denied: Vec<Denied> = list.split(',').map(denied).collect();
        sys::deny(&denied).expect("seccomp");
    }
    if std::env::var_os("BAR_CLOSED").is_some() {
        sys::make_undumpable();
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize| args.get(i).and_then(|a| a.parse::<u64>().ok()).unwrap_or(0);
    let (port, count, seed) = (number(2) as u16, number(3), number(4));
    let words: Vec<&str> = args.iter().take(2).map(String::as_str).collect();
    let result = match words[..] {
        ["integrity", "server"] => integrity::server(port, count),
        ["integrity", "client"] => integrity::client(port, count),
        ["pump", "server"] => pump::server(port),
        ["pump", "client"] => pump::client(port, seed),
        ["churn", "server"] => churn::server(port, count),
        ["churn", "client"] => churn::client(port, count),
        ["full", "server"] => full::server(port, count),
        ["full", "client"] => full::client(port, count),
        ["ebb", "server"] => full::ebb_server(port),
        ["ebb", "client"] => full::ebb(port, count),
        ["hostile", "server"] => hostile::server(port),
        ["hostile", "keeper"] => hostile::keeper(port),
        ["hostile", "client"] => hostile::client(port, count, seed, u64::MAX),
        ["hostile", "opener"] => hostile::opener(port, count, seed),
        ["hostile", "paced"] => hostile::client(port, count, seed, 8_000),
        ["hostile", "late"] => attacker::late(port),
        ["attacker", "client"] => attacker::client(port, count, seed),
        ["attacker", "server"] => attacker::server(port, count),
        ["attacker", "torn"] => attacker::torn(port, number(3) as u16, number(4), number(5)),
        ["many", "server"] => many::server(port),
        ["many", "client"] => many::client(port, count as usize),
        ["most", "server"] => many::most_server(port, count),
        ["most", "client"] => many::most(port, count),
        ["space", "server"] => space::server(port, count),
        ["space", "client"] => space::client(port, count),
        ["idle", "server"] => idle::server(port),
        ["idle", "client"] => idle::client(port),
        ["peers", "servers"] => peers::meet_servers(number(2)),
        ["peers", "clients"] => peers::meet_clients(number(2)),
        ["peers", "one-server"] => peers::one_server(),
        ["peers", "one-client"] => peers::one_client(port, count),
        ["verdict", "server"] => verdict::server(port),
        ["verdict", "client"] => verdict::client(port, count, seed),
        ["mixed", "enabled"] => mixed::server(port, b's'),
        ["mixed", "plain"] => mixed::server(port, b'p'),
        ["mixed", "client"] => mixed::client(port, count),
        ["forked", "client"] => forked::client(port),
        ["stall", "server"] => stall::server(port, count),
        ["stall", "client"] => stall::client(port, count),
        ["busy", "server"] => trust::busy_server(port, count != 0),
        ["busy", "client"] => trust::busy_client(port, count != 0),
        ["helped", "server"] => trust::helped_server(port),
        ["helped", "client"] => trust::helped_client(port),
        ["squat", kind] => place::squat(kind),
        ["trust", how] => trust::server(port, how),
        ["trusting", how] => trust::client(port, how),
        _ => Err("usage: bar-load LOAD server|client PORT [COUNT] [SEED]".to_string()),
    };
    match result {
        Ok(line) => println!("{line}"),
        Err(line) => {
            println!("BAD {line}");
            std::process::exit(1);
        }
    }
}

/// What a word of `$BAR_DENY` takes away from this process.
fn denied(word: &str) -> Denied {
    match word {
        "memfd_create" => Denied::Call(libc::SYS_memfd_create),
        "eventfd2" => Denied::Call(libc::SYS_eventfd2),
        "epoll_ctl" => Denied::Call(libc::SYS_epoll_ctl),
        "openat" => Denied::Call(libc::SYS_openat),
        "unix" => Denied::Socket(libc::AF_UNIX),
        "netlink" => Denied::Socket(libc::AF_NETLINK),
        other => panic!("BAR_DENY: what is {other}"),
    }
}

/// A listening socket on loopback.
fn listen(port: u16) -> Result<TcpListener, String> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|e| format!("listen: {e}"))
}

/// A connection to loopback.
fn connect(port: u16) -> Result<TcpStream, String> {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(|e| format!("connect: {e}"))
}

/// Open descriptors of this process.
fn open_fds() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, |d| d.count())
}

/// Resident memory of this process in KiB.
fn resident() -> u64 {
    pages(1)
}

/// Address space of this process in KiB.
fn mapped() -> u64 {
    pages(0)
}

fn pages(which: usize) -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(which).and_then(|w| w.parse::<u64>().ok()).unwrap_or(0) * 4
}
