//! listen, accept, connect, shutdown, close and the dup family. Owns: the table stays in step with the
//! kernel's.

use crate::agreed;
use crate::hook::{self, hooks};
use crate::real::{Buf, forward};
use crate::{cancel, modules, parted};
use core::ffi::c_int;
use os::net::Endpoint;
use socket::confine::stays_out;
use socket::table::{self, Entry};
use socket::{Errno, Outcome, Reason, client, close as closing, server, spare};
use sync::{AtomicBool, Ordering};

/// Of accept4.
const SOCK_NONBLOCK: c_int = 0o4000;
/// Of dup3.
const O_CLOEXEC: c_int = 0o2000000;

/// Set by the constructor unless SMC_DISABLE is.
static ACTIVE: AtomicBool = AtomicBool::new(false);

/// From now on sockets may be upgraded.
pub(crate) fn activate() {
    ACTIVE.store(true, Ordering::Release);
}

/// Whether sockets may be upgraded.
pub(crate) fn is_active() -> bool {
    ACTIVE.load(Ordering::Acquire)
}

/// Whether this process has had sockets of ours, and is the one that owns this memory.
pub(crate) fn has_sockets() -> bool {
    is_active() && socket::has_been_any() && !is_borrowed()
}

/// Whether this process may make new connections shared: not behind a filter of its own, nor behind one by
/// which we could not wait, nor where threads have tables of descriptors of their own, or a module calls libc
/// past us.
fn may_upgrade() -> bool {
    socket::fork::take_note();
    let may_wait = || !os::confined::is_confined() && !os::refusal::refuses_waits();
    is_active() && may_wait() && !parted::has_any() && !modules::are_out_of_reach()
}

/// Whether we run in a vfork child, or a thread apart: it borrows the process's memory, but its descriptors
/// are its own. What it closes must not be forgotten here.
pub(crate) fn is_borrowed() -> bool {
    socket::fork::take_note();
    os::process::pid() != os::process::cached_pid() || parted::is_one()
}

/// A process is about to be made that shares this one's memory, its table of descriptors or both: from then
/// on a number may mean what the one knows and not the other.
pub(crate) fn parting_from_child() {
    if is_active() && !stays_out() && !is_borrowed() {
        socket::confine::before_parting();
        parted::note_child();
    }
}

/// The calling thread is about to have a table of its own. (Alone it has one already.)
pub(crate) fn parting() {
    if is_active() && !stays_out() && !is_borrowed() && os::process::may_have_threads() {
        socket::confine::before_parting();
        parted::note();
    }
}

fn listening(fd: c_int, backlog: c_int) -> Outcome {
    let is_new = may_upgrade() && (table::get(fd) == Entry::Empty || socket::epoll::is_fresh(fd));
    let announced = if is_new { server::before_listen(fd) } else { None };
    // SAFETY: the program's own arguments.
    let result = unsafe { forward::listen(fd, backlog) };
    if result != 0 {
        let errno = hook::last();
        server::after_failed_listen(fd, announced);
        return Outcome::Fail(errno);
    }
    leave_fresh(fd);
    if may_upgrade() && table::get(fd) == Entry::Empty {
        if os::net::is_tcp(fd) {
            server::after_listen(fd, announced);
        } else {
            // Of the local domain, or SCTP: nothing that TCP would have carried, so nothing that stays on
            // TCP.
            table::set(fd, Entry::Foreign);
        }
    } else if may_upgrade()
        && let Some(reason) = table::refusal(fd)
    {
        server::refuse_listener(fd, reason);
    }
    Outcome::Done(0)
}

