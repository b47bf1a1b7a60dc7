//! Listening sockets of enabled processes. Owns: the listener rows and the question "is the other end
//! enabled?"

use super::Local;
use crate::address::store_endpoint;
use crate::door::{Directory, Life, Rendezvous};
use crate::doubt;
use crate::process::ProcessId;
use crate::unasked;
use os::net::Endpoint;
use os::{Errno, diag, net};
use shm::registry::{LISTENER_BUCKETS, ListenerRow, ROWS, RegistryMap};
use sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use wire::reason::Reason;

/// Key of a row that is being written.
const BUSY: u64 = u64::MAX;

/// So many buckets serve a port, one after the other: many listeners may share one (SO_REUSEPORT).
const BUCKETS_OF_PORT: usize = 16;

fn buckets(map: &RegistryMap, port: u16) -> impl Iterator<Item = &[ListenerRow; ROWS]> {
    (0..BUCKETS_OF_PORT).map(move |next| &map.listeners[(port as usize + next) % LISTENER_BUCKETS])
}

/// The rows in which listeners at `port` may stand: a bucket is gone beyond only if it has been full. (A row
/// keeps its address when it is given back.)
fn rows(map: &RegistryMap, port: u16) -> impl Iterator<Item = &ListenerRow> {
    let was_used = |row: &ListenerRow| row.at.family_port.load(Relaxed) != 0;
    let mut goes_on = true;
    let looked_at = buckets(map, port)
        .take_while(move |bucket| core::mem::replace(&mut goes_on, bucket.iter().all(was_used)));
    looked_at.flatten()
}

impl Rendezvous for Local {
    fn announce(&self, fd: i32) -> Result<u64, Reason> {
        let map = self.existing_or_new()?;
        let me = self.me(map).ok_or(Reason::MEM)?;
        let cookie = net::cookie(fd).map_err(|_| Reason::CNFERR)?;
        let at = net::local(fd).map_err(|_| Reason::CNFERR)?;
        // Whoever may not ask the kernel about peers (a sandbox without netlink) could never answer an
        // intent.
        let anyone = Endpoint { port: 1, addr: [0; 16], scope: 0, ..at };
        match diag::lookup_beside(fd, at, anyone) {
            Ok(_) | Err(Errno::ENOENT | Errno::EINVAL) => {}
            Err(errno) => return Err(unasked::reason(errno)),
        }
        // listen() may be called again, and an exec'ed process announces what its former self announced. What
        // another process announced is left to it while it lives: a child that is started for one connection
        // would take the listener away with it when it ends.
        let known = rows(map, at.port).find(|row| row.cookie.load(Acquire) == cookie);
        if known.is_some_and(|row| self.is_anothers(map, row)) {
            return Ok(cookie);
        }
        let row = known.or_else(|| buckets(map, at.port).find_map(|bucket| self.take_row(map, bucket)));
        let row = row.ok_or(Reason::MAX_DMB)?;
        row.cookie.store(BUSY, Relaxed);
        me.store(&row.process);
        store_endpoint(&row.at, at);
        row.inode.store(os::fd::identity(fd).map_or(0, |(_, inode)| inode as u32), Relaxed);
        row.cookie.store(cookie, Release);
        Ok(cookie)
    }

    fn withdraw(&self, cookie: u64, at: Endpoint) {
        let Some(map) = self.mapped() else { return };
        let mine = |row: &&ListenerRow| {
            row.cookie.load(Acquire) == cookie && self.seat.is_me(ProcessId::load(&row.process))
        };
        let Some(row) = rows(map, at.port).find(mine) else { return };
        let anyone = Endpoint { port: 1, addr: [0; 16], scope: 0, ..at };
        let asked = diag::lookup(at, anyone);
        // (This thread may be in another network namespace: that says nothing.)
        if asked != Err(Errno::EXDEV) && !asked.is_ok_and(|found| found.cookie == cookie) {
            let _ = row.cookie.compare_exchange(cookie, 0, AcqRel, Relaxed);
        }
    }

