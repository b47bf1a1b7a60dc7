//! The doors of a tier: the questions whose answers differ between one kernel, containers, guests and hosts.
//!
//! A [`Tier`] answers all of them; [`Local`](crate::local::Local), one user on one kernel, is the first.
//! Everything else in this crate asks through these traits, and is compiled once for each tier: no call
//! through a table of functions, no allocation, and nothing but the tier's own state is looked at. Owns: the
//! questions. What two tiers would answer alike is not asked here: what the rows, the slots and the verdict
//! word look like is one layout for all (`shm`).
//!
//! A process that has several tiers has one that is made of them: a type whose answers begin with one branch,
//! on what the name of the peer or the number of the memory says. Both are the tier's own words.
//!
//! No answer is an error of the program: what cannot be had ends as a [`Reason`](wire::reason::Reason), and
//! as TCP.

mod bell;
mod carrier;
mod directory;
mod end;
mod key;
mod life;
mod memory;
mod rendezvous;

pub use bell::Doorbell;
pub use carrier::{Carrier, Letter};
pub use directory::Directory;
pub use end::End;
pub use key::{ClientSocket, Key};
pub use life::Life;
pub use memory::{ForeignMemory, Memory, Whereabouts};
pub use rendezvous::Rendezvous;

/// All doors. One value of it is a tier as one process has it: its state begins empty and is made at first
/// use.
pub trait Tier:
    Directory + Rendezvous + Memory + Doorbell + Life + Key + End + Carrier + Sync + 'static
{
}

impl<T> Tier for T where
    T: Directory + Rendezvous + Memory + Doorbell + Life + Key + End + Carrier + Sync + 'static
{
}