fn accepted(listener: c_int, fd: c_int, is_nonblocking: bool) {
    if fd < 0 {
        if hook::last() == Errno::EAGAIN {
            socket::unseen::note_no_client(listener);
        }
        return;
    }
    if !may_upgrade() {
        return;
    }
    if is_borrowed() {
        return table::set_for_borrower(fd, Entry::Empty);
    }
    match table::get(listener) {
        // Inherited, or listening since before we were loaded.
        Entry::Empty if !os::net::is_tcp(listener) => _ = table::set(listener, Entry::Foreign),
        Entry::Empty => {
            if let Err(reason) = server::adopt_listener(listener) {
                table::refuse(listener, reason);
            }
        }
        Entry::Foreign => {}
        _ => server::announce_again(listener),
    }
    match server::why_refused(listener) {
        Some(reason) => server::refuse_unseen(listener, fd, reason),
        None if table::get(listener) == Entry::Foreign => {}
        None => server::accepted(listener, fd, is_nonblocking),
    }
}

/// A socket that was only watched so far is not ours to watch any more.
pub(crate) fn leave_fresh(fd: c_int) {
    if socket::epoll::is_fresh(fd) && socket::epoll::release_fresh(fd) {
        closing::before_close(fd).run();
    }
}

/// connect() to AF_UNSPEC dissolves the connection and leaves the descriptor open for another.
fn is_dissolving(addr: Buf, addr_len: u32) -> bool {
    // SAFETY: the program passed an address of this length, and it is there; the family comes first.
    addr_len >= 2 && unsafe { addr.cast::<u16>().read_unaligned() } == 0
}

fn connecting(fd: c_int, addr: Buf, addr_len: u32) -> Outcome {
    if addr.is_null() || stays_out() || crate::pointers::address(addr, addr_len).is_err() {
        return Outcome::Forward;
    }
    if is_active() && matches!(table::get(fd), Entry::Conn(_)) && is_dissolving(addr, addr_len) {
        if !agreed::to_dissolve(addr.addr(), addr_len) {
            return Outcome::Forward;
        }
        let after = closing::before_dissolving(fd);
        // SAFETY: the program's own arguments.
        let result = unsafe { forward::connect(fd, addr, addr_len) };
        let errno = hook::last();
        after.run();
        return if result == 0 { Outcome::Done(0) } else { Outcome::Fail(errno) };
    }
    let is_new = table::get(fd) == Entry::Empty || socket::epoll::is_fresh(fd);
    if is_active() && !is_new && !is_borrowed() && matches!(table::get(fd), Entry::Conn(_)) {
        return connecting_again(fd, addr, addr_len);
    }
    // (Of one that was refused before, connect() tells why.)
    if !may_upgrade() || !(is_new || table::refusal(fd).is_some()) || is_borrowed() {
        return Outcome::Forward;
    }
    // SAFETY: the program passed an address of this length.
    let Some(target) = (unsafe { Endpoint::from_sockaddr(addr.cast(), addr_len as usize) }) else {
        return Outcome::Forward;
    };
    // SAFETY: the program's own arguments.
    let connect = || match unsafe { forward::connect(fd, addr, addr_len) } {
        0 => Ok(()),
        _ => Err(hook::last()),
    };
    let outcome = match client::offer(fd, target) {
        Ok(held) => {
            let outcome = client::connecting(&held, connect);
            client::after_connect(&held, fd, outcome);
            outcome
        }
        Err(bare) => {
            leave_fresh(fd);
            let outcome = connect();
            bare.after_connect(fd, outcome);
            outcome
        }
    };
    match outcome {
        Ok(()) => Outcome::Done(0),
        Err(errno) => Outcome::Fail(errno),
    }
}

/// connect() of a socket that was connected. Where nobody has asked yet how a connect() ended that did not
/// block, and the connection is over by now, the kernel says so, and has a fresh socket
/// (`__inet_stream_connect` of net/ipv4/af_inet.c).
fn connecting_again(fd: c_int, addr: Buf, addr_len: u32) -> Outcome {
    // SAFETY: the program's own arguments.
    if unsafe { forward::connect(fd, addr, addr_len) } == 0 {
        return Outcome::Done(0);
    }
    let errno = hook::last();
    let says_nothing = [Errno::EISCONN, Errno::EALREADY, Errno::EINPROGRESS, Errno::EINTR, Errno::EBADF];
    if !says_nothing.contains(&errno) {
        client::was_dissolved(fd).run();
    }
    Outcome::Fail(errno)
}

