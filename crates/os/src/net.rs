//! Socket questions and plain transfers that bypass libc. Owns: the address form used across the project.

use crate::header::{Head, Piece};
use crate::raw::{Errno, nr, syscall};
use crate::{Result, check};
use core::cell::Cell;
use core::mem::MaybeUninit;

/// `SOL_SOCKET` and its options (`asm-generic/socket.h`).
#[allow(missing_docs)]
pub mod opt {
    pub const SOL_SOCKET: i32 = 1;
    pub const SO_TYPE: i32 = 3;
    /// A value of SO_TYPE.
    pub const SOCK_STREAM: i32 = 1;
    pub const SO_ERROR: i32 = 4;
    pub const SO_SNDBUF: i32 = 7;
    pub const SO_RCVBUF: i32 = 8;
    pub const SO_OOBINLINE: i32 = 10;
    pub const SO_SNDBUFFORCE: i32 = 32;
    pub const SO_RCVBUFFORCE: i32 = 33;
    pub const SO_LINGER: i32 = 13;
    pub const SO_RCVLOWAT: i32 = 18;
    pub const SO_RCVTIMEO: i32 = 20;
    pub const SO_SNDTIMEO: i32 = 21;
    /// The same with 64-bit seconds, where a libc uses them.
    pub const SO_RCVTIMEO_NEW: i32 = 66;
    pub const SO_SNDTIMEO_NEW: i32 = 67;
    pub const SO_ACCEPTCONN: i32 = 30;
    pub const SO_PEEK_OFF: i32 = 42;
    pub const SO_PROTOCOL: i32 = 38;
    pub const SO_DOMAIN: i32 = 39;
    pub const SO_COOKIE: i32 = 57;
    pub const SO_BINDTODEVICE: i32 = 25;
    pub const SO_ZEROCOPY: i32 = 60;
    pub const SO_BINDTOIFINDEX: i32 = 62;
    pub const SO_NETNS_COOKIE: i32 = 71;
    /// Times of arrival with each message, in either layout of the time (asm-generic/socket.h).
    pub const SO_TIMESTAMPS: [i32; 6] = [29, 35, 37, 63, 64, 65];
    pub const IPPROTO_TCP: i32 = 6;
    pub const TCP_DEFER_ACCEPT: i32 = 9;
    pub const TCP_INFO: i32 = 11;
    pub const TCP_FASTOPEN: i32 = 23;
    pub const TCP_FASTOPEN_CONNECT: i32 = 30;
    pub const TCP_ULP: i32 = 31;
    pub const TCP_MD5SIG_EXT: i32 = 32;
    pub const TCP_ZEROCOPY_RECEIVE: i32 = 35;
    pub const TCP_INQ: i32 = 36;
    pub const TCP_AO_ADD_KEY: i32 = 38;
    pub const TCP_NODELAY: i32 = 1;
    pub const TCP_CORK: i32 = 3;
    pub const TCP_MD5SIG: i32 = 14;
    pub const TCP_REPAIR: i32 = 19;
}

/// `MSG_*` flags (`linux/socket.h`).
#[allow(missing_docs)]
pub mod msg {
    pub const OOB: i32 = 0x1;
    pub const PEEK: i32 = 0x2;
    pub const TRUNC: i32 = 0x20;
    pub const DONTWAIT: i32 = 0x40;
    pub const WAITALL: i32 = 0x100;
    pub const NOSIGNAL: i32 = 0x4000;
    pub const MORE: i32 = 0x8000;
    pub const ERRQUEUE: i32 = 0x2000;
    pub const FASTOPEN: i32 = 0x2000_0000;
    pub const ZEROCOPY: i32 = 0x400_0000;
}

/// IPv4 (`AF_INET`).
pub const AF_INET: u16 = 2;
/// IPv6 (`AF_INET6`).
pub const AF_INET6: u16 = 10;

/// An IP address and port, in the order the kernel keeps them: network byte order for the address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Endpoint {
    /// `AF_INET` or `AF_INET6`; anything else is not ours.
    pub family: u16,
    /// Port in host byte order.
    pub port: u16,
    /// IPv6 scope id, 0 for IPv4.
    pub scope: u32,
    /// Address bytes; IPv4 uses the first four.
    pub addr: [u8; 16],
}

impl Endpoint {
    /// As three words, for memory that has nothing else.
    pub fn to_words(self) -> [u64; 3] {
        let addr = u128::from_le_bytes(self.addr);
        let head = u64::from(self.family) << 48 | u64::from(self.port) << 32 | u64::from(self.scope);
        [head, addr as u64, (addr >> 64) as u64]
    }

