//! What a socket remembers of how it came to be: by connect(), by accept(), from another process, or by
//! listen(). Owns: that no field means two things.

use crate::waiters::Waiters;
use sync::{AtomicU8, AtomicU16, AtomicU64, Ordering};

#[repr(C)]
pub(crate) struct Role {
    /// When an unanswered intent is given up, in cycles.
    pub(crate) deadline: AtomicU64,
    /// The era in which it was accepted, or began to listen; 0 for a connection that came from another
    /// process.
    pub(crate) era: AtomicU64,
    /// Inode of a socket that came from another process, or was passed on, by which its duplicates are known.
    pub(crate) inode: AtomicU64,
    /// Cookie of a listener's socket.
    pub(crate) listener: AtomicU64,
    /// Looks for the answer since the intent. (Few count: who wraps it has looked in vain a little longer.)
    pub(crate) looks: AtomicU8,
    /// 1: a large write has paused where the direction begins on TCP. One does.
    pub(crate) has_paused: AtomicU8,
    /// What was known of the address when the intent was made (`fabric::doubt`).
    pub(crate) lesson: AtomicU8,
    /// Who waits for it.
    pub(crate) waiters: Waiters,
    /// Of a listener.
    pub(crate) port: AtomicU16,
    /// Of a listener: TCP_DEFER_ACCEPT as the program set it, in seconds, which the kernel does not know.
    pub(crate) deferral: AtomicU16,
}

impl Role {
    pub(super) const fn new() -> Self {
        Role {
            deadline: AtomicU64::new(0),
            era: AtomicU64::new(0),
            inode: AtomicU64::new(0),
            listener: AtomicU64::new(0),
            looks: AtomicU8::new(0),
            has_paused: AtomicU8::new(0),
            lesson: AtomicU8::new(0),
            port: AtomicU16::new(0),
            waiters: Waiters::new(),
            deferral: AtomicU16::new(0),
        }
    }

    /// For another socket. (An intent stores its deadline, its lesson and its looks, a listener its cookie
    /// and its port.)
    pub(super) fn reset(&self) {
        let Role {
            deadline: _,
            lesson: _,
            era,
            inode,
            listener: _,
            looks: _,
            has_paused,
            port: _,
            waiters,
            deferral,
        } = self;
        era.store(0, Ordering::Relaxed);
        inode.store(0, Ordering::Relaxed);
        deferral.store(0, Ordering::Relaxed);
        has_paused.store(0, Ordering::Relaxed);
        waiters.reset();
    }
}
