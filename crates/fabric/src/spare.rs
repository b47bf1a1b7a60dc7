//! Descriptors that can be spared. Owns: that what no connection of this process needs is given up where the
//! program is short of numbers, and comes again when it is wanted.

use crate::bells;
use crate::door::Tier;
use crate::fabric::Fabric;
use crate::groups::GROUPS;
use crate::unused::is_let_go;

impl<T: Tier> Fabric<T> {
    /// Closes the doorbells of slots that nobody uses, and what is kept only to be at hand.
    pub fn spare_descriptors(&self) {
        if let Some(_turn) = self.offers.turn.take() {
            self.dissolve_dead_groups(GROUPS as u32, None);
            for (_, offered) in self.offers.all() {
                let is_own = self.offers.group_of(offered).is_some_and(|group| self.offers.is_own(group));
                for (_, view) in offered.used_views(&self.views) {
                    // (The peer may be about to claim what it was offered.)
                    if !view.is_used() && (!is_own || is_let_go(view.header())) {
                        bells::drop_all(view, &self.tier);
                    }
                }
            }
        }
        if let Some(_turn) = self.attached.turn.take() {
            for (_, attached) in self.attached.all() {
                let unused = attached.known_views(&self.views).filter(|view| !view.is_used());
                unused.for_each(|view| bells::drop_all(view, &self.tier));
                self.drop_kept(attached);
            }
        }
        self.tier.spare();
    }
}
