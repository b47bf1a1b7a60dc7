//! The registry as this process has it: mapped once, and let go when the process stops being its user's.
//!
//! Of the file only the first part is mapped before more is needed.
//!
//! Owns: the mappings, the descriptor to ask about locks with, and who in this process uses them. No
//! descriptor that stays open can write or cut the file short. A process that gives its user up has nothing
//! of the registry afterwards: the addresses stay valid and read as zero, which every reader takes for
//! "free", and thereby for TCP.

use super::name::{Folder, PATH_LEN};
use super::place;
use crate::process::LOCK_BASE;
use os::file::{self, How};
use os::{fd, mem};
use shm::registry::{FILE_LEN, MAGIC, More, Part, RefusalMap, RegistryMap, VERSION};
use shm::slab::OnceRef;
use sync::Ordering::{Acquire, Relaxed};
use sync::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use wire::reason::Reason;

/// The registry in this process.
pub(crate) struct Registry {
    /// Where it lies.
    pub(crate) folder: Folder,
    map: OnceRef<RegistryMap>,
    refusals: OnceRef<RefusalMap>,
    more: OnceRef<More>,
    /// Whose registry is mapped.
    owner: AtomicU32,
    /// A description of the file that never holds a lock, and can only read: whoever asks about locks asks
    /// through this one. Plus one; 0 for none.
    asking_fd: AtomicI32,
    /// Whether this process has let go of a registry.
    has_left: AtomicBool,
    /// Threads that are between a look at the registry and what they do with it.
    users: Tally,
    /// Threads that are about to change this process's credentials.
    changes: Tally,
    /// A word that a child does not inherit, though it inherits everything else. 1 once the registry is
    /// mapped.
    not_inherited: OnceRef<[AtomicU64; 512]>,
}

/// A count of threads of this process: a fork child has none of those that its parent counted.
struct Tally(AtomicU64);

impl Tally {
    const fn new() -> Self {
        Tally(AtomicU64::new(0))
    }

    fn of(word: u64) -> u32 {
        if word >> 32 == u64::from(os::process::cached_pid()) { word as u32 } else { 0 }
    }

    fn count(&self) -> u32 {
        Self::of(self.0.load(Ordering::SeqCst))
    }

    fn add(&self, by: i32) {
        let changed = |word| {
            let count = Self::of(word).saturating_add_signed(by);
            Some(u64::from(os::process::cached_pid()) << 32 | u64::from(count))
        };
        let _ = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, changed);
    }
}

/// Held while this file uses the registry.
struct Using<'a>(&'a Registry);

impl Drop for Using<'_> {
    fn drop(&mut self) {
        self.0.end_use();
    }
}

impl Registry {
    pub(crate) const fn new() -> Self {
        Registry {
            folder: Folder::new(),
            map: OnceRef::new(),
            refusals: OnceRef::new(),
            more: OnceRef::new(),
            owner: AtomicU32::new(0),
            asking_fd: AtomicI32::new(0),
            has_left: AtomicBool::new(false),
            users: Tally::new(),
            changes: Tally::new(),
            not_inherited: OnceRef::new(),
        }
    }

    /// Begins to use the registry; `false` while the process is about to change its credentials. Ends with
    /// [`end_use`](Self::end_use) in both cases.
    pub(crate) fn begin_use(&self) -> bool {
        self.users.add(1);
        self.changes.count() == 0
    }

    pub(crate) fn end_use(&self) {
        self.users.add(-1);
    }

