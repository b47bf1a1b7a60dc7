//! Mixed: several processes listen on one port (SO_REUSEPORT), and each says who it is. Invariant: the client
//! counts the answers and judges nothing.

use crate::connect;
use isthmus_tests::sys;
use std::io::{Read, Write};
use std::net::TcpListener;

/// Answers every connection with the letter `who`.
pub(crate) fn server(port: u16, who: u8) -> Result<String, String> {
    let fd = sys::tcp(0);
    let made = sys::setopt(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)
        .and_then(|_| sys::bind(fd, port))
        .and_then(|_| sys::listen(fd, 100));
    made.map_err(|e| format!("listen: {e}"))?;
    for conn in TcpListener::from(sys::owned(fd)).incoming() {
        let mut conn = conn.map_err(|e| format!("accept: {e}"))?;
        let mut question = [0];
        if conn.read_exact(&mut question).is_ok() {
            let _ = conn.write_all(&[who]);
        }
    }
    Ok(String::new())
}

/// Connects until `count` connections were answered by `p`; says how many were answered by anybody.
pub(crate) fn client(port: u16, count: u64) -> Result<String, String> {
    let (mut plain, mut all) = (0, 0);
    while plain < count && all < 100 * count {
        let mut conn = connect(port)?;
        let mut answer = [0];
        conn.write_all(b"?").map_err(|e| format!("ask: {e}"))?;
        conn.read_exact(&mut answer).map_err(|e| format!("answer: {e}"))?;
        plain += u64::from(answer == *b"p");
        all += 1;
    }
    Ok(format!("answered {all} plain {plain}"))
}
