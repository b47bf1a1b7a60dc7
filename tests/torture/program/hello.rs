//! The first bytes of a connection: who it is. Invariant: they are sent by one call, and whoever reads
//! something else in their place tells it as a fault.

use crate::run::{fault, run};
use isthmus_tests::sys::{self, Fd};

/// Bytes of a hello.
pub(crate) const LEN: usize = 16;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hello {
    /// The script of this number.
    Script(u64),
    /// To be reset, with this number in its bytes.
    Volley(u64),
}

impl Hello {
    pub(crate) fn emit(self) -> [u8; LEN] {
        let (kind, number) = match self {
            Hello::Script(n) => (b'S', n),
            Hello::Volley(n) => (b'V', n),
        };
        let mut bytes = *b"TORTURE?01234567";
        bytes[7] = kind;
        bytes[8..].copy_from_slice(&number.to_le_bytes());
        bytes
    }

    /// `None`, and a fault, if these are no hello.
    pub(crate) fn parse(bytes: &[u8; LEN]) -> Option<Hello> {
        let number = u64::from_le_bytes(bytes[8..].try_into().expect("eight bytes"));
        match (&bytes[..7], bytes[7]) {
            (b"TORTURE", b'S') if number < crate::board::CONNECTIONS => Some(Hello::Script(number)),
            (b"TORTURE", b'V') => Some(Hello::Volley(number)),
            _ => {
                let whose = crate::stream::name(run().seed, bytes);
                fault("foreign", None, &format!("a server reads {bytes:02x?} as the first bytes: {whose}"));
                None
            }
        }
    }

    /// Reads one from a blocking socket; `None` if the client is gone.
    pub(crate) fn read(fd: Fd) -> Option<Hello> {
        let mut bytes = [0; LEN];
        match sys::recv(fd, &mut bytes, libc::MSG_WAITALL) {
            Ok(LEN) => Hello::parse(&bytes),
            _ => None,
        }
    }
}
