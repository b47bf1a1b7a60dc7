//! The end of things: shutdown, close, dup, fork, exit. Owns: when this process lets a connection go, and what it leaves
//! behind for TCP: FIN after a clean close, RST if bytes were left unread.

use crate::conn::{Conn, End, Held, all, hold, hold_index};
use crate::flag;
use crate::phase::Phase;
use crate::table::{self, Entry};
use crate::yielding::{may_yield, pause_or_yield};
use crate::{client, epoll, era, ready, watch};
use core::sync::atomic::Ordering;
use fabric::verdict::Verdict;
use fabric::{attach, connection, listener, member, offer, totals};
use os::net::{self, Endpoint};
use os::poll::bits;
use shm::slab::Index;
use shm::sync::Ordering as Shared;
use shm::{ClosedBy, Side};

/// SHUT_RD is 0, SHUT_WR 1, SHUT_RDWR 2. Flags first, then libc's shutdown by the caller.
pub fn before_shutdown(fd: i32, how: i32) -> AfterClose {
    let Some(conn) = crate::stream::in_use(fd) else { return AfterClose::Nothing };
    if conn.phase() == Phase::Intent && client::retract(&conn, fd, fabric::Reason::PEERDECL) == Phase::Plain {
        return AfterClose::Nothing;
    }
    let Some(end) = End::of(&conn) else { return AfterClose::Nothing };
    watch::note_news();
    let bits = match how {
        0 => ClosedBy::READ,
        1 => ClosedBy::WRITE,
        _ => ClosedBy::READ | ClosedBy::WRITE,
    };
    end.mine().closed.fetch_or(bits, Shared::SeqCst);
    core::sync::atomic::fence(Ordering::SeqCst);
    if conn.rx_waiters.load(Ordering::Acquire) + conn.tx_waiters.load(Ordering::Acquire) > 0 {
        ready::kick(&conn, &end);
    }
    end.wake_napping();
    end.wake_napping_peer();
    AfterClose::Told(conn)
}

/// After flags that the peer may wait for without TCP's telling it: a writer that sleeps for space, and whoever naps. Once the
/// kernel knows as well, so that who is woken finds what TCP says with it.
fn wake_peer(end: &End) {
    core::sync::atomic::fence(Ordering::SeqCst);
    end.ring_peer(&end.incoming.words().space_wait.0);
    end.wake_napping_peer();
}

/// What remains to be done after libc's close or shutdown.
pub enum AfterClose {
    /// Nothing.
    Nothing,
    /// A listener's announcement may be over.
    Listener(u64, Endpoint),
    /// A peer that sleeps is to be told what the kernel knows by then.
    Told(Held),
    /// Somebody else was counted as a holder of the connection: the kernel knows whether there is anybody.
    Shared(Held, Ends),
}

/// A connection's two addresses.
#[derive(Clone, Copy)]
pub struct Ends {
    local: Endpoint,
    peer: Endpoint,
}

/// Before close(fd) or a dup2 onto it: takes the entry out and, if it was the last of this process, ends our part.
pub fn before_close(fd: i32) -> AfterClose {
    before_close_among(fd, true)
}

/// The same; not `alone` where others are to be closed before libc closes this one.
pub fn before_close_among(fd: i32, alone: bool) -> AfterClose {
    match table::get(fd) {
        Entry::Empty => AfterClose::Nothing,
        Entry::Conn(index) => match hold_index(index) {
            Some(held) => close_conn(held, fd, alone),
            None => AfterClose::Nothing,
        },
        Entry::Epoll(index) => {
            table::clear(fd);
            epoll::close_set(index);
            AfterClose::Nothing
        }
        Entry::Foreign => {
            table::clear(fd);
            AfterClose::Nothing
        }
    }
}

