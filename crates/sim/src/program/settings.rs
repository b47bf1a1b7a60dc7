//! What a program asks of a socket and sets at one. Owns: the order in which the hooks of the preload library
//! tell the library of it.

use super::{Program, Result};
use os::Errno;
use os::net::opt;
use os::raw::nr;
use socket::{queue, server, stream};

impl Program {
    /// FIONREAD.
    pub(crate) fn readable_bytes(&self, fd: i32) -> Result<usize> {
        let ours = if self.is_known(fd) { stream::readable_bytes(fd) } else { None };
        ours.map_or_else(
            || {
                let world = self.here.enter();
                Ok(world.socket(world.tcp(self.here.pid, fd)?).received.len())
            },
            Ok,
        )
    }

    /// SIOCOUTQ.
    pub(crate) fn unacknowledged_bytes(&self, fd: i32) -> Result<usize> {
        let ours = if self.is_known(fd) { queue::unacknowledged(fd) } else { None };
        ours.map_or_else(
            || {
                let world = self.here.enter();
                Ok(world.socket(world.tcp(self.here.pid, fd)?).to_send.len())
            },
            Ok,
        )
    }

    /// SO_ERROR.
    pub(crate) fn take_error(&self, fd: i32) -> Result<Errno> {
        if let Some(errno) = if self.is_known(fd) { socket::told::take_reset(fd) } else { None } {
            return Ok(errno);
        }
        self.option(fd, opt::SOL_SOCKET, opt::SO_ERROR).map(Errno)
    }

    /// getsockopt(2) of a number.
    pub(crate) fn option(&self, fd: i32, level: i32, name: i32) -> Result<i32> {
        if self.is_known(fd)
            && (level, name) == (opt::IPPROTO_TCP, opt::TCP_DEFER_ACCEPT)
            && let Some(seconds) = server::deferral(fd)
        {
            return Ok(seconds.cast_signed());
        }
        let mut value = [0; 4];
        self.here.enter().get_option(self.here.pid, (fd, level, name), &mut value)?;
        Ok(i32::from_ne_bytes(value))
    }

    /// setsockopt(2) of a number.
    pub(crate) fn set_option(&self, fd: i32, level: i32, name: i32, value: i32) -> Result<usize> {
        self.note("setsockopt");
        let is_deferral = (level, name) == (opt::IPPROTO_TCP, opt::TCP_DEFER_ACCEPT);
        if self.is_enabled && is_deferral && server::defer(fd, value) {
            return Ok(0);
        }
        let done = self.here.enter().set_option(self.here.pid, (fd, level, name), &value.to_ne_bytes())?;
        match (level, name) {
            _ if !self.is_enabled => {}
            (opt::SOL_SOCKET, opt::SO_RCVLOWAT) => stream::note_rcvlowat(fd),
            (opt::SOL_SOCKET, opt::SO_PEEK_OFF) => stream::note_peek_offset(fd),
            _ => {}
        }
        Ok(done)
    }

    /// SO_RCVTIMEO or SO_SNDTIMEO.
    pub(crate) fn set_timeout(&self, fd: i32, name: i32, time: [i64; 2]) -> Result<usize> {
        if self.is_enabled {
            stream::note_timeout_is_used();
        }
        let value = time.map(i64::to_ne_bytes).concat();
        let done = self.here.enter().set_option(self.here.pid, (fd, opt::SOL_SOCKET, name), &value)?;
        if self.is_enabled {
            stream::note_timeout(fd, name, (time[0] >= 0).then(|| os::net::nanoseconds(time)));
        }
        Ok(done)
    }

    /// An option with which only TCP works, on a socket that is not connected.
    pub(crate) fn keep_plain(&self, fd: i32) {
        if self.is_enabled {
            self.leave_fresh(fd);
            socket::table::refuse(fd, socket::Reason::OPTUNSUPP);
        }
    }

    /// What only TCP can do, with a connected one.
    pub(crate) fn refuse(&self, fd: i32) {
        if self.is_enabled {
            socket::decide::refuse(fd);
        }
    }

    /// The connection goes back to TCP, as where descriptors are short.
    pub(crate) fn go_home(&self, fd: i32) {
        if self.is_enabled {
            self.note("goes home");
            socket::spare::go_home(fd);
        }
    }

    /// dprintf(3), which writes past all hooks.
    pub(crate) fn print(&self, fd: i32, text: &str) -> Result<usize> {
        self.note("dprintf");
        if self.is_enabled {
            stream::demote(fd);
        }
        self.send_by_tcp(fd, text.as_bytes(), 0)
    }

    /// O_ASYNC, and F_SETOWN.
    pub(crate) fn set_signal_driven(&self, fd: i32, on: bool) -> Result<usize> {
        let done = self.here.enter().fcntl(self.here.pid, fd, nr::F_SETFL, 0)?;
        if self.is_known(fd) {
            socket::signals::note_signal_driven(fd, on);
            socket::signals::note_signal_owner(fd);
        }
        Ok(done)
    }

    /// connect(2) to AF_UNSPEC.
    pub(crate) fn dissolve(&self, fd: i32) -> Result<usize> {
        self.note("connect to nowhere");
        if !self.is_known(fd) {
            return self.here.enter().dissolve(self.here.pid, fd);
        }
        let after = socket::close::before_dissolving(fd);
        let result = self.here.enter().dissolve(self.here.pid, fd);
        after.run();
        result
    }
}
