//! Descriptors in the program's way. Owns: that what no connection of this process needs is given up where
//! the program is short of numbers, and comes again when it is wanted; and that what is needed can have
//! another number.

use crate::bells;
use crate::door::Tier;
use crate::fabric::Fabric;
use crate::groups::GROUPS;
use crate::slot::SlotView;
use crate::unused::is_let_go;
use core::sync::atomic::{AtomicI32, Ordering::Relaxed};

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
    /// Whether `from` is a descriptor of ours; if so it is had by the number `to` from now on, by which peers
    /// find it as well. (Rows that tell where a segment is are the connections'.)
    pub fn renumber(&self, from: i32, to: i32) -> bool {
        let is_it = |number: &AtomicI32| number.compare_exchange(from, to, Relaxed, Relaxed).is_ok();
        if let Some(_turn) = self.offers.turn.take() {
            for (_, offered) in self.offers.all() {
                if is_it(&offered.number) {
                    return true;
                }
                let is_own = self.offers.group_of(offered).is_some_and(|group| self.offers.is_own(group));
                for (_, view) in offered.used_views(&self.views) {
                    if let Some(side) = view.bells().iter().position(is_it) {
                        if is_own {
                            view.header().sides[side].bell.store(to as u32, shm::sync::Ordering::Release);
                        }
                        return true;
                    }
                }
            }
        }
        if let Some(_turn) = self.attached.turn.take() {
            for (_, attached) in self.attached.all() {
                let mut bells = attached.known_views(&self.views).flat_map(SlotView::bells);
                if is_it(&attached.kept) || bells.any(is_it) {
                    return true;
                }
            }
        }
        self.tier.renumber(from, to)
    }
}
