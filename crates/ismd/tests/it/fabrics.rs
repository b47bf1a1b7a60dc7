//! Two fabrics whose memory and doorbells come by way of the daemon, and nothing else does: slots, rows,
//! rings and bells as `socket` uses them. What a host tier does not have yet (rows, keys, who lives) is a
//! table of this test's. Owns: nothing above the doors of memory and doorbells knows whose they are.

use crate::daemon::Daemon;
use fabric::door::{
    Carrier, ClientSocket, Directory, Doorbell, End, Key, Letter, Life, Memory, Rendezvous, Whereabouts,
};
use fabric::host::{HolderOfMemory, Host, Passed};
use fabric::process::ProcessId;
use fabric::rows::Intent;
use fabric::slot::SlotView;
use fabric::verdict::Verdict;
use fabric::{Fabric, Reason};
use os::Errno;
use os::mem::Shared;
use os::net::Endpoint;
use shm::layout::MAIL_LEN;
use shm::registry::{More, Part as _, RefusalMap, RegistryMap};
use shm::ring::Reader;
use shm::{Consumer, Producer, RxCache, Side, Source, TxCache};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use testkit::Stream;
use wire::host::Message;

const RING: u32 = 16384;

/// Memory and doorbells of the daemon's; all else is a table, and a row in it.
struct Joined {
    host: Host,
    table: &'static RegistryMap,
    row: u32,
    /// How often memory was found to be taken back.
    revoked: AtomicU32,
}

impl Memory for Joined {
    type Foreign = Passed;

    fn make(&self, len: usize, nonce: u64) -> Result<(Shared, i32), Reason> {
        self.host.make(len, nonce)
    }

    fn make_over(&self, old: Shared, nonce: u64) -> Result<i32, Reason> {
        self.host.make_over(old, nonce)
    }

    fn open<R>(
        &self,
        place: &Whereabouts,
        attach: impl FnMut(&Passed) -> Result<R, Reason>,
    ) -> Result<R, Reason> {
        self.host.open(place, attach)
    }

    fn close(&self, number: i32) {
        self.host.close(number);
    }

    fn keep_over_exec(&self, number: i32, on: bool) {
        self.host.keep_over_exec(number, on);
    }

    fn retire(&self, memory: Shared) {
        self.host.retire(memory);
    }

    fn give_back_pages(&self, memory: Shared) {
        self.host.give_back_pages(memory);
    }

    fn note_adopted(&self) {}

    fn note_revoked(&self) {
        self.revoked.fetch_add(1, Relaxed);
    }
}

impl Doorbell for Joined {
    type Holder = HolderOfMemory;

    fn hang(&self, memory: i32) -> Result<i32, Reason> {
        self.host.hang(memory)
    }

    fn holder(&self, place: &Whereabouts, identity: (u64, u64)) -> Result<HolderOfMemory, Reason> {
        self.host.holder(place, identity)
    }

    fn open_bell(&self, holder: HolderOfMemory, number: i32) -> Result<i32, Reason> {
        self.host.open_bell(holder, number)
    }

    fn drop_bell(&self, bell: i32) {
        self.host.drop_bell(bell);
    }

    fn ring(&self, bell: i32) {
        self.host.ring(bell);
    }

    fn drain(&self, bell: i32) {
        self.host.drain(bell);
    }

    fn keep_bell_over_exec(&self, bell: i32, on: bool) {
        self.host.keep_bell_over_exec(bell, on);
    }
}

impl Directory for Joined {
    fn mapped(&self) -> Option<&'static RegistryMap> {
        Some(self.table)
    }

    fn refusals(&self) -> Option<&'static RefusalMap> {
        None
    }

    fn more(&self) -> Option<&'static More> {
        None
    }

    fn existing(&self) -> Result<&'static RegistryMap, Reason> {
        Ok(self.table)
    }

    fn existing_or_new(&self) -> Result<&'static RegistryMap, Reason> {
        Ok(self.table)
    }

    fn why_there_is_none(&self) -> Reason {
        Reason::PEERNOSMC
    }

    fn begin_use(&self) -> bool {
        true
    }

    fn end_use(&self) {}

    fn begin_change(&self) -> bool {
        true
    }

    fn end_change(&self) {}

    fn leave(&self) {}

    fn spare(&self) {}

    fn has_left(&self) -> bool {
        false
    }

    fn owner(&self) -> Option<u32> {
        None
    }

    fn is_to_be_found(&self) -> bool {
        true
    }

    fn is_a_copy(&self) -> bool {
        false
    }

    fn after_fork(&self) {}

    fn set(&self, _name: &[u8], _value: &[u8]) {}
}

