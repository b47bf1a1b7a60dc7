//! Where the rows lie that all processes of a tier look at, and whether this one may.
//!
//! One kernel: a file of the user. Containers: memory of the daemon. Guests: a part of the window that two
//! kernels have mapped. Whoever maps it may lie in all of it. Owns: nothing is opened or mapped before a
//! first need.

use shm::registry::{More, RefusalMap, RegistryMap};
use wire::reason::Reason;

/// Access to the rows.
pub trait Directory {
    /// The rows, if this process has them mapped. Costs a load.
    fn mapped(&self) -> Option<&'static RegistryMap>;

    /// Sockets without a row; mapped now, if the rows are.
    fn refusals(&self) -> Option<&'static RefusalMap>;

    /// Connections beyond the first; mapped now, if the rows are.
    fn more(&self) -> Option<&'static More>;

    /// The rows, mapped now if they exist. Reasons: NOSMCDDEV (there are none), CNFERR, VERSMISMAT, MEM.
    fn existing(&self) -> Result<&'static RegistryMap, Reason>;

    /// The rows, made if need be. Reasons: as [`existing`](Self::existing).
    fn existing_or_new(&self) -> Result<&'static RegistryMap, Reason>;

    /// Where there are none: why none can be made, or PEERNOSMC if they could be, for then nobody has
    /// listened yet.
    fn why_there_is_none(&self) -> Reason;

    /// Begins to use the rows; `false` while they are about to be let go of. [`end_use`](Self::end_use)
    /// follows in both cases.
    fn begin_use(&self) -> bool;

    /// Ends it.
    fn end_use(&self);

    /// The credentials are about to change: waits for who uses the rows, and lets nobody begin. Whether
    /// nobody uses them: else somebody has lost his core over it for a second.
    fn begin_change(&self) -> bool;

    /// They have changed, or could not be.
    fn end_change(&self);

    /// Lets go of the rows, and of all by which others know that this process takes part.
    fn leave(&self);

    /// Gives up descriptors that it opens again when it needs them.
    fn spare(&self);

    /// Whether it has, and has none now.
    fn has_left(&self) -> bool;

    /// The user whose rows this process has mapped.
    fn owner(&self) -> Option<u32>;

    /// Whether the next program of this process would find the same rows.
    fn is_to_be_found(&self) -> bool;

    /// Whether the memory that the rows were mapped in was another process's, of which this one has got a
    /// copy.
    fn is_a_copy(&self) -> bool;

    /// In a fork child: the memory is its own now.
    fn after_fork(&self);

    /// Takes over one environment variable, if the tier has a setting of that name.
    fn set(&self, name: &[u8], value: &[u8]);
}
