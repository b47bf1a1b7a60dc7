//! TCP over loopback: buffers, FIN, RST, TIME_WAIT, accept queues. Owns: what a call on a socket finds, in
//! the order in which Linux looks (tcp_sendmsg_locked, tcp_recvmsg_locked, tcp_poll, tcp_reset).

use super::world::{Kind, Pid, World};
use os::net::{AF_INET, Endpoint, msg, opt};
use os::poll::bits;
use os::{Errno, Result};
use std::collections::VecDeque;

/// States of tcp_states.h.
pub(crate) mod state {
    pub(crate) const ESTABLISHED: u8 = 1;
    pub(crate) const SYN_SENT: u8 = 2;
    pub(crate) const FIN_WAIT2: u8 = 5;
    pub(crate) const TIME_WAIT: u8 = 6;
    pub(crate) const CLOSE: u8 = 7;
    pub(crate) const CLOSE_WAIT: u8 = 8;
    pub(crate) const LISTEN: u8 = 10;
}
use state::{CLOSE, CLOSE_WAIT, ESTABLISHED, FIN_WAIT2, LISTEN, SYN_SENT, TIME_WAIT};

pub(crate) const ECONNREFUSED: Errno = Errno(111);
const EADDRINUSE: Errno = Errno(98);
const EISCONN: Errno = Errno(106);
const EALREADY: Errno = Errno(114);
const TIME_WAIT_NS: u64 = 60_000_000_000;

pub(crate) struct Socket {
    pub(crate) state: u8,
    pub(crate) cookie: u64,
    /// 0 until it is accepted, and once nobody has a number for it.
    pub(crate) inode: u64,
    pub(crate) uid: u32,
    pub(crate) local: Endpoint,
    pub(crate) remote: Endpoint,
    pub(crate) peer: Option<usize>,
    pub(crate) received: VecDeque<u8>,
    pub(crate) to_send: VecDeque<u8>,
    room: usize,
    is_fin_due: bool,
    is_fin_sent: bool,
    is_receive_shut: bool,
    is_send_shut: bool,
    /// This end has shut down reading itself.
    is_deaf: bool,
    /// A FIN has come (SOCK_DONE).
    is_done: bool,
    error: Option<Errno>,
    backlog: VecDeque<usize>,
    backlog_most: usize,
    linger: [i32; 2],
    low_water: usize,
    /// SO_PEEK_OFF; negative: none.
    peek_offset: i32,
    deferral: i32,
    /// Whom a full buffer has turned away is told of room.
    wants_room: bool,
    pub(crate) version: u64,
    pub(crate) timeouts: [[i64; 2]; 2],
}

/// What remains of a connection in TIME_WAIT.
pub(crate) struct Lingering {
    local: Endpoint,
    remote: Endpoint,
    cookie: u64,
    until: u64,
}

pub(crate) fn loopback(port: u16) -> Endpoint {
    let mut addr = [0; 16];
    addr[..4].copy_from_slice(&[127, 0, 0, 1]);
    Endpoint { family: AF_INET, port, scope: 0, addr }
}

fn nowhere() -> Endpoint {
    Endpoint { family: AF_INET, ..Endpoint::default() }
}

impl Socket {
    fn new(cookie: u64, room: usize) -> Self {
        Socket {
            state: CLOSE,
            cookie,
            inode: 0,
            uid: 1000,
            local: nowhere(),
            remote: nowhere(),
            peer: None,
            received: VecDeque::new(),
            to_send: VecDeque::new(),
            room,
            is_fin_due: false,
            is_fin_sent: false,
            is_receive_shut: false,
            is_send_shut: false,
            is_deaf: false,
            is_done: false,
            error: None,
            backlog: VecDeque::new(),
            backlog_most: 0,
            linger: [0; 2],
            low_water: 1,
            peek_offset: -1,
            deferral: 0,
            wants_room: false,
            version: 0,
            timeouts: [[0; 2]; 2],
        }
    }

    fn is_connected(&self) -> bool {
        !matches!(self.state, CLOSE | LISTEN | SYN_SENT)
    }

    fn free(&self) -> usize {
        self.room.saturating_sub(self.to_send.len())
    }

