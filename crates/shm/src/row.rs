//! The row of a connection: in the registry, or in the slot where the two ends share no registry. Owns: what
//! lies where in it; both places' versions change with it.

use sync::{AtomicU32, AtomicU64};

/// Endpoint words: family, port, address.
#[derive(Debug)]
#[repr(C)]
pub struct EndpointWords {
    /// Family in the upper, port in the lower half.
    pub family_port: AtomicU32,
    /// Address bytes in memory order.
    pub addr: [AtomicU32; 4],
}

/// A process row with its generation: names a process beyond pid reuse.
#[derive(Debug)]
#[repr(C)]
pub struct ProcessRef {
    /// Row number.
    pub row: AtomicU32,
    /// Generation of that row.
    pub generation: AtomicU32,
}

/// One side of a connection.
#[derive(Debug)]
#[repr(C)]
pub struct SideRow {
    /// The process that last attached.
    pub process: ProcessRef,
    /// Its address.
    pub at: EndpointWords,
    /// Inode of its socket.
    pub inode: AtomicU32,
}

/// A connection, from intent to the last close.
#[derive(Debug)]
#[repr(C)]
pub struct ConnectionRow {
    /// The verdict word: its bits are those of `proto::verdict`.
    pub verdict: AtomicU64,
    /// Nonce of the segment offered.
    pub nonce: AtomicU64,
    /// Kernel cookie of the server's socket, 0 until claimed.
    pub server_cookie: AtomicU64,
    /// Process whose descriptor `memfd` is the segment.
    pub owner_pid: AtomicU32,
    /// Descriptor number of the segment in the owner.
    pub memfd: AtomicU32,
    /// Slot number.
    pub slot: AtomicU32,
    /// Bit 0: the client's side is open, bit 1: the server's. Bits 2 and 3: its socket serves another
    /// connection by now, or none.
    pub open: AtomicU32,
    /// Client and server.
    pub sides: [SideRow; 2],
}
