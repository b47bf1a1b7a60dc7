//! A slot as a visitor has it: a process that is no end of the connection, and takes that off shared memory.
//! Owns: that the slot serves that very connection for as long as it is visited, that nothing is begun
//! where its sleepers cannot be rung, and the list of processes that stay on TCP.
//!
//! Both ends find the turns to send ended, and learn the rest as if the other one had done it: a visitor says
//! nothing that either could not say. (An end that cannot have the doorbells, or that leaves, takes the same
//! steps: `goes_home`, `sleepers`.)

use crate::door::Tier;
use crate::fabric::Fabric;
use crate::local::member as names;
use crate::observe::Connection;
use crate::process::ProcessId;
use crate::slot::SlotView;
use os::mem::{self, Shared};
use os::{fd, file, futex, pipe};
use shm::registry::RegistryMap;
use shm::wait::WaitWord;
use shm::{Ring, Sending, Side, SlotHeader};
use sync::Ordering::{Acquire, Relaxed, SeqCst};
use wire::reason::Reason;

/// Where in a registry file the word lies that says whether anybody is on the list.
pub const KEEPS_AT: usize = core::mem::offset_of!(RegistryMap, keeps);
/// Where the list lies.
pub const KEPT_AT: usize = core::mem::offset_of!(RegistryMap, kept);
/// How many have room in it.
pub const KEPT: usize = shm::registry::KEPT;

/// What came of a visit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Visit {
    /// Both directions are on TCP for good, by this visit.
    Home,
    /// They were already.
    WasHome,
    /// The slot serves another connection by now, or none.
    Gone,
    /// Somebody is stopped in the middle of a copy, or another visitor is there: later.
    Busy,
}

/// The word by which a living process stands in the list; `None` if there is no such process.
pub fn name_of(pid: u32) -> Option<u64> {
    os::process::life(pid).filter(|life| !life.is_zombie).map(|life| names::name_of(pid, life.started))
}

/// Whether a place of the list is nobody's: free, or of a process that has ended.
pub fn is_vacant(name: u64) -> bool {
    name == 0 || !names::is_alive(name)
}

impl<T: Tier> Fabric<T> {
    /// Whether an operator keeps process `pid`, or a listener's, on TCP.
    #[inline]
    pub(crate) fn is_either_kept_on_tcp(&self, pid: u32, listener: ProcessId) -> bool {
        let Some(map) = self.tier.mapped().filter(|map| map.keeps.load(Relaxed) != 0) else { return false };
        self.is_listed(map, pid) || self.is_listed(map, listener.pid(map))
    }

    /// Whether an operator keeps process `pid` on TCP.
    #[inline]
    pub(crate) fn is_kept_on_tcp(&self, pid: u32) -> bool {
        self.tier.mapped().is_some_and(|map| map.keeps.load(Relaxed) != 0 && self.is_listed(map, pid))
    }

    #[cold]
    fn is_listed(&self, map: &RegistryMap, pid: u32) -> bool {
        let mut names = map.kept.iter().map(|name| name.load(Relaxed));
        names.any(|name| name != 0 && self.tier.pid_of(name) == pid && self.tier.is_name_alive(name))
    }
}

/// Takes a connection off shared memory, for `reason`. `None` if that is not its memory, or its doorbells are
/// not to be had where the memory is.
pub fn send_home(connection: &Connection, memory: &Memory, reason: Reason) -> Option<Visit> {
    let segment = shm::Segment::attach(memory.words, connection.nonce).ok()?;
    let header = segment.slot(connection.slot)?;
    let client = segment.outgoing(connection.slot, Side::Client)?;
    let server = segment.outgoing(connection.slot, Side::Server)?;
    let Some(_visitor) = Visitor::enter(header) else { return Some(Visit::Busy) };
    if !serves(header, connection) {
        return Some(Visit::Gone);
    }
    let rings = [&client, &server];
    if rings.iter().all(|ring| ring.has_ended_for_good()) {
        return Some(Visit::WasHome);
    }
    let bells = Bells::open(memory, header)?;
    header.note_home(reason.0);
    // (Both at any rate: what can go home, does.)
    let has_ended = [Side::Client, Side::Server].map(|side| end(header, side, rings[side as usize]));
    tell(rings, bells.0.each_ref().map(|bell| bell.0));
    Some(if has_ended == [true; 2] { Visit::Home } else { Visit::Busy })
}

/// The slot serves the connection, and for as long as the visitor's name stands: who holds it has not let go
/// yet, and who would lend it again looks for visitors afterwards.
fn serves(header: &SlotHeader, connection: &Connection) -> bool {
    let is_held = header.sides.iter().any(|side| side.roster.has_living(names::is_alive));
    is_held && header.client_cookie.load(SeqCst) == connection.ends[0].cookie
}

/// So often a turn is looked at until somebody has finished his copy, which takes microseconds; who has lost
/// his core over it gets it back within some milliseconds.
pub(crate) const ATTEMPTS: u32 = shm::lock::YIELDS + 100;