    /// tcp_poll.
    pub(crate) fn level(&self) -> u32 {
        let mut level = 0;
        if self.state == LISTEN {
            return if self.backlog.is_empty() { 0 } else { (bits::IN | bits::RDNORM) as u32 };
        }
        if (self.is_receive_shut && self.is_send_shut) || self.state == CLOSE {
            level |= bits::HUP;
        }
        if self.is_receive_shut {
            level |= bits::IN | bits::RDNORM | bits::RDHUP;
        }
        if self.state != SYN_SENT {
            if self.received.len() >= self.low_water {
                level |= bits::IN | bits::RDNORM;
            }
            if self.is_send_shut || self.free() >= self.room / 3 {
                level |= bits::OUT | bits::WRNORM;
            }
        }
        if self.error.is_some() {
            level |= bits::ERR;
        }
        u32::from(level as u16)
    }

    /// Both directions have ended, or a reset has come.
    fn end(&mut self) {
        self.state = CLOSE;
        (self.is_receive_shut, self.is_send_shut) = (true, true);
        self.peer = None;
    }

    /// tcp_reset.
    fn reset(&mut self) {
        if self.state == CLOSE {
            return;
        }
        self.error = Some(match self.state {
            SYN_SENT => ECONNREFUSED,
            CLOSE_WAIT => Errno::EPIPE,
            _ => Errno::ECONNRESET,
        });
        self.to_send.clear();
        self.end();
        self.version += 1;
    }
}

impl World {
    pub(crate) fn socket(&self, socket: usize) -> &Socket {
        self.sockets[socket].as_ref().expect("it is there")
    }

    pub(crate) fn socket_mut(&mut self, socket: usize) -> &mut Socket {
        self.sockets[socket].as_mut().expect("it is there")
    }

    /// The TCP socket behind a number.
    pub(crate) fn tcp(&self, pid: Pid, fd: i32) -> Result<usize> {
        match self.kind_of(pid, fd)? {
            Kind::Socket(socket) => Ok(socket),
            _ => Err(Errno::ENOTSOCK),
        }
    }

    fn make_socket(&mut self) -> usize {
        let (cookie, room) = (self.number(), self.tcp_room);
        self.sockets.push(Some(Socket::new(cookie, room)));
        self.sockets.len() - 1
    }

    pub(crate) fn open_socket(&mut self, pid: Pid, flags: u32) -> Result<usize> {
        let socket = self.make_socket();
        let inode = self.number();
        self.socket_mut(socket).inode = inode;
        self.open_as(pid, Kind::Socket(socket), flags | os::raw::nr::O_RDWR)
    }

    fn is_port_used(&self, port: u16) -> bool {
        self.sockets.iter().flatten().any(|socket| socket.local.port == port && socket.state == LISTEN)
    }

    pub(crate) fn bind(&mut self, pid: Pid, fd: i32, port: u16) -> Result<usize> {
        let socket = self.tcp(pid, fd)?;
        let port = if port == 0 { self.ephemeral() } else { port };
        if self.is_port_used(port) {
            return Err(EADDRINUSE);
        }
        self.socket_mut(socket).local = loopback(port);
        Ok(0)
    }

    fn ephemeral(&mut self) -> u16 {
        self.next_port = self.next_port.checked_add(1).unwrap_or(32_768);
        self.next_port
    }

    pub(crate) fn listen(&mut self, pid: Pid, fd: i32, backlog: usize) -> Result<usize> {
        let socket = self.tcp(pid, fd)?;
        if self.socket(socket).local.port == 0 {
            let port = self.ephemeral();
            self.socket_mut(socket).local = loopback(port);
        }
        let this = self.socket_mut(socket);
        if this.is_connected() {
            return Err(Errno::EINVAL);
        }
        (this.state, this.backlog_most) = (LISTEN, backlog.max(1));
        Ok(0)
    }

    fn listener_at(&self, at: Endpoint) -> Option<usize> {
        let is_it = |socket: &Socket| {
            socket.state == LISTEN
                && socket.local.port == at.port
                && (socket.local.addr == at.addr || socket.local.addr == [0; 16])
        };
        self.sockets.iter().position(|socket| socket.as_ref().is_some_and(is_it))
    }

