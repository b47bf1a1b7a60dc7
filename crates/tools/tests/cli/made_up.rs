//! A registry as the library would leave it, with this very process as the one that uses it.
//! Owns: the file, the lock on our process row and the segment's descriptor; all are gone with the value.

use super::Folder;
use fabric::observe::layouts::{Geometry, MAGIC, Part as _, RegistryMap, Segment, Side, SlotHeader, VERSION};
use fabric::observe::{REGISTRY_LEN, Verdict};
use fabric::process::LOCK_BASE;
use fabric::verdict::{begin, decide};
use os::file::How;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering::Relaxed;

/// Nonce of the segment.
const NONCE: u64 = 0x1234_5678;
/// Bytes of a ring.
pub(crate) const RING: u64 = 65536;
/// Row of the living and of the dead process.
const ALIVE: u32 = 7;
const DEAD: u32 = 8;

pub(crate) struct MadeUp {
    pub(crate) folder: Folder,
    pub(crate) map: &'static RegistryMap,
    segment: Segment,
    memfd: i32,
    lock: i32,
}

impl MadeUp {
    pub(crate) fn new(name: &str) -> Self {
        let folder = Folder::new(name);
        let path = folder.0.join(format!("isthmus.{}", os::process::euid()));
        let path = CString::new(path.as_os_str().as_bytes()).expect("no NUL in a path");
        let lock = os::file::open(&path, How::CREATE_NEW).expect("a new file");
        os::mem::resize(lock, REGISTRY_LEN as u64).expect("room");
        let words = os::mem::map_shared(lock, RegistryMap::LEN).expect("a mapping");
        let map = RegistryMap::over(words).expect("long enough");
        map.version.store(VERSION, Relaxed);
        map.magic.store(MAGIC, Relaxed);
        os::file::lock_byte(lock, LOCK_BASE + u64::from(ALIVE)).expect("nobody else has it");
        for row in [ALIVE, DEAD] {
            let process = &map.processes[row as usize];
            process.generation.store(1, Relaxed);
            process.pid.store(os::process::pid(), Relaxed);
            process.comm[0].store(u32::from_ne_bytes(*b"prog"), Relaxed);
        }
        let geometry = Geometry { slots: 4, ring_size: RING as u32 };
        let memfd = os::mem::sealed_memfd(c"isthmus-dmb", geometry.len() as u64).expect("a memfd");
        let memory = os::mem::map_shared(memfd, geometry.len()).expect("a mapping");
        let segment = Segment::format(memory, geometry, NONCE).expect("a segment");
        MadeUp { folder, map, segment, memfd, lock }
    }

    /// A listener of the living process on 0.0.0.0.
    pub(crate) fn listen(&self, port: u16, inode: u32) {
        let row = &self.map.listeners[usize::from(port) % self.map.listeners.len()][0];
        row.process.row.store(ALIVE, Relaxed);
        row.process.generation.store(1, Relaxed);
        row.at.family_port.store(2 << 16 | u32::from(port), Relaxed);
        row.inode.store(inode, Relaxed);
        row.cookie.store(u64::MAX / 2 - u64::from(inode), Relaxed);
    }

    /// A connection from 127.0.0.1:`port` to 127.0.0.1:80 between two sockets of the living process.
    pub(crate) fn connect(
        &self,
        cookie: u64,
        port: u16,
        verdict: impl Into<Option<Verdict>>,
    ) -> &'static SlotHeader {
        let bucket = cookie as usize;
        let row = &self.map.first.rows[bucket][0];
        for (side, port) in [port, 80].into_iter().enumerate() {
            let end = &row.sides[side];
            end.process.row.store(ALIVE, Relaxed);
            end.process.generation.store(1, Relaxed);
            end.at.family_port.store(2 << 16 | u32::from(port), Relaxed);
            end.at.addr[0].store(u32::from_ne_bytes([127, 0, 0, 1]), Relaxed);
            end.inode.store(cookie as u32 * 10 + side as u32, Relaxed);
        }
        let generation = begin(&row.verdict);
        if let Some(verdict) = verdict.into() {
            decide(&row.verdict, generation, Side::Server, verdict).expect("nobody else decides");
        }
        row.nonce.store(NONCE, Relaxed);
        row.owner_pid.store(os::process::pid(), Relaxed);
        row.memfd.store(self.memfd as u32, Relaxed);
        row.slot.store(cookie as u32 % 4, Relaxed);
        row.open.store(3, Relaxed);
        row.server_cookie.store(cookie + 0x100, Relaxed);
        self.map.first.keys[bucket].0[0].store(cookie, Relaxed);
        let header = self.segment.slot(cookie as u32 % 4).expect("four slots");
        header.reset(cookie);
        header
    }

    /// Both ends of a connection now belong to a process that died.
    pub(crate) fn kill(&self, cookie: u64) {
        for end in &self.map.first.rows[cookie as usize][0].sides {
            end.process.row.store(DEAD, Relaxed);
        }
    }
}

impl Drop for MadeUp {
    fn drop(&mut self) {
        os::fd::close(self.memfd);
        os::fd::close(self.lock);
    }
}
