//! A direction's stretches on TCP, as calls meet them: reading what the peer has put there, and putting bytes
//! there. Owns: which reads are counted, and which are libc's.
//!
//! A ring is small, to stay in the cache, and TCP takes megabytes. So what a ring does not take goes into the
//! TCP socket, where the kernel holds and accounts for it, once the reader is seen to rest (`resting`). For
//! one that moves a writer waits, as ever, and once all that is on TCP was read the ring is used again.
//!
//! The orderings stand in `shm::detour`. Every read of TCP by this process in a stretch is counted, behind a
//! filter of system calls too; one that cannot be is libc's, and then the peer's direction stays on TCP.

use crate::conn::Conn;
use crate::end::End;
use crate::interest::set;
use crate::phase::Phase;
use crate::{doorbell, flag, options, ready, resting, watch};
use fabric::turn::me;
use os::net::{self, msg};
use os::{Errno, poll};
use shm::detour::Back;
use shm::{ClosedBy, Consumer, Producer, Sending, Sink, Supply};
use sync::Ordering as Shared;

/// Of a supply that lies in no memory of the program's, so much goes at once.
const BOUNCE: usize = 512;

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
    // (What was said to a next program comes first: see `handover`.)
    if !end.incoming.is_at_end() || end.view.has_word() {
        return Found::Nothing;
    }
    if end.is_read_by_libc() {
        let _ = consumer.leave_outside();
        return if is_first { Found::Libcs } else { read_on(end, fd, sink, flags) };
    }
    if !is_first && !has_bytes(fd) {
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

/// The same where nobody counts any more, behind what the call has: one read has all that is there, as in the
/// kernel, or who takes a short one for "drained" would wait for an edge that was told. (An error, and the
/// end, are the next call's.)
#[cold]
fn read_on(end: &End, fd: i32, sink: Sink<'_>, flags: i32) -> Found {
    if os::confined::is_strict() || !goes_on(end, fd) {
        return Found::Nothing;
    }
    let flags = flags & (msg::PEEK | msg::TRUNC) | msg::DONTWAIT;
    let seen = match flags & msg::TRUNC {
        0 => net::receive(fd, sink.cells(), flags),
        _ => net::discard(fd, sink.len(), flags),
    };
    seen.ok().filter(|count| *count > 0).map_or(Found::Nothing, Found::Bytes)
}

/// Whether TCP has bytes that belong into one call with those before them. An urgent mark (of a direction
/// that stays there) that comes right behind these the kernel does not stop at, for it knows of none before.
fn goes_on(end: &End, fd: i32) -> bool {
    has_bytes(fd) && !(end.incoming.has_ended_for_good() && is_at_mark(fd))
}

/// (Behind a filter: whether there is any.)
fn is_at_mark(fd: i32) -> bool {
    match os::confined::is_confined() {
        true => poll::peek(fd, poll::bits::PRI) & poll::bits::PRI != 0,
        false => net::is_at_mark(fd),
    }
}

/// Whether TCP has bytes, which come before an error: without any the kernel would tell that, once, to a look
/// too. (Behind a filter poll alone may be asked, which tells of no bytes beside an error.)
fn has_bytes(fd: i32) -> bool {
    match os::confined::is_confined() {
        true => poll::peek(fd, poll::bits::IN) & (poll::bits::IN | poll::bits::ERR) == poll::bits::IN,
        false => net::readable_bytes(fd) > 0,
    }
}

/// Looks at what TCP has behind what lies in the ring; how much there was.
pub(crate) fn glance(end: &End, fd: i32, sink: Sink<'_>, flags: i32) -> usize {
    if !goes_on(end, fd) {
        return 0;
    }
    let flags = msg::PEEK | msg::DONTWAIT | flags & msg::TRUNC;
    match flags & msg::TRUNC {
        0 => net::receive(fd, sink.cells(), flags),
        _ => net::discard(fd, sink.len(), flags),
    }
    .unwrap_or(0)
}

/// The same with room in several pieces.
pub(crate) fn glance_into<'a>(fd: i32, sinks: impl Iterator<Item = Sink<'a>>, flags: i32) -> usize {
    let mut all = [const { None }; net::PEEKED_PIECES];
    all.iter_mut().zip(sinks).for_each(|(place, sink)| *place = Some(sink));
    let sinks = || all.iter().flatten();
    match flags & msg::TRUNC {
        0 => net::peek(fd, sinks().map(Sink::cells)),
        _ => net::discard(fd, sinks().map(Sink::len).sum(), msg::PEEK | msg::DONTWAIT),
    }
    .unwrap_or(0)
}

/// The stream has ended behind the bytes on TCP.
pub(crate) fn note_end(conn: &Conn, end: &End, fd: i32) {
    if end.mine().closed.load(Shared::Relaxed) & ClosedBy::READ == 0 {
        ready::note_end(conn, end);
    } else {
        // (It may be by our own shutdown alone. Of a reset he is told as well.)
        let told = poll::peek(fd, poll::bits::RDHUP);
        ready::note_tcp(conn, end, fd, u32::from(told as u16));
    }
}

/// TCP has told an error: what follows is the end of the stream, and EPIPE.
pub(crate) fn note_error(conn: &Conn, errno: Errno) {
    if errno != Errno::EFAULT {
        conn.mark(flag::RESET | flag::RESET_TOLD | flag::TCP_ENDED | flag::TCP_GONE);
    }
}

/// Whether what the ring does not take may go to TCP. (Behind a filter of system calls nothing is called that
/// the program does not call.)
pub(crate) fn may_overflow(conn: &Conn) -> bool {
    conn.phase() == Phase::Smc && !os::confined::is_confined() && !conn.has(flag::LIMITED)
}

