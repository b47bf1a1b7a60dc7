//! The fabric as its observers see it: rows and slots as plain values, read and never written.
//!
//! Owns: the checks between what other processes wrote and what a tool may believe. Every word is read once;
//! rows that are free, half written or of another version do not appear; whether a process lives is what the
//! kernel says. Does not own: files and mappings (the caller brings the words, see [`View::over`]).

pub use crate::closing::{State, state};
use crate::process::LOCK_BASE;
use crate::verdict;
pub use crate::verdict::Verdict;
use os::mem::Shared;
use os::net::Endpoint;
use proto::verdict::Word;
use shm::layout::BUCKETS;
use shm::registry::{
    self as rows, ConnectionRow, Connections, EndpointWords, More, Part, ProcessRef, RefusalMap, RegistryMap,
    SideRow, TrafficTotals,
};
use sync::Ordering::{Acquire, Relaxed};
use sync::{AtomicU32, AtomicU64};
use wire::reason::Reason;

/// The layouts behind the values, for those who make up a registry or a segment to test an observer with.
pub mod layouts {
    pub use shm::layout::{ClosedBy, Side, SlotHeader};
    pub use shm::registry::{FIRST_BUCKETS, LISTENER_BUCKETS, MAGIC, PROCESSES, Part, RegistryMap, VERSION};
    pub use shm::segment::{Geometry, Segment};
}

/// Bytes of a registry file.
pub const REGISTRY_LEN: usize = rows::FILE_LEN;
/// Request size classes: up to 8 KiB, 16, 32 ... 1024 KiB, more.
pub const SIZE_CLASSES: usize = BUCKETS;
/// Key of a row that is being written.
const BUSY: u64 = u64::MAX;

/// Why a registry cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unreadable {
    /// Too short or without the first word of a registry.
    Foreign,
    /// Another layout version, given here.
    Version(u32),
}

/// A registry.
#[derive(Clone, Copy, Debug)]
pub struct View {
    map: &'static RegistryMap,
    refusals: &'static RefusalMap,
    more: &'static More,
    asking_fd: i32,
}

/// A part of a registry file's words.
fn part<P: Part>(words: Shared) -> Result<&'static P, Unreadable> {
    words.get(P::AT / 8..(P::AT + P::LEN) / 8).and_then(P::over).ok_or(Unreadable::Foreign)
}

/// A process that uses the fabric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Process {
    /// Row in the registry.
    pub row: u32,
    /// How many processes have had that row.
    pub generation: u32,
    /// Process id.
    pub pid: u32,
    /// Command name, NUL padded.
    pub comm: [u8; 16],
    /// Bytes of memory that it has paid for.
    pub memory: u64,
    /// Whether it still lives with the library in it.
    pub is_alive: bool,
}

/// A listening socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listener {
    /// Kernel cookie.
    pub cookie: u64,
    /// Bound address.
    pub at: Endpoint,
    /// Inode.
    pub inode: u32,
    /// Who announced it.
    pub process: Option<Process>,
}

/// One end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct End {
    /// Kernel cookie of its socket, 0 while unknown.
    pub cookie: u64,
    /// Its address.
    pub at: Endpoint,
    /// Inode of its socket, 0 while unknown.
    pub inode: u32,
    /// Whether it has not been closed for good.
    pub is_open: bool,
    /// The process that last attached.
    pub process: Option<Process>,
}

/// A connection: where its memory is and who is at its ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connection {
    /// How it carries its bytes; `None` while nothing is decided.
    pub verdict: Option<Verdict>,
    /// Nonce of its segment.
    pub nonce: u64,
    /// Process whose descriptor `memfd` is the segment.
    pub owner_pid: u32,
    /// Descriptor number in the owner.
    pub memfd: u32,
    /// Slot number in the segment.
    pub slot: u32,
    /// Client and server.
    pub ends: [End; 2],
}

/// Calls in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Calls {
    /// Bytes moved.
    pub bytes: u64,
    /// Calls that moved bytes.
    pub requests: u64,
    /// Calls that had to wait.
    pub stalls: u64,
    /// Calls by size class.
    pub sizes: [u64; SIZE_CLASSES],
}

