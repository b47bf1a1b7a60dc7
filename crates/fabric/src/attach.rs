//! The server's view of memory that clients offer: segments opened through `/proc/PID/fd`, kept for later connections.
//! Owns: the proof that what was opened is what was meant (seals, length, nonce), and when a mapping is let go.

use crate::connection::{self, RowId};
use crate::process::ProcessId;
use crate::registry;
use crate::slot::SlotView;
use crate::turn::Turn;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering::Relaxed};
use os::mem::{self, Shared};
use os::net::Endpoint;
use os::{diag, pipe};
use shm::Side;
use shm::segment::{Geometry, RING_MAX, SLOTS_MAX, Segment};
use shm::slab::{Index, LEAF, Slab};
use wire::reason::Reason;

/// Most segments of other processes mapped here at once.
const SEGMENTS: usize = 4096;
/// No segment is longer.
const LONGEST: usize = Geometry { slots: SLOTS_MAX, ring_size: RING_MAX }.len();

/// A foreign segment mapped here. The address range and geometry never change; what it shows may.
struct Attached {
    memory: Shared,
    segment: Segment,
    nonce: AtomicU64,
    owner: AtomicU64,
    /// Device and inode of the memory: whoever has it open is its owner, or was started by it.
    identity: [AtomicU64; 2],
    /// Kept so that tools find the memory when its owner is dead; -1 for none. It can only read: nobody takes this process for
    /// one in which the owner's numbers mean what the owner says.
    fd: AtomicI32,
    /// Connections on it in this process.
    live: AtomicU32,
    /// Views of its slots, plus one.
    views: [AtomicU32; SLOTS_MAX as usize],
}

static TURN: Turn = Turn::new();
/// Whether this process got sockets from another one: only then memory may have come with them.
static HAS_ADOPTED: AtomicBool = AtomicBool::new(false);

/// A socket came from another process, or from the program that this one was before.
pub fn note_adopted() {
    HAS_ADOPTED.store(true, Relaxed);
}
static TABLE: Slab<Attached, { SEGMENTS / LEAF }> = Slab::new();

fn word(process: ProcessId) -> u64 {
    u64::from(process.row) << 32 | u64::from(process.generation)
}

fn process(word: u64) -> ProcessId {
    ProcessId { row: (word >> 32) as u32, generation: word as u32 }
}

/// Maps the slot that `row` offers and opens its doorbells.
/// Reasons: OPTUNSUPP where the process is closed to others (undumpable), NOSMCDDEV where /proc does not show it, VERSMISMAT,
/// SYNCERR for what contradicts itself, MEM.
pub fn open(row_id: RowId) -> Result<(Index, &'static SlotView), Reason> {
    let row = connection::row(row_id).ok_or(Reason::SYNCERR)?;
    let nonce = row.nonce.load(shm::sync::Ordering::Relaxed);
    let owner_pid = row.owner_pid.load(shm::sync::Ordering::Relaxed);
    let slot = row.slot.load(shm::sync::Ordering::Relaxed);
    let owner = ProcessId::load(&row.sides[Side::Client as usize].process);
    let _turn = TURN.take().ok_or(Reason::SYNCERR)?;
    if nonce == 0 {
        return Err(Reason::SYNCERR);
    }
    let memfd = row.memfd.load(shm::sync::Ordering::Relaxed) as i32;
    let (index, attached) = match known(nonce, owner) {
        Some(attached) => attached,
        None => attach(owner_pid, memfd, nonce, owner).or_else(|reason| {
            let from = ProcessId::load(&row.sides[Side::Server as usize].process);
            attach_held(from, nonce, owner).ok_or(reason)
        })?,
    };
    let view = view_of(index, attached, slot)?;
    if !view.1.has_bells() {
        open_bells(attached, view.1, owner, (owner_pid, memfd))?;
    }
    attached.live.fetch_add(1, Relaxed);
    Ok(view)
}

