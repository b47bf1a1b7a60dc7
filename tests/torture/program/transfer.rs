//! One call that writes, one that reads, in all their spellings. Invariant: nothing is kept between two
//! calls; what a pipe still holds after a partial splice is made anew from the stream.

use crate::connection::Connection;
use crate::stream::Stream;
use crate::style::{ReadCall, WriteCall};
use isthmus_tests::sys::{self, Fd, Ret};

/// Writes up to `rest` bytes of the stream, by one call.
pub(crate) fn write(c: &Connection, stream: Stream, rest: usize) -> Ret {
    c.perhaps_goes_home();
    let at = c.mine.sent();
    let calls = c.plan().calls;
    let mut bytes = vec![0; rest.min(calls.buffer)];
    stream.fill(at, &mut bytes);
    let (fd, half) = (c.fd(), bytes.len() / 2);
    let kind = calls.write(at);
    c.mine.doing(0x100 + kind as u64);
    match kind {
        WriteCall::Write => sys::write(fd, &bytes),
        WriteCall::Send => sys::send(fd, &bytes, libc::MSG_NOSIGNAL),
        WriteCall::Writev => sys::writev(fd, &[&bytes[..half], &bytes[half..]]),
        WriteCall::Sendmsg => sys::sendmsg(fd, &[&bytes[..half], &bytes[half..]], libc::MSG_NOSIGNAL),
        WriteCall::Sendto => sys::sendto(fd, &bytes, 0),
        WriteCall::More => {
            let more = if bytes.len() < rest { libc::MSG_MORE } else { 0 };
            sys::send(fd, &bytes, more)
        }
        WriteCall::Sendfile => {
            let file = sys::memfile(&bytes);
            let sent = sys::sendfile(fd, file, Some(0), bytes.len()).0;
            let _ = sys::close(file);
            sent
        }
        WriteCall::Splice => splice_out(fd, &bytes),
    }
}

fn splice_out(fd: Fd, bytes: &[u8]) -> Ret {
    let (from, to) = sys::pipe(libc::O_CLOEXEC);
    let n = bytes.len().min(sys::pipe_size(to));
    let result = sys::write(to, &bytes[..n]).and_then(|n| sys::splice(from, fd, n, 0));
    let _ = (sys::close(from), sys::close(to));
    result
}

/// Reads by one call, two where one looks first; `rest` is what the step still needs.
pub(crate) fn read(c: &Connection, rest: usize) -> Result<Vec<u8>, sys::Errno> {
    c.perhaps_goes_home();
    let calls = c.plan().calls;
    let mut bytes = vec![0; calls.buffer];
    let (fd, half) = (c.fd(), calls.buffer / 2);
    let kind = calls.read(c.mine.received());
    c.mine.doing(0x200 + kind as u64);
    let n = match kind {
        ReadCall::Read => sys::read(fd, &mut bytes),
        ReadCall::Recv => sys::recv(fd, &mut bytes, 0),
        ReadCall::Readv => {
            let (a, b) = bytes.split_at_mut(half);
            sys::readv(fd, &mut [a, b])
        }
        ReadCall::Recvmsg => {
            let (a, b) = bytes.split_at_mut(half);
            sys::recvmsg(fd, &mut [a, b], 0).0
        }
        ReadCall::Peek => peek(c, fd, &mut bytes),
        ReadCall::WaitAll => {
            // More than the step needs would wait for what the peer sends after our answer.
            let n = rest.min(bytes.len());
            sys::recv(fd, &mut bytes[..n], libc::MSG_WAITALL)
        }
        ReadCall::Queued => {
            let queued = usize::try_from(sys::queued(fd)).unwrap_or(0).clamp(1, bytes.len());
            sys::read(fd, &mut bytes[..queued])
        }
        ReadCall::Splice => splice_in(c, fd, &mut bytes),
    }?;
    bytes.truncate(n);
    Ok(bytes)
}

/// Looks first, then reads; both must be the same bytes.
fn peek(c: &Connection, fd: Fd, bytes: &mut [u8]) -> Ret {
    let seen = sys::recv(fd, bytes, libc::MSG_PEEK)?;
    let looked = bytes[..seen].to_vec();
    let n = sys::recv(fd, bytes, 0)?;
    let both = n.min(seen);
    if bytes[..both] != looked[..both] || (n == 0) != (seen == 0) {
        c.fault("peek", &format!("MSG_PEEK showed {seen} bytes, the next read {n}, and they differ"));
    }
    Ok(n)
}

fn splice_in(c: &Connection, fd: Fd, bytes: &mut [u8]) -> Ret {
    let (from, to) = sys::pipe(libc::O_CLOEXEC);
    let most = bytes.len().min(sys::pipe_size(to));
    let blocks = !c.plan().wait.is_blocking();
    let flags = if blocks { libc::SPLICE_F_NONBLOCK } else { 0 };
    let result = sys::splice(fd, to, most, flags);
    let result = match result {
        Ok(0) | Err(_) => result,
        Ok(n) => Ok(read_all(from, &mut bytes[..n])),
    };
    let _ = (sys::close(from), sys::close(to));
    result
}

fn read_all(pipe: Fd, bytes: &mut [u8]) -> usize {
    let mut got = 0;
    while got < bytes.len() {
        match sys::read(pipe, &mut bytes[got..]) {
            Ok(n) if n > 0 => got += n,
            _ => break,
        }
    }
    got
}
