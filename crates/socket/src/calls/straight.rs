//! The ordinary call: one piece that the ring takes, or has, whole, on a connection of which nothing special
//! is known.
//!
//! Owns: what "ordinary" means. All of it is asked first, with a load each; whatever is not ordinary moves
//! nothing here and is `stream`'s. So nothing is decided here: no error, no wait, no end of a stream.

use crate::conn::Conn;
use crate::end::End;
use crate::flag::{self, Flags};
use crate::phase::Phase;
use crate::wait::has_core_alone;
use crate::{afterwards, ready, watch};
use fabric::turn::me;
use os::net::msg;
use os::time::Cycles;
use shm::ring::{HAND_OVER_UP_TO, Reader};
use shm::{ClosedBy, Receiving, Sending, Sink, Supply};
use sync::Ordering;
use sync::Ordering as Shared;

/// Any of these, and a call has more to do than to move bytes.
const SPECIAL: Flags = flag::TCP_ENDED
    .and(flag::TCP_GONE)
    .and(flag::RESET)
    .and(flag::RESET_TOLD)
    .and(flag::PROVOKED)
    .and(flag::WATCHED)
    .and(flag::LIMITED)
    .and(flag::BROKEN)
    .and(flag::CORKED);

/// Sends `source`, if it is all of `total` and there is room for it; `false` if nothing was sent.
#[inline(always)]
pub(crate) fn send<S: Supply>(conn: &Conn, end: &End, fd: i32, source: S, total: usize, flags: i32) -> bool {
    const UNUSUAL: i32 = msg::OOB | msg::ZEROCOPY | msg::MORE | msg::FASTOPEN;
    let is_usual = S::IS_WHOLE && flags & UNUSUAL == 0 && source.len() == total && total != 0;
    if !is_usual || afterwards::any() {
        return false;
    }
    let (mine, theirs) = (end.mine(), end.theirs());
    let Some(mut turn) = Sending::try_take(mine, me()) else { return false };
    // Asked with the turn taken: whoever has it may have ended the phase, or moved the direction to TCP.
    let said = mine.closed.load(Shared::Relaxed) | theirs.closed.load(Shared::SeqCst);
    if !conn.is(Phase::Smc) || said != 0 || conn.has(SPECIAL) || end.outgoing.has_ended() {
        return false;
    }
    let now = Cycles::now();
    let has_listened = has_listened(conn, end, now);
    if !has_listened && !conn.is_in_the_same_breath(now) && !conn.was_tcp_quiet(now) {
        return false;
    }
    let reader = reader(end, total, has_listened);
    end.note_written(now);
    let mut producer = turn.producer(end.outgoing, &conn.stream.tx_cache);
    if producer.write_whole(source, reader) != Ok(true) {
        return false;
    }
    end.ring_peer(&end.outgoing.words().data_wait.0);
    note_writing(conn, end, has_listened, now);
    turn.count(total);
    after_publishing(conn, end, fd);
    true
}

/// Fills `sink`, if it is all there is, with what has come; returns how much that was. Fewer than there is
/// room for: that was all in the ring.
#[inline(always)]
pub(crate) fn receive(conn: &Conn, end: &End, sink: Sink<'_>, total: usize, flags: i32) -> usize {
    const UNUSUAL: i32 = msg::PEEK | msg::WAITALL | msg::TRUNC | msg::OOB | msg::ERRQUEUE;
    let is_usual = flags & UNUSUAL == 0 && sink.len() == total && total <= end.incoming.chunk();
    if !is_usual
        || conn.has(flag::BROKEN | flag::PEEK_OFFSET)
        || conn.stream.rcvlowat.load(Ordering::Relaxed) > 1
        || end.mine().low_water.load(Shared::Relaxed) > 1
    {
        return 0;
    }
    let Some(mut turn) = Receiving::try_take(end.mine(), me()) else { return 0 };
    let got = turn.consumer(end.incoming, &conn.stream.rx_cache).read(sink).unwrap_or(0);
    if got == 0 {
        return 0;
    }
    turn.count(got);
    drop(turn);
    after_freeing(end);
    got
}

/// The writer is told of room, if it waits for some.
#[inline(always)]
pub(crate) fn after_freeing(end: &End) {
    let word = &end.incoming.words().space_wait.0;
    if word.is_waited_for() && ready::is_worth_ringing(end) {
        end.ring_peer(word);
    }
}

/// What was published after the peer had looked for unread bytes at its close came too late, like data that
/// TCP finds at a closed socket. (Ringing had a full fence between publication and this look; see
/// `close::finish`.)
#[inline(always)]
pub(crate) fn after_publishing(conn: &Conn, end: &End, fd: i32) {
    let said = end.theirs().closed.load(Shared::Relaxed);
    if said != 0 {
        published_late(conn, end, fd, said);
    }
}

#[cold]
fn published_late(conn: &Conn, end: &End, fd: i32, said: u32) {
    if said & ClosedBy::CLOSE != 0 || ready::has_shut_both_ways(said) {
        ready::provoke_reset(conn, end, fd);
    } else if said & ClosedBy::WRITE != 0 {
        watch::watch(conn);
    }
}

/// Whether we have read something since we last wrote, and TCP was asked lately: then somebody was there a
/// moment ago. (What was read long ago says nothing: a peer that has died since would be written to as if it
/// had died with that unread.)
#[inline(always)]
fn has_listened(conn: &Conn, end: &End, now: Cycles) -> bool {
    conn.has_read_since_it_wrote(end.incoming.words().consumer.0.cons.load(Shared::Relaxed))
        && conn.was_tcp_asked_lately(now)
}

/// We write: what has been read so far says nothing of the peer the next time.
#[inline(always)]
fn note_writing(conn: &Conn, end: &End, has_listened: bool, now: Cycles) {
    conn.note_read_so_far(end.incoming.words().consumer.0.cons.load(Shared::Relaxed));
    if has_listened {
        conn.note_heard(now);
    }
}

/// A call that is not ordinary begins to write; whether it has listened.
pub(crate) fn begin_writing(conn: &Conn, end: &End, now: Cycles) -> bool {
    let has_listened = has_listened(conn, end, now);
    note_writing(conn, end, has_listened, now);
    has_listened
}

/// Where the peer most likely reads this: beside us if we have our core for ourselves, and waiting for it if
/// it has been our turn to speak since we last read and it does not sleep.
#[inline(always)]
pub(crate) fn reader(end: &End, total: usize, has_listened: bool) -> Reader {
    let is_asleep = end.outgoing.words().data_wait.0.is_asked();
    match has_core_alone() {
        false => Reader::InTurn,
        true if has_listened && total <= HAND_OVER_UP_TO && !is_asleep => Reader::Waiting,
        true => Reader::Apart,
    }
}
