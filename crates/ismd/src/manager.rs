//! The service manager, if one has started us: readiness, reloads, watchdog, and a store for what is to
//! outlive the daemon. Owns: without a manager nothing is done, and that is no error.

use sd_notify::NotifyState;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};
use tracing::warn;

/// The watchdog, if the manager wants to hear from us.
pub(crate) struct Watchdog {
    every: Option<Duration>,
    last: Instant,
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        warn!(%error, "the service manager cannot be told");
    }
}

/// The daemon serves.
pub(crate) fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// The policy is being read again; [`ready`] follows.
pub(crate) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(_) => tell(&[NotifyState::Reloading]),
    }
}

/// The daemon ends.
pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Names under which [`keep`] keeps.
pub(crate) const KEPT: [&str; 2] = ["programs", "metrics"];

/// Asks the manager to hand a socket that it keeps to no other daemon.
pub(crate) fn forget(name: &str) {
    tell(&[NotifyState::FdStoreRemove, NotifyState::FdName(name)]);
}

/// Asks the manager to keep a socket and to hand it to the next daemon: whoever connects in between waits in
/// its queue.
pub(crate) fn keep(name: &str, socket: BorrowedFd<'_>) {
    let states = [NotifyState::FdStore, NotifyState::FdName(name)];
    if std::env::var_os("NOTIFY_SOCKET").is_some()
        && let Err(error) = sd_notify::notify_with_fds(&states, &[socket])
    {
        warn!(%error, name, "the service manager cannot be given a socket");
    }
}

impl Watchdog {
    pub(crate) fn new() -> Self {
        // (Twice as often as asked for, as sd_watchdog_enabled(3) recommends.)
        Watchdog { every: sd_notify::watchdog_enabled().map(|limit| limit / 2), last: Instant::now() }
    }

    /// How long a round may last.
    pub(crate) fn limit(&self) -> Option<Duration> {
        self.every.map(|every| every.saturating_sub(self.last.elapsed()))
    }

    /// A round has ended: the loop lives.
    pub(crate) fn pat(&mut self) {
        if self.every.is_some_and(|every| self.last.elapsed() >= every) {
            self.last = Instant::now();
            tell(&[NotifyState::Watchdog]);
        }
    }
}
