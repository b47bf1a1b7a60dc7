//! Connection rows: a client's published intent, found by the server through the client's kernel cookie.
//! Owns: the rows' life from intent to the last close, and the reclaiming of rows whose processes died.

use crate::address::{load_endpoint, store_endpoint};
use crate::door::Tier;
use crate::fabric::Fabric;
use crate::process::ProcessId;
use crate::slot::{SlotView, Views};
use crate::verdict::{self, Generation, LOST, Verdict};
use os::net::Endpoint;
use shm::Side;
use shm::registry::{CONNECTION_BUCKETS, ConnectionRow, ROWS, RegistryMap};
use shm::slab::Index;
use sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use wire::reason::Reason;

/// Key of a row that is being written.
const BUSY: u64 = u64::MAX;
/// Of the bits of `ConnectionRow::open`, those two above the sides' own: the socket was dissolved.
const DISSOLVED: u32 = 4;
/// Above them: the connection is on its way back to TCP, and its memory stays where it is until nothing is
/// left in it.
const HOMEWARD: u32 = DISSOLVED << 2;
/// The sides' own bits.
const OPEN: u32 = DISSOLVED - 1;

/// A connection's row, and which of its uses is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowId {
    place: u32,
    generation: Generation,
}

/// The bit of a place that means a slot's own row, and not one of the directory.
const FAR: u32 = 1 << 31;

impl RowId {
    /// The row that lies in a slot, as this process numbers its views.
    pub fn in_slot(view: Index, generation: Generation) -> Self {
        RowId { place: FAR | view.0, generation }
    }

    /// Whether it lies in a slot: its ends share no directory.
    #[inline]
    pub fn is_in_slot(self) -> bool {
        self.place & FAR != 0
    }

    /// Packs it into one word.
    pub fn word(self) -> u64 {
        u64::from(self.generation.number()) << 32 | u64::from(self.place)
    }

    /// Unpacks it.
    pub fn from_word(word: u64) -> Self {
        RowId { place: word as u32, generation: Generation::new((word >> 32) as u32) }
    }
}

/// What a client offers.
#[derive(Clone, Copy, Debug)]
pub struct Intent {
    /// Kernel cookie of the client's socket.
    pub cookie: u64,
    /// The client's process.
    pub process: ProcessId,
    /// Descriptor of the segment in this process.
    pub memfd: i32,
    /// Nonce of the segment.
    pub nonce: u64,
    /// Where the client connects to.
    pub target: Endpoint,
    /// Inode of the client's socket.
    pub inode: u32,
}

fn bucket_of(cookie: u64) -> usize {
    // Cookies are handed out in runs per CPU: the low bits spread best after a multiplication.
    (cookie.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 52) as usize % CONNECTION_BUCKETS
}

#[inline(always)]
fn fill(row: &ConnectionRow, intent: &Intent, view: &SlotView, owner_pid: u32) {
    row.nonce.store(intent.nonce, Relaxed);
    row.server_cookie.store(0, Relaxed);
    row.owner_pid.store(owner_pid, Relaxed);
    row.memfd.store(intent.memfd as u32, Relaxed);
    row.slot.store(view.number(), Relaxed);
    row.open.store(1 << Side::Client as u32, Relaxed);
    let side = &row.sides[Side::Client as usize];
    intent.process.store(&side.process);
    store_endpoint(&side.at, Endpoint { family: intent.target.family, ..Endpoint::default() });
    side.inode.store(intent.inode, Relaxed);
    store_endpoint(&row.sides[Side::Server as usize].at, intent.target);
    row.sides[Side::Server as usize].inode.store(0, Relaxed);
}

fn row_in(map: &RegistryMap, id: RowId) -> Option<&ConnectionRow> {
    map.connections.get(id.place as usize / ROWS).map(|rows| &rows[id.place as usize % ROWS])
}

/// The rows of connections, as the calling process writes and reads them.
pub struct Rows<'a, T: Tier>(&'a T, &'a Views);

