//! What a strand of an epoll server does with its connections: as much as it can without blocking.

use std::io;
use std::os::fd::AsRawFd;

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use socket2::Socket;

use super::task::{Common, Task, Turn};
use crate::profile::options::{Options, Protocol, Size};
use crate::strand::steps::{Call, Step};

/// An open one.
pub(super) struct Connection {
    socket: Socket,
    /// Bytes that were read but not asked for yet.
    read_ahead: u64,
    pub(super) written_ahead: u64,
    /// What was read or written last did not show that there is no more.
    pub(super) may_read: bool,
    /// The other end has closed: there is an end to be read.
    pub(super) is_closed: bool,
    waits_to_write: bool,
}

impl Task {
    /// Reads as much as there is, as servers do: what belongs to the next turns waits for them.
    pub(super) fn read(&mut self, step: &Step, size: Size, buffer: &mut [u8]) -> io::Result<Turn> {
        let Some(connection) = self.slots[step.slot].last_mut() else { return Err(missing()) };
        let (wanted, at_once) = match size {
            Size::Fixed(bytes) => (u64::from(bytes), false),
            Size::Random { max, .. } => (u64::from(max), true),
        };
        loop {
            let taken = connection.read_ahead.min(wanted - self.done);
            connection.read_ahead -= taken;
            self.counts.received += taken;
            self.done += taken;
            if self.done == wanted || (at_once && self.done > 0) {
                return Ok(Turn::Taken);
            }
            if !connection.may_read {
                return Ok(Turn::Blocked);
            }
            match Call::Read.make(&connection.socket, buffer) {
                Ok(0) => return Ok(Turn::Ended),
                Ok(bytes) => {
                    connection.read_ahead += bytes as u64;
                    // With edges, less than was asked for means that there is no more.
                    connection.may_read = bytes == buffer.len() || connection.is_closed;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => connection.may_read = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) fn write(
        &mut self,
        step: &Step,
        call: Call,
        size: Size,
        common: &mut Common<'_>,
    ) -> io::Result<Turn> {
        let Some(connection) = self.slots[step.slot].last_mut() else { return Err(missing()) };
        let wanted = u64::from(match size {
            Size::Fixed(bytes) => bytes,
            // A call that would block is tried again with another size, which is as random.
            Size::Random { min, max } => fastrand::u32(min..=max),
        });
        let ahead = connection.written_ahead.min(wanted.saturating_sub(self.done));
        connection.written_ahead -= ahead;
        self.done += ahead;
        while self.done < wanted {
            let left = usize::try_from(wanted - self.done).unwrap_or(usize::MAX).min(common.buffer.len());
            match call.make(&connection.socket, &mut common.buffer[..left]) {
                Ok(bytes) => {
                    self.counts.sent += bytes as u64;
                    self.done += bytes as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    connection.ask_to_write(true, self.token, common.registry)?;
                    return Ok(Turn::Blocked);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        connection.ask_to_write(false, self.token, common.registry)?;
        Ok(Turn::Taken)
    }

    pub(super) fn accept(&mut self, step: &Step, opening: &Options, common: &Common<'_>) -> io::Result<Turn> {
        let Some(listener) = self.listeners.get(&opening.protocol) else { return Err(missing()) };
        let socket = match listener.accept() {
            Ok((socket, _)) => socket,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let has_moved_on = self.released > self.transaction + 1;
                return Ok(if has_moved_on { Turn::Ended } else { Turn::Blocked });
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => return Ok(Turn::Blocked),
            Err(error) => return Err(error),
        };
        if opening.tcp_nodelay && opening.protocol == Protocol::Tcp {
            socket.set_tcp_nodelay(true)?;
        }
        socket.set_nonblocking(true)?;
        common.registry.register(&mut SourceFd(&socket.as_raw_fd()), self.token, Interest::READABLE)?;
        self.slots[step.slot].push(Connection {
            socket,
            read_ahead: 0,
            written_ahead: 0,
            may_read: true,
            is_closed: false,
            waits_to_write: false,
        });
        Ok(Turn::Taken)
    }
}

impl Connection {
    /// Wants to hear of room to write only while there is none.
    fn ask_to_write(&mut self, wants: bool, token: Token, registry: &Registry) -> io::Result<()> {
        if self.waits_to_write == wants {
            return Ok(());
        }
        self.waits_to_write = wants;
        let interest = if wants { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
        registry.reregister(&mut SourceFd(&self.socket.as_raw_fd()), token, interest)
    }
}

fn missing() -> io::Error {
    io::Error::other("no connection is open for it")
}
