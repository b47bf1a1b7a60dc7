//! Socket lifecycle: create, connect, accept, options, shutdown, close and the dup family. Loopback only.

use super::{Fd, Ret, ret32};
use libc::{c_int, c_void, socklen_t};
use std::mem::zeroed;

/// The addresses a run of the tests uses: `$PARITY_FAMILY` is 4 (the default), 6, or dual (listeners on IPv6
/// that also take the IPv4 connections the clients make).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    V4,
    V6,
    Dual,
}

fn family() -> Family {
    static FAMILY: std::sync::OnceLock<Family> = std::sync::OnceLock::new();
    *FAMILY.get_or_init(|| match std::env::var("PARITY_FAMILY").as_deref() {
        Ok("6") => Family::V6,
        Ok("dual") => Family::Dual,
        _ => Family::V4,
    })
}

/// An address as bytes: large enough for both families.
struct Address {
    bytes: [u8; 28],
    len: socklen_t,
}

impl Address {
    fn v4(ip: [u8; 4], port: u16) -> Address {
        let mut bytes = [0; 28];
        bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        bytes[2..4].copy_from_slice(&port.to_be_bytes());
        bytes[4..8].copy_from_slice(&ip);
        Address { bytes, len: 16 }
    }

    fn v6(last: u8, port: u16) -> Address {
        let mut bytes = [0; 28];
        bytes[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
        bytes[2..4].copy_from_slice(&port.to_be_bytes());
        bytes[23] = last;
        Address { bytes, len: 28 }
    }

    /// An IPv4 address, as a socket of IPv6 names it.
    fn mapped(ip: [u8; 4], port: u16) -> Address {
        let mut address = Address::v6(0, port);
        address.bytes[18..20].fill(0xff);
        address.bytes[20..24].copy_from_slice(&ip);
        address
    }

    /// Loopback as a client names it.
    fn remote(port: u16) -> Address {
        if family() == Family::V6 { Address::v6(1, port) } else { Address::v4([127, 0, 0, 1], port) }
    }

    /// Loopback as a listener binds it; `::` takes both families.
    fn local(port: u16) -> Address {
        if family() == Family::Dual { Address::v6(0, port) } else { Address::remote(port) }
    }

    fn ptr(&self) -> *const libc::sockaddr {
        self.bytes.as_ptr().cast()
    }
}

/// `socket(domain, SOCK_STREAM | flags, 0)`.
pub fn socket(domain: c_int, flags: c_int) -> Fd {
    // SAFETY: no pointers.
    unsafe { libc::socket(domain, libc::SOCK_STREAM | flags, 0) }
}

/// A TCP socket for connecting: `socket(.., SOCK_STREAM | flags, 0)`.
pub fn tcp(flags: c_int) -> Fd {
    socket(if family() == Family::V6 { libc::AF_INET6 } else { libc::AF_INET }, flags)
}

/// An MPTCP socket, where the kernel has such.
pub fn multipath() -> Ret {
    const IPPROTO_MPTCP: c_int = 262;
    let domain = if family() == Family::V4 { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: integers alone.
    ret32(unsafe { libc::socket(domain, libc::SOCK_STREAM, IPPROTO_MPTCP) })
}

/// A TCP socket for listening.
pub fn tcp_listener(flags: c_int) -> Fd {
    socket(if family() == Family::V4 { libc::AF_INET } else { libc::AF_INET6 }, flags)
}

fn connect_address(fd: Fd, a: &Address) -> Ret {
    // SAFETY: address and length match.
    ret32(unsafe { libc::connect(fd, a.ptr(), a.len) })
}

/// `connect(2)` to loopback at `port`. (What a listener on IPv6 has accepted goes back to IPv4 by a mapped
/// address.)
pub fn connect(fd: Fd, port: u16) -> Ret {
    let is_six = || getopt(fd, libc::SOL_SOCKET, libc::SO_DOMAIN) == Ok(libc::AF_INET6);
    if family() == Family::Dual && is_six() {
        return connect_address(fd, &Address::mapped([127, 0, 0, 1], port));
    }
    connect_address(fd, &Address::remote(port))
}

/// `connect(2)` of an IPv4 socket to `ip`:`port`.
pub fn connect_v4(fd: Fd, ip: [u8; 4], port: u16) -> Ret {
    connect_address(fd, &Address::v4(ip, port))
}

/// `connect(2)` with an address of `len` bytes, of `family` if it is none of its own.
pub fn connect_oddly(fd: Fd, port: u16, family: Option<u16>, len: u32) -> Ret {
    let mut address = [0u8; 256];
    let usual = Address::remote(port);
    address[..28].copy_from_slice(&usual.bytes);
    if let Some(family) = family {
        address[..2].copy_from_slice(&family.to_ne_bytes());
    }
    // SAFETY: the kernel takes no address that is longer than the buffer.
    ret32(unsafe { libc::connect(fd, address.as_ptr().cast(), len) })
}

/// `connect(2)` with an address that is nowhere.
pub fn connect_to_nowhere(fd: Fd) -> Ret {
    // SAFETY: the kernel looks whether it is there.
    ret32(unsafe { libc::connect(fd, std::ptr::without_provenance(8), 16) })
}

/// `connect(2)` to AF_UNSPEC, which ends the connection and makes the socket fresh again.
pub fn disconnect(fd: Fd) -> Ret {
    connect_address(fd, &Address { bytes: [0; 28], len: 16 })
}

/// `sendto(2)` with MSG_FASTOPEN: connects to loopback at `port` and sends at once.
pub fn send_fastopen(fd: Fd, bytes: &[u8], port: u16) -> Ret {
    let a = Address::remote(port);
    // SAFETY: buffer, address and lengths match.
    let n =
        unsafe { libc::sendto(fd, bytes.as_ptr().cast(), bytes.len(), libc::MSG_FASTOPEN, a.ptr(), a.len) };
    super::ret(n)
}

/// `bind(2)` of a listening socket to loopback at `port`; 0 lets the kernel choose.
pub fn bind(fd: Fd, port: u16) -> Ret {
    bind_address(fd, &Address::local(port))
}

/// `bind(2)` of a connecting socket to loopback at `port`; 0 lets the kernel choose.
pub fn bind_client(fd: Fd, port: u16) -> Ret {
    bind_address(fd, &Address::remote(port))
}

/// `bind(2)` of an IPv4 socket to `ip`:`port`.
pub fn bind_v4(fd: Fd, ip: [u8; 4], port: u16) -> Ret {
    bind_address(fd, &Address::v4(ip, port))
}

fn bind_address(fd: Fd, a: &Address) -> Ret {
    // SAFETY: address and length match.
    ret32(unsafe { libc::bind(fd, a.ptr(), a.len) })
}

/// `listen(2)`.
pub fn listen(fd: Fd, backlog: c_int) -> Ret {
    // SAFETY: no pointers.
    ret32(unsafe { libc::listen(fd, backlog) })
}

/// `accept(2)`.
pub fn accept(fd: Fd) -> Ret {
    // SAFETY: null address is allowed.
    ret32(unsafe { libc::accept(fd, std::ptr::null_mut(), std::ptr::null_mut()) })
}

/// `accept4(2)`.
pub fn accept4(fd: Fd, flags: c_int) -> Ret {
    // SAFETY: null address is allowed.
    ret32(unsafe { libc::accept4(fd, std::ptr::null_mut(), std::ptr::null_mut(), flags) })
}

/// A bound, listening socket and its port.
pub fn listener() -> (Fd, u16) {
    let fd = tcp_listener(libc::SOCK_CLOEXEC);
    assert!(fd >= 0, "socket: {}", super::errno());
    setopt(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1).expect("SO_REUSEADDR");
    bind(fd, 0).expect("bind");
    listen(fd, 1024).expect("listen");
    (fd, port_of(fd))
}

fn name_of(fd: Fd, peer: bool) -> Result<u16, super::Errno> {
    let mut a = Address { bytes: [0; 28], len: 28 };
    let p = a.bytes.as_mut_ptr().cast();
    // SAFETY: address and length match and outlive the call.
    let r = unsafe {
        if peer { libc::getpeername(fd, p, &mut a.len) } else { libc::getsockname(fd, p, &mut a.len) }
    };
    ret32(r).map(|_| u16::from_be_bytes([a.bytes[2], a.bytes[3]]))
}

/// The local port.
pub fn port_of(fd: Fd) -> u16 {
    name_of(fd, false).unwrap_or(0)
}

/// The peer's port, or errno (ENOTCONN after a reset).
pub fn peer_port(fd: Fd) -> Ret {
    name_of(fd, true).map(usize::from)
}

/// `getsockopt(2)` of an int.
pub fn getopt(fd: Fd, level: c_int, name: c_int) -> Result<i32, super::Errno> {
    let mut v: c_int = -1;
    let mut len = size_of::<c_int>() as socklen_t;
    // SAFETY: value and length match and outlive the call.
    ret32(unsafe { libc::getsockopt(fd, level, name, (&raw mut v).cast(), &mut len) }).map(|_| v)
}

/// `setsockopt(2)` of any plain value.
fn set<T>(fd: Fd, level: c_int, name: c_int, v: &T) -> Ret {
    let len = size_of::<T>() as socklen_t;
    // SAFETY: value and length match and outlive the call.
    ret32(unsafe { libc::setsockopt(fd, level, name, std::ptr::from_ref(v).cast::<c_void>(), len) })
}

/// `setsockopt(2)` of an int.
pub fn setopt(fd: Fd, level: c_int, name: c_int, value: i32) -> Ret {
    set(fd, level, name, &value)
}

/// `setsockopt(2)` of bytes as they are.
pub fn setopt_bytes(fd: Fd, level: c_int, name: c_int, value: &[u8]) -> Ret {
    // SAFETY: value and length match and outlive the call.
    ret32(unsafe { libc::setsockopt(fd, level, name, value.as_ptr().cast(), value.len() as socklen_t) })
}

/// SO_RCVTIMEO or SO_SNDTIMEO in milliseconds.
pub fn set_timeout(fd: Fd, name: c_int, ms: i64) -> Ret {
    set(fd, libc::SOL_SOCKET, name, &libc::timeval { tv_sec: ms / 1000, tv_usec: (ms % 1000) * 1000 })
}

/// SO_LINGER.
pub fn set_linger(fd: Fd, on: bool, seconds: i32) -> Ret {
    set(fd, libc::SOL_SOCKET, libc::SO_LINGER, &libc::linger { l_onoff: on.into(), l_linger: seconds })
}

/// SO_ERROR, which a read clears.
pub fn so_error(fd: Fd) -> String {
    match getopt(fd, libc::SOL_SOCKET, libc::SO_ERROR) {
        Ok(0) => "0".into(),
        Ok(e) => super::Errno(e).to_string(),
        Err(e) => format!("getsockopt {e}"),
    }
}

/// `struct tcp_info` of linux/tcp.h, as far as the kernel has it.
fn tcp_info(fd: Fd) -> Option<([u8; 256], usize)> {
    let mut info = [0u8; 256];
    let mut len = info.len() as socklen_t;
    let p = info.as_mut_ptr().cast();
    // SAFETY: buffer and length match and outlive the call.
    ret32(unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, p, &mut len) }).ok()?;
    Some((info, len as usize))
}

