//! A direction's stretches on TCP, as calls meet them: reading what the peer has put there. (Today one is
//! opened for good alone.) Owns: which reads are counted, and which are libc's.
//!
//! The orderings stand in `shm::detour`. Every read of TCP by this process in a stretch is counted; one that
//! cannot be is libc's, and then the peer's direction stays on TCP.

use crate::conn::Conn;
use crate::end::End;
use crate::{flag, ready};
use os::net::{self, msg};
use os::{Errno, poll};
use shm::{ClosedBy, Consumer, Sink};
use sync::Ordering as Shared;

/// What a read of TCP found.
pub(crate) enum Found {
    /// Nothing: the next bytes are not there, or not yet.
    Nothing,
    /// So many bytes.
    Bytes(usize),
    /// The end of the stream.
    End,
    /// An error, which has been told by that.
    Failed(Errno),
    /// The call is libc's: the direction stays on TCP.
    Libcs,
}

/// Reads into `sink` from TCP, as `flags` say, if that is where the next bytes are. `is_first`: the call has
/// nothing yet, and can tell an error.
pub(crate) fn read(
    end: &End,
    consumer: &mut Consumer<'_>,
    fd: i32,
    sink: Sink<'_>,
    flags: i32,
    is_first: bool,
) -> Found {
    if !end.incoming.is_at_end() {
        return Found::Nothing;
    }
    if end.is_read_by_libc() {
        let _ = consumer.leave_outside();
        return if is_first { Found::Libcs } else { Found::Nothing };
    }
    // (The kernel tells an error once.)
    if !is_first && poll::peek(fd, poll::bits::IN) & (poll::bits::IN | poll::bits::ERR) != poll::bits::IN {
        return Found::Nothing;
    }
    let flags = flags & (msg::PEEK | msg::TRUNC) | msg::DONTWAIT;
    let mut seen = 0;
    let taken = consumer.take_outside(|| {
        seen = match flags & msg::TRUNC {
            0 => net::receive(fd, sink.cells(), flags)?,
            _ => net::discard(fd, sink.len(), flags)?,
        };
        Ok(if flags & msg::PEEK == 0 { seen } else { 0 })
    });
    match taken {
        None | Some(Err(Errno::EAGAIN | Errno::EINTR)) => Found::Nothing,
        Some(Ok(_)) if seen > 0 => Found::Bytes(seen),
        Some(Ok(_)) => Found::End,
        Some(Err(errno)) => Found::Failed(errno),
    }
}

/// Looks at what TCP has behind what lies in the ring; how much there was.
pub(crate) fn glance(fd: i32, sink: Sink<'_>, flags: i32) -> usize {
    let flags = msg::PEEK | msg::DONTWAIT | flags & msg::TRUNC;
    match flags & msg::TRUNC {
        0 => net::receive(fd, sink.cells(), flags),
        _ => net::discard(fd, sink.len(), flags),
    }
    .unwrap_or(0)
}

/// The stream has ended behind the bytes on TCP.
pub(crate) fn note_end(conn: &Conn, end: &End) {
    if end.mine().closed.load(Shared::Relaxed) & ClosedBy::READ == 0 {
        ready::note_end(conn, end);
    }
}

/// TCP has told an error: what follows is the end of the stream, and EPIPE.
pub(crate) fn note_error(conn: &Conn, errno: Errno) {
    if errno != Errno::EFAULT {
        conn.mark(flag::RESET | flag::RESET_TOLD | flag::TCP_ENDED | flag::TCP_GONE);
    }
}
