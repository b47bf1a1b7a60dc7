//! The decision about an accepted socket. Owns: the order of a claim: find the client's intent, map its
//! memory, open the doorbells, and only then swap the word.

use crate::conn::Conn;
use crate::conn::link::Tie;
use crate::end::End;
use crate::flag::{self, Flags};
use crate::here::fabric;
use crate::phase::{Event, Phase};
use crate::{answer, detour, far, handover, handshake, ready, records, watch};
use fabric::Reason;
use fabric::door::{Directory as _, Life as _};
use fabric::fallback::What;
use fabric::host::marks::{Arrived, Carried};
use fabric::rows::RowId;
use fabric::slot::SlotView;
use fabric::verdict::Verdict;
use os::net::Endpoint;
use os::{Errno, diag, net};
use shm::slab::Index;
use shm::{ClosedBy, Side};
use sync::Ordering::{AcqRel, Relaxed, Release};

/// An undecided socket stays on TCP for good, unless another process that shares it has said SMC.
pub(crate) fn refuse_accepted(conn: &Conn, fd: i32) {
    {
        let Some(_turn) = conn.interest.turn.take() else {
            decline_within(conn, fd);
            return;
        };
        if conn.phase() != Phase::Accepted || !ready::is_in_the_table(conn, fd) {
            return;
        }
        far::refuse(fd);
        let is_to_be_heard = handover::was_said_of(fd);
        let plain = Verdict::Plain(Reason::OPTUNSUPP);
        // (What came over exec, or was passed, may be anybody's end.)
        let stands =
            find(fd, !is_unshared(conn)).map(|found| fabric().rows().decide(found.row, found.side, plain));
        if let Ok(Verdict::Plain(reason)) | Err(reason) = stands
            && !is_to_be_heard
        {
            conn.transition(Event::Refused);
            note_plain(conn, fd, reason);
            return;
        }
    }
    // Another process that shares the socket has said SMC, or has left bytes: this one follows.
    decide(conn, fd);
}

