//! What lies where in a segment. Owns: the segment version; any change here changes [`VERSION`].
//!
//! A segment is a header page followed by equal slots; a slot is a header page, the client-to-server ring's
//! data and the server-to-client ring's data. One slot carries one connection at a time.

use crate::lock::SideLock;
use crate::ring::{Line, RingWords};
use crate::roster::Roster;
use crate::row::ConnectionRow;
use sync::{AtomicU32, AtomicU64, Ordering, fence};

/// First word of every segment: "ISTHMUS\x01" read as little endian.
pub const MAGIC: u64 = u64::from_le_bytes(*b"ISTHMUS\x01");
/// Layout version; ends that differ stay on TCP.
pub const VERSION: u32 = 11;
/// Size of the segment header and of each slot header.
pub const PAGE: usize = 4096;
/// Room for one CLC message in a slot's mailbox.
pub const MAIL_LEN: usize = 256;
/// Size buckets of the request histogram: up to 8 KiB, 16, 32 ... 1024 KiB, more (kernel smc_stats.h).
pub const BUCKETS: usize = 9;

/// Which end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The end that called connect().
    Client = 0,
    /// The end that was accepted.
    Server = 1,
}

impl Side {
    /// The other end.
    pub fn peer(self) -> Side {
        match self {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        }
    }
}

/// Header page of a segment, written once by its maker.
#[derive(Debug)]
#[repr(C)]
pub struct SegmentHeader {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU32,
    /// Number of slots.
    pub slots: AtomicU32,
    /// Bytes of one ring's data area, a power of two.
    pub ring_size: AtomicU32,
    /// Not 0: whoever passed the memory on has taken it back, and no connection begins in it any more.
    pub revoked: AtomicU32,
    /// Random; the same number stands in the registry, so a reused pid or descriptor cannot be mistaken for
    /// this segment.
    pub nonce: AtomicU64,
}

/// Request counters of one direction of one side; written by that side only.
#[derive(Debug)]
#[repr(C)]
pub struct Traffic {
    /// Serialises the callers of this side and direction.
    pub lock: SideLock,
    /// Calls that moved bytes.
    pub requests: AtomicU64,
    /// Calls that found the ring full (send) or empty (receive).
    pub stalls: AtomicU64,
    /// Calls by size.
    pub sizes: [AtomicU32; BUCKETS],
    /// Sleepers of all processes that hold the side: blocked calls, polls and epoll registrations. A process
    /// that is killed leaves it too high, which costs a look now and then.
    pub sleepers: AtomicU32,
}

impl Traffic {
    /// Counts one call that moved `bytes` bytes. The caller holds the lock.
    #[inline]
    pub fn count(&self, bytes: usize) {
        let requests = self.requests.load(Ordering::Relaxed);
        self.requests.store(requests + 1, Ordering::Relaxed);
        let bucket = &self.sizes[bucket_of(bytes)];
        bucket.store(bucket.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }
}

/// Histogram bucket of a request size (kernel smc_stats.h: `fls64((len - 1) >> 13)`, capped).
#[inline]
pub fn bucket_of(bytes: usize) -> usize {
    let above = (bytes.max(1) as u64 - 1) >> 13;
    ((64 - above.leading_zeros()) as usize).min(BUCKETS - 1)
}

/// What of a direction's counters is in the totals of the registry already: whoever adds the rest, and
/// whenever, nothing is added twice.
#[derive(Debug)]
#[repr(C)]
pub struct Settled {
    /// Bytes.
    pub bytes: AtomicU64,
    /// Calls that moved bytes.
    pub requests: AtomicU64,
    /// Calls that had to wait.
    pub stalls: AtomicU64,
    /// Calls by size.
    pub sizes: [AtomicU32; BUCKETS],
}

impl Settled {
    fn reset(&self) {
        for word in [&self.bytes, &self.requests, &self.stalls] {
            word.store(0, Ordering::Relaxed);
        }
        for bucket in &self.sizes {
            bucket.store(0, Ordering::Relaxed);
        }
    }
}

/// State of one side; written by that side only.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct SideBlock {
    /// Processes that hold the socket. Exits without close() leave it too high; TCP itself is the truth
    /// then.
    pub holders: AtomicU32,
    /// O_NONBLOCK of the open file description.
    pub nonblocking: AtomicU32,
    /// See [`ClosedBy`].
    pub closed: AtomicU32,
    /// Descriptor number of this side's doorbell in the segment owner's process.
    pub bell: AtomicU32,
    /// Process that last used this side.
    pub pid: AtomicU32,
    /// SMC connection state as smcss numbers it.
    pub state: AtomicU32,
    /// Processes that wait on an epoll set which they inherited and in which the socket is; [`CHANGED`] and
    /// [`TELLS_REST`] besides.
    pub set_sharers: AtomicU32,
    /// SO_RCVLOWAT as the program has set it since the connection is in this slot, 0 if it has not; above
    /// any such number if SO_PEEK_OFF is set. Every process that holds the side goes by it.
    pub low_water: AtomicU32,
    /// The slot's generation, once more: on a line that every operation reads. Who finds another one than
    /// its own has nothing to do with the slot any more.
    pub generation: AtomicU32,
    /// Which processes hold the socket.
    pub roster: Roster,
    /// A small SO_SNDBUF that the program has set, in bytes as the kernel tells it; 0 for none.
    pub send_buffer: AtomicU32,
    /// The same of SO_RCVBUF, for the other side.
    pub receive_buffer: AtomicU32,
    /// Receiving calls of this side.
    pub rx: Line<Traffic>,
    /// Sending calls of this side.
    pub tx: Line<Traffic>,
}

