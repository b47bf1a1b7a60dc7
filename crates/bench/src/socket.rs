//! The ways two processes can be connected, as ordinary sockets. SMC is TCP here: only the launcher differs.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener, UnixStream};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Transport {
    /// TCP over loopback
    Tcp,
    /// AF_UNIX stream sockets
    Unix,
    /// TCP sockets under smc_run
    Smc,
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Transport::Tcp => "TCP",
            Transport::Unix => "AF_UNIX",
            Transport::Smc => "SMC",
        })
    }
}

/// Where a server listens. Unix names are abstract, so no file has to be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// An address of 127.0.0.1.
    Tcp(SocketAddr),
    /// A name in the abstract namespace.
    Unix(String),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => write!(f, "tcp:{address}"),
            Address::Unix(name) => write!(f, "unix:{name}"),
        }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = match text.split_once(':') {
            Some(("tcp", rest)) => rest.parse().ok().map(Address::Tcp),
            Some(("unix", name)) => Some(Address::Unix(name.into())),
            _ => None,
        };
        parsed.ok_or_else(|| format!("`{text}` is neither tcp:ADDRESS:PORT nor unix:NAME"))
    }
}

/// One end of a connection.
pub(crate) trait Stream: Read + Write + Sized {
    /// Connects to a server of the same kind.
    fn connect(to: &Address) -> io::Result<Self>;
}

/// The server's socket.
pub(crate) trait Listener: Sized {
    /// What accept gives.
    type Stream: Stream;
    /// Listens at an address of the system's choice.
    fn listen() -> io::Result<Self>;
    /// Where it listens.
    fn address(&self) -> io::Result<Address>;
    /// Waits for the next connection.
    fn next(&self) -> io::Result<Self::Stream>;
}

fn wrong_kind() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "the address belongs to another kind of socket")
}

impl Stream for TcpStream {
    fn connect(to: &Address) -> io::Result<Self> {
        let Address::Tcp(address) = to else { return Err(wrong_kind()) };
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

impl Stream for UnixStream {
    fn connect(to: &Address) -> io::Result<Self> {
        let Address::Unix(name) = to else { return Err(wrong_kind()) };
        UnixStream::connect_addr(&UnixAddr::from_abstract_name(name)?)
    }
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    fn listen() -> io::Result<Self> {
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
    }

    fn address(&self) -> io::Result<Address> {
        self.local_addr().map(Address::Tcp)
    }

    fn next(&self) -> io::Result<TcpStream> {
        let (stream, _) = self.accept()?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

impl Listener for UnixListener {
    type Stream = UnixStream;

    /// A process listens once, so its id is name enough.
    fn listen() -> io::Result<Self> {
        let name = format!("smc_bench-{}", std::process::id());
        UnixListener::bind_addr(&UnixAddr::from_abstract_name(name)?)
    }

    fn address(&self) -> io::Result<Address> {
        let address = self.local_addr()?;
        let name = address.as_abstract_name().ok_or_else(wrong_kind)?;
        Ok(Address::Unix(String::from_utf8_lossy(name).into_owned()))
    }

    fn next(&self) -> io::Result<UnixStream> {
        Ok(self.accept()?.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_pipe() {
        for text in ["tcp:127.0.0.1:80", "unix:smc_bench-1"] {
            assert_eq!(text.parse::<Address>().map(|a| a.to_string()), Ok(text.into()));
        }
        assert!("tcp:nowhere".parse::<Address>().is_err());
        assert!("127.0.0.1:80".parse::<Address>().is_err());
    }

    #[test]
    fn a_stream_refuses_the_other_kind_of_address() {
        let tcp: Address = "tcp:127.0.0.1:9".parse().expect("an address");
        assert!(
            <UnixStream as Stream>::connect(&tcp).is_err_and(|e| e.kind() == io::ErrorKind::InvalidInput)
        );
    }
}
