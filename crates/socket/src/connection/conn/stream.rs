//! What calls that move bytes remember from one to the next. Owns: nothing that decides; all of it is a hint
//! or a copy.

use shm::{RxCache, TxCache};
use sync::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

#[repr(C)]
pub(crate) struct Stream {
    pub(crate) rx_cache: RxCache,
    pub(crate) tx_cache: TxCache,
    /// How far this process had read when it last wrote, and when it last had read something by then since it
    /// had written before (in ticks): the low bits of each.
    pub(super) heard: AtomicU32,
    pub(super) heard_at: AtomicU32,
    /// When a call that may not wait last asked TCP and it had nothing to say, in cycles.
    pub(super) asked_tcp: AtomicU64,
    /// When a poll of sockets of which it is the first last asked the kernel, in cycles.
    pub(crate) polled: AtomicU64,
    /// Where the ring was full for a call that may not wait, and had not moved it: how far it was written to,
    /// plus one.
    refused_at: AtomicU64,
    /// How often, there.
    refusals: AtomicU8,
    /// SO_RCVLOWAT.
    pub(crate) rcvlowat: AtomicU32,
    /// Such polls since that did not ask.
    pub(crate) polls: AtomicU16,
    /// TCP takes as much as of a stream that was read.
    pub(crate) has_grown: AtomicBool,
}

impl Stream {
    pub(super) fn new() -> Self {
        Stream {
            rx_cache: RxCache::new(),
            tx_cache: TxCache::new(),
            heard: AtomicU32::new(0),
            heard_at: AtomicU32::new(0),
            asked_tcp: AtomicU64::new(0),
            polled: AtomicU64::new(0),
            refused_at: AtomicU64::new(0),
            refusals: AtomicU8::new(0),
            rcvlowat: AtomicU32::new(1),
            polls: AtomicU16::new(0),
            has_grown: AtomicBool::new(false),
        }
    }

    pub(super) fn reset(&self) {
        let Stream {
            rx_cache,
            tx_cache,
            heard,
            heard_at,
            asked_tcp,
            polled: _,
            refused_at,
            refusals: _,
            rcvlowat,
            polls: _,
            has_grown,
        } = self;
        rx_cache.reset();
        tx_cache.reset();
        heard.store(0, Ordering::Relaxed);
        heard_at.store(0, Ordering::Relaxed);
        asked_tcp.store(0, Ordering::Relaxed);
        refused_at.store(0, Ordering::Relaxed);
        rcvlowat.store(1, Ordering::Relaxed);
        has_grown.store(false, Ordering::Relaxed);
    }
}

/// So often a program may ask in vain that merely waits for room: event loops write once more for room that
/// they were told of before (nginx, for a request that comes with it), and some try a fixed number of blocks
/// whenever they are told of any (iperf3: ten).
const IN_VAIN: u8 = 32;

impl Stream {
    /// A call that may not wait found the ring full, which had been `written` to so far.
    pub(crate) fn note_refusal(&self, written: u64) {
        let at = written.wrapping_add(1);
        let before = if self.refused_at.swap(at, Ordering::Relaxed) == at { self.refusals() } else { 0 };
        self.refusals.store(before.saturating_add(1), Ordering::Relaxed);
    }

    fn refusals(&self) -> u8 {
        self.refusals.load(Ordering::Relaxed)
    }

    /// Whether that was so again and again, and nobody has waited for room since.
    pub(crate) fn asks_in_vain(&self, written: u64) -> bool {
        self.refused_at.load(Ordering::Relaxed) == written.wrapping_add(1) && self.refusals() >= IN_VAIN
    }

    /// There is room, and a wait sees that.
    #[inline]
    pub(crate) fn forget_refusal(&self) {
        if self.refused_at.load(Ordering::Relaxed) != 0 {
            self.refused_at.store(0, Ordering::Relaxed);
        }
    }
}

/// SO_RCVTIMEO and SO_SNDTIMEO when a filter of system calls came, after which nobody can ask.
#[repr(C)]
pub(crate) struct Timeouts(pub(super) [AtomicU64; 2]);

impl Timeouts {
    pub(super) const fn new() -> Self {
        Timeouts([const { AtomicU64::new(0) }; 2])
    }
}
