//! Messages of a real kernel: parsed, understood, written back byte for byte. Small copies live in
//! `testdata`; where the full captures lie beside the checkout (`../shared/fixtures` from the workspace root)
//! every message in them is tried too.

mod common;

use std::path::Path;

use wire::Cursor;
use wire::cdc;
use wire::clc::{Accept, Confirm, End, Endpoint, Message, Proposal, SMCD, SMCR, SmcD, devices};

fn round_trip(name: &str, bytes: &[u8]) -> Message {
    let message = Message::parse(bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
    let mut again = vec![0; bytes.len()];
    assert_eq!(message.emit(&mut again), Ok(bytes.len()), "{name}");
    assert_eq!(again, bytes, "{name}");
    message
}

#[test]
fn captured_messages_come_back() {
    for (name, bytes) in common::all_clc() {
        round_trip(&name, &bytes);
    }
}

fn smcd(endpoint: &Endpoint) -> SmcD {
    match endpoint.end {
        End::SmcD(end) => end,
        End::SmcR(_) => panic!("not SMC-D"),
    }
}

#[test]
fn a_loopback_handshake_tells_one_story() {
    let one = |name| common::one("smcd_loopback_ism.hex", name);
    let offer = Proposal::parse(&one("proposal_4")).unwrap().v2_ext.unwrap();
    let device = devices(&offer.smcd.unwrap().entries).next().unwrap();
    let (Accept(accept), Confirm(confirm)) =
        (Accept::parse(&one("accept_6")).unwrap(), Confirm::parse(&one("confirm_8")).unwrap());
    for endpoint in [accept, confirm] {
        let end = smcd(&endpoint);
        let v2 = end.v2.unwrap();
        assert_eq!((end.gid, v2.gid_ext, v2.chid), (device.gid, device.gid_ext, device.chid));
        assert_eq!((v2.eid, end.class.bytes()), (offer.user_eids[0], 65536));
        assert!(endpoint.is_first_contact && endpoint.first_contact.unwrap().host.starts_with(b"(none)"));
    }
    assert_ne!(smcd(&accept).token, smcd(&confirm).token);
    let Accept(second) = Accept::parse(&one("accept_18")).unwrap();
    assert!(!second.is_first_contact && second.first_contact.is_none());
    assert_eq!(smcd(&second).link_group, smcd(&accept).link_group);
}

#[test]
fn an_rdma_confirm_lists_its_gids() {
    let Confirm(confirm) = Confirm::parse(&common::one("smcr_rxe.hex", "confirm_8")).unwrap();
    let End::SmcR(end) = confirm.end else { panic!("not SMC-R") };
    let (gids, _) = end.gids.unwrap();
    assert_eq!(*gids, [end.gid]);
    assert_eq!((end.queue_pair, end.alert_token, end.mtu), (0x12, 1, 3));
}

#[test]
fn captured_cdc_messages_count_up() {
    let mut last = None;
    for (name, bytes) in
        common::load("smcr_userspace_kernel.hex").iter().filter(|(n, _)| n.starts_with("cdc_"))
    {
        let message = cdc::SmcR::parse(bytes).unwrap();
        let mut again = [0; cdc::SmcR::LEN];
        assert_eq!((message.emit(&mut again), &again[..]), (Ok(44), &bytes[..]), "{name}");
        let here = Cursor::distance_to(Cursor::default(), message.producer, 65536).unwrap();
        assert!(last < Some(here), "{name}: {last:?} then {here}");
        last = Some(here);
    }
    assert!(last.is_some());
}

/// Finds CLC messages in any container: an eyecatcher, a believable length, and the same eyecatcher at the
/// end.
fn clc_messages(file: &[u8]) -> Vec<&[u8]> {
    let starts = (0..file.len()).filter(|at| [SMCR, SMCD].iter().any(|e| file[*at..].starts_with(e)));
    let whole = |at: usize| {
        let &[_, _, _, _, kind, high, low, _] = file.get(at..at + 8)? else { return None };
        let message = file.get(at..at + usize::from(u16::from_be_bytes([high, low])))?;
        let framed = (1..=4).contains(&kind) && message.len() >= 28 && message.ends_with(&message[..4]);
        framed.then_some(message)
    };
    starts.filter_map(whole).collect()
}

#[test]
fn every_message_of_the_full_captures_comes_back() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures");
    let Ok(files) = std::fs::read_dir(&dir) else {
        assert!(!common::all_clc().is_empty(), "without the captures their copies must be here");
        return;
    };
    let mut tried = 0;
    for path in files.map(|f| f.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "pcap")) {
        let file = std::fs::read(&path).unwrap();
        for bytes in clc_messages(&file) {
            round_trip(&path.display().to_string(), bytes);
            tried += 1;
        }
    }
    assert!(tried >= 15, "the captures hold four handshakes and more: {tried}");
}
