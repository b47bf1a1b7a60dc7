//! Options of sockets that hardly any program sets. Owns: whether some socket of this process may have one:
//! else nobody asks the kernel for it.

use crate::here::Part as _;
use sync::{AtomicBool, Ordering};

/// What a process has seen of options.
pub(crate) struct Options {
    /// Whether the program sets SO_RCVLOWAT at all, or has sockets of another's: else nobody asks for it.
    rcvlowat: AtomicBool,
    /// The same for SO_RCVTIMEO and SO_SNDTIMEO.
    timeout: AtomicBool,
    /// And for SO_LINGER.
    linger: AtomicBool,
    /// And for SO_PEEK_OFF.
    peek_offset: AtomicBool,
    /// And for TCP_INQ.
    inq: AtomicBool,
    /// And for TCP_CORK.
    cork: AtomicBool,
    /// And for SO_SNDBUF and SO_RCVBUF.
    buffers: AtomicBool,
}

impl Options {
    pub(crate) const fn new() -> Self {
        let [rcvlowat, timeout, linger, peek_offset] = [const { AtomicBool::new(false) }; 4];
        let [inq, cork, buffers] = [const { AtomicBool::new(false) }; 3];
        Options { rcvlowat, timeout, linger, peek_offset, inq, cork, buffers }
    }
}

/// A socket of this process has (or may have, being another's) a SO_RCVLOWAT of its own.
pub(crate) fn note_rcvlowat_is_used() {
    Options::here().rcvlowat.store(true, Ordering::Relaxed);
}

/// The same for its time limits. To be called before the option is set: another thread may be about to wait.
pub(crate) fn note_timeout_is_used() {
    Options::here().timeout.store(true, Ordering::SeqCst);
}

/// SO_LINGER was set on some socket, or one came from another process.
pub(crate) fn note_linger_is_used() {
    Options::here().linger.store(true, Ordering::Relaxed);
}

/// SO_PEEK_OFF was set on some socket, or one came from another process.
pub(crate) fn note_peek_offset_is_used() {
    Options::here().peek_offset.store(true, Ordering::Relaxed);
}

/// TCP_INQ was set on some socket, or one came from another process.
pub(crate) fn note_inq_is_used() {
    Options::here().inq.store(true, Ordering::Relaxed);
}

/// TCP_CORK was set on some socket, or one came from another process.
pub(crate) fn note_cork_is_used() {
    Options::here().cork.store(true, Ordering::Relaxed);
}

/// SO_SNDBUF or SO_RCVBUF was set on some socket, or one came from another process.
pub(crate) fn note_buffers_are_used() {
    Options::here().buffers.store(true, Ordering::Relaxed);
}

/// A socket came from another process, with options that nobody has seen being set.
pub(crate) fn note_unseen_options() {
    note_linger_is_used();
    note_rcvlowat_is_used();
    note_timeout_is_used();
    note_peek_offset_is_used();
    note_inq_is_used();
    note_cork_is_used();
    note_buffers_are_used();
}

/// Whether any socket may have buffers of its own size.
pub(crate) fn are_buffers_used() -> bool {
    Options::here().buffers.load(Ordering::Relaxed)
}

/// Whether any socket may have a SO_RCVLOWAT of its own.
#[inline]
pub(crate) fn is_rcvlowat_used() -> bool {
    Options::here().rcvlowat.load(Ordering::Relaxed)
}

/// Whether any socket may have a time limit.
#[inline]
pub(crate) fn is_timeout_used() -> bool {
    Options::here().timeout.load(Ordering::SeqCst)
}

/// Whether any socket may have SO_PEEK_OFF.
pub(crate) fn is_peek_offset_used() -> bool {
    Options::here().peek_offset.load(Ordering::Relaxed)
}

/// Whether any socket may have TCP_INQ.
pub(crate) fn is_inq_used() -> bool {
    Options::here().inq.load(Ordering::Relaxed)
}

/// Whether any socket may be corked.
pub(crate) fn is_cork_used() -> bool {
    Options::here().cork.load(Ordering::Relaxed)
}

/// Whether any socket may linger.
pub(crate) fn is_linger_used() -> bool {
    Options::here().linger.load(Ordering::Relaxed)
}
