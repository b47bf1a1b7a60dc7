//! A client that may say anything.

use crate::daemon::Daemon;
use os::passing;
use os::poll::{self, PollFd, bits};
use std::os::unix::ffi::OsStrExt;
use wire::host::{MESSAGE_MAX, Message};

pub(crate) struct Raw(pub(crate) i32);

impl Drop for Raw {
    fn drop(&mut self) {
        os::fd::close(self.0);
    }
}

/// What came back.
#[derive(Debug)]
pub(crate) enum Heard {
    Message(Message, Option<i32>),
    /// The daemon has closed.
    End,
    /// Nothing, for so long.
    Silence,
}

impl Raw {
    pub(crate) fn connect(daemon: &Daemon) -> Raw {
        Raw(passing::connect(daemon.socket().as_os_str().as_bytes()).expect("connected"))
    }

    pub(crate) fn say(&self, message: &Message, passed: Option<i32>) -> Heard {
        let mut bytes = [0; MESSAGE_MAX];
        let len = message.emit(7, &mut bytes).expect("room");
        match passing::send(self.0, &bytes[..len], passed) {
            Ok(()) => self.hear(2000),
            Err(_) => Heard::End,
        }
    }

    pub(crate) fn hear(&self, limit_ms: i32) -> Heard {
        let mut bytes = [0; MESSAGE_MAX];
        let _ = poll::wait(&mut [PollFd { fd: self.0, events: bits::IN, revents: 0 }], limit_ms);
        match passing::receive(self.0, &mut bytes) {
            Ok(packet) if packet.len > 0 => {
                let (tag, message) = Message::parse(&bytes[..packet.len]).expect("a message");
                assert_eq!(tag, 7);
                Heard::Message(message, packet.passed)
            }
            Err(os::Errno::EAGAIN) => Heard::Silence,
            _ => Heard::End,
        }
    }

    /// Says hello; its number.
    pub(crate) fn enter(&self) -> u32 {
        match self.say(&Message::Hello { vchid: 0 }, None) {
            Heard::Message(Message::Welcome { client, .. }, None) => client,
            other => panic!("{other:?}"),
        }
    }
}
