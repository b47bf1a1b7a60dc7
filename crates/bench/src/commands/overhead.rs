//! `smc_bench overhead`: what the loop around the socket calls costs by itself.

use std::process::ExitCode;

use crate::report;
use uperf::{Overhead, overhead};

/// Measures and prints.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let Overhead { master_ns, slave_ns, clock_ns } = overhead();
    report::print(&format!(
        "{master_ns:.1} ns per pass of the master, {slave_ns:.1} of the slave; {clock_ns:.1} of each is the clock\n"
    ))?;
    Ok(ExitCode::SUCCESS)
}