    /// The other way.
    pub fn from_words([head, low, high]: [u64; 3]) -> Self {
        Endpoint {
            family: (head >> 48) as u16,
            port: (head >> 32) as u16,
            scope: head as u32,
            addr: (u128::from(high) << 64 | u128::from(low)).to_le_bytes(),
        }
    }
}

/// `struct sockaddr_in6`, which also holds a `sockaddr_in`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawAddr {
    family: u16,
    port_be: [u8; 2],
    /// IPv4 address, or IPv6 flow label.
    v4: [u8; 4],
    v6: [u8; 16],
    scope: u32,
}

impl Endpoint {
    /// Reads a `sockaddr` that a program passed. `None` for other families and short buffers.
    ///
    /// # Safety
    /// `at` is readable for `len` bytes.
    pub unsafe fn from_sockaddr(at: *const u8, len: usize) -> Option<Self> {
        if at.is_null() || len < 8 {
            return None;
        }
        let mut raw = RawAddr::default();
        // SAFETY: the caller vouches for the source; the destination is a plain struct of at least that size.
        unsafe { core::ptr::copy_nonoverlapping(at, (&raw mut raw).cast(), len.min(size_of::<RawAddr>())) };
        Self::from_raw(&raw, len)
    }

    fn from_raw(raw: &RawAddr, len: usize) -> Option<Self> {
        let port = u16::from_be_bytes(raw.port_be);
        match raw.family {
            AF_INET => {
                let mut addr = [0; 16];
                addr[..4].copy_from_slice(&raw.v4);
                Some(Endpoint { family: AF_INET, port, scope: 0, addr })
            }
            AF_INET6 if len >= 24 => {
                Some(Endpoint { family: AF_INET6, port, scope: raw.scope, addr: raw.v6 })
            }
            _ => None,
        }
    }

    /// Turns an IPv4-mapped IPv6 endpoint into the IPv4 one it stands for.
    pub fn unmapped(self) -> Self {
        let is_mapped =
            self.family == AF_INET6 && self.addr[..12] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
        if !is_mapped {
            return self;
        }
        let mut addr = [0; 16];
        addr[..4].copy_from_slice(&self.addr[12..]);
        Endpoint { family: AF_INET, port: self.port, scope: 0, addr }
    }

    /// The address with the wildcard replaced by loopback, as connect(2) does.
    pub fn connectable(self) -> Self {
        let mut endpoint = self.unmapped();
        if endpoint.addr == [0; 16] {
            match endpoint.family {
                AF_INET => endpoint.addr[..4].copy_from_slice(&[127, 0, 0, 1]),
                _ => endpoint.addr[15] = 1,
            }
        }
        endpoint
    }
}

fn name(fd: i32, call: u32) -> Result<Endpoint> {
    let mut raw = RawAddr::default();
    let mut len = size_of::<RawAddr>() as u32;
    // SAFETY: `raw` is writable for `len` bytes.
    check(unsafe { syscall!(call, fd, &raw mut raw, &raw mut len) })?;
    Endpoint::from_raw(&raw, len as usize).ok_or(Errno::EINVAL)
}

/// Local address of a socket.
pub fn local(fd: i32) -> Result<Endpoint> {
    name(fd, nr::__NR_getsockname)
}

/// Peer address of a connected socket.
pub fn peer(fd: i32) -> Result<Endpoint> {
    name(fd, nr::__NR_getpeername)
}

/// Reads a socket option of plain integers into `value`; returns the length written.
pub fn getsockopt<T: Copy>(fd: i32, level: i32, name: i32, value: &mut T) -> Result<usize> {
    let mut len = size_of::<T>() as u32;
    // SAFETY: `value` is writable for `len` bytes; only integer structs are asked for here.
    check(unsafe {
        syscall!(nr::__NR_getsockopt, fd, level, name, core::ptr::from_mut(value), &raw mut len)
    })?;
    Ok(len as usize)
}

/// Sets a socket option.
pub fn setsockopt<T: Copy>(fd: i32, level: i32, name: i32, value: &T) -> Result<()> {
    // SAFETY: `value` is readable for its size.
    check(unsafe {
        syscall!(nr::__NR_setsockopt, fd, level, name, core::ptr::from_ref(value), size_of::<T>())
    })
    .map(drop)
}

