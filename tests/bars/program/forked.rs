//! Forked: a client with a connection makes a child that does nothing. Invariant: the pages counted are those
//! of the child alone, and of nothing that it did.

use crate::connect;
use isthmus_tests::sys;
use std::io::{Read, Write};

/// Pages that this process was given without reading a disk: the tenth field of /proc/PID/stat (proc(5)).
fn pages() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind_name = stat.rsplit(')').next().unwrap_or_default();
    behind_name.split_whitespace().nth(7).and_then(|pages| pages.parse().ok()).unwrap_or(u64::MAX)
}

/// Says how many pages a child was given by the time fork() returned there.
pub(crate) fn client(port: u16) -> Result<String, String> {
    let mut conn = connect(port)?;
    let mut answer = [0];
    conn.write_all(b"?").map_err(|e| format!("ask: {e}"))?;
    conn.read_exact(&mut answer).map_err(|e| format!("answer: {e}"))?;
    let child = sys::fork(|| u8::try_from(pages()).unwrap_or(u8::MAX));
    let status = sys::wait(child);
    let pages = status.strip_prefix("exit ").ok_or(format!("the child: {status}"))?;
    Ok(format!("pages {pages}"))
}
