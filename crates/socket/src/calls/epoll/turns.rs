//! Whose turn it is where more is ready than an answer holds. Owns: that who was not told has its turn before
//! who was told is told again, as in the kernel, whose list goes round.
//!
//! Our members and the kernel's have laps by turns. The rings' lap goes once over the recent members, from
//! where the last answer came to. The kernel's goes once round its own list: the doorbell of a member with
//! something to tell is rung as a marker, behind whoever waits there, and whom the kernel tells of goes
//! behind it; named, it ends the lap. Other doorbells that the kernel names there are the rings' business.
//! An answer with room left ends all that, for it has told of everybody.

use crate::doorbell;
use crate::end::End;
use crate::flag;
use crate::held::{Held, hold_index};
use crate::interest::arrival;
use crate::interest::registration::{Registration, Source, Told, registrations};
use crate::interest::set::Set;
use os::epoll::bits;
use os::time::Cycles;
use shm::slab::Index;
use sync::Ordering;

/// After so many that the rings told the kernel has a lap, though it was silent a moment ago: one system call
/// for as many events hardly counts.
const TOLD_MOST: u32 = 8;
/// An answer is not filled at any price: each of its members may have two records before the next one's.
const FILLS_MOST: usize = 8;
/// Members of one look.
const CHUNK: usize = 8;
/// Laps that one answer may touch: the rest of one, one of either side, and the part of the first that came
/// before; one more where the kernel was not due between, and one for what has come since the first began.
const LAPS_MOST: usize = 6;
/// So many ready members stand in the order of arrival at most, in a lap.
const LAP_MOST: usize = arrival::MOST;

/// An answer on its way.
pub(super) trait Round {
    /// How many it holds.
    fn told(&self) -> usize;

    /// For how many it has room.
    fn room(&self) -> usize;

    /// Enters what the rings have to report of those that were found.
    fn report(&mut self, found: &[u32]);

    /// Asks the kernel, for so much `of_its_lap` or for what there is room for. How much it named, and
    /// whether the marker was among it.
    fn ask(&mut self, of_its_lap: Option<usize>) -> (usize, bool);

    /// What the kernel named first in its last answer, if nothing has been told yet.
    fn named_in_vain(&self) -> Option<u64>;

    /// Whether the kernel may have something to say.
    fn is_kernel_due(&self) -> bool;
}

/// An answer is about to be given. `by_kernel`: what it lacks room for is the kernel's to tell first.
#[inline]
pub(super) fn note(set: &Set, is_full: bool, by_kernel: bool) {
    if !is_full {
        if set.laps.are_on() {
            set.laps.end();
        }
    } else if by_kernel {
        set.laps.begin_kernels_part();
    } else if !set.laps.are_on() {
        set.laps.begin_rings(set.left_of_look());
    }
}

/// Asks the kernel for what an answer has room for: again where it named so many, and not all of these were
/// to be told. (One that would be empty goes on, at most once round the kernel's list: it would say that
/// nothing is ready.)
pub(super) fn fill(answer: &mut impl Round, set: &Set) {
    let (first, mut left) = (answer.named_in_vain(), FILLS_MOST.min(answer.told() + 1));
    for _ in 0..2 * set.len() as usize + FILLS_MOST {
        let room = answer.room();
        if room == 0 || (left == 0 && answer.told() > 0) {
            return;
        }
        let (got, _) = answer.ask(None);
        if got < room || (first.is_some() && answer.named_in_vain() == first) {
            return;
        }
        left = left.saturating_sub(1);
    }
}

/// Goes on behind an answer that came out full. Whether anything was told.
#[cold]
pub(super) fn deal(answer: &mut impl Round, set: &Set) -> bool {
    let (mut is_told_out, mut has_gone_round) = (false, false);
    let (mut has_asked, mut by_kernel) = (false, 0);
    // (Whether the rings' lap is one that this answer has begun.)
    let mut is_whole = false;
    for _ in 0..LAPS_MOST {
        if set.laps.is_kernels() && !is_told_out {
            if !place_marker(set) {
                break;
            }
            // (A second lap is for what this answer has not told: that comes last in it. Where it is another
            // than the one before it names again what was told.)
            let before = set.laps.told_before().filter(|_| has_asked);
            let most = before.map_or(usize::MAX, |before| (before as usize).saturating_sub(by_kernel));
            let from = answer.told();
            is_told_out = tell_kernels(answer, set, most);
            is_whole = !set.laps.is_kernels();
            by_kernel += answer.told() - from;
            has_asked = true;
        }
        if answer.room() == 0 {
            break;
        }
        let told = tell_rings(answer, set);
        has_gone_round |= is_whole;
        if answer.room() == 0 || (has_gone_round && is_told_out) {
            break;
        }
        if !is_told_out
            && (has_gone_round || told >= TOLD_MOST || set.laps.has_kernel_told() || answer.is_kernel_due())
        {
            set.laps.begin_kernels();
        } else {
            begin_rings(set);
            is_whole = true;
        }
    }
    answer.told() > 0
}

