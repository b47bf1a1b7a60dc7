//! What must hold for any bytes given to the handshake machines. Included by the corpus replay and by the
//! fuzz target.

use proto::handshake::{Client, Half, Input, Local, Server};
use wire::Eid;
use wire::limits::SMCD_CLASS_MAX;

/// Any bytes as PROPOSAL, ACCEPT and CONFIRM: no panic, a refusal has the code of its row, and what is agreed
/// was offered. Returns whether one of the machines liked the bytes.
pub(crate) fn handshake(bytes: &[u8]) -> bool {
    // The identity of the golden vectors, so that mutations of them get far.
    let gid = [0x0102_0304_0506_0708, 0x1112_1314_1516_1718];
    let local = Local::loopback(gid, Eid::user("TEST.EID").unwrap(), "fuzz");
    let (mut client, mut server, mut confirmed) = (Client::new(), Server::new(), Server::new());
    let proposal = client.propose(&local).unwrap();
    let mut input = [0; wire::limits::MESSAGE_MAX];
    let len = proposal.emit(&mut input).unwrap();
    let half = Ok(Half::default());
    confirmed.handle_proposal(Input::Bytes(&input[..len]), &local, half, true).unwrap();
    let results = [
        client.handle_accept(Input::Bytes(bytes), &local, half, |_| true).map(|(_, agreed)| Some(agreed)),
        server.handle_proposal(Input::Bytes(bytes), &local, half, true).map(|_| None),
        confirmed.handle_confirm(Input::Bytes(bytes), &local).map(Some),
    ];
    for result in &results {
        match result {
            Ok(Some(agreed)) => {
                assert!(agreed.device == local.devices[0] && local.user_eids.contains(&agreed.eid));
                assert!(agreed.peer_dmb.class.class() <= SMCD_CLASS_MAX);
            }
            Ok(None) => {}
            Err(refusal) => assert_eq!(refusal.reason(), refusal.fault.row().reason),
        }
    }
    results.iter().any(Result::is_ok)
}
