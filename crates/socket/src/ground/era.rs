//! Eras of this process. Owns: the count of its forks, by which a copy of a socket that another process may
//! have got since is known without asking anybody.

use crate::here::Part as _;
use sync::{AtomicU32, Ordering};

/// How often a process has forked.
pub(crate) struct Forks(AtomicU32);

impl Forks {
    pub(crate) const fn new() -> Self {
        Forks(AtomicU32::new(0))
    }
}

/// Changes with every fork, before and after it: equal eras mean "nobody can have got a copy of the socket
/// since".
pub(crate) fn now() -> u64 {
    u64::from(os::process::cached_pid()) << 32 | u64::from(Forks::here().0.load(Ordering::Acquire))
}

/// Before a fork and after it: a new era begins.
pub(crate) fn advance() {
    Forks::here().0.fetch_add(1, Ordering::AcqRel);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fork_ends_an_era_and_the_process_is_told_by_its_upper_half() {
        let before = now();
        advance();
        assert!(now() > before);
        assert_eq!(now() >> 32, u64::from(os::process::cached_pid()));
    }
}