/// One side of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SlotSide {
    /// Bits of `shm::ClosedBy`.
    pub closed: u32,
    /// SMC connection state as smcss numbers it, 0 before it was first used.
    pub state: u32,
    /// Received by this side.
    pub rx: Calls,
    /// Sent by this side.
    pub tx: Calls,
    /// What of `rx` and `tx` is in the registry's totals already.
    pub settled: [Calls; 2],
}

/// A slot while a connection uses it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// Bytes of each of its two rings.
    pub ring_size: u32,
    /// Kernel cookie of the server's socket, 0 until claimed.
    pub server_cookie: u64,
    /// Client and server.
    pub sides: [SlotSide; 2],
    /// Why the connection is back on TCP, both directions, if it is.
    pub home: Option<Reason>,
}

/// Counters that outlive connections and processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Connections upgraded, by role: client, server.
    pub upgraded: [u64; 2],
    /// Slots taken for the first time.
    pub slots_made: u64,
    /// Slots taken again.
    pub slots_reused: u64,
    /// Sent on connections that are closed.
    pub tx: Calls,
    /// Received on connections that are closed.
    pub rx: Calls,
    /// Fallbacks by role and reason; entries with count 0 are unused.
    pub fallbacks: [[(Reason, u32); rows::REASONS]; 2],
}

impl View {
    /// A view of `words`, a registry file's content or mapping. `asking_fd` is an open file description of
    /// the file that holds no lock: locks of others are seen through it.
    pub fn over(words: Shared, asking_fd: i32) -> Result<View, Unreadable> {
        let map: &RegistryMap = part(words)?;
        if map.magic.load(Acquire) != rows::MAGIC {
            return Err(Unreadable::Foreign);
        }
        match map.version.load(Relaxed) {
            rows::VERSION => Ok(View { map, refusals: part(words)?, more: part(words)?, asking_fd }),
            other => Err(Unreadable::Version(other)),
        }
    }

