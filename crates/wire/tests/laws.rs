//! Property tests: the codecs on arbitrary bytes, on damaged real messages, and on arbitrary values.

mod common;
mod properties;
mod values;

use proptest::prelude::*;
use wire::clc::Message;
use wire::{Cursor, cdc};

/// A known message with some bytes replaced, cut or extended, and with a length field that may follow.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let known: Vec<Vec<u8>> = common::all().into_iter().map(|(_, bytes)| bytes).collect();
    let edits = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6);
    (prop::sample::select(known), edits, any::<prop::sample::Index>(), any::<bool>(), any::<bool>()).prop_map(
        |(mut bytes, edits, cut, is_cut, is_fixed)| {
            edits.iter().for_each(|(at, value)| *at.get_mut(&mut bytes) = *value);
            if is_cut {
                bytes.truncate(8 + cut.index(bytes.len() - 8));
            }
            if is_fixed {
                let [high, low] = (bytes.len() as u16).to_be_bytes();
                (bytes[5], bytes[6]) = (high, low);
            }
            bytes
        },
    )
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..700)) {
        properties::clc(&bytes);
        properties::cdc(&bytes);
    }

    #[test]
    fn damaged_messages_round_trip_or_are_refused(bytes in damaged()) {
        properties::clc(&bytes);
        properties::cdc(&bytes);
    }

    #[test]
    fn every_prefix_and_every_extension_is_refused(bytes in damaged(), extra in 1usize..9) {
        if Message::parse(&bytes).is_ok() {
            for cut in 0..bytes.len() {
                prop_assert!(Message::parse(&bytes[..cut]).is_err());
            }
            let longer = [bytes, vec![0; extra]].concat();
            prop_assert_eq!(Message::parse(&longer), Err(wire::Error::Trailing { extra }));
        }
    }

    #[test]
    fn values_come_back(message in values::message()) {
        let mut bytes = [0; wire::limits::MESSAGE_MAX];
        let len = message.emit(&mut bytes).unwrap();
        prop_assert_eq!(len, message.len());
        prop_assert_eq!(Message::parse(&bytes[..len]), Ok(message));
        properties::clc(&bytes[..len]);
    }

    #[test]
    fn cdc_bytes_come_back(mut bytes in any::<[u8; 44]>()) {
        (bytes[0], bytes[1]) = (cdc::TYPE, 44);
        prop_assert!(cdc::SmcR::parse(&bytes).is_ok() && cdc::SmcD::parse(&bytes[..32]).is_ok());
        properties::cdc(&bytes);
        properties::cdc(&bytes[..32]);
    }

    #[test]
    fn cursors_follow_positions(start in any::<u64>(), size in 1u32.., len in any::<u32>()) {
        // A ring so small that positions overflow the wrap differently is not wanted: keep room for one turn.
        let start = start % (u64::MAX - u64::from(u32::MAX));
        let len = len % size;
        let (from, to) = (Cursor::at_position(start, size), Cursor::at_position(start + u64::from(len), size));
        prop_assert_eq!(from.unwrap().advanced(len, size), to);
        prop_assert_eq!(from.unwrap().distance_to(to.unwrap(), size), Some(len));
    }
}
