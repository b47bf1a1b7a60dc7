//! Tracing: the steps of a rendezvous for an operator who asks. Owns: that the kernel tells of them only
//! while somebody traces; that a connection is shown from its beginning once one of its steps is of what
//! was asked for, although its two ends may have it by different addresses; and that who does not read
//! loses events, is told how many, and delays nobody.

use os::bpf;
use os::passing;
use std::collections::{BTreeMap, HashSet, VecDeque};
use wire::Reason;
use wire::host::{Event, MESSAGE_MAX, Message};

/// Events of other connections that are kept, in case that theirs turn out to be asked for.
const KEPT: usize = 1024;
/// Connections that are known to be asked for, at one time.
const KNOWN: usize = 4096;
/// At one time.
const MOST: usize = 8;
/// Taken from the kernel in one round.
const ROUND: usize = 512;
/// Bytes of the kernel's (`struct event` of `bpf/mark.bpf.c`).
const EVENT: usize = 72;

/// What is asked for; zero for any.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Filter {
    pub(crate) pid: u32,
    pub(crate) port: u16,
    pub(crate) address: [u8; 16],
}

/// One who traces.
struct Tracer {
    socket: i32,
    tag: u32,
    filter: Filter,
    /// Cookies of connections that are shown.
    known: HashSet<u64>,
    /// Client and server of those.
    pairs: HashSet<(u32, u32)>,
    others: VecDeque<Event>,
    lost: u32,
}

/// All of them, by the number of their connection to the daemon.
pub(crate) struct Tracers {
    all: BTreeMap<u64, Tracer>,
    tap: Option<Tap>,
}

/// Where the kernel tells, and the switch that lets it.
pub(crate) struct Tap {
    #[cfg(have_mark)]
    ring: aya::maps::RingBuf<aya::maps::MapData>,
    switch: i32,
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.turn(false);
        os::fd::close(self.switch);
    }
}

impl Tap {
    /// Turned off, whatever an earlier daemon left.
    #[cfg(have_mark)]
    pub(crate) fn open(folder: &std::path::Path, switch: i32) -> anyhow::Result<Self> {
        use aya::maps::{Map, MapData, RingBuf};
        let ring = RingBuf::try_from(Map::from_map_data(MapData::from_pin(folder.join("events"))?)?)?;
        let tap = Tap { ring, switch };
        tap.turn(false);
        Ok(tap)
    }

    fn turn(&self, on: bool) {
        let _ = bpf::set(self.switch, 0, on.into());
    }

    #[cfg(have_mark)]
    pub(crate) fn descriptor(&self) -> std::os::fd::BorrowedFd<'_> {
        use std::os::fd::AsFd;
        self.ring.as_fd()
    }

    #[cfg(have_mark)]
    fn next(&mut self) -> Option<Event> {
        let item = self.ring.next()?;
        item.first_chunk().map(parse)
    }

    #[cfg(not(have_mark))]
    fn next(&mut self) -> Option<Event> {
        None
    }
}

#[cfg_attr(not(have_mark), allow(dead_code, reason = "nobody tells"))]
fn parse(bytes: &[u8; EVENT]) -> Event {
    let long = |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| bytes[at + byte]));
    let word = |at: usize| u32::from_ne_bytes(std::array::from_fn(|byte| bytes[at + byte]));
    let half = |at: usize| u16::from_ne_bytes(std::array::from_fn(|byte| bytes[at + byte]));
    Event {
        time: long(0),
        cookie: long(8),
        kind: word(16),
        reason: Reason(word(20)),
        pid: word(24),
        peer: word(28),
        lost: 0,
        ports: [half(64), half(66)],
        addresses: [32, 48].map(|at| std::array::from_fn(|byte| bytes[at + byte])),
    }
}

impl Tracers {
    /// Nobody yet.
    pub(crate) fn new(tap: Option<Tap>) -> Self {
        Tracers { all: BTreeMap::new(), tap }
    }

    /// Where the kernel's events come.
    #[cfg(have_mark)]
    pub(crate) fn descriptor(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.tap.as_ref().map(Tap::descriptor)
    }

    /// One more. Reasons: MAX_DMB (too many), NOSMCDDEV (the kernel marks nothing).
    pub(crate) fn add(&mut self, id: u64, socket: i32, tag: u32, filter: Filter) -> Result<(), Reason> {
        if self.all.len() >= MOST {
            return Err(Reason::MAX_DMB);
        }
        let tap = self.tap.as_mut().ok_or(Reason::NOSMCDDEV)?;
        if self.all.is_empty() {
            // (What was told at the end of an earlier one.)
            while tap.next().is_some() {}
            tap.turn(true);
        }
        let (known, pairs, others) = (HashSet::new(), HashSet::new(), VecDeque::new());
        self.all.insert(id, Tracer { socket, tag, filter, known, pairs, others, lost: 0 });
        Ok(())
    }

    /// One is gone.
    pub(crate) fn remove(&mut self, id: u64) {
        if self.all.remove(&id).is_some()
            && self.all.is_empty()
            && let Some(tap) = &self.tap
        {
            tap.turn(false);
        }
    }

    /// What the kernel has told.
    pub(crate) fn hear(&mut self) {
        for _ in 0..ROUND {
            let Some(event) = self.tap.as_mut().and_then(Tap::next) else { return };
            self.all.values_mut().for_each(|tracer| tracer.hear(event));
        }
    }

    /// What the daemon itself has done about a client of process `pid` and a server of process `peer`. What
    /// the kernel told before goes before.
    pub(crate) fn tell(&mut self, kind: u32, reason: Reason, (pid, peer): (u32, u32), cookie: u64) {
        if self.all.is_empty() {
            return;
        }
        self.hear();
        let time = os::time::monotonic_ns();
        let event = Event { time, cookie, kind, reason, pid, peer, ..Event::default() };
        self.all.values_mut().for_each(|tracer| tracer.hear(event));
    }
}

