//! Who of this process waits for a socket, and what its doorbell was asked for. Owns: those counts;
//! `sleepers` alone changes them.

use fabric::turn::Turn;
use shm::bell::Bell;
use sync::{AtomicU32, Ordering};

#[repr(C)]
pub(crate) struct Interest {
    /// What the doorbell was asked for.
    pub(crate) bell: Bell,
    /// Threads asleep for data and for space.
    pub(crate) rx_waiters: AtomicU32,
    pub(crate) tx_waiters: AtomicU32,
    /// How many epoll registrations want what.
    pub(crate) epoll_in: AtomicU32,
    pub(crate) epoll_out: AtomicU32,
    pub(crate) epoll_edge: AtomicU32,
    /// Sends that found no space while an edge-triggered set watched.
    pub(super) stalls: AtomicU32,
    /// The registrations: head of their list plus one.
    pub(crate) registrations: AtomicU32,
    pub(crate) turn: Turn,
}

impl Interest {
    pub(super) fn new() -> Self {
        Interest {
            bell: Bell::new(),
            rx_waiters: AtomicU32::new(0),
            tx_waiters: AtomicU32::new(0),
            epoll_in: AtomicU32::new(0),
            epoll_out: AtomicU32::new(0),
            epoll_edge: AtomicU32::new(0),
            stalls: AtomicU32::new(0),
            registrations: AtomicU32::new(0),
            turn: Turn::new(),
        }
    }

    /// For another socket. (Stalls are only ever compared; the turn may be somebody's who comes late.)
    pub(super) fn reset(&self) {
        let Interest {
            bell,
            rx_waiters,
            tx_waiters,
            epoll_in,
            epoll_out,
            epoll_edge,
            stalls: _,
            registrations,
            turn: _,
        } = self;
        bell.reset();
        for count in [rx_waiters, tx_waiters, epoll_in, epoll_out, epoll_edge, registrations] {
            count.store(0, Ordering::Relaxed);
        }
    }

    /// Whether any thread is in a blocked call or a poll.
    pub(crate) fn has_blocked(&self, order: Ordering) -> bool {
        [&self.rx_waiters, &self.tx_waiters].map(|count| count.load(order)) != [0, 0]
    }
}
