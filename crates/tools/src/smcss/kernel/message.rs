//! sock_diag messages of AF_SMC. Owns: their layout, `linux/smc_diag.h`; a newer kernel may append fields to
//! each part.

use crate::netlink::{u16_at, u32_at, u64_at};
use crate::smcss::row::{Address, Cursor, Details, Dmb, Link, Mode, Row, State};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const AF_SMC: u8 = 43;
const SMC_DIAG_MSG: usize = 64;
/// CONNINFO, LGRINFO, SHUTDOWN, DMBINFO, FALLBACK: bit n-1 asks for attribute n.
const EXTENSIONS: u8 = 0x1f;

/// The dump request, `smc_diag_req` (52 bytes).
pub(super) fn request() -> [u8; 52] {
    let mut bytes = [0; 52];
    bytes[..4].copy_from_slice(&[AF_SMC, 0, 0, EXTENSIONS]);
    bytes
}

/// `smc_diag_msg` and its attributes.
pub(super) fn row(bytes: &[u8]) -> Option<Row> {
    if bytes.len() < SMC_DIAG_MSG || bytes[0] != AF_SMC {
        return None;
    }
    let attributes = Attributes::of(&bytes[SMC_DIAG_MSG..]);
    let mode = match bytes[2] {
        0 => Mode::Smcr,
        2 => Mode::Smcd,
        _ => {
            let codes = attributes.find(5, 8).unwrap_or(&[0; 8]);
            Mode::Tcp { reason: u32_at(codes, 0)?, peer: u32_at(codes, 4)? }
        }
    };
    Some(Row {
        is_kernels: true,
        state: State(bytes[1]),
        uid: u32_at(bytes, 52)?,
        inode: u64_at(bytes, 56)?,
        local: address(bytes, 8, 4)?,
        peer: address(bytes, 24, 6)?,
        interface: u32_at(bytes, 40)?,
        mode,
        shutdown: attributes.find(3, 1).map_or(0, |value| value[0]),
        details: attributes.find(1, 76).and_then(details),
        dmb: attributes.find(4, 40).and_then(dmb),
        link: attributes.find(2, 147).map(link),
        program: None,
    })
}

/// Address words at `at`, big-endian port at `port_at`.
fn address(bytes: &[u8], at: usize, port_at: usize) -> Option<Address> {
    let ip: [u8; 16] = bytes.get(at..at + 16)?.try_into().ok()?;
    let port = u16::from_be_bytes([bytes[port_at], bytes[port_at + 1]]);
    let is_v4 = ip[4..] == [0; 12];
    let ip: IpAddr =
        if is_v4 { Ipv4Addr::new(ip[0], ip[1], ip[2], ip[3]).into() } else { Ipv6Addr::from(ip).into() };
    Some(Address { ip, port })
}

/// `smc_diag_conninfo`: four words, four cursors, four flags, three cursors.
fn details(bytes: &[u8]) -> Option<Details> {
    let word = |at: usize| u32_at(bytes, at);
    let cursor = |at: usize| Some(Cursor { wrap: u16_at(bytes, at + 2)?, count: u32_at(bytes, at + 4)? });
    Some(Details {
        token: word(0)?,
        sndbuf: word(4)?,
        rcvbuf: word(8)?,
        peerbuf: word(12)?,
        rx_prod: cursor(16)?,
        rx_cons: cursor(24)?,
        tx_prod: cursor(32)?,
        tx_cons: cursor(40)?,
        rx_flags: [bytes[48], bytes[49]],
        tx_flags: [bytes[50], bytes[51]],
        tx_prep: cursor(52)?,
        tx_sent: cursor(60)?,
        tx_fin: cursor(68)?,
    })
}

/// `smcd_diag_dmbinfo`.
fn dmb(bytes: &[u8]) -> Option<Dmb> {
    Some(Dmb {
        link_id: u32_at(bytes, 0)?,
        peer_gid: u64_at(bytes, 8)?,
        gid: u64_at(bytes, 16)?,
        token: u64_at(bytes, 24)?,
        peer_token: u64_at(bytes, 32)?,
    })
}

/// `smc_diag_lgrinfo`: one `smc_diag_linkinfo` and the role.
fn link(bytes: &[u8]) -> Link {
    let text = |at: usize, len: usize| {
        let field = &bytes[at..at + len];
        let end = field.iter().position(|byte| *byte == 0).unwrap_or(len);
        String::from_utf8_lossy(&field[..end]).into_owned()
    };
    Link {
        link_id: bytes[0],
        device: text(1, 64),
        port: bytes[65],
        gid: text(66, 40),
        peer_gid: text(106, 40),
        is_server: bytes[146] != 0,
    }
}

