//! What each role remembers of the other between its operations. Owns: stale values are safe, only slower.

use sync::{AtomicU64, Ordering};

/// Once the ring has been used this far into its memory, the producer looks for a chance to start over at its
/// begin.
pub(crate) const REBASE_AFTER: u64 = 8 * 1024;

/// What the producing process remembers.
#[derive(Debug)]
pub struct TxCache {
    pub(crate) cons: AtomicU64,
    pub(crate) next_rebase: AtomicU64,
}

/// What the consuming process remembers: a producer cursor and the base that belongs to it.
#[derive(Debug)]
pub struct RxCache {
    pub(crate) prod: AtomicU64,
    pub(crate) base: AtomicU64,
}

macro_rules! fresh_cache {
    ($name:ident, $($field:ident = $value:expr),+) => {
        impl $name {
            /// Knows nothing yet.
            pub fn new() -> Self {
                $name { $($field: AtomicU64::new($value)),+ }
            }

            /// Forgets everything, for another connection.
            pub fn reset(&self) {
                $(self.$field.store($value, Ordering::Relaxed);)+
            }
        }
        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }
    };
}
fresh_cache!(TxCache, cons = 0, next_rebase = REBASE_AFTER);
fresh_cache!(RxCache, prod = 0, base = 0);
