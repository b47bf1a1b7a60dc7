//! How a sleeper is rung.
//!
//! One kernel: a pipe for each side of a slot, opened through /proc. Containers: the same, or one doorbell
//! for each pair of processes, passed once. Guests: an interrupt vector of a process, rung by a store. Hosts:
//! a completion in the daemon, which rings locally. A bell says "look again" and nothing else, so a false
//! ring costs a look, and a lost one a sleep. Owns: what rings is a doorbell of the very peer, and nothing of
//! the program's own.

use super::Whereabouts;
use wire::reason::Reason;

/// Doorbells, by numbers that mean something in this process: descriptors, if they are to be slept on.
pub trait Doorbell {
    /// Who holds the bells of a segment.
    type Holder: Copy;

    /// Makes a bell of the memory that has this number ([`Memory::make`](super::Memory::make)); -1 for one
    /// that nobody else is to have. Reasons: MEM if there are no descriptors left, SYNCERR where the memory
    /// is not known any more to whoever passes it on, and what he refuses with.
    fn hang(&self, memory: i32) -> Result<i32, Reason>;

    /// Who has the bells of the segment at `place`: proven by having that very memory, whose identity is
    /// given. Reasons: as [`open_bell`](Self::open_bell).
    fn holder(&self, place: &Whereabouts, identity: (u64, u64)) -> Result<Self::Holder, Reason>;

    /// Opens the bell that has this number there. The number was written by the peer. Reasons: OPTUNSUPP,
    /// NOSMCDDEV, MEM.
    fn open_bell(&self, holder: Self::Holder, number: i32) -> Result<i32, Reason>;

    /// Closes it here.
    fn drop_bell(&self, bell: i32);

    /// Rings.
    fn ring(&self, bell: i32);

    /// Rings every doorbell of a process that holds an end of a connection whose doorbells are not to be had;
    /// whether there were any to be had.
    fn ring_every(&self, _pid: u32) -> bool {
        false
    }

    /// Takes what has rung.
    fn drain(&self, bell: i32);

    /// Lets it survive exec under its number, or no longer.
    fn keep_bell_over_exec(&self, bell: i32, on: bool);
}
