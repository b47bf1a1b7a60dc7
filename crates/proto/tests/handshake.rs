//! The handshake as two machines talk, and every row of the fault table provoked through them.

use proptest::prelude::*;
use proto::handshake::fault::{Answer, TABLE};
use proto::handshake::{Agreed, Client, Dmb, Fault, Half, Input, Local, Refusal, Server};
use wire::clc::{Accept, Confirm, Decline, End, Message, Modes, Proposal, SmcD};
use wire::{BufferClass, Eid, List, Reason, limits};

const GID: [u64; 2] = [0x0102_0304_0506_0708, 0x1112_1314_1516_1718];

fn local() -> Local {
    Local::loopback(GID, Eid::user("TEST.EID").unwrap(), "myhost")
}

fn half(token: u64) -> Half {
    Half { dmb: Dmb { token, class: BufferClass::new(2).unwrap() }, link_group: 0x0001_0000 }
}

fn bytes(message: Message) -> Vec<u8> {
    let mut buffer = [0; limits::MESSAGE_MAX];
    let len = message.emit(&mut buffer).unwrap();
    buffer[..len].to_vec()
}

fn proposal(local: &Local) -> Proposal {
    Client::new().propose(local).unwrap()
}

/// The server's answer to a proposal.
fn answer(proposal: &Proposal, is_first_contact: bool) -> Result<Accept, Refusal> {
    let bytes = bytes(Message::Proposal(*proposal));
    Server::new().handle_proposal(Input::Bytes(&bytes), &local(), Ok(half(1)), is_first_contact)
}

/// What a client that has proposed says to this input.
fn client_gets(input: Input<'_>, knows: bool) -> Result<(Confirm, Agreed), Refusal> {
    let mut client = Client::new();
    client.propose(&local()).unwrap();
    client.handle_accept(input, &local(), Ok(half(2)), |_| knows)
}

/// What a client says to an honest ACCEPT after `change`.
fn client_gets_accept(change: impl FnOnce(&mut Accept)) -> Result<(Confirm, Agreed), Refusal> {
    let mut accept = answer(&proposal(&local()), true).unwrap();
    change(&mut accept);
    client_gets(Input::Bytes(&bytes(Message::Accept(accept))), true)
}

/// What a server that has accepted says to an honest CONFIRM after `change`.
fn server_gets_confirm(change: impl FnOnce(&mut Confirm)) -> Result<Agreed, Refusal> {
    let mut server = Server::new();
    let proposal = bytes(Message::Proposal(proposal(&local())));
    let accept = server.handle_proposal(Input::Bytes(&proposal), &local(), Ok(half(1)), true).unwrap();
    let (mut confirm, _) = client_gets(Input::Bytes(&bytes(Message::Accept(accept))), true).unwrap();
    change(&mut confirm);
    server.handle_confirm(Input::Bytes(&bytes(Message::Confirm(confirm))), &local())
}

fn smcd(end: &mut End) -> &mut SmcD {
    match end {
        End::SmcD(end) => end,
        End::SmcR(_) => panic!("not SMC-D"),
    }
}

/// Both machines over any number of connections of one link group.
fn agree(is_first_contact: bool) -> (Agreed, Agreed) {
    let (mut client, mut server) = (Client::new(), Server::new());
    let proposal = bytes(Message::Proposal(client.propose(&local()).unwrap()));
    let accept = server.handle_proposal(Input::Bytes(&proposal), &local(), Ok(half(1)), is_first_contact);
    let accept = bytes(Message::Accept(accept.unwrap()));
    let (confirm, of_client) =
        client.handle_accept(Input::Bytes(&accept), &local(), Ok(half(2)), |_| true).unwrap();
    let confirm = bytes(Message::Confirm(confirm));
    (of_client, server.handle_confirm(Input::Bytes(&confirm), &local()).unwrap())
}

#[test]
fn both_ends_agree_on_the_same_connection() {
    for is_first_contact in [true, false] {
        let (client, server) = agree(is_first_contact);
        assert_eq!((client.peer_dmb, server.peer_dmb), (half(1).dmb, half(2).dmb));
        assert_eq!((client.device, client.eid), (server.device, server.eid));
        assert_eq!((client.peer_device, server.peer_device), (server.device, client.device));
        assert_eq!((client.is_first_contact, server.is_first_contact), (is_first_contact, is_first_contact));
        assert_eq!(client.release, is_first_contact.then_some(1));
        assert_eq!(client.peer_host.map(|h| h.starts_with(b"myhost ")), is_first_contact.then_some(true));
    }
}

