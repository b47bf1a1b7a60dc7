//! One socket in one set. Owns: the cookie that stands for a registration in the kernel's records, and what
//! of an edge has been reported.

use super::arrival::Standing;
use super::events::{INPUT, READ_SIDE, WRITE_SIDE};
use crate::conn::Conn;
use crate::end::End;
use crate::held::{Held, hold_index};
use crate::here::{Part as _, fabric};
use crate::phase::Phase;
use crate::table::{self, Entry};
use crate::{flag, ready};
use os::epoll::bits;
use os::time::Cycles;
use shm::ClosedBy;
use shm::interest::{Interest, ONCE, Seen};
use shm::slab::{Index, LEAF, Slab};
use sync::Ordering as Shared;
use sync::{AtomicI32, AtomicU32, AtomicU64, Ordering};

const REGISTRATIONS: usize = 1 << 18;
/// Marks the cookies; no user-space pointer has these upper bits.
const MAGIC: u64 = 0x15C0 << 48;
/// Below it stand 16 bits of the generation, some of the process that made it, the index and the source.
const MAKER_AT: u32 = 19;
const MAKER: u32 = (1 << 13) - 1;
const _: () = assert!(REGISTRATIONS <= 1 << (MAKER_AT - 1));

/// Of the word that says where it was told of: the place, below the number of the answer.
const PLACE_BITS: u32 = 16;
/// A place so far behind, or further.
pub(crate) const FAR: usize = (1 << PLACE_BITS) - 1;

/// What a registration's records in the kernel carry: our cookie; for the rest of its life the program's own
/// data; that until a wait of this process is seen.
const BY_COOKIE: u32 = 0;
const OUTRIGHT: u32 = 1;
const UNSEEN: u32 = 2;

/// The registrations of a process.
pub(crate) struct Registrations(Slab<Registration, { REGISTRATIONS / LEAF }>);

impl Registrations {
    pub(crate) const fn new() -> Self {
        Registrations(Slab::new())
    }
}

/// Those of this one.
#[inline(always)]
pub(crate) fn registrations() -> &'static Slab<Registration, { REGISTRATIONS / LEAF }> {
    &Registrations::here().0
}

/// A socket in a set. Two lines of memory, the first of which is for the rest: what every look at it needs
/// stands on the second. (`shm::slab` adds a word at the end.)
#[repr(C)]
pub(crate) struct Registration {
    pub(crate) data: AtomicU64,
    /// Since which fork its process has it.
    pub(crate) era: AtomicU64,
    /// The last answer that told of it, by its number, and where in that one.
    told_in: AtomicU64,
    /// EPOLLET: what was last reported: bytes that had arrived, sends that had found no space; and whether
    /// the level is to be reported whatever has been.
    seen_bytes: AtomicU64,
    seen_stalls: AtomicU32,
    is_fresh: AtomicU32,
    /// Next of the same connection, plus one.
    pub(crate) next: AtomicU32,
    /// The process that made it.
    pub(crate) pid: AtomicU32,
    /// What the kernel was last asked about the TCP socket: at least what `events` need; and of edges what it
    /// will tell, or the program was told.
    pub(crate) kernel_events: AtomicU32,
    /// Taken back by the program; its records are still in the kernel (`lazy`).
    pub(crate) is_parked: AtomicU32,
    /// Where it stands among the set's members.
    pub(crate) position: AtomicU32,
    /// Who is before it among those that the next wait of the set takes in, plus two; 1 for nobody, 0 if it
    /// does not stand there.
    untold: AtomicU32,

    /// Its place in the kernel's list, by the core's counter: when it last had its turn, or was put into the
    /// set; and since when it has been in the list at all, 0 while it is not.
    turned_at: AtomicU64,
    listed_at: AtomicU64,
    /// What is asked for, whether ONESHOT has been delivered, and the doorbell's number in the set.
    pub(crate) interest: Interest,
    /// Odd while live; counts uses, so that an old cookie is told from a new one.
    pub(crate) generation: AtomicU32,
    pub(crate) set: AtomicU32,
    pub(crate) conn: AtomicU32,
    pub(crate) fd: AtomicI32,
    /// Whether the kernel's records carry the program's own data, and no wait looks at the rings for it.
    told_as: AtomicU32,
    /// Sleeps of the set since it last had something to report.
    pub(crate) age: AtomicU32,
}

const _: () =
    assert!(core::mem::offset_of!(Registration, turned_at) == 64 && size_of::<Registration>() == 120);
