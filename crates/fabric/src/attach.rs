//! The server's view of memory that clients offer: segments that their tier opened, kept for later
//! connections. Owns: that what was opened is the segment which was meant (length, nonce, geometry), and when
//! a mapping is let go.

use crate::bells;
use crate::door::{ForeignMemory as _, Tier, Whereabouts};
use crate::fabric::Fabric;
use crate::foreign::Attached;
use crate::host::marks::Carried;
use crate::pay::Price;
use crate::process::ProcessId;
use crate::rows::RowId;
use crate::slot::SlotView;
use crate::unused::is_let_go_by;
use crate::verdict::Verdict;
use crate::visit;
use os::mem;
use shm::Side;
use shm::registry::RegistryMap;
use shm::segment::{Geometry, RING_MAX, SLOTS_MAX, Segment};
use shm::slab::Index;
use sync::{AtomicI32, AtomicU32, AtomicU64, Ordering::Relaxed};
use wire::reason::Reason;

/// No segment is longer.
const LONGEST: usize = Geometry { slots: SLOTS_MAX, ring_size: RING_MAX }.len();

impl<T: Tier> Fabric<T> {
    /// Maps the slot that `row` offers and opens its doorbells. Reasons: OPTUNSUPP where the process is
    /// closed to others (undumpable), OPERATOR where one of the two stays on TCP by its operator's wish,
    /// NOSMCDDEV where the tier does not find it, VERSMISMAT, SYNCERR for what contradicts itself, MEM.
    pub fn attach(&self, row_id: RowId) -> Result<(Index, &'static SlotView), Reason> {
        match self.attach_by_row(row_id) {
            // (What is looked for may just have got another number.)
            Err(Reason::NOSMCDDEV) => self.attach_by_row(row_id),
            attached => attached,
        }
    }

    #[inline]
    fn attach_by_row(&self, row_id: RowId) -> Result<(Index, &'static SlotView), Reason> {
        let row = self.rows().row(row_id).ok_or(Reason::SYNCERR)?;
        let nonce = row.nonce.load(sync::Ordering::Relaxed);
        let place = Whereabouts {
            pid: row.owner_pid.load(sync::Ordering::Relaxed),
            number: row.memfd.load(sync::Ordering::Relaxed) as i32,
            nonce,
            holder: ProcessId::load(&row.sides[Side::Server as usize].process),
        };
        if self.is_undecided_and_kept(row_id, place.pid) {
            return Err(Reason::OPERATOR);
        }
        let slot = row.slot.load(sync::Ordering::Relaxed);
        let owner = ProcessId::load(&row.sides[Side::Client as usize].process);
        let is_shared = self.rows().verdict(row_id) == Some(Verdict::Smc);
        self.attach_at(&place, slot, owner, is_shared)
    }

    /// The same by what came with an accepted socket, from a client that shares no directory with this
    /// process.
    #[cold]
    pub fn attach_carried(&self, carried: &Carried) -> Result<(Index, &'static SlotView), Reason> {
        let owner = ProcessId::client(carried.client);
        let place = Whereabouts {
            pid: carried.client,
            number: carried.number as i32,
            nonce: carried.nonce,
            holder: owner,
        };
        self.attach_at(&place, carried.slot, owner, false)
    }

    #[inline]
    fn attach_at(
        &self,
        place: &Whereabouts,
        slot: u32,
        owner: ProcessId,
        is_shared: bool,
    ) -> Result<(Index, &'static SlotView), Reason> {
        let nonce = place.nonce;
        let _turn = self.attached.turn.take().ok_or(Reason::SYNCERR)?;
        if nonce == 0 {
            return Err(Reason::SYNCERR);
        }
        let (index, attached) = match self.attached.known(nonce, owner) {
            Some(attached) => attached,
            None => self.tier.open(place, |memory| self.map(memory, nonce, owner))?,
        };
        let view = self.view_of(index, attached, slot)?;
        view.1.note_far(owner.is_far());
        if !bells::are_current(view.1) {
            self.open_bells(attached, view.1, owner, place, is_shared)?;
        }
        view.1.take_up();
        Ok(view)
    }

    fn is_undecided_and_kept(&self, row: RowId, client: u32) -> bool {
        let is_kept = || [client, os::process::cached_pid()].iter().any(|pid| self.is_kept_on_tcp(*pid));
        is_kept() && self.rows().verdict(row).is_none()
    }