fn close_conn(held: Held, fd: i32, alone: bool) -> AfterClose {
    // Two threads may close two duplicates, or the same number: who takes the entry out counts, and who counts last ends it.
    if table::clear(fd) != Entry::Conn(held.index()) || !held.drop_fd() {
        return AfterClose::Nothing;
    }
    if held.phase() == Phase::Listening {
        let at = net::local(fd);
        let cookie = held.cookie.load(Ordering::Relaxed);
        return at.map_or(AfterClose::Nothing, |at| AfterClose::Listener(cookie, at));
    }
    let is_shared = finish(&held, fd, alone) && !os::confined::is_confined();
    let ends = || Some(Ends { local: net::local(fd).ok()?, peer: net::peer(fd).ok()? });
    match if is_shared { ends() } else { None } {
        Some(ends) => AfterClose::Shared(held, ends),
        None if is_waited_on(&held) => AfterClose::Told(held),
        None => AfterClose::Nothing,
    }
}

/// Whether a writer at the other end sleeps for space.
fn is_waited_on(conn: &Conn) -> bool {
    conn.phase() == Phase::Smc
        && End::still_of(conn).is_some_and(|end| end.incoming.words().space_wait.0.is_asked())
}

impl AfterClose {
    /// After libc's close or shutdown.
    pub fn run(self) {
        match self {
            AfterClose::Nothing => {}
            AfterClose::Listener(cookie, at) => listener::withdraw(cookie, at),
            AfterClose::Told(held) => {
                if let Some(end) = End::still_of(&held) {
                    wake_peer(&end);
                }
            }
            AfterClose::Shared(held, ends) => end_if_last(&held, ends),
        }
    }
}

/// Whoever was counted beside this process may have been killed, or never have taken what was passed to him. If the kernel
/// knows the socket as open no more, nobody holds the side.
fn end_if_last(conn: &Conn, ends: Ends) {
    let (Some(end), Some(cookie)) = (End::still_of(conn), own_cookie(conn)) else { return };
    let is_gone = match os::diag::lookup(ends.local.unmapped(), ends.peer.unmapped()) {
        Ok(found) => found.cookie != cookie || found.inode == 0,
        Err(errno) => errno == os::Errno::ENOENT,
    };
    if is_gone && !conn.has(flag::LEFT) {
        say_closed(&end);
        wake_peer(&end);
        end.mine().holders.store(1, Shared::Release);
        member::clear(end.mine());
        conn.unmark(flag::UNCOUNTED);
    }
}

/// Whether others hold the side beside this process: they are counted, or (between an exec and the first call of the next
/// program) named.
fn has_other_holders(conn: &Conn, end: &End) -> bool {
    conn.has(flag::UNCOUNTED)
        || end.mine().holders.load(Shared::Acquire) > 1
        || member::has_others(end.mine())
}

/// Whether another process published the intent: it will answer for the early bytes, and may have use for shared memory
/// yet. (Counting holders would not do: children that were killed are counted for ever.)
fn is_copy(conn: &Conn) -> bool {
    let Some(row) = connection::row(conn.row()) else { return false };
    let publisher = row.owner_pid.load(Shared::Relaxed);
    // (Who became a daemon has left his intent to a child.)
    publisher != os::process::cached_pid()
        && os::process::life(publisher).is_none_or(|life| !life.is_zombie)
        && os::process::exists(publisher)
}

