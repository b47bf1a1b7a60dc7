//! A model of flow control: how many bytes a peer's cursor entitles a side to read or write. Cursors are
//! monotonic u64 byte counts. The ring in `shm` clamps by itself, with cached cursors and as few loads as it
//! can; this is what it must come to, in plain arithmetic. The simulation of `proto` moves its bytes by it.
//!
//! Owns: the answer never exceeds the ring, whatever the peer wrote; a cursor that runs backwards or too far
//! is a lie, not a length.

use wire::Cursor;

/// The peer's cursor cannot be true. Its connection is broken, nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerMisbehaved;

/// Bytes ready to read: the peer has produced up to `peer_produced`, we have consumed up to `own_consumed`.
pub const fn readable(own_consumed: u64, peer_produced: u64, ring_size: u32) -> Result<u32, PeerMisbehaved> {
    span(own_consumed, peer_produced, ring_size)
}

/// Bytes free to write: we have produced up to `own_produced`, the peer has consumed up to `peer_consumed`.
pub const fn writable(own_produced: u64, peer_consumed: u64, ring_size: u32) -> Result<u32, PeerMisbehaved> {
    match span(peer_consumed, own_produced, ring_size) {
        Ok(unread) => Ok(ring_size - unread),
        Err(lie) => Err(lie),
    }
}

/// Bytes from `behind` to `ahead`, at most `ring_size`. Cursors may wrap at 2^64, so a large difference is a
/// backward step.
const fn span(behind: u64, ahead: u64, ring_size: u32) -> Result<u32, PeerMisbehaved> {
    let distance = ahead.wrapping_sub(behind);
    if distance <= ring_size as u64 { Ok(distance as u32) } else { Err(PeerMisbehaved) }
}

/// A cursor of the peer, followed over time: it may stand or advance, never step back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerCursor {
    last: u64,
}

impl PeerCursor {
    /// Starts at `position`.
    pub const fn at(position: u64) -> Self {
        Self { last: position }
    }

    /// The last believed position.
    pub const fn position(self) -> u64 {
        self.last
    }

    /// Believes `claim` if it is no further than `limit` (our own produced count, or our consumed count plus
    /// the ring) and not behind what was believed before. Unchanged on a lie. `limit` must not be behind the
    /// last believed position.
    pub fn advance(&mut self, claim: u64, limit: u64) -> Result<u64, PeerMisbehaved> {
        if claim.wrapping_sub(self.last) > limit.wrapping_sub(self.last) {
            return Err(PeerMisbehaved);
        }
        self.last = claim;
        Ok(claim)
    }
}

/// The monotonic position of a (wrap, count) cursor from CDC, which lies 0 to `ring_size` bytes after `last`.
pub fn resume(last: u64, claim: Cursor, ring_size: u32) -> Result<u64, PeerMisbehaved> {
    let known = Cursor::at_position(last, ring_size).ok_or(PeerMisbehaved)?;
    let distance = known.distance_to(claim, ring_size).ok_or(PeerMisbehaved)?;
    last.checked_add(u64::from(distance)).ok_or(PeerMisbehaved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_ring_is_believed_and_one_byte_more_is_not() {
        assert_eq!(readable(10, 110, 100), Ok(100));
        assert_eq!(readable(10, 111, 100), Err(PeerMisbehaved));
        assert_eq!(readable(10, 9, 100), Err(PeerMisbehaved));
        assert_eq!(writable(110, 10, 100), Ok(0));
        assert_eq!(writable(110, 110, 100), Ok(100));
        assert_eq!(writable(110, 111, 100), Err(PeerMisbehaved));
        assert_eq!(writable(111, 10, 100), Err(PeerMisbehaved));
    }

    #[test]
    fn cursors_may_wrap_at_the_end_of_u64() {
        assert_eq!(readable(u64::MAX - 1, 3, 100), Ok(5));
        assert_eq!(writable(3, u64::MAX - 1, 100), Ok(95));
        assert_eq!(PeerCursor::at(u64::MAX).advance(4, 9), Ok(4));
    }

    #[test]
    fn a_followed_cursor_keeps_its_position_on_a_lie() {
        let mut cursor = PeerCursor::at(50);
        assert_eq!(cursor.advance(60, 100), Ok(60));
        assert_eq!(cursor.advance(59, 100), Err(PeerMisbehaved));
        assert_eq!(cursor.advance(101, 100), Err(PeerMisbehaved));
        assert_eq!((cursor.position(), cursor.advance(60, 100)), (60, Ok(60)));
    }

    #[test]
    fn cdc_cursors_resume_where_they_were() {
        let size = 65536;
        for last in [0, 65535, 65536, 65536 * 65536 - 1, 65536 * 65536 * 3 + 7] {
            for len in [0, 1, 65535, 65536] {
                let claim = Cursor::at_position(last + len, size).unwrap();
                assert_eq!(resume(last, claim, size), Ok(last + len));
            }
        }
        assert_eq!(resume(0, Cursor { wrap: 2, count: 0 }, size), Err(PeerMisbehaved));
        assert_eq!(resume(0, Cursor::default(), 0), Err(PeerMisbehaved));
    }
}