    /// Sends the SYN, which arrives at once; EAGAIN if the queue of the listener is full.
    pub(crate) fn connect(&mut self, pid: Pid, fd: i32, to: Endpoint) -> Result<usize> {
        let socket = self.tcp(pid, fd)?;
        let this = self.socket(socket);
        match this.state {
            CLOSE if this.error.is_some() => return Err(self.take_error(socket)),
            CLOSE => {}
            SYN_SENT => return Err(EALREADY),
            _ => return Err(EISCONN),
        }
        if self.socket(socket).local.port == 0 {
            let port = self.ephemeral();
            self.socket_mut(socket).local = loopback(port);
        }
        let Some(listener) = self.listener_at(to) else { return Err(ECONNREFUSED) };
        if self.socket(listener).backlog.len() >= self.socket(listener).backlog_most {
            return Err(Errno::EAGAIN);
        }
        let child = self.make_socket();
        let from = self.socket(socket).local;
        let uid = self.socket(listener).uid;
        {
            let child = self.socket_mut(child);
            (child.state, child.local, child.remote) = (ESTABLISHED, to, from);
            (child.peer, child.uid) = (Some(socket), uid);
        }
        {
            let this = self.socket_mut(socket);
            (this.state, this.remote, this.peer) = (ESTABLISHED, to, Some(child));
            (this.is_receive_shut, this.is_send_shut, this.is_done) = (false, false, false);
            this.version += 1;
        }
        let listener = self.socket_mut(listener);
        listener.backlog.push_back(child);
        listener.version += 1;
        Ok(0)
    }

    pub(crate) fn accept(&mut self, pid: Pid, listener: usize, flags: u32) -> Result<usize> {
        if self.socket(listener).state != LISTEN {
            return Err(Errno::EINVAL);
        }
        let child = self.socket_mut(listener).backlog.pop_front().ok_or(Errno::EAGAIN)?;
        let inode = self.number();
        self.socket_mut(child).inode = inode;
        self.open_as(pid, Kind::Socket(child), flags | os::raw::nr::O_RDWR)
    }

    fn take_error(&mut self, socket: usize) -> Errno {
        self.socket_mut(socket).error.take().unwrap_or(Errno(0))
    }

    pub(crate) fn send_tcp(&mut self, socket: usize, from: &[u8]) -> Result<usize> {
        let this = self.socket_mut(socket);
        if this.error.is_some() || this.is_send_shut || !this.is_connected() {
            let error = this.error.take();
            return Err(error.unwrap_or(Errno::EPIPE));
        }
        self.pump(socket);
        let this = self.socket_mut(socket);
        if this.error.is_some() || this.is_send_shut {
            let error = this.error.take();
            return Err(error.unwrap_or(Errno::EPIPE));
        }
        let count = from.len().min(this.free());
        if count < from.len() {
            this.wants_room = true;
        }
        if count == 0 && !from.is_empty() {
            return Err(Errno::EAGAIN);
        }
        this.to_send.extend(&from[..count]);
        self.pump(socket);
        Ok(count)
    }

    /// Moves what fits to the peer, and the FIN behind it.
    fn pump(&mut self, socket: usize) {
        let Some(peer) = self.sockets[socket].as_ref().and_then(|this| this.peer) else { return };
        let is_peer_orphan = self.is_orphan(peer);
        let this = self.socket_mut(socket);
        if !this.to_send.is_empty() {
            if is_peer_orphan {
                this.reset();
                self.forget_if_orphan(socket);
                self.sockets[peer] = None;
                return;
            }
            if self.socket(peer).is_deaf && self.socket(peer).is_fin_sent {
                // It has ended both ways, and is still held: both are told.
                [socket, peer].into_iter().for_each(|end| self.socket_mut(end).reset());
                self.forget_if_orphan(socket);
                return;
            }
            let this = self.socket_mut(socket);
            let mut bytes = core::mem::take(&mut this.to_send);
            let had_room = this.free() - bytes.len() >= this.room / 3;
            let to = self.socket_mut(peer);
            let count = bytes.len().min(to.room.saturating_sub(to.received.len()));
            if count > 0 {
                to.version += 1;
                if to.received.is_empty() && count == bytes.len() {
                    to.received = core::mem::take(&mut bytes);
                } else {
                    to.received.extend(bytes.drain(..count));
                }
            }
            let this = self.socket_mut(socket);
            this.to_send = bytes;
            if !had_room && this.wants_room && this.free() >= this.room / 3 {
                this.wants_room = false;
                this.version += 1;
            }
        }
        self.send_fin(socket, peer);
    }

    fn send_fin(&mut self, socket: usize, peer: usize) {
        let this = self.socket_mut(socket);
        if !this.to_send.is_empty() || !this.is_fin_due || this.is_fin_sent {
            return;
        }
        this.is_fin_sent = true;
        let is_second = this.is_done;
        this.state = FIN_WAIT2;
        let to = self.socket_mut(peer);
        (to.is_receive_shut, to.is_done) = (true, true);
        to.version += 1;
        if !is_second {
            to.state = CLOSE_WAIT;
            return;
        }
        let lingering =
            Lingering { local: to.local, remote: to.remote, cookie: 0, until: self.now + TIME_WAIT_NS };
        let cookie = self.number();
        self.lingering.push(Lingering { cookie, ..lingering });
        for end in [socket, peer] {
            let end_of = self.socket_mut(end);
            end_of.end();
            end_of.version += 1;
            self.forget_if_orphan(end);
        }
    }

