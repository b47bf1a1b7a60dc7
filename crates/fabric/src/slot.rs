//! A slot as this process sees it: header, rings and the numbers of its two doorbells.
//! Owns: a view is made once per slot and process, and serves every later connection on it.
//! (How its doorbells come and go is in `bells`.)

use crate::address::EndpointCell;
use os::net::Endpoint;
use os::time::Cycles;
use shm::lent::Lent;
use shm::segment::Segment;
use shm::slab::{Index, LEAF, Slab};
use shm::{Ring, Side, SlotHeader};
use sync::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};

/// Most slots one process can have mapped.
const VIEWS: usize = 1 << 17;

/// The views of a process.
pub(crate) struct Views(Slab<SlotView, { VIEWS / LEAF }>);

impl Views {
    pub(crate) const fn new() -> Self {
        Views(Slab::new())
    }

    /// The view with this number.
    #[inline]
    pub(crate) fn get(&self, index: Index) -> Option<&'static SlotView> {
        self.0.get(index)
    }

    /// Every view that was made.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Index, &'static SlotView)> {
        (0..self.0.made()).filter_map(|index| Some((Index(index), self.0.get(Index(index))?)))
    }

    /// Makes the view of slot `slot` of `segment`, without doorbells. `None` if there is no such slot or no
    /// memory.
    pub(crate) fn make(&self, segment: Segment, slot: u32, home: u32) -> Option<(Index, &'static SlotView)> {
        let header = segment.slot(slot)?;
        let rings = [segment.outgoing(slot, Side::Client)?, segment.outgoing(slot, Side::Server)?];
        self.0.take(os::mem::more, || SlotView {
            segment,
            slot,
            bells: Lent::new(),
            home: AtomicU32::new(home),
            next: AtomicU32::new(0),
            client: EndpointCell::default(),
            server: EndpointCell::default(),
            ties: AtomicU64::new(0),
            users: AtomicU32::new(0),
            is_far: AtomicBool::new(false),
            hung: AtomicU32::new(0),
            settled_at: AtomicU64::new(Cycles::now().word()),
            word: AtomicI32::new(-1),
            moved: AtomicU32::new(0),
            word_of: AtomicU32::new(0),
            header,
            rings,
        })
    }
}

/// Views of slots that stay, a bit each.
pub(crate) struct Kept([AtomicU64; VIEWS / 64]);

impl Kept {
    pub(crate) const fn new() -> Self {
        Kept([const { AtomicU64::new(0) }; VIEWS / 64])
    }

    pub(crate) fn add(&self, index: Index) {
        if let Some(word) = self.0.get(index.0 as usize / 64) {
            word.fetch_or(1 << (index.0 % 64), Ordering::Relaxed);
        }
    }

    pub(crate) fn has(&self, index: Index) -> bool {
        self.0
            .get(index.0 as usize / 64)
            .is_some_and(|word| word.load(Ordering::Relaxed) & 1 << (index.0 % 64) != 0)
    }

    pub(crate) fn forget(&self) {
        for word in &self.0 {
            if word.load(Ordering::Relaxed) != 0 {
                word.store(0, Ordering::Relaxed);
            }
        }
    }
}

/// Where a slot lies and how to ring its two sides.
pub struct SlotView {
    segment: Segment,
    slot: u32,
    /// Doorbells of client and server; -1 while not open here.
    bells: Lent,
    /// Number of the offered or attached segment this view belongs to.
    pub(crate) home: AtomicU32,
    /// Next in whatever list of `offer` the slot is in, plus one.
    pub(crate) next: AtomicU32,
    /// Addresses of the last connection, to ask the kernel whether its sockets still exist.
    client: EndpointCell,
    /// The server's address.
    server: EndpointCell,
    /// Sockets of this process on it: the generation that they are of above, their number below.
    ties: AtomicU64,
    /// Offers, claims and sockets of this process on it, of whatever generation: who would look at its memory
    /// and doorbells.
    users: AtomicU32,
    /// Whether its connection is with a process that shares no directory with this one.
    is_far: AtomicBool,
    /// Which doorbells of the slot are open here, by [`SlotHeader::hung`].
    hung: AtomicU32,
    /// When what it moved was last counted here, or it was first seen.
    settled_at: AtomicU64,
    /// What was said of its connection to the program that this one is about to become; -1 for nothing.
    word: AtomicI32,
    /// Bytes that went with it, and are to come back if there is no next program.
    moved: AtomicU32,
    /// The process in whose table it stands.
    word_of: AtomicU32,
    header: &'static SlotHeader,
    rings: [Ring; 2],
}