    /// Every listener announced, those of dead processes included.
    pub fn listeners(&self) -> impl Iterator<Item = Listener> + '_ {
        self.map.listeners.iter().flatten().filter_map(|row| {
            let cookie = used(row.cookie.load(Acquire))?;
            let listener = Listener {
                cookie,
                at: endpoint(&row.at),
                inode: row.inode.load(Relaxed),
                process: self.process(&row.process),
            };
            (row.cookie.load(Acquire) == cookie).then_some(listener)
        })
    }

    /// Every connection and intent, those of dead processes included.
    pub fn connections(&self) -> impl Iterator<Item = Connection> + '_ {
        places(&self.map.first).chain(places(&self.more.0)).filter_map(|(key, row)| self.connection(key, row))
    }

    fn connection(&self, key: &AtomicU64, row: &ConnectionRow) -> Option<Connection> {
        let cookie = used(key.load(Acquire))?;
        let open = row.open.load(Relaxed);
        let cookies = [cookie, row.server_cookie.load(Relaxed)];
        let end = |side: usize| self.end(&row.sides[side], cookies[side], open >> side & 1 != 0);
        let connection = Connection {
            verdict: verdict::said_by(Word::from_bits(row.verdict.load(Acquire))),
            nonce: row.nonce.load(Relaxed),
            owner_pid: row.owner_pid.load(Relaxed),
            memfd: row.memfd.load(Relaxed),
            slot: row.slot.load(Relaxed),
            ends: [end(0), end(1)],
        };
        // The row may have gone to another connection while it was read.
        (key.load(Acquire) == cookie).then_some(connection)
    }

    fn end(&self, row: &SideRow, cookie: u64, is_open: bool) -> End {
        End {
            cookie,
            at: endpoint(&row.at),
            inode: row.inode.load(Relaxed),
            is_open,
            // A side nobody has claimed may still name the process of an earlier connection.
            process: if is_open || cookie != 0 { self.process(&row.process) } else { None },
        }
    }

    /// Every process that has taken a row, the dead included. A client has none before it meets an enabled
    /// listener.
    pub fn processes(&self) -> impl Iterator<Item = Process> + '_ {
        (0u32..)
            .zip(&self.map.processes)
            .filter_map(|(row, words)| self.process_of(row, words.generation.load(Relaxed)))
    }

    fn process(&self, name: &ProcessRef) -> Option<Process> {
        self.process_of(name.row.load(Relaxed), name.generation.load(Relaxed))
    }

    fn process_of(&self, row: u32, generation: u32) -> Option<Process> {
        let words = self.map.processes.get(row as usize).filter(|_| generation != 0)?;
        let is_same = words.generation.load(Relaxed) == generation;
        let is_locked = || os::file::is_byte_locked(self.asking_fd, LOCK_BASE + u64::from(row));
        Some(Process {
            row,
            generation,
            pid: words.pid.load(Relaxed),
            comm: text(&words.comm),
            memory: words.memory.load(Relaxed),
            is_alive: is_same && is_locked(),
        })
    }

    /// Sockets that stay on TCP without a row of their own, by inode, and why. Some may be closed by now.
    pub fn refusals(&self) -> impl Iterator<Item = (u32, Reason)> + '_ {
        let words = self.refusals.0.iter().flat_map(|bucket| &bucket.0).map(|word| word.load(Relaxed));
        words.filter(|word| *word != 0).map(crate::fallback::parts)
    }

    /// The counters as they stand.
    pub fn totals(&self) -> Totals {
        let totals = &self.map.totals;
        let mut fallbacks = [[(Reason(0), 0); rows::REASONS]; 2];
        for (into, from) in fallbacks.iter_mut().flatten().zip(totals.fallbacks.iter().flatten()) {
            *into = (Reason(from.code.load(Relaxed)), from.count.load(Relaxed));
        }
        Totals {
            upgraded: [totals.upgraded[0].load(Relaxed), totals.upgraded[1].load(Relaxed)],
            slots_made: totals.slots_made.load(Relaxed),
            slots_reused: totals.slots_reused.load(Relaxed),
            tx: calls(&totals.tx),
            rx: calls(&totals.rx),
            fallbacks,
        }
    }
}

/// Keys and rows in a table of connections.
fn places<const BUCKETS: usize>(
    table: &'static Connections<BUCKETS>,
) -> impl Iterator<Item = (&'static AtomicU64, &'static ConnectionRow)> {
    table.keys.iter().flat_map(|keys| &keys.0).zip(table.rows.iter().flatten())
}

/// Reads the slot of `connection` out of its mapped segment. `None` if the segment is another one, has
/// another version, or the slot has gone to another connection.
pub fn slot(memory: Shared, connection: &Connection) -> Option<Slot> {
    let segment = shm::Segment::attach(memory, connection.nonce).ok()?;
    let header = segment.slot(connection.slot)?;
    if header.client_cookie.load(Relaxed) != connection.ends[0].cookie {
        return None;
    }
    // What is settled before what there is, so that never more is settled.
    let settled = [0, 1].map(|number: usize| header.settled[number].each_ref().map(settled));
    // What was read first, what was written after it: so nobody seems to have read more than was written.
    let read = [0, 1].map(|ring: usize| header.rings[ring].consumer.0.cons.load(Acquire));
    let written = [0, 1].map(|ring: usize| header.rings[ring].producer.0.prod.load(Acquire));
    let side = |number: usize| SlotSide {
        closed: header.sides[number].closed.load(Relaxed),
        state: header.sides[number].state.load(Relaxed),
        rx: traffic(&header.sides[number].rx.0, read[1 - number]),
        tx: traffic(&header.sides[number].tx.0, written[number]),
        settled: settled[number],
    };
    Some(Slot {
        ring_size: segment.geometry().ring_size,
        server_cookie: header.server_cookie.load(Relaxed),
        sides: [side(0), side(1)],
        home: home(&segment, connection.slot, header),
    })
}

