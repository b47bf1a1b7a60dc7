//! The answer to an intent: looked for, taken note of, or made PLAIN by giving the intent up. Owns: how long
//! it is waited for. What was written meanwhile is on TCP (`shm::detour`), where either answer finds it.

use crate::conn::Conn;
use crate::end::End;
use crate::here::fabric;
use crate::phase::{Event, Phase};
use crate::{detour, doorbell, far, flag, handshake, ready, records, watch};
use fabric::Reason;
use fabric::host::marks::Told;
use fabric::verdict::Verdict;
use os::net::{self, TcpInput, msg};
use os::poll::bits;
use os::time::Cycles;
use os::{Errno, diag};
use shm::Side;
use sync::Ordering;
use sync::Ordering as Shared;

/// How long an intent may stay unanswered: far longer than a busy server takes to accept, short enough for
/// the rare listener whose connections are served by a program without the library. (Reading the counter
/// costs less than a clock.)
const PATIENCE: Cycles = Cycles::from_ms(1_000);
/// Where the kernel has said that the other end takes part, and cannot be asked whether it was accepted yet.
const FAR_PATIENCE: Cycles = Cycles::from_ms(3_000);
/// For who was late with the first look already.
const SECOND_PATIENCE: Cycles = Cycles::from_ms(500);
/// How often somebody who waits for the answer has looked for it by then: one who hardly got to run in that
/// time knows that the server did not either (500 processes that start at once on two CPUs).
const PATIENCE_LOOKS: u8 = 30;

/// The intent stands; from now on the answer is waited for.
pub(crate) fn expect_answer(conn: &Conn) {
    if let (Some(target), Some(offered)) = (fabric().rows().target(conn.row()), conn.view()) {
        conn.role.lesson.store(fabric().lesson(target, offered), Ordering::Relaxed);
    }
    begin_to_wait(conn);
    watch::intent_began();
}

fn begin_to_wait(conn: &Conn) {
    conn.role.looks.store(0, Ordering::Relaxed);
    let patience = if far::is_far(conn) { FAR_PATIENCE } else { PATIENCE };
    Cycles::now().plus(patience).store(&conn.role.deadline);
}

pub(crate) fn note_local(conn: &Conn, fd: i32) {
    let (Ok(at), Some(view)) = (net::local(fd), conn.view()) else { return };
    fabric().rows().note_client_address(conn.row(), at.unmapped());
    if let Some(server) = fabric().rows().target(conn.row()) {
        view.note_addresses(at.unmapped(), server.unmapped());
    }
}

/// Whether connect() has completed; marks failure as PLAIN so that libc reports it.
pub(crate) fn is_established(conn: &Conn, fd: i32) -> bool {
    if conn.has(flag::ESTABLISHED) {
        return true;
    }
    let ready = os::poll::peek(fd, bits::OUT);
    if ready & (bits::ERR | bits::HUP) != 0 {
        retract(conn, fd, Reason::PEERNOSMC);
        return true;
    }
    if ready & bits::OUT == 0 {
        return false;
    }
    established(conn, fd);
    true
}

/// connect() has completed. Where only the kernel knows whether the other end takes part, it has said so now.
#[inline]
pub(crate) fn established(conn: &Conn, fd: i32) {
    conn.mark(flag::ESTABLISHED);
    note_local(conn, fd);
    if conn.phase() == Phase::Intent
        && let Some(told) = far::unanswered(conn)
    {
        give_up_far(conn, fd, told);
    }
}

/// The kernel, or the daemon, has said that there is no answer.
#[cold]
fn give_up_far(conn: &Conn, fd: i32, told: Told) -> Phase {
    match told {
        // (Of one connection: the next one to the same address is asked for anew, and waits for nobody.)
        Told::Refused(reason) => retract(conn, fd, reason),
        Told::Declined => {
            far::was_declined();
            give_up_target(conn, fd, Reason::PEERDECL)
        }
        _ => give_up_target(conn, fd, Reason::PEERNOSMC),
    }
}