/// A message of `wire`'s test data by name.
fn vector(file: &str, name: &str) -> Vec<u8> {
    let lines = file.lines().skip_while(|line| line.strip_prefix('@') != Some(name)).skip(1);
    let digits: String = lines.take_while(|line| !line.starts_with('@')).collect();
    (0..digits.len() / 2).map(|n| u8::from_str_radix(&digits[2 * n..2 * n + 2], 16).unwrap()).collect()
}

/// Replays a captured loopback-ism handshake: given the values the kernel chose, our machines write the
/// kernel's bytes.
#[test]
fn our_messages_are_those_of_a_kernel() {
    let capture = include_str!("../../wire/testdata/smcd_loopback_ism.hex");
    let eid = Eid::user("MYUEID1").unwrap();
    let local = Local::loopback([0x9F45_E886_76AD_2557, 0xB94A_20E4_267B_5380], eid, "(none)");
    let of_server = half(0xB3E3_9355_0D4D_18F4);
    let handshakes = [
        (["proposal_4", "accept_6", "confirm_8"], 0x05F5_A7DB_CE7E_E5D7, true),
        (["proposal_16", "accept_18", "confirm_20"], 0x5C20_6082_ED6F_BB27, false),
    ];
    for (names, token, is_first_contact) in handshakes {
        let [proposal, accept, confirm] = names.map(|name| vector(capture, name));
        let of_client =
            Half { link_group: if is_first_contact { 0x0002_0000 } else { 0x0001_0000 }, ..half(token) };
        let (mut client, mut server) = (Client::new(), Server::new());
        assert_eq!(bytes(Message::Proposal(client.propose(&local).unwrap())), proposal);
        let ours = server.handle_proposal(Input::Bytes(&proposal), &local, Ok(of_server), is_first_contact);
        assert_eq!(bytes(Message::Accept(ours.unwrap())), accept);
        let ours = client.handle_accept(Input::Bytes(&accept), &local, Ok(of_client), |_| true);
        assert_eq!(bytes(Message::Confirm(ours.unwrap().0)), confirm);
        assert_eq!(server.handle_confirm(Input::Bytes(&confirm), &local).unwrap().peer_dmb, of_client.dmb);
    }
}

#[test]
fn an_older_release_on_either_side_lowers_both() {
    let old = Local { release: 0, ..local() };
    let accept = answer(&proposal(&old), true).unwrap();
    let fce = accept.0.first_contact.unwrap();
    assert_eq!((fce.release, fce.v21), (0, None));
    let mut client = Client::new();
    client.propose(&old).unwrap();
    let input = bytes(Message::Accept(accept));
    let (confirm, agreed) = client.handle_accept(Input::Bytes(&input), &old, Ok(half(2)), |_| true).unwrap();
    assert_eq!((confirm.0.first_contact.unwrap().release, agreed.release), (0, Some(0)));
}

fn refuses(change: impl FnOnce(&mut Proposal)) -> Refusal {
    let mut p = proposal(&local());
    change(&mut p);
    answer(&p, true).unwrap_err()
}

/// An honest exchange, spoiled so that it ends in exactly this fault. The match is exhaustive: a new fault
/// needs a way to happen.
fn provoke(fault: Fault) -> Vec<Refusal> {
    match fault {
        Fault::VersionNotOffered
        | Fault::ModeNotOffered
        | Fault::DeviceNotOffered
        | Fault::EidNotOffered
        | Fault::ReleaseMismatch
        | Fault::BufferTooLarge
        | Fault::LinkGroupMismatch => by_a_wrong_half(fault),
        Fault::NoVersion2
        | Fault::NoV2Extension
        | Fault::NoSmcD
        | Fault::NoSmcDv2Extension
        | Fault::NoEid
        | Fault::NoCommonEid
        | Fault::NoCommonDevice => by_a_poor_proposal(fault),
        Fault::UnknownToken | Fault::OutOfMemory | Fault::BufferLimit | Fault::NoDevice => {
            by_ourselves(fault)
        }
        Fault::Malformed => vec![client_gets(Input::Bytes(b"HTTP/1.1 200 OK\r\n"), true).unwrap_err()],
        Fault::UnexpectedMessage => {
            let input = bytes(Message::Proposal(proposal(&local())));
            vec![client_gets(Input::Bytes(&input), true).unwrap_err()]
        }
        Fault::Timeout => vec![client_gets(Input::Timeout, true).unwrap_err()],
        Fault::Lost => vec![client_gets(Input::Lost, true).unwrap_err()],
        Fault::PeerDeclined => {
            let input = bytes(Message::Decline(Decline::new(2, Reason::NOUEID)));
            vec![client_gets(Input::Bytes(&input), true).unwrap_err()]
        }
        Fault::Misuse => vec![
            Client::new().handle_accept(Input::Timeout, &local(), Ok(half(1)), |_| true).unwrap_err(),
            Server::new().handle_confirm(Input::Timeout, &local()).unwrap_err(),
        ],
    }
}

