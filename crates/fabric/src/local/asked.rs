//! The listener asked for last, and what the kernel said. Owns: for how long that is believed.

use crate::address::{store_endpoint, words_of};
use os::net::Endpoint;
use os::time::Cycles;
use shm::registry::EndpointWords;
use sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use sync::{AtomicU32, AtomicU64};

/// The listener asked for last: programs connect to the same one again and again, and the kernel's answer
/// costs as much as a tenth of a connection. It is believed for about a second, and only while the
/// announcement stands and its process lives; should another program have taken the port in that time, a
/// connection is offered in vain, which costs time, nothing else.
pub(super) struct LastAsked {
    /// Odd while it is written.
    version: AtomicU32,
    target: EndpointWords,
    cookie: AtomicU64,
    asked_at: AtomicU64,
}

const BELIEVED: Cycles = Cycles::from_ms(1_000);

impl LastAsked {
    pub(super) const fn new() -> Self {
        LastAsked {
            version: AtomicU32::new(0),
            target: EndpointWords { family_port: AtomicU32::new(0), addr: [const { AtomicU32::new(0) }; 4] },
            cookie: AtomicU64::new(0),
            asked_at: AtomicU64::new(0),
        }
    }

    pub(super) fn cookie_of(&self, target: Endpoint) -> Option<u64> {
        let version = self.version.load(Acquire);
        let wanted = words_of(target);
        let is_it = self.target.family_port.load(Relaxed) == wanted.0
            && self.target.addr.iter().zip(wanted.1).all(|(word, wanted)| word.load(Relaxed) == wanted);
        let age = Cycles::now().since(Cycles::load(&self.asked_at));
        let cookie = self.cookie.load(Relaxed);
        sync::fence(Acquire);
        let is_whole = version & 1 == 0 && self.version.load(Relaxed) == version;
        (is_it && is_whole && cookie != 0 && age < BELIEVED).then_some(cookie)
    }

    pub(super) fn remember(&self, target: Endpoint, cookie: u64) {
        let version = self.version.load(Relaxed);
        let is_ours =
            version & 1 == 0 && self.version.compare_exchange(version, version + 1, AcqRel, Relaxed).is_ok();
        if is_ours {
            store_endpoint(&self.target, target);
            self.cookie.store(cookie, Relaxed);
            Cycles::now().store(&self.asked_at);
            self.version.store(version.wrapping_add(2), Release);
        }
    }
}