    fn using(&self) -> Option<Using<'_>> {
        let using = Using(self);
        if self.begin_use() { Some(using) } else { None }
    }

    /// The registry if this process has mapped it already.
    #[inline]
    pub(crate) fn mapped(&self) -> Option<&'static RegistryMap> {
        self.map.get()
    }

    /// Sockets without a row; `None` where the registry is not mapped, or there is no memory for more of it.
    pub(crate) fn refusals(&self) -> Option<&'static RefusalMap> {
        self.refusals.get().or_else(|| self.map_part(&self.refusals))
    }

    /// Connections beyond the first; `None` as above.
    #[inline]
    pub(crate) fn more(&self) -> Option<&'static More> {
        self.more.get().or_else(|| self.map_part(&self.more))
    }

    /// Maps a part of the file behind the first one. (Without a descriptor: after chroot it has no name.)
    #[cold]
    fn map_part<P: Part + Sync>(&self, part: &OnceRef<P>) -> Option<&'static P> {
        // (Counted, whatever it says: whoever calls has asked, or looks at what does not leave.)
        let _using = Using(self);
        self.begin_use();
        let first = self.map.get().filter(|_| !os::confined::is_confined())?;
        let mapped = P::over(mem::map_part(first.words(), P::AT, P::LEN).ok()?)?;
        if !core::ptr::eq(part.set(mapped), mapped) {
            // (Another thread was faster. Nobody has seen this one.)
            let _ = mem::retire(mapped.words());
        }
        sync::fence(Ordering::SeqCst);
        if !self.map.get().is_some_and(|map| core::ptr::eq(map, first)) {
            self.let_go_of(part);
        }
        part.get()
    }

    fn let_go_of<P: Part + Sync>(&self, part: &OnceRef<P>) {
        if let Some(mapped) = part.take() {
            let _ = mem::retire(mapped.words());
        }
    }

    /// Whether this process has given a registry up, and has none now.
    pub(crate) fn has_left(&self) -> bool {
        self.has_left.load(Ordering::Relaxed) && self.mapped().is_none()
    }

    /// Whose registry this process has mapped.
    pub(crate) fn owner(&self) -> Option<u32> {
        self.mapped().map(|_| self.owner.load(Ordering::Relaxed))
    }

    /// Whether the memory in which the registry was mapped was another process's, of which this one has got a
    /// copy (fork, or clone without CLONE_VM). A child that runs in its parent's memory (vfork) is told "no",
    /// as is the parent.
    pub(crate) fn is_a_copy(&self) -> bool {
        self.not_inherited.get().is_some_and(|page| page[0].load(Ordering::Relaxed) == 0)
    }

    fn mark_memory(&self) {
        let page = self.not_inherited.get().or_else(|| {
            let page = mem::map_not_inherited().ok()?.first_chunk()?;
            Some(self.not_inherited.set(page))
        });
        if let Some(page) = page {
            page[0].store(1, Ordering::Relaxed);
        }
    }

    /// In a fork child: the memory is its own now. (Also of a process that has left the registry.)
    pub(crate) fn after_fork(&self) {
        if self.map.get().is_some() || self.not_inherited.get().is_some() {
            self.mark_memory();
        }
    }

    /// The registry if it exists. Reasons: CNFERR (not ours, wrong mode), VERSMISMAT, NOSMCDDEV (there is
    /// none).
    pub(crate) fn existing(&self) -> Result<&'static RegistryMap, Reason> {
        match self.map.get() {
            Some(map) => Ok(map),
            None => self.map_existing(),
        }
    }

    /// The registry, made if need be. Reasons: as [`existing`](Self::existing), MEM if there is no room for
    /// it.
    pub(crate) fn existing_or_new(&self) -> Result<&'static RegistryMap, Reason> {
        match self.existing() {
            Err(Reason::NOSMCDDEV) => self.make().and_then(|()| self.map_existing()),
            Err(Reason::VERSMISMAT) if self.remove_abandoned() => {
                self.make().and_then(|()| self.map_existing())
            }
            other => other,
        }
    }

    fn make(&self) -> Result<(), Reason> {
        if is_too_large_here() {
            return Err(Reason::MEM);
        }
        place::make(&self.folder, user()?)
    }

    /// After an update: the registry of another version is taken away if none of its programs runs any more.
    fn remove_abandoned(&self) -> bool {
        let Ok(uid) = user() else { return false };
        let Ok(file) = place::open(&self.folder, uid, How::READ_WRITE) else {
            return false;
        };
        // (An empty file is nobody's: one is made under another name, and whole before it has this.)
        let is_one = is_registry(file) || mem::file_len(file) == Ok(0);
        let is_abandoned = is_one && !file::is_locked_from(file, LOCK_BASE);
        if is_abandoned {
            place::remove(&self.folder, uid);
        }
        fd::close(file);
        is_abandoned
    }

    /// The descriptor to ask about byte locks with; -1 before the registry is mapped.
    pub(crate) fn asking_fd(&self) -> i32 {
        self.asking_fd.load(Ordering::Relaxed) - 1
    }

    /// A fresh description of the registry file, for reading, at a high number.
    pub(crate) fn reopen(&self) -> Option<i32> {
        let owner = self.owner()?;
        let file = place::open(&self.folder, owner, How::READ).ok().and_then(|low| fd::raise(low).ok())?;
        // The name may be another file's by now: a lock there would tell nobody anything.
        if fd::identity(file) == fd::identity(self.asking_fd()) {
            return Some(file);
        }
        fd::close(file);
        None
    }

    /// Whether a program that this process becomes finds the same file: it has the same user, and the name
    /// leads there (another root or mount may be in force by now).
    pub(crate) fn is_to_be_found(&self) -> bool {
        let Some(owner) = self.owner().filter(|owner| user() == Ok(*owner)) else { return false };
        match place::open(&self.folder, owner, How::READ) {
            Ok(file) => {
                let is_it = fd::identity(file) == fd::identity(self.asking_fd());
                fd::close(file);
                is_it
            }
            // (For want of a number: the next program has more.)
            Err(reason) => reason == Reason::MEM,
        }
    }

    /// Where there is no registry: why none can be made, or PEERNOSMC if one could be, for then nobody
    /// enabled has listened yet.
    pub(crate) fn why_there_is_none(&self) -> Reason {
        let mut path = [0; PATH_LEN];
        let Some(folder) = self.folder.name(&mut path) else {
            return Reason::CNFERR;
        };
        match file::room(folder) {
            Err(_) => Reason::NOSMCDDEV,
            Ok(room) if room < FILE_LEN as u64 => Reason::MEM,
            Ok(_) if !file::may_write(folder) => Reason::NOSMCDDEV,
            Ok(_) if is_too_large_here() => Reason::MEM,
            Ok(_) => Reason::PEERNOSMC,
        }
    }

    fn map_existing(&self) -> Result<&'static RegistryMap, Reason> {
        let _using = self.using().ok_or(Reason::NOSMCDDEV)?;
        let uid = user()?;
        let file = place::open(&self.folder, uid, How::READ_WRITE)?;
        let map = check_and_map(file);
        let asking = map.and_then(|_| self.open_to_ask(uid, file));
        fd::close(file);
        let (map, asking) = (map?, asking?);
        self.owner.store(uid, Ordering::Relaxed);
        self.mark_memory();
        let standing = self.map.set(map);
        if self.asking_fd.compare_exchange(0, asking + 1, Ordering::AcqRel, Ordering::Acquire).is_err() {
            fd::close(asking);
        }
        Ok(standing)
    }

    /// A description that can only read, of the same file as `file`.
    fn open_to_ask(&self, uid: u32, file: i32) -> Result<i32, Reason> {
        let low = place::open(&self.folder, uid, How::READ)?;
        if fd::identity(low) != fd::identity(file) {
            fd::close(low);
            return Err(Reason::CNFERR);
        }
        fd::raise(low).map_err(|_| Reason::MEM)
    }

    /// Before the credentials change: from now on nobody here begins to use the registry, and who does is
    /// waited for, unless that takes longer than anything of ours does (a signal handler that interrupted its
    /// own thread). Whether nobody does. Undone by [`end_change`](Self::end_change).
    pub(crate) fn begin_change(&self) -> bool {
        // (Then a millisecond each: who has lost his core on a busy machine gets it back within some.)
        const LOOKS: u32 = shm::lock::YIELDS + 1000;
        self.changes.add(1);
        (0..LOOKS).any(|times| {
            let is_free = self.users.count() == 0;
            if !is_free {
                crate::turn::give_way(times);
            }
            is_free
        })
    }

    /// The credentials have changed, or could not be.
    pub(crate) fn end_change(&self) {
        self.changes.add(-1);
    }

    /// Lets go of the registry: the mapping, and every descriptor of the file, the parent's inherited ones
    /// included. With them goes the lock by which others know that this process lives; `give_up` forgets its
    /// row.
    pub(crate) fn leave(&self, give_up: impl FnOnce()) {
        let Some(map) = self.map.take() else { return };
        sync::fence(Ordering::SeqCst);
        self.has_left.store(true, Ordering::Relaxed);
        give_up();
        let asking = self.asking_fd.swap(0, Ordering::AcqRel) - 1;
        let identity = fd::identity(asking);
        let _ = mem::retire(map.words());
        self.let_go_of(&self.refusals);
        self.let_go_of(&self.more);
        if identity.is_ok() {
            fd::close_internal(|fd| fd::identity(fd) == identity);
        }
    }
}

