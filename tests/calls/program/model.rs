//! What TCP says of every connection at each point of a script: bytes under way, who holds which descriptor,
//! what has ended. Invariant: from it alone follows which calls have one result only, and what must have
//! arrived before they are made.

use crate::script::{Actor, Arrival, Awaited, End, Member};

/// Bytes under way at most: less than half of the smallest ring, for a fuller one is not writable. (Fullness
/// is a matter of sizes: the cases of parity have it.)
const LITTLE: usize = 7 << 10;
const MUCH: usize = 40 << 10;
/// Calls whose bytes may be under way: TCP counts small ones as large.
const PIECES: usize = 24;

/// One end of a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Side {
    /// Descriptors of the process, and of its child.
    pub(crate) held: [[bool; 2]; 2],
    pub(crate) shut_read: bool,
    pub(crate) shut_write: bool,
    pub(crate) is_nonblocking: bool,
    pub(crate) member: Option<Member>,
    /// All descriptors are closed.
    pub(crate) is_gone: bool,
    /// A reset is on its way here, or has come.
    pub(crate) is_reset: bool,
    has_seen_reset: bool,
    /// Who of the two was told of the reset, for TCP tells one.
    told_of_reset: Option<bool>,
    /// Process and child have had it at the same time.
    pub(crate) was_shared: bool,
    /// Unread bytes, in how many calls they came, and how many there were before.
    pub(crate) unread: usize,
    pieces: usize,
    pub(crate) read: u64,
}

/// One connection.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) connector: End,
    pub(crate) is_accepted: bool,
    /// The accepting end has done something with it: until then a write that may not wait takes 16 KiB.
    pub(crate) is_looked_at: bool,
    /// The accepting end has forked before that.
    is_shared_unseen: bool,
    sides: [Side; 2],
    limit: usize,
}

impl Link {
    pub(crate) fn new(connector: End, is_small: bool) -> Link {
        let (limit, sides) = (if is_small { LITTLE } else { MUCH }, Default::default());
        let [is_accepted, is_looked_at, is_shared_unseen] = [false; 3];
        let mut link = Link { connector, is_accepted, is_looked_at, is_shared_unseen, sides, limit };
        link.side_mut(connector).held[0][0] = true;
        link
    }

    pub(crate) fn side(&self, end: End) -> &Side {
        &self.sides[end as usize]
    }

    pub(crate) fn side_mut(&mut self, end: End) -> &mut Side {
        &mut self.sides[end as usize]
    }

    pub(crate) fn accept(&mut self) {
        self.is_accepted = true;
        let acceptor = self.connector.other();
        self.side_mut(acceptor).held[0][0] = true;
    }

    /// The descriptors that somebody has of his end.
    pub(crate) fn copies(&self, by: Actor) -> Vec<usize> {
        let held = self.side(by.end).held[usize::from(by.is_child)];
        (0..2).filter(|copy| held[*copy]).collect()
    }

    /// Whether an end hears no more from the other one.
    pub(crate) fn has_ended(&self, end: End) -> bool {
        let peer = self.side(end.other());
        peer.shut_write || peer.is_gone || self.side(end).is_reset
    }

    /// Room for what an end may send; none where it is not to be had for sure.
    pub(crate) fn room(&self, end: End) -> usize {
        let to = self.side(end.other());
        let limit = if self.is_looked_at { self.limit } else { LITTLE };
        if to.pieces >= PIECES { 0 } else { limit.saturating_sub(to.unread) }
    }

    /// Whether somebody may act on it: of those who share a connection TCP tells one of a reset, and we each.
    pub(crate) fn may_act(&mut self, by: Actor) -> bool {
        let side = self.side_mut(by.end);
        !side.is_reset || !side.was_shared || *side.told_of_reset.get_or_insert(by.is_child) == by.is_child
    }

