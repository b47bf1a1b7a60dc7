//! What a strand does to a connection: the plain calls of libc, one for one, with nothing between.
//!
//! `read` is read(2) and `receive` is recv(2), as the flowops of those names; a preloaded library sees both.

use std::fs::File;
use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::Socket;

/// What to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// Something to read, a connection to accept, or the end.
    Readable,
    /// Room to write, or the end.
    Writable,
}

/// One end of a connection. Shared by its strand and whoever may have to end it: every call takes `&self`.
pub(crate) trait Stream: Send + Sync + 'static {
    /// read(2).
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize>;
    /// write(2).
    fn write(&self, bytes: &[u8]) -> io::Result<usize>;
    /// recv(2).
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize>;
    /// send(2).
    fn send(&self, bytes: &[u8]) -> io::Result<usize>;
    /// sendfile(2), from `offset` on, which moves with what was sent.
    fn send_file(&self, file: &File, offset: &mut i64, count: usize) -> io::Result<usize>;
    /// Whether it became ready within `timeout`: poll(2).
    fn wait(&self, readiness: Readiness, timeout: Duration) -> io::Result<bool>;
    /// Ends both directions, so that whoever is blocked on it wakes up.
    fn shut(&self);
}

impl Stream for Socket {
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(nix::unistd::read(self, buffer)?)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(nix::unistd::write(self, bytes)?)
    }

    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        io::Read::read(&mut &*self, buffer)
    }

    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        Socket::send(self, bytes)
    }

    fn send_file(&self, file: &File, offset: &mut i64, count: usize) -> io::Result<usize> {
        Ok(nix::sys::sendfile::sendfile64(self, file, Some(offset), count)?)
    }

    fn wait(&self, readiness: Readiness, timeout: Duration) -> io::Result<bool> {
        wait(self, readiness, timeout)
    }

    fn shut(&self) {
        // Fails on a connection that has ended already, which is as good.
        let _ = self.shutdown(Shutdown::Both);
    }
}

/// poll(2) on one descriptor. A signal counts as a timeout: whoever waits looks around and waits again.
pub(crate) fn wait(socket: &impl AsFd, readiness: Readiness, timeout: Duration) -> io::Result<bool> {
    let flags = match readiness {
        Readiness::Readable => PollFlags::POLLIN,
        Readiness::Writable => PollFlags::POLLOUT,
    };
    // Rounded up: a wait of less than a millisecond is still one.
    let millis = timeout.as_micros().div_ceil(1000);
    let timeout = PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX);
    match poll(&mut [PollFd::new(socket.as_fd(), flags)], timeout) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::EINTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
