//! A tier for tests: two ends on a machine that is nothing but this file. Memory is one window that both have
//! mapped, bells are counts, who lives is a flag, keys are tokens drawn by the client, the end is said by
//! flags in the slot, and letters go over a stream which breaks them apart. Owns: no question is answered by
//! a kernel, or as the local tier answers it.

use super::Rung;
use fabric::Reason;
use fabric::door::{
    Carrier, ClientSocket, Directory, Doorbell, End, ForeignMemory, Key, Letter, Life, Memory, Rendezvous,
    Whereabouts,
};
use fabric::process::ProcessId;
use fabric::slot::SlotView;
use os::Errno;
use os::mem::Shared;
use os::net::Endpoint;
use shm::ClosedBy;
use shm::layout::MAIL_LEN;
use shm::registry::{More, Part as _, RefusalMap, RegistryMap};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, MutexGuard};
use sync::Ordering::{Acquire, Relaxed, SeqCst};

/// Both ends of a stream between the two sockets of a connection.
#[derive(Default)]
struct Stream {
    bytes: VecDeque<u8>,
    /// What has been sent, and arrives with the next look.
    in_flight: VecDeque<u8>,
}

/// What the two ends share.
pub(crate) struct Machine {
    map: &'static RegistryMap,
    is_made: AtomicBool,
    is_killed: [AtomicBool; 2],
    tokens: AtomicU64,
    listeners: Mutex<HashMap<u16, (ProcessId, u64)>>,
    memory: Mutex<Vec<Shared>>,
    bells: Mutex<Vec<u64>>,
    keys: Mutex<HashMap<i32, u64>>,
    streams: Mutex<HashMap<u64, Stream>>,
}

fn lock<V>(shared: &Mutex<V>) -> MutexGuard<'_, V> {
    shared.lock().expect("no test panics with a lock")
}

impl Machine {
    pub(crate) fn new() -> &'static Machine {
        let words = os::mem::map_private(RegistryMap::LEN).expect("memory");
        Box::leak(Box::new(Machine {
            map: RegistryMap::over(words).expect("it is long enough"),
            is_made: AtomicBool::new(false),
            is_killed: [const { AtomicBool::new(false) }; 2],
            tokens: AtomicU64::new(0x5A5A_0000),
            listeners: Mutex::default(),
            memory: Mutex::default(),
            bells: Mutex::default(),
            keys: Mutex::default(),
            streams: Mutex::default(),
        }))
    }

    /// End number `which` of it.
    pub(crate) fn tier(&'static self, which: u32) -> Twin {
        Twin { machine: self, which, has_mapped: AtomicBool::new(false) }
    }

    /// An end dies without a word.
    pub(crate) fn kill(&self, which: usize) {
        self.is_killed[which].store(true, SeqCst);
    }

    fn lives(&self, row: u32) -> bool {
        self.is_killed.get(row as usize).is_some_and(|is_killed| !is_killed.load(SeqCst))
    }
}

/// One end.
pub(crate) struct Twin {
    machine: &'static Machine,
    which: u32,
    has_mapped: AtomicBool,
}

impl Directory for Twin {
    fn mapped(&self) -> Option<&'static RegistryMap> {
        self.has_mapped.load(Acquire).then_some(self.machine.map)
    }

    fn refusals(&self) -> Option<&'static RefusalMap> {
        None
    }

    fn more(&self) -> Option<&'static More> {
        None
    }

    fn existing(&self) -> Result<&'static RegistryMap, Reason> {
        if !self.machine.is_made.load(Acquire) {
            return Err(Reason::NOSMCDDEV);
        }
        self.has_mapped.store(true, SeqCst);
        Ok(self.machine.map)
    }

    fn existing_or_new(&self) -> Result<&'static RegistryMap, Reason> {
        self.machine.is_made.store(true, SeqCst);
        self.existing()
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

    fn leave(&self) {
        self.has_mapped.store(false, SeqCst);
    }

    fn has_left(&self) -> bool {
        false
    }

    fn spare(&self) {}

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

