//! What executes a profile's flowops: strands, each a thread or a process with connections of its own.
//!
//! Nothing here knows uperf's wire protocol or prints anything. A [`plan::Plan`] goes in, a [`report::StrandReport`]
//! comes out; in between a strand is directed through its [`control::Control`]. [`workers`] hides whether strands are
//! threads, processes or states of one epoll loop.

mod clock;
mod connections;
mod control;
mod files;
mod flowop;
mod history;
mod listeners;
mod network;
mod plan;
mod recorder;
mod report;
mod run;
mod socket;
mod state;
mod steps;
#[cfg(test)]
mod tests;
pub(crate) mod workers;

pub(crate) use clock::{now_ns, wall_ns};
pub(crate) use control::{Counts, End};
pub(crate) use listeners::listen_tcp;
pub(crate) use plan::{Detail, Peer, Plan, Ports, Role};
pub(crate) use report::{StrandReport, Timing, TransactionReport};
