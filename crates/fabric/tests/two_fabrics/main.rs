//! Two values of the fabric in one process, as client and server of connections between them: nothing that
//! one has found out is known to the other but through its tier. Owns: that every door can be answered in
//! another way than the local tier does, since the same steps are taken over that and over one that shares
//! nothing with it (`twin`).

mod rows;
mod twin;

use fabric::door::{Directory, Letter, Life, Rendezvous, Tier};
use fabric::local::Local;
use fabric::offer::Offer;
use fabric::rows::{Intent, RowId};
use fabric::slot::SlotView;
use fabric::verdict::Verdict;
use fabric::{Fabric, Reason};
use os::net::Endpoint;
use shm::layout::MAIL_LEN;
use shm::ring::Reader;
use shm::slab::Index;
use shm::{ClosedBy, Consumer, Producer, RxCache, Side, Source, TxCache};
use std::cell::Cell;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use sync::Ordering::{AcqRel, Relaxed};
use testkit::Stream;
use twin::{Machine, Twin};

const RING: u32 = 16384;

/// What the tests must see of a bell, and no fabric asks.
trait Rung {
    fn has_rung(&self, bell: i32) -> bool;
}

impl Rung for Local {
    fn has_rung(&self, bell: i32) -> bool {
        os::poll::is_readable(bell)
    }
}

/// A client and a server.
struct Pair<T: Tier> {
    client: &'static Fabric<T>,
    server: &'static Fabric<T>,
}

/// A connection between them, on both sides of which shared memory was agreed on.
struct Connection {
    sockets: [TcpStream; 2],
    key: u64,
    row: RowId,
    offer: Offer,
    claimed: (Index, &'static SlotView),
}

fn at(fd: i32) -> Endpoint {
    os::net::local(fd).expect("an address")
}

impl<T: Tier> Pair<T> {
    fn new(tier: impl Fn() -> T) -> Self {
        os::process::refresh_pid();
        let [client, server] = [tier(), tier()].map(|tier| &*Box::leak(Box::new(Fabric::new(tier))));
        Pair { client, server }
    }

    /// From the announcement to the verdict, as `socket` goes about it.
    fn connect(&self, listener: &TcpListener) -> Connection {
        let client = self.client;
        // (A connection first: the safe library has no socket that is not connected yet. Nobody accepts
        // before the intent.)
        let socket = TcpStream::connect(listener.local_addr().expect("bound")).expect("listening");
        let (target, fd) = (at(listener.as_raw_fd()), socket.as_raw_fd());
        let owner = client.tier().owner_of(fd, target).expect("an announced listener");
        let map = client.tier().existing().expect("a directory");
        let key = client.tier().own(fd).expect("a key");
        let offer = client.offer(owner, RING, key).expect("a slot");
        let sides = &offer.view.header().sides;
        sides.iter().for_each(|side| side.holders.store(1, Relaxed));
        client.members().join(&sides[Side::Client as usize]);
        client.tier().put(offer.view, fd, Letter::Proposal, b"proposal").expect("a short letter");
        let process = client.tier().me(map).expect("room for a process");
        let intent =
            Intent { cookie: key, process, memfd: offer.memfd, nonce: offer.nonce, target, inode: 0 };
        let row = client.rows().publish(&intent, offer.view).expect("room for a row");
        client.tier().carry(fd, key).expect("a way");
        assert_eq!(client.rows().verdict(row), None);

        let (accepted, _) = listener.accept().expect("a connection");
        let claimed = self.claim(&accepted, (key, row));
        assert_eq!(client.rows().verdict(row), Some(Verdict::Smc));
        let addresses = [at(fd), at(accepted.as_raw_fd())];
        for view in [offer.view, claimed.1] {
            view.note_addresses(addresses[0], addresses[1]);
        }
        Connection { sockets: [socket, accepted], key, row, offer, claimed }
    }