/// The kernel-wide unique number of a socket (`SO_COOKIE`), the same in every process that shares it.
pub fn cookie(fd: i32) -> Result<u64> {
    let mut value = 0u64;
    getsockopt(fd, opt::SOL_SOCKET, opt::SO_COOKIE, &mut value).map(|_| value)
}

/// The kernel-wide unique number of a socket's network namespace (`SO_NETNS_COOKIE`); 0 before Linux 5.14,
/// which tells none.
pub fn namespace(fd: i32) -> u64 {
    let mut value = 0u64;
    getsockopt(fd, opt::SOL_SOCKET, opt::SO_NETNS_COOKIE, &mut value).map_or(0, |_| value)
}

fn int_option(fd: i32, name: i32) -> i32 {
    if crate::confined::is_confined() {
        return -1;
    }
    let mut value = 0i32;
    getsockopt(fd, opt::SOL_SOCKET, name, &mut value).map_or(-1, |_| value)
}

/// Whether the peer has ended its stream, by the state of the connection: our own shutdown for reading looks
/// the same to poll. (`false` behind a filter of calls, where it may not be asked.)
pub fn has_received_fin(fd: i32) -> bool {
    /// `tcp_states.h`: TIME_WAIT, CLOSE, CLOSE_WAIT, LAST_ACK, CLOSING.
    const ENDED: [u8; 5] = [6, 7, 8, 9, 11];
    let mut state = 0u8;
    !crate::confined::is_confined()
        && getsockopt(fd, opt::IPPROTO_TCP, opt::TCP_INFO, &mut state).is_ok()
        && ENDED.contains(&state)
}

/// Takes the pending error off a socket, if there is one.
pub fn take_error(fd: i32) -> Option<Errno> {
    match int_option(fd, opt::SO_ERROR) {
        ..=0 => None,
        errno => Some(Errno(errno)),
    }
}

/// Whether `fd` is a TCP stream socket over IPv4 or IPv6.
pub fn is_tcp(fd: i32) -> bool {
    // The number 6 is also a raw socket's and netlink's, which are no streams.
    has_protocol_of_tcp(fd) && int_option(fd, opt::SO_TYPE) == opt::SOCK_STREAM
}

/// The same of a socket that has told of itself as TCP's do ([`is_unconnected_tcp`]), and as MPTCP's do, too.
pub fn has_protocol_of_tcp(fd: i32) -> bool {
    int_option(fd, opt::SO_PROTOCOL) == opt::IPPROTO_TCP
}

/// Whether `fd` is a TCP socket that is not connected yet, and not about to be.
pub fn is_unconnected_tcp(fd: i32) -> bool {
    const TCP_INFO: i32 = 11;
    const CLOSE: u8 = 7;
    if crate::confined::is_confined() {
        return false;
    }
    let mut state = 0u8;
    match getsockopt(fd, opt::IPPROTO_TCP, TCP_INFO, &mut state) {
        Ok(_) => state == CLOSE,
        // Other sockets do not know the option.
        Err(_) => is_tcp(fd),
    }
}

/// Whether `fd` is a listening socket.
pub fn is_listening(fd: i32) -> bool {
    int_option(fd, opt::SO_ACCEPTCONN) == 1
}

/// The index of the device that the socket is bound to (SO_BINDTODEVICE, SO_BINDTOIFINDEX), 0 for none.
pub fn bound_device(fd: i32) -> i32 {
    int_option(fd, opt::SO_BINDTOIFINDEX).max(0)
}

/// `TCP_DEFER_ACCEPT` in seconds as the kernel rounds them, 0 if it is off.
pub fn deferral(fd: i32) -> i32 {
    let mut seconds = 0i32;
    getsockopt(fd, opt::IPPROTO_TCP, opt::TCP_DEFER_ACCEPT, &mut seconds).map_or(0, |_| seconds)
}

/// Sets `TCP_DEFER_ACCEPT`.
pub fn set_deferral(fd: i32, seconds: i32) -> Result<()> {
    setsockopt(fd, opt::IPPROTO_TCP, opt::TCP_DEFER_ACCEPT, &seconds)
}

/// The loopback device's index in every network namespace: local connections arrive by it, whatever their
/// address.
pub const LOOPBACK: u32 = 1;

/// `SO_RCVLOWAT`, at least 1.
pub fn rcvlowat(fd: i32) -> u32 {
    int_option(fd, opt::SO_RCVLOWAT).max(1) as u32
}

