//! `cargo xtask demo`: lays everything out, then lets `smc_bench demo` compare every way that works here.

use std::time::Duration;

use crate::exec::Run;
use crate::workspace::Workspace;

/// The demonstration takes half a minute; this is for a machine that is busy with something else.
const LIMIT: Duration = Duration::from_secs(180);

/// Builds, then runs the demonstration with `args`.
pub(crate) fn demo(ws: &Workspace, args: &[String]) -> anyhow::Result<()> {
    let laid_out = crate::dist::lay_out(ws)?;
    Run::new(
        ws.dist().join("bin/smc_bench"),
        "`smc_run -d PROGRAM` says what the library does; see README.md",
    )
    .args(["demo"])
    .args(args)
    .limit(LIMIT)
    .go()?;
    laid_out.tell();
    Ok(())
}
