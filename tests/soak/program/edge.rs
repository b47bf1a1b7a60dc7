//! Edge-triggered ping-pong between two loops, with random pauses on both sides: a lost wake-up leaves a
//! message unanswered.

use crate::{LOST, Tally};
use isthmus_tests::sys::{self, Fd};
use libc::{EAGAIN, EPOLLET, EPOLLIN, EPOLLOUT, EPOLLRDHUP, MSG_NOSIGNAL};
use std::collections::HashMap;
use std::time::{Duration, Instant};
use testkit::{Random, Stream};

const CONNECTIONS: u64 = 6;
/// Longer than a nap, and than most spins.
const LONGEST_PAUSE_US: usize = 9_000;
/// Some do not fit a ring.
const LONGEST_MESSAGE: usize = 400_000;
const EDGES: i32 = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;

/// One echoed connection: what is to be written yet.
#[derive(Default)]
struct Echo {
    rest: Vec<u8>,
    has_ended: bool,
}

impl Echo {
    /// Reads and writes until neither goes on; `false` at the end.
    fn run(&mut self, fd: Fd) -> bool {
        let mut buf = vec![0; 30_000];
        loop {
            let written = if self.rest.is_empty() { Ok(0) } else { sys::send(fd, &self.rest, MSG_NOSIGNAL) };
            match written {
                Ok(n) => drop(self.rest.drain(..n)),
                Err(sys::Errno(EAGAIN)) => return true,
                Err(_) => return false,
            }
            if !self.rest.is_empty() {
                continue;
            }
            match sys::read(fd, &mut buf) {
                Ok(0) => self.has_ended = true,
                Ok(n) => self.rest.extend_from_slice(&buf[..n]),
                Err(sys::Errno(EAGAIN)) => return true,
                Err(_) => return false,
            }
            if self.has_ended {
                return false;
            }
        }
    }
}

pub(crate) fn server(port: u16) -> Result<String, String> {
    let (listener, ep) = (sys::tcp_listener(libc::SOCK_NONBLOCK), sys::epoll());
    sys::bind(listener, port).map_err(|e| format!("bind: {e}"))?;
    sys::listen(listener, 64).map_err(|e| format!("listen: {e}"))?;
    sys::ep_add(ep, listener, EPOLLIN, 0).map_err(|e| format!("add: {e}"))?;
    let (mut echoes, mut random) = (HashMap::<Fd, Echo>::new(), Random::new(u64::from(port)));
    loop {
        for (data, _) in sys::ep_wait(ep, -1).map_err(|e| format!("wait: {e}"))? {
            if data == 0 {
                while let Ok(fd) = sys::accept4(listener, libc::SOCK_NONBLOCK) {
                    sys::ep_add(ep, fd as Fd, EDGES, fd as u64).map_err(|e| format!("add: {e}"))?;
                    echoes.insert(fd as Fd, Echo::default());
                }
                continue;
            }
            if random.once_in(20) {
                pause(&mut random);
            }
            let fd = data as Fd;
            if echoes.get_mut(&fd).is_some_and(|echo| !echo.run(fd)) {
                echoes.remove(&fd);
                let _ = sys::close(fd);
            }
        }
    }
}

fn pause(random: &mut Random) {
    std::thread::sleep(Duration::from_micros(random.below(LONGEST_PAUSE_US) as u64));
}

/// One connection of the client's.
struct Talk {
    fd: Fd,
    out: Stream,
    back: Stream,
    /// Bytes of the message that are to be written, and to come back.
    to_send: usize,
    to_come: usize,
    begun: Instant,
}

impl Talk {
    fn new(port: u16, seed: u64) -> Result<Talk, String> {
        let fd = sys::tcp(0);
        sys::connect(fd, port).map_err(|e| format!("connect: {e}"))?;
        sys::nonblocking(fd, true);
        let (out, back) = (Stream::new(seed), Stream::new(seed));
        Ok(Talk { fd, out, back, to_send: 0, to_come: 0, begun: Instant::now() })
    }

    fn begin(&mut self, random: &mut Random) {
        let most = if random.once_in(30) { LONGEST_MESSAGE } else { 3_000 };
        self.to_send = random.size(most);
        (self.to_come, self.begun) = (self.to_send, Instant::now());
    }

    /// Goes on as far as it goes; `true` when the whole message is back.
    fn run(&mut self) -> Result<bool, String> {
        let mut buf = vec![0; 40_000];
        while self.to_send > 0 {
            let n = self.to_send.min(buf.len());
            let at = self.out.offset();
            let mut ahead = self.out.clone();
            ahead.fill(&mut buf[..n]);
            match sys::send(self.fd, &buf[..n], MSG_NOSIGNAL) {
                Ok(n) => {
                    self.out.fill(&mut buf[..n]);
                    self.to_send -= n;
                }
                Err(sys::Errno(EAGAIN)) => break,
                Err(e) => return Err(format!("send at {at}: {e}")),
            }
        }
        loop {
            match sys::read(self.fd, &mut buf) {
                Ok(0) => return Err(format!("an end at {}", self.back.offset())),
                Ok(n) => {
                    self.back.check(&buf[..n]).map_err(|at| format!("a wrong byte at {at}"))?;
                    self.to_come -= n.min(self.to_come);
                }
                Err(sys::Errno(EAGAIN)) => return Ok(self.to_come == 0),
                Err(e) => return Err(format!("read: {e}")),
            }
        }
    }
}

pub(crate) fn client(port: u16, seconds: u64, seed: u64) -> Result<String, String> {
    let ep = sys::epoll();
    let mut random = Random::new(seed);
    let mut talks = (0..CONNECTIONS).map(|n| Talk::new(port, seed + n)).collect::<Result<Vec<_>, _>>()?;
    for (n, talk) in talks.iter_mut().enumerate() {
        sys::ep_add(ep, talk.fd, EDGES, n as u64).map_err(|e| format!("add: {e}"))?;
        talk.begin(&mut random);
        talk.run()?;
    }
    let (end, mut tally) = (Instant::now() + Duration::from_secs(seconds), Tally::default());
    while Instant::now() < end {
        let told = sys::ep_wait(ep, 100).map_err(|e| format!("wait: {e}"))?;
        for (n, _) in told {
            let talk = &mut talks[n as usize];
            while talk.run().map_err(|e| format!("connection {n}: {e}"))? {
                tally.note(talk.begun);
                if random.once_in(10) {
                    pause(&mut random);
                }
                talk.begin(&mut random);
            }
        }
        if let Some(lost) = talks.iter().position(|talk| talk.begun.elapsed() > LOST) {
            let talk = &talks[lost];
            return Err(format!(
                "connection {lost}: {} to send, {} to come: asleep",
                talk.to_send, talk.to_come
            ));
        }
    }
    talks.iter().for_each(|talk| tally.note_open(talk.begun));
    Ok(tally.to_string())
}
