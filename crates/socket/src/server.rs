//! The accepting side: the decision at the first use of an accepted socket.
//! Owns: the order of a claim: find the client's intent, map its memory, open the doorbells, and only then swap the word.

use crate::conn::{Conn, Tie};
use crate::end::End;
use crate::enter::enter;
use crate::flag::{self, Flags};
use crate::phase::{Event, Phase};
use crate::{handshake, records};
use core::sync::atomic::AtomicBool;
use fabric::connection::{self, RowId};
use fabric::fallback::{self, What};
use fabric::verdict::Verdict;
use fabric::{Reason, attach, listener, member, process, registry, totals};
use os::net::Endpoint;
use os::{diag, net};
use shm::Side;
use shm::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// Whether some socket of this process may have a TCP_DEFER_ACCEPT: else nobody asks for it.
static MAY_DEFER: AtomicBool = AtomicBool::new(false);

/// A listener that was announced.
#[derive(Clone, Copy)]
pub struct Announced {
    cookie: u64,
    /// Its TCP_DEFER_ACCEPT, which the kernel has no more.
    deferral: i32,
}

/// The kernel would hold a connection back until TCP bytes arrive, and those of an enabled client never do. That is an
/// optimisation, which the kernel itself gives up after so many seconds: of an announced listener we only remember it.
fn announce(fd: i32) -> Result<Announced, Reason> {
    let cookie = listener::announce(fd)?;
    let deferral = if MAY_DEFER.load(Acquire) { net::deferral(fd) } else { 0 };
    if deferral > 0 && net::set_deferral(fd, 0).is_err() {
        listener::forget(cookie, fd);
        return Err(Reason::OPTUNSUPP);
    }
    Ok(Announced { cookie, deferral })
}

/// Before listen(): announces a bound socket, for from that call on clients may come. Who finds it too early finds no
/// listener in the kernel, and connects in vain anyway.
pub fn before_listen(fd: i32) -> Option<Announced> {
    let is_bound = net::is_tcp(fd) && net::local(fd).is_ok_and(|at| at.port != 0);
    if is_bound { announce(fd).ok() } else { None }
}

/// After a listen() that failed: takes back what [`before_listen`] said, unless the socket had been listening before.
pub fn after_failed_listen(fd: i32, announced: Option<Announced>) {
    if let Some(Announced { cookie, deferral }) = announced
        && !net::is_listening(fd)
    {
        listener::forget(cookie, fd);
        if deferral > 0 {
            let _ = net::set_deferral(fd, deferral);
        }
    }
}

/// After listen(): announces the socket, unless that is done (its cookie).
pub fn after_listen(fd: i32, announced: Option<Announced>) {
    // (Whoever is refused now is tried again when it accepts.)
    if let Err(reason) = listen(fd, announced) {
        fallback::note(fd, What::Listener, reason);
    }
}

/// A listener that wants what only TCP can do.
pub fn refuse_listener(fd: i32, reason: Reason) {
    if !registry::has_left() {
        // The registry holds the reason: a program that listens makes one as it would for any other listener.
        let _ = registry::existing_or_new();
    }
    fallback::note(fd, What::Listener, reason);
}

fn listen(fd: i32, announced: Option<Announced>) -> Result<(), Reason> {
    if !net::is_tcp(fd) {
        return Err(Reason::OPTUNSUPP);
    }
    let Announced { cookie, deferral } = announced.map_or_else(|| announce(fd), Ok)?;
    // What it accepts inherits its time limits, which may have been set before anybody looked.
    if [net::opt::SO_RCVTIMEO, net::opt::SO_SNDTIMEO].iter().any(|limit| net::timeout_ns(fd, *limit) != 0) {
        crate::options::note_unseen_options();
    }
    let held = enter(fd, Event::Listened).ok_or(Reason::MEM)?;
    held.cookie.store(cookie, core::sync::atomic::Ordering::Relaxed);
    held.deadline.store(crate::era::now(), core::sync::atomic::Ordering::Relaxed);
    held.looks.store(net::local(fd).map_or(0, |at| at.port.into()), core::sync::atomic::Ordering::Relaxed);
    held.deferral.store(deferral.max(0) as u32, core::sync::atomic::Ordering::Relaxed);
    Ok(())
}

/// A connection was taken from a listener: a child that gave its user up withdrew it, if it had a copy, and then perhaps
/// became another program that has nothing to do with it. Whoever accepts himself announces it anew.
pub fn announce_again(fd: i32) {
    let Some(conn) = crate::held::hold(fd) else { return };
    let port = conn.looks.load(core::sync::atomic::Ordering::Relaxed) as u16;
    let cookie = conn.cookie.load(core::sync::atomic::Ordering::Relaxed);
    let has_forked = conn.deadline.load(core::sync::atomic::Ordering::Relaxed) != crate::era::now();
    if conn.phase() == Phase::Listening
        && has_forked
        && registry::mapped().is_some()
        && !listener::is_announced(cookie, port)
    {
        let _ = listener::announce(fd);
    }
}