/// A shutdown that the kernel refuses for there is no connection, and keeps for the next one: that one is
/// TCP's.
fn shut_early(fd: c_int, errno: Errno) {
    let may_be_new = errno == Errno::ENOTCONN && may_upgrade() && !is_borrowed();
    if may_be_new && os::net::is_unconnected_tcp(fd) {
        // (Of a connection that is over the kernel says the same.)
        let is_watched = socket::epoll::is_fresh(fd);
        leave_fresh(fd);
        if is_watched || table::get(fd) == Entry::Empty {
            table::refuse(fd, Reason::OPTUNSUPP);
        }
    }
}

fn shutting(fd: c_int, how: c_int) -> Outcome {
    let is_known = (0..=2).contains(&how) && table::get(fd) != Entry::Empty;
    let is_ours = is_known && !is_borrowed() && agreed::to_shutdown(how);
    let after = is_ours.then(|| closing::before_shutdown(fd, how));
    // SAFETY: the program's own arguments.
    if unsafe { forward::shutdown(fd, how) } == 0 {
        after.into_iter().for_each(closing::AfterClose::run);
        return Outcome::Done(0);
    }
    let errno = hook::last();
    after.into_iter().for_each(closing::AfterClose::run);
    shut_early(fd, errno);
    Outcome::Fail(errno)
}

/// sendto() and sendmsg() with MSG_FASTOPEN connect as well.
pub(crate) fn fast_opening(fd: c_int, addr: Buf, addr_len: u32) {
    if addr.is_null() || stays_out() || crate::pointers::address(addr, addr_len).is_err() {
        return;
    }
    // SAFETY: the program passed an address of this length, and it is there.
    if let Some(target) = unsafe { Endpoint::from_sockaddr(addr.cast(), addr_len as usize) }
        && may_upgrade()
    {
        client::connects_by_tcp(fd, target);
    }
}

fn closing(fd: c_int) -> Outcome {
    if os::fd::is_internal(fd) {
        // A close loop: the number is none of the program's.
        return if is_borrowed() { Outcome::Forward } else { Outcome::Fail(Errno::EBADF) };
    }
    if table::get(fd) == Entry::Empty || !agreed::to_close() {
        return Outcome::Forward;
    }
    if is_borrowed() {
        table::set_for_borrower(fd, Entry::Empty);
        return Outcome::Forward;
    }
    linger(fd);
    let after = closing::before_close(fd);
    // SAFETY: the program's own argument.
    let result = unsafe { forward::close(fd) };
    after.run();
    if result == 0 { Outcome::Done(0) } else { Outcome::Fail(hook::last()) }
}

/// SO_LINGER with a time: the last close waits until the peer's kernel has everything, time is up or a
/// signal comes.
fn linger(fd: c_int) {
    let Some(ms) = socket::queue::linger_ms(fd) else { return };
    let before = hook::last();
    crate::poll::poll_one(fd, os::poll::bits::OUT, ms);
    let _ = hook::fail(before);
}

/// dup2 and dup3: `new` is closed on the way, if the kernel `agrees`.
fn replacing(old: c_int, new: c_int, agrees: impl Fn() -> bool, libc_dup: impl Fn() -> c_int) -> Outcome {
    let is_ours = os::fd::is_internal(new) && !is_borrowed();
    // (Until the program has it, another thread's connection is not to take it again.)
    let _reserved = if is_ours { os::fd::reserve(new) } else { None };
    // Descriptors that nobody needs make way, and a connection goes back to TCP.
    if is_ours && !socket::spare::make_way(new) {
        return Outcome::Fail(Errno::EBADF);
    }
    let is_known = table::get(old) != Entry::Empty || table::get(new) != Entry::Empty;
    if !is_known || old == new || is_borrowed() || !agrees() {
        return duplicated_elsewhere(old, libc_dup());
    }
    linger(new);
    let after = closing::before_close(new);
    let result = libc_dup();
    after.run();
    if result < 0 {
        return Outcome::Fail(hook::last());
    }
    closing::after_dup(old, new);
    Outcome::Done(result as usize)
}

