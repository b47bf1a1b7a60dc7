//! An accepted connection driven by readiness: says what it waits for and never blocks. Invariant: it tries
//! before it says that it would wait, so edges are enough for it.

use crate::connection::{Connection, FINALE, Flow};
use crate::hello::{self, Hello};
use crate::script::Side;
use crate::style::Want;
use isthmus_tests::sys::{self, Errno, Fd};

/// A connection and how far its hello or its lists of steps are.
pub(crate) struct Machine {
    fd: Fd,
    hello: Vec<u8>,
    connection: Option<Connection>,
    finale: bool,
}

impl Machine {
    /// Takes over an accepted descriptor, which does not block.
    pub(crate) fn new(fd: Fd) -> Machine {
        Machine { fd, hello: Vec::new(), connection: None, finale: false }
    }

    pub(crate) fn fd(&self) -> Fd {
        self.fd
    }

    /// Goes on as far as it can; `None` when the connection is over and closed.
    pub(crate) fn advance(&mut self) -> Option<Want> {
        if self.connection.is_none() && !self.greet()? {
            return Some(Want::READ);
        }
        let connection = self.connection.as_ref()?;
        loop {
            let lanes = 0..connection.plan().lanes.len();
            let lists = if self.finale { FINALE..FINALE + 1 } else { lanes };
            match together(connection, lists) {
                Flow::Wait(want) => return Some(want),
                Flow::Finished if !self.finale => self.finale = true,
                _ => {
                    connection.finish();
                    return None;
                }
            }
        }
    }

    /// Reads the hello; whether it is complete. `None` if there will be none.
    fn greet(&mut self) -> Option<bool> {
        let mut bytes = [0; hello::LEN];
        let rest = hello::LEN - self.hello.len();
        match sys::recv(self.fd, &mut bytes[..rest], 0) {
            Ok(n) if n > 0 => self.hello.extend_from_slice(&bytes[..n]),
            Err(Errno(libc::EAGAIN)) => return Some(false),
            _ => return self.refuse(),
        }
        let Ok(whole) = <&[u8; hello::LEN]>::try_from(&self.hello[..]) else { return Some(false) };
        match Hello::parse(whole) {
            Some(Hello::Script(number)) => {
                self.connection = Some(Connection::new(number, Side::Server, self.fd));
                Some(true)
            }
            _ => self.refuse(),
        }
    }

    fn refuse(&self) -> Option<bool> {
        let _ = sys::close(self.fd);
        None
    }
}

fn together(c: &Connection, lists: std::ops::Range<usize>) -> Flow {
    let mut wanted: Option<Want> = None;
    for list in lists {
        match c.advance(list) {
            Flow::Finished => {}
            Flow::Wait(want) => wanted = Some(wanted.map_or(want, |w| w.and(want))),
            over => return over,
        }
    }
    wanted.map_or(Flow::Finished, Flow::Wait)
}
