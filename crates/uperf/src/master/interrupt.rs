//! Ctrl-C and SIGTERM: the first ends the run in an orderly way, the second at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;

/// Calls `act` when the user wants to stop.
pub(super) fn on_signal(act: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first one finds the flag unset and sets it, the second finds it set.
        flag::register_conditional_shutdown(signal, 130, asked.clone())?;
        flag::register(signal, asked.clone())?;
    }
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let work = move || {
        if signals.forever().next().is_some() {
            act();
        }
    };
    thread::Builder::new().name("signals".into()).spawn(work).map(drop)
}