    /// Opens the doorbells of a slot. Where nobody holds the client's end, for it was let go of, or its
    /// process has died, nobody will ring them: then bytes that it left in the ring are to be read still, by
    /// a program that was exec'ed meanwhile. (A process is believed to live as long as a child that had
    /// its lock, and nothing else.) Where others hold an end, by doorbells that their maker has taken with
    /// him, a connection that `is_shared` goes back to TCP: neither could ring the other.
    fn open_bells(
        &self,
        attached: &Attached,
        view: &SlotView,
        owner: ProcessId,
        place: &Whereabouts,
        is_shared: bool,
    ) -> Result<(), Reason> {
        let client = &view.header().sides[Side::Client as usize];
        let open_at = |pid| {
            let holder = self.tier.holder(&Whereabouts { pid, ..*place }, attached.identity());
            holder.and_then(|holder| bells::open(view, &self.tier, holder))
        };
        match open_at(place.pid) {
            Ok(()) => Ok(()),
            // (Names in its rosters mean nothing here.)
            Err(reason) if owner.is_far() => Err(reason),
            // Its children have what it had, under the same numbers.
            Err(_) if self.members().living(client).any(|pid| open_at(pid).is_ok()) => Ok(()),
            // (It may die between two of these steps.)
            Err(reason) => {
                let is_dead = || self.tier.mapped().is_some_and(|map| !self.tier.is_alive(map, owner));
                let holders = client.holders.load(sync::Ordering::Acquire);
                let is_left = is_let_go_by(client)
                    || self.members().were_others(client, holders)
                    || (is_dead() && !self.members().has_living(client));
                // (Of a connection that is back on TCP only what was left in the rings is read.)
                let is_free = is_left || is_back_on_tcp(view);
                let is_done = match is_shared && !is_back_on_tcp(view) {
                    true if !is_free || self.has_others_at_an_end(view) => Some(self.part(view, reason)),
                    true => {
                        // (A program that was started with the client's end may not have looked yet: it would
                        // find other doorbells than these.)
                        let _ = is_let_go_by(client) || self.part(view, reason);
                        None
                    }
                    false => (!is_free).then_some(false),
                };
                match is_done.unwrap_or(true) && bells::hang_private(view, &self.tier) {
                    true => Ok(()),
                    false => Err(reason),
                }
            }
        }
    }

    fn has_others_at_an_end(&self, view: &SlotView) -> bool {
        let me = os::process::cached_pid();
        view.header().sides.iter().any(|side| self.members().living(side).any(|pid| pid != me))
    }

    /// Takes a connection back to TCP whose doorbells are not to be had here. Whoever may sleep at either end
    /// is rung by each doorbell that he has: one that rings falsely costs a look. Whether it is there, and
    /// nobody sleeps on.
    #[cold]
    fn part(&self, view: &SlotView, reason: Reason) -> bool {
        if !visit::goes_home(view, reason, &mut { visit::ATTEMPTS }) {
            return false;
        }
        let me = os::process::cached_pid();
        let rings = [Side::Client, Side::Server].map(|side| view.outgoing(side));
        for side in visit::sleepers(rings) {
            let members = self.members();
            let holders = members.living(&view.header().sides[side as usize]).filter(|pid| *pid != me);
            let (mut are_any, mut is_any_rung) = (false, false);
            for pid in holders {
                are_any = true;
                is_any_rung |= self.tier.ring_every(pid);
            }
            if are_any && !is_any_rung {
                return false;
            }
        }
        true
    }

    pub(crate) fn view_of(
        &self,
        home: Index,
        attached: &'static Attached,
        slot: u32,
    ) -> Result<(Index, &'static SlotView), Reason> {
        let place = attached.views.get(slot as usize).ok_or(Reason::SYNCERR)?;
        if let Some(index) = place.load(Relaxed).checked_sub(1) {
            return self.views.get(Index(index)).map(|view| (Index(index), view)).ok_or(Reason::SYNCERR);
        }
        let (index, view) = self.views.make(attached.segment, slot, home.0).ok_or(Reason::SYNCERR)?;
        place.store(index.0 + 1, Relaxed);
        Ok((index, view))
    }

    /// Maps memory that was offered, and keeps a way to it for the tools. (While the credentials change
    /// nothing is kept.)
    fn map(
        &self,
        memory: &T::Foreign,
        nonce: u64,
        owner: ProcessId,
    ) -> Result<(Index, &'static Attached), Reason> {
        let (index, attached) = self.map_proven(memory, nonce, owner)?;
        if let Some(_using) = self.using() {
            attached.kept.store(memory.keep(), Relaxed);
        }
        Ok((index, attached))
    }

