//! The sockets of this process, and who is in a call on one. Owns: when an object may serve another socket.
//!
//! A call holds the connection through [`Held`]; the object is recycled when no descriptor and no call refers
//! to it, by whoever turns its count of uses from zero to free: a late look at a recycled object changes
//! nothing.

use crate::conn::Conn;
use crate::conn::life::{CALL, FD, FREE};
use crate::here::Part as _;
use crate::phase::Event;
use crate::table::{self, Entry};
use crate::{inherited, kept, release};
use os::Errno;
use shm::slab::{Index, LEAF, Slab};
use sync::Ordering;

/// Most sockets one process tracks at once; more stay on TCP.
const SOCKETS: usize = 1 << 17;

/// The sockets of a process.
pub(crate) struct Sockets(Slab<Conn, { SOCKETS / LEAF }>);

impl Sockets {
    pub(crate) const fn new() -> Self {
        Sockets(Slab::new())
    }
}

#[inline(always)]
fn sockets() -> &'static Slab<Conn, { SOCKETS / LEAF }> {
    &Sockets::here().0
}

/// A connection in use by a call.
pub struct Held {
    conn: &'static Conn,
    index: Index,
}

impl core::ops::Deref for Held {
    type Target = Conn;
    #[inline]
    fn deref(&self) -> &Conn {
        self.conn
    }
}

impl Drop for Held {
    #[inline]
    fn drop(&mut self) {
        if self.conn.life.uses.fetch_sub(CALL, Ordering::AcqRel) == CALL {
            recycle(self.index, self.conn);
        }
    }
}

impl Held {
    /// Number of the connection.
    pub fn index(&self) -> Index {
        self.index
    }

    /// Goes on holding without the object: for calls that keep their notes in an array of the kernel's.
    pub(crate) fn park(self) -> Index {
        core::mem::ManuallyDrop::new(self).index
    }

    /// Takes up a hold that was parked.
    pub(crate) fn unpark(index: Index) -> Option<Held> {
        Some(Held { conn: sockets().get(index)?, index })
    }
}

/// The connection behind `fd`, held for a call.
#[inline(never)]
pub(crate) fn hold(fd: i32) -> Option<Held> {
    hold_in_place(fd)
}

/// The same for what moves bytes: 13 instructions less.
#[inline(always)]
pub(crate) fn hold_in_place(fd: i32) -> Option<Held> {
    let (place, index) = table::look(fd)?;
    let held = hold_index(index)?;
    // The number may have been closed and used again between the look and the hold.
    if place.still_is(fd, index) { Some(held) } else { None }
}

/// A new socket, which stands for one descriptor and is held for the call that enters it into the table.
/// `None` without memory.
pub(crate) fn make(born: Event) -> Option<Held> {
    let (index, conn) = sockets().take(os::mem::more, Conn::new)?;
    conn.reset(born);
    // Added, not stored: a late look at the object's last life may hold it for a moment.
    conn.life.uses.fetch_add((FD + CALL).wrapping_sub(FREE), Ordering::AcqRel);
    Some(Held { conn, index })
}

/// A child that was made behind our back counts its copies before it does anything with one.
#[inline(always)]
pub(crate) fn take_note() {
    if inherited::is_due() {
        take_over();
    }
}

#[cold]
#[inline(never)]
fn take_over() {
    inherited::take_over(all().map(|(_, conn)| conn), false);
    let_go_of_latecomers();
}

/// In a child, once it has counted. The kernel copies a process's descriptors first and its memory then: what
/// another thread opened between stands in the table here, and under its number is nothing, or soon another
/// file of the child's.
#[cold]
pub(crate) fn let_go_of_latecomers() {
    for (fd, entry) in table::entries() {
        if let Entry::Conn(index) = entry
            && matches!(os::net::cookie(fd), Err(Errno::EBADF | Errno::ENOTSOCK))
            && table::replace(fd, entry, Entry::Empty) == Some(true)
            && let Some(held) = hold_index(index)
        {
            held.drop_fd();
        }
    }
}

/// Holds by number: for epoll registrations, whose owner knows that the connection lives.
#[inline]
pub(crate) fn hold_index(index: Index) -> Option<Held> {
    take_note();
    hold_seen(index, sockets().get(index)?)
}

/// The same by who has looked at it already.
#[inline]
pub(crate) fn hold_seen(index: Index, conn: &'static Conn) -> Option<Held> {
    let held = Held { conn, index };
    // Whether it is anybody's is told by the same word: a free one is let go again, and stays free.
    // (In one order with the closer's look at it, after which nobody finds the number.)
    if conn.life.uses.fetch_add(CALL, Ordering::SeqCst) & FREE != 0 { None } else { Some(held) }
}

/// Looks by number, without a hold: what is seen is a hint. (Objects and slots stay readable for ever.)
#[inline]
pub(crate) fn peek_index(index: Index) -> Option<&'static Conn> {
    sockets().get(index)
}

fn recycle(index: Index, conn: &'static Conn) {
    // Two last holders may arrive here together, and one of them late: who frees the word does the work.
    if conn.life.uses.compare_exchange(0, FREE, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
        release::end_signals(conn);
        if let Some(fd) = kept::held_open(conn, index) {
            release::reset_if_unread(conn, fd);
        }
        release::let_go(conn);
        kept::let_go(conn, index);
        conn.transition(Event::Closed);
        sockets().give_back(index);
    }
}

/// Whether this process has ever had a socket that is ours.
#[inline]
pub fn has_been_any() -> bool {
    sockets().made() != 0
}

/// Every connection ever made, in use or not.
pub(crate) fn all() -> impl Iterator<Item = (Index, &'static Conn)> + Clone {
    (0..sockets().made()).filter_map(|index| Some((Index(index), sockets().get(Index(index))?)))
}

/// The connections behind this process's descriptors, each once for each of them.
pub(crate) fn connections() -> impl Iterator<Item = (i32, Held)> {
    table::entries().filter_map(|(fd, entry)| match entry {
        Entry::Conn(index) => Some((fd, hold_index(index)?)),
        _ => None,
    })
}
