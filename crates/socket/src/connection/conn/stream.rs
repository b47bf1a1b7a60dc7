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
    /// SO_RCVLOWAT.
    pub(crate) rcvlowat: AtomicU32,
    /// Such polls since that did not ask.
    pub(crate) polls: AtomicU16,
    /// TCP takes as much as of a stream that was read.
    pub(crate) has_grown: AtomicBool,
    /// How often calls that may not wait found the ring full since a wait saw room.
    refusals: AtomicU8,
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
            rcvlowat: AtomicU32::new(1),
            polls: AtomicU16::new(0),
            has_grown: AtomicBool::new(false),
            refusals: AtomicU8::new(0),
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
            rcvlowat,
            polls: _,
            has_grown,
            refusals,
        } = self;
        rx_cache.reset();
        tx_cache.reset();
        heard.store(0, Ordering::Relaxed);
        heard_at.store(0, Ordering::Relaxed);
        asked_tcp.store(0, Ordering::Relaxed);
        refusals.store(0, Ordering::Relaxed);
        rcvlowat.store(1, Ordering::Relaxed);
        has_grown.store(false, Ordering::Relaxed);
    }
}

/// So often a program may ask in vain that merely waits for room: event loops write once more for room that
/// they were told of before (nginx, for a request that comes with it), and some try a fixed number of blocks
/// whenever they are told of any (iperf3: ten).
const IN_VAIN: u8 = 32;

impl Stream {
    /// A call that may not wait found the ring full, and has moved nothing.
    pub(crate) fn note_refusal(&self) {
        let before = self.refusals.load(Ordering::Relaxed);
        self.refusals.store(before.saturating_add(1), Ordering::Relaxed);
    }

    /// Whether that was so again and again, and nobody has waited for room since.
    pub(crate) fn asks_in_vain(&self) -> bool {
        self.refusals.load(Ordering::Relaxed) >= IN_VAIN
    }

    /// There is room, and a wait sees that.
    #[inline]
    pub(crate) fn forget_refusal(&self) {
        if self.refusals.load(Ordering::Relaxed) != 0 {
            self.refusals.store(0, Ordering::Relaxed);
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
