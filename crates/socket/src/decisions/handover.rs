//! What goes along with a socket into the next program, where that finds neither the connection's row nor its
//! memory: this process shares nothing with others any more, or never did with this peer.
//!
//! Owns: that such a connection is back on TCP before, and that what is left unread in memory is said once,
//! in memory of its own that nobody writes to any more, to the program that has the socket: it reads that
//! first.

use crate::conn::Conn;
use crate::end::End;
use crate::here::fabric;
use crate::phase::Phase;
use crate::{closing, doorbell, far, flag, home, ready, release, word};
use fabric::Reason;
use fabric::door::Directory as _;
use fabric::slot::SlotView;
use os::net::{self, Endpoint};
use os::{inherited, mem};
use shm::lock::YIELDS;
use shm::ring::{PeerMisbehaved, Reader};
use shm::slab::Index;
use shm::user::{Sink, Source};
use shm::{Consumer, Sending, Side, TxCache};
use sync::AtomicU64;
use sync::Ordering::Relaxed;

/// Of this layout.
const MAGIC: u64 = u64::from_be_bytes(*b"ISTHWRD1");
/// Words in front of the bytes.
const HEAD: usize = 14;
/// Bytes that are copied at once, on the program's stack.
const PIECE: usize = 512;

/// The head of a word: what the next program has to know beside the bytes.
struct Head {
    /// Of client and server.
    cookies: [u64; 2],
    side: Side,
    /// Somebody else may hold the socket as well.
    is_others: bool,
    /// Of client and server: who has closed, and how.
    closed: [u32; 2],
    low_water: u32,
    ring_size: u32,
    unread: usize,
    /// Client and server.
    ends: [Endpoint; 2],
}

impl Head {
    fn to_words(&self) -> [u64; HEAD] {
        let mut words = [0; HEAD];
        words[..8].copy_from_slice(&[
            MAGIC,
            self.cookies[0],
            self.cookies[1],
            self.side as u64 | u64::from(self.is_others) << 1,
            u64::from(self.closed[0]) << 32 | u64::from(self.closed[1]),
            u64::from(self.low_water),
            u64::from(self.ring_size),
            self.unread as u64,
        ]);
        words[8..11].copy_from_slice(&self.ends[0].to_words());
        words[11..].copy_from_slice(&self.ends[1].to_words());
        words
    }

    fn parse(words: &[AtomicU64]) -> Option<(Head, &[AtomicU64])> {
        let (head, bytes) = words.split_first_chunk::<HEAD>()?;
        let at = |n: usize| head[n].load(Relaxed);
        let side = if at(3) & 1 == 0 { Side::Client } else { Side::Server };
        let head = Head {
            cookies: [at(1), at(2)],
            side,
            is_others: at(3) & 2 != 0,
            closed: [(at(4) >> 32) as u32, at(4) as u32],
            low_water: at(5) as u32,
            ring_size: at(6) as u32,
            unread: at(7) as usize,
            ends: [[at(8), at(9), at(10)], [at(11), at(12), at(13)]].map(Endpoint::from_words),
        };
        (at(0) == MAGIC && head.unread <= bytes.len() * 8).then_some((head, bytes))
    }

    /// The cookie of the socket that the word is about.
    fn own_cookie(&self) -> u64 {
        self.cookies[self.side as usize]
    }
}

/// Lets the memory of a shared connection survive exec, or not any more: whoever has it may be gone when it
/// is wanted.
pub(crate) fn keep_memory_over_exec(conn: &Conn, on: bool) {
    let Some(view) = conn.view().filter(|_| matches!(conn.phase(), Phase::Smc | Phase::Intent)) else {
        return;
    };
    if is_own_memory(conn) {
        fabric().keep_offered_over_exec(view, on);
    } else {
        fabric().keep_attached_over_exec(view, on);
    }
}

/// Whether whoever gets the socket finds neither row nor memory of the connection.
pub(crate) fn is_cut_off(conn: &Conn) -> bool {
    shared_view(conn).is_some() && is_without_a_row(conn)
}

