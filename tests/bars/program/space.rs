//! Space: what a program's first steps cost it of its address space, and what a used connection keeps
//! resident. Both ends print names, each with a number of KiB behind it. `$BAR_LOCKED` locks all memory, and
//! `$BAR_HUNGRY` has an end want so many KiB for itself with each connection.

use crate::full::lock_if_asked;
use crate::{connect, listen, mapped, resident};
use isthmus_tests::sys;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;

/// What the address space has grown by, step by step.
struct Steps {
    said: String,
    before: u64,
}

impl Steps {
    fn begin() -> Self {
        let said = String::with_capacity(1 << 12);
        mapped();
        Steps { said, before: mapped() }
    }

    fn took(&mut self, name: &str) {
        let now = mapped();
        let _ = write!(self.said, "{name} {} ", now - self.before);
        self.before = now;
    }
}

fn exchange(mut conn: &TcpStream, is_client: bool) -> Result<(), String> {
    let mut bytes = [7u8; 1000];
    let mut send = || conn.write_all(&[7; 1000]).map_err(|e| format!("send: {e}"));
    if is_client {
        send()?;
    }
    conn.read_exact(&mut bytes).map_err(|e| format!("receive: {e}"))?;
    if is_client { Ok(()) } else { conn.write_all(&bytes).map_err(|e| format!("send: {e}")) }
}

/// Memory that the program wants for itself, all of it in use.
fn memory(len: usize) -> Result<Vec<u8>, String> {
    let mut memory = Vec::new();
    memory.try_reserve_exact(len).map_err(|e| format!("{len} bytes: {e}"))?;
    memory.resize(len, 1);
    Ok(memory)
}

/// Makes `count` connections one after the other, which are used and stay: KiB that each keeps resident.
fn used(count: u64, make: impl Fn() -> Result<TcpStream, String>, is_client: bool) -> Result<u64, String> {
    let hunger = std::env::var("BAR_HUNGRY").ok().and_then(|kib| kib.parse::<usize>().ok()).unwrap_or(0);
    let (mut all, mut own) = (Vec::with_capacity(count as usize), Vec::with_capacity(count as usize));
    let before = resident();
    for _ in 0..count {
        let conn = make()?;
        (0..10).try_for_each(|_| exchange(&conn, is_client))?;
        all.push(conn);
        own.push(memory(hunger << 10)?);
    }
    let after = resident();
    // (Both ends stay until the other one has looked.)
    let last = all.last().ok_or("no connection")?;
    exchange(last, is_client).map(|()| after.saturating_sub(before).div_ceil(count))
}

pub(crate) fn server(port: u16, count: u64) -> Result<String, String> {
    lock_if_asked()?;
    let mut steps = Steps::begin();
    let set = sys::epoll();
    steps.took("epoll");
    let listener = listen(port)?;
    steps.took("listen");
    sys::ep_add(set, listener.as_raw_fd(), libc::EPOLLIN, 0).map_err(|e| format!("add: {e}"))?;
    let accept = || listener.accept().map(|(conn, _)| conn).map_err(|e| format!("accept: {e}"));
    let first = accept()?;
    exchange(&first, false)?;
    steps.took("first");
    let used = used(count, accept, false)?;
    Ok(format!("{}used {used}", steps.said))
}

pub(crate) fn client(port: u16, count: u64) -> Result<String, String> {
    lock_if_asked()?;
    let mut steps = Steps::begin();
    if connect(1).is_ok() {
        return Err("somebody listens on port 1".to_string());
    }
    steps.took("failed");
    let first = connect(port)?;
    exchange(&first, true)?;
    steps.took("first");
    let used = used(count, || connect(port), true)?;
    Ok(format!("{}used {used}", steps.said))
}
