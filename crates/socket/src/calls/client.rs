//! The connecting side, before connect() and after it. Owns: that the intent stands before the SYN leaves,
//! and leaves nothing behind where it cannot.

use crate::abandoned::{Call, address};
use crate::close::AfterClose;
use crate::conn::link::Tie;
use crate::end::End;
use crate::enter::enter_over;
use crate::held::Held;
use crate::here::fabric;
use crate::phase::{Event, Phase};
use crate::{abandoned, answer, brief, far, flag, handshake, records};
use fabric::door::{Directory as _, Life as _, Rendezvous as _};
use fabric::fallback::What;
use fabric::rows::Intent;
use fabric::verdict::Verdict;
use fabric::{Reason, config, offer};
use os::Errno;
use os::net::{self, Endpoint};
use shm::Side;
use sync::Ordering as Shared;

/// A connect that is TCP's alone; of a TCP socket, why.
#[derive(Clone, Copy)]
pub struct Bare(Option<Reason>);

impl Bare {
    /// After connect(): that the connection stays on TCP is told and counted if there is one, or will be.
    pub fn after_connect(self, fd: i32, outcome: Result<(), Errno>) {
        if let Some(reason) = self.0.filter(|_| !has_failed(outcome)) {
            fabric().stays_on_tcp(fd, What::Connection(Side::Client), reason);
        }
    }
}

fn has_failed(outcome: Result<(), Errno>) -> bool {
    !matches!(outcome, Ok(()) | Err(Errno::EINPROGRESS | Errno::EINTR | Errno::EAGAIN))
}

/// Before connect(): publishes an intent if an enabled listener is at `target`.
pub fn offer(fd: i32, target: Endpoint) -> Result<Held, Bare> {
    abandoned::end_what_is_over();
    // Who has left the registry has none for the reason.
    if crate::table::refusal(fd).is_some() && fabric().tier().has_left() {
        return Err(Bare(None));
    }
    // Datagrams are none of our business, and a second connect() asks what became of the first.
    if !net::is_unconnected_tcp(fd) {
        return Err(Bare(None));
    }
    before_connect(fd, target).map_err(|reason| Bare(Some(reason)))
}

/// A socket connects to `target` in a way that only TCP has.
pub fn connects_by_tcp(fd: i32, target: Endpoint) {
    if !fabric().tier().has_left() && net::is_unconnected_tcp(fd) {
        let reason = fabric().tier().owner_of(fd, target.connectable()).err().unwrap_or(Reason::OPTUNSUPP);
        fabric().stays_on_tcp(fd, What::Connection(Side::Client), reason);
    }
}

fn before_connect(fd: i32, target: Endpoint) -> Result<Held, Reason> {
    let target = target.connectable();
    let owner = fabric().tier().owner_of(fd, target)?;
    let brief_place = brief::place(target).ok_or(Reason::BRIEF)?;
    if let Some(reason) = crate::table::refusal(fd) {
        return Err(reason);
    }
    // Held until the intent stands: credentials do not change in between.
    let _using = fabric().using().ok_or(Reason::NOSMCDDEV)?;
    // (Its kind was asked before.)
    if !net::has_protocol_of_tcp(fd) || crate::server::is_deferring_client(fd) {
        return Err(Reason::OPTUNSUPP);
    }
    let map = match owner.is_far() {
        true => fabric().tier().existing_or_new(),
        false => fabric().tier().existing(),
    }?;
    let me = fabric().tier().me(map).ok_or(Reason::MEM)?;
    let cookie = net::cookie(fd).map_err(|_| Reason::CNFERR)?;
    let ring_size = config::ring_size(fabric().config.sndbuf().max(fabric().config.rcvbuf()));
    let offered = fabric().offer(owner, ring_size, cookie)?;
    let side = &offered.view.header().sides[Side::Client as usize];
    side.holders.store(1, Shared::Relaxed);
    fabric().members().join(side);
    // The server's first hold is taken for it: it writes nothing into the slot before it has won the word.
    offered.view.header().sides[Side::Server as usize].holders.store(1, Shared::Relaxed);
    side.pid.store(os::process::cached_pid(), Shared::Relaxed);
    handshake::propose(offered.view).inspect_err(|_| abandon(&offered))?;
    let inode = os::fd::identity(fd).map_or(0, |(_, inode)| inode as u32);
    let intent = Intent { cookie, process: me, memfd: offered.memfd, nonce: offered.nonce, target, inode };
    let published = match owner.is_far() {
        true => far::publish(&intent, &offered),
        false => fabric().rows().publish(&intent, offered.view),
    };
    let row = published.inspect_err(|_| abandon(&offered))?;
    let seen = crate::table::get(fd);
    // (Another thread may put it into an epoll set just now. Nobody takes it for an intent before it is tied:
    // whoever looks at all of them would read another connection's row.)
    let entered = fresh(fd).or_else(|| enter_over(fd, seen, Event::Watched)).or_else(|| fresh(fd));
    let Some(held) = entered else {
        fabric().rows().decide(row, Side::Client, Verdict::Plain(Reason::MEM));
        fabric().rows().close_side(row, cookie, Side::Client);
        far::forget(row, cookie);
        abandon(&offered);
        return Err(Reason::MEM);
    };
    held.tie(Tie {
        side: Side::Client,
        row,
        view: offered.index,
        cookie,
        generation: offered.view.generation(),
    });
    held.note_brief_place(brief_place);
    held.see_options(fd);
    if let Some(end) = End::of(&held) {
        let is_nonblocking = os::fd::is_nonblocking(fd);
        held.see_nonblocking(is_nonblocking);
        end.tell_nonblocking(is_nonblocking);
    }
    held.note_exclusive();
    answer::expect_answer(&held);
    held.transition(Event::Offered);
    records::offered(&held);
    Ok(held)
}

/// The socket, if an epoll set has it already.
fn fresh(fd: i32) -> Option<Held> {
    crate::held::hold(fd).filter(|held| held.phase() == Phase::Fresh)
}

fn abandon(offered: &offer::Offer) {
    for side in &offered.view.header().sides {
        side.holders.store(0, Shared::Release);
        fabric().members().leave(side);
    }
    fabric().give_back(offered.index, offered.view);
}

/// libc's connect(), which may sleep, and never return.
#[inline(never)]
pub fn connecting<T>(held: &Held, connect: impl FnOnce() -> T) -> T {
    if held.has(flag::NONBLOCKING) {
        return connect();
    }
    let call = Call::on(held, address(&connect));
    let result = connect();
    call.end_on(held);
    result
}

/// A connect() of what was connected has failed. Where it found the last connection over, and has left a
/// fresh socket: what is still to be done about that connection. (One that is over, and that the kernel has
/// not let go of, has its unread bytes still, whatever the error: the kernel goes on to tell its end.)
pub fn was_dissolved(fd: i32) -> AfterClose {
    let is_kept = || os::poll::peek(fd, os::poll::bits::RDHUP) & os::poll::bits::RDHUP != 0;
    if !net::is_unconnected_tcp(fd) || is_kept() {
        return AfterClose::Nothing;
    }
    match crate::held::hold(fd) {
        Some(held) if held.is(Phase::Intent) => {
            answer::retract_unmade(&held, fd);
            AfterClose::Nothing
        }
        _ => crate::close::before_dissolving(fd),
    }
}

/// After connect() with an offer.
pub fn after_connect(held: &Held, fd: i32, outcome: Result<(), Errno>) {
    match outcome {
        Ok(()) => {
            answer::established(held, fd);
        }
        Err(_) if !has_failed(outcome) => {}
        Err(_) => answer::retract_unmade(held, fd),
    }
}