/// Payload bytes the kernel's TCP carried on this connection: (received, acknowledged by the peer).
/// Near zero after megabytes have moved means shared memory carried them.
pub fn tcp_bytes(fd: Fd) -> Option<(u64, u64)> {
    let (info, len) = tcp_info(fd)?;
    // tcpi_bytes_acked is at offset 120 and tcpi_bytes_received at 128.
    let at = |o: usize| Some(u64::from_ne_bytes(info[o..o + 8].try_into().ok()?));
    if len < 136 { None } else { Some((at(128)?, at(120)?)) }
}

/// Segments with payload that the kernel's TCP has sent: tcpi_data_segs_out, at offset 156.
pub fn tcp_segments(fd: Fd) -> u32 {
    let count = |info: &[u8]| u32::from_ne_bytes([info[156], info[157], info[158], info[159]]);
    tcp_info(fd).filter(|(_, len)| *len >= 160).map_or(0, |(info, _)| count(&info))
}

/// Whether the peer has acknowledged all that the kernel's TCP was given: tcpi_unacked is at offset 24,
/// tcpi_notsent_bytes at 144.
pub fn is_tcp_acked(fd: Fd) -> bool {
    tcp_info(fd).is_none_or(|(info, _)| info[24..28] == [0; 4] && info[144..148] == [0; 4])
}

