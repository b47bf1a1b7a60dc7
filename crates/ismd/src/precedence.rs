//! The daemon's precedence over those who ask it. Owns: what it was started with (nice, below zero) counts
//! against everybody, also where the kernel weighs sessions first and a nice only within one
//! (sched_autogroup): the session's is made the same. (With a CPU controller its cgroup's weight counts.)

use rustix::process::{getpid, getpriority_process, getsid};
use tracing::debug;

const SESSION: &str = "/proc/self/autogroup";

/// As far as it can be had. A session that others are in, as a shell's, is left as it is.
pub(crate) fn claim() {
    let Some(nice) = getpriority_process(None).ok().filter(|nice| *nice < 0) else { return };
    if getsid(None) != Ok(getpid()) {
        return debug!(nice, "has precedence only within its session, which is not its own");
    }
    if let Err(error) = std::fs::write(SESSION, nice.to_string()) {
        debug!(nice, %error, "has precedence only within its session");
    }
}