/// The first use: SMC if the client offered memory that can be had, TCP otherwise.
pub(crate) fn decide(conn: &Conn, fd: i32) -> Phase {
    let Some(_turn) = conn.interest.turn.take() else {
        decline_within(conn, fd);
        return conn.phase();
    };
    // (Who closes the number waits for the turn: it stays this connection's until the end.)
    if conn.phase() != Phase::Accepted || !ready::is_in_the_table(conn, fd) {
        return conn.phase();
    }
    // (While another thread changes the credentials nothing new begins; what another process has begun is
    // followed.)
    let using = fabric().using();
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

/// A handler uses the socket in the middle of its own thread's decision, which cannot go on before it
/// returns. What it does goes to TCP, so TCP it is, unless the word has been swapped already.
#[cold]
fn decline_within(conn: &Conn, fd: i32) {
    if conn.phase() == Phase::Accepted {
        let _ = declined(fd);
    }
}

/// Says TCP to whoever offered something, and why it is TCP; `None` if SMC has been said already.
fn declined(fd: i32) -> Option<Reason> {
    far::refuse(fd);
    let plain = Verdict::Plain(Reason::OPTUNSUPP);
    match find(fd, true).map(|found| fabric().rows().decide(found.row, found.side, plain)) {
        Ok(Verdict::Smc) => None,
        Ok(Verdict::Plain(reason)) | Err(reason) => Some(reason),
    }
}

/// Counts and tells what became of an accepted socket. One that came from another process (no era of ours)
/// may be anybody's end, and was counted there.
fn note_plain(conn: &Conn, fd: i32, reason: Reason) {
    if conn.role.era.load(sync::Ordering::Relaxed) != 0 {
        fabric().stays_on_tcp(fd, What::Connection(Side::Server), reason);
    } else {
        leave_out_overflow(fd);
    }
}

/// A socket that came from another process, and whose ring cannot be had (the connection was reset on the
/// way, say). What came by TCP behind bytes in the ring would be a stream with a gap; without it the program
/// finds how the connection ended, or that it has.
#[cold]
pub(crate) fn leave_out_overflow(fd: i32) {
    let left = net::readable_bytes(fd);
    if left == 0 || !net::cookie(fd).is_ok_and(|cookie| fabric().rows().is_end(cookie)) {
        return;
    }
    match net::peer(fd) {
        Ok(_) => net::abort(fd),
        Err(_) => _ = net::discard(fd, left, net::msg::DONTWAIT),
    }
}

/// Whether this process has accepted the socket, and not forked since.
fn is_unshared(conn: &Conn) -> bool {
    conn.role.era.load(Relaxed) == crate::era::now()
}

/// The slot is another connection's than its row says.
fn contradicted(row: RowId, side: Side, view: &SlotView) -> Reason {
    fabric().detach(view);
    fabric().rows().decide(row, side, Verdict::Plain(Reason::SYNCERR));
    Reason::SYNCERR
}

/// PEERNOSMC: nobody ever offered anything for this connection.
fn claim(conn: &Conn, fd: i32) -> Result<Event, Reason> {
    if os::inherited::has_words()
        && let Some(said) = handover::hear(fd)
    {
        dissolve_known(fd);
        return said.and_then(|said| take_up_said(conn, fd, &said));
    }
    if let Some(host) = fabric().tier().host()
        && let Some(arrived) = host.take_arrived(fd)
    {
        return match arrived {
            Arrived::Offer(carried) => {
                claim_carried(conn, fd, &carried).inspect_err(|_| host.decline(&carried))
            }
            Arrived::Refused(reason) => Err(reason),
        };
    }
    let rows = fabric().rows();
    // Nothing pending means nobody offered anything, unless another process shares the socket and answered
    // already.
    let is_unshared = is_unshared(conn);
    if is_unshared && !rows.any_pending() {
        return Err(Reason::PEERNOSMC);
    }
    let found = find_open(fd, !is_unshared)?;
    let opened = fabric().attach(found.row);
    let opened = opened.map_err(|reason| refuse_without_memory(fd, &found, reason))?;
    take_up(conn, fd, &found, opened)
}

/// A client that shares no registry with this process: its offer came with the SYN, by the kernel's word. The
/// memory is had, and the slot is that connection's, before the row in it is looked at.
#[cold]
fn claim_carried(conn: &Conn, fd: i32, carried: &Carried) -> Result<Event, Reason> {
    let at = Addresses::of(fd).ok_or(Reason::PEERNOSMC)?;
    let (index, view) = fabric().attach_carried(carried)?;
    let row = fabric().rows().in_slot(index, view);
    // (What was taken back stays so; what is another connection's by now never was ours.)
    let refused = match view.generation() == carried.generation {
        true => view.segment().is_revoked().then_some(Reason::NOSMCDDEV),
        false => Some(Reason::SYNCERR),
    };
    if let Some(reason) = refused {
        fabric().detach(view);
        return Err(reason);
    }
    let found = Found { row, cookie: carried.cookie, side: Side::Server, at, is_open: false };
    take_up(conn, fd, &found, (index, view))
}

/// What was in memory for `fd` was said, and is nowhere else: its row, which the program before this one may
/// not have had any more, leads nobody there.
#[cold]
fn dissolve_known(fd: i32) {
    if let Some((row, cookie, side)) = net::cookie(fd).ok().and_then(find_by_own) {
        fabric().rows().dissolve_side(row, cookie, side);
    }
}

/// What is left of a connection that is back on TCP, by the word of the program before this one.
#[cold]
fn take_up_said(conn: &Conn, fd: i32, said: &handover::Said) -> Result<Event, Reason> {
    let row = fabric().rows().in_slot(said.index, said.view);
    let [local, peer] = said.ends;
    let at = Addresses::of(fd).unwrap_or(Addresses { local, peer });
    let found = Found { row, cookie: said.client_cookie, side: said.side, at, is_open: false };
    let taken_up = take_up(conn, fd, &found, (said.index, said.view))?;
    if !said.is_others {
        conn.unmark(flag::UNCOUNTED);
    }
    Ok(taken_up)
}

/// The client's memory and doorbells are here: what is answered.
#[inline(always)]
fn take_up(
    conn: &Conn,
    fd: i32,
    found: &Found,
    (index, view): (Index, &'static SlotView),
) -> Result<Event, Reason> {
    let rows = fabric().rows();
    let Found { row, cookie, side, at, is_open } = *found;
    let is_unshared = is_unshared(conn);
    let generation = view.generation();
    if view.header().client_cookie.load(Relaxed) != cookie {
        return Err(contradicted(row, side, view));
    }
    let own_cookie = net::cookie(fd).unwrap_or(0);
    let answer = match side {
        Side::Server if rows.verdict(row).is_none() => Some(handshake::answer(view, own_cookie)),
        _ => None,
    };
    let stands = match (side, &answer) {
        (Side::Client, _) => rows.verdict(row),
        (Side::Server, Some(Err(reason))) => Some(rows.decide(row, side, Verdict::Plain(*reason))),
        (Side::Server, _) => {
            // Before the client knows: it may have sent all it has, and closed, the moment after, and the
            // row is to be there still for the program that this one becomes.
            note_row(row, side, fd, at);
            Some(rows.decide(row, side, Verdict::Smc))
        }
    };
    match stands {
        Some(Verdict::Plain(reason)) => {
            fabric().detach(view);
            rows.close_side(row, cookie, Side::Server);
            return Err(reason);
        }
        None => {
            // The client's end, come from another process before the server has answered.
            if !takes_side(view, side, generation, false) {
                fabric().detach(view);
                return Err(Reason::SYNCERR);
            }
            conn.mark(flag::ATTACHED | flag::ESTABLISHED | flag::UNCOUNTED);
            conn.tie(Tie { side, row, view: index, cookie, generation });
            note_end(conn, fd, at, is_unshared);
            note_row(row, side, fd, at);
            answer::expect_answer(conn);
            return Ok(Event::Offered);
        }
        Some(Verdict::Smc) if answer.is_none() && is_home(view, side) => {
            // (Who had it before could not say so in the row: he had left the registry.)
            ready::tell_of_unread(view, side, fd);
            fabric().detach(view);
            rows.dissolve_side(row, cookie, side);
            return Err(Reason::PEERNOSMC);
        }
        Some(Verdict::Smc) => {}
    }
    let is_first = side == Side::Server && is_first_claim(row, own_cookie)?;
    if !takes_side(view, side, generation, is_first) {
        // The client has reset the connection since, and lent the slot again.
        fabric().detach(view);
        return Err(Reason::SYNCERR);
    }
    conn.mark(flag::ATTACHED | flag::ESTABLISHED | if is_unshared { Flags::NONE } else { flag::UNCOUNTED });
    conn.see_options(fd);
    conn.tie(Tie { side, row, view: index, cookie, generation });
    note_end(conn, fd, at, is_unshared);
    if side == Side::Client {
        note_row(row, side, fd, at);
    }
    match is_first && is_unshared {
        true => conn.note_exclusive(),
        false => watch::note_shared(),
    }
    if is_open {
        conn.note_quiet_tcp();
    }
    if is_first {
        fabric().totals().upgraded(Side::Server);
        welcome(view, own_cookie, answer.and_then(Result::ok));
    }
    Ok(Event::Shared)
}

/// Whether both directions are on TCP for good, and `side` has read all that was in memory: whoever gets its
/// socket is to find nothing there.
fn is_home(view: &SlotView, side: Side) -> bool {
    let incoming = view.incoming(side);
    incoming.has_ended_for_good() && incoming.is_at_end() && view.outgoing(side).has_ended_for_good()
}

/// The claim is won, and the slot is ours: what was put off until now.
fn welcome(view: &SlotView, own_cookie: u64, answer: Option<handshake::Answer>) {
    if let Some(answer) = answer {
        answer.send(view);
    }
    view.header().server_cookie.store(own_cookie, Release);
    // A client that waits for the answer, since TCP takes no more, sleeps on its doorbell.
    if view.incoming(Side::Server).words().space_wait.0.take_ring().bell() {
        os::pipe::ring(view.bell(Side::Client));
    }
}

/// Another process may have answered before, and we cannot follow: better a reset than a peer that waits for
/// ever. But for a connection that is back on TCP.
#[cold]
fn refuse_without_memory(fd: i32, found: &Found, reason: Reason) -> Reason {
    let Found { row, cookie, side, .. } = *found;
    let rows = fabric().rows();
    let is_shared = rows.decide(row, side, Verdict::Plain(reason)) == Verdict::Smc;
    if is_shared && (rows.is_dissolved(row, side) || rows.was_emptied(row)) {
        rows.dissolve_side(row, cookie, side);
        return Reason::PEERNOSMC;
    }
    if is_shared {
        net::abort(fd);
    }
    reason
}

struct Found {
    row: RowId,
    cookie: u64,
    side: Side,
    at: Addresses,
    /// By the kernel's word, a moment ago, the peer's stream goes on.
    is_open: bool,
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

    /// Whether both are plainly this host's. (One that has several addresses may use two of them.)
    fn are_here(&self) -> bool {
        let is_loopback = self.peer.family == net::AF_INET && self.peer.addr[0] == 127;
        is_loopback || self.local.addr == self.peer.addr
    }
}

/// As [`find`]; PEERNOSMC also for one that was shared at this end, and is back on TCP.
fn find_open(fd: i32, may_be_anothers: bool) -> Result<Found, Reason> {
    let found = find(fd, may_be_anothers)?;
    match fabric().rows().is_dissolved(found.row, found.side) {
        true => Err(Reason::PEERNOSMC),
        false => Ok(found),
    }
}

/// The row of the connection `fd` is an end of. An inherited or passed socket may also be the client's end,
/// or one that was taken up before.
/// Reasons: PEERNOSMC if there is none, PEERDECL for another user's, MEM or NOSMCDDEV if the kernel cannot be
/// asked.
fn find(fd: i32, may_be_anothers: bool) -> Result<Found, Reason> {
    /// Of net/tcp_states.h.
    const ESTABLISHED: u8 = 1;
    const LISTEN: u8 = 10;
    fabric().tier().mapped().ok_or(Reason::PEERNOSMC)?;
    let Some(at) = Addresses::of(fd) else {
        return if may_be_anothers { find_ended(fd) } else { None }.ok_or(Reason::PEERNOSMC);
    };
    if may_be_anothers
        && let Ok(cookie) = net::cookie(fd)
        && let Some(row) = find_own(cookie)
    {
        return Ok(Found { row, cookie, side: Side::Client, at, is_open: false });
    }
    let client = match diag::lookup_beside(fd, at.peer, at.local) {
        // (Instead of none it names whoever listens at the client's port.)
        Err(Errno::ENOENT) | Ok(diag::Found { state: LISTEN, .. }) if may_be_anothers && at.are_here() => {
            return find_served(fd, at);
        }
        // (In another network namespace the addresses of an offer mean somebody else.)
        Err(Errno::EXDEV) if may_be_anothers => return find_served(fd, at),
        Err(Errno::EXDEV) => return Err(Reason::PEERNOSMC),
        asked => asked.map_err(|errno| refuse_unasked(at, errno))?,
    };
    let row = fabric().rows().find(client.cookie).ok_or(Reason::PEERNOSMC)?;
    // (Of a socket without a descriptor older kernels tell no owner.)
    if client.inode != 0 && client.uid != os::process::euid() {
        // This process has changed its user since it listened: the client must not wait for an answer.
        fabric().rows().decide(row, Side::Server, Verdict::Plain(Reason::PEERDECL));
        return Err(Reason::PEERDECL);
    }
    Ok(Found { row, cookie: client.cookie, side: Side::Server, at, is_open: client.state == ESTABLISHED })
}

/// Whether `fd` is an end of a connection that is shared, and whose memory is to be had.
pub(crate) fn has_memory(fd: i32) -> bool {
    let Some(_using) = fabric().using() else { return false };
    let Ok(found) = find_open(fd, true) else { return false };
    let is_shared = fabric().rows().verdict(found.row) == Some(Verdict::Smc);
    is_shared && fabric().attach(found.row).map(|(_, view)| fabric().detach(view)).is_ok()
}

/// The row of the client whose socket has this cookie, if it is that connection's still.
fn find_own(cookie: u64) -> Option<RowId> {
    let rows = fabric().rows();
    rows.find(cookie).filter(|row| !rows.is_dissolved(*row, Side::Client))
}

/// Row, client's cookie and side of the connection of which the socket with the cookie `own` is an end.
fn find_by_own(own: u64) -> Option<(RowId, u64, Side)> {
    let served = || fabric().rows().find_served(own).map(|(row, cookie)| (row, cookie, Side::Server));
    find_own(own).map(|row| (row, own, Side::Client)).or_else(served)
}

/// The same by the server's own socket, with which the program that had it before has signed the row. The
/// kernel knows no such client: there is none, or it has closed, and is not found for the moment in which
/// its socket goes to TIME_WAIT (seen once in 200 000 times on Linux 6.18).
#[cold]
fn find_served(fd: i32, at: Addresses) -> Result<Found, Reason> {
    let own = net::cookie(fd).map_err(|_| Reason::PEERNOSMC)?;
    let (row, cookie) = fabric().rows().find_served(own).ok_or(Reason::PEERNOSMC)?;
    Ok(Found { row, cookie, side: Side::Server, at, is_open: false })
}

/// The same of a connection that both ends have ended: the kernel tells no peer any more, and has neither
/// socket in its table. What was sent before is to be read still.
#[cold]
fn find_ended(fd: i32) -> Option<Found> {
    let (row, cookie, side) = find_by_own(net::cookie(fd).ok()?)?;
    let rows = fabric().rows();
    let [local, peer] = [side, side.peer()].map(|side| rows.ends(row).map(|ends| ends[side as usize]));
    Some(Found { row, cookie, side, at: Addresses { local: local?, peer: peer? }, is_open: false })
}

/// Whether `fd` is an end of such a connection.
pub(crate) fn has_ended(fd: i32) -> bool {
    net::is_unconnected_tcp(fd) && find_ended(fd).is_some()
}

/// The kernel could not be asked who the client is: it must not wait for an answer. (Nor must another one
/// that does not know its own address yet, for it may be this.)
fn refuse_unasked(at: Addresses, errno: os::Errno) -> Reason {
    let reason = fabric::unasked::reason(errno);
    if reason == Reason::PEERNOSMC {
        return reason;
    }
    fabric()
        .rows()
        .refuse_all(reason, |client, target| client == at.peer || (client.port == 0 && target == at.local));
    reason
}

/// Joins the holders of a side; `false` if the slot serves another connection by now. `is_first`: the hold
/// was counted by the client already.
fn takes_side(view: &SlotView, side: Side, generation: u32, is_first: bool) -> bool {
    let block = &view.header().sides[side as usize];
    fabric().members().join(block);
    if view.generation() != generation {
        fabric().members().leave(block);
        return false;
    }
    if !is_first {
        block.holders.fetch_add(1, AcqRel);
    }
    // (Who held it before may have said that he ends, and nobody after him.)
    block.closed.fetch_and(!ClosedBy::EXIT, AcqRel);
    block.pid.store(os::process::cached_pid(), Relaxed);
    block.state.store(1, Relaxed);
    true
}

/// Only one server socket can hold a row; several processes may share that socket. Whether this is the first
/// of them.
fn is_first_claim(row: RowId, cookie: u64) -> Result<bool, Reason> {
    let row = fabric().rows().row(row).ok_or(Reason::SYNCERR)?;
    match row.server_cookie.compare_exchange(0, cookie, AcqRel, Relaxed) {
        Ok(_) => Ok(true),
        Err(seen) if seen == cookie => Ok(false),
        Err(_) => Err(Reason::SYNCERR),
    }
}

/// Writes down who holds the side, and where its ends are, for the day the slot is wanted again and someone
/// died without letting go.
fn note_end(conn: &Conn, fd: i32, at: Addresses, is_unshared: bool) {
    let is_nonblocking = if is_unshared { conn.has(flag::NONBLOCKING) } else { os::fd::is_nonblocking(fd) };
    conn.see_nonblocking(is_nonblocking);
    if let Some(end) = End::of(conn) {
        end.tell_nonblocking(is_nonblocking);
        detour::see_buffers(conn, &end, fd);
    }
    if let Some(view) = conn.view() {
        let (client, server) =
            if conn.side() == Side::Client { (at.local, at.peer) } else { (at.peer, at.local) };
        view.note_addresses(client, server);
    }
}

/// The same in the row, which stays as long as one of its sides is open.
fn note_row(row: RowId, side: Side, fd: i32, at: Addresses) {
    let Some(me) = fabric().tier().mapped().and_then(|map| fabric().tier().me(map)) else { return };
    let inode = os::fd::identity(fd).map_or(0, |(_, inode)| inode as u32);
    fabric().rows().note_side(row, side, me, at.local, inode);
}
