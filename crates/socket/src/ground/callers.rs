//! Calls that sleep, or have slept, written down: what each of them holds lies here, and not on its stack
//! alone. Owns: that exactly one takes such a note apart, be it the call itself when it is over, or whoever
//! finds that it never will be. (What is given back then is `abandoned`'s.)
//!
//! A call that is left by siglongjmp, or whose thread was cancelled, says nothing. It is known by where it
//! slept: whatever its thread calls later from higher up the stack has no frame of it below; and a thread
//! that is gone has no calls.

use crate::here::Part as _;
use sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

/// Calls that can be written down at once; more keep what they hold if they are abandoned. (A program that
/// locks its memory pays for all of them.)
const NOTES: usize = 2048;
/// Notes to a bit of the word that says which were ever used: a page of them.
const BLOCK: usize = 64;
const _: () = assert!(NOTES / BLOCK <= u64::BITS as usize);
/// A thread's notes lie within so many of the place that its name says.
const NEAR: usize = 8;
/// Sockets of one note: it fills a cache line. A poll of more goes on in others.
const ROOM: usize = 7;
/// Where a call on one socket notes its number. (Polls have none: of theirs the kernel has its own idea.)
const NUMBER: usize = ROOM - 1;
/// How many places a poll tries for those.
const TRIES: usize = 64;

/// What a note's word says in its lowest bits; above them it counts the note's lives.
const LIFE: u64 = 3;
const FREE: u64 = 0;
const STANDS: u64 = 2;

#[repr(C, align(64))]
struct Note {
    state: AtomicU64,
    /// Process and thread, as they own locks; 0 for the continuation of another note.
    owner: AtomicU64,
    /// An address in the call's part of the stack, as low as it is known.
    floor: AtomicUsize,
    /// The kernel's number of the thread; 0 before it sleeps: then it lives.
    thread: AtomicU32,
    len: AtomicU32,
    /// Where it goes on, plus one.
    next: AtomicU32,
    /// See [`Hold`].
    holds: [AtomicU32; ROOM],
}

impl Note {
    const fn new() -> Self {
        Note {
            state: AtomicU64::new(FREE),
            owner: AtomicU64::new(0),
            floor: AtomicUsize::new(0),
            thread: AtomicU32::new(0),
            len: AtomicU32::new(0),
            next: AtomicU32::new(0),
            holds: [const { AtomicU32::new(0) }; ROOM],
        }
    }

    fn write(&self, owner: u64, floor: usize) {
        self.owner.store(owner, Ordering::Relaxed);
        self.floor.store(floor, Ordering::Relaxed);
        self.thread.store(0, Ordering::Relaxed);
        self.len.store(0, Ordering::Relaxed);
        self.next.store(0, Ordering::Relaxed);
        self.holds[NUMBER].store(0, Ordering::Relaxed);
    }
}

/// A connection that a call holds, and what it counts there as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hold {
    /// Number of the connection.
    pub(crate) index: u32,
    /// A sleeper for data.
    pub(crate) data: bool,
    /// A sleeper for space.
    pub(crate) space: bool,
}

impl Hold {
    fn word(self) -> u32 {
        self.index << 2 | u32::from(self.space) << 1 | u32::from(self.data)
    }

    fn of(word: u32) -> Self {
        Hold { index: word >> 2, data: word & 1 != 0, space: word & 2 != 0 }
    }
}

/// The notes of a process.
pub(crate) struct Calls {
    notes: [Note; NOTES],
    /// A bit for each block of notes of which one was ever taken. (Who looks at another one for the first
    /// time is given a page by the kernel, and a fork child looks at all.)
    used: AtomicU64,
    /// Where the next continuation is looked for.
    hand: AtomicU32,
    /// Whether connections wait for such calls to end, which have no descriptor any more.
    are_awaited: AtomicU32,
}

impl Calls {
    pub(crate) const fn new() -> Self {
        Calls {
            notes: [const { Note::new() }; NOTES],
            used: AtomicU64::new(0),
            hand: AtomicU32::new(0),
            are_awaited: AtomicU32::new(0),
        }
    }

    /// Before the note `at` is taken: a child that is made meanwhile finds it.
    #[inline]
    fn use_block_of(&self, at: usize) {
        let bit = 1 << (at / BLOCK);
        if self.used.load(Ordering::Relaxed) & bit == 0 {
            self.used.fetch_or(bit, Ordering::SeqCst);
        }
    }