    /// Whether its last close has one result: who accepts, forks and then looks for the first time does not
    /// know how many there are, and so ends with FIN before it resets; who does not look at all, with FIN.
    pub(crate) fn may_close(&self, end: End) -> bool {
        self.side(end).unread == 0 || !self.is_shared_unseen
    }

    /// A fork: the child has what its parent has.
    pub(crate) fn fork(&mut self, end: End) {
        let is_unseen = end != self.connector && !self.is_looked_at;
        let side = self.side_mut(end);
        side.held[1] = side.held[0];
        let is_shared = side.held[0] != [false; 2];
        side.was_shared |= is_shared;
        self.is_shared_unseen |= is_shared && is_unseen;
    }

    /// Whether what an end sends arrives.
    pub(crate) fn does_arrive(&self, end: End) -> bool {
        let (own, peer) = (self.side(end), self.side(end.other()));
        !own.shut_write && !own.is_reset && !peer.is_gone
    }

    /// The offset of the next byte that an end sends.
    pub(crate) fn offset(&self, end: End) -> u64 {
        let to = self.side(end.other());
        to.read + to.unread as u64
    }

    /// Bytes are sent; who has gone answers with a reset.
    pub(crate) fn send(&mut self, end: End, count: usize) {
        if self.does_arrive(end) {
            let to = self.side_mut(end.other());
            (to.unread, to.pieces) = (to.unread + count, to.pieces + 1);
        } else if count > 0 && !self.side(end).shut_write && self.side(end.other()).is_gone {
            self.side_mut(end).is_reset = true;
        }
    }

    /// Bytes are taken.
    pub(crate) fn take(&mut self, end: End, count: usize) {
        let side = self.side_mut(end);
        let count = count.min(side.unread);
        side.unread -= count;
        side.read += count as u64;
        if side.unread == 0 {
            side.pieces = 0;
        }
    }

    /// A descriptor is closed: the last one ends the connection, with a reset if bytes were unread.
    pub(crate) fn close(&mut self, by: Actor, copy: usize, is_abort: bool) {
        self.side_mut(by.end).held[usize::from(by.is_child)][copy] = false;
        self.ends_if_nobody_has_it(by.end, is_abort);
    }

    /// All descriptors of a child are closed.
    pub(crate) fn child_exits(&mut self, end: End) {
        self.side_mut(end).held[1] = [false; 2];
        self.ends_if_nobody_has_it(end, false);
    }

    fn ends_if_nobody_has_it(&mut self, end: End, is_abort: bool) {
        if self.side(end).is_gone || self.side(end).held != [[false; 2]; 2] {
            return;
        }
        let does_reset = self.would_reset(end, is_abort);
        self.side_mut(end).is_gone = true;
        self.side_mut(end.other()).is_reset |= does_reset;
    }

    /// Whether the last close of an end is a reset for the other one.
    pub(crate) fn would_reset(&self, end: End, is_abort: bool) -> bool {
        let side = self.side(end);
        (side.unread > 0 || is_abort) && !side.is_reset && !self.is_over() && !self.side(end.other()).is_gone
    }

    /// Both have sent their last: TCP knows it no more.
    pub(crate) fn is_over(&self) -> bool {
        self.sides.iter().all(|side| side.shut_write || side.is_gone)
    }

    /// What must have arrived at an end before a call whose result it decides.
    pub(crate) fn awaited(&mut self, end: End, link: usize, copy: usize, bytes: bool) -> Vec<Awaited> {
        let has_ended = self.has_ended(end);
        let side = self.side_mut(end);
        let mut what = vec![];
        if bytes && side.unread > 0 {
            what.push(Arrival::Bytes(side.unread));
        }
        if side.is_reset && !side.has_seen_reset {
            side.has_seen_reset = true;
            what.push(Arrival::Reset);
        } else if has_ended && !side.is_reset && !side.shut_read {
            what.push(Arrival::Ended);
        }
        what.into_iter().map(|what| Awaited { link, copy, what }).collect()
    }
}