/// ACCEPT and CONFIRM that say something else than was offered.
fn by_a_wrong_half(fault: Fault) -> Vec<Refusal> {
    let foreign = Eid::user("FOREIGN").unwrap();
    let huge = BufferClass::new(7).unwrap();
    let accepts = |change: &dyn Fn(&mut Accept)| client_gets_accept(|a| change(a)).unwrap_err();
    let confirms = |change: &dyn Fn(&mut Confirm)| server_gets_confirm(|c| change(c)).unwrap_err();
    match fault {
        Fault::VersionNotOffered => vec![accepts(&|a| a.0.version = 3), confirms(&|c| c.0.version = 3)],
        Fault::ModeNotOffered => {
            let rdma = wire::clc::SmcR { v2: Some(wire::clc::SmcRv2::default()), ..Default::default() };
            vec![accepts(&|a| a.0.end = End::SmcR(rdma))]
        }
        Fault::DeviceNotOffered => vec![
            accepts(&|a| smcd(&mut a.0.end).gid ^= 1),
            accepts(&|a| smcd(&mut a.0.end).v2.as_mut().unwrap().chid = 0xFFFE),
            confirms(&|c| smcd(&mut c.0.end).v2.as_mut().unwrap().gid_ext ^= 1),
        ],
        Fault::EidNotOffered => vec![
            accepts(&|a| smcd(&mut a.0.end).v2.as_mut().unwrap().eid = foreign),
            confirms(&|c| smcd(&mut c.0.end).v2.as_mut().unwrap().eid = foreign),
        ],
        Fault::ReleaseMismatch => vec![
            accepts(&|a| a.0.first_contact.as_mut().unwrap().release = 2),
            confirms(&|c| c.0.first_contact.as_mut().unwrap().release = 2),
        ],
        Fault::BufferTooLarge => {
            vec![
                accepts(&|a| smcd(&mut a.0.end).class = huge),
                confirms(&|c| smcd(&mut c.0.end).class = huge),
            ]
        }
        Fault::LinkGroupMismatch => {
            let later = bytes(Message::Accept(answer(&proposal(&local()), false).unwrap()));
            let not_first = |c: &mut Confirm| (c.0.is_first_contact, c.0.first_contact) = (false, None);
            vec![client_gets(Input::Bytes(&later), false).unwrap_err(), confirms(&not_first)]
        }
        other => panic!("{other:?} is provoked elsewhere"),
    }
}

/// PROPOSALs that lack something.
fn by_a_poor_proposal(fault: Fault) -> Vec<Refusal> {
    let ext = |p: &mut Proposal, change: fn(&mut wire::clc::V2Extension)| change(p.v2_ext.as_mut().unwrap());
    match fault {
        Fault::NoVersion2 => vec![
            refuses(|p| (p.v2, p.v2_ext) = (Modes::N, None)),
            refuses(|p| {
                (p.version, p.v1, p.v2_ext, p.prefixes) = (1, Modes::D, None, Some(Default::default()))
            }),
        ],
        Fault::NoV2Extension => vec![refuses(|p| p.v2_ext = None)],
        Fault::NoSmcD => vec![refuses(|p| p.v2 = Modes::R)],
        Fault::NoSmcDv2Extension => vec![refuses(|p| ext(p, |e| e.smcd = None))],
        Fault::NoEid => vec![refuses(|p| ext(p, |e| e.user_eids = List::new()))],
        Fault::NoCommonEid => vec![
            refuses(|p| ext(p, |e| e.user_eids = List::of(&[Eid::user("FOREIGN").unwrap()]).unwrap())),
            refuses(|p| ext(p, |e| (e.user_eids, e.seid_offered) = (List::new(), true))),
        ],
        Fault::NoCommonDevice => vec![
            refuses(|p| ext(p, |e| e.smcd.as_mut().unwrap().entries = List::new())),
            refuses(|p| {
                p.v2_ext = proposal(&Local::loopback([1, 2], Eid::user("TEST.EID").unwrap(), "")).v2_ext
            }),
        ],
        other => panic!("{other:?} is provoked elsewhere"),
    }
}

