//! One value that holds all state of the fabric in a process, and the tier that it asks. Owns: that there is
//! no other state: two values know of each other only what their tiers tell them, so that two of them can
//! talk within one process.

use crate::budget::Budget;
use crate::config::Config;
use crate::door::Tier;
use crate::foreign::Attachments;
use crate::groups::Offers;
use crate::slot::{Kept, SlotView, Views};
use crate::turn::Turn;
use shm::slab::Index;

/// The fabric as one process has it. Zero while nothing was asked of it; all of its memory comes later, and
/// stays.
pub struct Fabric<T: Tier> {
    /// What the environment asks for.
    pub config: Config,
    pub(crate) tier: T,
    pub(crate) views: Views,
    pub(crate) offers: Offers,
    pub(crate) attached: Attachments,
    pub(crate) kept: Kept,
    pub(crate) leaving: Turn,
    pub(crate) budget: Budget,
}

impl<T: Tier> Fabric<T> {
    /// A fabric that asks `tier`, and has nothing yet.
    pub const fn new(tier: T) -> Self {
        Fabric {
            config: Config::new(),
            tier,
            views: Views::new(),
            offers: Offers::new(),
            attached: Attachments::new(),
            kept: Kept::new(),
            leaving: Turn::new(),
            budget: Budget::new(),
        }
    }

    /// Takes over one environment variable; unknown ones are ignored.
    pub fn set(&self, name: &[u8], value: &[u8]) {
        self.config.set(name, value);
        self.tier.set(name, value);
    }

    /// The doors of its tier.
    #[inline]
    pub fn tier(&self) -> &T {
        &self.tier
    }

    /// The view with this number.
    #[inline]
    pub fn view(&self, index: Index) -> Option<&'static SlotView> {
        self.views.get(index)
    }

    /// Leave to use the directory; `None` while the process is about to change its credentials.
    pub fn using(&self) -> Option<Using<'_, T>> {
        let using = Using(&self.tier);
        if self.tier.begin_use() { Some(using) } else { None }
    }

    /// In a fork child: slots of the parent stay usable but are never offered from here.
    pub fn after_fork(&self) {
        self.tier.after_fork();
        self.disown_inherited();
        self.owe_nothing();
    }
}

/// Held from a look at the directory until what follows from it is done. The directory is not let go
/// meanwhile.
pub struct Using<'a, T: Tier>(&'a T);

impl<T: Tier> Drop for Using<'_, T> {
    fn drop(&mut self) {
        self.0.end_use();
    }
}