/// TCP_DEFER_ACCEPT is about to be set. Whether it is an announced listener's, and done with.
pub fn defer(fd: i32, seconds: i32) -> bool {
    let Some(conn) = crate::held::hold(fd).filter(|conn| conn.phase() == Phase::Listening) else {
        MAY_DEFER.fetch_or(seconds > 0, AcqRel);
        return false;
    };
    conn.deferral.store(rounded_deferral(seconds), core::sync::atomic::Ordering::Relaxed);
    true
}

/// What the kernel makes of so many seconds: a number of retransmissions (255 at most), each after twice the time of the one
/// before it, the first after a second, none after more than two minutes (TCP_RTO_MAX).
fn rounded_deferral(seconds: i32) -> u32 {
    let wanted = seconds.max(0).unsigned_abs();
    if wanted == 0 {
        return 0;
    }
    let ends = (0..255u32).scan(0, |end, doubled| {
        *end += (1 << doubled.min(7)).min(120);
        Some(*end)
    });
    let mut last = 0;
    for end in ends {
        last = end;
        if end >= wanted {
            break;
        }
    }
    last
}

/// The TCP_DEFER_ACCEPT of an announced listener, 0 for none; `None` for any other socket.
pub fn deferral(fd: i32) -> Option<u32> {
    let conn = crate::held::hold(fd).filter(|conn| conn.phase() == Phase::Listening)?;
    Some(conn.deferral.load(core::sync::atomic::Ordering::Relaxed))
}

/// Whether the kernel waits for data with the last word of this client's handshake, as TCP_DEFER_ACCEPT has it there.
pub(crate) fn is_deferring_client(fd: i32) -> bool {
    MAY_DEFER.load(Acquire) && net::deferral(fd) > 0
}

/// A listener that came over exec: what its former program set is inherited by what it accepts.
pub fn adopt_listener(fd: i32) -> Result<(), Reason> {
    MAY_DEFER.store(true, Release);
    crate::options::note_unseen_options();
    listen(fd, None)
}

/// Why what `listener` accepts stays on TCP, if it does.
pub fn why_refused(listener: i32) -> Option<Reason> {
    let is_stopped = || crate::held::hold(listener).is_some_and(|conn| conn.phase() == Phase::Plain);
    crate::table::refusal(listener).or_else(|| is_stopped().then_some(Reason::OPTUNSUPP))
}

/// A connection that a refused listener has accepted.
pub fn refuse_unseen(fd: i32, reason: Reason) {
    fallback::note(fd, What::Connection(Side::Server), reason);
}

/// After accept(): the new socket is looked at when it is first used, by whoever uses it.
/// (An accepted socket does not inherit O_NONBLOCK: accept4 says whether it has it.)
pub fn after_accept(fd: i32, is_nonblocking: bool) {
    if let Some(held) = enter(fd, Event::Accepted) {
        held.see_nonblocking(is_nonblocking);
        held.deadline.store(crate::era::now(), core::sync::atomic::Ordering::Relaxed);
    }
}

/// Before something only TCP can do, or that needs the bare socket: an undecided socket stays on TCP for good.
pub fn refuse(fd: i32) {
    let Some(conn) = crate::held::hold(fd) else { return };
    if conn.phase() == Phase::Accepted {
        refuse_accepted(&conn, fd);
    }
    if conn.phase() == Phase::Intent {
        crate::client::retract(&conn, fd, Reason::OPTUNSUPP);
    }
}

fn refuse_accepted(conn: &Conn, fd: i32) {
    {
        let Some(_turn) = conn.registrations_turn.take() else { return };
        if conn.phase() != Phase::Accepted {
            return;
        }
        let plain = Verdict::Plain(Reason::OPTUNSUPP);
        let stands = find(fd, false).map(|found| connection::decide(found.row, found.side, plain));
        if let Ok(Verdict::Plain(reason)) | Err(reason) = stands {
            conn.transition(Event::Refused);
            note_plain(conn, fd, reason);
            return;
        }
    }
    // Another process that shares the socket has said SMC: this one follows.
    decide(conn, fd);
}

/// The first use: SMC if the client offered memory that can be had, TCP otherwise.
pub(crate) fn decide(conn: &Conn, fd: i32) -> Phase {
    let Some(_turn) = conn.registrations_turn.take() else { return conn.phase() };
    if conn.phase() != Phase::Accepted {
        return conn.phase();
    }
    // (While another thread changes the credentials nothing new begins; what another process has begun is followed.)
    let using = registry::using();
    let refused = if using.is_some() { None } else { declined(fd) };
    let decided = match refused.map_or_else(|| claim(conn, fd), Err) {
        Ok(decided) => decided,
        Err(reason) => {
            note_plain(conn, fd, reason);
            Event::Refused
        }
    };
    let phase = conn.transition(decided);
    records::convert(conn);
    phase
}