/// The same of the next program of this process, which may also find another registry, may not look at the
/// peer, or have no numbers to use what it finds.
pub(crate) fn is_unfindable(conn: &Conn) -> bool {
    /// The registry, its lock, a socket to ask the kernel by, the memory, both doorbells; and some are opened
    /// on the way.
    const NEEDED: u32 = 8;
    shared_view(conn).is_some_and(|view| {
        is_without_a_row(conn)
            || !fabric().has_number(view, is_own_memory(conn))
            || !os::limits::has_room_for(NEEDED)
            || !fabric().tier().is_to_be_found()
            || !is_own_memory(conn) && fabric().is_denied(conn.row(), view)
    })
}

fn shared_view(conn: &Conn) -> Option<&'static SlotView> {
    let is_shared = conn.phase() == Phase::Smc || conn.phase() == Phase::Plain && conn.has(flag::DEMOTED);
    conn.view().filter(|_| is_shared && !conn.is_stale())
}

fn is_own_memory(conn: &Conn) -> bool {
    closing::is_own_memory(conn.side(), conn.flags())
}

fn is_without_a_row(conn: &Conn) -> bool {
    let is_known = || fabric().rows().find(conn.cookie()) == Some(conn.row());
    far::is_far(conn) || fabric().tier().mapped().is_none() || !is_known()
}

/// Such a connection is on TCP before a program gets a copy of the socket.
pub(crate) fn take_home_if_cut_off(conn: &Conn) {
    if is_cut_off(conn) {
        take_home(conn);
    }
}

fn take_home(conn: &Conn) {
    if conn.phase() == Phase::Smc
        && let Some(end) = End::still_of(conn)
    {
        home::send_in_time(conn, &end, Reason::OPTUNSUPP);
    }
}

/// Before exec, of such a connection, of which `fd` goes on. Where others hold it as well, they read what is
/// in memory, unless the next program has the socket as one of its standard files, and is meant to.
///
/// The bytes are moved: who has the socket as well, and closes it, leaves nothing unread, and the peer's ring
/// is read. If the exec fails they come back. Where nobody would tell that (not `is_failure_told`), and
/// nobody else has the socket, they are copied: this process may go on as if nothing had been.
#[cold]
pub(crate) fn leave_word(conn: &Conn, fd: i32, is_failure_told: bool) {
    take_home(conn);
    let Some(end) = End::still_of(conn).filter(|end| !end.view.has_word()) else { return };
    let (is_home, is_left) = (is_home(&end), !end.is_drained());
    // (Who got the socket itself by exec cannot know of all others, and hands it on as it got it.)
    let is_others = release::has_known_holders(conn, &end);
    if is_left && is_others && !is_standard(fd) {
        return;
    }
    let moves = is_failure_told || is_others;
    match says(conn, &end, fd, Hold { is_lent: false, moves }) {
        true => {}
        // (A stream with a gap is worse than none, and so is a peer that writes where nobody reads. One that
        // was reset is over: TCP says so, and would say less of a socket that is disconnected.)
        false if (is_left || !is_home) && !conn.has(flag::RESET) => _ = ready::break_off(conn, &end, fd),
        false => {}
    }
    if !is_others && !conn.has(flag::RESET_TOLD) {
        ready::tell_of_unread(end.view, end.side, fd);
    }
}

fn is_home(end: &End) -> bool {
    [end.incoming, end.outgoing].iter().all(|ring| ring.has_ended_for_good())
}

/// The same in a child that borrows its parent's memory, and has the socket as one of its standard files:
/// the parent may go on with all that it has, if the exec fails.
#[cold]
pub(crate) fn lend_word(conn: &Conn, fd: i32) {
    if !is_unfindable(conn) {
        return;
    }
    take_home(conn);
    if let Some(end) = End::still_of(conn) {
        says(conn, &end, fd, Hold { is_lent: true, moves: true });
    }
}

/// Whether the socket of `fd` is one of the standard files.
fn is_standard(fd: i32) -> bool {
    let own = net::cookie(fd);
    (0..=2).any(|standard| net::is_tcp(standard) && net::cookie(standard) == own)
}

/// What this process has of a connection that it says something of.
#[derive(Clone, Copy)]
struct Hold {
    /// It is a child that borrows its parent's memory, and the parent may go on with the socket.
    is_lent: bool,
    /// What is said is read here by that.
    moves: bool,
}

