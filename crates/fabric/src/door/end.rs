//! Who tells that a connection has ended, of which not both ends have said so.
//!
//! One kernel, containers: TCP, asked of the kernel by the two addresses. Guests: TCP, and the epoch of a kernel. Hosts: flags
//! in the slot, set by the daemon. Owns: only a clear "yes" lets a slot be lent again.

use crate::slot::SlotView;

/// The ends of connections.
pub trait End {
    /// Whether the slot's last connection is known to be over at both ends. (Somebody may hold a descriptor still.)
    fn is_over(&self, view: &SlotView) -> bool;
}
