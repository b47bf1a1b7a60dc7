//! Ways to look at a connection, and to wait for it. Invariant: what is told is what TCP decides: no sizes,
//! no ports.

use crate::script::Look;
use isthmus_tests::sys::{self, Fd, Select, Wait, bits, show, so_error};
use libc::{EPOLLIN, EPOLLOUT, EPOLLRDHUP, POLLIN, POLLOUT, POLLPRI, POLLRDHUP};

/// With a time to wait only what there is to read counts, without one what there is to write, too.
pub(crate) fn look(look: Look, fd: Fd, ms: i32) -> String {
    let events = if ms == 0 { POLLIN | POLLOUT | POLLPRI | POLLRDHUP } else { POLLIN | POLLRDHUP };
    let writing: &[Fd] = if ms == 0 { &[fd] } else { &[] };
    match look {
        Look::Poll => sys::poll1(fd, events, ms),
        Look::PollPrecise => {
            let (ret, bits_of) = sys::ppoll(&[(fd, events)], Some(ms as u64));
            format!("{} {}", show(ret), bits(bits_of[0] as u16 as u32))
        }
        Look::Select => sys::select(Select::Plain, &[fd], writing, &[fd], ms as u64),
        Look::SelectPrecise => sys::select(Select::Precise, &[fd], writing, &[], ms as u64),
        Look::OwnSet => own_set(fd, ms),
        Look::Unread => sys::queued(fd).to_string(),
        Look::Error => so_error(fd),
        Look::Flags => format!("{:?}", sys::fcntl(fd, libc::F_GETFL, 0)),
        Look::Names => format!("{} {}", sys::port_of(fd) > 0, show(sys::peer_port(fd).map(|_| 0))),
        Look::Options => options(fd),
    }
}

/// A set of its own, made for this once.
fn own_set(fd: Fd, ms: i32) -> String {
    let set = sys::epoll();
    let events = if ms == 0 { EPOLLIN | EPOLLOUT | EPOLLRDHUP } else { EPOLLIN | EPOLLRDHUP };
    let added = show(sys::ep_add(set, fd, events, 7));
    let told = sys::show_events(sys::ep_wait_by(Wait::Mask, set, 4, ms));
    let _ = sys::close(set);
    format!("{added} {told}")
}

fn options(fd: Fd) -> String {
    let socket = [libc::SO_TYPE, libc::SO_DOMAIN, libc::SO_PROTOCOL, libc::SO_ACCEPTCONN, libc::SO_KEEPALIVE];
    let told = socket.map(|name| format!("{:?}", sys::getopt(fd, libc::SOL_SOCKET, name)));
    format!("{} {:?}", told.join(" "), sys::getopt(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY))
}