impl Life for Joined {
    /// The process id is the client's number with the daemon.
    fn me(&self, map: &'static RegistryMap) -> Option<ProcessId> {
        let row = map.processes.get(self.row as usize)?;
        row.pid.store(self.host.link().place().ok()?.client, Relaxed);
        row.generation.store(1, Relaxed);
        Some(ProcessId { row: self.row, generation: 1 })
    }

    fn is_alive(&self, _map: &RegistryMap, _process: ProcessId) -> bool {
        true
    }

    fn name(&self) -> u64 {
        u64::from(self.row) + 1
    }

    fn is_name_alive(&self, _name: u64) -> bool {
        true
    }

    fn pid_of(&self, name: u64) -> u32 {
        self.table.processes.get(name as usize - 1).map_or(0, |row| row.pid.load(Relaxed))
    }
}

impl Rendezvous for Joined {
    fn announce(&self, _fd: i32) -> Result<u64, Reason> {
        Err(Reason::NOSMCDDEV)
    }

    fn withdraw(&self, _key: u64, _at: Endpoint) {}

    fn is_announced(&self, _key: u64, _port: u16) -> bool {
        false
    }

    fn forget(&self, _key: u64, _fd: i32) {}

    fn owner_of(&self, _fd: i32, _target: Endpoint) -> Result<ProcessId, Reason> {
        Err(Reason::PEERNOSMC)
    }
}

impl Key for Joined {
    fn own(&self, _fd: i32) -> Result<u64, Errno> {
        Err(Errno::ENOENT)
    }

    fn carry(&self, _fd: i32, _key: u64) -> Result<(), Reason> {
        Ok(())
    }

    fn of_client(&self, _fd: i32, _local: Endpoint, _peer: Endpoint) -> Result<ClientSocket, Errno> {
        Err(Errno::ENOENT)
    }
}

impl End for Joined {
    fn is_told_by_tcp(&self, _view: &SlotView) -> bool {
        true
    }

    fn is_over(&self, _view: &SlotView) -> bool {
        true
    }
}

impl Carrier for Joined {
    fn put(&self, _view: &SlotView, _fd: i32, _letter: Letter, _message: &[u8]) -> Result<(), Reason> {
        Ok(())
    }

    fn take<'a>(
        &self,
        _view: &SlotView,
        _fd: i32,
        _letter: Letter,
        _into: &'a mut [u8; MAIL_LEN],
    ) -> Result<&'a [u8], Reason> {
        Ok(&[])
    }
}

/// Two ends on one table.
fn pair(daemon: &Daemon) -> [&'static Fabric<Joined>; 2] {
    let words = os::mem::map_private(RegistryMap::LEN).expect("memory");
    let table = RegistryMap::over(words).expect("it is long enough");
    let joined = |row| Joined { host: daemon.client(), table, row, revoked: AtomicU32::new(0) };
    [0, 1].map(|row| &*Box::leak(Box::new(Fabric::new(joined(row)))))
}

