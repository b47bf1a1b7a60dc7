//! Who tells the end: of a stream, and of a connection whose ends have not both said so.
//!
//! One kernel, containers: TCP, asked of the kernel by the two addresses. Guests: TCP, and the epoch of a
//! kernel. Hosts: flags in the slot, set by the daemon. Owns: only a clear "yes" lets a slot be lent again.

use crate::slot::SlotView;

/// The ends of connections.
pub trait End {
    /// Whether TCP is the truth about the slot's connection: FIN, reset and death of the peer show in its
    /// socket, after the bytes before them. Else only the flags in the slot say that a stream has ended, and
    /// TCP that the peer's host is gone.
    fn is_told_by_tcp(&self, view: &SlotView) -> bool;

    /// Whether the slot's last connection is known to be over at both ends. (Somebody may hold a descriptor
    /// still.)
    fn is_over(&self, view: &SlotView) -> bool;
}