/// Our part of a close, while the descriptor is still open. Whether other holders are counted.
fn finish(conn: &Conn, fd: i32, alone: bool) -> bool {
    if conn.phase() == Phase::Intent && !is_copy(conn) {
        client::retract(conn, fd, fabric::Reason::PEERDECL);
    }
    epoll::remove_all(conn);
    let Some(end) = End::still_of(conn) else { return false };
    if conn.phase() != Phase::Smc {
        return false;
    }
    // A thread blocked in a call keeps the socket open, as in the kernel; its call's end is the close then.
    let is_shared = has_other_holders(conn, &end);
    if is_shared || conn.is_in_other_calls() {
        // Should it be the last close all the same, it is an orderly one.
        if end.incoming.used() == Ok(0) {
            end.mine().closed.fetch_or(ClosedBy::EXIT, Shared::Release);
        }
        return is_shared;
    }
    // (SO_LINGER waits until the peer's kernel has the bytes, not its program. The ring is that kernel.)
    let said = end.mine().closed.load(Shared::Relaxed);
    say_closed(&end);
    // Looked at after it was said: what the peer publishes later, it knows to have come too late.
    let resets = end.incoming.used() != Ok(0) && !conn.has(flag::RESET);
    if resets {
        // TCP answers a close with unread bytes by RST.
        end.mine().closed.fetch_or(ClosedBy::ABORT, Shared::Relaxed);
        net::reset_on_close(fd);
    }
    let may_wait = alone && !resets && said & ClosedBy::WRITE == 0 && end.side == Side::Client;
    if may_wait && end.theirs().closed.load(Shared::SeqCst) & ClosedBy::CLOSE != 0 {
        let_the_server_end_first(conn, fd);
    }
    false
}

/// Whose FIN is first keeps the port for a minute (RFC 9293 section 3.6.1), and two that cross keep one each. Over TCP a client that
/// closes after a server mostly has its FIN by then; over memory it learns of the close before the server's FIN is sent:
/// 28 thousand short connections took all ports of a client, which over TCP had most of them still.
fn let_the_server_end_first(conn: &Conn, fd: i32) {
    /// Some 50 us; a server's close() takes 5 from its announcement to its FIN.
    const LONGEST_CYCLES: u64 = 100_000;
    let from = os::time::cycles();
    while may_yield() && os::time::cycles().wrapping_sub(from) < LONGEST_CYCLES {
        if conn.has(flag::TCP_ENDED | flag::RESET) || os::poll::peek(fd, bits::RDHUP) != 0 {
            return;
        }
        pause_or_yield();
    }
}

fn say_closed(end: &End) {
    end.mine().closed.fetch_or(ClosedBy::CLOSE | ClosedBy::WRITE | ClosedBy::READ, Shared::SeqCst);
    core::sync::atomic::fence(Ordering::SeqCst);
    end.wake_napping_peer();
}

/// Drops a stale entry's claim on a connection: its number was closed without our seeing it.
pub(crate) fn forget(index: Index) {
    if let Some(held) = hold_index(index) {
        if held.fds() == 1 {
            epoll::remove_all(&held);
        }
        held.drop_fd();
    }
}

/// Gives this process's hold of the side back; `true` for the last. The flags are up before the count is zero.
fn drop_holder(end: &End) -> bool {
    let holders = &end.mine().holders;
    let mut count = holders.load(Shared::Acquire);
    loop {
        let is_last = count <= 1 && !member::has_others(end.mine());
        if is_last {
            say_closed(end);
        }
        match holders.compare_exchange(count, count.saturating_sub(1), Shared::AcqRel, Shared::Acquire) {
            Ok(_) => {
                if is_last {
                    wake_peer(end);
                }
                return is_last;
            }
            Err(now) => count = now,
        }
    }
}

/// This process is about to lose its copy without a close(): whoever else has one goes on. Once per connection, and
/// never for the last, whose end TCP tells.
fn leave_to_others(conn: &Conn) {
    let Some(end) = End::still_of(conn) else { return };
    if !conn.phase().is_tied() || conn.has(flag::COUNTED | flag::LEFT) {
        return;
    }
    let holders = &end.mine().holders;
    let left = holders.fetch_update(Shared::AcqRel, Shared::Acquire, |count| (count > 1).then(|| count - 1));
    if left.is_ok() {
        conn.mark(flag::LEFT);
        member::leave(end.mine());
        ready::count_registrations_again(conn, &end, -1);
    }
}

