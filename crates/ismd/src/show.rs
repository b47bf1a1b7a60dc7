//! `ismd --trace`: asks the daemon that runs for what happens, and writes a line for each step. Owns: how a
//! step reads.

use crate::arguments::Arguments;
use anyhow::{Context, bail};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, send,
    socket_with,
};
use std::fmt;
use std::io::Write;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use wire::Reason;
use wire::host::{Event, MESSAGE_MAX, Message};

/// Ends with the daemon, or by a signal.
pub(crate) fn show(socket: &Path, arguments: &Arguments) -> anyhow::Result<()> {
    let shown = socket.display();
    let line = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    connect(&line, &SocketAddrUnix::new(socket)?).with_context(|| format!("no daemon at {shown}"))?;
    let address = arguments.address.map_or([0; 16], |ip| match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    });
    let (pid, port) = (arguments.pid.unwrap_or(0), arguments.port.unwrap_or(0));
    let mut bytes = [0; MESSAGE_MAX];
    let len = Message::Trace { pid, port, address }.emit(1, &mut bytes).context("no message")?;
    send(&line, &bytes[..len], SendFlags::NOSIGNAL).with_context(|| format!("{shown}"))?;
    let begun = wall_clock().saturating_sub(os::time::monotonic_ns());
    let mut out = std::io::stdout().lock();
    loop {
        match next(&line)? {
            Message::Done => _ = writeln!(std::io::stderr(), "ismd: traces"),
            Message::Event(event) => {
                // (Who reads may have gone.)
                if writeln!(out, "{}", Shown { begun, event }).and_then(|()| out.flush()).is_err() {
                    return Ok(());
                }
            }
            Message::Refused(Reason::CNFERR) => bail!("only root, and the daemon's own user, may trace"),
            Message::Refused(Reason::MAX_DMB) => bail!("as many trace already as may"),
            Message::Refused(_) => bail!("the daemon marks no connections"),
            _ => bail!("the daemon says what is no answer"),
        }
    }
}

fn next(line: &OwnedFd) -> anyhow::Result<Message> {
    loop {
        let mut bytes = [0; MESSAGE_MAX];
        match recv(line, &mut bytes[..], RecvFlags::empty()) {
            Ok((0, _)) => bail!("the daemon has ended"),
            Ok((len, _)) => return Ok(Message::parse(&bytes[..len]).context("no message")?.1),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("the daemon"),
        }
    }
}

fn wall_clock() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// A step, and when the machine started.
struct Shown {
    begun: u64,
    event: Event,
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shown { begun, event } = self;
        if event.lost > 0 {
            writeln!(f, "({} steps were lost)", event.lost)?;
        }
        let at = begun + event.time;
        write!(f, "{}.{:06} ", at / 1_000_000_000, at / 1000 % 1_000_000)?;
        match event.cookie {
            0 => f.write_str("-")?,
            cookie => write!(f, "{cookie:x}")?,
        }
        let step = match event.kind {
            Event::OFFERED => "offered",
            Event::ANSWERED => "answered",
            Event::UNANSWERED => "unanswered",
            Event::TAKEN => "taken",
            Event::KEPT => "refused",
            Event::PASSED => "passed",
            Event::REFUSED => "refused",
            Event::DECLINED => "declined",
            _ => "unknown",
        };
        write!(f, " {step} pid {}", event.pid)?;
        if event.peer != 0 {
            write!(f, " peer {}", event.peer)?;
        }
        if event.ports != [0; 2] {
            let end = |at: usize| {
                let ip = Ipv6Addr::from(event.addresses[at]);
                SocketAddr::new(ip.to_canonical(), event.ports[at])
            };
            write!(f, " {} {}", end(0), end(1))?;
        }
        match event.reason {
            Reason(0) => Ok(()),
            reason => write!(f, " {reason} {}", reason.text()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_a_line() {
        let v4 = |text: &str| text.parse::<std::net::Ipv4Addr>().expect("one").to_ipv6_mapped().octets();
        let event = Event {
            time: 1_500,
            cookie: 0x2a,
            kind: Event::KEPT,
            reason: Reason::PEERDECL,
            pid: 7,
            peer: 8,
            lost: 0,
            ports: [7000, 40_000],
            addresses: [v4("10.5.0.1"), Ipv6Addr::LOCALHOST.octets()],
        };
        let shown = Shown { begun: 5_000_000_000, event }.to_string();
        let expected = "5.000001 2a refused pid 7 peer 8 10.5.0.1:7000 [::1]:40000 0x05000000 Peer declined during handshake";
        assert_eq!(shown, expected);
        let event = Event { lost: 3, kind: Event::OFFERED, pid: 7, ..Event::default() };
        assert_eq!(Shown { begun: 0, event }.to_string(), "(3 steps were lost)\n0.000000 - offered pid 7");
    }
}
