//! The accepting side: listeners, and sockets that come from one or from another process. Owns: what an
//! announced listener remembers for the program.

use crate::enter::enter;
use crate::here::{Part as _, fabric};
use crate::phase::{Event, Phase};
use crate::{claim, handover};
use fabric::Reason;
use fabric::door::{Directory as _, Memory as _, Rendezvous as _};
use fabric::fallback::What;
use os::net;
use shm::Side;
use sync::AtomicBool;
use sync::Ordering::{AcqRel, Acquire, Release};

/// Whether some socket of a process may have a TCP_DEFER_ACCEPT: else nobody asks for it.
pub(crate) struct Deferral(AtomicBool);

impl Deferral {
    pub(crate) const fn new() -> Self {
        Deferral(AtomicBool::new(false))
    }
}

/// A listener that was announced.
#[derive(Clone, Copy)]
pub struct Announced {
    cookie: u64,
    /// Its TCP_DEFER_ACCEPT, which the kernel has no more.
    deferral: i32,
}

/// The kernel would hold a connection back until TCP bytes arrive, and those of an enabled client never do.
/// That is an optimisation, which the kernel itself gives up after so many seconds: of an announced listener
/// we only remember it.
fn announce(fd: i32) -> Result<Announced, Reason> {
    let cookie = fabric().tier().announce(fd)?;
    let deferral = if Deferral::here().0.load(Acquire) { net::deferral(fd) } else { 0 };
    if deferral > 0 && net::set_deferral(fd, 0).is_err() {
        fabric().tier().forget(cookie, fd);
        return Err(Reason::OPTUNSUPP);
    }
    Ok(Announced { cookie, deferral })
}

/// Before listen(): announces a bound socket, for from that call on clients may come. Who finds it too early
/// finds no listener in the kernel, and connects in vain anyway.
pub fn before_listen(fd: i32) -> Option<Announced> {
    let is_bound = net::is_tcp(fd) && net::local(fd).is_ok_and(|at| at.port != 0);
    if is_bound { announce(fd).ok() } else { None }
}

/// After a listen() that failed: takes back what [`before_listen`] said, unless the socket had been listening
/// before.
pub fn after_failed_listen(fd: i32, announced: Option<Announced>) {
    if let Some(Announced { cookie, deferral }) = announced
        && !net::is_listening(fd)
    {
        fabric().tier().forget(cookie, fd);
        if deferral > 0 {
            let _ = net::set_deferral(fd, deferral);
        }
    }
}

/// After listen(): announces the socket, unless that is done (its cookie).
pub fn after_listen(fd: i32, announced: Option<Announced>) {
    // (Whoever is refused now is tried again when it accepts.)
    if let Err(reason) = listen(fd, announced) {
        fabric().stays_on_tcp(fd, What::Listener, reason);
    }
}

/// A listener that wants what only TCP can do.
pub fn refuse_listener(fd: i32, reason: Reason) {
    if !fabric().tier().has_left() {
        // The registry holds the reason: a program that listens makes one as it would for any other listener.
        let _ = fabric().tier().existing_or_new();
    }
    fabric().stays_on_tcp(fd, What::Listener, reason);
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
    held.role.listener.store(cookie, sync::Ordering::Relaxed);
    held.role.era.store(crate::era::now(), sync::Ordering::Relaxed);
    held.role.port.store(net::local(fd).map_or(0, |at| at.port), sync::Ordering::Relaxed);
    held.role.deferral.store(u16::try_from(deferral.max(0)).unwrap_or(u16::MAX), sync::Ordering::Relaxed);
    Ok(())
}

/// The era of a listener that another process may have announced, whose end takes it out of the registry.
const ANOTHERS: u64 = 0;

/// A connection was taken from a listener: a child that gave its user up withdrew it, if it had a copy, and
/// then perhaps became another program that has nothing to do with it; or the process that announced it has
/// ended. Whoever accepts himself announces it anew.
pub fn announce_again(fd: i32) {
    let Some(conn) = crate::held::hold(fd) else { return };
    let port = conn.role.port.load(sync::Ordering::Relaxed);
    let cookie = conn.role.listener.load(sync::Ordering::Relaxed);
    let era = conn.role.era.load(sync::Ordering::Relaxed);
    let has_forked = era != crate::era::now();
    let is_here = || match fabric().tier().mapped() {
        Some(_) if era == ANOTHERS => !fabric().tier().is_kept(cookie, port),
        Some(_) => !fabric().tier().is_announced(cookie, port),
        // It was left for want of descriptors.
        None => fabric().tier().has_left() && !os::limits::is_short(),
    };
    if conn.phase() == Phase::Listening && has_forked && is_here() {
        let _ = fabric().tier().announce(fd);
    }
}

/// TCP_DEFER_ACCEPT is about to be set. Whether it is an announced listener's, and done with.
pub fn defer(fd: i32, seconds: i32) -> bool {
    let Some(conn) = crate::held::hold(fd).filter(|conn| conn.phase() == Phase::Listening) else {
        Deferral::here().0.fetch_or(seconds > 0, AcqRel);
        return false;
    };
    conn.role
        .deferral
        .store(u16::try_from(rounded_deferral(seconds)).unwrap_or(u16::MAX), sync::Ordering::Relaxed);
    true
}

/// What the kernel makes of so many seconds: a number of retransmissions (255 at most), each after twice the
/// time of the one before it, the first after a second, none after more than two minutes (TCP_RTO_MAX).
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
    Some(conn.role.deferral.load(sync::Ordering::Relaxed).into())
}