    fn claim(&self, accepted: &TcpStream, wanted: (u64, RowId)) -> (Index, &'static SlotView) {
        let (server, fd) = (self.server, accepted.as_raw_fd());
        assert!(server.rows().any_pending());
        let peer = os::net::peer(fd).expect("connected");
        let client = server.tier().of_client(fd, at(fd), peer).expect("a client");
        let row = server.rows().find(client.key).expect("an intent");
        assert_eq!((client.key, row), wanted);
        let (index, view) = server.attach(row).expect("the offered slot");
        assert_eq!(view.header().client_cookie.load(Relaxed), client.key);
        let mut letter = [0; MAIL_LEN];
        // A letter may be on its way; how many looks that takes is the carrier's.
        let mut looks = (0..3).map(|_| {
            let arrived = server.tier().take(view, fd, Letter::Proposal, &mut letter);
            arrived.expect("a letter, or none yet").to_vec()
        });
        assert_eq!(looks.find(|arrived| !arrived.is_empty()).as_deref(), Some(&b"proposal"[..]));
        assert_eq!(server.rows().decide(row, Side::Server, Verdict::Smc), Verdict::Smc);
        server.members().join(&view.header().sides[Side::Server as usize]);
        view.header().server_cookie.store(server.tier().own(fd).expect("a key"), Relaxed);
        (index, view)
    }

    /// The server's end says that it has let go, or does not.
    fn close(&self, connection: Connection, is_server_gone: bool) {
        let Connection { sockets, key, row, offer, claimed } = connection;
        drop(sockets);
        if is_server_gone {
            let side = &claimed.1.header().sides[Side::Server as usize];
            side.closed.fetch_or(ClosedBy::CLOSE, AcqRel);
            side.holders.store(0, Relaxed);
            self.server.members().leave(side);
            self.server.rows().close_side(row, key, Side::Server);
            self.server.detach(claimed.1);
        }
        let side = &offer.view.header().sides[Side::Client as usize];
        side.closed.fetch_or(ClosedBy::CLOSE, AcqRel);
        side.holders.store(0, Relaxed);
        self.client.members().leave(side);
        self.client.rows().close_side(row, key, Side::Client);
        self.client.give_back(offer.index, offer.view);
    }
}

impl<T: Tier + Rung> Pair<T> {
    /// Bytes from `side` to the other, each ringful with its bell.
    fn send(&self, connection: &Connection, side: Side, seed: u64, len: usize) {
        let (from, to) = match side {
            Side::Client => ((self.client, connection.offer.view), (self.server, connection.claimed.1)),
            Side::Server => ((self.server, connection.claimed.1), (self.client, connection.offer.view)),
        };
        let (mut written, mut read) = (Stream::new(seed), Stream::new(seed));
        let (outgoing, incoming) = (from.1.outgoing(side), to.1.incoming(side.peer()));
        let (mut tx, mut rx, mut left) = (TxCache::new(), RxCache::new(), len);
        while left > 0 {
            let mut bytes = vec![0; left.min(5000)];
            written.fill(&mut bytes);
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let mut producer = Producer::alone(outgoing, &mut tx);
                let sent = producer.write(Source::from(rest), Reader::Apart).expect("an honest peer");
                assert!(sent > 0, "the ring was empty");
                rest = &rest[sent..];
            }
            from.0.tier().ring(from.1.bell(side.peer()));
            let bell = to.1.bell(side.peer());
            assert!(to.0.tier().has_rung(bell));
            to.0.tier().drain(bell);
            assert!(!to.0.tier().has_rung(bell));
            bytes.fill(0);
            let mut at = 0;
            while at < bytes.len() {
                let mut consumer = Consumer::alone(incoming, &mut rx);
                let received = consumer.read((&mut bytes[at..]).into()).expect("an honest peer");
                assert!(received > 0, "all of it is there");
                at += received;
            }
            assert_eq!(read.check(&bytes), Ok(()), "{left} bytes before the end");
            left -= bytes.len();
        }
    }