    /// The notes that may be other than free.
    fn used(&self) -> impl Iterator<Item = &Note> {
        let used = self.used.load(Ordering::Relaxed);
        let blocks = self.notes.chunks(BLOCK).enumerate();
        blocks.filter(move |(block, _)| used & 1 << block != 0).flat_map(|(_, notes)| notes)
    }
}

fn take(from: usize, tries: usize) -> Option<(usize, u64)> {
    (from..from + tries).map(|at| at % NOTES).find_map(|at| {
        let (note, state) = (&Calls::here().notes[at], Calls::here().notes[at].state.load(Ordering::Relaxed));
        let is_free = state & LIFE == FREE;
        Calls::here().use_block_of(at);
        let taken =
            || note.state.compare_exchange(state, state + 1, Ordering::Acquire, Ordering::Relaxed).is_ok();
        (is_free && taken()).then_some((at, state + 1))
    })
}

fn home(owner: u64) -> usize {
    (owner as usize).wrapping_mul(0x9e37_79b9) >> 8 & (NOTES - 1)
}

/// A call that is written down.
pub(crate) struct Written {
    note: Option<(usize, u64)>,
    last: usize,
}

impl Written {
    /// Writes a call of this thread down.
    pub(crate) fn begin() -> Self {
        let owner = fabric::turn::me().0;
        // (What lies below: the kernel's frame for a handler is larger than this one.)
        let floor = 0u8;
        let taken = if os::confined::is_confined() { None } else { take(home(owner), NEAR) };
        let note = taken.map(|(at, state)| {
            let note = &Calls::here().notes[at];
            note.write(owner, core::ptr::from_ref(&floor).addr());
            note.state.store(state + 1, Ordering::Release);
            (at, state + 1)
        });
        Written { note, last: note.map_or(0, |(at, _)| at) }
    }

    /// It is about to sleep: whoever finds it later can ask the kernel whether its thread is still there.
    pub(crate) fn note_thread(&self) {
        if let Some((at, _)) = self.note {
            let thread = &Calls::here().notes[at].thread;
            if thread.load(Ordering::Relaxed) == 0 {
                thread.store(os::process::tid(), Ordering::Relaxed);
            }
        }
    }

    /// It holds this as well.
    pub(crate) fn add(&mut self, hold: Hold) {
        if self.note.is_none() {
            return;
        }
        if Calls::here().notes[self.last].len.load(Ordering::Relaxed) as usize == ROOM && !self.go_on() {
            return;
        }
        let note = &Calls::here().notes[self.last];
        let len = note.len.load(Ordering::Relaxed);
        note.holds[len as usize % ROOM].store(hold.word(), Ordering::Relaxed);
        note.len.store(len + 1, Ordering::Relaxed);
    }

    fn go_on(&mut self) -> bool {
        let hand = Calls::here().hand.fetch_add(1, Ordering::Relaxed) as usize;
        let Some((at, state)) = take(hand, TRIES) else { return false };
        let note = &Calls::here().notes[at];
        note.write(0, 0);
        note.state.store(state + 1, Ordering::Release);
        Calls::here().notes[self.last].next.store(at as u32 + 1, Ordering::Relaxed);
        self.last = at;
        true
    }

