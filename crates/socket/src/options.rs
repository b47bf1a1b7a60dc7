//! Options of sockets that hardly any program sets. Owns: whether some socket of this process may have one:
//! else nobody asks the kernel for it.

use core::sync::atomic::{AtomicBool, Ordering};

/// Whether the program sets SO_RCVLOWAT at all, or has sockets of another's: else nobody asks for it.
static RCVLOWAT_IS_USED: AtomicBool = AtomicBool::new(false);
/// The same for SO_RCVTIMEO and SO_SNDTIMEO.
static TIMEOUT_IS_USED: AtomicBool = AtomicBool::new(false);
/// And for SO_LINGER.
static LINGER_IS_USED: AtomicBool = AtomicBool::new(false);

/// A socket of this process has (or may have, being another's) a SO_RCVLOWAT of its own.
pub(crate) fn note_rcvlowat_is_used() {
    RCVLOWAT_IS_USED.store(true, Ordering::Relaxed);
}

/// The same for its time limits. To be called before the option is set: another thread may be about to wait.
pub(crate) fn note_timeout_is_used() {
    TIMEOUT_IS_USED.store(true, Ordering::SeqCst);
}

/// SO_LINGER was set on some socket, or one came from another process.
pub(crate) fn note_linger_is_used() {
    LINGER_IS_USED.store(true, Ordering::Relaxed);
}

/// A socket came from another process, with options that nobody has seen being set.
pub(crate) fn note_unseen_options() {
    note_linger_is_used();
    note_rcvlowat_is_used();
    note_timeout_is_used();
}

/// Whether any socket may have a SO_RCVLOWAT of its own.
#[inline]
pub(crate) fn is_rcvlowat_used() -> bool {
    RCVLOWAT_IS_USED.load(Ordering::Relaxed)
}

/// Whether any socket may have a time limit.
#[inline]
pub(crate) fn is_timeout_used() -> bool {
    TIMEOUT_IS_USED.load(Ordering::SeqCst)
}

/// Whether any socket may linger.
pub(crate) fn is_linger_used() -> bool {
    LINGER_IS_USED.load(Ordering::Relaxed)
}