/// Attributes behind a message: length and type (16 bits each), value, padding to 4.
struct Attributes<'a>(Vec<(u16, &'a [u8])>);

impl<'a> Attributes<'a> {
    fn of(mut bytes: &'a [u8]) -> Self {
        let mut all = vec![];
        while let (Some(len), Some(kind)) = (u16_at(bytes, 0), u16_at(bytes, 2)) {
            let Some(value) = bytes.get(4..usize::from(len)) else { break };
            all.push((kind & 0x3fff, value));
            bytes = bytes.get(usize::from(len).next_multiple_of(4)..).unwrap_or_default();
        }
        Attributes(all)
    }

    /// The value of attribute `kind` if it has at least `len` bytes.
    fn find(&self, kind: u16, len: usize) -> Option<&'a [u8]> {
        self.0.iter().find(|(known, value)| *known == kind && value.len() >= len).map(|(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::{request, row};
    use crate::smcss::row::{Cursor, Dmb, Mode, Row, State};

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = (4 + value.len() as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn socket(mode: u8, attributes: &[u8]) -> Vec<u8> {
        let mut bytes = vec![43, 1, mode, 0];
        bytes.extend(8080u16.to_be_bytes());
        bytes.extend(40000u16.to_be_bytes());
        bytes.extend([[127, 0, 0, 1], [0; 4], [0; 4], [0; 4]].concat());
        bytes.extend(std::net::Ipv6Addr::LOCALHOST.octets());
        bytes.extend(3u32.to_ne_bytes());
        bytes.extend([0; 8]);
        bytes.extend(1000u32.to_ne_bytes());
        bytes.extend(77u64.to_ne_bytes());
        bytes.extend(attributes);
        bytes
    }

    fn read(bytes: &[u8]) -> Row {
        row(bytes).expect("a socket")
    }

    #[test]
    fn the_request_asks_for_everything() {
        assert_eq!((request()[0], request()[3]), (43, 0x1f));
    }

    #[test]
    fn a_fallback_is_read() {
        let codes = attribute(5, &[0x0500_0000u32.to_ne_bytes(), 0x0303_0000u32.to_ne_bytes()].concat());
        let row = read(&socket(1, &codes));
        assert_eq!((row.state, row.uid, row.inode, row.interface), (State::ACTIVE, 1000, 77, 3));
        assert_eq!((row.local.ip.to_string(), row.local.port), ("127.0.0.1".into(), 8080));
        assert_eq!((row.peer.ip.to_string(), row.peer.port), ("::1".into(), 40000));
        assert_eq!(row.mode, Mode::Tcp { reason: 0x0500_0000, peer: 0x0303_0000 });
    }

    #[test]
    fn an_smcd_socket_is_read_with_whatever_newer_kernels_append() {
        let dmb: Vec<u8> = (0..7u64).flat_map(u64::to_ne_bytes).collect();
        let mut info = vec![0; 80];
        info[0..4].copy_from_slice(&5u32.to_ne_bytes());
        info[18..20].copy_from_slice(&6u16.to_ne_bytes());
        info[20..24].copy_from_slice(&7u32.to_ne_bytes());
        info[72..76].copy_from_slice(&9u32.to_ne_bytes());
        let attributes = [attribute(1, &info), attribute(3, &[2]), attribute(4, &dmb)].concat();
        let row = read(&socket(2, &attributes));
        assert_eq!((row.mode, row.shutdown), (Mode::Smcd, 2));
        let wanted = Dmb { link_id: 0, peer_gid: 1, gid: 2, token: 3, peer_token: 4 };
        assert_eq!(row.dmb, Some(wanted));
        let details = row.details.expect("details");
        assert_eq!((details.token, details.rx_prod), (5, Cursor { wrap: 6, count: 7 }));
        assert_eq!(details.tx_fin, Cursor { wrap: 0, count: 9 });
    }

    #[test]
    fn an_smcr_socket_has_a_link() {
        let mut info = vec![0; 147];
        info[0] = 1;
        info[1..7].copy_from_slice(b"mlx5_0");
        info[66..73].copy_from_slice(b"fe80::1");
        info[146] = 1;
        let link = read(&socket(0, &attribute(2, &info))).link.expect("a link");
        assert_eq!((link.device.as_str(), link.gid.as_str(), link.is_server), ("mlx5_0", "fe80::1", true));
    }

    #[test]
    fn what_is_too_short_is_no_socket() {
        assert_eq!(row(&[43, 1, 1]), None);
        assert_eq!(row(&[2; 64]), None, "of another family");
    }
}
