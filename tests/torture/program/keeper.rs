//! The server that keeps descriptors of connections that were reset, and writes to them while honest
//! connections run. Invariant: what it writes names the old connection, so a reader that gets it says whose
//! it is.

use crate::connection::Connection;
use crate::drive;
use crate::hello::Hello;
use crate::run::run;
use crate::script::Side;
use crate::stream::Stream;
use isthmus_tests::sys::{self, Fd};
use std::time::Duration;

/// The first number of a connection that is to be reset; the board has no entry for these.
pub(crate) const FIRST: u64 = crate::board::CONNECTIONS;
/// How many such numbers there are.
pub(crate) const COUNT: u64 = 1 << 16;

/// Bytes that each of them is answered with.
pub(crate) const GREETING: usize = 48;

const KEPT: usize = 300;

struct Old {
    fd: Fd,
    stream: Stream,
    sent: u64,
}

impl Old {
    fn write(&mut self, n: usize) {
        let mut bytes = vec![0; n];
        self.stream.fill(self.sent, &mut bytes);
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        self.sent += sys::send(self.fd, &bytes, flags).unwrap_or(0) as u64;
    }
}

/// Serves for ever.
pub(crate) fn serve(listener: Fd) {
    let mut kept: Vec<Old> = Vec::new();
    loop {
        let Ok(fd) = sys::accept4(listener, libc::SOCK_CLOEXEC) else { continue };
        let fd = fd as Fd;
        match Hello::read(fd) {
            Some(Hello::Volley(number)) => {
                let mut old = Old { fd, stream: Stream::new(run().seed, number, Side::Server), sent: 0 };
                old.write(GREETING);
                kept.push(old);
            }
            Some(Hello::Script(number)) => {
                std::thread::spawn(move || drive::to_the_end(&Connection::new(number, Side::Server, fd)));
                scribble(&mut kept);
            }
            None => _ = sys::close(fd),
        }
        if kept.len() > KEPT {
            kept.drain(..KEPT / 3).for_each(|old| _ = sys::close(old.fd));
        }
    }
}

/// Busy with the old ones for a while.
fn scribble(kept: &mut [Old]) {
    for _ in 0..10 {
        kept.iter_mut().for_each(|old| old.write(64));
        std::thread::sleep(Duration::from_millis(1));
    }
}
