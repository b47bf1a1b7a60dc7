//! Golden vectors: every field has the value the vector's author intended, and the bytes come back.

mod common;

use wire::cdc::{ProducerFlags, StateFlags};
use wire::clc::{
    Accept, Confirm, Decline, End, FirstContact, FirstContactV21, IsmDevice, Message, Modes, Os, Proposal,
    SmcD, SmcR, SmcRv2, devices,
};
use wire::{Cursor, Eid, List, Reason, cdc};

fn golden(name: &str) -> Vec<u8> {
    common::one("golden.hex", name)
}

fn smcd(end: &End) -> &SmcD {
    match end {
        End::SmcD(end) => end,
        End::SmcR(_) => panic!("not SMC-D"),
    }
}

fn host(name: &str) -> [u8; 32] {
    let mut padded = [b' '; 32];
    padded[..name.len()].copy_from_slice(name.as_bytes());
    padded
}

#[test]
fn every_clc_vector_comes_back() {
    for (name, bytes) in common::load("golden.hex").iter().filter(|(name, _)| !name.starts_with("cdc_")) {
        let message = Message::parse(bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut again = [0xAA; 300];
        assert_eq!(message.emit(&mut again), Ok(bytes.len()), "{name}");
        assert_eq!(&again[..bytes.len()], bytes, "{name}");
    }
}

#[test]
fn proposal_of_an_emulated_device() {
    let p = Proposal::parse(&golden("proposal_v2_emulated_ism")).unwrap();
    assert_eq!((p.version, p.v1, p.v2, p.prefixes), (2, Modes::N, Modes::D, None));
    let ext = p.v2_ext.unwrap();
    assert_eq!((ext.release, ext.seid_offered, ext.features), (1, false, 1));
    assert_eq!(*ext.user_eids, [Eid::user("TEST.EID").unwrap()]);
    let smcd = ext.smcd.unwrap();
    assert_eq!(smcd.seid, Eid::NONE);
    let device = IsmDevice { gid: 0x0102_0304_0506_0708, gid_ext: 0x1112_1314_1516_1718, chid: 0xFFFF };
    assert!(devices(&smcd.entries).eq([device]));
}

#[test]
fn proposal_with_everything() {
    let p = Proposal::parse(&golden("proposal_with_everything")).unwrap();
    assert_eq!((p.v1, p.v2, p.mac), (Modes::B, Modes::B, [2, 0, 0, 0, 0, 1]));
    let area = p.smcd.unwrap();
    assert_eq!((area.gid, area.chid), (0x0A0B_0C0D_0E0F_1011, 0x0142));
    let prefixes = p.prefixes.unwrap();
    assert_eq!((prefixes.subnet, prefixes.prefix_len), (0x0A00_0000, 24));
    assert_eq!((prefixes.ipv6.len(), prefixes.ipv6[0].len), (1, 64));
    let ext = p.v2_ext.unwrap();
    assert_eq!(*ext.user_eids, [Eid::user("A1").unwrap(), Eid::user("B2").unwrap()]);
    assert!(ext.seid_offered);
    let smcd = ext.smcd.unwrap();
    assert_eq!(smcd.seid.as_str(), Some("IBM-SYSZ-ISMSEID000000002E488561"));
    assert!(devices(&smcd.entries).eq([IsmDevice { gid: 0x1122_3344_5566_7788, gid_ext: 0, chid: 0x0143 }]));
}

#[test]
fn accept_of_version_2_smcd() {
    let Accept(accept) = Accept::parse(&golden("accept_v2_first_contact")).unwrap();
    let end = smcd(&accept.end);
    assert_eq!((end.token, end.class.bytes(), end.link_group), (0xA1A2_A3A4_A5A6_A7A8, 65536, 0x0001_0000));
    let v2 = end.v2.unwrap();
    assert_eq!((v2.chid, v2.gid_ext, v2.eid.as_str()), (0xFFFF, 0x1112_1314_1516_1718, Some("TEST.EID")));
    let fce = accept.first_contact.unwrap();
    assert_eq!((fce.os, fce.release, fce.host, fce.direct), (Os::LINUX, 1, host("myhost"), false));
    assert_eq!(fce.v21.unwrap().features, 1);
    let Confirm(confirm) = Confirm::parse(&golden("confirm_v2_first_contact")).unwrap();
    assert_eq!(smcd(&confirm.end).token, 0xB1B2_B3B4_B5B6_B7B8);
}

#[test]
fn accepts_of_version_1() {
    let Accept(accept) = Accept::parse(&golden("accept_v1_smcd")).unwrap();
    assert_eq!((smcd(&accept.end).class.bytes(), accept.is_first_contact), (1 << 20, true));
    let Accept(accept) = Accept::parse(&golden("accept_v1_smcr")).unwrap();
    let End::SmcR(end) = accept.end else { panic!("not SMC-R") };
    assert_eq!((end.queue_pair, end.rmb_key, end.alert_token), (0x123, 0xCAFE_0001, 0x101));
    assert_eq!((end.class.bytes(), end.mtu, end.psn, end.rmbe_idx), (65536, 5, 0x2A, 1));
}

#[test]
fn declines() {
    let decline = Decline::parse(&golden("decline_v2_noueid")).unwrap();
    assert_eq!(decline, Decline::new(2, Reason::NOUEID));
    let decline = Decline::parse(&golden("decline_v1_peernosmc")).unwrap();
    assert_eq!(decline, Decline::new(1, Reason::PEERNOSMC));
}

/// Vector 8 is given by its parts: lengths, the start of each part, and the values.
#[test]
fn confirm_of_smcr_carries_the_gid_list_behind_the_first_contact_extension() {
    let v21 = FirstContactV21 { max_conns: 255, max_links: 2, features: 1, ..Default::default() };
    let fce = FirstContact {
        direct: true,
        os: Os::LINUX,
        release: 1,
        host: host("myhost"),
        v21: Some(v21),
        ..Default::default()
    };
    let gids = List::of(&[[1; 16], [2; 16]]).unwrap();
    let v2 = SmcRv2 { eid: Eid::user("A1").unwrap(), reserved: [0; 8] };
    let end = SmcR { v2: Some(v2), gids: Some((gids, [0; 3])), ..Default::default() };
    let Confirm(base) = Confirm::parse(&golden("confirm_v2_first_contact")).unwrap();
    let confirm = Confirm(wire::clc::Endpoint { end: End::SmcR(end), first_contact: Some(fce), ..base });
    let mut bytes = [0; 256];
    assert_eq!(confirm.emit(&mut bytes), Ok(196));
    assert_eq!(bytes[..8], [0xE2, 0xD4, 0xC3, 0xD9, 3, 0, 0xC4, 0x28]);
    assert_eq!(bytes[104..108], [0x80, 0x21, 0, 0]);
    assert_eq!(bytes[156..160], [2, 0, 0, 0]);
    assert_eq!(bytes[192..196], [0xE2, 0xD4, 0xC3, 0xD9]);
    assert_eq!(Confirm::parse(&bytes[..196]), Ok(confirm));
}

#[test]
fn cdc_of_smcr() {
    let bytes = golden("cdc_smcr");
    let message = cdc::SmcR::parse(&bytes).unwrap();
    assert_eq!((message.sequence, message.token), (7, 0x105));
    assert_eq!(message.producer, Cursor { wrap: 3, count: 0x1000 });
    assert_eq!(message.consumer, Cursor { wrap: 3, count: 0x800 });
    assert!(message.producer_flags.has(ProducerFlags::WRITE_BLOCKED));
    assert!(message.state_flags.has(StateFlags::CLOSED) && !message.state_flags.has(StateFlags::ABORT));
    let mut again = [0; cdc::SmcR::LEN];
    assert_eq!((message.emit(&mut again), &again[..]), (Ok(44), &bytes[..]));
}

/// The vector is a little-endian host's; the form is host byte order, so the expected value is stated in
/// bytes.
#[test]
fn cdc_of_smcd() {
    let bytes = golden("cdc_smcd_little_endian");
    let message = cdc::SmcD::parse(&bytes).unwrap();
    let cursor =
        |wrap, count: [u8; 4]| Cursor { wrap: u16::from_ne_bytes(wrap), count: u32::from_ne_bytes(count) };
    assert_eq!(message.producer.cursor, cursor([3, 0], [0, 0x10, 0, 0]));
    assert_eq!(message.consumer.cursor, cursor([3, 0], [0, 8, 0, 0]));
    assert_eq!(message.consumer.producer, ProducerFlags(ProducerFlags::WRITE_BLOCKED));
    assert_eq!(message.consumer.state, StateFlags(0));
    let word = u64::from_ne_bytes(bytes[16..24].try_into().unwrap());
    assert_eq!((cdc::CursorWord::from_word(word), message.consumer.to_word()), (message.consumer, word));
    let mut again = [0; cdc::SmcD::LEN];
    assert_eq!((message.emit(&mut again), &again[..]), (Ok(32), &bytes[..]));
}
