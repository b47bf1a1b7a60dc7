//! sock_diag: which socket owns an address pair (`linux/inet_diag.h`, no privilege needed for an exact
//! look-up). Owns: the netlink socket, one per process, lent to one caller at a time without a lock; and that
//! no socket is asked about in another network namespace than its own, where the same addresses are others'.

use crate::net::{AF_INET6, Endpoint, LOOPBACK};
use crate::part::Part as _;
use crate::raw::{Errno, nr, syscall};
use crate::{Result, check};
use sync::{AtomicU64, Ordering};

const AF_NETLINK: u32 = 16;
const NETLINK_SOCK_DIAG: u32 = 4;
const SOCK_RAW: u32 = 3;
const SOCK_CLOEXEC: u32 = 0o2_000_000;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const NLMSG_ERROR: u16 = 2;

/// `struct inet_diag_sockid`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct SockId {
    sport_be: [u8; 2],
    dport_be: [u8; 2],
    src: [u8; 16],
    dst: [u8; 16],
    interface: u32,
    cookie: [u32; 2],
}

/// `struct nlmsghdr` and `struct inet_diag_req_v2`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Request {
    len: u32,
    kind: u16,
    flags: u16,
    sequence: u32,
    port: u32,
    family: u8,
    protocol: u8,
    extensions: u8,
    pad: u8,
    states: u32,
    id: SockId,
}

/// `struct nlmsghdr` and `struct inet_diag_msg`, or `nlmsgerr` in the same place.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Answer {
    len: u32,
    kind: u16,
    flags: u16,
    sequence: u32,
    port: u32,
    family_state_timer_retrans: [u8; 4],
    id: SockId,
    expires: u32,
    rqueue: u32,
    wqueue: u32,
    uid: u32,
    inode: u32,
}

/// A socket as the kernel knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// `SO_COOKIE` of the socket.
    pub cookie: u64,
    /// Its owner.
    pub uid: u32,
    /// Its inode; 0 once no descriptor refers to it (FIN_WAIT, TIME_WAIT).
    pub inode: u32,
    /// TCP state (`net/tcp_states.h`): 1 established, 8 close-wait, 10 listen.
    pub state: u8,
}

/// What a process keeps between look-ups.
pub(crate) struct Cached {
    /// The netlink descriptor with the pid that opened it: `pid << 32 | fd + 1`; 0 while lent or absent.
    socket: AtomicU64,
    /// The namespace that is asked, which the first descriptor had; 0 before that, and where the kernel tells
    /// none. A thread of another one (setns, unshare) asks nothing.
    namespace: AtomicU64,
}

impl Cached {
    pub(crate) const fn new() -> Self {
        Cached { socket: AtomicU64::new(0), namespace: AtomicU64::new(0) }
    }

    fn is_its(&self, namespace: u64) -> bool {
        match self.namespace.compare_exchange(0, namespace, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(known) => known == namespace,
        }
    }
}

/// `beside`: the socket that is to be asked about, whose namespace becomes this process's if none is yet.
fn borrow_socket(beside: Option<i32>) -> Result<i32> {
    let cached = Cached::here().socket.swap(0, Ordering::AcqRel);
    if cached != 0 {
        let fd = (cached as u32) as i32 - 1;
        // (A vfork child has the parent's memory and a copy of its descriptors: it asks while the parent
        // waits.)
        if (cached >> 32) as u32 == crate::process::cached_pid() {
            return Ok(fd);
        }
        // Inherited by fork: the parent's answers would come to us.
        crate::fd::close(fd);
    }
    // SAFETY: socket(2) with integers.
    let fd =
        check(unsafe { syscall!(nr::__NR_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG) })?;
    let namespace = crate::net::namespace(fd as i32);
    let is_theirs = beside.is_none_or(|socket| crate::net::namespace(socket) == namespace);
    if !is_theirs || !Cached::here().is_its(namespace) {
        crate::fd::close(fd as i32);
        return Err(Errno::EXDEV);
    }
    // (Where no number of the program's is to be ours, it is for one question only.)
    Ok(crate::fd::raise_if_room(fd as i32).unwrap_or(fd as i32))
}

fn return_socket(fd: i32) {
    if !crate::fd::is_internal(fd) {
        return crate::fd::close(fd);
    }
    let word = u64::from(crate::process::cached_pid()) << 32 | (fd + 1) as u64;
    if Cached::here().socket.compare_exchange(0, word, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        crate::fd::close(fd);
    }
}

/// Closes the descriptor kept between look-ups: a socket keeps some of the rights of whoever opened it.
pub fn forget() {
    let word = Cached::here().socket.swap(0, Ordering::AcqRel) as u32;
    if word != 0 {
        crate::fd::close(word as i32 - 1);
    }
}

/// The descriptor kept between look-ups, so that close loops can spare it.
pub fn cached_fd() -> Option<i32> {
    match Cached::here().socket.load(Ordering::Relaxed) as u32 {
        0 => None,
        word => Some(word as i32 - 1),
    }
}

/// Whether the socket `fd` is of the network namespace that this process asks about. (Before the first
/// question none is known, and any may become it.)
pub fn is_asked_about(fd: i32) -> bool {
    let known = Cached::here().namespace.load(Ordering::Acquire);
    known == 0 || known == crate::net::namespace(fd)
}

/// As [`lookup`], about the network namespace of the socket `fd`. EXDEV if that is not asked about here.
pub fn lookup_beside(fd: i32, local: Endpoint, remote: Endpoint) -> Result<Found> {
    let asked = borrow_socket(Some(fd))?;
    match is_asked_about(fd) {
        true => look_up_by(asked, local, remote),
        false => {
            return_socket(asked);
            Err(Errno::EXDEV)
        }
    }
}

