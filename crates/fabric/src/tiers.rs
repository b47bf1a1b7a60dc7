//! The tiers of a process as one: the local tier, and beside it the host tier if the environment asks for it.
//! Owns: which of them is asked, by what the name of a peer or the number of its memory says; a process that
//! does not ask for the host tier pays one load where it could be meant.

use crate::door::{
    Carrier, ClientSocket, Directory, Doorbell, End, ForeignMemory, Key, Letter, Life, Memory, Rendezvous,
    Whereabouts,
};
use crate::host::{HolderOfMemory, Host};
use crate::local::Local;
use crate::process::ProcessId;
use crate::slot::SlotView;
use os::Errno;
use os::mem::Shared;
use os::net::Endpoint;
use shm::layout::MAIL_LEN;
use shm::registry::{More, RefusalMap, RegistryMap};
use wire::reason::Reason;

/// Both.
pub struct Tiers {
    local: Local,
    host: Host,
}

impl Tiers {
    /// Nothing is opened, mapped or known yet.
    pub const fn new() -> Self {
        Tiers { local: Local::new(), host: Host::new() }
    }

    /// The host tier, if it is asked for.
    #[inline]
    pub fn host(&self) -> Option<&Host> {
        self.host.is_asked_for().then_some(&self.host)
    }
}

impl Default for Tiers {
    fn default() -> Self {
        Self::new()
    }
}

impl Directory for Tiers {
    #[inline(always)]
    fn mapped(&self) -> Option<&'static RegistryMap> {
        self.local.mapped()
    }

    fn refusals(&self) -> Option<&'static RefusalMap> {
        self.local.refusals()
    }

    #[inline(always)]
    fn more(&self) -> Option<&'static More> {
        self.local.more()
    }

    #[inline(always)]
    fn existing(&self) -> Result<&'static RegistryMap, Reason> {
        self.local.existing()
    }

    #[inline(always)]
    fn existing_or_new(&self) -> Result<&'static RegistryMap, Reason> {
        self.local.existing_or_new()
    }

    #[inline(always)]
    fn why_there_is_none(&self) -> Reason {
        self.local.why_there_is_none()
    }

    #[inline(always)]
    fn begin_use(&self) -> bool {
        self.local.begin_use()
    }

    #[inline(always)]
    fn end_use(&self) {
        self.local.end_use();
    }

    #[inline(always)]
    fn begin_change(&self) -> bool {
        self.local.begin_change()
    }

    #[inline(always)]
    fn end_change(&self) {
        self.local.end_change();
    }

    fn leave(&self) {
        if let Some(host) = self.host() {
            host.leave();
        }
        self.local.leave();
    }

    #[inline(always)]
    fn spare(&self) {
        self.local.spare();
    }

    #[inline(always)]
    fn has_left(&self) -> bool {
        self.local.has_left()
    }

    #[inline(always)]
    fn owner(&self) -> Option<u32> {
        self.local.owner()
    }

    fn is_to_be_found(&self) -> bool {
        self.local.is_to_be_found()
    }

    #[inline(always)]
    fn is_a_copy(&self) -> bool {
        self.local.is_a_copy()
    }

    fn after_fork(&self) {
        self.local.after_fork();
        if let Some(host) = self.host() {
            host.after_fork();
        }
    }

    fn set(&self, name: &[u8], value: &[u8]) {
        self.local.set(name, value);
        self.host.set(name, value);
    }
}

impl Rendezvous for Tiers {
    /// (Where the daemon cannot be had the local tier serves alone.)
    fn announce(&self, fd: i32) -> Result<u64, Reason> {
        let cookie = self.local.announce(fd)?;
        if let Some(host) = self.host() {
            host.listen(cookie);
        }
        Ok(cookie)
    }

    fn withdraw(&self, key: u64, at: Endpoint) {
        self.local.withdraw(key, at);
        if let Some(host) = self.host() {
            host.forget(key);
        }
    }

    #[inline(always)]
    fn is_announced(&self, key: u64, port: u16) -> bool {
        self.local.is_announced(key, port)
    }

    fn is_kept(&self, key: u64, port: u16) -> bool {
        self.local.is_kept(key, port)
    }