/// The user whose registry this process may use. A process between two users (as root for a moment, or for a
/// moment not) is neither's: it would leave the one's registry in the hands of the other.
fn user() -> Result<u32, Reason> {
    let users = os::process::users();
    if users == [users[0]; 3] { Ok(users[0]) } else { Err(Reason::CNFERR) }
}

/// Whether a registry, whose pages are there from its birth on, would be more than our part of what the
/// cgroup of its maker may have: its programs would be killed for memory that is ours.
/// (In frames of its own: paths take room on the stack.)
#[cold]
#[inline(never)]
fn is_too_large_here() -> bool {
    (FILE_LEN as u64) > crate::budget::of_cgroup(os::room::of_cgroups())
}

/// Whether the file begins as every version's registry does.
fn is_registry(file: i32) -> bool {
    const HEAD: usize = 4096;
    if mem::file_len(file).is_ok_and(|len| len < HEAD as u64) {
        return false;
    }
    mem::look(file, HEAD, |words| words.first().is_some_and(|word| word.load(Acquire) == MAGIC))
        .unwrap_or(false)
}

/// What is ours by its name and no registry of any version is somebody's file, and stays: CNFERR.
fn check_and_map(file: i32) -> Result<&'static RegistryMap, Reason> {
    let len = mem::file_len(file).map_err(|_| Reason::CNFERR)?;
    if len < FILE_LEN as u64 {
        let is_one = len == 0 || is_registry(file);
        return Err(if is_one { Reason::VERSMISMAT } else { Reason::CNFERR });
    }
    let words = mem::map_shared(file, RegistryMap::LEN).map_err(|_| Reason::MEM)?;
    let map = RegistryMap::over(words).ok_or(Reason::MEM)?;
    let refused = match (map.magic.load(Acquire), map.version.load(Relaxed)) {
        (MAGIC, VERSION) => None,
        (MAGIC, _) => Some(Reason::VERSMISMAT),
        _ => Some(Reason::CNFERR),
    };
    if let Some(reason) = refused {
        let _ = mem::retire(words);
        return Err(reason);
    }
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that has left its registry has the word still, and so does a child of it, empty.
    #[test]
    fn a_child_of_one_that_has_left_counts_itself_once() {
        let registry = Registry::new();
        registry.mark_memory();
        assert!(!registry.is_a_copy() && registry.map.get().is_none());
        // (As the kernel does it in a child.)
        registry.not_inherited.get().expect("a page")[0].store(0, Relaxed);
        assert!(registry.is_a_copy());
        registry.after_fork();
        assert!(!registry.is_a_copy(), "it has counted itself");
    }
}