/// Says what is left of a connection that is back on TCP; whether that is done. With the turn to receive:
/// another thread that reads meanwhile finds the bytes, or that they were said.
fn says(conn: &Conn, end: &End, fd: i32, hold: Hold) -> bool {
    let Ok(mut turn) = end.receive_turn(conn, true) else { return false };
    let mut consumer = turn.consumer(end.incoming, &conn.stream.rx_cache);
    let Some((number, unread)) = said(conn, end, fd, hold.is_lent, &mut consumer) else { return false };
    if hold.is_lent {
        os::fd::disown(number);
    }
    let moved = if hold.moves { unread } else { 0 };
    end.view.note_word(number, moved);
    // (As many as were copied just now, unless the ring lies.)
    let is_said = consumer.discard(moved) == Ok(moved);
    if !is_said {
        word::forget(end.view);
    }
    is_said
}

/// The number under which the next program finds it, and how many bytes that is.
fn said(conn: &Conn, end: &End, fd: i32, is_lent: bool, consumer: &mut Consumer<'_>) -> Option<(i32, usize)> {
    let unread = end.incoming.used().ok().filter(|_| is_home(end))?;
    // (The next program finds it there, or nowhere.)
    os::file::each_own_descriptor(|_| {}).ok()?;
    let (header, ends) = (end.view.header(), end.view.addresses());
    // (By the kernel's word: what the peer has written leads nobody to another connection.)
    let own = net::cookie(fd).ok()?;
    let server = if end.side == Side::Server { own } else { header.server_cookie.load(Relaxed) };
    let head = Head {
        cookies: [if end.side == Side::Client { own } else { conn.cookie() }, server],
        side: end.side,
        is_others: is_lent || release::has_other_holders(conn, end),
        closed: header.sides.each_ref().map(|side| side.closed.load(Relaxed)),
        low_water: end.mine().low_water.load(Relaxed),
        ring_size: end.incoming.size() as u32,
        unread,
        ends: [ends.0, ends.1],
    };
    let mut is_whole = false;
    let word = mem::said_once(inherited::WORD, (HEAD + unread.div_ceil(8)) * 8, |words| {
        let (first, bytes) = words.split_at(HEAD);
        first.iter().zip(head.to_words()).for_each(|(word, value)| word.store(value, Relaxed));
        is_whole = copy_out(consumer, bytes) == Ok(unread);
    });
    let word = word.ok()?;
    if !is_whole || os::fd::set_cloexec(word, false).is_err() {
        os::fd::close(word);
        return None;
    }
    Some((word, unread))
}

/// Copies what is unread, and leaves it there.
fn copy_out(consumer: &mut Consumer<'_>, into: &[AtomicU64]) -> Result<usize, PeerMisbehaved> {
    let mut count = 0;
    for words in into.chunks(PIECE / 8) {
        let mut bytes = [0; PIECE];
        let seen = consumer.peek(count, Sink::from(&mut bytes[..words.len() * 8]))?;
        let (parts, _) = bytes.as_chunks::<8>();
        words.iter().zip(parts).for_each(|(word, part)| word.store(u64::from_ne_bytes(*part), Relaxed));
        count += seen;
    }
    Ok(count)
}

/// After an exec that failed, or where another thread goes on with the socket: nobody heard it. Whether
/// something is to be read here again.
pub(crate) fn take_word_back(conn: &Conn) -> bool {
    let Some(view) = conn.view().filter(|view| view.has_word()) else { return false };
    let Some(end) = End::still_of(conn) else {
        word::forget(view);
        return false;
    };
    let Ok(mut turn) = end.receive_turn(conn, true) else { return false };
    // (In this order: who finds no word any more finds the bytes.)
    let moved = view.bytes_in_word();
    if moved > 0 {
        turn.consumer(end.incoming, &conn.stream.rx_cache).restore(moved);
    }
    word::forget(view);
    drop(turn);
    if moved > 0 {
        doorbell::kick(conn, &end);
    }
    moved > 0
}

/// In a child that borrows its parent's memory: what the parent said once, and nobody heard, is not for the
/// child's next program.
pub(crate) fn silence(conn: &Conn) {
    if let Some(word) = conn.view().and_then(SlotView::word) {
        let _ = os::fd::set_cloexec(word, true);
    }
}

