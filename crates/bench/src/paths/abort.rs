//! Whoever presses Ctrl-C wants no further run; twice, the one that is under way to end now: every wait of a run asks here.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use signal_hook::consts::{SIGHUP, SIGQUIT};
use signal_hook::iterator::Signals;
use uperf::say;

static ASKED: AtomicBool = AtomicBool::new(false);
static WANTED: AtomicBool = AtomicBool::new(false);
/// Between two questions.
const PAUSE: Duration = Duration::from_millis(5);

/// The first signal ends the measurement after the run that is under way, the second one that run, too; so does a terminal
/// that closes, and Ctrl-\. From now on none ends this process: what was measured is shown and written.
pub(crate) fn listen() -> anyhow::Result<()> {
    let mut signals = Signals::new(uperf::ending_signals()).context("cannot take signals")?;
    let work = move || {
        for signal in signals.forever() {
            if ASKED.swap(true, Ordering::Relaxed) || [SIGHUP, SIGQUIT].contains(&signal) {
                WANTED.store(true, Ordering::Relaxed);
            } else {
                say("ending after this run; once more ends it now");
            }
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(work).map(drop).context("cannot take signals")
}

/// Whether nothing new is to begin.
pub(crate) fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
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
