//! Descriptors that can be spared. Owns: that what no connection of this process needs is given up where the
//! program is short of numbers, and comes again when it is wanted.

use crate::bells;
use crate::door::Tier;
use crate::fabric::Fabric;
use crate::groups::GROUPS;
use crate::passed::is_emptied;
use crate::slot::SlotView;
use crate::unused::is_let_go;
use sync::Ordering::Relaxed;

impl<T: Tier> Fabric<T> {
    /// Closes the doorbells of slots that nobody uses, and what is kept only to be at hand.
    pub fn spare_descriptors(&self) {
        if let Some(_turn) = self.offers.turn.take() {
            self.dissolve_dead_groups(GROUPS as u32, None);
            for (_, offered) in self.offers.all() {
                let is_made_here = self.offers.is_made_here(offered);
                for (_, view) in offered.used_views(&self.views) {
                    // (The peer may be about to claim what it was offered.)
                    if !view.is_used() && (!is_made_here || is_let_go(view.header())) {
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

    /// Gives up the doorbells of a slot whose one connection in this process is back on TCP; see
    /// `bells::give_up`.
    pub fn give_up_bells(&self, view: &SlotView, is_own: bool, is_in_calls: impl FnOnce() -> bool) -> bool {
        let Some(_turn) = self.offers.turn.take().filter(|_| view.has_any_bell() && view.has_one_user())
        else {
            return false;
        };
        let are_gone = bells::give_up(view, &self.tier, is_in_calls);
        if are_gone && is_own {
            for side in &view.header().sides {
                side.bell.store(u32::MAX, sync::Ordering::Release);
            }
        }
        are_gone
    }

    /// Closes the memory that is offered to peers where nothing in it will be looked for any more, and offers
    /// none of it from here on.
    pub fn give_up_offers(&self) {
        let Some(_turn) = self.offers.turn.take() else { return };
        for (_, offered) in self.offers.all() {
            let mut views = offered.used_views(&self.views);
            let number = offered.number.load(Relaxed);
            if number >= 0 && views.all(|(_, view)| is_nobodys_any_more(view)) {
                offered.number.store(-1, Relaxed);
                self.tier.close(number);
            }
        }
        self.disown_offers();
    }
}

/// Whether what the slot holds is read, and nothing will be moved through it.
fn is_nobodys_any_more(view: &SlotView) -> bool {
    is_let_go(view.header()) || (!view.has_any_bell() && is_emptied(view))
}
