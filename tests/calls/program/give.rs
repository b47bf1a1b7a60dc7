//! Ways to send. Invariant: each says what its calls returned, and is over when it returns: nothing is held
//! back.

use crate::script::Give;
use isthmus_tests::sys::{self, Fd, show};
use libc::{IPPROTO_TCP, MSG_DONTWAIT, MSG_MORE, MSG_NOSIGNAL, TCP_CORK};

pub(crate) fn give(way: Give, fd: Fd, bytes: &[u8]) -> String {
    let (head, tail) = bytes.split_at(bytes.len() / 3);
    match way {
        Give::Write => show(sys::write(fd, bytes)),
        Give::Send => show(sys::send(fd, bytes, MSG_NOSIGNAL)),
        Give::DontWait => show(sys::send(fd, bytes, MSG_DONTWAIT | MSG_NOSIGNAL)),
        Give::SendTo => show(sys::sendto(fd, bytes, MSG_NOSIGNAL)),
        Give::Vector => show(sys::writev(fd, &[head, &[], tail])),
        Give::Message => show(sys::sendmsg(fd, &[head, tail], MSG_NOSIGNAL)),
        Give::Messages => {
            let (ret, lengths) = sys::sendmmsg(fd, &[head, tail], MSG_NOSIGNAL);
            format!("{} {lengths:?}", show(ret))
        }
        Give::More => {
            let first = show(sys::send(fd, head, MSG_MORE | MSG_NOSIGNAL));
            format!("{first} and {}", show(sys::send(fd, tail, MSG_NOSIGNAL)))
        }
        Give::Corked => corked(fd, head, tail),
        Give::File => {
            let file = sys::memfile(bytes);
            let told = show(sys::sendfile(fd, file, None, bytes.len()).0);
            let _ = sys::close(file);
            told
        }
        Give::Splice => splice(fd, bytes),
    }
}

fn corked(fd: Fd, head: &[u8], tail: &[u8]) -> String {
    let cork = |on| show(sys::setopt(fd, IPPROTO_TCP, TCP_CORK, on));
    let put = |bytes| show(sys::send(fd, bytes, MSG_NOSIGNAL));
    [cork(1), put(head), put(tail), cork(0)].join(" ")
}

/// All of it by way of a pipe, as much at a time as that takes.
fn splice(fd: Fd, bytes: &[u8]) -> String {
    let (from, to) = sys::pipe(0);
    let mut told = 0;
    for part in bytes.chunks(16 << 10) {
        assert_eq!(sys::write(to, part), Ok(part.len()));
        let mut left = part.len();
        while left > 0 {
            match sys::splice(from, fd, left, 0) {
                Ok(count @ 1..) => (left, told) = (left - count, told + count),
                other => return close_both(from, to, format!("{told} then {}", show(other))),
            }
        }
    }
    close_both(from, to, told.to_string())
}

fn close_both(from: Fd, to: Fd, told: String) -> String {
    let _ = (sys::close(from), sys::close(to));
    told
}
