//! What lies where in the registry file: who listens, who wants to connect, who is connected. Owns: its
//! version.
//!
//! One file per user. Every word is an atomic written by any process of that user: readers believe nothing
//! they have not checked (rules of `lib.rs`). The live/dead question is answered by byte locks on the file,
//! see `fabric::process`.

pub use crate::row::{ConnectionRow, EndpointWords, ProcessRef, SideRow};
use crate::slices::Slices;
use sync::{AtomicU32, AtomicU64};

/// First word of the file: "ISTHMREG" read as little endian.
pub const MAGIC: u64 = u64::from_le_bytes(*b"ISTHMREG");
/// Layout version; processes of another version stay on TCP.
pub const VERSION: u32 = 7;
/// Processes that listen, connect or were connected to, at one time.
pub const PROCESSES: usize = 2048;
/// Buckets of listeners, by port.
pub const LISTENER_BUCKETS: usize = 128;
/// Buckets of connections, by cookie, that every process maps.
pub const FIRST_BUCKETS: usize = 256;
/// Buckets of connections that find no room in those.
pub const MORE_BUCKETS: usize = 4096;
/// Rows in a bucket.
pub const ROWS: usize = 8;
/// Buckets of refusals, by inode.
pub const REFUSAL_BUCKETS: usize = 4096;
/// Processes that operators keep on TCP, at most.
pub const KEPT: usize = 128;
/// Distinct fallback reasons counted per role (the kernel has 36, smc-tools 30).
pub const REASONS: usize = 32;

/// A process that uses the fabric.
#[derive(Debug)]
#[repr(C)]
pub struct ProcessRow {
    /// Counts the processes that had this row; 0 for never used.
    pub generation: AtomicU32,
    /// Process id.
    pub pid: AtomicU32,
    /// Command name.
    pub comm: [AtomicU32; 4],
    /// Bytes of memory that it has paid for.
    pub memory: AtomicU64,
    /// The cgroup that limits its memory, by inode; 0 for none.
    pub domain: AtomicU64,
}

/// A listening socket of an enabled process.
#[derive(Debug)]
#[repr(C)]
pub struct ListenerRow {
    /// Kernel cookie; 0 while free, [`u64::MAX`] while being written.
    pub cookie: AtomicU64,
    /// Who called listen().
    pub process: ProcessRef,
    /// Bound address.
    pub at: EndpointWords,
    /// Inode of the socket.
    pub inode: AtomicU32,
}

/// Rows whose keys share a cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Keys(pub [AtomicU64; ROWS]);

/// Addresses remembered that did not keep what was announced; more share entries.
pub const DOUBTS: usize = 64;

/// An address where an announced listener was expected, and somebody else answered.
#[derive(Debug)]
#[repr(C)]
pub struct Doubt {
    /// A number made of the address and port; 0 while the entry is free.
    pub at: AtomicU64,
    /// Until when nothing is offered there, in seconds of the monotonic clock, and in the lower half how
    /// often it went wrong.
    pub until: AtomicU64,
}

/// A reason and how often it led to TCP.
#[derive(Debug)]
#[repr(C)]
pub struct ReasonCount {
    /// SMC reason code; 0 while the entry is free.
    pub code: AtomicU32,
    /// Occurrences.
    pub count: AtomicU32,
}

/// Why sockets stay on TCP: the inode in the upper half, the reason code in the lower; 0 while free. One word
/// each, so that it is never half written. The oldest sockets give way to new ones.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Refusals(pub [AtomicU64; ROWS]);

/// Totals of closed connections in one direction.
#[derive(Debug)]
#[repr(C)]
pub struct TrafficTotals {
    /// Bytes moved.
    pub bytes: AtomicU64,
    /// Calls.
    pub requests: AtomicU64,
    /// Calls that had to wait.
    pub stalls: AtomicU64,
    /// Calls by size.
    pub sizes: [AtomicU64; crate::layout::BUCKETS],
}

