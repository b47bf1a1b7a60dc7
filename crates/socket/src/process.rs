//! All state of this room and of the fabric, in one value. Owns: the only static of the two rooms; and that
//! all of it is zero at first, so that a process that never connects has no memory for it.

use crate::afterwards::Notes;
use crate::borrower::Borrowed;
use crate::brief::Addresses;
use crate::callers::Calls;
use crate::doubt::Doubts;
use crate::epoll::Batches;
use crate::era::Forks;
use crate::handshake::OwnProposal;
use crate::held::Sockets;
use crate::here::Part;
use crate::inherited::Inheritance;
use crate::interest::registration::Registrations;
use crate::interest::set::Sets;
use crate::kept::Kept;
use crate::options::Options;
use crate::policy::Habits;
use crate::server::Deferral;
use crate::table::Table;
use crate::unseen::Searches;
use crate::watch::Watches;
use fabric::Fabric;
use fabric::tiers::Tiers;

macro_rules! parts {
    ($($name:ident: $part:ty = $new:expr,)*) => {
        /// What this library knows in one process.
        pub struct Process {
            $($name: $part,)*
        }

        impl Process {
            /// Knows nothing yet.
            pub const fn new() -> Self {
                Process { $($name: $new,)* }
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
    fabric: Fabric<Tiers> = Fabric::new(Tiers::new()),
    table: Table = Table::new(),
    borrowed: Borrowed = Borrowed::new(),
    doubts: Doubts = Doubts::new(),
    sockets: Sockets = Sockets::new(),
    registrations: Registrations = Registrations::new(),
    sets: Sets = Sets::new(),
    batches: Batches = Batches::new(),
    habits: Habits = Habits::new(),
    forks: Forks = Forks::new(),
    inheritance: Inheritance = Inheritance::new(),
    watches: Watches = Watches::new(),
    options: Options = Options::new(),
    deferral: Deferral = Deferral::new(),
    own_proposal: OwnProposal = OwnProposal::new(),
    notes: Notes = Notes::new(),
    calls: Calls = Calls::new(),
    kept: Kept = Kept::new(),
    addresses: Addresses = Addresses::new(),
    searches: Searches = Searches::new(),
}

impl Default for Process {
    fn default() -> Self {
        Self::new()
    }
}

static PROCESS: Process = Process::new();

/// The process that runs.
#[inline(always)]
fn here() -> &'static Process {
    #[cfg(feature = "sim")]
    if let Some(process) = sim::current() {
        return process;
    }
    &PROCESS
}

/// Which process a thread runs as, where several live in one of the machine's. For tests.
#[cfg(feature = "sim")]
mod sim {
    use super::Process;
    use core::cell::Cell;

    std::thread_local! {
        static CURRENT: Cell<Option<&'static Process>> = const { Cell::new(None) };
    }

    pub(super) fn current() -> Option<&'static Process> {
        CURRENT.get()
    }

    impl Process {
        /// From now on the calling thread runs as this process.
        pub fn enter(&'static self) {
            CURRENT.set(Some(self));
        }
    }
}
