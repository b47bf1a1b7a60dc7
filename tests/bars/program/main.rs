//! The loads behind the bars: each is a server or a client that checks every byte it reads and says on its last
//! line what it found. Invariant: a wrong byte, a lost connection or a missing end is a line with "BAD" and exit 1.
//!
//! `bar-load integrity|pump|churn|many|verdict server|client PORT [COUNT] [SEED]`

mod churn;
mod integrity;
mod many;
mod pump;
mod verdict;

use std::net::{Ipv4Addr, TcpListener, TcpStream};

fn main() {
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
        ["many", "server"] => many::server(port),
        ["many", "client"] => many::client(port, count as usize),
        ["verdict", "server"] => verdict::server(port),
        ["verdict", "client"] => verdict::client(port, count, seed),
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
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|w| w.parse::<u64>().ok()).unwrap_or(0) * 4
}