pub(crate) fn end(header: &SlotHeader, side: Side, ring: &Ring) -> bool {
    end_within(header, side, ring, &mut { ATTEMPTS })
}

/// The same with what is left of the attempts for several.
pub(crate) fn end_within(header: &SlotHeader, side: Side, ring: &Ring, left: &mut u32) -> bool {
    loop {
        if Sending::end(&header.sides[side as usize], ring) {
            return true;
        }
        let Some(fewer) = left.checked_sub(1) else { return false };
        crate::turn::give_way(ATTEMPTS.saturating_sub(*left));
        *left = fewer;
    }
}

/// Whoever waits at either end, for bytes or for room, looks again.
pub(crate) fn tell(rings: [&Ring; 2], bells: [i32; 2]) {
    for side in [Side::Client, Side::Server] {
        let (out, back) = (rings[side as usize].words(), rings[side.peer() as usize].words());
        for word in [&back.data_wait.0, &out.space_wait.0] {
            ring(word, bells[side as usize]);
        }
    }
}

/// Whoever naps at either end looks again; the ends at which somebody asks to be rung.
pub(crate) fn sleepers(rings: [&Ring; 2]) -> impl Iterator<Item = Side> {
    let asks = [Side::Client, Side::Server].map(|side| {
        let (out, back) = (rings[side as usize].words(), rings[side.peer() as usize].words());
        let asked = [&back.data_wait.0, &out.space_wait.0].map(wake);
        asked.contains(&true).then_some(side)
    });
    asks.into_iter().flatten()
}

fn ring(word: &WaitWord, bell: i32) {
    if wake(word) {
        pipe::ring(bell);
    }
}

/// Whoever naps looks again. Whether somebody asks for the doorbell.
fn wake(word: &WaitWord) -> bool {
    let asked = word.take_ring();
    if asked.nap() {
        futex::wake(word.futex());
    }
    asked.bell()
}

/// Ends both directions of a slot, for `reason`; whether nothing is put into it any more. Nobody has been
/// told then.
pub(crate) fn goes_home(view: &SlotView, reason: Reason, attempts: &mut u32) -> bool {
    let rings = [Side::Client, Side::Server].map(|side| view.outgoing(side));
    if !rings.iter().all(|ring| ring.has_ended_for_good()) {
        view.header().note_home(reason.0);
        for side in [Side::Client, Side::Server] {
            end_within(view.header(), side, rings[side as usize], attempts);
        }
    }
    rings.iter().all(|ring| ring.has_ended_for_good())
}

/// What a number led to belongs to the user: his process may have other users' files, which a visitor of more
/// rights could open where it could not.
fn of_user(opened: i32, uid: u32) -> Option<Opened> {
    let opened = Opened(opened);
    file::about(opened.0).is_ok_and(|about| about.uid == uid).then_some(opened)
}

/// A descriptor, for the time of a visit.
struct Opened(i32);

impl Drop for Opened {
    fn drop(&mut self) {
        fd::close(self.0);
    }
}

/// A segment as a process has it, mapped for the time of visits.
pub struct Memory {
    words: Shared,
    pid: u32,
    uid: u32,
}

impl Memory {
    /// Descriptor `number` of process `pid`, if that is memory of user `uid` which cannot shrink.
    pub fn open(pid: u32, number: u32, uid: u32) -> Option<Memory> {
        let opened = of_user(pipe::open_memory_of(pid, number as i32).ok()?, uid)?;
        mem::require_unshrinkable(opened.0).ok()?;
        let len = usize::try_from(mem::file_len(opened.0).ok()?).ok()?;
        let words = mem::map_shared(opened.0, len).ok()?;
        Some(Memory { words, pid, uid })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let _ = mem::retire(self.words);
    }
}

/// The doorbells of client and server.
struct Bells([Opened; 2]);

impl Bells {
    fn open(of: &Memory, header: &SlotHeader) -> Option<Bells> {
        let open = |side: Side| {
            let number = header.sides[side as usize].bell.load(Acquire) as i32;
            of_user(pipe::open_bell_of(of.pid, number).ok()?, of.uid)
        };
        Some(Bells([open(Side::Client)?, open(Side::Server)?]))
    }
}

/// This process's name in the slot.
struct Visitor<'a>(&'a SlotHeader, u64);

impl<'a> Visitor<'a> {
    /// `None` while a living process visits it.
    fn enter(header: &'a SlotHeader) -> Option<Visitor<'a>> {
        let me = name_of(os::process::pid())?;
        let there = header.visitor.load(Relaxed);
        if !is_vacant(there) {
            return None;
        }
        header.visitor.compare_exchange(there, me, SeqCst, Relaxed).ok()?;
        sync::fence(SeqCst);
        Some(Visitor(header, me))
    }
}

impl Drop for Visitor<'_> {
    fn drop(&mut self) {
        let _ = self.0.visitor.compare_exchange(self.1, 0, SeqCst, Relaxed);
    }
}
