//! Ways to receive. Invariant: each says what its calls returned, and whether the bytes are those that the
//! other end has sent at that offset.

use crate::bytes::Bytes;
use crate::script::Take;
use isthmus_tests::sys::{self, Fd, Ret, show};
use libc::{MSG_DONTWAIT, MSG_PEEK, MSG_TRUNC, MSG_WAITALL};

pub(crate) fn take(way: Take, fd: Fd, count: usize, bytes: &Bytes) -> String {
    let mut buf = vec![0; count];
    let ret = match way {
        Take::Read => sys::read(fd, &mut buf),
        Take::Receive => sys::recv(fd, &mut buf, 0),
        Take::DontWait => sys::recv(fd, &mut buf, MSG_DONTWAIT),
        Take::ReceiveFrom => sys::recvfrom(fd, &mut buf, 0).0,
        Take::Vector => {
            let (head, tail) = buf.split_at_mut(count / 3);
            sys::readv(fd, &mut [head, &mut [], tail])
        }
        Take::Message => {
            let (head, tail) = buf.split_at_mut(count / 2);
            sys::recvmsg(fd, &mut [head, tail], 0).0
        }
        Take::Messages => return messages(fd, &mut buf, bytes),
        Take::Peek => sys::recv(fd, &mut buf, MSG_PEEK | MSG_DONTWAIT),
        Take::Discard => return show(sys::recv(fd, &mut buf, MSG_TRUNC | MSG_DONTWAIT)),
        Take::WaitAll => sys::recv(fd, &mut buf, MSG_WAITALL),
        Take::Splice => splice(fd, &mut buf),
    };
    match ret {
        Ok(got) => format!("{got}{}", bytes.judge(&buf[..got])),
        Err(errno) => errno.to_string(),
    }
}

fn messages(fd: Fd, buf: &mut [u8], bytes: &Bytes) -> String {
    let each = buf.len() / 3;
    let mut thirds: Vec<&mut [u8]> = buf.chunks_mut(each.max(1)).collect();
    let (ret, lengths) = sys::recvmmsg(fd, &mut thirds, MSG_DONTWAIT, None);
    let filled = lengths.iter().zip(&thirds).take(*ret.as_ref().unwrap_or(&0));
    let all: Vec<u8> = filled.flat_map(|(length, third)| third[..*length as usize].to_vec()).collect();
    format!("{} {lengths:?}{}", show(ret), bytes.judge(&all))
}

/// All of it by way of a pipe: how much at a time follows from segments.
fn splice(fd: Fd, buf: &mut [u8]) -> Ret {
    let (from, to) = sys::pipe(0);
    let mut at = 0;
    let mut ret = Ok(0);
    while at < buf.len() {
        ret = sys::splice(fd, to, buf.len() - at, 0);
        let Ok(count @ 1..) = ret else { break };
        assert_eq!(sys::read(from, &mut buf[at..at + count]), Ok(count));
        at += count;
    }
    let _ = (sys::close(from), sys::close(to));
    ret.map(|_| at)
}