/// What this end lacks.
fn by_ourselves(fault: Fault) -> Vec<Refusal> {
    let input = bytes(Message::Proposal(proposal(&local())));
    let serves = |local: &Local, half| Server::new().handle_proposal(Input::Bytes(&input), local, half, true);
    if fault != Fault::NoDevice {
        return vec![serves(&local(), Err(fault)).unwrap_err()];
    }
    let lacking = Local { devices: List::new(), ..local() };
    vec![Client::new().propose(&lacking).unwrap_err(), serves(&lacking, Ok(half(1))).unwrap_err()]
}

#[test]
fn every_row_of_the_table_happens_and_answers_with_its_code() {
    for row in TABLE {
        for refusal in provoke(row.fault) {
            assert_eq!((refusal.fault, refusal.reason()), (row.fault, row.reason));
            match (row.answer, refusal.decline) {
                (Answer::Silence, None) => {}
                (answer, Some(decline)) => {
                    assert_eq!(decline.diagnosis, row.reason, "{:?}", row.fault);
                    assert_eq!(decline.out_of_sync, answer == Answer::DeclineOutOfSync, "{:?}", row.fault);
                    assert_eq!(
                        Message::parse(&bytes(Message::Decline(decline))),
                        Ok(Message::Decline(decline))
                    );
                }
                (answer, None) => panic!("{:?}: {answer:?} without a message", row.fault),
            }
            assert_eq!(refusal.malformed.is_some(), row.fault == Fault::Malformed);
        }
    }
}

#[test]
fn a_decline_tells_the_peers_code_and_is_not_answered() {
    let out_of_sync = Decline { out_of_sync: true, ..Decline::new(1, Reason(0x1234_5678)) };
    for decline in [Decline::new(2, Reason::NOUEID), out_of_sync] {
        let refusal = client_gets(Input::Bytes(&bytes(Message::Decline(decline))), true).unwrap_err();
        assert_eq!((refusal.reason(), refusal.peer_reason), (Reason::PEERDECL, Some(decline.diagnosis)));
        assert_eq!((refusal.decline, refusal.peer_out_of_sync), (None, decline.out_of_sync));
    }
}

#[test]
fn nothing_follows_the_end() {
    let mut client = Client::new();
    client.propose(&local()).unwrap();
    let timeout = client.handle_accept(Input::Timeout, &local(), Ok(half(1)), |_| true).unwrap_err();
    assert_eq!((timeout.fault, timeout.decline), (Fault::Timeout, None));
    let late = bytes(Message::Accept(answer(&proposal(&local()), true).unwrap()));
    let refusal = client.handle_accept(Input::Bytes(&late), &local(), Ok(half(1)), |_| true).unwrap_err();
    assert_eq!((refusal.fault, refusal.decline), (Fault::Misuse, None));
    assert_eq!(client.propose(&local()).unwrap_err().fault, Fault::Misuse);
}

/// On another fabric than loopback the GIDs differ; the fabric's id decides.
#[test]
fn devices_of_one_fabric_reach_each_other() {
    let with = |gid, chid| {
        let device = wire::clc::IsmDevice { gid, gid_ext: 0, chid };
        Local { devices: List::of(&[device]).unwrap(), ..local() }
    };
    let (ours, theirs, elsewhere) = (with(1, 0x0143), with(2, 0x0143), with(2, 0x0144));
    let input = |local: &Local| bytes(Message::Proposal(proposal(local)));
    let handle =
        |from: &Local| Server::new().handle_proposal(Input::Bytes(&input(from)), &ours, Ok(half(1)), true);
    assert_eq!(smcd(&mut handle(&theirs).unwrap().0.end).gid, 1);
    assert_eq!(handle(&elsewhere).unwrap_err().fault, Fault::NoCommonDevice);
}

proptest! {
    /// Whatever arrives, a machine answers with a row of the table, or it agrees with something that was
    /// offered.
    #[test]
    fn damaged_messages_never_lead_beyond_what_was_offered(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..5), is_first in any::<bool>(),
    ) {
        let mut input = bytes(Message::Accept(answer(&proposal(&local()), is_first).unwrap()));
        edits.iter().for_each(|(at, value)| *at.get_mut(&mut input) = *value);
        match client_gets(Input::Bytes(&input), true) {
            Ok((confirm, agreed)) => {
                prop_assert_eq!(agreed.device, local().devices[0]);
                prop_assert_eq!(agreed.eid, local().user_eids[0]);
                prop_assert!(agreed.peer_dmb.class.bytes() <= 1 << 20);
                prop_assert!(Confirm::parse(&bytes(Message::Confirm(confirm))).is_ok());
            }
            Err(refusal) => prop_assert_eq!(refusal.reason(), refusal.fault.row().reason),
        }
    }
}