/// Opens the doorbells of a slot. Where the client's process has died and nobody holds its end, nobody will ring them: then
/// bytes that it left in the ring are to be read still, by a program that was exec'ed meanwhile.
fn open_bells(
    attached: &Attached,
    view: &SlotView,
    owner: ProcessId,
    (pid, memfd): (u32, i32),
) -> Result<(), Reason> {
    match holder_of(attached, pid, memfd) {
        Ok(holder) => view.open_bells(holder).map_err(denied),
        Err(errno) => {
            let is_left = registry::mapped().is_some_and(|map| !owner.is_alive(map))
                && !crate::member::has_living(&view.header().sides[Side::Client as usize]);
            if is_left && view.hang_private_bells() { Ok(()) } else { Err(denied(errno)) }
        }
    }
}

/// Why a descriptor of the client's could not be had.
fn denied(errno: os::Errno) -> Reason {
    match errno {
        // A process that changed its ids, or made itself undumpable, shows its descriptors to nobody of its own user.
        os::Errno::EACCES | os::Errno::EPERM => Reason::OPTUNSUPP,
        _ if errno.is_shortage() => Reason::MEM,
        _ => Reason::NOSMCDDEV,
    }
}

fn all() -> impl Iterator<Item = (Index, &'static Attached)> {
    (0..TABLE.made()).filter_map(|index| Some((Index(index), TABLE.get(Index(index))?)))
}

/// A client's row may name its own segments only.
fn known(nonce: u64, owner: ProcessId) -> Option<(Index, &'static Attached)> {
    all().find(|(_, attached)| {
        attached.nonce.load(Relaxed) == nonce && attached.owner.load(Relaxed) == word(owner)
    })
}

fn view_of(
    home: Index,
    attached: &'static Attached,
    slot: u32,
) -> Result<(Index, &'static SlotView), Reason> {
    let place = attached.views.get(slot as usize).ok_or(Reason::SYNCERR)?;
    if let Some(index) = place.load(Relaxed).checked_sub(1) {
        return SlotView::get(Index(index)).map(|view| (Index(index), view)).ok_or(Reason::SYNCERR);
    }
    let (index, view) = SlotView::make(attached.segment, slot, home.0).ok_or(Reason::SYNCERR)?;
    place.store(index.0 + 1, Relaxed);
    Ok((index, view))
}

/// The process in which the doorbells of a segment are to be found under their numbers: the one that made it or, after
/// exec, this one, which was given them. It has the memory itself open, to write, or it is none of these: a pid may be
/// another's by now, and numbers that a peer wrote must not lead to descriptors of this program.
fn holder_of(attached: &Attached, owner_pid: u32, memfd: i32) -> os::Result<u32> {
    let identity = attached.identity.each_ref().map(|word| word.load(Relaxed));
    for pid in [owner_pid, os::process::cached_pid()] {
        match pipe::identity_of(pid, memfd) {
            Ok(found) if found == (identity[0], identity[1]) => return Ok(pid),
            Err(errno) if errno.is_shortage() => return Err(errno),
            _ => {}
        }
    }
    Err(os::Errno::ENOENT)
}

fn attach(pid: u32, memfd: i32, nonce: u64, owner: ProcessId) -> Result<(Index, &'static Attached), Reason> {
    // After exec the descriptors are this process's own, under the same numbers; the nonce tells.
    let own = |errno: os::Errno| match errno.is_shortage() {
        true => Err(errno),
        false => pipe::open_memory_of(os::process::cached_pid(), memfd).map_err(|_| errno),
    };
    let fd = match pipe::open_memory_of(pid, memfd).or_else(own) {
        Ok(fd) => fd,
        Err(errno) if HAS_ADOPTED.load(Relaxed) => {
            return attach_inherited(nonce, owner).map_err(|_| denied(errno));
        }
        Err(errno) => return Err(denied(errno)),
    };
    keep(fd, map(fd, nonce, owner))
}

/// The client's process has died; the one that passed the socket on may still have its memory.
#[cold]
#[inline(never)]
fn attach_held(from: ProcessId, nonce: u64, owner: ProcessId) -> Option<(Index, &'static Attached)> {
    /// Descriptors of ours are out of a program's way.
    const LOWEST: i32 = 128;
    let map = registry::mapped()?;
    if !HAS_ADOPTED.load(Relaxed) || from.is_me() || !from.is_alive(map) {
        return None;
    }
    let (pid, mut found) = (from.pid(map), None);
    let _ = os::file::each_descriptor_of(pid, |fd| {
        if found.is_none()
            && fd >= LOWEST
            && let Ok(memory) = pipe::open_held_memory(pid, fd)
        {
            found = keep(memory, self::map(memory, nonce, owner)).ok();
        }
    });
    found
}