impl Rendezvous for Twin {
    fn announce(&self, fd: i32) -> Result<u64, Reason> {
        let at = os::net::local(fd).map_err(|_| Reason::CNFERR)?;
        let me = self.me(self.existing_or_new()?).ok_or(Reason::MEM)?;
        let token = self.machine.tokens.fetch_add(1, SeqCst);
        lock(&self.machine.listeners).insert(at.port, (me, token));
        Ok(token)
    }

    fn withdraw(&self, key: u64, at: Endpoint) {
        lock(&self.machine.listeners).retain(|port, (_, token)| (*port, *token) != (at.port, key));
    }

    fn is_announced(&self, key: u64, port: u16) -> bool {
        lock(&self.machine.listeners).get(&port).is_some_and(|(_, token)| *token == key)
    }

    fn forget(&self, key: u64, _fd: i32) {
        lock(&self.machine.listeners).retain(|_, (_, token)| *token != key);
    }

    fn owner_of(&self, _fd: i32, target: Endpoint) -> Result<ProcessId, Reason> {
        self.existing()?;
        let owner = lock(&self.machine.listeners).get(&target.port).map(|(owner, _)| *owner);
        owner.filter(|owner| self.machine.lives(owner.row)).ok_or(Reason::PEERNOSMC)
    }
}

/// A part of the window.
pub(crate) struct Part {
    number: usize,
    words: Shared,
}

impl ForeignMemory for Part {
    fn size(&self) -> Result<usize, Reason> {
        Ok(size_of_val(self.words))
    }

    fn identity(&self) -> Result<(u64, u64), Reason> {
        Ok((0, self.number as u64))
    }

    fn map(&self, _len: usize) -> Result<Shared, Reason> {
        Ok(self.words)
    }

    fn map_over(&self, _old: Shared) -> bool {
        false
    }

    fn keep(&self) -> i32 {
        -1
    }
}

impl Memory for Twin {
    type Foreign = Part;

    fn make(&self, len: usize, _nonce: u64) -> Result<(Shared, i32), Reason> {
        let words = os::mem::map_private(len).map_err(|_| Reason::MEM)?;
        let mut memory = lock(&self.machine.memory);
        memory.push(words);
        Ok((words, memory.len() as i32 - 1))
    }

    fn make_over(&self, old: Shared, _nonce: u64) -> Result<i32, Reason> {
        old.iter().for_each(|word| word.store(0, Relaxed));
        let mut memory = lock(&self.machine.memory);
        memory.push(old);
        Ok(memory.len() as i32 - 1)
    }

    fn open<R>(
        &self,
        place: &Whereabouts,
        mut attach: impl FnMut(&Part) -> Result<R, Reason>,
    ) -> Result<R, Reason> {
        let number = usize::try_from(place.number).map_err(|_| Reason::SYNCERR)?;
        let words = lock(&self.machine.memory).get(number).copied().ok_or(Reason::NOSMCDDEV)?;
        attach(&Part { number, words })
    }

    fn close(&self, _number: i32) {}

    fn keep_over_exec(&self, _number: i32, _on: bool) {}

    /// (A window stays for the life of a guest.)
    fn retire(&self, _memory: Shared) {}

    fn give_back_pages(&self, memory: Shared) {
        memory.iter().for_each(|word| word.store(0, Relaxed));
    }

    fn note_adopted(&self) {}
}

impl Doorbell for Twin {
    type Holder = ();

    fn hang(&self, _memory: i32) -> Result<i32, Reason> {
        let mut bells = lock(&self.machine.bells);
        bells.push(0);
        Ok(bells.len() as i32 - 1)
    }

    fn holder(&self, place: &Whereabouts, identity: (u64, u64)) -> Result<(), Reason> {
        if identity == (0, place.number as u64) { Ok(()) } else { Err(Reason::NOSMCDDEV) }
    }