/// Says TCP to whoever offered something, and why it is TCP; `None` if SMC has been said already.
fn declined(fd: i32) -> Option<Reason> {
    let plain = Verdict::Plain(Reason::OPTUNSUPP);
    match find(fd, true).map(|found| connection::decide(found.row, found.side, plain)) {
        Ok(Verdict::Smc) => None,
        Ok(Verdict::Plain(reason)) | Err(reason) => Some(reason),
    }
}

/// Counts and tells what became of an accepted socket. One that came from another process (its deadline is no era) may be
/// anybody's end, and was counted there.
fn note_plain(conn: &Conn, fd: i32, reason: Reason) {
    if conn.deadline.load(core::sync::atomic::Ordering::Relaxed) != 0 {
        fallback::note(fd, What::Connection(Side::Server), reason);
    }
}

/// PEERNOSMC: nobody ever offered anything for this connection.
fn claim(conn: &Conn, fd: i32) -> Result<Event, Reason> {
    // Nothing pending means nobody offered anything, unless another process shares the socket and answered already.
    let is_unshared = conn.deadline.load(core::sync::atomic::Ordering::Relaxed) == crate::era::now();
    if is_unshared && !connection::any_pending() {
        return Err(Reason::PEERNOSMC);
    }
    let Found { row, cookie, side, at } = find(fd, !is_unshared)?;
    let opened = attach::open(row);
    let (index, view) = opened.inspect_err(|reason| {
        if connection::decide(row, side, Verdict::Plain(*reason)) == Verdict::Smc {
            // Another process answered before, and we cannot follow: better a reset than a peer that waits for ever.
            net::abort(fd);
        }
    })?;
    let generation = view.generation();
    if view.header().client_cookie.load(Relaxed) != cookie {
        attach::done(view);
        connection::decide(row, side, Verdict::Plain(Reason::SYNCERR));
        return Err(Reason::SYNCERR);
    }
    let own_cookie = net::cookie(fd).unwrap_or(0);
    let answer = match side {
        Side::Server if connection::verdict(row).is_none() => Some(handshake::answer(view, own_cookie)),
        _ => None,
    };
    let stands = match (side, &answer) {
        (Side::Client, _) => connection::verdict(row),
        (Side::Server, Some(Err(reason))) => Some(connection::decide(row, side, Verdict::Plain(*reason))),
        (Side::Server, _) => Some(connection::decide(row, side, Verdict::Smc)),
    };
    match stands {
        Some(Verdict::Plain(reason)) => {
            attach::done(view);
            return Err(reason);
        }
        None => {
            // The client's end, come from another process before the server has answered.
            if !takes_side(view, side, generation, false) {
                attach::done(view);
                return Err(Reason::SYNCERR);
            }
            conn.mark(flag::ATTACHED | flag::ESTABLISHED | flag::UNCOUNTED);
            conn.tie(Tie { side, row, view: index, cookie, generation });
            note_end(conn, fd, at, is_unshared);
            crate::client::expect_answer(conn);
            return Ok(Event::Offered);
        }
        Some(Verdict::Smc) => {}
    }
    let is_first = side == Side::Server && is_first_claim(row, own_cookie)?;
    if !takes_side(view, side, generation, is_first) {
        // The client has reset the connection since, and lent the slot again.
        attach::done(view);
        return Err(Reason::SYNCERR);
    }
    conn.mark(flag::ATTACHED | flag::ESTABLISHED | if is_unshared { Flags::NONE } else { flag::UNCOUNTED });
    conn.see_rcvlowat(fd);
    conn.tie(Tie { side, row, view: index, cookie, generation });
    note_end(conn, fd, at, is_unshared);
    if is_first {
        totals::upgraded(Side::Server);
        if is_unshared {
            conn.note_exclusive();
        }
        welcome(view, own_cookie, answer.and_then(Result::ok));
    }
    Ok(Event::Shared)
}

/// The claim is won, and the slot is ours: what was put off until now.
fn welcome(view: &fabric::slot::SlotView, own_cookie: u64, answer: Option<handshake::Answer>) {
    if let Some(answer) = answer {
        answer.send(view);
    }
    view.header().server_cookie.store(own_cookie, Release);
    // A client that waits for the answer with a full early ring sleeps on its doorbell.
    if view.incoming(Side::Server).words().space_wait.0.take_ring().bell() {
        os::pipe::ring(view.bell(Side::Client));
    }
}

struct Found {
    row: RowId,
    cookie: u64,
    side: Side,
    at: Addresses,
}