/// A bit of [`SideBlock::set_sharers`], above the count: a process has changed what such a set asks.
pub const CHANGED: u32 = 1 << 31;
/// The same: in such a set the doorbell stands for what is left in the ring, with the program's own data.
pub const TELLS_REST: u32 = 1 << 30;
/// The count beside them.
pub const SHARERS: u32 = TELLS_REST - 1;

/// A bit of [`SideBlock::low_water`]: SO_PEEK_OFF is set.
pub const PEEKS_FROM_OFFSET: u32 = 1 << 31;

/// Bits of [`SideBlock::closed`].
pub struct ClosedBy;

impl ClosedBy {
    /// shutdown(SHUT_WR) or close: no more bytes will be written.
    pub const WRITE: u32 = 1;
    /// shutdown(SHUT_RD).
    pub const READ: u32 = 2;
    /// The last descriptor was closed.
    pub const CLOSE: u32 = 4;
    /// Closed with unread bytes, or broken: the peer gets ECONNRESET.
    pub const ABORT: u32 = 8;
    /// The process ends on its own, with everything read, and knows of nobody who goes on with the socket:
    /// what the peer writes from then on is lost, as on TCP, but its next read finds the end of the stream
    /// and no reset.
    pub const EXIT: u32 = 16;
    /// The last close left bytes unread, which nobody knew to be the last before: TCP has ended in order, and
    /// would not have.
    pub const UNREAD: u32 = 32;
}

/// One CLC message in flight.
#[derive(Debug)]
#[repr(C)]
pub struct Mail {
    /// Length in bytes; 0 while empty. Stored last, with release.
    pub len: AtomicU32,
    /// The message, as 32-bit words so that it can be copied without a reference to peer memory.
    pub words: [AtomicU32; MAIL_LEN / 4],
}