    fn map_proven(
        &self,
        offered: &T::Foreign,
        nonce: u64,
        owner: ProcessId,
    ) -> Result<(Index, &'static Attached), Reason> {
        let len = offered.size()?;
        if len > LONGEST {
            return Err(Reason::SYNCERR);
        }
        self.let_go_of_the_dead();
        let price = self.pay(len, Some(owner)).inspect_err(|why| self.rest(*why))?;
        let mapped = match self.map_again(offered, len, nonce, owner) {
            Some(reused) => Ok(reused),
            None => self.map_anew(offered, len, nonce, owner),
        };
        match &mapped {
            Ok((_, attached)) => attached.paid.store(price.paid(), Relaxed),
            Err(_) => self.pay_back(price),
        }
        mapped
    }

    fn map_anew(
        &self,
        offered: &T::Foreign,
        len: usize,
        nonce: u64,
        owner: ProcessId,
    ) -> Result<(Index, &'static Attached), Reason> {
        let identity = offered.identity()?;
        let memory = offered.map(len)?;
        let segment = Segment::attach(memory, nonce).map_err(|refused| {
            self.tier.retire(memory);
            match refused {
                shm::segment::Refused::Version => Reason::VERSMISMAT,
                _ => Reason::SYNCERR,
            }
        })?;
        let made = || Attached {
            memory,
            segment,
            nonce: AtomicU64::new(nonce),
            owner: AtomicU64::new(owner.word()),
            identity: [AtomicU64::new(identity.0), AtomicU64::new(identity.1)],
            kept: AtomicI32::new(-1),
            paid: AtomicU64::new(0),
            views: [const { AtomicU32::new(0) }; SLOTS_MAX as usize],
        };
        self.attached.table.take(mem::more, made).ok_or(Reason::MEM)
    }

    /// Lets go of segments whose process has died and on which there is no connection. (One that was passed
    /// to another process is there until that has let go of it: it finds the memory nowhere else.)
    fn let_go_of_the_dead(&self) {
        let Some(map) = self.tier.mapped() else { return };
        // (What was never tied here was passed to nobody, whatever hold was taken for it.)
        let is_nobodys = |view: &SlotView| {
            let mine = &view.header().sides[Side::Server as usize];
            view.addresses().1.port == 0 || is_let_go_by(mine) || self.is_orphaned(view)
        };
        for (_, attached) in self.attached.all() {
            if !attached.is_used(&self.views)
                && attached.nonce.load(Relaxed) != 0
                && !self.has_living_maker(map, attached)
                && attached.known_views(&self.views).all(is_nobodys)
            {
                self.let_go(attached);
            }
        }
    }

    fn has_living_maker(&self, map: &RegistryMap, attached: &Attached) -> bool {
        match ProcessId::from_word(attached.owner.load(Relaxed)) {
            owner if owner.is_far() => self.tier.is_held_by_maker(attached.kept.load(Relaxed)),
            owner => self.tier.is_alive(map, owner),
        }
    }

    /// Whether the maker of an attached slot's memory lives, of a connection with a process that shares no
    /// directory with this one.
    pub fn has_living_maker_of(&self, view: &SlotView) -> bool {
        let kept = self.attached.home_of(view).map_or(-1, |attached| attached.kept.load(Relaxed));
        kept < 0 || self.tier.is_held_by_maker(kept)
    }

    /// Maps what is offered where a segment lay that was let go, if there is one of the same shape.
    fn map_again(
        &self,
        offered: &T::Foreign,
        len: usize,
        nonce: u64,
        owner: ProcessId,
    ) -> Option<(Index, &'static Attached)> {
        let mut idle = self
            .attached
            .all()
            .filter(|(_, attached)| attached.nonce.load(Relaxed) == 0 && !attached.is_used(&self.views));
        let fitting = idle.find(|(_, attached)| size_of_val(attached.memory) == len);
        let (index, attached) = fitting?;
        if !offered.map_over(attached.memory) {
            return None;
        }
        match Segment::attach(attached.memory, nonce) {
            Ok(segment) if segment.geometry() == attached.segment.geometry() => {
                let (device, inode) = offered.identity().unwrap_or_default();
                attached.identity[0].store(device, Relaxed);
                attached.identity[1].store(inode, Relaxed);
                attached.owner.store(owner.word(), Relaxed);
                attached.nonce.store(nonce, Relaxed);
                Some((index, attached))
            }
            _ => {
                self.tier.retire(attached.memory);
                None
            }
        }
    }

