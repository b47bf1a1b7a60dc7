//! Flow control against a model: whatever a peer claims, an answer lies within the ring.

use proptest::prelude::*;
use testkit::flow::{PeerCursor, PeerMisbehaved, readable, resume, writable};
use wire::Cursor;

proptest! {
    #[test]
    fn answers_never_exceed_the_ring(own in any::<u64>(), step in -300i64..300, size in 0u32..200) {
        let peer = own.wrapping_add_signed(step);
        let (ahead, behind) = (0..=i64::from(size), -i64::from(size)..=0);
        prop_assert_eq!(readable(own, peer, size).is_ok(), ahead.contains(&step));
        prop_assert_eq!(writable(own, peer, size).is_ok(), behind.contains(&step));
        prop_assert!(readable(own, peer, size).is_ok_and(|n| n <= size) || !ahead.contains(&step));
        prop_assert!(writable(own, peer, size).is_ok_and(|n| n <= size) || !behind.contains(&step));
    }

    #[test]
    fn honest_cursors_are_believed(own in any::<u64>(), size in 1u32.., used in any::<u32>()) {
        let used = used % size;
        let ahead = own.wrapping_add(u64::from(used));
        prop_assert_eq!(readable(own, ahead, size), Ok(used));
        prop_assert_eq!(writable(ahead, own, size), Ok(size - used));
        let beyond = own.wrapping_add(u64::from(size) + 1);
        prop_assert_eq!(readable(own, beyond, size), Err(PeerMisbehaved));
        prop_assert_eq!(readable(own, own.wrapping_sub(1), size), Err(PeerMisbehaved));
    }

    #[test]
    fn a_followed_cursor_only_moves_forward_and_never_past_its_limit(
        start in any::<u64>(), claims in prop::collection::vec(any::<u8>(), 1..50), size in 1u32..200,
    ) {
        let mut cursor = PeerCursor::at(start);
        let limit = start.wrapping_add(u64::from(size));
        for claim in claims {
            // From a little behind the start to a little beyond the limit.
            let claim = start.wrapping_sub(20).wrapping_add(u64::from(claim));
            let before = cursor.position();
            match cursor.advance(claim, limit) {
                Ok(now) => prop_assert!(now.wrapping_sub(before) <= limit.wrapping_sub(before)),
                Err(PeerMisbehaved) => prop_assert_eq!(cursor.position(), before),
            }
        }
    }

    #[test]
    fn cdc_cursors_never_lead_further_than_one_turn(
        last in 0u64..1 << 60, wrap in any::<u16>(), count in any::<u32>(), size in 1u32..,
    ) {
        if let Ok(now) = resume(last, Cursor { wrap, count }, size) {
            prop_assert!(now >= last && now - last <= u64::from(size));
            prop_assert_eq!(Cursor::at_position(now, size), Some(Cursor { wrap, count }));
        }
    }
}