impl Mail {
    /// Puts a message in; `false` if it is longer than [`MAIL_LEN`].
    pub fn put(&self, message: &[u8]) -> bool {
        if message.len() > MAIL_LEN {
            return false;
        }
        // (Whole words first: a copy of a length that is not known is a call.)
        let (whole, rest) = message.as_chunks::<4>();
        for (word, bytes) in self.words.iter().zip(whole) {
            word.store(u32::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        if let Some(word) = self.words.get(whole.len()) {
            let mut padded = [0; 4];
            padded[..rest.len()].copy_from_slice(rest);
            word.store(u32::from_ne_bytes(padded), Ordering::Relaxed);
        }
        self.len.store(message.len() as u32, Ordering::Release);
        true
    }

    /// Whether there is no message.
    pub fn is_empty(&self) -> bool {
        self.len.load(Ordering::Acquire) == 0
    }

    /// The words in which a message of `len` bytes lies; all of them where that is a lie.
    #[inline]
    fn within(&self, len: usize) -> &[AtomicU32] {
        &self.words[..len.div_ceil(4).min(MAIL_LEN / 4)]
    }

    /// Whether it says what `other` says. (Each word is read once.)
    pub fn repeats(&self, other: &Mail) -> bool {
        let len = other.len.load(Ordering::Relaxed);
        if len == 0 || self.len.load(Ordering::Acquire) != len {
            return false;
        }
        let pairs = self.within(len as usize).iter().zip(other.within(len as usize));
        pairs.fold(0, |odd, (mine, theirs)| {
            odd | (mine.load(Ordering::Relaxed) ^ theirs.load(Ordering::Relaxed))
        }) == 0
    }

    /// Puts in what lies in `other`, which nobody else writes.
    pub fn put_copy(&self, other: &Mail) {
        let len = other.len.load(Ordering::Acquire);
        for (mine, theirs) in self.within(len as usize).iter().zip(other.within(len as usize)) {
            mine.store(theirs.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.len.store(len, Ordering::Release);
    }

    /// Copies the message out, once, before anyone looks at it; empty if there is none or its length is a
    /// lie.
    pub fn take<'a>(&self, into: &'a mut [u8; MAIL_LEN]) -> &'a [u8] {
        let len = self.len.load(Ordering::Acquire) as usize;
        for (word, bytes) in self.within(len).iter().zip(into.as_chunks_mut::<4>().0) {
            *bytes = word.load(Ordering::Relaxed).to_ne_bytes();
        }
        into.get(..len).unwrap_or_default()
    }
}

/// Header page of a slot.
#[derive(Debug)]
#[repr(C)]
pub struct SlotHeader {
    /// Counts the connections on this slot.
    pub generation: AtomicU32,
    /// Counts the pairs of doorbells that the slot has had: its maker gives those of an unused slot up where
    /// it is short of descriptors.
    pub hung: AtomicU32,
    /// Kernel cookie of the client's socket.
    pub client_cookie: AtomicU64,
    /// Kernel cookie of the server's socket, 0 until claimed.
    pub server_cookie: AtomicU64,
    /// Client and server.
    pub sides: [SideBlock; 2],
    /// Client-to-server and server-to-client.
    pub rings: [RingWords; 2],
    /// PROPOSAL, ACCEPT, CONFIRM.
    pub mail: [Mail; 3],
    /// Received and sent by client and server, as far as the totals have it.
    pub settled: [[Settled; 2]; 2],
    /// A process that is no end of the connection and writes here for a moment, by name; 0 for none. It
    /// looks whether somebody holds the slot, and at the generation, after it has written its name down; who
    /// lends the slot looks for it as for the names of a roster.
    pub visitor: AtomicU64,
    /// Why both directions went back to TCP, as a reason code; 0 where nobody said.
    pub home: AtomicU32,
    /// The connection's row, where its ends share no registry.
    pub row: ConnectionRow,
}

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<SlotHeader>() <= PAGE);
    assert!(size_of::<SegmentHeader>() <= PAGE);
    assert!(core::mem::offset_of!(SlotHeader, rings) % 128 == 0);
};

impl SlotHeader {
    /// The slot is to be lent again: whoever still has a view of it finds another generation from now on.
    /// The caller looks at the rosters afterwards; who joined before is there, who joins later sees the
    /// generation.
    pub fn renew(&self) {
        let generation = self.generation.fetch_add(1, Ordering::SeqCst).wrapping_add(1);
        for side in &self.sides {
            side.generation.store(generation, Ordering::SeqCst);
        }
        fence(Ordering::SeqCst);
    }

    /// Both directions go back to TCP, for this reason if nobody gave one before.
    pub fn note_home(&self, reason: u32) {
        let _ = self.home.compare_exchange(0, reason, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Makes the slot fresh for a connection of `client_cookie`, after [`SlotHeader::renew`]. The caller
    /// owns the slot: no side uses it.
    pub fn reset(&self, client_cookie: u64) {
        self.client_cookie.store(client_cookie, Ordering::Relaxed);
        self.home.store(0, Ordering::Relaxed);
        self.server_cookie.store(0, Ordering::Relaxed);
        for side in &self.sides {
            side.holders.store(0, Ordering::Relaxed);
            side.nonblocking.store(0, Ordering::Relaxed);
            side.closed.store(0, Ordering::Relaxed);
            side.pid.store(0, Ordering::Relaxed);
            side.state.store(0, Ordering::Relaxed);
            side.set_sharers.store(0, Ordering::Relaxed);
            side.low_water.store(0, Ordering::Relaxed);
            side.send_buffer.store(0, Ordering::Relaxed);
            side.receive_buffer.store(0, Ordering::Relaxed);
            side.roster.reset();
            for traffic in [&side.rx.0, &side.tx.0] {
                traffic.lock.reset();
                traffic.requests.store(0, Ordering::Relaxed);
                traffic.stalls.store(0, Ordering::Relaxed);
                traffic.sleepers.store(0, Ordering::Relaxed);
                for bucket in &traffic.sizes {
                    bucket.store(0, Ordering::Relaxed);
                }
            }
        }
        for ring in &self.rings {
            ring.reset();
        }
        self.rings[Side::Client as usize].begin_on_tcp();
        for mail in &self.mail {
            mail.len.store(0, Ordering::Relaxed);
        }
        self.settled.iter().flatten().for_each(Settled::reset);
        fence(Ordering::Release);
    }
}
