//! Sockets that stay on TCP although their program has the library. Owns: the three places where the reason
//! is left, so that all tools say the same: the counters, a word in the registry for sockets without a
//! connection's row, and stderr if SMC_DEBUG asks for it. Behind a filter of system calls only the counters,
//! which cost none.

use crate::door::Tier;
use crate::fabric::Fabric;
use os::confined::is_confined;
use os::net;
use shm::registry::{REFUSAL_BUCKETS, RefusalMap};
use shm::{Side, SlotHeader};
use sync::Ordering::Relaxed;
use wire::reason::Reason;

/// What stays on TCP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// A connection, at this end.
    Connection(Side),
    /// A listener: what it accepts.
    Listener,
    /// A connection that was in shared memory, at this end.
    Home(Side),
}

impl What {
    fn words(self) -> &'static [u8] {
        match self {
            What::Connection(Side::Client) => b"connect stays on TCP: ",
            What::Connection(Side::Server) => b"accepted connection stays on TCP: ",
            What::Listener => b"listen stays on TCP: ",
            What::Home(Side::Client) => b"connection goes back to TCP: ",
            What::Home(Side::Server) => b"accepted connection goes back to TCP: ",
        }
    }
}

impl<T: Tier> Fabric<T> {
    /// The socket `fd` stays on TCP for a reason of this process's own.
    pub fn stays_on_tcp(&self, fd: i32, what: What, reason: Reason) {
        if let What::Connection(side) = what {
            self.totals().fell_back(side, reason);
        }
        // That the peer does not support SMC shows in the peer; a program that meets nobody else leaves
        // nothing behind.
        if reason != Reason::PEERNOSMC
            && !is_confined()
            && let Some(_using) = self.using()
            && let Some(map) = self.tier.refusals()
            && let Ok((_, inode)) = os::fd::identity(fd)
        {
            remember(map, inode as u32, reason);
        }
        self.tell(what, reason);
    }

    /// As [`stays_on_tcp`](Self::stays_on_tcp) for a connection whose row says why.
    pub fn stays_by_verdict(&self, side: Side, reason: Reason) {
        self.totals().fell_back(side, reason);
        self.tell(What::Connection(side), reason);
    }

    /// A connection went back to TCP, and its slot says why.
    pub fn went_home(&self, side: Side, slot: &SlotHeader) {
        let reason = Reason(slot.home.load(Relaxed));
        if reason != Reason(0) {
            self.totals().fell_back(side, reason);
            self.tell(What::Home(side), reason);
        }
    }

    fn tell(&self, what: What, reason: Reason) {
        // Where standard error is a connection, the line would be a foreign byte in it.
        if !self.config.is_debug() || is_confined() || net::is_tcp(2) {
            return;
        }
        let reason = match self.tier.mapped() {
            None if reason == Reason::NOSMCDDEV && !self.tier.has_left() => self.tier.why_there_is_none(),
            _ => reason,
        };
        let mut line = Line { bytes: [0; 160], len: 0 };
        line.add(b"libsmc-preload: ").add(what.words()).add(reason.text().as_bytes()).add(b" (0x");
        for place in (0..8).rev() {
            line.add(&[b"0123456789abcdef"[(reason.0 >> (4 * place)) as usize & 15]]);
        }
        line.add(b")\n");
        os::process::tell(&line.bytes[..line.len]);
    }
}

fn remember(map: &RefusalMap, inode: u32, reason: Reason) {
    let bucket = &map.0[inode as usize % REFUSAL_BUCKETS].0;
    let fitness = |word: u64| match parts(word).0 {
        own if own == inode => (2, 0),
        _ if word == 0 => (1, 0),
        other => (0, inode.wrapping_sub(other)),
    };
    let words = bucket.iter().map(|word| (fitness(word.load(Relaxed)), word));
    // The socket's own word or a free one; else that of the oldest socket: inodes are numbered in order.
    if let Some((_, word)) = words.max_by_key(|(fitness, _)| *fitness) {
        word.store(u64::from(inode) << 32 | u64::from(reason.0), Relaxed);
    }
}

/// Inode and reason of a word in the registry.
pub(crate) fn parts(word: u64) -> (u32, Reason) {
    ((word >> 32) as u32, Reason(word as u32))
}

/// A line, so that it leaves in one write.
struct Line {
    bytes: [u8; 160],
    len: usize,
}

impl Line {
    fn add(&mut self, text: &[u8]) -> &mut Self {
        let rest = &mut self.bytes[self.len..];
        let len = text.len().min(rest.len());
        rest[..len].copy_from_slice(&text[..len]);
        self.len += len;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shm::registry::Part as _;

    fn map() -> &'static RefusalMap {
        let words = os::mem::map_private(RefusalMap::LEN).expect("memory");
        RefusalMap::over(words).expect("it is long enough")
    }

    fn kept(map: &RefusalMap) -> Vec<(u32, Reason)> {
        let words = map.0.iter().flat_map(|bucket| &bucket.0).map(|word| word.load(Relaxed));
        let mut kept: Vec<_> = words.filter(|word| *word != 0).map(parts).collect();
        kept.sort_unstable();
        kept
    }

    #[test]
    fn a_socket_has_one_word() {
        let map = map();
        remember(map, 7, Reason::MEM);
        remember(map, 8, Reason::MAX_DMB);
        remember(map, 7, Reason::OPTUNSUPP);
        assert_eq!(kept(map), [(7, Reason::OPTUNSUPP), (8, Reason::MAX_DMB)]);
    }

    #[test]
    fn the_oldest_sockets_give_way() {
        let map = map();
        let inode =
            |n: u32| 5u32.wrapping_sub(REFUSAL_BUCKETS as u32).wrapping_add(n * REFUSAL_BUCKETS as u32);
        for n in 0..10 {
            remember(map, inode(n), Reason::MEM);
        }
        let mut wanted: Vec<u32> = (2..10).map(inode).collect();
        wanted.sort_unstable();
        assert_eq!(kept(map).into_iter().map(|(inode, _)| inode).collect::<Vec<_>>(), wanted);
    }
}
