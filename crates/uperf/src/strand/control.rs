//! What a strand and whoever directs it share: the gates between transactions, the number of turns after which one
//! ends, live counters, and a handle to what may have to be shut down.
//!
//! A *turn* is one execution of one flowop; a pass has as many as the `count`s of its flowops add up to. Both ends of a
//! connection take their turns in the same order, so a number of turns is a place that both know. The strand looks at
//! one atomic number per turn and per call that moved bytes; all else happens between transactions.

use std::collections::HashMap;
use std::net::Shutdown;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use socket2::Socket;

/// No end in sight.
pub(crate) const UNLIMITED: u64 = u64::MAX;

/// What a strand has done so far, all transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Counts {
    /// Bytes written.
    pub(crate) sent: u64,
    /// Bytes read.
    pub(crate) received: u64,
    /// Flowops executed.
    pub(crate) operations: u64,
    /// Flowops that failed and were allowed to.
    pub(crate) errors: u64,
}

impl Counts {
    /// What came after `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            sent: self.sent - earlier.sent,
            received: self.received - earlier.received,
            operations: self.operations - earlier.operations,
            errors: self.errors - earlier.errors,
        }
    }

    /// Both together.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            sent: self.sent + other.sent,
            received: self.received + other.received,
            operations: self.operations + other.operations,
            errors: self.errors + other.errors,
        }
    }

    /// Bytes in both directions.
    pub(crate) fn bytes(self) -> u64 {
        self.sent + self.received
    }
}

/// When a released transaction began, on the clock of [`super::clock::now_ns`].
pub(crate) type BeginNs = u64;

/// How the other end says that a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum End {
    /// After exactly so many turns, at both ends.
    After(u64),
    /// At the next occasion.
    Soon,
}

impl End {
    /// Turns after which it is over.
    pub(crate) fn limit(self) -> u64 {
        match self {
            Self::After(turns) => turns,
            Self::Soon => 0,
        }
    }
}

#[derive(Default)]
struct Gates {
    /// When each transaction was released, in their order.
    begun: Vec<BeginNs>,
    /// How transactions end that the strand is in, or comes to.
    ends: HashMap<usize, End>,
    /// The transaction that the strand is in.
    current: Option<usize>,
    /// Nothing is begun any more.
    is_stopped: bool,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Control {
    gates: Mutex<Gates>,
    opened: Condvar,
    limit: AtomicU64,
    released: AtomicUsize,
    sent: AtomicU64,
    received: AtomicU64,
    operations: AtomicU64,
    sockets: Mutex<HashMap<u64, Arc<Socket>>>,
}

impl Control {
    /// Waits for `transaction` to be released, which then has `limit` turns or fewer; None if there is no going on.
    pub(crate) fn enter(&self, transaction: usize, limit: u64) -> Option<BeginNs> {
        let waiting = |gates: &mut Gates| !gates.is_stopped && gates.begun.len() <= transaction;
        let mut gates = self.opened.wait_while(self.gates(), waiting).unwrap_or_else(PoisonError::into_inner);
        if gates.is_stopped {
            return None;
        }
        gates.current = Some(transaction);
        let limit = gates.ends.get(&transaction).map_or(limit, |end| end.limit().min(limit));
        self.limit.store(limit, Ordering::Relaxed);
        gates.begun.get(transaction).copied()
    }

    /// Lets the strand begin `transaction` when it comes to it.
    pub(crate) fn release(&self, transaction: usize, begin_ns: BeginNs) {
        let mut gates = self.gates();
        let begun = gates.begun.len().max(transaction + 1);
        gates.begun.resize(begun, begin_ns);
        self.released.store(begun, Ordering::Relaxed);
        self.opened.notify_all();
    }

    /// Ends `transaction`, which may not have begun yet.
    pub(crate) fn end(&self, transaction: usize, end: End) {
        let mut gates = self.gates();
        gates.ends.insert(transaction, end);
        if gates.current == Some(transaction) {
            self.limit.fetch_min(end.limit(), Ordering::Relaxed);
        }
    }

    /// After how many turns both ends ended `transaction`, if the other one told.
    pub(crate) fn agreed(&self, transaction: usize) -> Option<u64> {
        match self.gates().ends.get(&transaction) {
            Some(End::After(turns)) => Some(*turns),
            _ => None,
        }
    }

    /// Ends whatever goes on at the next occasion, and begins nothing more.
    pub(crate) fn stop(&self) {
        self.gates().is_stopped = true;
        self.limit.store(0, Ordering::Relaxed);
        self.opened.notify_all();
    }

    /// Ends all connections, so that a blocked strand notices that it was stopped.
    pub(crate) fn shut(&self) {
        // Fails on a connection that has ended already, which is as good.
        self.sockets().values().for_each(|socket| drop(socket.shutdown(Shutdown::Both)));
    }

    /// After how many turns the current transaction ends.
    pub(crate) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Whether a transaction after `transaction` has been released: the other end is done with this one.
    pub(crate) fn has_moved_on(&self, transaction: usize) -> bool {
        self.released.load(Ordering::Relaxed) > transaction + 1
    }

    /// Shows what was done so far.
    pub(crate) fn publish(&self, counts: &Counts) {
        self.sent.store(counts.sent, Ordering::Relaxed);
        self.received.store(counts.received, Ordering::Relaxed);
        self.operations.store(counts.operations, Ordering::Relaxed);
    }

    /// What was last shown; errors are only in the report.
    pub(crate) fn counts(&self) -> Counts {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            sent: load(&self.sent),
            received: load(&self.received),
            operations: load(&self.operations),
            errors: 0,
        }
    }

    /// Remembers a connection under a number of the strand's choice.
    pub(crate) fn opened(&self, id: u64, socket: Arc<Socket>) {
        self.sockets().insert(id, socket);
    }

    /// Forgets it, so that it can close.
    pub(crate) fn closed(&self, id: u64) {
        self.sockets().remove(&id);
    }

    fn gates(&self) -> MutexGuard<'_, Gates> {
        self.gates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sockets(&self) -> MutexGuard<'_, HashMap<u64, Arc<Socket>>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_given_early_waits_for_its_transaction() {
        let control = Control::default();
        control.release(0, 7);
        control.end(1, End::After(3));
        assert_eq!(control.enter(0, 10), Some(7));
        assert_eq!(control.limit(), 10);
        control.end(0, End::After(4));
        assert_eq!(control.limit(), 4);
        assert!(!control.has_moved_on(0));
        control.release(1, 8);
        assert!(control.has_moved_on(0));
        assert_eq!((control.enter(1, UNLIMITED), control.limit()), (Some(8), 3));
        assert_eq!((control.agreed(1), control.agreed(2)), (Some(3), None));
    }

    #[test]
    fn stop_ends_this_transaction_and_opens_no_other() {
        let control = Control::default();
        control.release(0, 0);
        assert!(control.enter(0, UNLIMITED).is_some());
        control.stop();
        assert_eq!((control.limit(), control.enter(1, UNLIMITED)), (0, None));
    }
}