/// Connections of the host tier in a mapped segment: their rows lie in their slots. Who is at their ends is
/// not said there: a cookie and an inode are all that an end is known by. Those that ended stay until their
/// slot is lent again.
pub fn in_slots(memory: Shared) -> impl Iterator<Item = (Connection, Slot)> {
    let segment = shm::Segment::attach_as_it_is(memory).ok();
    let slots = segment.map_or(0, |segment| segment.geometry().slots);
    (0..slots).filter_map(move |number| {
        let connection = in_slot(&segment?, number)?;
        Some((connection, slot(memory, &connection)?))
    })
}

fn in_slot(segment: &shm::Segment, number: u32) -> Option<Connection> {
    let header = segment.slot(number)?;
    let (row, generation) = (&header.row, header.generation.load(Acquire));
    let open = row.open.load(Relaxed);
    // (A segment of the local tier has its rows elsewhere, and a slot that was never lent has none.)
    if open == 0 || row.nonce.load(Relaxed) != segment.nonce() || row.slot.load(Relaxed) != number {
        return None;
    }
    let cookies = [header.client_cookie.load(Relaxed), header.server_cookie.load(Relaxed)];
    let end = |side: usize| End {
        cookie: cookies[side],
        at: endpoint(&row.sides[side].at),
        inode: row.sides[side].inode.load(Relaxed),
        is_open: open >> side & 1 != 0,
        process: None,
    };
    let connection = Connection {
        verdict: verdict::said_by(Word::from_bits(row.verdict.load(Acquire))),
        nonce: segment.nonce(),
        owner_pid: 0,
        memfd: row.memfd.load(Relaxed),
        slot: number,
        ends: [end(0), end(1)],
    };
    (header.generation.load(Acquire) == generation && cookies[0] != 0).then_some(connection)
}

fn home(segment: &shm::Segment, slot: u32, header: &shm::SlotHeader) -> Option<Reason> {
    let has_ended = |side| segment.outgoing(slot, side).is_some_and(|ring| ring.has_ended_for_good());
    let reason = Some(Reason(header.home.load(Relaxed))).filter(|reason| *reason != Reason(0));
    reason.filter(|_| has_ended(shm::Side::Client) && has_ended(shm::Side::Server))
}

fn used(key: u64) -> Option<u64> {
    (key != 0 && key != BUSY).then_some(key)
}

fn traffic(from: &shm::layout::Traffic, bytes: u64) -> Calls {
    Calls {
        bytes,
        requests: from.requests.load(Relaxed),
        stalls: from.stalls.load(Relaxed),
        sizes: core::array::from_fn(|class| u64::from(from.sizes[class].load(Relaxed))),
    }
}

fn settled(from: &shm::layout::Settled) -> Calls {
    Calls {
        bytes: from.bytes.load(Relaxed),
        requests: from.requests.load(Relaxed),
        stalls: from.stalls.load(Relaxed),
        sizes: core::array::from_fn(|class| u64::from(from.sizes[class].load(Relaxed))),
    }
}

fn calls(from: &TrafficTotals) -> Calls {
    Calls {
        bytes: from.bytes.load(Relaxed),
        requests: from.requests.load(Relaxed),
        stalls: from.stalls.load(Relaxed),
        sizes: core::array::from_fn(|class| from.sizes[class].load(Relaxed)),
    }
}

/// The words' bytes in memory order.
fn text(words: &[AtomicU32; 4]) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (into, word) in bytes.chunks_exact_mut(4).zip(words) {
        into.copy_from_slice(&word.load(Relaxed).to_ne_bytes());
    }
    bytes
}

