//! A server that waits for all its connections in one epoll set, as event-driven servers do. Edge-triggered, since
//! mio is: every readiness is used until the socket would block.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixListener;

use anyhow::Context;
use mio::event::Source;
use mio::net;
use mio::{Events, Interest, Poll, Token};

use super::{Said, say};
use crate::socket::Listener;
use crate::workload::{Shape, Workload};

const LISTENER: Token = Token(usize::MAX);
/// Events taken per wait; more only arrive with the next.
const EVENTS: usize = 256;

/// The non-blocking form of a listener.
pub(super) trait Polled: Listener + AsRawFd {
    /// mio's listener.
    type Source: Source;
    /// mio's stream.
    type Conn: Source + Read + Write;
    /// Turns non-blocking.
    fn polled(self) -> io::Result<Self::Source>;
    /// The next connection, or WouldBlock.
    fn accept(source: &Self::Source) -> io::Result<Self::Conn>;
}

impl Polled for TcpListener {
    type Source = net::TcpListener;
    type Conn = net::TcpStream;

    fn polled(self) -> io::Result<Self::Source> {
        self.set_nonblocking(true)?;
        Ok(net::TcpListener::from_std(self))
    }

    fn accept(source: &Self::Source) -> io::Result<Self::Conn> {
        let (stream, _) = source.accept()?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

impl Polled for UnixListener {
    type Source = net::UnixListener;
    type Conn = net::UnixStream;

    fn polled(self) -> io::Result<Self::Source> {
        self.set_nonblocking(true)?;
        Ok(net::UnixListener::from_std(self))
    }

    fn accept(source: &Self::Source) -> io::Result<Self::Conn> {
        Ok(source.accept()?.0)
    }
}

/// Serves whoever connects, until the last client of a run has closed (for [`Shape::Crr`]: for ever).
pub(super) fn server<L: Polled>(workload: Workload) -> anyhow::Result<()> {
    let listener = L::listen().context("cannot listen")?;
    let address = listener.address()?.to_string();
    let mut house = House::<L>::new(workload, listener)?;
    say(&Said::Listening(address))?;
    house.serve().context("the epoll server failed")
}

struct House<L: Polled> {
    workload: Workload,
    poll: Poll,
    listener: L::Source,
    guests: HashMap<usize, Guest<L::Conn>>,
    next: usize,
}

impl<L: Polled> House<L> {
    fn new(workload: Workload, listener: L) -> io::Result<Self> {
        let poll = Poll::new()?;
        let mut listener = listener.polled()?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        Ok(Self { workload, poll, listener, guests: HashMap::new(), next: 0 })
    }

    fn serve(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        let mut buffer = vec![0; self.workload.request as usize];
        let response = vec![0xa5; self.workload.response as usize];
        loop {
            match self.poll.poll(&mut events, None) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                outcome => outcome?,
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.welcome()?,
                    Token(number) => self.attend(number, &mut buffer, &response)?,
                }
            }
            if self.guests.is_empty() && self.next > 0 && self.workload.shape != Shape::Crr {
                return Ok(());
            }
        }
    }

    fn welcome(&mut self) -> io::Result<()> {
        loop {
            let mut conn = match L::accept(&self.listener) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                outcome => outcome?,
            };
            let both = Interest::READABLE | Interest::WRITABLE;
            self.poll.registry().register(&mut conn, Token(self.next), both)?;
            self.guests.insert(self.next, Guest { conn, wanted: buffer_len(self.workload.request), owed: 0 });
            self.next += 1;
        }
    }

    fn attend(&mut self, number: usize, buffer: &mut [u8], response: &[u8]) -> io::Result<()> {
        let Some(guest) = self.guests.get_mut(&number) else { return Ok(()) };
        match guest.attend(buffer, response) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
            Ok(()) => {
                self.guests.remove(&number);
                Ok(())
            }
        }
    }
}

fn buffer_len(bytes: u32) -> usize {
    bytes as usize
}

/// One connection between two events.
struct Guest<C> {
    conn: C,
    /// Bytes still to read of the present request; never 0.
    wanted: usize,
    /// Bytes still to write of the present response; 0 while reading.
    owed: usize,
}

impl<C: Read + Write> Guest<C> {
    /// Works until the socket would block (an error of that kind) or the client has closed (Ok).
    fn attend(&mut self, buffer: &mut [u8], response: &[u8]) -> io::Result<()> {
        loop {
            while self.owed > 0 {
                self.owed -= self.conn.write(&response[response.len() - self.owed..])?;
            }
            let read = self.conn.read(&mut buffer[..self.wanted])?;
            if read == 0 {
                return Ok(());
            }
            self.wanted -= read;
            if self.wanted == 0 {
                self.wanted = buffer.len();
                self.owed = response.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Guest;
    use std::io::{self, Read, Write};

    /// Gives and takes at most three bytes, then would block.
    struct Slow {
        turns: usize,
        given: usize,
        taken: usize,
        left: usize,
    }

    impl Slow {
        fn turn(&mut self, len: usize) -> io::Result<usize> {
            self.turns += 1;
            if self.turns.is_multiple_of(2) { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(len.min(3)) }
        }
    }

    impl Read for Slow {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let n = self.turn(buf.len())?.min(self.left);
            self.left -= n;
            self.given += n;
            Ok(n)
        }
    }

    impl Write for Slow {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            let n = self.turn(buf.len())?;
            self.taken += n;
            Ok(n)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn whole_responses_answer_whole_requests_in_pieces() {
        let conn = Slow { turns: 0, given: 0, taken: 0, left: 20 };
        let mut guest = Guest { conn, wanted: 5, owed: 0 };
        let (mut buffer, response) = ([0; 5], [1; 7]);
        for _ in 0..200 {
            match guest.attend(&mut buffer, &response) {
                Ok(()) => break,
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
        assert_eq!((guest.conn.given, guest.conn.taken), (20, 28), "four requests of 5, four responses of 7");
    }
}
