//! uperf, spoken by our own master and slave: profiles, wire protocol and output are uperf's, the measuring is ours.
//!
//! Facts about uperf come from its documents and from watching it; none of its code is here. Where the other end is this
//! program, too (both say so in fields that uperf leaves empty), the two go further: they end a transaction at the same
//! turn, and the slave tells what its strands used.

pub(crate) mod cli;
mod convert;
mod exit;
mod link;
mod master;
mod output;
mod slave;
mod wire;
