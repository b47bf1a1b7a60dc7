//! What this room remembers of a process, in one value: which descriptors are ours, which calls it may make,
//! and what was asked once. Owns: the only static of such things. All of it is zero at first.

use crate::apart::Due;
use crate::confined::Filter;
use crate::diag::Cached;
use crate::fd::Internal;
use crate::inherited::Inherited;
use crate::limits::Shortage;
use crate::part::Part;
use crate::poll::Narrow;
use crate::process::CachedPid;
use crate::refusal::Origin;

macro_rules! parts {
    ($($name:ident: $part:ty,)*) => {
        /// What is remembered of one process.
        pub struct State {
            $($name: $part,)*
        }

        impl State {
            /// Nothing yet.
            pub const fn new() -> Self {
                State { $($name: <$part>::new(),)* }
            }
        }

        $(impl Part for $part {
            #[inline(always)]
            fn here() -> &'static Self {
                &here().$name
            }
        })*
    };
}

parts! {
    pid: CachedPid,
    filter: Filter,
    origin: Origin,
    narrow: Narrow,
    diag: Cached,
    internal: Internal,
    inherited: Inherited,
    shortage: Shortage,
    due: Due,
}

impl Default for State {
    fn default() -> Self {
        Self::new()
    }
}

static STATE: State = State::new();

/// That of the process that runs.
#[inline(always)]
fn here() -> &'static State {
    #[cfg(feature = "sim")]
    if let Some(machine) = crate::seat::taken() {
        // SAFETY: a seat answers with the address of a State that lives as long as the program.
        return unsafe { &*machine.state().cast::<State>() };
    }
    &STATE
}