    fn exchange(&self) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let fd = listener.as_raw_fd();
        assert!(self.client.tier().owner_of(fd, at(fd)).is_err(), "nobody has announced it");
        let announced = self.server.tier().announce(fd).expect("announced");
        let connection = self.connect(&listener);
        assert!(!std::ptr::eq(connection.offer.view, connection.claimed.1), "each has a view of its own");
        for (side, seed) in [(Side::Client, 1), (Side::Server, 2)] {
            self.send(&connection, side, seed, 1 << 20);
        }
        let (first, key, view) = (connection.offer.index, connection.key, connection.offer.view);
        assert!(!self.client.tier().is_over(view));
        self.close(connection, true);
        assert!(self.client.tier().is_over(view));
        assert_eq!(self.server.rows().find(key), None);

        let again = self.connect(&listener);
        assert_eq!(again.offer.index, first, "both have let go: the slot is lent again");
        self.send(&again, Side::Server, 3, 100_000);
        self.close(again, true);
        let totals = &self.server.tier().mapped().expect("a directory").totals;
        assert_eq!([&totals.slots_made, &totals.slots_reused].map(|count| count.load(Relaxed)), [1, 1]);
        self.server.tier().forget(announced, fd);
        assert_eq!(self.client.tier().owner_of(fd, at(fd)).err(), Some(Reason::PEERNOSMC));
    }
}

/// A folder of its own for the registry, which is gone with the value.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("two-fabrics-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).expect("a new folder");
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn two_processes_worth_of_the_local_tier_exchange_bytes() {
    let folder = Scratch::new("bytes");
    let pair = Pair::new(Local::new);
    for fabric in [pair.client, pair.server] {
        fabric.set(b"SMC_REGISTRY_DIR", folder.0.as_os_str().as_encoded_bytes());
    }
    assert!(pair.client.tier().existing().is_err(), "nobody has listened yet");
    pair.exchange_local();
}

impl Pair<Local> {
    fn exchange_local(&self) {
        let map = self.server.tier().existing_or_new().expect("room for a registry");
        let own = self.server.tier().me(map).expect("a row");
        let other = self.client.tier().existing().expect("it is there now");
        assert!(!std::ptr::eq(map, other), "each has mapped it");
        let client = self.client.tier().me(other).expect("a row");
        assert!(client.row != own.row && self.client.tier().is_alive(other, own));
        self.exchange();
    }
}

#[test]
fn two_processes_worth_of_a_tier_without_a_kernel_exchange_bytes() {
    let machine = Machine::new();
    let next = Cell::new(0);
    Pair::new(|| machine.tier(next.replace(next.get() + 1))).exchange();
}

/// Whether the slots of a server that has let nothing go are lent again.
fn are_lent_again(is_over: bool, is_dead: bool) -> bool {
    let machine = Machine::new();
    let next = Cell::new(0);
    let pair: Pair<Twin> = Pair::new(|| machine.tier(next.replace(next.get() + 1)));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let fd = listener.as_raw_fd();
    pair.server.tier().announce(fd).expect("announced");
    let server = pair.client.tier().owner_of(fd, at(fd)).expect("announced");
    // A first segment has two slots, so that the next one is a new segment's or one of these.
    let connections = [pair.connect(&listener), pair.connect(&listener)];
    let used = connections.each_ref().map(|connection| connection.offer.index);
    for connection in connections {
        if is_over {
            let side = &connection.claimed.1.header().sides[Side::Server as usize];
            side.closed.fetch_or(ClosedBy::CLOSE, AcqRel);
        }
        pair.close(connection, false);
    }
    if is_dead {
        machine.kill(1);
        let refused = pair.client.tier().owner_of(fd, at(fd));
        assert_eq!(refused.err(), Some(Reason::PEERNOSMC), "nothing is offered to the dead");
    }
    used.contains(&pair.client.offer(server, RING, 99).expect("a slot").index)
}

#[test]
fn a_slot_is_taken_only_from_the_dead_whose_connection_is_over() {
    for (is_over, is_dead) in [(false, false), (true, false), (false, true)] {
        assert!(!are_lent_again(is_over, is_dead), "{is_over} {is_dead}");
    }
    assert!(are_lent_again(true, true));
}
