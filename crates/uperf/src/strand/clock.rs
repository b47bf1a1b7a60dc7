//! Clocks and what the calling thread has used so far. Times are nanoseconds.

use nix::sys::resource::UsageWho;
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::result::Usage;

/// CLOCK_MONOTONIC: the same for all processes of the host.
pub(crate) fn now_ns() -> u64 {
    timespec_ns(clock_gettime(ClockId::Monotonic))
}

/// CLOCK_REALTIME, since 1970.
pub(crate) fn wall_ns() -> u64 {
    timespec_ns(clock_gettime(ClockId::Realtime))
}

/// CPU time of the calling thread alone.
pub(crate) fn thread_cpu_ns() -> u64 {
    timespec_ns(clock_gettime(ClockId::ThreadCPUTime))
}

fn timespec_ns(time: Timespec) -> u64 {
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    part(time.tv_sec) * 1_000_000_000 + part(time.tv_nsec)
}

/// What the calling thread has used since it began.
pub(crate) fn thread_usage() -> Usage {
    Usage { cpu_ns: thread_cpu_ns(), ..Usage::now(UsageWho::RUSAGE_THREAD) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_works_uses_cpu_and_clocks_go_forward() {
        let (before, start) = (thread_usage(), now_ns());
        while thread_cpu_ns() < before.cpu_ns + 1_000_000 {}
        let spent = thread_usage() - before;
        assert!(spent.cpu_ns >= 1_000_000);
        assert!(now_ns() > start && wall_ns() > start);
        assert_eq!((spent + spent).cpu_ns, 2 * spent.cpu_ns);
    }
}