const _: () = assert!(ONCE == bits::ONESHOT);

/// What a life of a registration has to report: what was heard of another is not for it.
#[derive(Clone, Copy)]
pub(crate) struct Told {
    pub(crate) registration: &'static Registration,
    pub(crate) generation: u32,
    pub(crate) source: Source,
    /// What the kernel said.
    pub(crate) raised: u32,
}

impl Told {
    /// The question and the program's data as they stand; `None` if that is another life's by now, or this
    /// one is about to end: who takes a question back answers it, or nobody does. (Later it is the question's
    /// number that tells: it goes on counting from life to life.)
    #[inline]
    pub(crate) fn question(&self) -> Option<(Seen, u64)> {
        let seen = self.registration.interest.seen();
        let data = self.registration.data.load(Ordering::Acquire);
        let stands = self.registration.generation.load(Ordering::Acquire) == self.generation;
        (stands && !seen.is_none()).then_some((seen, data))
    }

    /// The connection, held, if the registration still lives the life that was told of.
    #[inline]
    pub(crate) fn conn(&self) -> Option<Held> {
        let held = hold_index(Index(self.registration.conn.load(Ordering::Relaxed)))?;
        // Asked again, now that the connection cannot be another's: both may have come back for another
        // socket.
        (self.registration.generation.load(Ordering::Acquire) == self.generation).then_some(held)
    }
}

/// Which of the two kernel records of a registration an event comes from, or our own look at the rings.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Bell = 0,
    Tcp = 1,
    Rings = 2,
}

impl Registration {
    pub(crate) fn new() -> Self {
        Registration {
            generation: AtomicU32::new(0),
            set: AtomicU32::new(0),
            conn: AtomicU32::new(0),
            fd: AtomicI32::new(-1),
            interest: Interest::new(),
            data: AtomicU64::new(0),
            next: AtomicU32::new(0),
            pid: AtomicU32::new(0),
            era: AtomicU64::new(0),
            kernel_events: AtomicU32::new(0),
            is_parked: AtomicU32::new(0),
            told_as: AtomicU32::new(BY_COOKIE),
            told_in: AtomicU64::new(0),
            position: AtomicU32::new(0),
            age: AtomicU32::new(0),
            untold: AtomicU32::new(0),
            turned_at: AtomicU64::new(0),
            listed_at: AtomicU64::new(0),
            seen_bytes: AtomicU64::new(0),
            seen_stalls: AtomicU32::new(0),
            is_fresh: AtomicU32::new(0),
        }
    }

