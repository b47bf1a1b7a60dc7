//! Messages that lie about themselves: each lie has its own error, and none reads outside the message.

mod common;

use wire::Error;
use wire::clc::{Accept, Confirm, Message, Proposal};

const LEN: usize = 5;
const VERSION: usize = 7;
const IP_OFFSET: usize = 38;
const V2_OFFSET: usize = 50;
/// In the golden PROPOSAL with everything: the IP area, the v2 extension.
const IP_AREA: usize = 80;
const V2_EXT: usize = 105;

fn everything() -> Vec<u8> {
    common::one("golden.hex", "proposal_with_everything")
}

fn with(mut bytes: Vec<u8>, at: usize, value: &[u8]) -> Vec<u8> {
    bytes[at..at + value.len()].copy_from_slice(value);
    bytes
}

fn error(bytes: &[u8]) -> Error {
    Message::parse(bytes).expect_err("a lie")
}

#[test]
fn offsets_beyond_the_end_are_refused() {
    for at in [IP_OFFSET, V2_OFFSET, V2_EXT + 6] {
        assert_eq!(error(&with(everything(), at, &[0xFF, 0xFF])), Error::BadOffset(0xFFFF), "offset at {at}");
    }
}

/// Every offset, every value: never a panic, and the length must still be the sum of what was found.
#[test]
fn no_offset_leads_outside() {
    for at in [IP_OFFSET, V2_OFFSET, V2_EXT + 6] {
        for offset in 0..=300u16 {
            let bytes = with(everything(), at, &offset.to_be_bytes());
            let length = bytes.len();
            assert!(
                Proposal::parse(&bytes).is_ok_and(|p| p.len() == length) || Proposal::parse(&bytes).is_err()
            );
        }
    }
}

#[test]
fn lists_longer_than_the_protocol_allows_are_refused() {
    for at in [IP_AREA + 7, V2_EXT, V2_EXT + 1] {
        assert_eq!(error(&with(everything(), at, &[9])), Error::TooMany { max: 8, have: 9 }, "count at {at}");
    }
}

#[test]
fn a_list_shorter_than_its_bytes_leaves_a_gap_and_is_refused() {
    assert_eq!(error(&with(everything(), V2_EXT, &[1])), Error::BadLength { want: 239, have: 271 });
    assert_eq!(error(&with(everything(), V2_EXT + 1, &[0])), Error::BadLength { want: 261, have: 271 });
    // No offset, but entries: nobody knows where they are.
    assert_eq!(error(&with(everything(), V2_EXT + 6, &[0, 0])), Error::BadOffset(0));
}

#[test]
fn a_version_without_an_extension_must_not_point_to_one() {
    assert_eq!(error(&with(everything(), VERSION, &[0x1B])), Error::Reserved);
    assert_eq!(error(&with(everything(), VERSION, &[0x2B])), Error::Reserved);
    assert_eq!(error(&with(everything(), VERSION, &[0x12])), Error::BadMode(2));
}

/// The order of sections is the sender's: the IP area may come last.
#[test]
fn sections_in_another_order_mean_the_same() {
    let usual = everything();
    let end = usual.len() - 4;
    let moved = [&usual[..IP_AREA], &usual[V2_EXT..end], &usual[IP_AREA..V2_EXT], &usual[end..]].concat();
    let ip_offset = (end - (V2_EXT - IP_AREA) - 40) as u16;
    let moved = with(moved, IP_OFFSET, &ip_offset.to_be_bytes());
    let moved = with(moved, V2_OFFSET, &28u16.to_be_bytes());
    assert_ne!(moved, usual);
    let proposal = Proposal::parse(&moved).unwrap();
    assert_eq!(Ok(proposal), Proposal::parse(&usual));
    let mut again = vec![0; usual.len()];
    assert_eq!((proposal.emit(&mut again), again), (Ok(usual.len()), usual));
}

#[test]
fn accept_must_choose_one_mode_and_wear_its_eyecatcher() {
    let accept = common::one("golden.hex", "accept_v2_first_contact");
    assert_eq!(error(&with(accept.clone(), VERSION, &[0x2A])), Error::BadMode(2));
    assert_eq!(error(&with(accept.clone(), VERSION, &[0x28])), Error::BadEyecatcher);
    let as_confirm = with(accept.clone(), 4, &[3]);
    assert_eq!(Accept::parse(&as_confirm), Err(Error::BadType(3)));
    assert_eq!(Confirm::parse(&as_confirm).unwrap().0, Accept::parse(&accept).unwrap().0);
}

#[test]
fn the_release_decides_how_long_the_first_contact_extension_is() {
    let accept = common::one("golden.hex", "accept_v2_first_contact");
    assert_eq!(error(&with(accept.clone(), 75, &[0x20])), Error::BadLength { want: 114, have: 130 });
    let mut older = with(accept, 75, &[0x20]);
    older.drain(110..126);
    let older = with(older, LEN, &[0, 114]);
    let Accept(endpoint) = Accept::parse(&older).unwrap();
    assert_eq!(endpoint.first_contact.map(|fce| (fce.release, fce.v21)), Some((0, None)));
}

#[test]
fn a_gid_list_longer_than_its_message_is_refused() {
    let confirm = common::one("smcr_rxe.hex", "confirm_8");
    assert_eq!(error(&with(confirm.clone(), 156, &[9])), Error::TooMany { max: 8, have: 9 });
    assert_eq!(error(&with(confirm.clone(), 156, &[2])), Error::Truncated { need: 16, have: 0 });
    assert_eq!(error(&with(confirm, 156, &[0])), Error::BadLength { want: 164, have: 180 });
}
