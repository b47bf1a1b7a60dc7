//! What must hold for every input of the codecs. Included by the property tests, by the corpus replay and by
//! the fuzz targets, so that all three judge the same.

use wire::cdc::{SmcD, SmcR};
use wire::clc::Message;
use wire::limits::MESSAGE_MAX;

/// Offsets of a PROPOSAL: IP area, v2 extension, SMC-Dv2 extension. Their order is free, so bytes can only be
/// compared if they are the ones we would write.
fn offsets(bytes: &[u8]) -> [Vec<u8>; 3] {
    let at = |from: usize, len: usize| bytes.get(from..from + len).unwrap_or(&[]).to_vec();
    let v2_offset = at(50, 2);
    let v2 = match v2_offset[..] {
        [high, low] => 52 + usize::from(high) * 256 + usize::from(low),
        _ => 0,
    };
    [at(38, 2), v2_offset, at(v2 + 6, 2)]
}

/// Any bytes as a CLC message.
pub(crate) fn clc(bytes: &[u8]) {
    let Ok(message) = Message::parse(bytes) else { return };
    let mut again = [0; MESSAGE_MAX];
    let len = message.emit(&mut again).expect("what was parsed can be written");
    assert_eq!((len, len), (message.len(), bytes.len()));
    assert_eq!(Message::parse(&again[..len]).as_ref(), Ok(&message));
    if !matches!(message, Message::Proposal(_)) || offsets(bytes) == offsets(&again[..len]) {
        assert_eq!(&again[..len], bytes);
    }
    assert!(message.emit(&mut again[..len - 1]).is_err(), "one byte less must not be enough");
}

/// Any bytes as a CDC message, in both forms.
pub(crate) fn cdc(bytes: &[u8]) {
    let mut again = [0; SmcR::LEN];
    if let Ok(message) = SmcD::parse(bytes) {
        assert_eq!(message.emit(&mut again), Ok(SmcD::LEN));
        assert_eq!(&again[..SmcD::LEN], bytes);
    }
    if let Ok(message) = SmcR::parse(bytes) {
        assert_eq!(message.emit(&mut again), Ok(SmcR::LEN));
        assert_eq!(&again[..], bytes);
    }
}