    fn forget(&self, key: u64, fd: i32) {
        self.local.forget(key, fd);
        if let Some(host) = self.host() {
            host.forget(key);
        }
    }

    /// Whoever is not found here may be found by what travels with the SYN.
    #[inline(always)]
    fn owner_of(&self, fd: i32, target: Endpoint) -> Result<ProcessId, Reason> {
        let found = self.local.owner_of(fd, target);
        match found {
            Err(Reason::PEERNOSMC | Reason::NOSMCDDEV) => match self.host() {
                Some(host) => host.owner_of(target, self.mapped()),
                None => found,
            },
            found => found,
        }
    }
}

/// Memory of either tier; its descriptor is somebody else's to close.
pub struct Found {
    number: i32,
    /// Where the daemon has passed it: the number by which it is held.
    held: Option<i32>,
}

impl ForeignMemory for Found {
    #[inline(always)]
    fn size(&self) -> Result<usize, Reason> {
        os::mem::require_unshrinkable(self.number).map_err(|_| Reason::SYNCERR)?;
        os::mem::file_len(self.number).map(|len| len as usize).map_err(|_| Reason::SYNCERR)
    }

    #[inline(always)]
    fn identity(&self) -> Result<(u64, u64), Reason> {
        os::fd::identity(self.number).map_err(|_| Reason::SYNCERR)
    }

    #[inline(always)]
    fn map(&self, len: usize) -> Result<Shared, Reason> {
        os::mem::map_shared(self.number, len).map_err(|_| Reason::MEM)
    }

    #[inline(always)]
    fn map_over(&self, old: Shared) -> bool {
        os::mem::remap_shared(old, self.number).is_ok()
    }

    #[inline(always)]
    fn keep(&self) -> i32 {
        self.held.unwrap_or_else(|| crate::local::keep_to_read(self.number))
    }
}

impl Memory for Tiers {
    type Foreign = Found;

    #[inline(always)]
    fn make(&self, len: usize, nonce: u64) -> Result<(Shared, i32), Reason> {
        self.local.make(len, nonce)
    }

    #[inline(always)]
    fn make_over(&self, old: Shared, nonce: u64) -> Result<i32, Reason> {
        self.local.make_over(old, nonce)
    }

    #[inline(always)]
    fn make_for(&self, peer: ProcessId, len: usize, nonce: u64) -> Result<(Shared, i32), Reason> {
        if peer.is_far() { self.host.make(len, nonce) } else { self.local.make(len, nonce) }
    }

    #[inline(always)]
    fn make_over_for(&self, peer: ProcessId, old: Shared, nonce: u64) -> Result<i32, Reason> {
        if peer.is_far() { self.host.make_over(old, nonce) } else { self.local.make_over(old, nonce) }
    }

    #[inline(always)]
    fn is_held_elsewhere(&self, number: i32) -> bool {
        self.host.is_held_elsewhere(number)
    }

    #[inline(always)]
    fn is_held_by_maker(&self, kept: i32) -> bool {
        self.host.is_held_by_maker(kept)
    }

    fn note_revoked(&self) {
        self.host.begin_anew();
    }

    fn open<R>(
        &self,
        place: &Whereabouts,
        mut attach: impl FnMut(&Found) -> Result<R, Reason>,
    ) -> Result<R, Reason> {
        match place.holder.client_number() {
            Some(_) => self.host.open_held(place, |number, held| attach(&Found { number, held: Some(held) })),
            None => self.local.open(place, |memory| attach(&Found { number: memory.number(), held: None })),
        }
    }

    #[inline(always)]
    fn close(&self, number: i32) {
        match self.host.has_memory(number) {
            true => self.host.close(number),
            false => self.local.close(number),
        }
    }

    /// (The next program would not find what belongs to it, and hold it for nobody.)
    #[inline(always)]
    fn keep_over_exec(&self, number: i32, on: bool) {
        if !self.host.has_memory(number) {
            self.local.keep_over_exec(number, on);
        }
    }

    #[inline(always)]
    fn retire(&self, memory: Shared) {
        self.local.retire(memory);
    }

