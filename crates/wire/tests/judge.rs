//! An independent judge: tshark's SMC dissector reads what we wrote. Where tshark is not installed, the
//! capture is still read back by the few lines below.

mod common;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, id};

use wire::clc::{Decline, Header, Kind, Message, Proposal};
use wire::pcap::{Capture, Conversation, Sender};
use wire::{Reason, limits};

/// The handshakes to show: a full one, and one that is refused.
fn handshakes() -> Vec<Vec<Vec<u8>>> {
    let one = |name| common::one("smcd_loopback_ism.hex", name);
    let golden = |name| common::one("golden.hex", name);
    let rdma = |name| common::one("smcr_rxe.hex", name);
    vec![
        rewritten(&[one("proposal_4"), one("accept_6"), one("confirm_8")]),
        rewritten(&[golden("proposal_with_everything"), golden("decline_v2_noueid")]),
        rewritten(&[golden("proposal_v2_emulated_ism"), golden("accept_v2_first_contact")]),
        rewritten(&[rdma("proposal_4"), rdma("accept_6"), rdma("confirm_8")]),
    ]
}

/// The judge must see our bytes, so every message is parsed and written again.
fn rewritten(messages: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let again = |bytes: &Vec<u8>| {
        let mut buffer = [0; limits::MESSAGE_MAX];
        let len = Message::parse(bytes).unwrap().emit(&mut buffer).unwrap();
        buffer[..len].to_vec()
    };
    messages.iter().map(again).collect()
}

fn capture(addresses: [&str; 2]) -> Vec<u8> {
    let mut buffer = vec![0; 16 * 1024];
    let mut capture = Capture::new(&mut buffer).unwrap();
    for (n, messages) in handshakes().iter().enumerate() {
        let [mut client, server] = addresses.map(|a| a.parse::<SocketAddr>().unwrap());
        client.set_port(client.port() + n as u16);
        let mut talk = Conversation::new(client, server).unwrap();
        capture.opening(&mut talk, 1_700_000_000_000_000).unwrap();
        for (i, bytes) in messages.iter().enumerate() {
            let from = if i == 1 { Sender::Server } else { Sender::Client };
            capture.message(&mut talk, from, 1_700_000_000_000_100 + i as u64, bytes).unwrap();
        }
    }
    let len = capture.finish();
    buffer.truncate(len);
    buffer
}

/// A file that is gone when the test ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, bytes: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("isthmus-wire-{}-{name}.pcap", id()));
        std::fs::write(&path, bytes).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Output of tshark, or nothing if it is not installed. Without the user's own preferences, which may switch
/// the dissector off or lie in a home we cannot read.
fn tshark(file: &Scratch, arguments: &[&str]) -> Option<String> {
    let nowhere = "/nonexistent";
    let mut command = Command::new("tshark");
    command.env("HOME", nowhere).env("XDG_CONFIG_HOME", nowhere).arg("-r").arg(&file.0).args(arguments);
    let output = command.output().ok()?;
    assert!(output.status.success(), "tshark: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

/// Payloads of a capture of ours, found by the lengths in its headers.
fn payloads(mut file: &[u8], ip_header: usize) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    file = &file[24..];
    while let Some((record, rest)) = file.split_at_checked(16) {
        let len = u32::from_be_bytes(record[8..12].try_into().unwrap()) as usize;
        let (packet, rest) = rest.split_at(len);
        let tcp_header = usize::from(packet[ip_header + 12] >> 4) * 4;
        found.push(packet[ip_header + tcp_header..].to_vec());
        file = rest;
    }
    found.retain(|payload| !payload.is_empty());
    found
}

fn judge(name: &str, addresses: [&str; 2], ip_header: usize) {
    let bytes = capture(addresses);
    assert_eq!(payloads(&bytes, ip_header), handshakes().concat());
    let file = Scratch::new(name, &bytes);
    let checks = ["-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE"];
    let faults = "_ws.malformed || _ws.expert.severity >= 6291456 || tcp.analysis.flags";
    let Some(faulty) = tshark(&file, &[&checks[..], &["-Y", faults]].concat()) else { return };
    assert_eq!(faulty, "", "malformed packets, bad checksums or gaps");
    let seen = tshark(&file, &["-Y", "smc", "-T", "fields", "-e", "_ws.col.Info"]).unwrap();
    let kinds = handshakes().concat().iter().map(|m| Header::parse(m).unwrap().kind).collect::<Vec<_>>();
    assert_eq!(seen.lines().count(), kinds.len(), "{seen}");
    for (line, kind) in seen.lines().zip(kinds) {
        let word = if kind == Kind::Decline { "Decline".into() } else { format!("{kind:?}") };
        assert!(line.contains(&word), "{line} should be a {word}");
    }
}

#[test]
fn tshark_reads_our_handshakes_over_ipv4() {
    judge("v4", ["127.0.0.1:40000", "127.0.0.1:5002"], 20);
}

#[test]
fn tshark_reads_our_handshakes_over_ipv6() {
    judge("v6", ["[::1]:40000", "[2001:db8::1]:5002"], 40);
}

/// Single fields, in the dissector's words.
#[test]
fn tshark_reads_the_values_we_wrote() {
    let decline = Message::Decline(Decline::new(2, Reason::NOUEID));
    let proposal = Proposal::parse(&common::one("golden.hex", "proposal_v2_emulated_ism")).unwrap();
    let mut buffer = [0; 2048];
    let mut capture = Capture::new(&mut buffer).unwrap();
    let ends = ["127.0.0.1:40000", "127.0.0.1:5002"].map(|a| a.parse().unwrap());
    let mut talk = Conversation::new(ends[0], ends[1]).unwrap();
    for (from, message) in [(Sender::Client, Message::Proposal(proposal)), (Sender::Server, decline)] {
        let mut bytes = [0; limits::MESSAGE_MAX];
        let len = message.emit(&mut bytes).unwrap();
        assert_eq!(Message::parse(&bytes[..len]), Ok(message));
        capture.message(&mut talk, from, 0, &bytes[..len]).unwrap();
    }
    let len = capture.finish();
    let file = Scratch::new("values", &buffer[..len]);
    let Some(text) = tshark(&file, &["-V", "-O", "smc"]) else { return };
    for expected in ["TEST.EID", "0x0102030405060708", "0x03030008"] {
        assert!(text.to_lowercase().contains(&expected.to_lowercase()), "{expected} not in\n{text}");
    }
}