    fn let_go(&self, attached: &Attached) {
        attached.nonce.store(0, Relaxed);
        self.drop_kept(attached);
        attached.known_views(&self.views).for_each(|view| bells::drop_all(view, &self.tier));
        self.tier.retire(attached.memory);
        self.pay_back(Price::of(size_of_val(attached.memory), attached.paid.swap(0, Relaxed)));
    }

    pub(crate) fn drop_kept(&self, attached: &Attached) {
        let kept = attached.kept.swap(-1, Relaxed);
        if kept >= 0 {
            self.tier.close(kept);
        }
    }

    /// Lets the memory of an attached slot survive exec (`on`), so that the next program finds what is left
    /// in its ring though the client's process dies meanwhile; or takes that back, after an exec that failed.
    pub fn keep_attached_over_exec(&self, view: &SlotView, on: bool) {
        if let Some(attached) = self.attached.home_of(view) {
            let kept = attached.kept.load(Relaxed);
            if kept >= 0 {
                self.tier.keep_over_exec(kept, on);
            }
        }
    }

    /// A connection of this process on an attached slot is gone.
    pub fn detach(&self, view: &SlotView) {
        if let Some(attached) = self.attached.home_of(view) {
            if attached.nonce.load(Relaxed) == 0 {
                // It was kept when all around it was let go.
                bells::drop_all(view, &self.tier);
                self.drop_one(&view.segment(), view.number());
            }
            view.put_down();
        }
    }

    /// The process gives its user up: no segment serves another connection here.
    pub(crate) fn leave_attached(&self) {
        for (_, attached) in self.attached.all() {
            match self.slots_kept(&attached.segment) {
                0 => self.let_go(attached),
                slots => {
                    attached.nonce.store(0, Relaxed);
                    // (What its maker knows this process by stays as long as the connections.)
                    if !ProcessId::from_word(attached.owner.load(Relaxed)).is_far() {
                        self.drop_kept(attached);
                    }
                    self.drop_all_but(&attached.segment, slots);
                }
            }
        }
    }
}

/// Whether nothing will be moved through the slot any more.
fn is_back_on_tcp(view: &SlotView) -> bool {
    [Side::Client, Side::Server].iter().all(|side| view.outgoing(*side).has_ended_for_good())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door::{Doorbell, Memory};
    use crate::local::Local;

    static FABRIC: Fabric<Local> = Fabric::new(Local::new());

    /// A peer names a number of ours under which its memory lies: it is not taken for one that exec gave us,
    /// and the numbers of doorbells that the peer wrote lead nowhere.
    #[test]
    fn a_descriptor_that_is_kept_for_the_tools_is_nobody_elses() {
        let geometry = Geometry { slots: 1, ring_size: 16384 };
        let (memory, memfd) = FABRIC.tier.make(geometry.len(), 42).expect("memory");
        Segment::format(memory, geometry, 42).expect("a segment");
        let (own, nobody) = (os::process::pid(), u32::MAX);
        os::process::refresh_pid();
        let owner = ProcessId { row: 0, generation: 1 };
        let at = |pid, number| Whereabouts { pid, number, nonce: 42, holder: owner };
        let attach = |place| FABRIC.tier.open(&place, |memory| FABRIC.map(memory, 42, owner));
        let (_, attached) = attach(at(own, memfd)).expect("attached");
        let kept = attached.kept.load(Relaxed);
        assert!(os::fd::is_internal(kept) && os::fd::is_cloexec(kept));
        assert_eq!(os::fd::identity(kept), os::fd::identity(memfd));
        let holder_of = |place| FABRIC.tier.holder(&place, attached.identity());
        assert_eq!(holder_of(at(nobody, memfd)), Ok(own), "given at exec");
        for pid in [nobody, own] {
            assert_eq!(holder_of(at(pid, kept)), Err(Reason::NOSMCDDEV));
            assert_eq!(attach(at(pid, kept)).err(), Some(Reason::NOSMCDDEV));
        }
        FABRIC.let_go(attached);
        assert!(!os::fd::is_internal(kept) && os::fd::identity(kept).is_err());
        os::fd::close(memfd);
    }
}