/// `tcpi_state` of TCP_INFO (1 is ESTABLISHED).
pub fn tcp_state(fd: Fd) -> i32 {
    tcp_info(fd).map_or(-1, |(info, _)| i32::from(info[0]))
}

/// `shutdown(2)`.
pub fn shutdown(fd: Fd, how: c_int) -> Ret {
    // SAFETY: no pointers.
    ret32(unsafe { libc::shutdown(fd, how) })
}

/// `close(2)`.
pub fn close(fd: Fd) -> Ret {
    // SAFETY: tests own the descriptors they close.
    ret32(unsafe { libc::close(fd) })
}

/// `syscall(SYS_close)`, as libuv closes.
pub fn close_raw(fd: Fd) -> Ret {
    // SAFETY: tests own the descriptors they close.
    super::ret(unsafe { libc::syscall(libc::SYS_close, fd) } as isize)
}

/// `close_range(2)`.
pub fn close_range(first: u32, last: u32, flags: c_int) -> Ret {
    // SAFETY: tests own the descriptors they close.
    ret32(unsafe { libc::close_range(first, last, flags) })
}

/// `dup(2)`.
pub fn dup(fd: Fd) -> Ret {
    // SAFETY: no pointers.
    ret32(unsafe { libc::dup(fd) })
}