/// The result of `call`, made again if it failed for want of a number and we had one to spare.
pub(crate) fn made(call: impl Fn() -> c_int) -> c_int {
    let made = made_any(call);
    if made >= 0 {
        note_made(made);
    }
    made
}

/// The same where the result is no number.
pub(crate) fn made_any(call: impl Fn() -> c_int) -> c_int {
    let made = call();
    if made >= 0 || hook::last() != Errno::EMFILE { made } else { made_after_all(&call) }
}

/// The kernel has just made a descriptor of this number: nothing else stands under it.
#[inline]
pub(crate) fn note_made(fd: c_int) {
    if !table::is_empty(fd) {
        forget_stale(fd);
    }
}

#[cold]
#[inline(never)]
fn forget_stale(fd: c_int) {
    if is_borrowed() {
        table::set_for_borrower(fd, Entry::Empty);
    } else {
        socket::enter::forget_stale(fd);
    }
}

#[cold]
#[inline(never)]
fn made_after_all(call: &dyn Fn() -> c_int) -> c_int {
    if is_active() && !stays_out() && !is_borrowed() {
        for step in spare::Step::ALL {
            if spare::give_back_descriptors(step) {
                let made = call();
                if made >= 0 || hook::last() != Errno::EMFILE {
                    return made;
                }
            }
        }
    }
    hook::fail(Errno::EMFILE) as c_int
}

/// What libc returned.
pub(crate) fn passed_on(result: c_int) -> Outcome {
    if result < 0 { Outcome::Fail(hook::last()) } else { Outcome::Done(result as usize) }
}

/// The same of a number that became a copy of `old`, or stays untold of: where it is not this process's.
pub(crate) fn duplicated_elsewhere(old: c_int, result: c_int) -> Outcome {
    if result >= 0 && result != old {
        table::set_for_borrower(result, table::get(old));
    }
    passed_on(result)
}

/// dup and F_DUPFD: a new number.
pub(crate) fn duplicated(old: c_int, result: c_int) -> Outcome {
    if result < 0 {
        return Outcome::Fail(hook::last());
    }
    closing::after_dup(old, result);
    Outcome::Done(result as usize)
}

/// Closes a range but for internal descriptors.
fn closing_range(first: u32, last: u32, flags: c_int) -> Outcome {
    const OF_ITS_OWN: c_int = 2;
    const ONLY_CLOEXEC: c_int = 4;
    let is_nothing_ours = stays_out() && os::fd::next_internal(first, last).is_none();
    if first > last || is_nothing_ours || !agreed::to_close_range(flags) {
        return Outcome::Forward;
    }
    if flags & OF_ITS_OWN != 0 {
        parting();
    }
    if flags & ONLY_CLOEXEC != 0 {
        return Outcome::Forward;
    }
    if is_borrowed() {
        table::clear_for_borrower(first, last);
        return Outcome::Forward;
    }
    for (fd, _) in table::entries().filter(|(fd, _)| (first..=last).contains(&(*fd as u32))) {
        // The listener's row is found stale by the next who looks.
        let _ = closing::before_close_among(fd, false);
    }
    let mut from = first;
    while let Some(internal) = os::fd::next_internal(from, last) {
        if internal > from {
            let _ = os::fd::close_range(from, internal - 1, flags as u32);
        }
        from = internal + 1;
    }
    if from <= last
        && let Err(errno) = os::fd::close_range(from, last, flags as u32)
    {
        return Outcome::Fail(errno);
    }
    Outcome::Done(0)
}