    /// The one thing that it holds it looks at by this number. (Whoever closes it looks for that: either he
    /// sees it, or the call sees that the number is closed.)
    pub(crate) fn note_number(&self, fd: i32) {
        if let Some((at, _)) = self.note {
            Calls::here().notes[at].holds[NUMBER].store(fd as u32 + 1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
        }
    }

    /// The one thing that it holds counts as this from now on.
    pub(crate) fn change(&self, hold: Hold) {
        if let Some((at, _)) = self.note
            && self.stands()
        {
            Calls::here().notes[at].holds[0].store(hold.word(), Ordering::Relaxed);
        }
    }

    /// Whether nobody has taken the call for one that never returns.
    pub(crate) fn stands(&self) -> bool {
        self.note.is_none_or(|(at, state)| Calls::here().notes[at].state.load(Ordering::Acquire) == state)
    }

    /// The call goes on; whether nobody has taken it for one that never does.
    pub(crate) fn end(self) -> bool {
        self.note.is_none_or(|(at, state)| take_apart(at, state, |_| ()))
    }
}

/// Takes a note apart, if it is the one that was seen; whether it was.
fn take_apart(at: usize, state: u64, mut each: impl FnMut(Hold)) -> bool {
    let first = &Calls::here().notes[at];
    if first.state.compare_exchange(state, state + 1, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return false;
    }
    let mut note = Some(first);
    while let Some(this) = note {
        for word in this.holds.iter().take(this.len.load(Ordering::Relaxed) as usize) {
            each(Hold::of(word.load(Ordering::Relaxed)));
        }
        let next = this.next.load(Ordering::Relaxed).checked_sub(1);
        let life = this.state.load(Ordering::Relaxed) | LIFE;
        this.state.store(life.wrapping_add(1), Ordering::Release);
        note = next.and_then(|at| Calls::here().notes.get(at as usize));
    }
    true
}

/// Gives back, to `each`, what calls of this thread hold that it has left without a return. `entry` is an
/// address in the frame of the call that it makes now.
#[inline]
pub(crate) fn drop_left_by_me(entry: usize, mut each: impl FnMut(Hold)) {
    let me = fabric::turn::me().0;
    for at in (home(me)..home(me) + NEAR).map(|at| at % NOTES) {
        let note = &Calls::here().notes[at];
        let state = note.state.load(Ordering::Acquire);
        if state & LIFE == STANDS && note.owner.load(Ordering::Relaxed) == me && is_left(note, entry) {
            take_apart(at, state, &mut each);
        }
    }
}

/// Whether this thread, or one that was at its place before it, has left the call. (A handler that runs on a
/// stack of its own says nothing of the one it has interrupted.)
#[cold]
fn is_left(note: &Note, entry: usize) -> bool {
    let is_above = entry > note.floor.load(Ordering::Relaxed) && !os::signals::is_on_a_stack_apart();
    let thread = note.thread.load(Ordering::Relaxed);
    is_above || thread != 0 && thread != os::process::tid()
}

/// The same for the calls of all threads; whether any is still asleep. Of the calls on `wanted`, or all, it
/// is asked more closely: who has joined a thread, and closes or connects then, may be ahead of the kernel,
/// which lists it for a moment.
pub(crate) fn drop_left(entry: usize, wanted: Option<u32>, mut each: impl FnMut(Hold)) -> bool {
    let me = fabric::turn::me().0;
    let mut is_any_asleep = false;
    for (at, note) in Calls::here().notes.iter().enumerate() {
        let (state, owner) = (note.state.load(Ordering::Acquire), note.owner.load(Ordering::Relaxed));
        if state & LIFE != STANDS || owner == 0 {
            continue;
        }
        let is_left = match owner == me {
            true => is_left(note, entry),
            false => {
                let thread = note.thread.load(Ordering::Relaxed);
                let is_wanted = wanted.is_none_or(|index| may_hold(note, index));
                let is_over = || is_wanted && os::process::is_thread_over(thread);
                thread != 0 && (!os::process::has_thread(thread) || is_over())
            }
        };
        is_any_asleep |= !is_left || !take_apart(at, state, &mut each);
    }
    is_any_asleep
}

/// Whether the call is on this connection, or on so many that it goes on elsewhere.
fn may_hold(note: &Note, index: u32) -> bool {
    let len = note.len.load(Ordering::Relaxed) as usize;
    note.next.load(Ordering::Relaxed) != 0
        || note.holds.iter().take(len).any(|hold| Hold::of(hold.load(Ordering::Relaxed)).index == index)
}

/// Who is written down as in a call on a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Noted {
    /// So often it is held by such calls.
    pub(crate) holds: u32,
    /// Whether one of another thread looks at it by the number that was asked for.
    pub(crate) is_by_number: bool,
    /// Whether it is in a poll of another thread.
    pub(crate) is_polled: bool,
}

/// Looks who is in a call on this connection, and by this number.
#[cold]
pub(crate) fn noted_on(index: u32, fd: i32) -> Noted {
    let me = fabric::turn::me().0;
    let mut noted = Noted { holds: 0, is_by_number: false, is_polled: false };
    for note in Calls::here().notes.iter().filter(|note| note.state.load(Ordering::Acquire) & LIFE == STANDS)
    {
        let len = note.len.load(Ordering::Relaxed) as usize;
        let held = note.holds.iter().take(len).map(|hold| Hold::of(hold.load(Ordering::Relaxed)));
        let holds = held.filter(|hold| hold.index == index).count() as u32;
        let owner = note.owner.load(Ordering::Relaxed);
        let (is_other, is_one) = (owner != me, owner != 0 && len == 1);
        let number = note.holds[NUMBER].load(Ordering::Relaxed);
        noted.is_by_number |= is_other && is_one && holds == 1 && number == fd as u32 + 1;
        noted.is_polled |= is_other && holds > 0 && !(is_one && number != 0);
        noted.holds += holds;
    }
    noted
}

