//! Slots that this process has made for sockets which it has passed on, and has no more. Owns: that their
//! receiver, who may look late, finds what he looks for, or finds that it is TCP: when the process leaves
//! what it shares with others, too; and that a number the program wants is given up by taking another one.

use crate::bells;
use crate::door::Tier;
use crate::fabric::Fabric;
use crate::groups::Offered;
use crate::process::ProcessId;
use crate::slot::SlotView;
use crate::unused::is_let_go_by;
use crate::verdict::Verdict;
use crate::visit::{self, ATTEMPTS, tell};
use shm::slab::Index;
use shm::{Ring, Side};
use sync::Ordering::{Relaxed, Release};
use wire::reason::Reason;

impl<T: Tier> Fabric<T> {
    /// Before the directory is let go: sockets that were passed on go back to TCP, for who gets one may find
    /// nothing here. What is left in memory stays until it was read.
    pub(crate) fn keep_passed_on(&self) {
        // (For all of them together: a peer that lies about its turns holds nobody up for long.)
        let mut attempts = ATTEMPTS;
        for (index, view) in self.offers.made_here().flat_map(|offered| self.passed_on(offered)) {
            if self.is_shared(view) {
                if goes_home(view, &mut attempts) {
                    bells::drop_all(view, &self.tier);
                }
                if view.has_any_bell() || !is_emptied(view) {
                    self.keep(index);
                }
            }
        }
    }

    /// Whether a slot is a connection's, and no offer that is TCP by now. From here on nothing can be said of
    /// it any more, whatever becomes of it.
    fn is_shared(&self, view: &SlotView) -> bool {
        let cookie = view.header().client_cookie.load(Relaxed);
        let Some(row) = self.rows().find(cookie) else { return true };
        self.rows().note_homeward(row, cookie);
        self.rows().decide(row, Side::Client, Verdict::Plain(Reason::MEM)) == Verdict::Smc
    }

    /// Slots of a segment whose client's end others have.
    fn passed_on(&self, offered: &'static Offered) -> impl Iterator<Item = (Index, &'static SlotView)> {
        let is_anothers = |view: &SlotView| {
            !view.is_used()
                && !is_let_go_by(&view.header().sides[Side::Client as usize])
                && !self.is_orphaned(view)
        };
        offered.used_views(&self.views).filter(move |(_, view)| is_anothers(view))
    }

    /// What the program wants the number of gets another one, if nobody in this process uses it: a segment,
    /// or a doorbell of a socket that was passed on. Whether it did.
    #[cold]
    pub fn renumber(&self, number: i32) -> bool {
        let Some(_turn) = self.offers.turn.take() else { return false };
        // (What the daemon has is known to it by its number.)
        let is_far = |offered: &Offered| {
            let peer = self.offers.group_of(offered).map(|group| group.peer.load(Relaxed));
            peer.is_some_and(|peer| ProcessId::from_word(peer).is_far())
        };
        self.offers.made_here().filter(|offered| !is_far(offered)).any(|offered| {
            self.renumber_segment(offered, number)
                || self.passed_on(offered).any(|(_, view)| bells::renumber(view, &self.tier, number))
        })
    }

    /// (Who has left the directory cannot say there where it is.)
    fn renumber_segment(&self, offered: &Offered, number: i32) -> bool {
        let is_it = offered.number.load(Relaxed) == number && self.tier.mapped().is_some();
        let Some(other) = is_it.then(|| os::fd::duplicate_elsewhere(number).ok()).flatten() else {
            return false;
        };
        offered.number.store(other, Relaxed);
        for (_, view) in offered.used_views(&self.views) {
            let found = self.rows().find(view.header().client_cookie.load(Relaxed));
            if let Some(row) = found.and_then(|row| self.rows().row(row))
                && row.nonce.load(Relaxed) == offered.nonce.load(Relaxed)
            {
                row.memfd.store(other as u32, Release);
            }
        }
        self.tier.close(number);
        true
    }
}

/// Whether nothing is put into a slot any more. Whoever has it learns that from it.
fn goes_home(view: &SlotView, attempts: &mut u32) -> bool {
    let is_home = visit::goes_home(view, Reason::MEM, attempts);
    let rings = [Side::Client, Side::Server].map(|side| view.outgoing(side));
    tell(rings, view.bells().each_ref().map(|bell| bell.load(Relaxed)));
    is_home
}

/// Whether all that was in a slot is read, and nothing will be moved through it.
pub(crate) fn is_emptied(view: &SlotView) -> bool {
    let is_over = |ring: &Ring| ring.has_ended_for_good() && ring.used() == Ok(0);
    [Side::Client, Side::Server].iter().all(|side| is_over(view.outgoing(*side)))
}