/// A connection, from the offer to the verdict; the client's view of its slot, and the server's.
fn connect([client, server]: [&'static Fabric<Joined>; 2], key: u64) -> [&'static SlotView; 2] {
    let map = client.tier().existing().expect("a table");
    let [own, peer] = [client, server].map(|end| end.tier().me(map).expect("a place"));
    let offer = client.offer(peer, RING, key).expect("a slot");
    // (Held by somebody: a doorbell that cannot be opened is a failure then.)
    offer.view.header().sides.iter().for_each(|side| side.holders.store(1, Relaxed));
    client.members().join(&offer.view.header().sides[Side::Client as usize]);
    let target = Endpoint::default();
    let intent =
        Intent { cookie: key, process: own, memfd: offer.memfd, nonce: offer.nonce, target, inode: 0 };
    let row = client.rows().publish(&intent, offer.view).expect("room for a row");
    let found = server.rows().find(key).expect("an intent");
    let (_, view) = server.attach(found).expect("the offered slot");
    assert_eq!(server.rows().decide(found, Side::Server, Verdict::Smc), Verdict::Smc);
    assert_eq!(client.rows().verdict(row), Some(Verdict::Smc));
    [offer.view, view]
}

/// Bytes from `side` to the other, each ringful with its bell.
fn send(ends: [&Fabric<Joined>; 2], views: [&SlotView; 2], side: Side, seed: u64, len: usize) {
    let [from, to] = [side as usize, side.peer() as usize];
    let (mut written, mut read) = (Stream::new(seed), Stream::new(seed));
    let (outgoing, incoming) = (views[from].outgoing(side), views[to].incoming(side.peer()));
    let (mut tx, mut rx, mut left) = (TxCache::new(), RxCache::new(), len);
    while left > 0 {
        let mut bytes = vec![0; left.min(4096)];
        written.fill(&mut bytes);
        let sent = Producer::alone(outgoing, &mut tx).write(Source::from(&bytes[..]), Reader::Apart);
        assert_eq!(sent.expect("an honest peer"), bytes.len(), "the ring was empty");
        ends[from].tier().ring(views[from].bell(side.peer()));
        let bell = views[to].bell(side.peer());
        assert!(os::poll::is_readable(bell));
        ends[to].tier().drain(bell);
        let received = Consumer::alone(incoming, &mut rx).read((&mut bytes[..]).into());
        assert_eq!(received.expect("an honest peer"), bytes.len());
        assert_eq!(read.check(&bytes), Ok(()), "{left} bytes before the end");
        left -= bytes.len();
    }
}

#[test]
fn two_fabrics_exchange_bytes_and_the_daemon_may_die_meanwhile() {
    let mut daemon = Daemon::start("");
    let ends = pair(&daemon);
    let first = connect(ends, 101);
    assert!(!std::ptr::eq(first[0].header(), first[1].header()), "each has mapped it");
    send(ends, first, Side::Client, 1, 1 << 20);
    // A first segment has two slots: the second connection's memory is known, the third's is not.
    let second = connect(ends, 102);
    daemon.start_anew();
    send(ends, first, Side::Server, 2, 1 << 20);
    send(ends, second, Side::Client, 3, 1 << 20);
    let third = connect(ends, 103);
    send(ends, third, Side::Server, 4, 1 << 20);
    send(ends, first, Side::Client, 5, 1 << 20);
    for round in 0..10 {
        daemon.start_anew();
        let next = connect(ends, 200 + round);
        send(ends, next, Side::Client, round, 50_000);
        send(ends, first, Side::Server, round, 50_000);
    }
}

/// As if the daemon had taken it back before anything was written into it: nothing in it says so.
#[test]
fn memory_that_the_daemon_does_not_know_any_more_is_found_to_be_taken_back() {
    let daemon = Daemon::start("");
    let [client, server] = pair(&daemon);
    connect([client, server], 101);
    let map = client.tier().existing().expect("a table");
    let peer = server.tier().me(map).expect("a place");
    let number = client.offer(peer, RING, 102).expect("a slot, with its bells").memfd as u32;
    // (A first segment has two slots. The next one's bells are to be told of a memory that is not there.)
    let next = client.offer(peer, RING, 103).expect("another segment").memfd as u32;
    assert_ne!(number, next);
    for memory in [number, next] {
        client.tier().host.link().ask(&Message::Withdraw { number: memory }, None).expect("it goes");
    }
    let found = || client.tier().revoked.load(Relaxed);
    assert_eq!(found(), 0);
    assert_eq!(client.offer(peer, RING, 104).map(drop), Err(Reason::NOSMCDDEV));
    assert_eq!(found(), 1);
}
