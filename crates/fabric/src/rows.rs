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
use shm::registry::{ConnectionRow, Connections, FIRST_BUCKETS, Keys, MORE_BUCKETS, ROWS, RegistryMap};
use shm::slab::Index;
use sync::AtomicU64;
use sync::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use wire::reason::Reason;

/// Key of a row that is being written.
const BUSY: u64 = u64::MAX;
/// Of the bits of `ConnectionRow::open`, those two above the sides' own: the socket was dissolved.
const DISSOLVED: u32 = 4;
/// Above them: the connection is on its way back to TCP, or may be from here on, and its memory stays where
/// it is until nothing is left in it.
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

/// Places of rows among the first, and in all.
const FIRST: usize = FIRST_BUCKETS * ROWS;
const ALL: usize = FIRST + MORE_BUCKETS * ROWS;

/// Places whose keys share a line.
#[derive(Clone, Copy)]
struct Bucket {
    /// The number of its first place.
    start: usize,
    keys: &'static Keys,
    rows: &'static [ConnectionRow; ROWS],
}

impl Bucket {
    /// The bucket of a cookie in a table whose places are numbered from `start` on.
    #[inline]
    fn of<const BUCKETS: usize>(table: &'static Connections<BUCKETS>, start: usize, cookie: u64) -> Self {
        // Cookies are handed out in runs per CPU: the low bits spread best after a multiplication.
        let number = (cookie.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 52) as usize % BUCKETS;
        Bucket { start: start + number * ROWS, keys: &table.keys[number], rows: &table.rows[number] }
    }

    #[inline]
    fn key(self, place: usize) -> &'static AtomicU64 {
        &self.keys.0[place]
    }

    fn grab(self, place: usize, from: u64) -> bool {
        self.key(place).compare_exchange(from, BUSY, AcqRel, Relaxed).is_ok()
    }

    /// A free place, taken.
    fn take_free(self) -> Option<usize> {
        (0..ROWS).find(|place| self.grab(*place, 0))
    }

    /// Where this key is.
    #[inline]
    fn place_of(self, cookie: u64) -> Option<usize> {
        (0..ROWS).find(|place| self.key(*place).load(Acquire) == cookie)
    }
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

