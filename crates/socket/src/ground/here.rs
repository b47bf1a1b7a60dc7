//! How the rest of this room reaches the state of its process. Owns: that there is one way, and that nobody
//! who takes it names where all of it lies (`process`, above everybody).

use fabric::Fabric;
use fabric::tiers::Tiers;

/// A part of the state of a process, defined by the module that keeps it.
pub(crate) trait Part: Sized + 'static {
    /// The one of the process that runs.
    fn here() -> &'static Self;
}

/// The fabric of the process that runs.
#[inline(always)]
pub(crate) fn fabric() -> &'static Fabric<Tiers> {
    Part::here()
}