/// The two addresses of a connection.
#[derive(Clone, Copy)]
struct Addresses {
    local: Endpoint,
    peer: Endpoint,
}

impl Addresses {
    fn of(fd: i32) -> Option<Self> {
        Some(Addresses { local: net::local(fd).ok()?.unmapped(), peer: net::peer(fd).ok()?.unmapped() })
    }
}

/// The row of the connection `fd` is an end of. An inherited or passed socket may also be the client's end.
/// Reasons: PEERNOSMC if there is none, PEERDECL for another user's, MEM if the kernel cannot be asked.
fn find(fd: i32, may_be_client: bool) -> Result<Found, Reason> {
    registry::mapped().ok_or(Reason::PEERNOSMC)?;
    let at = Addresses::of(fd).ok_or(Reason::PEERNOSMC)?;
    if may_be_client
        && let Ok(cookie) = net::cookie(fd)
        && let Some(row) = connection::find(cookie)
    {
        return Ok(Found { row, cookie, side: Side::Client, at });
    }
    let client = diag::lookup(at.peer, at.local).map_err(|errno| refuse_unasked(at.peer, errno))?;
    let row = connection::find(client.cookie).ok_or(Reason::PEERNOSMC)?;
    // (Of a socket without a descriptor older kernels tell no owner.)
    if client.inode != 0 && client.uid != os::process::euid() {
        // This process has changed its user since it listened: the client must not wait for an answer.
        connection::decide(row, Side::Server, Verdict::Plain(Reason::PEERDECL));
        return Err(Reason::PEERDECL);
    }
    Ok(Found { row, cookie: client.cookie, side: Side::Server, at })
}

/// The kernel could not be asked who the client is: it must not wait for an answer.
fn refuse_unasked(client: Endpoint, errno: os::Errno) -> Reason {
    if !errno.is_shortage() {
        return Reason::PEERNOSMC;
    }
    if let Some(row) = connection::find_at(client) {
        connection::decide(row, Side::Server, Verdict::Plain(Reason::MEM));
    }
    Reason::MEM
}

/// Joins the holders of a side; `false` if the slot serves another connection by now. `is_first`: the hold was counted by
/// the client already.
fn takes_side(view: &fabric::slot::SlotView, side: Side, generation: u32, is_first: bool) -> bool {
    let block = &view.header().sides[side as usize];
    member::join(block);
    if view.generation() != generation {
        member::leave(block);
        return false;
    }
    if !is_first {
        block.holders.fetch_add(1, AcqRel);
    }
    block.pid.store(os::process::cached_pid(), Relaxed);
    block.state.store(1, Relaxed);
    true
}

/// Only one server socket can hold a row; several processes may share that socket. Whether this is the first of them.
fn is_first_claim(row: RowId, cookie: u64) -> Result<bool, Reason> {
    let row = connection::row(row).ok_or(Reason::SYNCERR)?;
    match row.server_cookie.compare_exchange(0, cookie, AcqRel, Relaxed) {
        Ok(_) => Ok(true),
        Err(seen) if seen == cookie => Ok(false),
        Err(_) => Err(Reason::SYNCERR),
    }
}

/// A socket that came from another process (exec, SCM_RIGHTS): decided at its first use, whichever end it is. Duplicates are
/// one connection: who closes one of them goes on with the other.
pub fn adopt(fd: i32) {
    let is_connected = net::is_tcp(fd) && net::peer(fd).is_ok();
    if !is_connected || registry::existing().is_err() {
        return;
    }
    crate::options::note_unseen_options();
    attach::note_adopted();
    let inode = os::fd::identity(fd).map_or(0, |(_, inode)| inode);
    if crate::enter::join_adopted(fd, inode) {
        return;
    }
    if let Some(held) = enter(fd, Event::Accepted) {
        held.inode.store(inode, core::sync::atomic::Ordering::Relaxed);
    }
}

/// Writes down who holds the side, and where its ends are, for the day the slot is wanted again and someone died without
/// letting go.
fn note_end(conn: &Conn, fd: i32, at: Addresses, is_unshared: bool) {
    let is_nonblocking = if is_unshared { conn.has(flag::NONBLOCKING) } else { os::fd::is_nonblocking(fd) };
    conn.see_nonblocking(is_nonblocking);
    if let Some(end) = End::of(conn) {
        end.tell_nonblocking(is_nonblocking);
    }
    if let Some(view) = conn.view() {
        let (client, server) =
            if conn.side() == Side::Client { (at.local, at.peer) } else { (at.peer, at.local) };
        attach::note_addresses(view, client, server);
    }
    let Some(me) = registry::mapped().and_then(process::me) else { return };
    let inode = os::fd::identity(fd).map_or(0, |(_, inode)| inode as u32);
    connection::note_side(conn.row(), conn.side(), me, at.local, inode);
}
