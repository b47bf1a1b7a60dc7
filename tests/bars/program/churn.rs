//! Churn: connections are opened, used once in varied ways and closed; descriptors and memory must stay flat.
//! Both ends print "at PERCENT fds N resident KIB" after each tenth.

use crate::{connect, listen, open_fds, resident};
use std::io::{Read, Write};
use std::net::TcpStream;

pub(crate) fn server(port: u16, count: u64) -> Result<String, String> {
    let listener = listen(port)?;
    for n in 0..count {
        let (conn, _) = listener.accept().map_err(|e| format!("accept: {e}"))?;
        serve(conn).map_err(|e| format!("connection {n}: {e}"))?;
        report(n, count);
    }
    Ok("good".into())
}

fn serve(mut conn: TcpStream) -> Result<(), String> {
    let mut head = [0u8; 4];
    match conn.read_exact(&mut head) {
        Ok(()) => {}
        // The client closed without a word.
        Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(()),
        Err(e) => return Err(format!("request: {e}")),
    }
    let size = u32::from_be_bytes(head) as usize;
    conn.write_all(&vec![b'r'; size]).map_err(|e| format!("reply: {e}"))
}

pub(crate) fn client(port: u16, count: u64) -> Result<String, String> {
    for n in 0..count {
        let conn = connect(port)?;
        once(conn, n).map_err(|e| format!("connection {n}: {e}"))?;
        report(n, count);
    }
    Ok("good".into())
}

/// Every tenth connection is closed unused; reply sizes vary; replies are read to the server's close.
fn once(mut conn: TcpStream, n: u64) -> Result<(), String> {
    if n % 10 == 9 {
        return Ok(());
    }
    let size = [1, 100, 5000, 60000][(n % 4) as usize];
    conn.write_all(&(size as u32).to_be_bytes()).map_err(|e| format!("request: {e}"))?;
    let mut reply = Vec::new();
    conn.read_to_end(&mut reply).map_err(|e| format!("reply: {e}"))?;
    if reply == vec![b'r'; size] { Ok(()) } else { Err(format!("{} bytes of {size}", reply.len())) }
}

fn report(n: u64, count: u64) {
    let tenth = (count / 10).max(1);
    if (n + 1).is_multiple_of(tenth) {
        println!("at {} fds {} resident {}", (n + 1) * 100 / count, open_fds(), resident());
    }
}
