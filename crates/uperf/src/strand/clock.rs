//! Clocks and what the calling thread has used so far. Times are nanoseconds.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
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
    let cpu_ns = thread_cpu_ns();
    // Cannot fail for the calling thread (getrusage(2)); zeros would be seen as such.
    let Ok(usage) = getrusage(UsageWho::RUSAGE_THREAD) else { return Usage { cpu_ns, ..Usage::default() } };
    let count = |value| u64::try_from(value).unwrap_or(0);
    Usage {
        cpu_ns,
        system_ns: timeval_ns(usage.system_time()),
        voluntary_switches: count(usage.voluntary_context_switches()),
        involuntary_switches: count(usage.involuntary_context_switches()),
    }
}

fn timeval_ns(time: TimeVal) -> u64 {
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    part(time.tv_sec()) * 1_000_000_000 + part(time.tv_usec()) * 1000
}

/// What was used between two readings of one thread.
pub(crate) fn used(before: Usage, after: Usage) -> Usage {
    Usage {
        cpu_ns: after.cpu_ns.saturating_sub(before.cpu_ns),
        system_ns: after.system_ns.saturating_sub(before.system_ns),
        voluntary_switches: after.voluntary_switches.saturating_sub(before.voluntary_switches),
        involuntary_switches: after.involuntary_switches.saturating_sub(before.involuntary_switches),
    }
}

/// What two threads used together.
pub(crate) fn together(one: Usage, other: Usage) -> Usage {
    Usage {
        cpu_ns: one.cpu_ns + other.cpu_ns,
        system_ns: one.system_ns + other.system_ns,
        voluntary_switches: one.voluntary_switches + other.voluntary_switches,
        involuntary_switches: one.involuntary_switches + other.involuntary_switches,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_works_uses_cpu_and_clocks_go_forward() {
        let (before, start) = (thread_usage(), now_ns());
        while thread_cpu_ns() < before.cpu_ns + 1_000_000 {}
        let spent = used(before, thread_usage());
        assert!(spent.cpu_ns >= 1_000_000);
        assert!(now_ns() > start && wall_ns() > start);
        assert_eq!(together(spent, spent).cpu_ns, 2 * spent.cpu_ns);
    }
}