    /// Begins a life: live, and with everything to report.
    pub(crate) fn begin(&self, set: Index, conn: Index, fd: i32) {
        self.set.store(set.0, Ordering::Relaxed);
        self.conn.store(conn.0, Ordering::Relaxed);
        self.fd.store(fd, Ordering::Relaxed);
        self.pid.store(os::process::cached_pid(), Ordering::Relaxed);
        self.era.store(crate::era::now(), Ordering::Relaxed);
        self.is_parked.store(0, Ordering::Relaxed);
        self.told_as.store(BY_COOKIE, Ordering::Relaxed);
        self.told_in.store(0, Ordering::Relaxed);
        // (Whoever had this place may have been let go for his.)
        self.age.store(0, Ordering::Relaxed);
        self.interest.end_asking();
        self.unlist();
        self.take_turn(Cycles::now());
        // (Last: a look that finds it live finds whose it is.)
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// What EPOLL_CTL_ADD and EPOLL_CTL_MOD ask for. Returns what stood before.
    pub(crate) fn ask(&self, events: u32, data: u64) -> Seen {
        // (Who sees it sees which life it is asked in.)
        self.data.store(data, Ordering::Release);
        let before = self.interest.ask(events);
        self.give_edge_back();
        self.interest.end_asking();
        before
    }

    /// EPOLLET: the level is to be reported whatever has been.
    pub(crate) fn give_edge_back(&self) {
        self.is_fresh.store(1, Ordering::Release);
    }

    /// Whether nothing has been told of an edge since the program asked. (Of a level that never ends.)
    #[inline]
    pub(crate) fn is_newly_asked(&self) -> bool {
        self.is_fresh.load(Ordering::Relaxed) != 0
    }

    /// The last answer that told of it, and where; [`FAR`] for a place that is not known.
    #[inline]
    pub(crate) fn told_in(&self) -> (u64, usize) {
        let word = self.told_in.load(Ordering::Acquire);
        (word >> PLACE_BITS, (word & FAR as u64) as usize)
    }

    /// The answer `batch` tells of it at `place`. (Of several answers at once the last that was begun keeps
    /// its word; the others see that it is not theirs, and look.)
    #[inline]
    pub(crate) fn note_told_in(&self, batch: u64, place: usize) {
        self.told_in.fetch_max(batch << PLACE_BITS | place.min(FAR) as u64, Ordering::AcqRel);
    }

    /// Whether it stands nowhere yet among those with an edge that nobody else would tell.
    pub(super) fn begin_untold(&self) -> bool {
        self.untold.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// There it stands behind `first` (a number plus one, 0 for nobody).
    pub(super) fn stand_behind(&self, first: u32) {
        self.untold.store(first + 1, Ordering::Relaxed);
    }

    /// It stands there no more. Who was before it, in the same way.
    pub(super) fn end_untold(&self) -> u32 {
        self.untold.swap(0, Ordering::AcqRel).saturating_sub(1)
    }

    /// It has its turn: behind it stands whoever was there before.
    #[inline]
    pub(crate) fn take_turn(&self, now: Cycles) {
        now.store(&self.turned_at);
    }

    /// It is ready, by what came at `arrived` last. Who is in the list already stays where he is; who is not
    /// comes behind those that a look found ready at `looked_at`.
    #[inline]
    pub(super) fn list(&self, arrived: Cycles, looked_at: &AtomicU64) {
        if !self.is_listed() {
            arrived.max(Cycles::load(looked_at)).max(Cycles::from_word(1)).store(&self.listed_at);
        }
    }

    /// Whether it has a place there.
    #[inline]
    pub(crate) fn is_listed(&self) -> bool {
        self.listed_at.load(Ordering::Relaxed) != 0
    }

    /// A look finds that it is not ready, or an edge was told.
    #[inline]
    pub(crate) fn unlist(&self) {
        self.listed_at.store(0, Ordering::Relaxed);
    }

    /// It was told of: a level stays in the list, an edge does not. `behind` all who were told before, but
    /// for those that one look found: they keep their order.
    #[inline]
    pub(crate) fn note_told(&self, behind: bool) {
        if self.events() & (bits::ET | bits::ONESHOT) != 0 {
            self.unlist();
        } else if behind {
            let now = Cycles::now();
            now.store(&self.listed_at);
            self.take_turn(now);
        }
    }

    /// The program asks for something else than `before`: what has come until now has its place.
    #[cold]
    pub(crate) fn list_asked_after(&self, conn: &Conn, end: &End, before: Seen, looked_at: &AtomicU64) {
        let asked = if before.is_fired() || !conn.is(Phase::Smc) { 0 } else { before.events() };
        let had_come = match asked & bits::ET {
            0 => Self::has_level(conn, end, asked),
            _ => self.has_edge(conn, end),
        };
        if had_come {
            self.list(Cycles::from_word(end.incoming.written_at()), looked_at);
        }
        self.list_asked(conn, end);
    }

    /// The program asks for something, or has done it itself: if it is there, the kernel puts whoever is not
    /// in its list at the end of it.
    pub(crate) fn list_asked(&self, conn: &Conn, end: &End) {
        if !self.is_listed() && conn.is(Phase::Smc) && Self::has_level(conn, end, self.events()) {
            Cycles::now().store(&self.listed_at);
        }
    }

    /// Where it stands with that.
    #[inline]
    pub(super) fn stands_since(&self) -> Cycles {
        Cycles::load(&self.listed_at).max(Cycles::load(&self.turned_at))
    }

    #[inline]
    pub(crate) fn events(&self) -> u32 {
        self.interest.seen().events()
    }

    /// Its connection, if it has one still.
    pub(crate) fn hold(&self) -> Option<Held> {
        if self.is_live() { hold_index(Index(self.conn.load(Ordering::Relaxed))) } else { None }
    }

    /// Its connection, as it is just now: neither is held.
    pub(crate) fn peek_conn(&self) -> Option<&'static Conn> {
        crate::held::peek_index(Index(self.conn.load(Ordering::Relaxed)))
    }

    /// The number that the kernel's record of the socket goes by: it may be closed, and another socket's by
    /// now, while a duplicate keeps the socket and the record.
    pub(crate) fn fd(&self) -> i32 {
        self.fd.load(Ordering::Relaxed)
    }

    /// The same for who is about to change the record; `None` if the kernel finds it by no number any more.
    #[inline]
    pub(crate) fn record(&self) -> Option<i32> {
        let fd = self.fd();
        (table::get(fd) == self.entry()).then_some(fd)
    }

    /// A number of the socket itself; -1 if this process has none any more.
    #[inline]
    pub(crate) fn number(&self) -> i32 {
        self.record().unwrap_or_else(|| other_number(self.entry()))
    }

    fn entry(&self) -> Entry {
        Entry::Conn(Index(self.conn.load(Ordering::Relaxed)))
    }

    pub(crate) fn is_live(&self) -> bool {
        self.generation.load(Ordering::Acquire) & 1 == 1
    }

    /// Whether the program has taken it back.
    pub(crate) fn is_parked(&self) -> bool {
        self.is_parked.load(Ordering::Acquire) != 0
    }

    pub(crate) fn is_fired(&self) -> bool {
        self.interest.seen().is_fired()
    }

    /// Whether its records carry the program's own data, for its set is another process's by now.
    pub(crate) fn is_outright(&self) -> bool {
        self.told_as.load(Ordering::Relaxed) == OUTRIGHT
    }

    /// Whether its record does so for now, for no wait of this process was seen (`unseen`). It has no
    /// doorbell.
    pub(crate) fn is_unseen(&self) -> bool {
        self.told_as.load(Ordering::Relaxed) == UNSEEN
    }

    /// Whether its records carry the program's own data.
    pub(crate) fn tells_own_data(&self) -> bool {
        self.told_as.load(Ordering::Relaxed) != BY_COOKIE
    }

    /// Whether it is a member of that set.
    pub(crate) fn is_in(&self, set: Index) -> bool {
        self.set.load(Ordering::Relaxed) == set.0
    }

    /// Whether this process has made it, and not one that this was forked from.
    pub(crate) fn is_own(&self) -> bool {
        self.pid.load(Ordering::Relaxed) == os::process::cached_pid()
    }

    /// From now on they do.
    pub(crate) fn make_outright(&self) {
        self.told_as.store(OUTRIGHT, Ordering::Relaxed);
    }

    /// Its record is made before any wait was seen.
    pub(crate) fn begin_unseen(&self) {
        self.told_as.store(UNSEEN, Ordering::Relaxed);
    }

    /// There is one now: the record is to carry our cookie.
    pub(crate) fn end_unseen(&self) {
        self.told_as.store(BY_COOKIE, Ordering::Relaxed);
    }

    pub(crate) fn cookie(&self, index: Index, source: Source) -> u64 {
        if self.tells_own_data() {
            return self.data.load(Ordering::Relaxed);
        }
        self.own_cookie(index, source)
    }

    /// The same, whatever its records carry now.
    pub(crate) fn own_cookie(&self, index: Index, source: Source) -> u64 {
        let generation = u64::from(self.generation.load(Ordering::Relaxed) & 0xffff);
        let maker = u64::from(self.pid.load(Ordering::Relaxed) & MAKER);
        MAGIC | generation << 32 | maker << MAKER_AT | u64::from(index.0) << 1 | source as u64
    }

    /// This life, if `data`, which the kernel reported in `set`, is its cookie.
    pub(crate) fn life_meant_by(&self, data: u64, set: Index) -> Option<u32> {
        let generation = self.generation.load(Ordering::Acquire);
        let is_meant = generation & 1 == 1
            && u64::from(generation & 0xffff) == data >> 32 & 0xffff
            && self.set.load(Ordering::Relaxed) == set.0;
        is_meant.then_some(generation)
    }

    /// Whether the rings have something to report. A hint: neither the connection nor the registration is
    /// held.
    #[inline]
    pub(crate) fn is_pending(&self, conn: &Conn, end: &End) -> bool {
        let seen = self.interest.seen();
        if seen.is_fired() || self.tells_own_data() {
            return false;
        }
        if !conn.is(Phase::Smc) {
            return is_answered(conn);
        }
        let events = seen.events();
        if events & (bits::ET | bits::ONESHOT) != 0 && end.mine().set_sharers.load(Shared::Relaxed) > 0 {
            // Another process waits on the same set: who gets an edge is the kernel's to say.
            return false;
        }
        // After a move back to TCP the kernel's record of the socket tells.
        let is_to_be_told =
            || events & WRITE_SIDE != 0 && ready::is_on_tcp_for_good(end) && !conn.has(flag::TOLD_OUTSIDE);
        if events & bits::ET != 0 {
            return self.has_news(conn, end) || is_to_be_told();
        }
        Self::has_level(conn, end, events) || is_to_be_told()
    }

    /// Whether any of `events` is there, by the rings.
    #[inline]
    fn has_level(conn: &Conn, end: &End, events: u32) -> bool {
        let has_data = || ready::has_data(conn, end) && !end.incoming.is_at_end();
        let has_ended = || conn.has(flag::TCP_ENDED | flag::RESET);
        (events & READ_SIDE != 0 && has_ended())
            || (events & INPUT != 0 && has_data())
            || (events & (bits::OUT | bits::WRNORM) != 0 && ready::may_write(conn, end))
    }

    /// Since when there is something to tell of it, if there is.
    #[inline]
    pub(crate) fn pending(&self, conn: &Conn, end: &End) -> Option<Cycles> {
        self.is_pending(conn, end).then(|| Cycles::from_word(end.incoming.written_at()))
    }

    /// What there is to tell of it, and since when, at a look of a set whose last one that found anything was
    /// at `looked_at`.
    #[inline]
    pub(crate) fn standing(&self, conn: &Conn, end: &End, looked_at: Cycles) -> Standing {
        /// Whoever ends a stream notes it within this time (the direction is written to, then it is at its
        /// end), unless another thread has his core meanwhile: then the kernel tells alone.
        const AT_ONCE: Cycles = Cycles::from_us(2);
        let arrived = Cycles::from_word(end.incoming.written_at());
        if self.is_pending(conn, end) {
            return Standing::Pending(arrived);
        }
        // (Else that look has seen all there was, and a line is left alone.)
        let may_be = self.is_listed() || end.incoming.has_ended() || looked_at < arrived.plus(AT_ONCE);
        if may_be && self.is_announced(conn, end) { Standing::Announced(arrived) } else { Standing::Silent }
    }

    /// Whether an end of the stream, or bytes by TCP, were announced that the kernel's records will tell of.
    /// (An edge is theirs alone.)
    #[inline(never)]
    fn is_announced(&self, conn: &Conn, end: &End) -> bool {
        // (A process that has gone may have left the socket to others.)
        const ENDS: u32 = ClosedBy::WRITE | ClosedBy::CLOSE;
        let is_level = self.interest.seen().events() & (bits::ET | bits::ONESHOT) == 0;
        let has_ended = end.theirs().closed.load(Shared::Relaxed) & ENDS != 0;
        let goes_outside = || end.incoming.has_ended() && end.incoming.unread_outside() > Some(0);
        is_level
            && !self.is_outright()
            && conn.is(Phase::Smc)
            && ((has_ended && !conn.has(flag::TCP_ENDED | flag::RESET)) || goes_outside())
    }

    /// EPOLLET: whether something has come since the last report.
    pub(crate) fn has_edge(&self, conn: &Conn, end: &End) -> bool {
        let bytes = end.incoming.words().producer.0.prod.load(Shared::Relaxed);
        self.are_new(conn, end, bytes)
            || (conn.stalls() != self.seen_stalls.load(Ordering::Relaxed) && ready::has_space(conn, end))
    }

    /// Whether what has arrived since the last report, up to `bytes` in all, is an edge of input: too few for
    /// SO_RCVLOWAT wake nobody. (Of more that were read again meanwhile nobody knows how they came.)
    #[inline]
    fn are_new(&self, conn: &Conn, end: &End, bytes: u64) -> bool {
        let new = bytes.wrapping_sub(self.seen_bytes.load(Ordering::Relaxed));
        self.events() & INPUT != 0 && new != 0 && {
            let wanted = ready::low_water(conn, end) as u64;
            wanted <= 1 || new >= wanted || ready::has_data(conn, end)
        }
    }

    /// EPOLLET: the same, or the level itself is to be looked at.
    pub(crate) fn has_news(&self, conn: &Conn, end: &End) -> bool {
        self.is_newly_asked() || self.has_edge(conn, end)
    }

    /// EPOLLET: whether space is to be told of, and there is none yet: until it is, no sleep without having
    /// asked for it. A ring says nothing of that: the reader may have found space that was filled before it
    /// took the word.
    pub(crate) fn awaits_space(&self, conn: &Conn, end: &End) -> bool {
        let seen = self.interest.seen();
        seen.events() & bits::ET != 0
            && seen.events() & WRITE_SIDE != 0
            && !seen.is_fired()
            && (self.is_newly_asked() || conn.stalls() != self.seen_stalls.load(Ordering::Relaxed))
            && !ready::has_space(conn, end)
    }

    /// EPOLLET: whether room was told of, and no send has found none since: to be asked anew would be an
    /// edge.
    pub(crate) fn has_told_of_room(&self, conn: &Conn) -> bool {
        self.events() & (bits::ET | bits::ONESHOT) == bits::ET
            && !self.is_newly_asked()
            && conn.stalls() == self.seen_stalls.load(Ordering::Relaxed)
    }

    /// EPOLLET: the kernel told of room on TCP, which the program had no use for, or the program was refused
    /// without TCP being asked. The kernel tells nobody twice, so it is to be asked again.
    pub(crate) fn lose_room_outside(&self) {
        let asked = self.kernel_events.load(Ordering::Relaxed);
        if asked & bits::ET != 0 && asked & WRITE_SIDE != 0 {
            self.kernel_events.fetch_and(!WRITE_SIDE, Ordering::Relaxed);
        }
    }

    /// Whether room on TCP is among what the kernel will tell of.
    pub(crate) fn hears_of_room_outside(&self) -> bool {
        self.kernel_events.load(Ordering::Relaxed) & WRITE_SIDE != 0
    }

    /// EPOLLET: whether there is news since the last report; from now on there is none. Each number is read
    /// once: what comes after that read is news for the next report. The level must be looked at afterwards.
    pub(crate) fn take_edge(&self, conn: &Conn, end: &End) -> bool {
        let is_fresh = self.is_fresh.swap(0, Ordering::AcqRel) != 0;
        let bytes = end.incoming.words().producer.0.prod.load(Shared::Acquire);
        let may_be_edge = self.are_new(conn, end, bytes);
        let is_mine = (is_fresh || may_be_edge) && self.seen_bytes.swap(bytes, Ordering::AcqRel) != bytes;
        let has_bytes = may_be_edge && is_mine;
        let stalls = conn.stalls();
        if is_fresh {
            // The kernel's look at a socket without space asks for the edge, as a send would. (And what an
            // earlier life of the registration had seen says nothing about this connection.)
            self.seen_stalls.store(stalls.wrapping_sub(1), Ordering::Release);
        }
        let has_space =
            ready::has_space(conn, end) && self.seen_stalls.swap(stalls, Ordering::AcqRel) != stalls;
        is_fresh || has_bytes || has_space
    }
}

#[cold]
fn other_number(wanted: Entry) -> i32 {
    table::entries().find(|(_, entry)| *entry == wanted).map_or(-1, |(number, _)| number)
}

/// Whether the data of a kernel record may be a cookie, of whichever process.
pub(crate) fn is_cookie(data: u64) -> bool {
    data & (0xffff << 48) == MAGIC
}

/// The registration that a kernel record belongs to; `None` if the data is the program's own, or another
/// process's cookie.
pub(crate) fn decode(data: u64) -> Option<(Index, &'static Registration, Source)> {
    if !is_cookie(data) {
        return None;
    }
    let index = Index((data as u32 & ((1 << MAKER_AT) - 1)) >> 1);
    let registration = registrations().get(index)?;
    let is_its_maker = (data >> MAKER_AT) as u32 & MAKER == registration.pid.load(Ordering::Relaxed) & MAKER;
    is_its_maker.then_some((index, registration, if data & 1 == 0 { Source::Bell } else { Source::Tcp }))
}

/// All registrations of a connection.
pub(crate) fn of_conn(conn: &Conn) -> impl Iterator<Item = (Index, &'static Registration)> {
    let mut next = conn.interest.registrations.load(Ordering::Acquire);
    core::iter::from_fn(move || {
        let index = Index(next.checked_sub(1)?);
        let registration = registrations().get(index)?;
        next = registration.next.load(Ordering::Acquire);
        Some((index, registration))
    })
}

/// That of its number `fd` in `set`.
#[inline]
pub(crate) fn of_number(conn: &Conn, set: Index, fd: i32) -> Option<(Index, &'static Registration)> {
    of_conn(conn).find(|(_, registration)| registration.is_in(set) && registration.fd() == fd)
}

/// Whether an intent has been answered, which its owner does not know yet.
#[cold]
fn is_answered(conn: &Conn) -> bool {
    conn.is(Phase::Intent) && fabric().rows().verdict(conn.row()).is_some()
}

/// Whether a registration of `conn` waits for the edge of space that is not there yet.
pub(crate) fn awaits_space(conn: &Conn, end: &End) -> bool {
    of_conn(conn).any(|(_, registration)| registration.awaits_space(conn, end))
}