/// Has the kernel take `bytes` for a socket that nobody reads, as its autotuning does once a stream was read:
/// a buffer grows with SO_RCVLOWAT, and stays (`tcp_set_rcvlowat`, since Linux 4.18; to half of tcp_rmem's
/// limit, and not where the program has set SO_RCVBUF). Not where the program has set SO_RCVLOWAT.
pub fn grow_receive_buffer(fd: i32, bytes: i32) {
    if !crate::confined::is_confined() && int_option(fd, opt::SO_RCVLOWAT) == 1 {
        for least in [bytes, 1] {
            let _ = setsockopt(fd, opt::SOL_SOCKET, opt::SO_RCVLOWAT, &least);
        }
    }
}

/// Whether `TCP_CORK` is on.
pub fn is_corked(fd: i32) -> bool {
    let mut on = 0i32;
    getsockopt(fd, opt::IPPROTO_TCP, opt::TCP_CORK, &mut on).is_ok() && on != 0
}

/// Whether `SO_ZEROCOPY` is on.
pub fn sends_without_copy(fd: i32) -> bool {
    int_option(fd, opt::SO_ZEROCOPY) > 0
}

/// Whether `TCP_INQ` is on.
pub fn tells_queue(fd: i32) -> bool {
    let mut on = 0i32;
    getsockopt(fd, opt::IPPROTO_TCP, opt::TCP_INQ, &mut on).is_ok() && on != 0
}

/// `SO_PEEK_OFF`, where it is set.
pub fn peek_offset(fd: i32) -> Option<usize> {
    let mut offset = -1i32;
    getsockopt(fd, opt::SOL_SOCKET, opt::SO_PEEK_OFF, &mut offset).ok()?;
    usize::try_from(offset).ok()
}

/// Sets `SO_PEEK_OFF`.
pub fn set_peek_offset(fd: i32, offset: usize) {
    let offset = i32::try_from(offset).unwrap_or(i32::MAX);
    let _ = setsockopt(fd, opt::SOL_SOCKET, opt::SO_PEEK_OFF, &offset);
}

/// `SO_SNDBUF` and `SO_RCVBUF` as the kernel reports them (doubled), 0 if unknown.
pub fn buffer_sizes(fd: i32) -> (u32, u32) {
    (int_option(fd, opt::SO_SNDBUF).max(0) as u32, int_option(fd, opt::SO_RCVBUF).max(0) as u32)
}

/// `SO_RCVTIMEO` or `SO_SNDTIMEO` in nanoseconds; 0 means none.
pub fn timeout_ns(fd: i32, name: i32) -> u64 {
    let mut time = [0i64; 2];
    match getsockopt(fd, opt::SOL_SOCKET, name, &mut time) {
        Ok(_) => nanoseconds(time),
        Err(_) => 0,
    }
}

/// A `struct timeval` in nanoseconds, or as many as there are.
pub fn nanoseconds([seconds, micros]: [i64; 2]) -> u64 {
    (seconds.max(0) as u64).saturating_mul(1_000_000_000).saturating_add(micros.max(0) as u64 * 1000)
}

/// Makes the next close of `fd` send a reset instead of FIN; not behind a filter of calls.
pub fn reset_on_close(fd: i32) {
    if crate::confined::is_confined() {
        return;
    }
    let _ = setsockopt(fd, opt::SOL_SOCKET, opt::SO_LINGER, &[1i32, 0i32]);
}

/// `SO_LINGER` in seconds; `None` where close() does not wait.
pub fn linger_seconds(fd: i32) -> Option<i32> {
    let mut linger = [0i32; 2];
    getsockopt(fd, opt::SOL_SOCKET, opt::SO_LINGER, &mut linger).ok()?;
    (linger[0] != 0 && linger[1] > 0).then_some(linger[1])
}

/// recvfrom(2) without an address.
///
/// # Safety
/// `buf` is writable for `len` bytes.
pub unsafe fn recv(fd: i32, buf: *mut u8, len: usize, flags: i32) -> Result<usize> {
    // SAFETY: the caller vouches for the buffer.
    check(unsafe { syscall!(nr::__NR_recvfrom, fd, buf, len, flags, 0, 0) })
}

/// sendto(2) without an address.
///
/// # Safety
/// `buf` is readable for `len` bytes.
pub unsafe fn send(fd: i32, buf: *const u8, len: usize, flags: i32) -> Result<usize> {
    // SAFETY: the caller vouches for the buffer.
    check(unsafe { syscall!(nr::__NR_sendto, fd, buf, len, flags, 0, 0) })
}