/// Nobody will answer; nor will whoever is at the same address, for a while.
#[cold]
fn give_up_target(conn: &Conn, fd: i32, reason: Reason) -> Phase {
    let phase = retract(conn, fd, reason);
    if phase == Phase::Plain
        && let (Some(target), Some(offered)) = (fabric().rows().target(conn.row()), conn.view())
    {
        fabric().doubt(target, offered, conn.role.lesson.load(Ordering::Relaxed));
    }
    phase
}

/// Whoever is at the address takes up what he is offered.
#[cold]
fn trust_target(conn: &Conn) {
    if let (Some(target), Some(offered)) = (fabric().rows().target(conn.row()), conn.view()) {
        fabric().trust(target, offered);
    }
}

/// Looks whether the intent was answered, or must be given up. Returns the phase that holds now.
pub(crate) fn refresh(conn: &Conn, fd: i32) -> Phase {
    if conn.phase() != Phase::Intent {
        return conn.phase();
    }
    match fabric().rows().verdict(conn.row()) {
        Some(Verdict::Smc) => became_smc(conn, fd),
        Some(Verdict::Plain(_)) => become_plain(conn),
        None => {
            let looks = conn.role.looks.fetch_add(1, Ordering::Relaxed);
            refresh_unanswered(conn, fd, is_late(conn) && looks >= PATIENCE_LOOKS)
        }
    }
}

/// As [`refresh`], at the price of a glance: TCP itself is asked only once the answer is late. For calls that
/// go on whatever the answer is; those that wait ask properly.
#[inline]
pub(crate) fn glance(conn: &Conn, fd: i32) -> Phase {
    match fabric().rows().verdict(conn.row()) {
        None if !is_late(conn) => conn.phase(),
        None if conn.role.looks.fetch_add(1, Ordering::Relaxed) == 0 && !is_late_by(conn, PATIENCE) => {
            // Late is the first look itself: this process got no CPU, and nor may the server have.
            Cycles::now().plus(SECOND_PATIENCE).store(&conn.role.deadline);
            conn.phase()
        }
        None => refresh_unanswered(conn, fd, true),
        Some(_) => refresh(conn, fd),
    }
}

fn is_late(conn: &Conn) -> bool {
    is_late_by(conn, Cycles::NONE)
}

fn is_late_by(conn: &Conn, by: Cycles) -> bool {
    Cycles::now().is_after(Cycles::load(&conn.role.deadline).plus(by))
}

fn refresh_unanswered(conn: &Conn, fd: i32, is_late: bool) -> Phase {
    // TCP bytes from the server: it speaks TCP (a program without the library inherited the connection).
    if is_late && is_established(conn, fd) {
        if waits_to_be_accepted(fd) {
            begin_to_wait(conn);
            return conn.phase();
        }
        return give_up_target(conn, fd, Reason::PEERNOSMC);
    }
    if far::is_far(conn)
        && is_established(conn, fd)
        && let Some(told) = far::unanswered(conn)
    {
        return if conn.phase() == Phase::Intent { give_up_far(conn, fd, told) } else { conn.phase() };
    }
    match if conn.has(flag::ESTABLISHED) { net::tcp_input(fd) } else { TcpInput::Quiet } {
        TcpInput::Quiet => conn.phase(),
        // It answers what was written early.
        TcpInput::Data if End::of(conn).is_some_and(|end| end.outgoing.begun_with() > 0) => {
            give_up_target(conn, fd, Reason::PEERNOSMC)
        }
        _ => retract(conn, fd, Reason::PEERNOSMC),
    }
}

/// Whether no program has the server's socket yet: its process is busy, and answers when it comes to it. (It
/// has no inode.)
fn waits_to_be_accepted(fd: i32) -> bool {
    /// TCP_ESTABLISHED, TCP_SYN_RECV, TCP_CLOSE_WAIT, TCP_NEW_SYN_RECV of net/tcp_states.h.
    const OPEN: [u8; 4] = [1, 3, 8, 12];
    let (Ok(local), Ok(peer)) = (net::local(fd), net::peer(fd)) else { return false };
    let found = diag::lookup_beside(fd, peer.unmapped(), local.unmapped());
    found.is_ok_and(|socket| socket.inode == 0 && OPEN.contains(&socket.state))
}

