//! Whether the reader of a full ring rests, so that what the ring does not take goes to TCP. Owns: what tells
//! a reader that does something else from one that waits for a core, and from one that merely is slower.
//!
//! Bytes that go to TCP for nothing cost speed, bytes that wait for nothing may cost a program its life: two
//! that both write before they read wait for each other. So a reader that does not move rests after a second
//! whatever it does. Sooner only if the kernel says that all of its threads sleep: one that slept for these
//! bytes was rung and would run, and one that waits for a core does not sleep. And only if that is no stream
//! in which the reader is but slower, where TCP would be full a moment later: lately, whenever the ring was
//! full, the reader rested, and TCP took all that there was. Or if the reader's side waits for room itself,
//! or is the process that writes: with all of its other threads asleep nobody reads before this one does.

use crate::end::End;
use crate::here::fabric;
use os::time::Cycles;
use sync::Ordering;

/// A reader that does not move for so long rests, whatever it does.
const LONG: Cycles = Cycles::from_ms(1_000);
/// A writer that may wait asks the kernel after so long.
const SHORT: Cycles = Cycles::from_ms(20);
/// A full ring says for so long what stream this is.
const LATELY: Cycles = Cycles::from_ms(5_000);

/// In `rest_since`, whose lowest bits tell no time: a stream whose reader is slower.
const FLOWS: u64 = 1;
/// In `rest_since`: the reader is known to rest.
const KNOWN: u64 = 2;

/// Whether the reader is known to rest, and has not moved since.
pub(crate) fn is_known(end: &End) -> bool {
    let words = &end.outgoing.words().producer.0;
    if words.rest_at.load(Ordering::Acquire) != end.outgoing.progress() {
        return false;
    }
    let since = words.rest_since.load(Ordering::Relaxed);
    since != 0 && (since & KNOWN != 0 || lasts(since) >= LONG)
}

fn lasts(since: u64) -> Cycles {
    Cycles::now().since(Cycles::from_word(since & !(FLOWS | KNOWN)))
}

/// The ring is full: from here on its reader is seen to move, or not. Whether that is news.
pub(crate) fn note_full(end: &End) -> bool {
    let words = &end.outgoing.words().producer.0;
    let (progress, before) = (end.outgoing.progress(), words.rest_since.load(Ordering::Relaxed));
    let is_first = before == 0;
    if !is_first && words.rest_at.load(Ordering::Acquire) == progress {
        return false;
    }
    let is_slower = before & KNOWN == 0 || before & FLOWS != 0;
    let flows = if !is_first && is_slower && lasts(before) < LATELY { FLOWS } else { 0 };
    let now = Cycles::now().word() & !(FLOWS | KNOWN);
    words.rest_since.store(now.max(KNOWN << 1) | flows, Ordering::Relaxed);
    words.rest_at.store(progress, Ordering::Release);
    true
}

/// The ring is full, and somebody waits for room: whether its reader rests.
pub(crate) fn is_seen(end: &End) -> bool {
    note_full(end);
    let since = end.outgoing.words().producer.0.rest_since.load(Ordering::Relaxed);
    let is_to_be_asked =
        || lasts(since) >= SHORT && (since & FLOWS == 0 || waits_itself(end) || is_read_here(end));
    if is_known(end) {
        note_rest(end, since);
        true
    } else {
        is_to_be_asked() && ask(end, since)
    }
}

/// TCP takes no more, either: the reader is slower.
pub(crate) fn note_tcp_full(end: &End) {
    end.outgoing.words().producer.0.rest_since.fetch_or(FLOWS, Ordering::Relaxed);
}

/// The reader rests. (One that moved meanwhile, or will, is seen by `rest_at`.)
fn note_rest(end: &End, since: u64) {
    if since & KNOWN == 0 {
        let word = &end.outgoing.words().producer.0.rest_since;
        let _ = word.compare_exchange(since, since & !FLOWS | KNOWN, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// The same for a call that may not wait: it asks as soon as the ring is full. (`looks`: whether the reader
/// does not move for as long as such a call may look.)
pub(crate) fn is_seen_at_once(end: &End, looks: impl FnOnce() -> bool) -> bool {
    if !note_full(end) {
        return is_seen(end);
    }
    let since = end.outgoing.words().producer.0.rest_since.load(Ordering::Relaxed);
    let may_be_slower = since & FLOWS != 0 && !(is_nearly_read(end) && is_read_here(end));
    !may_be_slower && looks() && ask(end, since)
}

/// Whether a stretch on TCP was read but for a little: what is less than the reader of a stream takes at
/// once, and more than the piece of a record that a program leaves until it has the rest (TLS: 16 KiB).
fn is_nearly_read(end: &End) -> bool {
    const LITTLE: u64 = 32 * 1024;
    let is_outside = end.outgoing.has_ended() && end.outgoing.unread() == Ok(0);
    is_outside && end.outgoing.unread_outside().is_some_and(|bytes| bytes <= LITTLE)
}

/// Whether nobody but this process could read.
fn is_read_here(end: &End) -> bool {
    let members = fabric().members();
    let mut readers = members.living(end.theirs()).peekable();
    !end.view.is_far() && readers.peek().is_some() && readers.all(|pid| pid == os::process::cached_pid())
}

/// Whether the reader's side waits for room itself, which this one does not make.
fn waits_itself(end: &End) -> bool {
    let incoming = end.incoming;
    let is_full = incoming.has_ended() || incoming.free().is_ok_and(|free| free < incoming.size() / 3);
    is_full && incoming.words().space_wait.0.is_asked()
}

/// Asks the kernel whether everybody sleeps who could read.
#[cold]
fn ask(end: &End, since: u64) -> bool {
    if end.view.is_far() {
        // (Names in its roster may be those of other processes here.)
        return false;
    }
    let members = fabric().members();
    let mut readers = members.living(end.theirs()).peekable();
    let rests = readers.peek().is_some() && readers.all(os::process::is_asleep);
    if rests {
        note_rest(end, since);
    }
    rests && is_known(end)
}