/// What the TCP stream itself has for a reader right now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TcpInput {
    /// Nothing, and the stream is open.
    Quiet,
    /// At least one byte.
    Data,
    /// End of stream, or an error the next real call will report.
    Ended,
}

/// Looks at the TCP stream without taking anything, not even a pending error.
pub fn tcp_input(fd: i32) -> TcpInput {
    use crate::raw_poll::bits;
    let mut one = [crate::raw_poll::PollFd { fd, events: bits::IN | bits::RDHUP, revents: 0 }];
    // (Where the descriptor limit is zero poll is refused, and only the stream itself can be asked.)
    if crate::raw_poll::wait_raw(&mut one, 0) != Err(Errno::EINVAL) {
        let ready = one[0].revents;
        // (An error alone may be a message in the error queue.)
        if ready & bits::HUP != 0 {
            return TcpInput::Ended;
        }
        if ready & bits::IN == 0 {
            return TcpInput::Quiet;
        }
    }
    if crate::confined::is_confined() {
        return if one[0].revents & bits::RDHUP != 0 { TcpInput::Ended } else { TcpInput::Data };
    }
    // (A look at an ended stream would take the error of a reset that comes in this moment.)
    if one[0].revents & bits::RDHUP != 0 {
        return if readable_bytes(fd) > 0 { TcpInput::Data } else { TcpInput::Ended };
    }
    let mut byte = 0u8;
    // SAFETY: one writable byte.
    match unsafe { recv(fd, &raw mut byte, 1, msg::PEEK | msg::DONTWAIT) } {
        Err(Errno::EAGAIN) => TcpInput::Quiet,
        Ok(0) | Err(_) => TcpInput::Ended,
        Ok(_) => TcpInput::Data,
    }
}

/// The same of a stream of which poll(2) has just said POLLRDHUP: whether bytes come before its end.
pub fn has_bytes_before_end(fd: i32) -> bool {
    !crate::confined::is_confined() && readable_bytes(fd) > 0
}

/// Has TCP send what it holds back, even where it is corked: what setting TCP_NODELAY does besides (tcp(7)).
pub fn push(fd: i32) {
    let was_set = matches!(int_option_of(fd, opt::IPPROTO_TCP, opt::TCP_NODELAY), Ok(1));
    let _ = setsockopt(fd, opt::IPPROTO_TCP, opt::TCP_NODELAY, &1i32);
    if !was_set {
        let _ = setsockopt(fd, opt::IPPROTO_TCP, opt::TCP_NODELAY, &0i32);
    }
}

fn int_option_of(fd: i32, level: i32, name: i32) -> Result<i32> {
    let mut value = 0i32;
    getsockopt(fd, level, name, &mut value).map(|_| value)
}

/// FIONREAD of the TCP socket itself.
pub fn readable_bytes(fd: i32) -> usize {
    const FIONREAD: usize = 0x541B;
    let mut count = 0i32;
    // SAFETY: the request writes one int.
    unsafe { syscall!(nr::__NR_ioctl, fd, FIONREAD, &raw mut count) };
    count.max(0) as usize
}

/// SIOCOUTQ of the TCP socket itself.
pub fn queued_bytes(fd: i32) -> usize {
    const SIOCOUTQ: usize = 0x5411;
    let mut count = 0i32;
    // SAFETY: the request writes one int.
    unsafe { syscall!(nr::__NR_ioctl, fd, SIOCOUTQ, &raw mut count) };
    count.max(0) as usize
}

/// SIOCATMARK: whether the next byte is behind an urgent one, or is that. (Behind a filter nobody asks.)
pub fn is_at_mark(fd: i32) -> bool {
    const SIOCATMARK: usize = 0x8905;
    if crate::confined::is_confined() {
        return false;
    }
    let mut is_at = 0i32;
    // SAFETY: the request writes one int.
    unsafe { syscall!(nr::__NR_ioctl, fd, SIOCATMARK, &raw mut is_at) };
    is_at != 0
}