/// The last use in this process is over: gives slot, mapping and row back.
pub(crate) fn let_go(conn: &Conn, was: Phase) {
    // A fork child may have inherited a socket that another thread of the parent was just deciding: not ours to end.
    if !was.is_tied() {
        return;
    }
    let Some(end) = End::of(conn) else { return };
    let is_last_here = conn.untie();
    watch::unwatch(conn);
    if conn.is_stale() {
        // Lent again since: nothing of the slot is this connection's, but for its place among those mapped here.
        if conn.has(flag::ATTACHED) {
            attach::done(end.view);
        }
        return;
    }
    if was == Phase::Smc && !conn.has(flag::COUNTED | flag::LEFT) {
        totals::settle(end.view.header());
    }
    // (What nobody has counted keeps the slot until the kernel knows the socket no more.)
    let is_last = !conn.has(flag::LEFT | flag::UNCOUNTED) && drop_holder(&end);
    if is_last && end.side == Side::Client && was == Phase::Plain {
        // No server ever took the hold that was kept for it.
        end.theirs().holders.store(0, Shared::Release);
    }
    if was == Phase::Intent && is_last {
        connection::decide(conn.row(), end.side, Verdict::Plain(fabric::Reason::PEERDECL));
        watch::intent_ended();
        end.theirs().holders.store(0, Shared::Release);
    }
    if is_last_here {
        member::leave(end.mine());
    }
    let cookie = conn.cookie.load(Ordering::Relaxed);
    match end.side {
        Side::Client if !conn.has(flag::ATTACHED) => offer::give_back(conn.view_index(), end.view),
        _ => attach::done(end.view),
    }
    if is_last {
        connection::close_side(conn.row(), cookie, end.side);
    }
}

/// After a successful dup, dup2, dup3 or F_DUPFD.
pub fn after_dup(old: i32, new: i32) {
    match table::get(old) {
        Entry::Empty => {}
        Entry::Conn(index) => {
            if let Some(held) = hold(old) {
                epoll::settle_all_of(&held);
                held.add_fd();
                if table::set(new, Entry::Conn(index)).is_none() {
                    held.drop_fd();
                }
            }
        }
        Entry::Epoll(index) => {
            epoll::share_set(index);
            table::set(new, Entry::Epoll(index));
        }
        Entry::Foreign => {
            table::refuse(new, table::refusal(old).unwrap_or(fabric::Reason(0)));
        }
    }
}

fn tied() -> impl Iterator<Item = &'static Conn> {
    all().map(|(_, conn)| conn).filter(|conn| conn.fds() > 0 && conn.phase().is_tied())
}

/// Before fork(): the child's copies are counted first, so that neither side ever takes itself for the last by mistake.
/// What another thread ties from here on carries the new era, and is counted by the child.
pub fn before_fork() {
    era::advance();
    epoll::settle_everything();
    let era = era::now();
    for conn in tied().filter(|conn| conn.tied_era() != era) {
        copied(conn, 1);
    }
}

/// One more process, or one fewer, has what this one has of the connection.
fn copied(conn: &Conn, by: i32) {
    if let Some(end) = End::still_of(conn) {
        copied_of(conn, &end, by);
    }
}

fn copied_of(conn: &Conn, end: &End, by: i32) {
    end.mine().holders.fetch_add(by as u32, Shared::AcqRel);
    ready::count_registrations_again(conn, end, by);
}

/// In the parent after fork(), successful or not: what was known to be unshared while the fork was under way may be shared.
pub fn after_fork_in_parent() {
    era::advance();
}

/// In the parent after a fork() that failed, and after [`after_fork_in_parent`].
pub fn after_failed_fork() {
    let now = era::now();
    let is_counted = |conn: &&Conn| conn.tied_era() != now && conn.tied_era() != now - 1;
    for conn in tied().filter(is_counted) {
        copied(conn, -1);
    }
}

/// In the child after fork().
pub fn after_fork_in_child() {
    let era_of_parent = era::now();
    os::process::refresh_pid();
    for conn in tied().filter(|conn| conn.tied_era() == era_of_parent) {
        copied(conn, 1);
    }
    for end in tied().filter_map(End::still_of) {
        member::join(end.mine());
    }
    offer::after_fork();
    for (_, conn) in all() {
        conn.forget_other_threads();
    }
}

