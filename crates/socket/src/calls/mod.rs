//! What a program calls. Owns: that each answers as TCP does, or says `Forward`.

pub mod beside;
pub mod client;
pub mod close;
pub mod epoll;
pub mod poll;
pub mod queue;
pub mod server;
pub mod signals;
pub(crate) mod straight;
pub mod stream;
pub mod told;