/// What setsockopt(2) of `option`, with a value of `len` bytes at that address of the program's, finds wrong
/// on a TCP socket of the same family that is not connected; `None` if nothing, or if nobody can be asked.
pub fn complaint(fd: i32, option: (i32, i32), value: usize, len: u32) -> Option<Errno> {
    const SOCK_STREAM_CLOEXEC: i32 = opt::SOCK_STREAM | 0o2000000;
    let domain = int_option(fd, opt::SO_DOMAIN);
    if domain < 0 || crate::confined::is_confined() {
        return None;
    }
    // SAFETY: integers alone.
    let made = check(unsafe { syscall!(nr::__NR_socket, domain, SOCK_STREAM_CLOEXEC, opt::IPPROTO_TCP) });
    let asked = made.ok()? as i32;
    // SAFETY: the kernel alone reads the value, and says what is wrong with its place.
    let told = check(unsafe { syscall!(nr::__NR_setsockopt, asked, option.0, option.1, value, len) });
    crate::fd::close(asked);
    told.err()
}

/// sendto(2) of a slice.
pub fn send_bytes(fd: i32, bytes: &[u8], flags: i32) -> Result<usize> {
    // SAFETY: a slice is readable for its length.
    unsafe { send(fd, bytes.as_ptr(), bytes.len(), flags) }
}

/// recvfrom(2) into memory that is vouched for. (What the next bytes are is read(2)'s to tell behind a filter
/// of calls, once they are there.)
pub fn receive(fd: i32, room: &[Cell<MaybeUninit<u8>>], flags: i32) -> Result<usize> {
    if flags == msg::DONTWAIT && crate::confined::is_confined() {
        return if crate::raw_poll::is_still(fd) { Err(Errno::EAGAIN) } else { read(fd, room) };
    }
    // SAFETY: cells may be written to through a shared reference, and the slice tells how many there are.
    unsafe { recv(fd, room.as_ptr().cast_mut().cast(), room.len(), flags) }
}

/// read(2) into memory that is vouched for.
fn read(fd: i32, room: &[Cell<MaybeUninit<u8>>]) -> Result<usize> {
    // SAFETY: as in `receive`.
    check(unsafe { syscall!(nr::__NR_read, fd, room.as_ptr(), room.len()) })
}

/// sendto(2) from memory that is vouched for.
pub fn transmit(fd: i32, bytes: &[Cell<MaybeUninit<u8>>], flags: i32) -> Result<usize> {
    // SAFETY: a slice is there for its length; the kernel alone reads it.
    unsafe { send(fd, bytes.as_ptr().cast(), bytes.len(), flags) }
}

/// So many pieces [`peek`] fills at most: beyond that a look shows less than there is, as it may.
pub const PEEKED_PIECES: usize = 16;

/// recvmsg(2) with MSG_PEEK, which does not wait: what is there fills one piece after the other.
pub fn peek<'a>(fd: i32, rooms: impl Iterator<Item = &'a [Cell<MaybeUninit<u8>>]>) -> Result<usize> {
    let mut pieces = [const { Piece { at: core::ptr::null_mut(), len: 0 } }; PEEKED_PIECES];
    let mut count = 0;
    for (piece, room) in pieces.iter_mut().zip(rooms) {
        *piece = Piece { at: room.as_ptr().cast_mut().cast(), len: room.len() };
        count += 1;
    }
    let mut head = Head {
        name: core::ptr::null(),
        name_len: 0,
        pieces: pieces.as_mut_ptr(),
        pieces_len: count,
        control: core::ptr::null_mut(),
        control_len: 0,
        flags: 0,
    };
    // SAFETY: cells may be written to through a shared reference, and each slice tells how many there are.
    check(unsafe { syscall!(nr::__NR_recvmsg, fd, &raw mut head, msg::PEEK | msg::DONTWAIT) })
}

/// Takes up to `len` bytes off the stream unseen, or counts them (MSG_PEEK).
pub fn discard(fd: i32, len: usize, flags: i32) -> Result<usize> {
    // SAFETY: with MSG_TRUNC a TCP socket writes to no buffer.
    unsafe { recv(fd, core::ptr::null_mut(), len, flags | msg::TRUNC) }
}

/// Resets the connection at once and leaves the descriptor open, as after a reset by the peer: the error
/// once, then the end. (connect to AF_UNSPEC; the shutdown behind it is refused, and says so to readers all
/// the same.)
pub fn abort(fd: i32) {
    const SHUT_RDWR: i32 = 2;
    if crate::confined::is_confined() {
        return;
    }
    let unspecified = RawAddr::default();
    // SAFETY: the address is readable for its size.
    unsafe { syscall!(nr::__NR_connect, fd, &raw const unspecified, size_of::<RawAddr>()) };
    // SAFETY: no pointers.
    unsafe { syscall!(nr::__NR_shutdown, fd, SHUT_RDWR) };
}