    fn is_announced(&self, cookie: u64, port: u16) -> bool {
        self.mapped().is_some_and(|map| rows(map, port).any(|row| row.cookie.load(Acquire) == cookie))
    }

    fn is_kept(&self, cookie: u64, port: u16) -> bool {
        let keeps = |map: &RegistryMap, row: &ListenerRow| {
            row.cookie.load(Acquire) == cookie && self.is_alive(map, ProcessId::load(&row.process))
        };
        self.mapped().is_some_and(|map| rows(map, port).any(|row| keeps(map, row)))
    }

    fn forget(&self, cookie: u64, fd: i32) {
        let (Some(map), Ok(at)) = (self.mapped(), net::local(fd)) else {
            return;
        };
        if let Some(row) = rows(map, at.port).find(|row| row.cookie.load(Acquire) == cookie) {
            let _ = row.cookie.compare_exchange(cookie, 0, AcqRel, Relaxed);
        }
    }

    /// A port nobody announced costs a glance at one bucket; only a match asks the kernel who listens there.
    /// (PEERNOSMC also where there was one of both kinds lately.)
    fn owner_of(&self, fd: i32, target: Endpoint) -> Result<ProcessId, Reason> {
        let map = self.existing()?;
        let is_candidate = |row: &&ListenerRow| {
            let cookie = row.cookie.load(Acquire);
            cookie != 0 && cookie != BUSY && row.at.family_port.load(Relaxed) as u16 == target.port
        };
        // (What is believed of an address is believed of one network namespace.)
        if !rows(map, target.port).any(|row| is_candidate(&row)) || !diag::is_asked_about(fd) {
            return Err(Reason::PEERNOSMC);
        }
        let owner_with = |cookie: u64| {
            let row = rows(map, target.port).find(|row| row.cookie.load(Acquire) == cookie)?;
            Some(ProcessId::load(&row.process)).filter(|owner| self.is_alive(map, *owner))
        };
        // A row that is gone, or whose process is, ends what was believed of it: the port may be another
        // listener's by now.
        let known = self.asked.cookie_of(target).and_then(owner_with);
        let owner = match known {
            Some(owner) => owner,
            None => {
                let cookie = ask_kernel(fd, target)?;
                let owner = owner_with(cookie).ok_or(Reason::PEERNOSMC)?;
                self.asked.remember(target, cookie);
                owner
            }
        };
        if doubt::is_doubted(map, target, owner) { Err(Reason::PEERNOSMC) } else { Ok(owner) }
    }
}

impl Local {
    fn is_anothers(&self, map: &RegistryMap, row: &ListenerRow) -> bool {
        let owner = ProcessId::load(&row.process);
        !self.seat.is_me(owner) && self.is_alive(map, owner)
    }

    fn take_row<'a>(&self, map: &RegistryMap, rows: &'a [ListenerRow; ROWS]) -> Option<&'a ListenerRow> {
        let grab =
            |row: &ListenerRow, from: u64| row.cookie.compare_exchange(from, BUSY, AcqRel, Relaxed).is_ok();
        rows.iter().find(|row| grab(row, 0)).or_else(|| {
            rows.iter().find(|row| {
                let cookie = row.cookie.load(Acquire);
                !self.is_alive(map, ProcessId::load(&row.process)) && grab(row, cookie)
            })
        })
    }
}

fn ask_kernel(fd: i32, target: Endpoint) -> Result<u64, Reason> {
    // Remote port 1 matches no connection, so the kernel answers with the listener.
    let anyone = Endpoint { port: 1, addr: [0; 16], scope: target.scope, ..target };
    let found = diag::lookup_beside(fd, target, anyone);
    let found = found.map_err(unasked::reason)?;
    if found.uid == os::process::euid() { Ok(found.cookie) } else { Err(Reason::PEERNOSMC) }
}