/// Before `fd` is passed to another process: it will not be this one's alone any more.
pub fn before_passing(fd: i32) {
    crate::server::refuse(fd);
    before_lending(fd);
}

/// Before a program that starts gets a duplicate of `fd`.
pub fn before_lending(fd: i32) {
    if let Some(held) = hold(fd) {
        leave_a_copy(&held);
        epoll::settle_all_of(&held);
    }
}

/// Somebody else may have a copy from now on. It is counted at once: should we close ours before he has looked at his, the
/// connection goes on. (One too many, if nobody takes it, is found when the slot is wanted again: the kernel is asked then.)
fn leave_a_copy(conn: &Conn) {
    conn.note_shared();
    if conn.phase() == Phase::Smc
        && !conn.has(flag::LENT)
        && let Some(end) = End::still_of(conn)
    {
        conn.mark(flag::LENT | flag::LENT_NOW);
        end.mine().holders.fetch_add(1, Shared::AcqRel);
    }
}

/// Before posix_spawn, system and the like: the new program gets the sockets that are not closed on exec.
pub fn before_spawn() {
    for (fd, held) in connections() {
        if !os::fd::is_cloexec(fd) {
            leave_a_copy(&held);
        }
    }
}

/// In a child that borrows this process's memory (vfork), before it execs: the same, and whichever socket it has made its
/// standard input or output, though the number is not in the table, which is its parent's.
pub fn before_borrower_execs() {
    for (_, held) in connections() {
        held.unmark(flag::LENT_NOW);
    }
    before_spawn();
    for cookie in (0..=2).filter(|fd| net::is_tcp(*fd)).filter_map(|fd| net::cookie(fd).ok()) {
        for (_, held) in connections().filter(|(_, held)| own_cookie(held) == Some(cookie)) {
            leave_a_copy(&held);
        }
    }
}

/// After such an exec that failed: nobody got the copies that were counted for it.
pub fn after_borrower_failed_to_exec() {
    for (_, held) in connections().filter(|(_, held)| held.has(flag::LENT_NOW)) {
        if let Some(end) = End::of(&held) {
            held.unmark(flag::LENT | flag::LENT_NOW);
            end.mine().holders.fetch_sub(1, Shared::AcqRel);
        }
    }
}

fn connections() -> impl Iterator<Item = (i32, Held)> {
    table::entries().filter_map(|(fd, entry)| match entry {
        Entry::Conn(index) => Some((fd, hold_index(index)?)),
        _ => None,
    })
}

/// The kernel's cookie of our own socket.
fn own_cookie(conn: &Conn) -> Option<u64> {
    match conn.side() {
        Side::Client => Some(conn.cookie.load(Ordering::Relaxed)),
        Side::Server => Some(conn.view()?.header().server_cookie.load(Shared::Relaxed)),
    }
}

/// Before exec: a connection of which a descriptor goes on into the next program must be found there, whichever number it has
/// then; one whose descriptors all end here is left to others. Early bytes go out; memory that is ours stays open. (What the
/// server's side needs is the client's to keep.)
pub fn before_exec() {
    epoll::settle_everything();
    mark_what_goes_on();
    for (fd, held) in connections() {
        if held.phase() == Phase::Intent && !is_copy(&held) {
            client::retract(&held, fd, fabric::Reason::PEERDECL);
        }
        if !held.has(flag::GOES_ON) {
            leave_to_others(&held);
            // The next program is the same process by name, but has no part in this connection.
            if let Some(end) = End::still_of(&held) {
                member::leave(end.mine());
            }
        } else {
            give_up_count(&held);
            keep_memory_over_exec(&held, true);
        }
    }
}

/// The next program counts itself when it finds the connection. Until then its name in the roster, which is this process's,
/// keeps the slot. Once per connection, which may have several descriptors.
fn give_up_count(conn: &Conn) {
    if !conn.has(flag::LEFT)
        && let Some(end) = End::still_of(conn)
    {
        conn.mark(flag::LEFT);
        copied_of(conn, &end, -1);
    }
}