/// What the program before this one has said of a connection.
pub(crate) struct Said {
    pub(crate) index: Index,
    pub(crate) view: &'static SlotView,
    pub(crate) side: Side,
    pub(crate) is_others: bool,
    pub(crate) client_cookie: u64,
    /// This end's address, and the peer's.
    pub(crate) ends: [Endpoint; 2],
}

/// Whether something was said of `fd`, and not heard yet.
#[inline]
pub(crate) fn was_said_of(fd: i32) -> bool {
    inherited::has_words() && is_named(fd)
}

#[cold]
fn is_named(fd: i32) -> bool {
    let named = |own| {
        move |words: &[AtomicU64]| Head::parse(words).filter(|(head, _)| head.own_cookie() == own).map(drop)
    };
    net::cookie(fd).is_ok_and(|own| inherited::find_word(named(own)).is_some())
}

/// What was said of `fd`, brought into memory of this process; `None` if nothing was. Reasons: PEERNOSMC
/// where nothing was left; MEM, and then the connection is reset, for what comes by TCP lacks its beginning.
#[cold]
pub(crate) fn hear(fd: i32) -> Option<Result<Said, Reason>> {
    let own = net::cookie(fd).ok()?;
    let (number, heard) = inherited::find_word(|words| {
        let (head, bytes) = Head::parse(words).filter(|(head, _)| head.own_cookie() == own)?;
        Some(bring(&head, bytes))
    })?;
    inherited::forget_word(number);
    if heard.as_ref().is_err_and(|reason| *reason != Reason::PEERNOSMC) {
        net::abort(fd);
    }
    Some(heard)
}

fn bring(head: &Head, bytes: &[AtomicU64]) -> Result<Said, Reason> {
    if head.unread == 0 {
        return Err(Reason::PEERNOSMC);
    }
    let (index, view) = fabric().private_slot(head.ring_size, head.cookies, head.ends)?;
    let header = view.header();
    for (side, closed) in header.sides.iter().zip(head.closed) {
        side.closed.store(closed, Relaxed);
    }
    header.sides[head.side as usize].low_water.store(head.low_water, Relaxed);
    put(view, head.side.peer(), bytes, head.unread);
    let (own, peer) = (head.side as usize, head.side.peer() as usize);
    let ends = [head.ends[own], head.ends[peer]];
    let (side, is_others) = (head.side, head.is_others);
    Ok(Said { index, view, side, is_others, client_cookie: head.cookies[0], ends })
}

/// Fills the ring that `from` writes into, and ends both directions there.
fn put(view: &SlotView, from: Side, bytes: &[AtomicU64], unread: usize) {
    let mut known = TxCache::new();
    let mut producer = shm::Producer::alone(view.outgoing(from), &mut known);
    let mut left = unread;
    for word in bytes {
        let part = word.load(Relaxed).to_ne_bytes();
        let source = Source::from(&part[..left.min(8)]);
        left -= producer.write(source, Reader::InTurn).unwrap_or(0);
    }
    for side in [Side::Client, Side::Server] {
        let block = &view.header().sides[side as usize];
        let _ = (0..YIELDS).any(|_| Sending::end(block, view.outgoing(side)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_read_as_it_was_written_and_no_other() {
        let at = |port| Endpoint { family: 2, port, scope: 7, addr: [9; 16] };
        let head = Head {
            cookies: [11, 12],
            side: Side::Server,
            is_others: true,
            closed: [1, 16],
            low_water: 5,
            ring_size: 65536,
            unread: 9,
            ends: [at(1), at(2)],
        };
        let words = |bytes: usize| {
            let zeros = core::iter::repeat_n(0, bytes);
            head.to_words().into_iter().chain(zeros).map(AtomicU64::new).collect::<Vec<_>>()
        };
        let whole = words(2);
        let (read, bytes) = Head::parse(&whole).expect("whole");
        assert_eq!((read.to_words(), bytes.len(), read.own_cookie()), (head.to_words(), 2, 12));
        assert_eq!((read.closed, read.ends[1].port, read.unread), ([1, 16], 2, 9));
        assert!(Head::parse(&words(1)).is_none(), "more bytes than there are");
        assert!(Head::parse(&whole[..HEAD - 1]).is_none());
        whole[0].store(1, Relaxed);
        assert!(Head::parse(&whole).is_none(), "another layout");
    }
}