fn has_more(map: &RegistryMap) -> bool {
    map.has_more.load(Acquire) != 0
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
        if id.is_in_slot() { self.row_in_slot(id) } else { self.place(id.place as usize).map(|(_, row)| row) }
    }

    /// Key and row of a place of the directory.
    #[inline]
    fn place(&self, number: usize) -> Option<(&'static AtomicU64, &'static ConnectionRow)> {
        let map = self.0.mapped()?;
        if number < FIRST {
            let (bucket, place) = (number / ROWS, number % ROWS);
            return Some((&map.first.keys[bucket].0[place], &map.first.rows[bucket][place]));
        }
        if number >= ALL {
            return None;
        }
        let (bucket, place) = ((number - FIRST) / ROWS, number % ROWS);
        let more = &self.0.more()?.0;
        Some((&more.keys[bucket].0[place], &more.rows[bucket][place]))
    }

    /// The buckets in which a key may be.
    #[inline]
    fn buckets(&self, map: &'static RegistryMap, cookie: u64) -> impl Iterator<Item = Bucket> {
        let first = core::iter::once(Bucket::of(&map.first, 0, cookie));
        let more = move || {
            let more = if has_more(map) { self.0.more() } else { None };
            more.map(|more| Bucket::of(&more.0, FIRST, cookie))
        };
        first.chain(core::iter::once_with(more).flatten())
    }

    /// The places that are in use, with their keys and rows.
    fn places(&self) -> impl Iterator<Item = (u32, u64, &'static ConnectionRow)> {
        let all = self.0.mapped().map_or(0, |map| if has_more(map) { ALL } else { FIRST });
        (0..all).filter_map(|number| {
            let (key, row) = self.place(number)?;
            let key = key.load(Acquire);
            (key != 0 && key != BUSY).then_some((number as u32, key, row))
        })
    }

    #[cold]
    #[inline(never)]
    fn row_in_slot(&self, id: RowId) -> Option<&'static ConnectionRow> {
        self.1.get(Index(id.place & !FAR)).map(|view| &view.header().row)
    }

    /// Publishes an intent. Reason: MAX_DMB if the bucket is full of living connections.
    pub fn publish(&self, intent: &Intent, view: &SlotView) -> Result<RowId, Reason> {
        let map = self.0.existing()?;
        let (bucket, place) = self.take_place(map, intent.cookie)?;
        let row = &bucket.rows[place];
        fill(row, intent, view, intent.process.pid(map));
        let generation = verdict::begin(&row.verdict);
        map.pending.fetch_add(1, Relaxed);
        bucket.key(place).store(intent.cookie, Release);
        Ok(RowId { place: (bucket.start + place) as u32, generation })
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

    /// A place for a key: among the first if one is free there, for nobody has to map more for that.
    fn take_place(&self, map: &'static RegistryMap, cookie: u64) -> Result<(Bucket, usize), Reason> {
        let first = Bucket::of(&map.first, 0, cookie);
        // (One is looked at, or places that the dead leave behind would fill them for good.)
        let one = cookie as usize % ROWS;
        let place = first.take_free().or_else(|| self.take_abandoned(map, first, one..=one));
        if let Some(place) = place {
            return Ok((first, place));
        }
        map.has_more.store(1, SeqCst);
        let more = self.0.more().map(|more| Bucket::of(&more.0, FIRST, cookie));
        let free = more.and_then(|more| Some((more, more.take_free()?)));
        let abandoned = |bucket: Bucket| Some((bucket, self.take_abandoned(map, bucket, 0..=ROWS - 1)?));
        let place = free.or_else(|| more.and_then(abandoned)).or_else(|| abandoned(first));
        place.ok_or(if more.is_some() { Reason::MAX_DMB } else { Reason::MEM })
    }

    fn take_abandoned(
        &self,
        map: &RegistryMap,
        bucket: Bucket,
        mut places: core::ops::RangeInclusive<usize>,
    ) -> Option<usize> {
        places.find(|place| {
            let (key, row) = (bucket.key(*place).load(Acquire), &bucket.rows[*place]);
            if key == BUSY || !self.is_abandoned(map, row) || !bucket.grab(*place, key) {
                return false;
            }
            // Nobody is left who could; it is done for the client, whose row this was.
            let generation = verdict::generation(&row.verdict);
            if verdict::decide(&row.verdict, generation, Side::Client, LOST).is_ok() {
                map.pending.fetch_sub(1, AcqRel);
            }
            true
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
        let (bucket, place) =
            self.buckets(map, cookie).find_map(|bucket| Some((bucket, bucket.place_of(cookie)?)))?;
        let generation = verdict::generation(&bucket.rows[place].verdict);
        // The row may have changed hands between the two looks; then the generation is not this connection's.
        (bucket.key(place).load(Acquire) == cookie)
            .then_some(RowId { place: (bucket.start + place) as u32, generation })
    }

    /// The row of a connection that a server's socket with this cookie has taken up, with the client's: for a
    /// program that got such a socket. Every row is looked at.
    pub fn find_served(&self, server_cookie: u64) -> Option<(RowId, u64)> {
        self.places().find_map(|(place, key, row)| {
            let is_it = row.server_cookie.load(Acquire) == server_cookie;
            let found = self.find(key).filter(|_| is_it)?;
            // (A row that has changed hands meanwhile is another connection's.)
            (found.place == place
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
        if !self.any_pending() {
            return;
        }
        for (place, _, row) in self.places() {
            let generation = verdict::generation(&row.verdict);
            let [client, target] = [&row.sides[0].at, &row.sides[1].at].map(load_endpoint);
            let is_undecided = verdict::read(&row.verdict, generation).is_none();
            if is_undecided && is_meant(client, target) {
                self.decide(RowId { place, generation }, Side::Server, Verdict::Plain(reason));
            }
        }
    }

    /// Decides a row for the end at `side`, of which only the server may want SMC; returns the verdict that
    /// stands.
    pub fn decide(&self, id: RowId, side: Side, wanted: Verdict) -> Verdict {
        let Some(row) = self.row(id) else { return LOST };
        match verdict::decide(&row.verdict, id.generation, side, wanted) {
            Ok(made) => {
                if !id.is_in_slot()
                    && let Some(map) = self.0.mapped()
                {
                    map.pending.fetch_sub(1, AcqRel);
                }
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
        let Some((key, row)) = self.place(id.place as usize).filter(|_| !id.is_in_slot()) else { return };
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

    /// The connection is on its way back to TCP, or may go there while its process can say nothing here.
    pub fn note_homeward(&self, id: RowId, client_cookie: u64) {
        if self.find(client_cookie) == Some(id)
            && let Some(row) = self.row(id)
        {
            row.open.fetch_or(HOMEWARD, AcqRel);
        }
    }

    /// Whether nothing is left in the memory of a connection, for whoever finds that this is not to be had:
    /// its owner lives, has taken it back to TCP and let the memory go. (One who was killed, or is about to
    /// end, took along what nobody had read.)
    pub fn was_emptied(&self, id: RowId) -> bool {
        self.row(id).is_some_and(|row| {
            let owner = os::process::life(row.owner_pid.load(Relaxed));
            row.open.load(Acquire) & HOMEWARD != 0
                && owner.is_some_and(|life| !life.is_zombie && !life.is_ending)
        })
    }

    /// This process goes on with its side of a connection, and out of the registry: nobody is named there any
    /// more, so that the row is free again when the other end has gone.
    pub fn leave_side(&self, id: RowId, client_cookie: u64, side: Side) {
        if id.is_in_slot() {
            let row = self.row(id);
            return row.iter().for_each(|row| row.sides[side as usize].process.generation.store(0, Relaxed));
        }
        let Some((key, row)) = self.place(id.place as usize) else { return };
        if key.load(Acquire) == client_cookie {
            row.sides[side as usize].process.generation.store(0, Relaxed);
        }
    }
}