impl<T: Tier> Fabric<T> {
    /// Intents and connections of the directory.
    #[inline]
    pub fn rows(&self) -> Rows<'_, T> {
        Rows(&self.tier, &self.views)
    }
}

impl<T: Tier> Rows<'_, T> {
    /// The row with this number.
    #[inline]
    pub fn row(&self, id: RowId) -> Option<&'static ConnectionRow> {
        if id.is_in_slot() { self.row_in_slot(id) } else { row_in(self.0.mapped()?, id) }
    }

    #[cold]
    #[inline(never)]
    fn row_in_slot(&self, id: RowId) -> Option<&'static ConnectionRow> {
        self.1.get(Index(id.place & !FAR)).map(|view| &view.header().row)
    }

    /// Publishes an intent. Reason: MAX_DMB if the bucket is full of living connections.
    pub fn publish(&self, intent: &Intent, view: &SlotView) -> Result<RowId, Reason> {
        let map = self.0.existing()?;
        let bucket = bucket_of(intent.cookie);
        let place = self.take_place(map, bucket).ok_or(Reason::MAX_DMB)?;
        let row = &map.connections[bucket][place];
        fill(row, intent, view, intent.process.pid(map));
        let generation = verdict::begin(&row.verdict);
        map.pending.fetch_add(1, Relaxed);
        map.keys[bucket].0[place].store(intent.cookie, Release);
        Ok(RowId { place: (bucket * ROWS + place) as u32, generation })
    }

    /// The same in the slot's own row, for a server that shares no directory with this process. Nobody finds
    /// it by its key: what leads there travels with the SYN.
    #[cold]
    pub fn publish_in_slot(&self, intent: &Intent, index: Index, view: &SlotView) -> RowId {
        let row = &view.header().row;
        fill(row, intent, view, os::process::cached_pid());
        RowId::in_slot(index, verdict::begin(&row.verdict))
    }

    /// The row of a slot as it is used now.
    pub fn in_slot(&self, index: Index, view: &SlotView) -> RowId {
        RowId::in_slot(index, verdict::generation(&view.header().row.verdict))
    }

    fn take_place(&self, map: &RegistryMap, bucket: usize) -> Option<usize> {
        let keys = &map.keys[bucket].0;
        let grab =
            |place: usize, from: u64| keys[place].compare_exchange(from, BUSY, AcqRel, Relaxed).is_ok();
        (0..ROWS).find(|place| grab(*place, 0)).or_else(|| {
            (0..ROWS).find(|place| {
                let key = keys[*place].load(Acquire);
                let row = &map.connections[bucket][*place];
                if key == BUSY || !self.is_abandoned(map, row) || !grab(*place, key) {
                    return false;
                }
                // Nobody is left who could; it is done for the client, whose row this was.
                let generation = verdict::generation(&row.verdict);
                if verdict::decide(&row.verdict, generation, Side::Client, LOST).is_ok() {
                    map.pending.fetch_sub(1, AcqRel);
                }
                true
            })
        })
    }

    /// Whether no living process is at either end of a row.
    fn is_abandoned(&self, map: &RegistryMap, row: &ConnectionRow) -> bool {
        let open = row.open.load(Relaxed);
        [Side::Client, Side::Server].iter().all(|side| {
            let process = ProcessId::load(&row.sides[*side as usize].process);
            open & (1 << *side as u32) == 0 || !self.0.is_alive(map, process)
        })
    }

    /// Whether any intent waits for an answer; `false` lets a server decide without asking the kernel.
    #[inline]
    pub fn any_pending(&self) -> bool {
        self.0.mapped().is_some_and(|map| map.pending.load(Acquire) != 0)
    }

    /// The row of the connection whose client socket has this cookie.
    pub fn find(&self, cookie: u64) -> Option<RowId> {
        let map = self.0.mapped()?;
        let bucket = bucket_of(cookie);
        let keys = &map.keys[bucket].0;
        let place = (0..ROWS).find(|place| keys[*place].load(Acquire) == cookie)?;
        let generation = verdict::generation(&map.connections[bucket][place].verdict);
        // The row may have changed hands between the two looks; then the generation is not this connection's.
        (keys[place].load(Acquire) == cookie)
            .then_some(RowId { place: (bucket * ROWS + place) as u32, generation })
    }

    /// The row of a connection that a server's socket with this cookie has taken up, with the client's: for a
    /// program that got such a socket. Every row is looked at.
    pub fn find_served(&self, server_cookie: u64) -> Option<(RowId, u64)> {
        let map = self.0.mapped()?;
        (0..CONNECTION_BUCKETS * ROWS).find_map(|place| {
            let key = map.keys[place / ROWS].0[place % ROWS].load(Acquire);
            let row = &map.connections[place / ROWS][place % ROWS];
            let is_it = key != 0 && key != BUSY && row.server_cookie.load(Acquire) == server_cookie;
            let found = self.find(key).filter(|_| is_it)?;
            // (A row that has changed hands meanwhile is another connection's.)
            (found.place == place as u32
                && !self.is_dissolved(found, Side::Server)
                && row.server_cookie.load(Acquire) == server_cookie)
                .then_some((found, key))
        })
    }

    /// Whether the socket of this cookie is an end of a shared connection, without the kernel's help.
    pub fn is_end(&self, cookie: u64) -> bool {
        let own = self.find(cookie).filter(|row| !self.is_dissolved(*row, Side::Client));
        let row = own.or_else(|| self.find_served(cookie).map(|(row, _)| row));
        row.is_some_and(|row| self.verdict(row) == Some(Verdict::Smc))
    }

    /// Says TCP, and why, to clients whose rows are undecided and meant: for a server that cannot ask the
    /// kernel who its clients are, or has nothing to share any more. `is_meant` is given where the client is
    /// (port 0 while it does not know) and where it wants to go. Every row is looked at.
    pub fn refuse_all(&self, reason: Reason, is_meant: impl Fn(Endpoint, Endpoint) -> bool) {
        let Some(map) = self.0.mapped().filter(|_| self.any_pending()) else { return };
        for place in 0..CONNECTION_BUCKETS * ROWS {
            let key = map.keys[place / ROWS].0[place % ROWS].load(Acquire);
            let row = &map.connections[place / ROWS][place % ROWS];
            let generation = verdict::generation(&row.verdict);
            let [client, target] = [&row.sides[0].at, &row.sides[1].at].map(load_endpoint);
            let is_undecided = key != 0 && key != BUSY && verdict::read(&row.verdict, generation).is_none();
            if is_undecided && is_meant(client, target) {
                self.decide(RowId { place: place as u32, generation }, Side::Server, Verdict::Plain(reason));
            }
        }
    }

    /// Decides a row for the end at `side`, of which only the server may want SMC; returns the verdict that
    /// stands.
    pub fn decide(&self, id: RowId, side: Side, wanted: Verdict) -> Verdict {
        let (Some(map), Some(row)) = (self.0.mapped(), self.row(id)) else {
            return LOST;
        };
        match verdict::decide(&row.verdict, id.generation, side, wanted) {
            Ok(made) if id.is_in_slot() => made,
            Ok(made) => {
                map.pending.fetch_sub(1, AcqRel);
                made
            }
            Err(stands) => stands,
        }
    }

    /// The verdict of a row as it stands; `None` while nothing is decided.
    #[inline]
    pub fn verdict(&self, id: RowId) -> Option<Verdict> {
        self.row(id).map_or(Some(LOST), |row| verdict::read(&row.verdict, id.generation))
    }

    /// Writes down who is at `side` and where.
    pub fn note_side(&self, id: RowId, side: Side, process: ProcessId, at: Endpoint, inode: u32) {
        let Some(row) = self.row(id) else { return };
        let words = &row.sides[side as usize];
        process.store(&words.process);
        store_endpoint(&words.at, at);
        words.inode.store(inode, Relaxed);
        row.open.fetch_or(1 << side as u32, AcqRel);
    }

    /// Where the ends of a connection are, the client's first.
    pub fn ends(&self, id: RowId) -> Option<[Endpoint; 2]> {
        self.row(id).map(|row| [&row.sides[0].at, &row.sides[1].at].map(load_endpoint))
    }

    /// Where the client meant to go.
    pub fn target(&self, id: RowId) -> Option<Endpoint> {
        self.row(id).map(|row| load_endpoint(&row.sides[Side::Server as usize].at))
    }

    /// Writes down where the client is, which it knows once it is connected.
    pub fn note_client_address(&self, id: RowId, at: Endpoint) {
        if let Some(row) = self.row(id) {
            store_endpoint(&row.sides[Side::Client as usize].at, at);
        }
    }

    /// One side is gone for good; the last one frees the row.
    pub fn close_side(&self, id: RowId, client_cookie: u64, side: Side) {
        let (Some(map), Some(row)) = (self.0.mapped(), self.row(id)) else {
            return;
        };
        if id.is_in_slot() {
            return;
        }
        let key = &map.keys[id.place as usize / ROWS].0[id.place as usize % ROWS];
        if key.load(Acquire) != client_cookie {
            return;
        }
        // (What was said of its socket stays: somebody else may have got that meanwhile.)
        let bit = 1 << side as u32;
        if row.open.fetch_and(!bit, AcqRel) & OPEN & !bit == 0 {
            let _ = key.compare_exchange(client_cookie, 0, AcqRel, Relaxed);
        }
    }

    /// The socket at `side` is no end of the connection any more: whoever gets it is to find nothing.
    pub fn dissolve_side(&self, id: RowId, client_cookie: u64, side: Side) {
        if (id.is_in_slot() || self.find(client_cookie) == Some(id))
            && let Some(row) = self.row(id)
        {
            row.open.fetch_or(DISSOLVED << side as u32, AcqRel);
        }
    }

    /// Whether the socket that was at `side` is no end of the connection any more.
    pub fn is_dissolved(&self, id: RowId, side: Side) -> bool {
        self.row(id).is_none_or(|row| row.open.load(Acquire) & DISSOLVED << side as u32 != 0)
    }

    /// The connection is on its way back to TCP.
    pub fn note_homeward(&self, id: RowId, client_cookie: u64) {
        if self.find(client_cookie) == Some(id)
            && let Some(row) = self.row(id)
        {
            row.open.fetch_or(HOMEWARD, AcqRel);
        }
    }

    /// Whether nothing is left in the memory of a connection, for whoever finds that this is not to be had:
    /// its owner lives, has taken it back to TCP and let the memory go. (One who was killed took along what
    /// nobody had read.)
    pub fn was_emptied(&self, id: RowId) -> bool {
        self.row(id).is_some_and(|row| {
            let owner = os::process::life(row.owner_pid.load(Relaxed));
            row.open.load(Acquire) & HOMEWARD != 0 && owner.is_some_and(|life| !life.is_zombie)
        })
    }

    /// This process goes on with its side of a connection, and out of the registry: nobody is named there any
    /// more, so that the row is free again when the other end has gone.
    pub fn leave_side(&self, id: RowId, client_cookie: u64, side: Side) {
        let (Some(map), Some(row)) = (self.0.mapped(), self.row(id)) else {
            return;
        };
        if id.is_in_slot() {
            return row.sides[side as usize].process.generation.store(0, Relaxed);
        }
        let key = &map.keys[id.place as usize / ROWS].0[id.place as usize % ROWS];
        if key.load(Acquire) == client_cookie {
            row.sides[side as usize].process.generation.store(0, Relaxed);
        }
    }
}
