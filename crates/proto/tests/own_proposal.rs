//! A PROPOSAL that this end would have sent itself is answered as if it had been judged.

use proto::Eid;
use proto::handshake::{Client, Dmb, Fault, Half, Input, Local, Server};
use wire::clc::IsmDevice;
use wire::{BufferClass, List};

fn eid(name: &str) -> Eid {
    Eid::user(name).expect("an EID")
}

fn locals() -> Vec<Local> {
    let plain = Local::loopback([1, 2], eid("A.B"), "host");
    let devices =
        [IsmDevice { gid: 7, gid_ext: 0, chid: 0x1234 }, IsmDevice { gid: 9, gid_ext: 3, chid: 0xC001 }];
    let many = Local {
        devices: List::of(&devices).expect("two devices"),
        user_eids: List::of(&[eid("C.D"), eid("A.B")]).expect("two EIDs"),
        ..plain
    };
    let system = Local { user_eids: List::default(), seid: Some(eid("SYS")), ..plain };
    let both = Local { seid: Some(eid("SYS")), ..many };
    let old = Local { release: 0, ..plain };
    vec![plain, many, system, both, old]
}

#[test]
fn what_need_not_be_judged_is_answered_as_if_it_had_been() {
    let half =
        Half { dmb: Dmb { token: 77, class: BufferClass::holding(65536).expect("a class") }, link_group: 5 };
    for local in locals() {
        for is_first in [true, false] {
            let proposal = Client::new().propose(&local).expect("a proposal");
            let mut bytes = [0; 512];
            let len = proposal.emit(&mut bytes).expect("room");
            let mut judge = Server::new();
            let judged = judge.handle_proposal(Input::Bytes(&bytes[..len]), &local, Ok(half), is_first);
            let mut server = Server::new();
            assert_eq!(server.answer_own(&local, half, is_first), judged, "{local:?}");
            assert!(judged.is_ok() && server == judge, "{local:?}");
            assert!(server.answer_own(&local, half, is_first).is_err(), "twice");
        }
    }
}

#[test]
fn who_has_nothing_to_offer_answers_nothing() {
    let half = Half { dmb: Dmb { token: 77, class: BufferClass::default() }, link_group: 5 };
    let local = Local { devices: List::default(), ..Local::loopback([1, 2], eid("A.B"), "") };
    let refusal = Server::new().answer_own(&local, half, true).expect_err("no device");
    assert_eq!(refusal.fault, Fault::NoDevice);
}