    fn open_bell(&self, (): (), number: i32) -> Result<i32, Reason> {
        let is_one = usize::try_from(number).is_ok_and(|number| number < lock(&self.machine.bells).len());
        if is_one { Ok(number) } else { Err(Reason::NOSMCDDEV) }
    }

    fn drop_bell(&self, _bell: i32) {}

    fn ring(&self, bell: i32) {
        lock(&self.machine.bells)[bell as usize] += 1;
    }

    fn drain(&self, bell: i32) {
        lock(&self.machine.bells)[bell as usize] = 0;
    }

    fn keep_bell_over_exec(&self, _bell: i32, _on: bool) {}
}

impl Rung for Twin {
    fn has_rung(&self, bell: i32) -> bool {
        lock(&self.machine.bells)[bell as usize] > 0
    }
}

impl Life for Twin {
    fn me(&self, _map: &'static RegistryMap) -> Option<ProcessId> {
        Some(ProcessId { row: self.which, generation: 1 })
    }

    fn is_alive(&self, _map: &RegistryMap, process: ProcessId) -> bool {
        self.machine.lives(process.row)
    }

    fn name(&self) -> u64 {
        u64::from(self.which) + 1
    }

    fn is_name_alive(&self, name: u64) -> bool {
        self.machine.lives(name as u32 - 1)
    }

    fn pid_of(&self, name: u64) -> u32 {
        name as u32
    }
}

impl Key for Twin {
    fn own(&self, _fd: i32) -> Result<u64, Errno> {
        Ok(self.machine.tokens.fetch_add(1, SeqCst))
    }

    fn carry(&self, fd: i32, key: u64) -> Result<(), Reason> {
        lock(&self.machine.keys).insert(fd, key);
        Ok(())
    }

    /// The token that came with the SYN from that address.
    fn of_client(&self, _fd: i32, _local: Endpoint, peer: Endpoint) -> Result<ClientSocket, Errno> {
        let keys = lock(&self.machine.keys);
        let sent = keys.iter().find(|(fd, _)| os::net::local(**fd) == Ok(peer));
        sent.map(|(_, key)| ClientSocket { key: *key, uid: None }).ok_or(Errno::ENOENT)
    }
}

impl End for Twin {
    fn is_told_by_tcp(&self, _view: &SlotView) -> bool {
        false
    }

    fn is_over(&self, view: &SlotView) -> bool {
        view.header().sides.iter().all(|side| side.closed.load(Relaxed) & ClosedBy::CLOSE != 0)
    }
}

impl Carrier for Twin {
    fn put(&self, view: &SlotView, _fd: i32, letter: Letter, message: &[u8]) -> Result<(), Reason> {
        let len = u8::try_from(message.len()).map_err(|_| Reason::INTERR)?;
        let mut streams = lock(&self.machine.streams);
        let stream = streams.entry(view.header().client_cookie.load(Relaxed)).or_default();
        stream.bytes.extend([letter as u8, len]);
        stream.in_flight.extend(message);
        Ok(())
    }

    fn take<'a>(
        &self,
        view: &SlotView,
        _fd: i32,
        letter: Letter,
        into: &'a mut [u8; MAIL_LEN],
    ) -> Result<&'a [u8], Reason> {
        let mut streams = lock(&self.machine.streams);
        let Some(stream) = streams.get_mut(&view.header().client_cookie.load(Relaxed)) else {
            return Ok(&[]);
        };
        let whole = match (stream.bytes.front(), stream.bytes.get(1)) {
            (Some(kind), Some(len)) if *kind == letter as u8 => 2 + usize::from(*len),
            (Some(_), Some(_)) => return Err(Reason::SYNCERR),
            _ => return Ok(&[]),
        };
        if stream.bytes.len() < whole {
            let rest = std::mem::take(&mut stream.in_flight);
            stream.bytes.extend(rest);
            return Ok(&[]);
        }
        let taken: Vec<u8> = stream.bytes.drain(..whole).skip(2).collect();
        into[..taken.len()].copy_from_slice(&taken);
        Ok(&into[..taken.len()])
    }
}
