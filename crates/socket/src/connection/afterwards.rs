//! What a signal handler writes on a blocking socket while it has interrupted the middle of its own thread's
//! write there.
//!
//! Under TCP the handler runs when that call is over, or has told how far it got: its bytes come behind
//! those. Here it finds the turn taken by its own thread, so it leaves its bytes, and the interrupted call
//! sends them when it gives the turn back, before the rest of its own. Owns: the notes, and that the bytes of
//! one thread's handlers keep their order.

use crate::conn::Conn;
use crate::here::Part as _;
use shm::{Sink, Supply};
use sync::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// As much as a handler may write at once; of more it is told a short count.
const ROOM: usize = 2048;
/// The length of a note that takes no more.
const CLOSED: u32 = u32::MAX;

struct Note {
    /// Thread and connection; 0 while the note is free.
    owner: AtomicU64,
    conn: AtomicUsize,
    /// Bytes put in, and bytes sent of them.
    len: Len,
    sent: AtomicU32,
    /// The thread sends from it: a handler that interrupts that must not.
    is_busy: AtomicBool,
    bytes: [AtomicU8; ROOM],
}

impl Note {
    const fn new() -> Self {
        Note {
            owner: AtomicU64::new(0),
            conn: AtomicUsize::new(0),
            len: Len(AtomicU32::new(0)),
            sent: AtomicU32::new(0),
            is_busy: AtomicBool::new(false),
            bytes: [const { AtomicU8::new(0) }; ROOM],
        }
    }
}

/// A length, kept inverted: zero memory is a note that takes no more.
struct Len(AtomicU32);

impl Len {
    fn load(&self) -> u32 {
        !self.0.load(Ordering::Relaxed)
    }

    fn open(&self) {
        self.0.store(!0, Ordering::Release);
    }

    /// Adds `count` to it if that leaves it within bounds; where it stood.
    fn extend(&self, count: usize) -> Option<usize> {
        let longer = |kept: u32| (!kept as usize + count <= ROOM).then(|| !(!kept + count as u32));
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, longer).ok().map(|kept| !kept as usize)
    }

    /// Closes the note if its length is still `len`; whether it was.
    fn close(&self, len: u32) -> bool {
        self.0.compare_exchange(!len, !CLOSED, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

/// What the handlers of a process have left.
pub(crate) struct Notes {
    notes: [Note; 4],
    /// Notes in use.
    pending: AtomicU32,
}

impl Notes {
    pub(crate) const fn new() -> Self {
        Notes { notes: [const { Note::new() }; 4], pending: AtomicU32::new(0) }
    }
}

/// Whether any thread has left anything.
#[inline]
pub(crate) fn any() -> bool {
    Notes::here().pending.load(Ordering::Relaxed) != 0
}

fn mine(conn: &Conn) -> Option<&'static Note> {
    let (me, conn) = (fabric::turn::me().0, core::ptr::from_ref(conn).addr());
    let is_mine = |note: &&Note| {
        note.owner.load(Ordering::Relaxed) == me
            && note.conn.load(Ordering::Relaxed) == conn
            && note.len.load() != CLOSED
    };
    Notes::here().notes.iter().find(is_mine)
}

/// Whether this thread has left something for `conn`: what it writes now comes behind it.
pub(crate) fn is_waiting(conn: &Conn) -> bool {
    any() && mine(conn).is_some()
}

/// A note of this thread's from now on. (Until its length is there no handler takes it for one.)
fn free(conn: &Conn) -> Option<&'static Note> {
    let me = fabric::turn::me().0;
    let take = |note: &&Note| note.owner.compare_exchange(0, me, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    let note = Notes::here().notes.iter().find(take)?;
    note.conn.store(core::ptr::from_ref(conn).addr(), Ordering::Relaxed);
    note.sent.store(0, Ordering::Relaxed);
    note.is_busy.store(false, Ordering::Relaxed);
    Notes::here().pending.fetch_add(1, Ordering::Relaxed);
    note.len.open();
    Some(note)
}

/// Leaves what fits of `source`; returns how much that is.
pub(crate) fn leave(conn: &Conn, source: impl Supply) -> usize {
    let Some(note) = mine(conn).or_else(|| free(conn)) else { return 0 };
    let (mut left, mut total, mut chunk) = (source, 0, [0u8; 64]);
    loop {
        let room = ROOM.saturating_sub(note.len.load() as usize).min(chunk.len());
        let count = left.first(room).copy_to(Sink::from(&mut chunk[..room]));
        if count == 0 {
            return total;
        }
        // The place is taken first: a handler that interrupts this one leaves its bytes behind them.
        let Some(at) = note.len.extend(count) else { return total };
        note.bytes
            .iter()
            .skip(at)
            .zip(&chunk[..count])
            .for_each(|(cell, byte)| cell.store(*byte, Ordering::Relaxed));
        (left, total) = (left.after(count), total + count);
    }
}

/// Sends what this thread's handlers have left for `conn`, by `send`, which says how much it took; 0 to keep
/// the rest for later, `None` if nobody will ever take it.
pub(crate) fn send(conn: &Conn, send: impl FnMut(&[u8]) -> Option<usize>) {
    if let Some(note) = mine(conn)
        && !note.is_busy.swap(true, Ordering::Relaxed)
    {
        if send_from(note, send) {
            Notes::here().pending.fetch_sub(1, Ordering::Relaxed);
            note.owner.store(0, Ordering::Release);
        } else {
            note.is_busy.store(false, Ordering::Relaxed);
        }
    }
}

/// Whether all of it is sent, and the note closed.
fn send_from(note: &Note, mut send: impl FnMut(&[u8]) -> Option<usize>) -> bool {
    loop {
        let (sent, len) = (note.sent.load(Ordering::Relaxed), note.len.load());
        let mut chunk = [0u8; 64];
        let waiting = note.bytes.iter().take(len as usize).skip(sent as usize);
        let count = waiting.zip(&mut chunk).map(|(cell, byte)| *byte = cell.load(Ordering::Relaxed)).count();
        let taken = if count == 0 { None } else { send(&chunk[..count]) };
        match taken {
            Some(0) => return false,
            Some(taken) => note.sent.store(sent + taken as u32, Ordering::Relaxed),
            None if count > 0 => note.sent.store(len, Ordering::Relaxed),
            // Unless another handler has left something meanwhile.
            None => {
                if note.len.close(len) {
                    return true;
                }
            }
        }
    }
}