/// `dup2(2)`.
pub fn dup2(fd: Fd, new: Fd) -> Ret {
    // SAFETY: tests own the descriptor they replace.
    ret32(unsafe { libc::dup2(fd, new) })
}

/// `dup3(2)`.
pub fn dup3(fd: Fd, new: Fd, flags: c_int) -> Ret {
    // SAFETY: tests own the descriptor they replace.
    ret32(unsafe { libc::dup3(fd, new, flags) })
}

/// `fcntl(2)` with an int argument.
pub fn fcntl(fd: Fd, cmd: c_int, arg: c_int) -> Ret {
    // SAFETY: only commands with an int argument are used.
    ret32(unsafe { libc::fcntl(fd, cmd, arg) })
}

/// Sets or clears O_NONBLOCK by `F_SETFL`.
pub fn nonblocking(fd: Fd, on: bool) {
    let old = fcntl(fd, libc::F_GETFL, 0).expect("F_GETFL") as c_int;
    let new = if on { old | libc::O_NONBLOCK } else { old & !libc::O_NONBLOCK };
    fcntl(fd, libc::F_SETFL, new).expect("F_SETFL");
}

/// `socketpair(AF_UNIX, SOCK_STREAM)`.
pub fn socketpair() -> (Fd, Fd) {
    let mut v = [-1; 2];
    // SAFETY: `v` has room for two descriptors.
    let r = unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, v.as_mut_ptr()) };
    assert!(r == 0, "socketpair: {}", super::errno());
    (v[0], v[1])
}

/// `lseek(2)` to 0, which a socket refuses.
pub fn lseek(fd: Fd) -> Ret {
    // SAFETY: no pointers.
    super::ret(unsafe { libc::lseek(fd, 0, libc::SEEK_SET) } as isize)
}

/// Whether `fstat(2)` calls the descriptor a socket.
pub fn is_socket(fd: Fd) -> bool {
    // SAFETY: an all-zero stat is valid and outlives the call.
    unsafe {
        let mut st: libc::stat = zeroed();
        libc::fstat(fd, &mut st) == 0 && st.st_mode & libc::S_IFMT == libc::S_IFSOCK
    }
}

/// SO_ATTACH_FILTER with a filter that lets no packet through.
pub fn drop_all_that_comes(fd: Fd) -> Ret {
    let mut program = [libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0 }];
    let filter = libc::sock_fprog { len: 1, filter: program.as_mut_ptr() };
    let len = size_of_val(&filter) as u32;
    // SAFETY: the program is a live local that the kernel copies.
    ret32(unsafe {
        libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, (&raw const filter).cast(), len)
    })
}