    fn is_orphan(&self, socket: usize) -> bool {
        self.sockets[socket].as_ref().is_none_or(|this| this.inode == 0 && this.is_fin_due)
    }

    fn forget_if_orphan(&mut self, socket: usize) {
        if self.is_orphan(socket) {
            self.sockets[socket] = None;
        }
    }

    pub(crate) fn receive_tcp(&mut self, socket: usize, into: &mut [u8], flags: i32) -> Result<usize> {
        let this = self.socket_mut(socket);
        if this.state == LISTEN || (this.state == CLOSE && !this.is_receive_shut && this.error.is_none()) {
            return Err(Errno::ENOTCONN);
        }
        let is_peek = flags & msg::PEEK != 0;
        let from = if is_peek { this.peek_offset.max(0) as usize } else { 0 };
        let count = into.len().min(this.received.len().saturating_sub(from));
        if count > 0 {
            into.iter_mut().zip(this.received.range(from..)).for_each(|(place, byte)| *place = *byte);
            if this.peek_offset >= 0 {
                let count = count as i32;
                let moved = if is_peek { count } else { -count };
                this.peek_offset = (this.peek_offset + moved).max(0);
            }
            if !is_peek {
                this.received.drain(..count);
                if let Some(peer) = this.peer {
                    self.pump(peer);
                }
            }
            return Ok(count);
        }
        if this.is_done || into.is_empty() {
            return Ok(0);
        }
        if let Some(error) = this.error.take() {
            return Err(error);
        }
        if this.is_receive_shut { Ok(0) } else { Err(Errno::EAGAIN) }
    }

    pub(crate) fn shutdown(&mut self, pid: Pid, fd: i32, how: i32) -> Result<usize> {
        let socket = self.tcp(pid, fd)?;
        let this = self.socket_mut(socket);
        if !this.is_connected() {
            return Err(Errno::ENOTCONN);
        }
        this.version += 1;
        if how != 1 {
            (this.is_receive_shut, this.is_deaf) = (true, true);
        }
        if how != 0 {
            this.is_send_shut = true;
            this.is_fin_due = true;
            self.pump(socket);
        }
        Ok(0)
    }

    pub(crate) fn close_socket(&mut self, socket: usize) {
        let this = self.socket_mut(socket);
        if this.state == LISTEN {
            for child in core::mem::take(&mut this.backlog) {
                self.send_reset(child);
            }
            self.sockets[socket] = None;
            return;
        }
        if !this.is_connected() {
            self.sockets[socket] = None;
        } else if !this.received.is_empty() || this.linger == [1, 0] {
            self.send_reset(socket);
        } else {
            (this.inode, this.is_fin_due, this.is_send_shut) = (0, true, true);
            self.pump(socket);
        }
    }

    fn send_reset(&mut self, socket: usize) {
        let Some(this) = self.sockets[socket].take() else { return };
        if let Some(peer) = this.peer {
            self.socket_mut(peer).reset();
            self.forget_if_orphan(peer);
        }
    }

    /// connect(2) to AF_UNSPEC: the peer is reset.
    pub(crate) fn dissolve(&mut self, pid: Pid, fd: i32) -> Result<usize> {
        let socket = self.tcp(pid, fd)?;
        let this = self.socket_mut(socket);
        let peer = this.peer;
        let is_bare = !this.is_connected();
        this.end();
        (this.is_receive_shut, this.is_send_shut, this.is_deaf, this.is_done) = (false, false, false, false);
        (this.is_fin_due, this.is_fin_sent) = (false, false);
        this.received.clear();
        this.to_send.clear();
        this.error = (!is_bare).then_some(Errno::ECONNRESET);
        this.version += 1;
        if let Some(peer) = peer {
            self.socket_mut(peer).reset();
            self.forget_if_orphan(peer);
        }
        Ok(0)
    }

    pub(crate) fn name(&self, pid: Pid, fd: i32, is_peer: bool) -> Result<Endpoint> {
        let socket = self.socket(self.tcp(pid, fd)?);
        if is_peer && !socket.is_connected() {
            return Err(Errno::ENOTCONN);
        }
        Ok(if is_peer { socket.remote } else { socket.local })
    }

