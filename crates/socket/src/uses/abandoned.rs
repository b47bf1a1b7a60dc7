//! What a call holds that sleeps, and who gives it back if the call never returns. Owns: that a
//! connection in whose call a thread was cancelled, or which it left by siglongjmp, is no more in use than
//! one in whose call nobody was.

use crate::callers::{self, Hold, Written};
use crate::conn::Conn;
use crate::end::End;
use crate::held::Held;
use crate::{flag, kept, sleepers};
use core::cell::Cell;
use shm::slab::Index;

/// An address by which a later call is told to be above one that was left, or below one that it interrupts:
/// in the frame of the hook, or near it.
#[inline(always)]
pub(crate) fn address<T>(of: &T) -> usize {
    core::ptr::from_ref(of).addr()
}

/// A call on some connections that gives its core away, or sleeps, or has done so.
pub(crate) struct Call(Written, Cell<bool>);

impl Call {
    /// Before it looks; [`Self::may_sleep`] comes before a sleep.
    #[inline(never)]
    pub(crate) fn begin_awake(entry: usize) -> Self {
        callers::drop_left_by_me(entry, give_up);
        Call(Written::begin(), Cell::new(false))
    }

    /// Where the thread may be cancelled from now on.
    pub(crate) fn may_sleep(&self) {
        self.0.note_thread();
    }

    /// On one connection, before it may sleep.
    pub(crate) fn on(conn: &Held, entry: usize) -> Self {
        let call = Call::on_awake(conn, entry);
        call.0.note_thread();
        call
    }

    /// The same before it gives its core away: no thread is cancelled there, and no system call is wanted.
    pub(crate) fn on_awake(conn: &Held, entry: usize) -> Self {
        let mut call = Call::begin_awake(entry);
        call.add(conn, false, false);
        call
    }

    /// It holds `conn`, and is counted there as a sleeper.
    pub(crate) fn add(&mut self, conn: &Held, data: bool, space: bool) {
        self.0.add(Hold { index: conn.index().0, data, space });
    }

    /// It sleeps: whether for the first time.
    pub(crate) fn begins_to_sleep(&self) -> bool {
        !self.1.replace(true)
    }

    /// It is counted as a sleeper of its one connection from now on, or no more.
    pub(crate) fn counts(&self, conn: &Held, data: bool, space: bool) {
        self.0.change(Hold { index: conn.index().0, data, space });
    }

    /// Whether it is still counted where it was: nobody has taken it for one that never returns.
    pub(crate) fn stands(&self) -> bool {
        self.0.stands()
    }

    /// It goes on; `false` if it was taken for one that never would, and what it held was given back.
    pub(crate) fn end(self) -> bool {
        self.0.end()
    }

    /// It goes on, and holds its one connection as before.
    pub(crate) fn end_on(self, conn: &Conn) {
        if !self.end() {
            conn.hold_anew();
        }
    }
}

/// A call on one connection: written down from the first time it gives its core away until it returns.
#[derive(Default)]
pub(crate) struct Stay(Option<Call>);

impl Stay {
    /// Before it may sleep; it looks at `conn` by this number. (What was taken for a call that never returns,
    /// or was the parent's of this process, is written down anew.)
    #[inline(never)]
    pub(crate) fn begin(&mut self, conn: &Held, fd: i32, entry: usize) -> &Call {
        let call = self.begin_awake(conn, fd, entry);
        call.0.note_thread();
        call
    }

    /// Before it gives its core away.
    pub(crate) fn begin_awake(&mut self, conn: &Held, fd: i32, entry: usize) -> &Call {
        if let Some(call) = self.0.take_if(|call| !call.stands()) {
            call.end_on(conn);
        }
        self.0.get_or_insert_with(|| {
            let call = Call::on_awake(conn, entry);
            call.0.note_number(fd);
            call
        })
    }

    /// Whether it has slept.
    pub(crate) fn has_slept(&self) -> bool {
        self.0.as_ref().is_some_and(|call| call.1.get())
    }

    /// It returns.
    #[inline]
    pub(crate) fn end(&mut self, conn: &Held, fd: i32) {
        if let Some(call) = self.0.take() {
            end_stay(call, conn, fd);
        }
    }
}

#[inline(never)]
fn end_stay(call: Call, conn: &Held, fd: i32) {
    call.end_on(conn);
    if conn.has(flag::KEPT) {
        kept::end_if_over(conn, conn.index(), fd);
    }
}

/// Nobody is in the call any more.
fn give_up(hold: Hold) {
    let Some(conn) = Held::unpark(Index(hold.index)) else { return };
    if let Some(end) = End::still_of(&conn) {
        sleepers::count_sleepers(&conn, &end, -i32::from(hold.data), -i32::from(hold.space));
    }
}

/// Before a close that finds its connection in another call: whether that is so.
pub(crate) fn is_in_other_calls(conn: &Held) -> bool {
    if !conn.is_in_other_calls() {
        return false;
    }
    let here = 0u8;
    callers::drop_left(address(&here), Some(conn.index().0), give_up);
    let is_in_calls = conn.is_in_other_calls();
    if is_in_calls {
        callers::await_end();
    }
    is_in_calls
}

/// Where new connections begin: those that have no descriptor any more, and wait for calls which were left
/// meanwhile, end.
#[inline]
pub(crate) fn end_what_is_over() {
    if callers::are_awaited() {
        let here = 0u8;
        if callers::drop_left(address(&here), None, give_up) {
            callers::await_end();
        }
    }
}
