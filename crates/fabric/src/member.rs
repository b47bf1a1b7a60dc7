//! Holders of a slot's sides, by name. Owns: that a roster is written and read with names of one kind, those
//! of [`Life::name`](crate::door::Life::name).

use crate::door::Tier;
use crate::fabric::Fabric;
use shm::{SideBlock, SlotHeader};
use sync::Ordering::Acquire;

/// The rosters, as the calling process writes and reads them.
pub struct Members<'a, T: Tier>(&'a T);

impl<T: Tier> Fabric<T> {
    /// Who holds the sides of slots.
    #[inline]
    pub fn members(&self) -> Members<'_, T> {
        Members(&self.tier)
    }
}

impl<T: Tier> Members<'_, T> {
    /// This process holds `side` from now on. The caller looks at the slot's generation afterwards.
    pub fn join(&self, side: &SideBlock) {
        side.roster.join(self.0.name(), |name| self.0.is_name_alive(name));
    }

    /// This process holds `side` no more.
    pub fn leave(&self, side: &SideBlock) {
        side.roster.leave(self.0.name());
    }

    /// Whether another process is written down as a holder of `side`; it may have died.
    pub fn has_others(&self, side: &SideBlock) -> bool {
        side.roster.has_others(self.0.name())
    }

    /// Whether `side` was held by so many others, who are all written down and dead.
    pub fn were_others(&self, side: &SideBlock, count: u32) -> bool {
        side.roster.dead_beside(self.0.name(), |name| self.0.is_name_alive(name)) == Some(count)
    }

    /// Whether all others that are written down are dead, and as many as are counted; of those that became
    /// other programs none is.
    pub fn are_others_dead(&self, side: &SideBlock, counted: u32) -> bool {
        let dead = side.roster.dead_beside(self.0.name(), |name| self.0.is_name_alive(name));
        dead.is_some_and(|dead| dead > 0 && (counted == 0 || counted == dead))
    }

    /// Whether somebody is written down as a holder of `side` who has died.
    pub fn has_dead(&self, side: &SideBlock) -> bool {
        side.roster.has_living(|name| !self.0.is_name_alive(name))
    }

    /// The kernel knows that nobody holds `side`.
    pub fn clear(&self, side: &SideBlock) {
        side.roster.reset();
    }

    /// The process ids of those who are written down as holders of `side` and live.
    pub fn living(&self, side: &SideBlock) -> impl Iterator<Item = u32> {
        side.roster.living(|name| self.0.is_name_alive(name)).map(|name| self.0.pid_of(name))
    }

    /// Whether a living process holds the slot, or visits it.
    pub fn has_any_living(&self, slot: &SlotHeader) -> bool {
        let visitor = slot.visitor.load(Acquire);
        let is_visited = visitor != 0 && self.0.is_name_alive(visitor);
        is_visited || slot.sides.iter().any(|side| self.has_living(side))
    }

    /// Whether a living process holds `side`.
    pub fn has_living(&self, side: &SideBlock) -> bool {
        side.roster.has_living(|name| self.0.is_name_alive(name))
    }
}
