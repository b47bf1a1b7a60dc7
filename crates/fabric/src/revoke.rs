//! Memory that the daemon of the host tier has passed, and takes back: its connections go to TCP, and none
//! begins in it any more. Owns: that this holds whatever the two ends do meanwhile, and that nothing is
//! believed of what they wrote: whoever lies there harms his own connections.
//!
//! First the segment says that it is taken back. A client frees the slot's row, looks at that, and then lends
//! the slot; a server looks at it after the client has published. So no slot is lent any more whose row is
//! seen to be decided here, and what is published later is refused by the server. Who is undecided is told
//! TCP, by the word that either end swaps, and what is shared is sent home as [`crate::visit`] does it.

use crate::unused::is_let_go;
use crate::verdict::{self, Verdict};
use crate::visit::{end, tell};
use os::mem::Shared;
use shm::{Segment, Side};
use sync::Ordering::{Acquire, Relaxed};
use wire::reason::Reason;

/// What came of a round over a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Round {
    /// Connections that this round sent home.
    pub home: u32,
    /// Those that could not be: somebody is stopped in the middle of a copy. To be tried again.
    pub left: u32,
}

/// Takes back what is mapped as `memory`, for `reason`; `bell` gives the doorbells by the numbers that stand
/// in it.
pub fn take_back(memory: Shared, bell: impl Fn(u32) -> Option<i32>, reason: Reason) -> Round {
    let Ok(segment) = Segment::attach_as_it_is(memory) else { return Round::default() };
    segment.revoke();
    let mut round = Round::default();
    for number in 0..segment.geometry().slots {
        match clear(&segment, number, &bell, reason) {
            Cleared::Home => round.home += 1,
            Cleared::Busy => round.left += 1,
            Cleared::Nothing => {}
        }
    }
    round
}

enum Cleared {
    Home,
    Nothing,
    Busy,
}

fn clear(segment: &Segment, number: u32, bell: impl Fn(u32) -> Option<i32>, reason: Reason) -> Cleared {
    let (Some(header), Some(client), Some(server)) = (
        segment.slot(number),
        segment.outgoing(number, Side::Client),
        segment.outgoing(number, Side::Server),
    ) else {
        return Cleared::Nothing;
    };
    let (rings, row) = ([&client, &server], &header.row);
    let generation = verdict::generation(&row.verdict);
    let is_plain = matches!(verdict::read(&row.verdict, generation), Some(Verdict::Plain(_)));
    let is_over = is_let_go(header) || rings.iter().all(|ring| ring.has_ended_for_good());
    if is_plain || is_over || row.open.load(Relaxed) == 0 {
        return Cleared::Nothing;
    }
    let bells = [0, 1].map(|side: usize| bell(header.sides[side].bell.load(Acquire)));
    let [Some(of_client), Some(of_server)] = bells else { return Cleared::Busy };
    let made = verdict::decide(&row.verdict, generation, Side::Server, Verdict::Plain(reason));
    let cleared = match made.unwrap_or_else(|stands| stands) {
        // (Who waits for the answer is rung.)
        Verdict::Plain(_) => Cleared::Nothing,
        Verdict::Smc => {
            header.note_home(reason.0);
            match [Side::Client, Side::Server].map(|side| end(header, side, rings[side as usize])) {
                [true, true] => Cleared::Home,
                _ => Cleared::Busy,
            }
        }
    };
    tell(rings, [of_client, of_server]);
    cleared
}

#[cfg(test)]
mod tests {
    use super::*;
    use os::pipe;
    use shm::segment::Geometry;
    use sync::Ordering::Release;

    const SLOTS: u32 = 5;

    /// A segment of which every slot is held, and has a row in it.
    fn segment() -> (Shared, Segment) {
        let geometry = Geometry { slots: SLOTS, ring_size: 16384 };
        let memory = os::mem::map_private(geometry.len()).expect("memory");
        let segment = Segment::format(memory, geometry, 42).expect("a segment");
        for header in (0..SLOTS).filter_map(|number| segment.slot(number)) {
            header.reset(7);
            header.sides[0].holders.store(1, Release);
            header.row.open.store(1, Relaxed);
            header.row.nonce.store(42, Relaxed);
            verdict::begin(&header.row.verdict);
        }
        (memory, segment)
    }

    fn decide(header: &shm::SlotHeader, side: Side, wanted: Verdict) -> Verdict {
        let generation = verdict::generation(&header.row.verdict);
        verdict::decide(&header.row.verdict, generation, side, wanted).unwrap_or_else(|stands| stands)
    }

    #[test]
    fn what_is_shared_goes_home_and_what_is_undecided_never_is_shared() {
        let (memory, segment) = segment();
        let [undecided, shared, closed, unheard, plain] =
            [0, 1, 2, 3, 4].map(|number| segment.slot(number).expect("a slot"));
        for header in [shared, closed, unheard] {
            assert_eq!(decide(header, Side::Server, Verdict::Smc), Verdict::Smc);
        }
        decide(plain, Side::Client, Verdict::Plain(Reason::PEERNOSMC));
        closed.sides[0].holders.store(0, Release);
        unheard.sides[1].bell.store(9, Relaxed);
        let bell = pipe::create().expect("a pipe");
        assert!(!segment.is_revoked());
        let round = take_back(memory, |number| (number == 0).then_some(bell), Reason::OPERATOR);
        assert_eq!(round, Round { home: 1, left: 1 }, "of one of them nobody could be told");
        assert!(segment.is_revoked());
        let has_ended = |number| {
            let rings = [Side::Client, Side::Server].map(|side| segment.outgoing(number, side));
            rings.into_iter().flatten().all(|ring| ring.has_ended_for_good())
        };
        assert_eq!([0, 1, 2, 3, 4].map(has_ended), [false, true, false, false, false]);
        assert_eq!(shared.home.load(Relaxed), Reason::OPERATOR.0);
        let stays = Verdict::Plain(Reason::OPERATOR);
        assert_eq!(decide(undecided, Side::Server, Verdict::Smc), stays);
        unheard.sides[1].bell.store(0, Relaxed);
        let again = || take_back(memory, |_| Some(bell), Reason::OPERATOR);
        assert_eq!([again(), again()], [Round { home: 1, left: 0 }, Round::default()]);
        os::fd::close(bell);
    }

    #[test]
    fn memory_that_is_no_segment_is_left_alone() {
        let memory = os::mem::map_private(8192).expect("memory");
        assert_eq!(take_back(memory, |_| None, Reason::OPERATOR), Round::default());
    }
}
