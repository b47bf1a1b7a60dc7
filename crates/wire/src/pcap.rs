//! A capture file of a handshake, for tshark: CLC messages as TCP payload, whatever carried them. Classic
//! pcap, raw IP packets. Owns: sequence numbers and checksums are right, and nothing is written past the
//! caller's buffer.

use core::net::{IpAddr, SocketAddr};

use crate::bytes::Writer;
use crate::error::{Error, Result};

/// pcap magic (microseconds) and version 2.4.
const MAGIC: u32 = 0xA1B2_C3D4;
const VERSION: (u16, u16) = (2, 4);
/// LINKTYPE_RAW: packets start with the IP header.
const LINKTYPE_RAW: u32 = 101;
/// Longest packet; a CLC message is far shorter.
const SNAP_LEN: u32 = 65535;
const TCP: u8 = 6;
const TCP_HEADER: usize = 20;
const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;
/// NOP, NOP and the SMC option of RFC 7609 section 3.1.
const SMC_OPTION: [u8; 8] = [1, 1, 254, 6, 0xE2, 0xD4, 0xC3, 0xD9];

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// The end that called connect().
    Client,
    /// The end that called accept().
    Server,
}

/// One TCP connection in the capture.
#[derive(Clone, Copy, Debug)]
pub struct Conversation {
    client: SocketAddr,
    server: SocketAddr,
    /// Next sequence numbers of client and server.
    next: [u32; 2],
}

/// Writes a capture into the caller's buffer.
pub struct Capture<'a> {
    out: Writer<'a>,
}

/// What one packet carries besides addresses.
struct Segment<'a> {
    from: Sender,
    flags: u8,
    options: &'a [u8],
    payload: &'a [u8],
}

impl Conversation {
    /// Addresses of both ends; `Error::Inconsistent` if one is IPv4 and the other IPv6.
    pub fn new(client: SocketAddr, server: SocketAddr) -> core::result::Result<Self, Error> {
        if client.is_ipv4() != server.is_ipv4() {
            return Err(Error::Inconsistent);
        }
        Ok(Self { client, server, next: [0; 2] })
    }

    /// Source, destination, sequence and acknowledgement number of a packet from `sender`.
    fn route(&self, sender: Sender) -> (SocketAddr, SocketAddr, u32, u32) {
        let [client, server] = self.next;
        match sender {
            Sender::Client => (self.client, self.server, client, server),
            Sender::Server => (self.server, self.client, server, client),
        }
    }

    /// Counts what a packet used of the sequence space: its payload, and one each for SYN and FIN.
    fn advance(&mut self, segment: &Segment<'_>) {
        let [client, server] = &mut self.next;
        let next = if segment.from == Sender::Client { client } else { server };
        let control = u32::from(segment.flags & (SYN | FIN) != 0);
        *next = next.wrapping_add(segment.payload.len() as u32).wrapping_add(control);
    }
}

impl<'a> Capture<'a> {
    /// Starts a capture file.
    pub fn new(buffer: &'a mut [u8]) -> core::result::Result<Self, Error> {
        let mut out = Writer::new(buffer);
        out.u32(MAGIC)?;
        out.u16(VERSION.0)?;
        out.u16(VERSION.1)?;
        out.put(&[0; 8])?;
        out.u32(SNAP_LEN)?;
        out.u32(LINKTYPE_RAW)?;
        Ok(Self { out })
    }

    /// The three-way handshake, with the SMC option.
    pub fn opening(&mut self, talk: &mut Conversation, at_us: u64) -> core::result::Result<(), Error> {
        for (from, flags) in [(Sender::Client, SYN), (Sender::Server, SYN | ACK), (Sender::Client, ACK)] {
            let options: &[u8] = if flags & SYN != 0 { &SMC_OPTION } else { &[] };
            self.segment(talk, at_us, &Segment { from, flags, options, payload: &[] })?;
        }
        Ok(())
    }

    /// One message from `from`, `at_us` microseconds after the epoch.
    pub fn message(
        &mut self,
        talk: &mut Conversation,
        from: Sender,
        at_us: u64,
        payload: &[u8],
    ) -> core::result::Result<(), Error> {
        self.segment(talk, at_us, &Segment { from, flags: PSH | ACK, options: &[], payload })
    }

    /// Bytes of the file so far; they start at the front of the buffer.
    pub fn finish(self) -> usize {
        self.out.len()
    }

    fn segment(&mut self, talk: &mut Conversation, at_us: u64, segment: &Segment<'_>) -> Result<()> {
        let tcp_len = TCP_HEADER + segment.options.len() + segment.payload.len();
        let ip_header = if talk.client.is_ipv4() { 20 } else { 40 };
        let len = u16::try_from(ip_header + tcp_len).map_err(|_| Error::Inconsistent)?;
        self.out.u32((at_us / 1_000_000) as u32)?;
        self.out.u32((at_us % 1_000_000) as u32)?;
        self.out.u32(u32::from(len))?;
        self.out.u32(u32::from(len))?;
        let (from, to, seq, ack) = talk.route(segment.from);
        self.ip(from.ip(), to.ip(), tcp_len as u16)?;
        self.tcp(from, to, (seq, ack), segment)?;
        talk.advance(segment);
        Ok(())
    }

