//! A connection of an epoll server: what is known of it between two looks.

use std::io;
use std::os::fd::AsRawFd;

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use socket2::Socket;

/// An open one.
pub(super) struct Connection {
    pub(super) socket: Socket,
    /// Bytes that were read but not asked for yet.
    pub(super) read_ahead: u64,
    pub(super) written_ahead: u64,
    /// What was read or written last did not show that there is no more.
    pub(super) may_read: bool,
    /// The other end has closed: there is an end to be read.
    pub(super) is_closed: bool,
    pub(super) waits_to_write: bool,
}

impl Connection {
    /// Wants to hear of room to write only while there is none.
    pub(super) fn ask_to_write(&mut self, wants: bool, token: Token, registry: &Registry) -> io::Result<()> {
        if self.waits_to_write == wants {
            return Ok(());
        }
        self.waits_to_write = wants;
        let interest = if wants { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
        registry.reregister(&mut SourceFd(&self.socket.as_raw_fd()), token, interest)
    }
}