impl SlotView {
    /// The shared header.
    #[inline]
    pub fn header(&self) -> &'static SlotHeader {
        self.header
    }

    /// Which of its connections the slot serves now.
    #[inline]
    pub fn generation(&self) -> u32 {
        self.header.generation.load(sync::Ordering::Acquire)
    }

    /// So long ago this was asked last.
    pub(crate) fn time_since_settled(&self) -> Cycles {
        let now = Cycles::now();
        let before = Cycles::from_word(self.settled_at.swap(now.word(), Ordering::Relaxed));
        // (Cores differ by a little.)
        if now.is_after(before) { now.since(before) } else { Cycles::NONE }
    }

    /// One more socket of this process is on the slot. (Two are if a process passes one to itself.)
    pub fn tie(&self, generation: u32) {
        let _ = self.ties.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |ties| {
            let is_same = (ties >> 32) as u32 == generation;
            Some(if is_same { ties + 1 } else { u64::from(generation) << 32 | 1 })
        });
    }

    /// One fewer; `true` for the last of its generation.
    pub fn untie(&self, generation: u32) -> bool {
        let fewer = |ties: u64| ((ties >> 32) as u32 == generation && ties as u32 > 0).then(|| ties - 1);
        let before = self.ties.fetch_update(Ordering::AcqRel, Ordering::Relaxed, fewer);
        before.is_ok_and(|ties| ties as u32 == 1)
    }

    /// The ring `side` writes into.
    #[inline]
    pub fn outgoing(&self, side: Side) -> &Ring {
        &self.rings[side as usize]
    }

    /// The ring `side` reads from.
    #[inline]
    pub fn incoming(&self, side: Side) -> &Ring {
        &self.rings[side.peer() as usize]
    }

    /// Whether the other end shares no directory with this process: neither its process nor its socket is to
    /// be found by what lies in the slot.
    #[inline]
    pub fn is_far(&self) -> bool {
        self.is_far.load(Ordering::Relaxed)
    }

    pub(crate) fn note_far(&self, is_far: bool) {
        self.is_far.store(is_far, Ordering::Relaxed);
    }

    /// Number of the slot in its segment.
    pub fn number(&self) -> u32 {
        self.slot
    }

    /// The segment.
    pub fn segment(&self) -> Segment {
        self.segment
    }

    /// The doorbell that wakes `side`, for whoever holds a connection on the slot while he uses it; -1 where
    /// it was given up.
    #[inline]
    pub fn bell(&self, side: Side) -> i32 {
        self.bells.number(side as usize)
    }

    /// What is said of its connection to the next program stands under `number` of the calling process, and
    /// so many bytes are only there by now.
    pub fn note_word(&self, number: i32, moved: usize) {
        self.moved.store(moved as u32, Ordering::Relaxed);
        self.word_of.store(os::process::pid(), Ordering::Relaxed);
        // (Before the bytes are read here: who finds that they are, finds this.)
        self.word.store(number, Ordering::Release);
    }

    /// Nothing is said any more; returns what was, by the calling process.
    pub fn take_word(&self) -> Option<(i32, usize)> {
        if !self.has_word() {
            return None;
        }
        let (number, maker) = (self.word.swap(-1, Ordering::AcqRel), self.word_of.load(Ordering::Relaxed));
        let moved = self.moved.swap(0, Ordering::Relaxed) as usize;
        (maker == os::process::pid()).then_some((number, moved))
    }

    /// Whether something is said of it.
    #[inline]
    pub fn has_word(&self) -> bool {
        sync::fence(sync::Ordering::Acquire);
        self.word.load(Ordering::Acquire) >= 0
    }

    /// How many bytes of the calling process's are only in what is said.
    pub fn bytes_in_word(&self) -> usize {
        let is_own = self.has_word() && self.word_of.load(Ordering::Relaxed) == os::process::pid();
        if is_own { self.moved.load(Ordering::Relaxed) as usize } else { 0 }
    }

    /// Its number, if the calling process has said it, or its parent, whose memory it borrows.
    pub fn word(&self) -> Option<i32> {
        let (number, maker) = (self.word.load(Ordering::Relaxed), self.word_of.load(Ordering::Relaxed));
        let is_known = maker == os::process::pid() || maker == os::process::cached_pid();
        (number >= 0 && is_known).then_some(number)
    }

    /// Remembers the two addresses of the slot's connection, for the day the slot is wanted again.
    pub fn note_addresses(&self, client: Endpoint, server: Endpoint) {
        self.client.store(client);
        self.server.store(server);
    }

    /// The addresses of client and server of the last connection; ports are 0 while not known.
    pub fn addresses(&self) -> (Endpoint, Endpoint) {
        (self.client.load(), self.server.load())
    }

    /// Whether this process has both doorbells open.
    pub(crate) fn has_bells(&self) -> bool {
        self.bells.places().iter().all(|bell| bell.load(Ordering::Relaxed) >= 0)
    }

    /// Whether it has one of them.
    pub fn has_any_bell(&self) -> bool {
        self.bells.places().iter().any(|bell| bell.load(Ordering::Relaxed) >= 0)
    }

    /// Whether one of them is descriptor `number`.
    pub fn has_bell(&self, number: i32) -> bool {
        self.bells.places().iter().any(|bell| bell.load(Ordering::Relaxed) == number)
    }

    /// Which doorbells those are.
    pub(crate) fn hung(&self) -> &AtomicU32 {
        &self.hung
    }

    /// One more user in this process.
    pub(crate) fn take_up(&self) {
        self.users.fetch_add(1, Ordering::Relaxed);
    }

    /// One fewer.
    pub(crate) fn put_down(&self) {
        self.users.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether one socket of this process, and nothing else, uses it.
    pub(crate) fn has_one_user(&self) -> bool {
        self.users.load(Ordering::Relaxed) == 1
    }

    /// Whether anybody in this process uses it.
    pub(crate) fn is_used(&self) -> bool {
        self.users.load(Ordering::Relaxed) != 0
    }

    /// The numbers of the doorbells of client and server, to be made or closed.
    pub(crate) fn bells(&self) -> &[AtomicI32; 2] {
        self.bells.places()
    }

    /// The same, to be taken away from who may use them.
    pub(crate) fn lent_bells(&self) -> &Lent {
        &self.bells
    }
}