/// Finds the TCP socket whose local end is `local` and remote end is `remote`, or the listener that would
/// take a connection from `remote` to `local` if there is none, in the network namespace of this process's
/// first question. ENOENT if neither exists there; EXDEV if this thread is in another one.
pub fn lookup(local: Endpoint, remote: Endpoint) -> Result<Found> {
    look_up_by(borrow_socket(None)?, local, remote)
}

fn look_up_by(fd: i32, local: Endpoint, remote: Endpoint) -> Result<Found> {
    let found = ask(fd, local, remote);
    match found {
        // A reply may still be on its way after any other error: the descriptor is not reused.
        Ok(_) | Err(Errno::ENOENT) => return_socket(fd),
        Err(_) => crate::fd::close(fd),
    }
    found
}

fn ask(fd: i32, local: Endpoint, remote: Endpoint) -> Result<Found> {
    let request = Request {
        len: size_of::<Request>() as u32,
        kind: SOCK_DIAG_BY_FAMILY,
        flags: NLM_F_REQUEST,
        sequence: 1,
        family: local.family as u8,
        protocol: 6,
        states: u32::MAX,
        id: SockId {
            sport_be: local.port.to_be_bytes(),
            dport_be: remote.port.to_be_bytes(),
            src: local.addr,
            dst: remote.addr,
            // Where a local connection arrives: so sockets bound to that device are found as well as those
            // bound to none.
            interface: if local.family == AF_INET6 && remote.scope != 0 { remote.scope } else { LOOPBACK },
            cookie: [u32::MAX; 2],
        },
        ..Request::default()
    };
    // SAFETY: the request is readable for its size.
    check(unsafe { syscall!(nr::__NR_sendto, fd, &raw const request, size_of::<Request>(), 0, 0, 0) })?;
    let mut answer = Answer::default();
    // SAFETY: the answer is writable for its size; longer messages are cut by the kernel.
    let got =
        check(unsafe { syscall!(nr::__NR_recvfrom, fd, &raw mut answer, size_of::<Answer>(), 0, 0, 0) })?;
    let found = read_answer(&answer, got)?;
    // An answer to somebody else's question, should the descriptor have got about. (A socket that is being
    // closed has given its port back some microseconds before the kernel ceases to find it by that.)
    let is_ours = match answer.id.sport_be {
        [0, 0] => answer.id.dport_be == request.id.dport_be,
        port => port == request.id.sport_be,
    };
    if is_ours { Ok(found) } else { Err(Errno::EINVAL) }
}

fn read_answer(answer: &Answer, got: usize) -> Result<Found> {
    if answer.kind == NLMSG_ERROR {
        // The error number sits right behind the header.
        let code = i32::from_ne_bytes(answer.family_state_timer_retrans);
        return Err(if code == 0 { Errno::EINVAL } else { Errno(-code) });
    }
    if answer.kind != SOCK_DIAG_BY_FAMILY || got < size_of::<Answer>() {
        return Err(Errno::EINVAL);
    }
    Ok(Found {
        cookie: u64::from(answer.id.cookie[1]) << 32 | u64::from(answer.id.cookie[0]),
        uid: answer.uid,
        inode: answer.inode,
        state: answer.family_state_timer_retrans[1],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    fn found_for(address: &str) {
        let listener = TcpListener::bind(address).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        let at_server = crate::net::local(server.as_raw_fd()).unwrap();
        let at_client = crate::net::peer(server.as_raw_fd()).unwrap();
        let found = lookup(at_client, at_server).unwrap();
        assert_eq!(Ok(found.cookie), crate::net::cookie(client.as_raw_fd()));
        assert_eq!(found.uid, crate::process::euid());
        let nobody = Endpoint { port: 1, addr: [0; 16], ..at_client };
        let owner = lookup(at_server, nobody).unwrap();
        assert_eq!(Ok(owner.cookie), crate::net::cookie(listener.as_raw_fd()));
        assert_eq!(owner.state, 10);
    }

    #[test]
    fn both_ends_and_the_listener_are_found_over_ipv4() {
        found_for("127.0.0.1:0");
    }

    #[test]
    fn both_ends_and_the_listener_are_found_over_ipv6() {
        if std::path::Path::new("/proc/net/if_inet6").exists() {
            found_for("[::1]:0");
        }
    }

    #[test]
    fn a_socket_that_is_being_closed_is_itself_or_none() {
        /// The kernel answers one of some hundred questions in the moment in question.
        const SOCKETS: usize = 1_000;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        for _ in 0..SOCKETS {
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (server, _) = listener.accept().unwrap();
            let at_server = crate::net::local(server.as_raw_fd()).unwrap();
            let at_client = crate::net::peer(server.as_raw_fd()).unwrap();
            let cookie = crate::net::cookie(client.as_raw_fd()).unwrap();
            // It closes second, and leaves nothing in the kernel's table.
            server.shutdown(std::net::Shutdown::Write).unwrap();
            let asks = std::sync::Barrier::new(2);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    asks.wait();
                    drop(client);
                });
                asks.wait();
                while let Some(found) = match lookup(at_client, at_server) {
                    Err(Errno::ENOENT) => None,
                    asked => Some(asked.unwrap()),
                } {
                    assert_eq!(found.cookie, cookie);
                }
            });
        }
    }

    #[test]
    fn an_address_without_a_socket_is_enoent() {
        let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let at = Endpoint {
            family: 2,
            port: unused,
            scope: 0,
            addr: [127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        };
        assert_eq!(lookup(at, Endpoint { port: 1, addr: [0; 16], ..at }), Err(Errno::ENOENT));
    }
}
