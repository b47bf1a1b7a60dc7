//! The plugin as a process, and a kubelet of a test's own.

mod kubelet;
mod life;
mod node;
