//! What nobody uses any more. Owns: when a slot is nobody's, and that a link group whose peer has died gives
//! its memory, its doorbells and its places in the tables back.
//!
//! Addresses stay mapped, since a late look must find something; they serve the next segment of the same
//! shape.

use crate::bells;
use crate::door::Tier;
use crate::fabric::Fabric;
use crate::groups::{Group, Offered, SPARE};
use crate::pay::Price;
use crate::process::ProcessId;
use crate::slot::SlotView;
use os::time::Cycles;
use shm::segment::{Geometry, Segment};
use shm::slab::Index;
use shm::{Side, SideBlock, SlotHeader};
use sync::Ordering::Acquire;
use sync::Ordering::Relaxed;

/// Whether both sides say that they hold the slot no more.
pub(crate) fn is_let_go(header: &SlotHeader) -> bool {
    header.sides.iter().all(is_let_go_by)
}

/// Whether one of them says so.
pub(crate) fn is_let_go_by(side: &SideBlock) -> bool {
    side.holders.load(Acquire) == 0 && side.roster.is_empty()
}

/// What was passed on is looked at by then.
const FLIGHT: Cycles = Cycles::from_ms(60_000);

impl<T: Tier> Fabric<T> {
    /// Whether nobody is left who could use the slot, though not all said so. That the kernel lists no socket
    /// does not suffice: after a reset it lists neither, and both descriptors may be open.
    pub(crate) fn is_orphaned(&self, view: &SlotView) -> bool {
        if view.is_far() {
            return self.is_left_by_far(view);
        }
        // (Asked twice: whoever holds it may take leave between two looks.)
        !self.is_in_flight(view)
            && self.tier.is_over(view)
            && !self.members().has_any_living(view.header())
            && !self.is_in_flight(view)
    }

    /// Whether one side was passed on of late, and whoever gets it is to find bytes: somebody is counted
    /// there, and nobody written down who has died. (Once both streams have ended the kernel lists a socket
    /// no more, held or not. Who holds it may take leave between two looks.)
    fn is_in_flight(&self, view: &SlotView) -> bool {
        [Side::Client, Side::Server].into_iter().any(|side| {
            let block = &view.header().sides[side as usize];
            let incoming = view.incoming(side);
            let is_unread = incoming.used() != Ok(0) || incoming.unread_outside() != Some(0);
            let written = Cycles::from_word(incoming.written_at());
            let is_late = || Cycles::now().since(written) >= FLIGHT;
            block.holders.load(Acquire) > 0 && is_unread && !is_late() && !self.members().has_dead(block)
        })
    }

    /// The same where neither the peer's process nor its socket can be asked for: this side has let go, and
    /// nobody who was passed the memory holds it.
    fn is_left_by_far(&self, view: &SlotView) -> bool {
        let [client, server] = &view.header().sides;
        let Some(home) = self.offers.home_of(view).filter(|home| home.has(view)) else {
            // (One that was attached: whoever asks knows that its maker has died.)
            return true;
        };
        let is_left = is_let_go_by(client) && !self.tier.is_held_elsewhere(home.number.load(Relaxed));
        if is_left {
            self.members().clear(server);
            server.holders.store(0, sync::Ordering::Release);
        }
        is_left
    }

    /// Whether somebody holds the memory of an offered slot, beside this process.
    pub fn is_offer_held(&self, view: &SlotView) -> bool {
        let home = self.offers.home_of(view).filter(|home| home.has(view));
        home.is_some_and(|home| self.tier.is_held_elsewhere(home.number.load(Relaxed)))
    }

    /// Looks at some groups, but for one, and dissolves those whose peer has died and which nobody uses; and
    /// those of a parent that no socket of this process is on. The caller has the turn of the offers.
    pub(crate) fn dissolve_dead_groups(&self, looks: u32, but: Option<Index>) {
        let made = self.offers.groups.made();
        for _ in 0..looks.min(made) {
            let index = Index(self.offers.hand.fetch_add(1, Relaxed) % made);
            let Some(group) = self.offers.groups.get(index) else { continue };
            if Some(index) != but && group.peer.load(Relaxed) != 0 && self.is_over_with(index, group) {
                self.dissolve(index, group);
            }
        }
    }

    fn segments_of(&self, group: Index) -> impl Iterator<Item = (Index, &'static Offered)> {
        self.offers.all().filter(move |(_, offered)| offered.group.load(Relaxed) == group.0)
    }

    /// Whether nobody needs what a group has: no socket of this process, which would touch its memory, and no
    /// other process, which would open its descriptors here.
    fn is_over_with(&self, index: Index, group: &Group) -> bool {
        let is_used = |offered: &Offered| offered.used_views(&self.views).any(|(_, view)| view.is_used());
        if self.segments_of(index).any(|(_, offered)| is_used(offered)) {
            return false;
        }
        if !self.offers.is_of_this_process(group) {
            return true;
        }
        let peer = ProcessId::from_word(group.peer.load(Relaxed));
        let is_alive = || self.tier.mapped().is_none_or(|map| self.tier.is_alive(map, peer));
        let lives = self.offers.is_own(group) && is_alive();
        let is_free = |view: &SlotView| is_let_go(view.header()) || self.is_orphaned(view);
        let is_nobodys = |offered: &Offered| offered.used_views(&self.views).all(|(_, view)| is_free(view));
        !lives && self.segments_of(index).all(|(_, offered)| is_nobodys(offered))
    }

    fn dissolve(&self, index: Index, group: &Group) {
        let is_own = self.offers.is_own(group);
        for (_, offered) in self.segments_of(index) {
            for (_, view) in offered.used_views(&self.views) {
                if is_own {
                    // A side that was killed has told nobody what it moved.
                    self.totals().settle(view, Side::Client);
                }
                bells::drop_all(view, &self.tier);
            }
            if let Some(segment) = offered.segment.get() {
                self.tier.retire(segment.memory());
                let paid = offered.paid.swap(0, Relaxed);
                self.pay_back(Price::of(segment.geometry().len(), if is_own { paid } else { 0 }));
            }
            let number = offered.number.swap(-1, Relaxed);
            if number >= 0 {
                self.tier.close(number);
            }
            offered.group.store(SPARE, Relaxed);
        }
        group.segments.store(0, Relaxed);
        group.current.store(0, Relaxed);
        group.free.clear();
        group.closing.clear();
        group.peer.store(0, Relaxed);
    }

    /// A segment of this shape that belongs to no group.
    pub(crate) fn spare_segment(&self, geometry: Geometry) -> Option<(Index, &'static Offered)> {
        self.offers.all().find(|(_, offered)| {
            offered.group.load(Relaxed) == SPARE
                && offered.segment.get().map(Segment::geometry) == Some(geometry)
        })
    }
}