/// After an exec that failed: this process goes on with its connections as if it had never been tried.
pub fn after_failed_exec() {
    for (_, held) in connections() {
        if held.has(flag::GOES_ON) {
            keep_memory_over_exec(&held, false);
        }
        let Some(end) = End::still_of(&held) else { continue };
        member::join(end.mine());
        if held.has(flag::LEFT) {
            held.unmark(flag::LEFT);
            copied_of(&held, &end, 1);
        }
    }
}

/// Marks the connections of which a descriptor is not closed on exec, be it a duplicate that was made behind our back.
fn mark_what_goes_on() {
    /// So many numbers are looked at that are in no table: what a program hands on has low ones.
    const UNSEEN: i32 = 64;
    for (_, held) in connections() {
        held.unmark(flag::GOES_ON);
    }
    for (fd, held) in connections() {
        if !os::fd::is_cloexec(fd) {
            held.mark(flag::GOES_ON);
        }
    }
    let is_unseen =
        |fd: &i32| table::get(*fd) == Entry::Empty && net::is_tcp(*fd) && !os::fd::is_cloexec(*fd);
    for cookie in (0..UNSEEN).filter(is_unseen).filter_map(|fd| net::cookie(fd).ok()) {
        for (_, held) in connections().filter(|(_, held)| own_cookie(held) == Some(cookie)) {
            held.mark(flag::GOES_ON);
        }
    }
}

/// Lets the memory of a shared connection survive exec, or not any more: whoever has it may be gone when it is wanted.
fn keep_memory_over_exec(conn: &Conn, on: bool) {
    let Some(view) = conn.view().filter(|_| matches!(conn.phase(), Phase::Smc | Phase::Intent)) else {
        return;
    };
    if conn.side() == Side::Client && !conn.has(flag::ATTACHED) {
        offer::keep_over_exec(view, on);
    } else {
        attach::keep_over_exec(view, on);
    }
}

/// Before abort(), which may yet return to the program by its handler: early bytes go out, and nothing else is given up.
pub fn at_abort() {
    for (fd, held) in connections() {
        if held.phase() == Phase::Intent && !is_copy(&held) {
            client::retract(&held, fd, fabric::Reason::PEERDECL);
        }
    }
}

/// A thread ends by the system call itself, perhaps the last one, of which nobody else will hear: early bytes go out.
pub fn before_thread_ends() {
    for (fd, held) in connections() {
        if held.phase() == Phase::Intent && !is_copy(&held) {
            client::retract(&held, fd, fabric::Reason::PEERDECL);
        }
    }
}

/// When the process ends on its own: early bytes go out, unread bytes are answered by RST. The kernel does the rest.
pub fn at_exit() {
    for (fd, entry) in table::entries() {
        let Entry::Conn(index) = entry else { continue };
        let Some(held) = hold_index(index) else { continue };
        match held.phase() {
            Phase::Intent if !is_copy(&held) => {
                client::retract(&held, fd, fabric::Reason::PEERDECL);
            }
            Phase::Smc => {
                if let Some(end) = End::still_of(&held) {
                    let is_last = !has_other_holders(&held, &end);
                    if is_last && end.incoming.used() != Ok(0) {
                        net::reset_on_close(fd);
                    } else if is_last {
                        end.mine().closed.fetch_or(ClosedBy::EXIT, Shared::SeqCst);
                    }
                    if is_last {
                        end.wake_napping_peer();
                    } else if end.incoming.used() == Ok(0) {
                        // Should this be the last copy all the same, its end is an orderly one.
                        end.mine().closed.fetch_or(ClosedBy::EXIT, Shared::SeqCst);
                    }
                    // The destructor and _exit both come here; each connection is counted once.
                    if is_last && !held.has(flag::COUNTED) {
                        held.mark(flag::COUNTED);
                        totals::settle(end.view.header());
                    }
                }
            }
            _ => {}
        }
        leave_to_others(&held);
    }
}