/// Counters of this user that outlive processes.
#[derive(Debug)]
#[repr(C)]
pub struct Totals {
    /// Connections upgraded, by role: client, server.
    pub upgraded: [AtomicU64; 2],
    /// Slots taken for the first time.
    pub slots_made: AtomicU64,
    /// Slots taken again.
    pub slots_reused: AtomicU64,
    /// Sent.
    pub tx: TrafficTotals,
    /// Received.
    pub rx: TrafficTotals,
    /// Fallbacks by role and reason.
    pub fallbacks: [[ReasonCount; REASONS]; 2],
}

/// Connections by cookie.
#[derive(Debug)]
#[repr(C)]
pub struct Connections<const BUCKETS: usize> {
    /// Cookies of the clients' sockets.
    pub keys: [Keys; BUCKETS],
    /// The rows, in the same places as their keys.
    pub rows: [[ConnectionRow; ROWS]; BUCKETS],
}

/// What every process maps that uses the registry: the file's first part. The other parts are mapped when
/// they are needed.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct RegistryMap {
    /// [`MAGIC`], written last.
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU32,
    /// Whether anybody is named in `kept`.
    pub keeps: AtomicU32,
    /// Number of the next link group, in steps of 256 as the kernel numbers them.
    pub next_link_group: AtomicU32,
    /// Intents that no server has answered yet (a hint: crashes leave it too high).
    pub pending: AtomicU32,
    /// GID of the ISM device that this registry is: random, the same for all its processes.
    pub gid: [AtomicU64; 2],
    /// Counters.
    pub totals: Totals,
    /// Processes.
    pub processes: [ProcessRow; PROCESSES],
    /// Listeners by port.
    pub listeners: [[ListenerRow; ROWS]; LISTENER_BUCKETS],
    /// Connections, the first ones.
    pub first: Connections<FIRST_BUCKETS>,
    /// Whether there ever were connections in [`More`].
    pub has_more: AtomicU32,
    /// Time slices on each core.
    pub slices: Slices,
    /// Addresses that are not trusted for a while.
    pub doubts: [Doubt; DOUBTS],
    /// Processes whose new connections stay on TCP, by the names of rosters; 0 while free. Operators write
    /// them.
    pub kept: [AtomicU64; KEPT],
}

/// The file's second part: sockets without a connection's row, by inode.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct RefusalMap(pub [Refusals; REFUSAL_BUCKETS]);

/// The file's third part: connections that found no room among the first.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct More(pub Connections<MORE_BUCKETS>);

/// A part of the file: a struct of atomics.
///
/// # Safety
/// Any bytes are a valid value, and its alignment is a page.
pub unsafe trait Part: Sized + 'static {
    /// Where it begins in the file.
    const AT: usize;
    /// Bytes that it takes there.
    const LEN: usize = size_of::<Self>();

    /// The part over a mapping of it; `None` if that is too short.
    fn over(words: &[AtomicU64]) -> Option<&Self> {
        let is_aligned = words.as_ptr().addr().is_multiple_of(align_of::<Self>());
        if size_of_val(words) < size_of::<Self>() || !is_aligned {
            return None;
        }
        // SAFETY: any bytes are valid (the trait's contract), length and alignment checked.
        Some(unsafe { &*words.as_ptr().cast::<Self>() })
    }

    /// The memory it was laid over, to be let go.
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: `over` has checked that so many bytes are there; the alignment makes them whole words.
        unsafe { core::slice::from_raw_parts(core::ptr::from_ref(self).cast(), size_of::<Self>() / 8) }
    }
}

// SAFETY: atomics only, aligned to a page.
unsafe impl Part for RegistryMap {
    const AT: usize = 0;
}

// SAFETY: as above.
unsafe impl Part for RefusalMap {
    const AT: usize = RegistryMap::LEN;
}

// SAFETY: as above.
unsafe impl Part for More {
    const AT: usize = RefusalMap::AT + RefusalMap::LEN;
}

/// Bytes of the file.
pub const FILE_LEN: usize = More::AT + More::LEN;
