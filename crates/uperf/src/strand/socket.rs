//! Waiting for a socket in libc's poll(2).

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

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
