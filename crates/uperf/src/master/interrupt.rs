//! Ctrl-C, SIGTERM and a closed terminal: the first ends the run in an orderly way, a second one from somebody who is there at
//! once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use signal_hook::consts::SIGHUP;
use signal_hook::flag;
use signal_hook::iterator::Signals;

use crate::say::ending_signals;

/// Calls `act` when the user wants to stop.
pub(super) fn on_signal(act: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let asked = Arc::new(AtomicBool::new(false));
    for signal in ending_signals() {
        // In this order: the first one finds the flag unset and sets it, the second finds it set.
        if signal != SIGHUP {
            flag::register_conditional_shutdown(signal, 130, asked.clone())?;
        }
        flag::register(signal, asked.clone())?;
    }
    let mut signals = Signals::new(ending_signals())?;
    let work = move || {
        if signals.forever().next().is_some() {
            act();
        }
    };
    thread::Builder::new().name("signals".into()).spawn(work).map(drop)
}
