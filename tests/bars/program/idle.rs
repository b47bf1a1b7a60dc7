//! Idle: connections that were used and then rest in every kind of wait must cost no processor time.

use crate::{connect, listen};
use isthmus_tests::sys;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Serves each connection by a blocked thread.
pub(crate) fn server(port: u16) -> Result<String, String> {
    let listener = listen(port)?;
    std::thread::spawn(move || {
        for mut conn in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut buf = [0u8; 64];
                while let Ok(n) = conn.read(&mut buf) {
                    if n == 0 || conn.write_all(&buf[..n]).is_err() {
                        break;
                    }
                }
            });
        }
    });
    std::thread::sleep(Duration::from_millis(700));
    let before = sys::cpu_ms();
    std::thread::sleep(Duration::from_secs(1));
    Ok(format!("good cpu {}", sys::cpu_ms() - before))
}

/// Twelve connections: a third blocked in read, a third in poll, a third in one epoll set.
pub(crate) fn client(port: u16) -> Result<String, String> {
    let ep = sys::epoll();
    for n in 0..12 {
        let mut conn = connect(port)?;
        conn.write_all(b"hello").map_err(|e| format!("write: {e}"))?;
        conn.read_exact(&mut [0; 5]).map_err(|e| format!("read: {e}"))?;
        let fd = conn.as_raw_fd();
        std::mem::forget(conn);
        match n % 3 {
            0 => drop(std::thread::spawn(move || sys::read(fd, &mut [0; 1]))),
            1 => drop(std::thread::spawn(move || sys::poll1(fd, libc::POLLIN, -1))),
            _ => drop(sys::ep_add(ep, fd, libc::EPOLLIN | libc::EPOLLET, n)),
        }
    }
    std::thread::spawn(move || sys::ep_wait(ep, -1));
    std::thread::sleep(Duration::from_millis(300));
    let before = sys::cpu_ms();
    std::thread::sleep(Duration::from_secs(1));
    Ok(format!("good cpu {}", sys::cpu_ms() - before))
}