    #[inline(always)]
    fn give_back_pages(&self, memory: Shared) {
        self.local.give_back_pages(memory);
    }

    #[inline(always)]
    fn note_adopted(&self) {
        self.local.note_adopted();
    }

    fn take_over_inherited(&self) {
        self.local.take_over_inherited();
    }
}

/// Who has doorbells: a process, or a client of the daemon.
#[derive(Clone, Copy)]
pub enum Holder {
    /// By its process id.
    Local(u32),
    /// By the memory that was passed.
    Host(HolderOfMemory),
}

impl Doorbell for Tiers {
    type Holder = Holder;

    #[inline(always)]
    fn hang(&self, memory: i32) -> Result<i32, Reason> {
        if self.host.has_memory(memory) { self.host.hang(memory) } else { self.local.hang(memory) }
    }

    #[inline(always)]
    fn holder(&self, place: &Whereabouts, identity: (u64, u64)) -> Result<Holder, Reason> {
        match place.holder.client_number() {
            Some(_) => self.host.holder(place, identity).map(Holder::Host),
            None => self.local.holder(place, identity).map(Holder::Local),
        }
    }

    #[inline(always)]
    fn open_bell(&self, holder: Holder, number: i32) -> Result<i32, Reason> {
        match holder {
            Holder::Local(pid) => self.local.open_bell(pid, number),
            Holder::Host(holder) => self.host.open_bell(holder, number),
        }
    }

    #[inline(always)]
    fn drop_bell(&self, bell: i32) {
        match self.host() {
            Some(host) => host.drop_bell(bell),
            None => self.local.drop_bell(bell),
        }
    }

    #[inline(always)]
    fn ring(&self, bell: i32) {
        self.local.ring(bell);
    }

    fn ring_every(&self, pid: u32) -> bool {
        self.local.ring_every(pid)
    }

    #[inline(always)]
    fn drain(&self, bell: i32) {
        self.local.drain(bell);
    }

    #[inline(always)]
    fn keep_bell_over_exec(&self, bell: i32, on: bool) {
        self.local.keep_bell_over_exec(bell, on);
    }
}

impl Life for Tiers {
    #[inline(always)]
    fn me(&self, map: &'static RegistryMap) -> Option<ProcessId> {
        self.local.me(map)
    }

    #[inline(always)]
    fn is_alive(&self, map: &RegistryMap, process: ProcessId) -> bool {
        if process.is_far() { self.host.is_wanted(process) } else { self.local.is_alive(map, process) }
    }

    #[inline(always)]
    fn name(&self) -> u64 {
        self.local.name()
    }

    #[inline(always)]
    fn is_name_alive(&self, name: u64) -> bool {
        self.local.is_name_alive(name)
    }

    #[inline(always)]
    fn pid_of(&self, name: u64) -> u32 {
        self.local.pid_of(name)
    }
}

impl Key for Tiers {
    #[inline(always)]
    fn own(&self, fd: i32) -> Result<u64, Errno> {
        self.local.own(fd)
    }

    #[inline(always)]
    fn carry(&self, fd: i32, key: u64) -> Result<(), Reason> {
        self.local.carry(fd, key)
    }

    #[inline(always)]
    fn of_client(&self, fd: i32, local: Endpoint, peer: Endpoint) -> Result<ClientSocket, Errno> {
        self.local.of_client(fd, local, peer)
    }
}

impl End for Tiers {
    #[inline(always)]
    fn is_told_by_tcp(&self, view: &SlotView) -> bool {
        self.local.is_told_by_tcp(view)
    }

    #[inline(always)]
    fn is_over(&self, view: &SlotView) -> bool {
        self.local.is_over(view)
    }
}

impl Carrier for Tiers {
    #[inline(always)]
    fn put(&self, view: &SlotView, fd: i32, letter: Letter, message: &[u8]) -> Result<(), Reason> {
        self.local.put(view, fd, letter, message)
    }

    #[inline(always)]
    fn take<'a>(
        &self,
        view: &SlotView,
        fd: i32,
        letter: Letter,
        into: &'a mut [u8; MAIL_LEN],
    ) -> Result<&'a [u8], Reason> {
        self.local.take(view, fd, letter, into)
    }
}
