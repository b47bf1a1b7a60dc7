//! A device plugin of Kubernetes for the host tier: tells the kubelet of a node how many containers can take
//! part, and what each of them gets: what `ismd --print-cdi` says, which it reads from a file. Owns nothing
//! of the tier: it is on no connection's way, and who has been started does not need it any more.
//!
//! The kubelet is at one end of both of its sockets, speaks gRPC, and may be started anew at any moment.
#![forbid(unsafe_code)]

pub mod allocation;
pub mod api;
mod health;
pub mod kubelet;
pub mod plugin;
pub mod rpc;