impl Filter {
    fn fits(&self, event: &Event) -> bool {
        (self.pid == 0 || self.pid == event.pid || self.pid == event.peer)
            && (self.port == 0 || event.ports.contains(&self.port))
            && (self.address == [0; 16] || event.addresses.contains(&self.address))
    }
}

impl Tracer {
    fn hear(&mut self, event: Event) {
        let is_known = match event.cookie {
            0 => self.pairs.contains(&(event.pid, event.peer)),
            cookie => self.known.contains(&cookie),
        };
        if !is_known && !self.filter.fits(&event) {
            if self.others.len() == KEPT {
                self.others.pop_front();
            }
            return self.others.push_back(event);
        }
        if event.cookie != 0 {
            if !is_known {
                let all = std::mem::take(&mut self.others).into_iter();
                let (own, others): (VecDeque<_>, _) = all.partition(|other| other.cookie == event.cookie);
                self.others = others;
                own.into_iter().for_each(|earlier| self.show(earlier));
            }
            if self.known.len() == KNOWN {
                self.known.clear();
                self.pairs.clear();
            }
            self.known.insert(event.cookie);
            // (The kernel tells of a server what it hands to it.)
            if [Event::TAKEN, Event::KEPT].contains(&event.kind) {
                self.pairs.insert((event.peer, event.pid));
            }
        }
        self.show(event);
    }

    fn show(&mut self, event: Event) {
        let mut bytes = [0; MESSAGE_MAX];
        let message = Message::Event(Event { lost: self.lost, ..event });
        let Ok(len) = message.emit(self.tag, &mut bytes) else { return };
        match passing::send(self.socket, &bytes[..len], None) {
            Ok(_) => self.lost = 0,
            Err(_) => self.lost += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::{AsRawFd, OwnedFd};

    fn tracer(filter: Filter) -> (Tracer, OwnedFd, OwnedFd) {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (own, other) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("a pair");
        let (known, pairs, others) = (HashSet::new(), HashSet::new(), VecDeque::new());
        let socket = own.as_raw_fd();
        (Tracer { socket, tag: 1, filter, known, pairs, others, lost: 0 }, own, other)
    }

    fn heard(socket: &OwnedFd) -> Vec<Event> {
        let next = || {
            let mut bytes = [0; MESSAGE_MAX];
            let len = passing::receive(socket.as_raw_fd(), &mut bytes).ok()?.len;
            match Message::parse(&bytes[..len]) {
                Ok((1, Message::Event(event))) => Some(event),
                _ => None,
            }
        };
        std::iter::from_fn(next).collect()
    }

    fn event(kind: u32, cookie: u64, pid: u32, peer: u32, port: u16) -> Event {
        Event { kind, cookie, pid, peer, ports: [port, 40_000], ..Event::default() }
    }

    #[test]
    fn a_connection_is_shown_whole_although_only_one_end_has_the_port() {
        let (mut tracer, _own, other) = tracer(Filter { port: 7000, ..Filter::default() });
        let offered = event(Event::OFFERED, 5, 1, 0, 9000);
        let taken = event(Event::TAKEN, 5, 2, 1, 7000);
        let passed = event(Event::PASSED, 0, 1, 2, 0);
        tracer.hear(offered);
        tracer.hear(event(Event::OFFERED, 6, 1, 0, 9001));
        assert_eq!(heard(&other), []);
        tracer.hear(taken);
        tracer.hear(event(Event::PASSED, 0, 3, 2, 0));
        tracer.hear(passed);
        tracer.hear(event(Event::DECLINED, 5, 1, 2, 0));
        assert_eq!(heard(&other), [offered, taken, passed, event(Event::DECLINED, 5, 1, 2, 0)]);
    }

    #[test]
    fn by_process_and_by_address_either_end_counts() {
        let filter = Filter { pid: 2, address: [9; 16], ..Filter::default() };
        let at = |pid, peer, address| Event { pid, peer, addresses: [[1; 16], address], ..Event::default() };
        assert!(filter.fits(&at(2, 1, [9; 16])) && filter.fits(&at(1, 2, [9; 16])));
        assert!(!filter.fits(&at(1, 3, [9; 16])) && !filter.fits(&at(2, 1, [8; 16])));
    }

    #[test]
    fn who_does_not_read_is_told_how_much_was_lost() {
        let (mut tracer, _own, other) = tracer(Filter::default());
        let all = 2000;
        for cookie in 1..=all {
            tracer.hear(event(Event::OFFERED, cookie, 1, 0, 1));
        }
        let seen = heard(&other).len() as u64;
        assert!(seen < all, "a socket holds so many");
        tracer.hear(event(Event::ANSWERED, all, 1, 0, 1));
        assert_eq!(heard(&other).first().map(|event| u64::from(event.lost)), Some(all - seen));
    }

    #[test]
    fn what_the_kernel_tells_is_read_where_it_lies() {
        let mut bytes = [0; EVENT];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = at as u8;
        }
        let event = parse(&bytes);
        let word = |at: u8| u32::from_ne_bytes([at, at + 1, at + 2, at + 3]);
        assert_eq!(
            (event.kind, event.reason.0, event.pid, event.peer),
            (word(16), word(20), word(24), word(28))
        );
        assert_eq!(event.ports, [64, 66].map(|at: u8| u16::from_ne_bytes([at, at + 1])));
        assert_eq!(event.addresses.map(|address| address[0]), [32, 48]);
    }
}