/// Takes note of small buffers, which the program has set. What the kernel gives a connection on one host of
/// its own accord is larger, once it stands.
pub(crate) fn see_buffers(conn: &Conn, end: &End, fd: i32) {
    const SENDING: u32 = 256 * 1024;
    const RECEIVING: u32 = 64 * 1024;
    if !options::are_buffers_used() || os::confined::is_confined() {
        return;
    }
    let (sending, receiving) = net::buffer_sizes(fd);
    let set = |size: u32, own: u32| if size < own { size } else { 0 };
    end.mine().send_buffer.store(set(sending, SENDING), Shared::Relaxed);
    end.mine().receive_buffer.store(set(receiving, RECEIVING), Shared::Relaxed);
    if set(sending, SENDING) == 0 {
        conn.unmark(flag::LIMITED);
    } else {
        conn.mark(flag::LIMITED);
    }
}

/// In a stretch, with the turn: whether the direction runs in the ring again. It goes back if that has room.
pub(crate) fn is_back(end: &End, producer: &mut Producer<'_>) -> bool {
    let has_room = end.outgoing.free().is_ok_and(|free| free >= end.outgoing.size() / 3);
    match if has_room { producer.go_back() } else { Back::NotYet } {
        Back::InRing => true,
        Back::NotYet => false,
        Back::Opened => {
            end.ring_peer(&end.outgoing.words().data_wait.0);
            false
        }
    }
}

/// The direction of a call that does not write goes back to the ring, if all that is on TCP was read. Whether
/// it runs there now.
#[cold]
pub(crate) fn come_back(conn: &Conn, end: &End) -> bool {
    if !conn.is(Phase::Smc) || !end.outgoing.is_caught_up() {
        return false;
    }
    let Some(mut turn) = Sending::try_take(end.mine(), me()) else { return false };
    let mut producer = turn.producer(end.outgoing, &conn.stream.tx_cache);
    !end.outgoing.has_ended() || is_back(end, &mut producer)
}

/// From here on the bytes are on TCP. A reader that naps is woken, and looks there.
pub(crate) fn open(end: &End, producer: &Producer<'_>) {
    if !end.outgoing.has_ended() {
        producer.open_detour();
        end.ring_peer(&end.outgoing.words().data_wait.0);
    }
}

/// Puts what TCP takes of `source` there, without waiting; 0 if the source has ended.
pub(crate) fn send(
    producer: &Producer<'_>,
    fd: i32,
    source: impl Supply,
    flags: i32,
) -> Result<usize, Errno> {
    let flags = flags & msg::MORE | msg::DONTWAIT | msg::NOSIGNAL;
    match source.cells() {
        Some(cells) => producer.send_outside(|| net::transmit(fd, cells, flags)),
        None => send_copied(producer, fd, source, flags),
    }
}

/// The same of a supply that has to be copied first; what TCP does not take is copied again.
#[inline(never)]
fn send_copied(producer: &Producer<'_>, fd: i32, source: impl Supply, flags: i32) -> Result<usize, Errno> {
    let mut bytes = [0u8; BOUNCE];
    let count = source.copy_to(Sink::from(&mut bytes[..])).min(BOUNCE);
    if count == 0 {
        return Ok(0);
    }
    let more = if count < source.len() { msg::MORE } else { 0 };
    producer.send_outside(|| net::send_bytes(fd, &bytes[..count], flags | more))
}

/// How much of `source` is there for one send, as far as is known without sending it; 0 if it has ended.
#[inline(never)]
pub(crate) fn length(source: impl Supply) -> usize {
    match source.cells() {
        Some(cells) => cells.len(),
        None => source.copy_to(Sink::from(&mut [0u8; BOUNCE][..])).min(BOUNCE),
    }
}

/// The writer stops where TCP holds back the end of what it has: a reader is to see all of that, or the ring
/// is never gone back to.
#[cold]
pub(crate) fn push(conn: &Conn, fd: i32) {
    if !os::confined::is_confined() {
        conn.unmark(flag::HELD_OUTSIDE);
        net::push(fd);
    }
}

/// Somebody waits until `conn` can be written to, and the ring has no room. Looked after until its reader
/// moves, or is seen to rest: then a stretch is opened, and TCP tells of room. Whether that is news, of which
/// registrations are to be told.
pub(crate) fn look_after(conn: &Conn, end: &End) -> bool {
    if !may_overflow(conn) || ready::may_write(conn, end) || ready::is_write_shut(end) {
        watch::go_on(conn);
        return false;
    }
    if ready::writes_outside(conn, end) {
        watch::go_on(conn);
        return true;
    }
    if !resting::is_seen(end) || !is_open(conn, end) {
        let _ = watch::stall(conn);
        return false;
    }
    watch::go_on(conn);
    true
}

/// Somebody waits for room in a set, and the ring has none: from now on waits look now and then whether the
/// reader rests. Who sleeps already does not look: he is woken, and sleeps anew. (The caller holds `conn`,
/// and counts as so many sleepers himself.)
#[cold]
pub(crate) fn await_reader(conn: &Conn, end: &End, mine: u32) {
    if may_overflow(conn) && !ready::may_write(conn, end) {
        resting::note_full(end);
        if watch::stall(conn) && set::is_slept_on(conn, mine) {
            doorbell::kick(conn, end);
        }
    }
}

/// Opens a stretch if none is open, unless somebody is sending.
fn is_open(conn: &Conn, end: &End) -> bool {
    if end.outgoing.has_ended() {
        return true;
    }
    let Some(mut turn) = Sending::try_take(end.mine(), me()) else { return false };
    open(end, &turn.producer(end.outgoing, &conn.stream.tx_cache));
    true
}