/// The client's process has died; the program that this one was before may have handed its memory on.
#[cold]
#[inline(never)]
fn attach_inherited(nonce: u64, owner: ProcessId) -> Result<(Index, &'static Attached), Reason> {
    let mut found = Err(Reason::NOSMCDDEV);
    let _ = os::file::each_own_descriptor(|fd| {
        if found.is_err()
            && let Ok(memory) = pipe::open_inherited_memory(fd)
        {
            found = keep(memory, map(memory, nonce, owner));
            if found.is_ok() {
                os::fd::close(fd);
            }
        }
    });
    found
}

/// Goes on from the descriptor of a segment that was mapped, or not.
fn keep(
    fd: i32,
    attached: Result<(Index, &'static Attached), Reason>,
) -> Result<(Index, &'static Attached), Reason> {
    // The mapping keeps the memory alive, with or without its owner. (While the credentials change nothing more is kept.)
    if let (Ok((_, attached)), Some(_using)) = (&attached, registry::using()) {
        attached.fd.store(pipe::reopen_memory_to_read(fd).unwrap_or(-1), Relaxed);
    }
    os::fd::close(fd);
    attached
}

fn map(fd: i32, nonce: u64, owner: ProcessId) -> Result<(Index, &'static Attached), Reason> {
    mem::require_unshrinkable(fd).map_err(|_| Reason::SYNCERR)?;
    let len = mem::file_len(fd).map_err(|_| Reason::SYNCERR)? as usize;
    if len > LONGEST {
        return Err(Reason::SYNCERR);
    }
    let (device, inode) = os::fd::identity(fd).map_err(|_| Reason::SYNCERR)?;
    if let Some(reused) = remap(fd, len, nonce, owner) {
        return Ok(reused);
    }
    let memory = mem::map_shared(fd, len).map_err(|_| Reason::MEM)?;
    let segment = Segment::attach(memory, nonce).map_err(|refused| {
        let _ = mem::retire(memory);
        match refused {
            shm::segment::Refused::Version => Reason::VERSMISMAT,
            _ => Reason::SYNCERR,
        }
    })?;
    TABLE
        .take(mem::more, || Attached {
            memory,
            segment,
            nonce: AtomicU64::new(nonce),
            owner: AtomicU64::new(word(owner)),
            identity: [AtomicU64::new(device), AtomicU64::new(inode)],
            fd: AtomicI32::new(-1),
            live: AtomicU32::new(0),
            views: [const { AtomicU32::new(0) }; SLOTS_MAX as usize],
        })
        .ok_or(Reason::MEM)
}

/// Maps `fd` where a segment of a dead process lay, if there is one of the same shape. Dead ones are let go on the way.
fn remap(fd: i32, len: usize, nonce: u64, owner: ProcessId) -> Option<(Index, &'static Attached)> {
    let map = registry::mapped()?;
    let idle = all().filter(|(_, attached)| attached.live.load(Relaxed) == 0);
    let mut fitting = None;
    for (index, attached) in idle {
        if attached.nonce.load(Relaxed) != 0 {
            if process(attached.owner.load(Relaxed)).is_alive(map) {
                continue;
            }
            let_go(attached);
        }
        if size_of_val(attached.memory) == len {
            fitting = Some((index, attached));
        }
    }
    let (index, attached) = fitting?;
    mem::remap_shared(attached.memory, fd).ok()?;
    match Segment::attach(attached.memory, nonce) {
        Ok(segment) if segment.geometry() == attached.segment.geometry() => {
            let (device, inode) = os::fd::identity(fd).unwrap_or_default();
            attached.identity[0].store(device, Relaxed);
            attached.identity[1].store(inode, Relaxed);
            attached.owner.store(word(owner), Relaxed);
            attached.nonce.store(nonce, Relaxed);
            Some((index, attached))
        }
        _ => {
            let _ = mem::retire(attached.memory);
            None
        }
    }
}

fn let_go(attached: &Attached) {
    attached.nonce.store(0, Relaxed);
    drop_descriptor(attached);
    for place in &attached.views {
        if let Some(view) = place.load(Relaxed).checked_sub(1).and_then(|index| SlotView::get(Index(index))) {
            view.drop_bells();
        }
    }
    let _ = mem::retire(attached.memory);
}

fn drop_descriptor(attached: &Attached) {
    let fd = attached.fd.swap(-1, Relaxed);
    if fd >= 0 {
        os::fd::close(fd);
    }
}

/// Lets the memory of an attached slot survive exec (`on`), so that the next program finds what is left in its ring though the
/// client's process dies meanwhile; or takes that back, after an exec that failed.
pub fn keep_over_exec(view: &SlotView, on: bool) {
    if let Some(attached) = TABLE.get(Index(view.home.load(Relaxed))) {
        let fd = attached.fd.load(Relaxed);
        if fd >= 0 {
            let _ = os::fd::set_cloexec(fd, !on);
        }
    }
}

/// A connection of this process on an attached slot is gone.
pub fn done(view: &SlotView) {
    if let Some(attached) = TABLE.get(Index(view.home.load(Relaxed))) {
        if attached.nonce.load(Relaxed) == 0 {
            // It was kept when all around it was let go.
            view.drop_bells();
            crate::leaving::drop_one(&view.segment(), view.number());
        }
        attached.live.fetch_sub(1, Relaxed);
    }
}

/// The process gives its user up: no segment serves another connection here. `kept` says which slots of one stay.
pub(crate) fn leave(kept: impl Fn(&Segment) -> u64) {
    for (_, attached) in all() {
        match kept(&attached.segment) {
            0 => let_go(attached),
            slots => {
                attached.nonce.store(0, Relaxed);
                drop_descriptor(attached);
                crate::leaving::drop_all_but(&attached.segment, slots);
            }
        }
    }
}

/// Remembers the two addresses of a slot's connection, for the day the slot is wanted again.
pub fn note_addresses(view: &SlotView, client: Endpoint, server: Endpoint) {
    view.client.store(client);
    view.server.store(server);
}

/// Whether the kernel knows neither socket of the slot's last connection as open any more.
pub(crate) fn sockets_are_gone(view: &SlotView) -> bool {
    let (client, server) = (view.client.load(), view.server.load());
    if client.port == 0 || server.port == 0 {
        return false;
    }
    let header = view.header();
    // Only the kernel's own "no" counts, and an end that has not signed yet may be anybody's.
    let is_open = |local, remote, cookie: u64| match diag::lookup(local, remote) {
        Ok(found) => (found.cookie == cookie || cookie == 0) && found.inode != 0,
        Err(errno) => errno != os::Errno::ENOENT,
    };
    let order = shm::sync::Ordering::Relaxed;
    !is_open(client, server, header.client_cookie.load(order))
        && !is_open(server, client, header.server_cookie.load(order))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer names a number of ours under which its memory lies: it is not taken for one that exec gave us, and the numbers of
    /// doorbells that the peer wrote lead nowhere.
    #[test]
    fn a_descriptor_that_is_kept_for_the_tools_is_nobody_elses() {
        let geometry = Geometry { slots: 1, ring_size: 16384 };
        let memfd = mem::sealed_memfd(c"isthmus-test", geometry.len() as u64).expect("memory");
        let memory = mem::map_shared(memfd, geometry.len()).expect("mapped");
        Segment::format(memory, geometry, 42).expect("a segment");
        let (own, nobody) = (os::process::pid(), u32::MAX);
        os::process::refresh_pid();
        let owner = ProcessId { row: 0, generation: 1 };
        let (_, attached) = attach(own, memfd, 42, owner).expect("attached");
        let kept = attached.fd.load(Relaxed);
        assert!(os::fd::is_internal(kept) && os::fd::is_cloexec(kept));
        assert_eq!(os::fd::identity(kept), os::fd::identity(memfd));
        assert_eq!(holder_of(attached, nobody, memfd), Ok(own), "given at exec");
        for pid in [nobody, own] {
            assert_eq!(holder_of(attached, pid, kept), Err(os::Errno::ENOENT));
            assert_eq!(attach(pid, kept, 42, owner).err(), Some(Reason::NOSMCDDEV));
        }
        let_go(attached);
        assert!(!os::fd::is_internal(kept) && os::fd::identity(kept).is_err());
        os::fd::close(memfd);
    }
}
