//! What both ends need of a socket: its options, its name of AF_UNIX, and waiting for it in libc's poll(2).

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::{SockAddr, Socket};

use crate::profile::options::{Options, Protocol};

/// Whether `socket` is ready for `what` within `timeout`. A signal counts as a timeout: whoever waits looks around and waits
/// again.
pub(crate) fn wait(socket: &impl AsFd, what: PollFlags, timeout: Duration) -> io::Result<bool> {
    // Rounded up: a wait of less than a millisecond is still one.
    let millis = timeout.as_micros().div_ceil(1000);
    let timeout = PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX);
    match poll(&mut [PollFd::new(socket.as_fd(), what)], timeout) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::EINTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Before connect and listen, or the sizes of windows come too late.
pub(crate) fn configure(socket: &Socket, opening: &Options) -> io::Result<()> {
    if let Some(bytes) = opening.wndsz {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        socket.set_send_buffer_size(bytes)?;
        socket.set_recv_buffer_size(bytes)?;
    }
    if opening.protocol == Protocol::Tcp {
        if opening.tcp_nodelay {
            socket.set_tcp_nodelay(true)?;
        }
        if let Some(congestion) = &opening.cc {
            socket.set_tcp_congestion(congestion.as_bytes())?;
        }
    }
    Ok(())
}

/// A name in the abstract namespace, so that no file has to be removed.
pub(crate) fn unix_address(port: u16) -> io::Result<SockAddr> {
    SockAddr::unix(format!("\0smc_bench-{port}"))
}