hooks! {
    fn listen [] (fd: c_int, backlog: c_int) -> c_int {
        listening(fd, backlog)
    }
    fn accept [] (fd: c_int, addr: Buf, addr_len: *mut u32) -> c_int {
        // SAFETY: the program's own arguments.
        let new = made(|| unsafe { forward::accept(fd, addr, addr_len) });
        accepted(fd, new, false);
        if new < 0 { Outcome::Fail(hook::last()) } else { Outcome::Done(new as usize) }
    }
    fn accept4 [] (fd: c_int, addr: Buf, addr_len: *mut u32, flags: c_int) -> c_int {
        // SAFETY: the program's own arguments.
        let new = made(|| unsafe { forward::accept4(fd, addr, addr_len, flags) });
        accepted(fd, new, flags & SOCK_NONBLOCK != 0);
        if new < 0 { Outcome::Fail(hook::last()) } else { Outcome::Done(new as usize) }
    }
    fn connect [__connect] (fd: c_int, addr: Buf, addr_len: u32) -> c_int {
        cancel::point();
        connecting(fd, addr, addr_len)
    }
    fn shutdown [] (fd: c_int, how: c_int) -> c_int {
        shutting(fd, how)
    }
    fn close [__close] (fd: c_int) -> c_int {
        cancel::point();
        closing(fd)
    }
    fn close_range [] (first: u32, last: u32, flags: c_int) -> c_int {
        closing_range(first, last, flags)
    }
    fn dup [] (fd: c_int) -> c_int {
        // SAFETY: the program's own argument.
        let new = made(|| unsafe { forward::dup(fd) });
        let is_elsewhere = table::get(fd) == Entry::Empty || is_borrowed();
        if is_elsewhere { duplicated_elsewhere(fd, new) } else { duplicated(fd, new) }
    }
    fn dup2 [__dup2] (old: c_int, new: c_int) -> c_int {
        let agrees = || agreed::to_replace(agreed::DUP2, old, new, 0);
        // SAFETY: the program's own arguments.
        replacing(old, new, agrees, || unsafe { forward::dup2(old, new) })
    }
    fn dup3 [] (old: c_int, new: c_int, flags: c_int) -> c_int {
        // SAFETY: the program's own arguments.
        let dup3 = || unsafe { forward::dup3(old, new, flags) };
        let agrees = || agreed::to_replace(os::raw::nr::__NR_dup3, old, new, flags);
        // (Refused by the kernel, it closes nothing.)
        if flags & !O_CLOEXEC != 0 { Outcome::Forward } else { replacing(old, new, agrees, dup3) }
    }
}

/// pidfd_getfd(2), glibc 2.36: of a process that has the same socket under this number, ourselves say, the
/// copy is a duplicate. (Of another's socket it is TCP's: LIMITATIONS.) A set, ours perhaps, has two numbers
/// then which nobody sees together.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pidfd_getfd(pidfd: c_int, target: c_int, flags: u32) -> c_int {
    let args = [pidfd as usize, target as usize, flags as usize];
    // SAFETY: integers alone; the program's own.
    let new =
        made(|| hook::from_raw(unsafe { os::raw::call(os::raw::nr::__NR_pidfd_getfd, &args) }) as c_int);
    let is_ours = new >= 0 && matches!(table::get(target), Entry::Conn(_)) && !is_borrowed();
    if is_ours && os::fd::identity(new) == os::fd::identity(target) {
        closing::after_dup(target, new);
    }
    if new >= 0
        && is_active()
        && !stays_out()
        && !is_borrowed()
        && socket::epoll::note_received(new)
        && os::process::may_be_one_file(new, target)
    {
        socket::epoll::note_passed(target);
    }
    new
}

/// closefrom(3), glibc 2.34: one by one where the kernel refuses to close all at once.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn closefrom(low: c_int) {
    let low = low.max(0);
    // SAFETY: the same effect as the libc function's.
    if unsafe { close_range(low as u32, u32::MAX, 0) } != 0 {
        close_each_from(low);
    }
}

fn close_each_from(low: c_int) {
    const MOST: usize = 1 << 16;
    let Ok(mut scratch) = os::mem::Scratch::for_poll(MOST) else { return };
    let (found, mut count) = (scratch.poll_entries(), 0);
    let _ = os::file::each_own_descriptor(|fd| {
        if fd >= low && count < found.len() {
            found[count].fd = fd;
            count += 1;
        }
    });
    // (closefrom is no point of cancellation.)
    crate::cancel::without_points(|| {
        for entry in &found[..count] {
            // SAFETY: what the program asked for.
            unsafe { close(entry.fd) };
        }
    });
}