    fn ip(&mut self, from: IpAddr, to: IpAddr, tcp_len: u16) -> Result<()> {
        match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let mut header = [0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, TCP, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
                place(&mut header, 2, &(tcp_len + 20).to_be_bytes());
                place(&mut header, 12, &from.octets());
                place(&mut header, 16, &to.octets());
                let checksum = Checksum::new().add(&header).value();
                place(&mut header, 10, &checksum);
                self.out.put(&header)
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                self.out.put(&[0x60, 0, 0, 0])?;
                self.out.u16(tcp_len)?;
                self.out.put(&[TCP, 64])?;
                self.out.put(&from.octets())?;
                self.out.put(&to.octets())
            }
            _ => Err(Error::Inconsistent),
        }
    }

    fn tcp(
        &mut self,
        from: SocketAddr,
        to: SocketAddr,
        (seq, ack): (u32, u32),
        segment: &Segment<'_>,
    ) -> Result<()> {
        let mut header = [0; TCP_HEADER];
        let header_words = (TCP_HEADER + segment.options.len()) as u8 / 4;
        place(&mut header, 0, &from.port().to_be_bytes());
        place(&mut header, 2, &to.port().to_be_bytes());
        place(&mut header, 4, &seq.to_be_bytes());
        place(&mut header, 8, &if segment.flags & ACK != 0 { ack } else { 0 }.to_be_bytes());
        place(&mut header, 12, &[header_words << 4, segment.flags, 0xFF, 0xFF]);
        let len = (TCP_HEADER + segment.options.len() + segment.payload.len()) as u16;
        let checksum =
            Checksum::new().add_ip(from.ip()).add_ip(to.ip()).add(&[0, TCP]).add(&len.to_be_bytes());
        let checksum = checksum.add(&header).add(segment.options).add(segment.payload).value();
        place(&mut header, 16, &checksum);
        self.out.put(&header)?;
        self.out.put(segment.options)?;
        self.out.put(segment.payload)
    }
}

/// Copies `field` to offset `at`; offsets are the constants above and always fit.
fn place(header: &mut [u8], at: usize, field: &[u8]) {
    header.iter_mut().skip(at).zip(field).for_each(|(to, from)| *to = *from);
}

/// The Internet checksum (RFC 1071). Every part but the last must have an even length.
#[derive(Clone, Copy)]
struct Checksum(u32);

impl Checksum {
    const fn new() -> Self {
        Self(0)
    }

    fn add(self, bytes: &[u8]) -> Self {
        let words = bytes.chunks(2).map(|c| match *c {
            [high, low] => u32::from(u16::from_be_bytes([high, low])),
            [high] => u32::from(high) << 8,
            _ => 0,
        });
        Self(self.0 + words.sum::<u32>())
    }

    fn add_ip(self, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => self.add(&address.octets()),
            IpAddr::V6(address) => self.add(&address.octets()),
        }
    }

    fn value(self) -> [u8; 2] {
        let folded = (self.0 >> 16) + (self.0 & 0xFFFF);
        let folded = (folded >> 16) + (folded & 0xFFFF);
        (!(folded as u16)).to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn talk() -> Conversation {
        Conversation::new("127.0.0.1:40000".parse().unwrap(), "127.0.0.1:5002".parse().unwrap()).unwrap()
    }

    /// Sum of a correct header, checksum included, is all ones.
    fn sums_to_ones(bytes: &[u8]) -> bool {
        Checksum::new().add(bytes).value() == [0, 0]
    }

    #[test]
    fn a_message_lies_behind_file_packet_ip_and_tcp_headers() {
        let mut buffer = [0; 256];
        let mut capture = Capture::new(&mut buffer).unwrap();
        capture.message(&mut talk(), Sender::Client, 3_000_001, b"hello").unwrap();
        let len = capture.finish();
        assert_eq!(len, 24 + 16 + 20 + 20 + 5);
        assert_eq!(&buffer[24..40], &[0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 45, 0, 0, 0, 45]);
        assert!(sums_to_ones(&buffer[40..60]));
        assert_eq!(&buffer[80..len], b"hello");
        let pseudo = [127, 0, 0, 1, 127, 0, 0, 1, 0, TCP, 0, 25];
        assert_eq!(Checksum::new().add(&pseudo).add(&buffer[60..len]).value(), [0, 0]);
    }

    #[test]
    fn sequence_numbers_count_the_opening_and_the_payload() {
        let mut buffer = [0; 1024];
        let mut talk = talk();
        let mut capture = Capture::new(&mut buffer).unwrap();
        capture.opening(&mut talk, 0).unwrap();
        capture.message(&mut talk, Sender::Client, 0, &[0; 10]).unwrap();
        capture.message(&mut talk, Sender::Server, 0, &[0; 7]).unwrap();
        assert_eq!(talk.next, [11, 8]);
    }

    #[test]
    fn a_full_buffer_is_an_error() {
        assert!(Capture::new(&mut [0; 23]).is_err());
        let mut buffer = [0; 84];
        let mut capture = Capture::new(&mut buffer).unwrap();
        let full = capture.message(&mut talk(), Sender::Client, 0, b"hello");
        assert_eq!(full, Err(Error::NoRoom { need: 85, have: 84 }));
        let mixed = Conversation::new("[::1]:1".parse().unwrap(), "127.0.0.1:1".parse().unwrap());
        assert_eq!(mixed.err(), Some(Error::Inconsistent));
    }
}
