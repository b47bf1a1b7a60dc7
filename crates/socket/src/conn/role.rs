//! What a socket remembers of how it came to be: by connect(), by accept(), from another process, or by listen(). Owns: that no
//! field means two things.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// An intent that waits for its answer.
#[repr(C)]
pub(crate) struct Asking {
    /// When it is given up, in cycles.
    pub(crate) deadline: AtomicU64,
    /// Looks for the answer so far.
    pub(crate) looks: AtomicU32,
}

impl Asking {
    pub(super) const fn new() -> Self {
        Asking { deadline: AtomicU64::new(0), looks: AtomicU32::new(0) }
    }

    pub(super) fn reset(&self) {
        let Asking { deadline, looks } = self;
        deadline.store(0, Ordering::Relaxed);
        looks.store(0, Ordering::Relaxed);
    }
}

/// Where an undecided socket came from.
#[repr(C)]
pub(crate) struct Origin {
    /// The era in which it was accepted; 0 for one that came from another process.
    pub(crate) accepted_era: AtomicU64,
    /// Inode of a socket that came from another process, by which its duplicates are known.
    pub(crate) inode: AtomicU64,
}

impl Origin {
    pub(super) const fn new() -> Self {
        Origin { accepted_era: AtomicU64::new(0), inode: AtomicU64::new(0) }
    }

    pub(super) fn reset(&self) {
        let Origin { accepted_era, inode } = self;
        accepted_era.store(0, Ordering::Relaxed);
        inode.store(0, Ordering::Relaxed);
    }
}

/// An announced listener.
#[repr(C)]
pub(crate) struct Listener {
    /// Its socket's cookie.
    pub(crate) cookie: AtomicU64,
    /// The era of listen().
    pub(crate) era: AtomicU64,
    pub(crate) port: AtomicU32,
    /// TCP_DEFER_ACCEPT as the program set it, which the kernel does not know.
    pub(crate) deferral: AtomicU32,
}

impl Listener {
    pub(super) const fn new() -> Self {
        Listener {
            cookie: AtomicU64::new(0),
            era: AtomicU64::new(0),
            port: AtomicU32::new(0),
            deferral: AtomicU32::new(0),
        }
    }

    /// (Meaningful in the phase of a listener alone, which `server` enters before it stores all of it.)
    pub(super) fn reset(&self) {
        let Listener { cookie: _, era: _, port: _, deferral } = self;
        deferral.store(0, Ordering::Relaxed);
    }
}
