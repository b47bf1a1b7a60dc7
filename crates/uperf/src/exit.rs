//! How `smc_bench -m` and `smc_bench -s` end, for scripts:
//!
//! | status | meaning |
//! |---|---|
//! | 0 | everything was done; flowops that `canfail` may have failed, and are counted |
//! | 1 | a bad profile, no slave, a strand or a slave that failed, a result that could not be printed or written |
//! | 2 | a command line that makes no sense |
//! | 130 | interrupted by Ctrl-C, SIGTERM or SIGHUP, with what had been measured by then printed and written |
//!
//! uperf itself has 0 for an unknown option, too; no script can want that.

use std::process::ExitCode;

/// An end that is told by the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All is well.
    Done = 0,
    /// Something is not.
    Failed = 1,
    /// 128 and the number of SIGINT, as shells say it.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
