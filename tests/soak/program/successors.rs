//! Processes one after the other at one end, and a process that outlives them all at the other.

use crate::{Tally, short};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Connections of each short-lived process, which all are in one at its end.
const EACH: u64 = 3;

fn own(args: &[&str]) -> Result<Child, String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    Command::new(program).args(args).stdout(Stdio::null()).spawn().map_err(|e| format!("start: {e}"))
}

/// Client processes: every other one is killed while it talks.
pub(crate) fn clients(port: u16, seconds: u64) -> Result<String, String> {
    let (end, mut tally) = (Instant::now() + Duration::from_secs(seconds), Tally::default());
    while Instant::now() < end {
        let begun = Instant::now();
        let is_killed = tally.rounds % 2 == 1;
        let lasts = if is_killed { "60" } else { "0" };
        let mut child = own(&["short", "client", &port.to_string(), lasts])?;
        if is_killed {
            std::thread::sleep(Duration::from_millis(10 + tally.rounds % 20));
            let _ = child.kill();
        }
        let status = child.wait().map_err(|e| format!("wait: {e}"))?;
        if !is_killed && !status.success() {
            return Err(format!("client {}: {status}", tally.rounds));
        }
        tally.note(begun);
    }
    Ok(tally.to_string())
}

/// Server processes at one port, which this one outlives as their client.
pub(crate) fn servers(port: u16, seconds: u64) -> Result<String, String> {
    let (end, mut tally) = (Instant::now() + Duration::from_secs(seconds), Tally::default());
    while Instant::now() < end {
        let begun = Instant::now();
        let mut server = own(&["short", "server", &port.to_string()])?;
        let talked = talk(port);
        let _ = server.kill();
        let _ = server.wait();
        talked.map_err(|e| format!("server {}: {e}", tally.rounds))?;
        tally.note(begun);
    }
    Ok(tally.to_string())
}

fn talk(port: u16) -> Result<(), String> {
    let limit = Instant::now() + Duration::from_secs(10);
    while std::net::TcpStream::connect((std::net::Ipv4Addr::LOCALHOST, port)).is_err() {
        if Instant::now() > limit {
            return Err("does not listen".into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    (0..EACH).try_for_each(|number| short::simple(port, number))
}