    /// Who has these ends, or listens there: cookie, owner, inode, state.
    pub(crate) fn find(&mut self, local: Endpoint, remote: Endpoint) -> Option<(u64, u32, u64, u8)> {
        let ends = |this: &&Socket| this.local == local && this.remote == remote && this.is_connected();
        if let Some(this) = self.sockets.iter().flatten().find(ends) {
            let found = (this.cookie, this.uid, this.inode, this.state);
            return (this.inode != 0 || !self.misses()).then_some(found);
        }
        let waits = |this: &&Lingering| this.local == local && this.remote == remote && this.until > self.now;
        if let Some(this) = self.lingering.iter().find(waits) {
            let found = (this.cookie, 1000, 0, TIME_WAIT);
            return (!self.misses()).then_some(found);
        }
        let listener = self.socket(self.listener_at(local)?);
        Some((listener.cookie, listener.uid, listener.inode, LISTEN))
    }

    fn misses(&mut self) -> bool {
        self.misses_once_in > 0 && self.random.once_in(self.misses_once_in)
    }

    pub(crate) fn get_option(
        &mut self,
        pid: Pid,
        (fd, level, name): (i32, i32, i32),
        into: &mut [u8],
    ) -> Result<usize> {
        let socket = self.tcp(pid, fd)?;
        let this = self.socket_mut(socket);
        let number = match (level, name) {
            (opt::SOL_SOCKET, opt::SO_TYPE) => opt::SOCK_STREAM,
            (opt::SOL_SOCKET, opt::SO_ERROR) => this.error.take().map_or(0, |error| error.0),
            (opt::SOL_SOCKET, opt::SO_SNDBUF | opt::SO_RCVBUF) => this.room as i32,
            (opt::SOL_SOCKET, opt::SO_RCVLOWAT) => this.low_water as i32,
            (opt::SOL_SOCKET, opt::SO_PEEK_OFF) => this.peek_offset,
            (opt::IPPROTO_TCP, opt::TCP_DEFER_ACCEPT) => this.deferral,
            (opt::SOL_SOCKET, opt::SO_ACCEPTCONN) => i32::from(this.state == LISTEN),
            (opt::SOL_SOCKET, opt::SO_PROTOCOL) => opt::IPPROTO_TCP,
            (opt::SOL_SOCKET, opt::SO_DOMAIN) => i32::from(AF_INET),
            (opt::SOL_SOCKET, opt::SO_COOKIE) => return Ok(fill(into, &this.cookie.to_ne_bytes())),
            (opt::SOL_SOCKET, opt::SO_RCVTIMEO) => return Ok(fill_all(into, this.timeouts[0])),
            (opt::SOL_SOCKET, opt::SO_SNDTIMEO) => return Ok(fill_all(into, this.timeouts[1])),
            (opt::SOL_SOCKET, opt::SO_LINGER) => {
                let [on, seconds] = this.linger;
                return Ok(fill(into, &[on.to_ne_bytes(), seconds.to_ne_bytes()].concat()));
            }
            (opt::IPPROTO_TCP, opt::TCP_INFO) => return Ok(fill(into, &[this.state])),
            _ => 0,
        };
        Ok(fill(into, &number.to_ne_bytes()))
    }

    pub(crate) fn set_option(
        &mut self,
        pid: Pid,
        (fd, level, name): (i32, i32, i32),
        value: &[u8],
    ) -> Result<usize> {
        let socket = self.tcp(pid, fd)?;
        let this = self.socket_mut(socket);
        let number = |at: usize| {
            value.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, i32::from_ne_bytes)
        };
        match (level, name) {
            (opt::SOL_SOCKET, opt::SO_LINGER) => this.linger = [number(0), number(4)],
            (opt::SOL_SOCKET, opt::SO_PEEK_OFF) => this.peek_offset = number(0),
            (opt::IPPROTO_TCP, opt::TCP_DEFER_ACCEPT) => this.deferral = number(0),
            (opt::SOL_SOCKET, opt::SO_RCVLOWAT) => this.low_water = number(0).max(1) as usize,
            (opt::SOL_SOCKET, opt::SO_RCVTIMEO) => this.timeouts[0] = [number(0).into(), number(8).into()],
            (opt::SOL_SOCKET, opt::SO_SNDTIMEO) => this.timeouts[1] = [number(0).into(), number(8).into()],
            _ => {}
        }
        Ok(0)
    }
}

fn fill(into: &mut [u8], from: &[u8]) -> usize {
    let count = into.len().min(from.len());
    into[..count].copy_from_slice(&from[..count]);
    count
}

fn fill_all(into: &mut [u8], time: [i64; 2]) -> usize {
    fill(into, &time.map(i64::to_ne_bytes).concat())
}