/// In a fork child: the calls were the parent's threads'. (One that this thread is in, below a handler,
/// finds that it does not stand any more.)
pub(crate) fn forget() {
    for note in Calls::here().used() {
        let state = note.state.load(Ordering::Relaxed);
        if state & LIFE != FREE {
            note.state.store((state | LIFE).wrapping_add(1), Ordering::Relaxed);
        }
    }
}

/// A connection without descriptors waits for a call to end.
pub(crate) fn await_end() {
    Calls::here().are_awaited.store(1, Ordering::Relaxed);
}

/// Whether one may, since anybody last asked.
#[inline]
pub(crate) fn are_awaited() -> bool {
    let word = &Calls::here().are_awaited;
    word.load(Ordering::Relaxed) != 0 && word.swap(0, Ordering::Relaxed) != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// One test at a time: whoever comes to the place of a thread that has ended finds the calls it left.
    fn alone_here() -> MutexGuard<'static, ()> {
        static TURN: Mutex<()> = Mutex::new(());
        TURN.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hold(index: u32) -> Hold {
        Hold { index, data: index.is_multiple_of(2), space: index.is_multiple_of(3) }
    }

    fn left_above(entry: usize) -> Vec<Hold> {
        let mut found = Vec::new();
        drop_left_by_me(entry, |hold| found.push(hold));
        found
    }

    #[test]
    fn a_call_that_goes_on_has_given_nothing_away() {
        let _turn = alone_here();
        let mut call = Written::begin();
        (0..20).for_each(|index| call.add(hold(index)));
        assert!(call.stands() && left_above(0).is_empty(), "a handler below it found it alive");
        assert!(call.end() && left_above(usize::MAX).is_empty());
    }

    #[test]
    fn a_call_that_was_left_is_found_from_above_and_once() {
        let _turn = alone_here();
        let mut call = Written::begin();
        (0..20).for_each(|index| call.add(hold(index)));
        assert_eq!(left_above(usize::MAX), (0..20).map(hold).collect::<Vec<_>>());
        assert!(!call.stands() && left_above(usize::MAX).is_empty() && !call.end());
    }

    #[test]
    fn what_the_only_hold_counts_as_changes() {
        let _turn = alone_here();
        let mut call = Written::begin();
        call.add(hold(1));
        call.change(hold(6));
        assert_eq!(left_above(usize::MAX), [hold(6)]);
        assert!(!call.end());
    }

    #[test]
    fn who_is_in_a_call_by_a_number_is_found_by_other_threads() {
        let _turn = alone_here();
        let alone = move |holds| Noted { holds, is_by_number: false, is_polled: false };
        let mut poll = Written::begin();
        (0..20).for_each(|at| poll.add(hold(if at % 10 == 9 { 7001 } else { at })));
        let looks = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            // (It stays until all have looked: whoever looks for calls that were left finds it in this one.)
            scope.spawn(|| {
                let mut call = Written::begin();
                call.add(hold(7001));
                call.note_number(5);
                let told = noted_on(7001, 5);
                assert!(told.holds == 3 && !told.is_by_number, "it is not asked about itself");
                assert!(told.is_polled);
                looks.wait();
                looks.wait();
                assert!(call.end());
            });
            looks.wait();
            // (Where this thread's poll goes on in another note, that is anybody's.)
            let by_number = Noted { holds: 3, is_by_number: true, is_polled: true };
            assert_eq!(noted_on(7001, 5), by_number);
            assert_eq!(noted_on(7001, 6), Noted { is_by_number: false, ..by_number });
            assert_eq!(noted_on(7002, 5), alone(0));
            looks.wait();
        });
        assert!(poll.end());
        assert_eq!(noted_on(7001, 5), alone(0));
    }

    #[test]
    fn a_thread_that_is_gone_has_left_its_calls() {
        let _turn = alone_here();
        std::thread::spawn(|| {
            let mut call = Written::begin();
            call.add(hold(77));
            call.note_thread();
        })
        .join()
        .unwrap();
        let mut found = Vec::new();
        // (The threads of other tests may be asleep.)
        let _ = drop_left(0, None, |hold| found.push(hold));
        assert!(found.contains(&hold(77)));
    }
}