fn endpoint(words: &EndpointWords) -> Endpoint {
    crate::address::load_endpoint(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use shm::Side;
    use shm::segment::{Geometry, Segment};
    use std::ffi::CString;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    /// A private registry file that disappears with the value.
    struct Scratch {
        path: CString,
        fd: i32,
        words: Shared,
    }

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = format!("{}/observe-{name}-{}", std::env::temp_dir().display(), os::process::pid());
            let path = CString::new(path).expect("no NUL in a path");
            os::file::unlink(&path);
            let fd = os::file::open(&path, os::file::How::CREATE_NEW).expect("a new file");
            os::mem::resize(fd, REGISTRY_LEN as u64).expect("room for it");
            let words = os::mem::map_shared(fd, REGISTRY_LEN).expect("a mapping");
            let map: &RegistryMap = part(words).expect("it is long enough");
            map.version.store(rows::VERSION, Relaxed);
            map.magic.store(rows::MAGIC, Relaxed);
            Scratch { path, fd, words }
        }

        fn map(&self) -> &'static RegistryMap {
            part(self.words).expect("it is long enough")
        }

        fn view(&self) -> View {
            let asking = os::file::open(&self.path, os::file::How::READ).expect("readable");
            View::over(self.words, asking).expect("a registry")
        }

        /// Row 7 becomes a process; `self.fd` is the description that holds its lock.
        fn enlist(&self) {
            let row = &self.map().processes[7];
            row.generation.store(3, Relaxed);
            row.pid.store(4711, Relaxed);
            row.comm[0].store(u32::from_ne_bytes(*b"ngin"), Relaxed);
            row.comm[1].store(u32::from_ne_bytes(*b"x\0\0\0"), Relaxed);
            os::file::lock_byte(self.fd, LOCK_BASE + 7).expect("nobody else holds it");
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            os::file::unlink(&self.path);
            os::fd::close(self.fd);
        }
    }

    fn refer(to: &ProcessRef, row: u32, generation: u32) {
        to.row.store(row, Relaxed);
        to.generation.store(generation, Relaxed);
    }

    #[test]
    fn files_that_are_no_registry_of_this_version_are_refused() {
        let scratch = Scratch::new("version");
        assert_eq!(View::over(&scratch.words[..9], -1).err(), Some(Unreadable::Foreign));
        scratch.map().version.store(99, Relaxed);
        assert_eq!(View::over(scratch.words, -1).err(), Some(Unreadable::Version(99)));
        scratch.map().magic.store(1, Relaxed);
        assert_eq!(View::over(scratch.words, -1).err(), Some(Unreadable::Foreign));
    }

    #[test]
    fn a_process_lives_while_its_byte_is_locked_and_its_generation_stands() {
        let scratch = Scratch::new("alive");
        scratch.enlist();
        let listener = &scratch.map().listeners[80][0];
        refer(&listener.process, 7, 3);
        listener.cookie.store(5, Relaxed);
        listener.at.family_port.store(2 << 16 | 80, Relaxed);
        listener.at.addr[0].store(u32::from_ne_bytes([127, 0, 0, 1]), Relaxed);
        let (view, read) = (scratch.view(), |view: View| view.listeners().next().expect("one listener"));
        let process = read(view).process.expect("a process");
        assert_eq!((process.pid, &process.comm[..6], process.is_alive), (4711, &b"nginx\0"[..], true));
        assert_eq!((read(view).at.port, &read(view).at.addr[..4]), (80, &[127, 0, 0, 1][..]));
        assert_eq!(view.processes().collect::<Vec<_>>(), [process]);
        listener.process.generation.store(2, Relaxed);
        assert!(!read(view).process.expect("a process").is_alive, "a former process of the row");
        listener.process.generation.store(3, Relaxed);
        os::file::unlock_byte(scratch.fd, LOCK_BASE + 7);
        assert!(!read(view).process.expect("a process").is_alive, "it is gone");
        listener.process.row.store(u32::MAX, Relaxed);
        assert_eq!(read(view).process, None, "no such row");
    }

    #[test]
    fn free_and_half_written_rows_do_not_appear() {
        let scratch = Scratch::new("rows");
        scratch.map().first.keys[9].0[2].store(BUSY, Relaxed);
        assert_eq!(scratch.view().connections().count(), 0);
        scratch.map().first.keys[9].0[2].store(77, Relaxed);
        let row = &scratch.map().first.rows[9][2];
        let (generation, plain) = (verdict::begin(&row.verdict), Verdict::Plain(Reason::MAX_DMB));
        row.open.store(2, Relaxed);
        row.server_cookie.store(78, Relaxed);
        let connection = scratch.view().connections().next().expect("one connection");
        assert_eq!(connection.verdict, None);
        assert_eq!(verdict::decide(&row.verdict, generation, Side::Server, plain), Ok(plain));
        assert_eq!(scratch.view().connections().next().and_then(|it| it.verdict), Some(plain));
        assert_eq!(connection.ends.map(|end| (end.cookie, end.is_open)), [(77, false), (78, true)]);
    }

    #[test]
    fn a_slot_is_read_for_its_own_connection_only() {
        let geometry = Geometry { slots: 2, ring_size: 16384 };
        let memory = os::mem::map_private(geometry.len()).expect("memory");
        let header = Segment::format(memory, geometry, 42).and_then(|made| made.slot(1)).expect("slot 1");
        header.reset(77);
        header.sides[Side::Server as usize].rx.0.count(9000);
        header.rings[0].producer.0.prod.store(20000, Relaxed);
        header.rings[0].consumer.0.cons.store(9000, Relaxed);
        let scratch = Scratch::new("slot");
        scratch.map().first.keys[0].0[0].store(77, Relaxed);
        scratch.map().first.rows[0][0].nonce.store(42, Relaxed);
        scratch.map().first.rows[0][0].slot.store(1, Relaxed);
        let connection = scratch.view().connections().next().expect("one connection");
        let slot = slot(memory, &connection).expect("its slot");
        assert_eq!((slot.ring_size, slot.sides[0].tx.bytes, slot.sides[0].rx.bytes), (16384, 20000, 0));
        assert_eq!(
            (slot.sides[1].rx.bytes, slot.sides[1].rx.requests, slot.sides[1].rx.sizes[1]),
            (9000, 1, 1)
        );
        header.client_cookie.store(78, Relaxed);
        assert_eq!(super::slot(memory, &connection), None);
        assert_eq!(super::slot(memory, &Connection { nonce: 43, ..connection }), None);
        assert_eq!(super::slot(memory, &Connection { slot: 2, ..connection }), None);
    }

    #[test]
    fn a_row_in_a_slot_is_read_where_it_was_published() {
        let geometry = Geometry { slots: 2, ring_size: 16384 };
        let memory = os::mem::map_private(geometry.len()).expect("memory");
        let header = Segment::format(memory, geometry, 42).and_then(|made| made.slot(1)).expect("slot 1");
        header.reset(77);
        assert_eq!(in_slots(memory).count(), 0, "lent by the local tier");
        let row = &header.row;
        row.nonce.store(42, Relaxed);
        row.slot.store(1, Relaxed);
        row.open.store(3, Relaxed);
        row.sides[0].inode.store(5, Relaxed);
        row.sides[1].inode.store(6, Relaxed);
        let generation = verdict::begin(&row.verdict);
        assert_eq!(in_slots(memory).next().map(|(found, _)| found.verdict), Some(None));
        assert_eq!(verdict::decide(&row.verdict, generation, Side::Server, Verdict::Smc), Ok(Verdict::Smc));
        let (found, slot) = in_slots(memory).next().expect("one connection");
        assert_eq!((found.verdict, found.slot, slot.ring_size), (Some(Verdict::Smc), 1, 16384));
        assert_eq!(found.ends.map(|end| (end.inode, end.is_open)), [(5, true), (6, true)]);
        row.slot.store(0, Relaxed);
        assert_eq!(in_slots(memory).count(), 0, "it says that it is another's");
        assert_eq!(in_slots(&memory[..9]).count(), 0, "no segment");
    }

    #[test]
    fn addresses_are_those_that_the_registry_stores() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let stream = TcpStream::connect(listener.local_addr().expect("bound")).expect("listening");
        let at = os::net::local(stream.as_raw_fd()).expect("connected");
        let scratch = Scratch::new("address");
        scratch.map().first.keys[0].0[0].store(1, Relaxed);
        crate::address::store_endpoint(&scratch.map().first.rows[0][0].sides[0].at, at);
        assert_eq!(scratch.view().connections().next().map(|found| found.ends[0].at), Some(at));
    }
}