fn became_smc(conn: &Conn, fd: i32) -> Phase {
    // Several threads may see the answer at once; one of them does the work.
    let Ok(_turn) = registration_turn(conn) else { return conn.phase() };
    if share(conn, fd) {
        records::convert(conn);
    }
    conn.phase()
}

/// Takes note of SMC; whether that was news: then the registrations, whose turn the caller has, are to be
/// told.
fn share(conn: &Conn, fd: i32) -> bool {
    let is_news = conn.phase() == Phase::Intent;
    if is_news {
        if !conn.has(flag::ESTABLISHED) {
            conn.mark(flag::ESTABLISHED);
            note_local(conn, fd);
        }
        let end = End::of(conn);
        if let Some(end) = &end {
            end.mine().state.store(1, Shared::Relaxed);
            detour::see_buffers(conn, end, fd);
        }
        conn.transition(Event::Shared);
        watch::intent_ended();
        if far::is_far(conn) {
            trust_target(conn);
        }
        far::forget(conn.row(), conn.cookie());
        if let Some(end) = &end
            && handshake::confirm(end.view, conn.cookie()).is_err()
        {
            ready::break_off(conn, end, fd);
        }
        fabric().totals().upgraded(Side::Client);
    }
    is_news
}

fn registration_turn(conn: &Conn) -> Result<fabric::turn::Guard<'_>, Errno> {
    conn.interest.turn.take().ok_or(Errno::EAGAIN)
}

/// Gives the intent up, unless the server was faster. Returns the phase that holds now.
pub(crate) fn retract(conn: &Conn, fd: i32, reason: Reason) -> Phase {
    match fabric().rows().decide(conn.row(), Side::Client, Verdict::Plain(reason)) {
        Verdict::Smc => became_smc(conn, fd),
        Verdict::Plain(_) => become_plain(conn),
    }
}

/// The same where connect() failed: there is no connection that could stay on TCP.
pub(crate) fn retract_unmade(conn: &Conn, fd: i32) {
    match fabric().rows().decide(conn.row(), Side::Client, Verdict::Plain(Reason::PEERNOSMC)) {
        Verdict::Smc => _ = became_smc(conn, fd),
        Verdict::Plain(_) => _ = is_plain_now(conn),
    }
}

/// The verdict is PLAIN: the socket is libc's.
fn become_plain(conn: &Conn) -> Phase {
    if is_plain_now(conn)
        && let Some(Verdict::Plain(reason)) = fabric().rows().verdict(conn.row())
    {
        fabric().stays_by_verdict(Side::Client, reason);
    }
    conn.phase()
}

/// Hands the socket to libc. Whether it was not there before.
fn is_plain_now(conn: &Conn) -> bool {
    let is_news = {
        // Several threads may see the answer at once; one of them does the work.
        let Ok(_turn) = registration_turn(conn) else { return false };
        let is_news = conn.phase() == Phase::Intent;
        if is_news {
            conn.transition(Event::Refused);
            watch::intent_ended();
            far::forget(conn.row(), conn.cookie());
            records::convert(conn);
        }
        is_news
    };
    // Sleepers of this process look again and go to libc.
    if is_news
        && conn.interest.has_blocked(Ordering::Acquire)
        && let Some(end) = End::of(conn)
    {
        doorbell::kick(conn, &end);
    }
    is_news
}

pub(crate) fn send_all(fd: i32, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        match net::send_bytes(fd, bytes, msg::NOSIGNAL | msg::DONTWAIT) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(Errno::EAGAIN) => {
                let mut fds = [os::poll::PollFd { fd, events: bits::OUT, revents: 0 }];
                let _ = os::poll::wait_raw(&mut fds, -1);
            }
            Err(Errno::EINTR) => {}
            // Reset or closed meanwhile: TCP would have lost the bytes too, and libc will say so.
            Err(_) => return false,
        }
    }
    true
}
