//! Whoever presses Ctrl-C twice wants the run that is under way to end now: every wait of a run asks here.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;

static WANTED: AtomicBool = AtomicBool::new(false);
/// Between two questions.
const PAUSE: Duration = Duration::from_millis(5);

/// From now on nothing is waited for.
pub(crate) fn want() {
    WANTED.store(true, Ordering::Relaxed);
}

/// # Errors
///
/// The run is to end.
pub(crate) fn check() -> anyhow::Result<()> {
    if WANTED.load(Ordering::Relaxed) {
        bail!("interrupted");
    }
    Ok(())
}

/// # Errors
///
/// The run is to end.
pub(crate) fn sleep(duration: Duration) -> anyhow::Result<()> {
    let end = Instant::now() + duration;
    while Instant::now() < end {
        check()?;
        std::thread::sleep(PAUSE.min(end.saturating_duration_since(Instant::now())));
    }
    check()
}
