//! What happens to a whole process: it forks, becomes another program, changes its user, confines itself,
//! lacks descriptors, ends. Owns: that every connection is gone through, and goes on, by one end or by TCP.

pub mod confine;
pub mod credentials;
pub mod exec;
pub mod exit;
pub mod fork;
pub mod lend;
pub mod spare;