/// The rings' lap begins anew.
fn begin_rings(set: &Set) {
    let mut found = [0u32; LAP_MOST];
    set.laps.begin_rings(set.begin_lap(&mut found, pending));
}

/// The rest of the rings' lap, as far as there is room. How many they have told since the kernel's last lap.
fn tell_rings(answer: &mut impl Round, set: &Set) -> u32 {
    let mut found = [0u32; CHUNK];
    loop {
        let room = answer.room().min(CHUNK);
        let count = set.look_on(&mut found[..room], &set.laps.left, is_pending);
        answer.report(&found[..count]);
        let told = set.laps.count_told(count);
        if count < CHUNK {
            return told;
        }
    }
}

/// The rest of the kernel's lap, as far as there is room, and `most` at most. Whether it has nothing else to
/// tell.
fn tell_kernels(answer: &mut impl Round, set: &Set, most: usize) -> bool {
    let (begun, mut is_told_out) = (answer.told(), false);
    // (Each time it names one of ours at least that is not told of here.)
    for _ in 0..=set.recent().saturating_add(CHUNK as u32) {
        let from = answer.told();
        let room = room_of_lap(answer, set).min(begun.saturating_add(most) - from);
        if room == 0 {
            return answer.room() > 0;
        }
        let (got, has_passed_marker) = answer.ask(Some(room));
        is_told_out = got < room;
        set.laps.count_told_by_kernel(answer.told() - from);
        let is_end = has_passed_marker && (set.laps.is_placed() || answer.told() > from);
        if has_passed_marker || answer.told() > from {
            set.laps.note_placed();
        }
        // (Somebody may have drained it: the next answer has another.)
        if is_end || is_told_out || !set.laps.marker().is_some_and(is_loud) {
            break;
        }
        if answer.room() == 0 {
            return false;
        }
    }
    set.laps.end_kernels();
    begin_rings(set);
    is_told_out
}

/// Room for what is left of the kernel's lap: what stands behind its end has another turn. (Where nobody
/// knows how much that is, an answer of few is asked for one by one.)
fn room_of_lap(answer: &impl Round, set: &Set) -> usize {
    let left = match set.laps.left_of_kernels() {
        Some(left) => left as usize,
        None if answer.room() <= CHUNK => 1,
        None => usize::MAX,
    };
    answer.room().min(left)
}

/// Makes sure that a doorbell ends the kernel's lap. `false` if no member has anything to tell.
fn place_marker(set: &Set) -> bool {
    if let Some(marker) = set.laps.marker().filter(|marker| set.has_recent(marker) && is_pending(marker)) {
        if !is_loud(marker) || !is_level(marker) {
            ring(marker);
        }
        return true;
    }
    let is_quiet = |registration: &'static Registration| is_pending(registration) && !is_loud(registration);
    // (A quiet one goes behind all who wait. Of one that is loud nobody knows where it stands.)
    let quiet = set.find(is_quiet);
    let Some(found) = quiet.or_else(|| set.find(is_pending)) else { return false };
    let Some(marker) = registrations().get(found) else { return false };
    set.laps.mark(found, quiet.is_some());
    ring(marker);
    true
}

/// Whether what the kernel named is the doorbell that ends its lap.
pub(super) fn is_marker(set: &Set, told: &Told) -> bool {
    told.source == Source::Bell
        && set.laps.marker().is_some_and(|marker| core::ptr::eq(marker, told.registration))
}

/// Whether it is the rings' to tell what the kernel named in its lap: of a member that every wait looks at,
/// and which the rings speak for as well. Its connection, if so.
pub(super) fn are_to_tell(set: &Set, told: &Told) -> Option<Held> {
    let Told { registration, source, raised, .. } = *told;
    let is_theirs = is_level(registration)
        && !registration.is_parked()
        && set.has_recent(registration)
        && is_pending(registration);
    let is_known = |conn: &Held| {
        source == Source::Bell
            || (conn.has(flag::TCP_ENDED | flag::RESET) && raised & (bits::ERR | bits::HUP | bits::PRI) == 0)
    };
    if is_theirs { told.conn().filter(is_known) } else { None }
}

/// Since when there is something to tell of a member.
fn pending(registration: &'static Registration) -> Option<Cycles> {
    let of = |conn| End::of(conn).and_then(|end| registration.pending(conn, &end));
    registration.peek_conn().and_then(of)
}

fn is_pending(registration: &'static Registration) -> bool {
    let pending = |conn| End::of(conn).is_some_and(|end| registration.is_pending(conn, &end));
    registration.peek_conn().is_some_and(pending)
}

/// Whether its doorbell is named as long as it is rung.
fn is_level(registration: &Registration) -> bool {
    registration.events() & (bits::ET | bits::ONESHOT) == 0
}

fn is_loud(registration: &Registration) -> bool {
    let loud = |conn| End::of(conn).is_some_and(|end| doorbell::may_have_rung(conn, &end));
    registration.peek_conn().is_some_and(loud)
}

fn ring(registration: &Registration) {
    if let Some(held) = hold_index(Index(registration.conn.load(Ordering::Relaxed)))
        && let Some(end) = End::of(&held)
    {
        doorbell::kick(&held, &end);
    }
}