/// Whether the kernel waits for data with the last word of this client's handshake, as TCP_DEFER_ACCEPT has
/// it there.
pub(crate) fn is_deferring_client(fd: i32) -> bool {
    Deferral::here().0.load(Acquire) && net::deferral(fd) > 0
}

/// A listener that came over exec: what its former program set is inherited by what it accepts.
pub fn adopt_listener(fd: i32) -> Result<(), Reason> {
    Deferral::here().0.store(true, Release);
    crate::options::note_unseen_options();
    listen(fd, None)?;
    if let Some(conn) = crate::held::hold(fd) {
        conn.role.era.store(ANOTHERS, sync::Ordering::Relaxed);
    }
    Ok(())
}

/// From now on what a listener accepts stays on TCP. Whether `fd` is one.
pub fn stop(fd: i32) -> bool {
    let Some(conn) = crate::held::hold(fd).filter(|conn| conn.phase() == Phase::Listening) else {
        return false;
    };
    if let Ok(at) = net::local(fd) {
        fabric().tier().withdraw(conn.role.listener.load(sync::Ordering::Relaxed), at);
    }
    conn.transition(Event::Withdrawn);
    true
}

/// Why what `listener` accepts stays on TCP, if it does.
pub fn why_refused(listener: i32) -> Option<Reason> {
    let is_stopped = || crate::held::hold(listener).is_some_and(|conn| conn.phase() == Phase::Plain);
    crate::table::refusal(listener).or_else(|| is_stopped().then_some(Reason::OPTUNSUPP))
}

/// A connection that a refused listener has accepted. (A client that came before it was refused has made an
/// offer, and waits.)
pub fn refuse_unseen(listener: i32, fd: i32, reason: Reason) {
    if crate::table::refusal(listener).is_none() {
        after_accept(fd, false);
        return crate::decide::refuse(fd);
    }
    fabric().stays_on_tcp(fd, What::Connection(Side::Server), reason);
}

/// A connection that an announced listener has accepted.
pub fn accepted(listener: i32, fd: i32, is_nonblocking: bool) {
    after_accept(fd, is_nonblocking);
    if crate::unseen::has_accepted_unseen(listener) {
        crate::decide::refuse(fd);
    }
}

/// After accept(): the new socket is looked at when it is first used, by whoever uses it.
/// (An accepted socket does not inherit O_NONBLOCK: accept4 says whether it has it.)
fn after_accept(fd: i32, is_nonblocking: bool) {
    crate::abandoned::end_what_is_over();
    if let Some(held) = enter(fd, Event::Accepted) {
        held.see_nonblocking(is_nonblocking);
        held.role.era.store(crate::era::now(), sync::Ordering::Relaxed);
    }
}

/// A socket that was passed: what lies in memory for it is taken up at once. Who passed it may end, and this
/// process lose the means (its user, its limits, its root) before it uses the socket. (Where it cannot be
/// had now, its first use may find it, and nothing is said: who only keeps sockets harms none.)
pub fn adopt_passed(fd: i32) {
    adopt(fd);
    take_up_shared(fd);
    let _ = crate::epoll::note_received(fd);
}

fn take_up_shared(fd: i32) {
    let is_undecided = || crate::held::hold(fd).is_some_and(|held| held.phase() == Phase::Accepted);
    if is_undecided() && claim::has_memory(fd) {
        let _ = crate::decide::in_use(fd);
    }
}

/// At the start of a program, of each number that is open. With the first socket of TCP, what was kept open
/// for such becomes ours before the program can close it.
pub fn adopt_inherited(fd: i32) {
    if !is_conversation(fd) {
        return;
    }
    if !os::inherited::were_looked_for() {
        fabric().tier().note_adopted();
        fabric().tier().take_over_inherited();
    }
    // (A word needs no directory: who left it may have been another user.)
    let was_said = handover::was_said_of(fd);
    if was_said || fabric().tier().existing().is_ok() {
        adopt_known(fd, was_said);
    }
    // (At once: another program that this one starts is not to hear it.)
    if was_said {
        let _ = crate::decide::in_use(fd);
    }
}

/// Before this process gives up what it would need to find a connection that it got at its start: what lies
/// in memory is taken up. It may never touch the socket, and become another program, which finds nothing:
/// then it says what is left, as any that has used it.
pub fn take_up_inherited() {
    if os::inherited::were_looked_for() {
        for (fd, held) in crate::held::connections() {
            let is_inherited = held.role.era.load(sync::Ordering::Relaxed) == 0;
            if is_inherited {
                take_up_shared(fd);
            }
        }
    }
}

/// A socket that came from another process: decided at its first use, whichever end it is.
pub fn adopt(fd: i32) {
    if is_conversation(fd) && fabric().tier().existing().is_ok() {
        adopt_known(fd, false);
    }
}

fn is_conversation(fd: i32) -> bool {
    net::is_tcp(fd) && !net::is_listening(fd)
}

/// Duplicates are one connection: who closes one of them goes on with the other.
fn adopt_known(fd: i32, was_said: bool) {
    if net::peer(fd).is_err() && !was_said && !claim::has_ended(fd) {
        claim::leave_out_overflow(fd);
        return;
    }
    crate::options::note_unseen_options();
    fabric().tier().note_adopted();
    let inode = os::fd::identity(fd).map_or(0, |(_, inode)| inode);
    if crate::enter::join_adopted(fd, inode) {
        return;
    }
    if let Some(held) = enter(fd, Event::Accepted) {
        held.role.inode.store(inode, sync::Ordering::Relaxed);
    }
}
