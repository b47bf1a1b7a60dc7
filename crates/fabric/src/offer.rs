//! The client's memory: link groups, their segments, and free slots.
//!
//! Owns: which slot may be offered. A slot is lent again when both sides have let it go, or when the kernel
//! knows neither socket as open and nobody who held one lives (`unused`): a socket that was reset is known to
//! nobody but its owner. A link group is a pair of processes, so a peer that scribbles breaks only its own
//! connections.

use crate::bells;
use crate::door::Tier;
use crate::fabric::Fabric;
use crate::groups::{GROUPS, Group, List, Offered, SEGMENTS};
use crate::process::ProcessId;
use crate::slot::SlotView;
use crate::unused::is_let_go;
use shm::segment::{Geometry, SLOTS_MAX, Segment};
use shm::slab::{Index, OnceRef};
use shm::{Ring, Side};
use sync::{AtomicI32, AtomicU32, AtomicU64, Ordering::Relaxed};
use wire::reason::Reason;

/// Slots in a group's segments, one after the other: most groups need few, and each slot is address space in
/// two processes.
const SLOTS: [u32; 4] = [2, 8, 32, SLOTS_MAX];
/// How many slots whose peer has not closed are looked at before a new slot is taken.
const CLOSING_LOOKS: u32 = 4;
/// How many slots whose peer may have closed since are looked at when one is given back.
const CLOSED_LOOKS: u32 = 2;
/// So many free slots of a group keep their pages: those that are lent again first.
const WARM: u32 = 8;
/// Bytes in one direction that use more than a few pages.
const MANY: u64 = 64 * 1024;
/// How many groups are looked at for a dead peer before a group is made: more than are made, so that few of
/// the dead are ever there.
const GROUP_LOOKS: u32 = 16;

/// A slot for one connection, and the number under which the server finds its segment.
#[derive(Clone, Copy)]
pub struct Offer {
    /// Number of the view.
    pub index: Index,
    /// The slot.
    pub view: &'static SlotView,
    /// Number of the segment (a descriptor, in the local tier).
    pub memfd: i32,
    /// Which tells the segment from any other.
    pub nonce: u64,
}

impl<T: Tier> Fabric<T> {
    /// Takes a slot for a connection to `peer`, resetting it for the client socket `cookie`.
    /// Reasons: MEM if memory or descriptors cannot be had, MAX_DMB if the tables are full.
    pub fn offer(&self, peer: ProcessId, ring_size: u32, cookie: u64) -> Result<Offer, Reason> {
        if self.is_either_kept_on_tcp(os::process::cached_pid(), peer) {
            return Err(Reason::OPERATOR);
        }
        let _turn = self.offers.turn.take().ok_or(Reason::SYNCERR)?;
        let (group_index, group) = self.group_for(peer, ring_size).ok_or(Reason::MAX_DMB)?;
        let recycled = self.recycle(group);
        let is_new = recycled.is_none();
        let (index, view) = match recycled {
            Some(slot) => slot,
            None => self.unused_slot(group_index, group)?,
        };
        if !self.is_renewed(view) {
            group.closing.push_back(&self.views, index, view);
            return Err(Reason::MEM);
        }
        if peer.is_far() && is_taken_back(view) {
            group.closing.push_back(&self.views, index, view);
            self.tier.note_revoked();
            return Err(Reason::NOSMCDDEV);
        }
        let home = self.hang_bells(view).inspect_err(|_| group.free.push_front(index, view))?;
        if !is_new {
            // A side that was killed has told nobody what it moved.
            self.totals().settle(view, Side::Client);
        }
        view.note_far(peer.is_far());
        view.header().reset(cookie);
        if let Some(map) = self.tier.mapped() {
            let counter = if is_new { &map.totals.slots_made } else { &map.totals.slots_reused };
            counter.fetch_add(1, sync::Ordering::Relaxed);
        }
        view.take_up();
        Ok(Offer { index, view, memfd: home.number.load(Relaxed), nonce: home.nonce.load(Relaxed) })
    }

    /// Sees to the doorbells of a slot that is about to be lent. Memory of which the daemon does not know any
    /// more was taken back, though it may not say so itself: it was no segment yet then.
    fn hang_bells(&self, view: &'static SlotView) -> Result<&'static Offered, Reason> {
        let home = self.offers.home_of(view).ok_or(Reason::MEM)?;
        bells::hang(view, home.number.load(Relaxed), &self.tier).map_err(|reason| match reason {
            Reason::SYNCERR => {
                self.tier.note_revoked();
                Reason::NOSMCDDEV
            }
            other => other,
        })?;
        Ok(home)
    }

    fn group_for(&self, peer: ProcessId, ring_size: u32) -> Option<(Index, &'static Group)> {
        let key = peer.word();
        let groups = || {
            let made = 0..self.offers.groups.made();
            made.filter_map(|index| Some((Index(index), self.offers.groups.get(Index(index))?)))
        };
        let is_it = |group: &Group| {
            group.peer.load(Relaxed) == key
                && group.ring_size.load(Relaxed) == ring_size
                && self.offers.is_own(group)
        };
        if let Some(known) = groups().find(|(_, group)| is_it(group)) {
            return Some(known);
        }
        let map = self.tier.mapped()?;
        self.dissolve_dead_groups(GROUP_LOOKS, None);
        let free = || groups().find(|(_, group)| group.peer.load(Relaxed) == 0);
        let (index, group) = free()
            .or_else(|| {
                self.offers.groups.take(os::mem::more, || Group {
                    peer: AtomicU64::new(0),
                    era: AtomicU32::new(0),
                    ring_size: AtomicU32::new(0),
                    id: AtomicU32::new(0),
                    segments: AtomicU32::new(0),
                    current: AtomicU32::new(0),
                    free: List::new(),
                    closing: List::new(),
                })
            })
            .or_else(|| {
                self.dissolve_dead_groups(GROUPS as u32, None);
                free()
            })?;
        group.era.store(self.offers.era.load(Relaxed), Relaxed);
        group.ring_size.store(ring_size, Relaxed);
        group.id.store(map.next_link_group.fetch_add(256, sync::Ordering::Relaxed), Relaxed);
        group.peer.store(key, Relaxed);
        Some((index, group))
    }

    /// A slot used before whose two sides are gone.
    fn recycle(&self, group: &Group) -> Option<(Index, &'static SlotView)> {
        let free = group.free.pop_front(&self.views).filter(|(index, view)| {
            let is_let_go = is_let_go(view.header());
            if !is_let_go {
                group.closing.push_back(&self.views, *index, view);
            }
            is_let_go
        });
        free.or_else(|| {
            for _ in 0..CLOSING_LOOKS {
                let (index, view) = group.closing.pop_front(&self.views)?;
                if is_let_go(view.header()) {
                    return Some((index, view));
                }
                group.closing.push_back(&self.views, index, view);
            }
            None
        })
    }

    /// Takes the slot away from every view of its last connection; `false` if somebody who holds it turned up
    /// meanwhile (a process that was cloned without our knowledge makes its first call).
    fn is_renewed(&self, view: &SlotView) -> bool {
        let header = view.header();
        header.renew();
        !self.members().has_any_living(header)
    }

    fn unused_slot(&self, group_index: Index, group: &Group) -> Result<(Index, &'static SlotView), Reason> {
        let current = group
            .current
            .load(Relaxed)
            .checked_sub(1)
            .and_then(|index| self.offers.segments.get(Index(index)));
        if let Some(offered) = current
            && offered.used.load(Relaxed) < offered.slots.load(Relaxed)
        {
            return self.next_slot(group.current.load(Relaxed) - 1, offered);
        }
        // Before memory grows, the kernel is asked about slots whose holders may have died.
        if let Some(slot) = self.reclaim(group) {
            return Ok(slot);
        }
        let (index, offered) = self.new_segment(group_index, group)?;
        group.segments.fetch_add(1, Relaxed);
        group.current.store(index.0 + 1, Relaxed);
        self.next_slot(index.0, offered)
    }

    fn next_slot(&self, home: u32, offered: &Offered) -> Result<(Index, &'static SlotView), Reason> {
        let segment = *offered.segment.get().ok_or(Reason::MEM)?;
        let number = offered.used.load(Relaxed);
        let place = offered.views.get(number as usize).ok_or(Reason::MEM)?;
        let known = place.load(Relaxed).checked_sub(1).map(Index);
        let view = match known.and_then(|index| Some((index, self.views.get(index)?))) {
            Some(view) => view,
            None => self.views.make(segment, number, home).ok_or(Reason::MEM)?,
        };
        place.store(view.0.0 + 1, Relaxed);
        offered.used.store(number + 1, Relaxed);
        Ok(view)
    }

    fn new_segment(&self, index: Index, group: &Group) -> Result<(Index, &'static Offered), Reason> {
        let step = (group.segments.load(Relaxed) as usize).min(SLOTS.len() - 1);
        let ring_size = group.ring_size.load(Relaxed);
        let make = |slots: u32| self.make_segment(index, Geometry { slots, ring_size });
        make(SLOTS[step]).or_else(|refused| {
            // (Who has no function gets no room by asking for less, and by no rest.)
            if refused == Reason::NOSMCDDEV {
                return Err(refused);
            }
            self.dissolve_dead_groups(GROUPS as u32, Some(index));
            // A smaller one may find room yet.
            let smaller = SLOTS[..=step].iter().rev().find_map(|slots| make(*slots).ok());
            smaller.ok_or(refused).inspect_err(|why| self.rest(*why))
        })
    }

    /// A segment where one lay whose group is dissolved, or at addresses of its own.
    fn make_segment(&self, group: Index, geometry: Geometry) -> Result<(Index, &'static Offered), Reason> {
        let price = self.pay(geometry.len(), None)?;
        let made = match self.spare_segment(geometry) {
            Some(spare) => self.make_over(spare, group, geometry),
            None => self.make_anew(group, geometry),
        };
        match &made {
            Ok((_, offered)) => offered.paid.store(price.paid(), Relaxed),
            Err(_) => self.pay_back(price),
        }
        made
    }

    fn make_anew(&self, group: Index, geometry: Geometry) -> Result<(Index, &'static Offered), Reason> {
        let nonce = os::process::random_u64();
        let (memory, number) = self.tier.make_for(self.peer_of(group), geometry.len(), nonce)?;
        let made = Segment::format(memory, geometry, nonce)
            .and_then(|segment| self.offers.values.take(os::mem::more, || segment))
            .and_then(|(_, segment)| {
                self.offers.segments.take(os::mem::more, || {
                    let offered = Offered {
                        segment: OnceRef::new(),
                        nonce: AtomicU64::new(nonce),
                        number: AtomicI32::new(number),
                        slots: AtomicU32::new(geometry.slots),
                        used: AtomicU32::new(0),
                        group: AtomicU32::new(group.0),
                        paid: AtomicU64::new(0),
                        views: [const { AtomicU32::new(0) }; SLOTS_MAX as usize],
                    };
                    offered.segment.set(segment);
                    offered
                })
            });
        match made {
            Some(made) => Ok(made),
            None => {
                self.tier.close(number);
                self.tier.retire(memory);
                Err(if self.offers.segments.made() as usize >= SEGMENTS {
                    Reason::MAX_DMB
                } else {
                    Reason::MEM
                })
            }
        }
    }

    fn peer_of(&self, group: Index) -> ProcessId {
        let group = self.offers.groups.get(group);
        ProcessId::from_word(group.map_or(0, |group| group.peer.load(Relaxed)))
    }

    fn make_over(
        &self,
        (index, spare): (Index, &'static Offered),
        group: Index,
        geometry: Geometry,
    ) -> Result<(Index, &'static Offered), Reason> {
        let memory = spare.segment.get().map(Segment::memory).ok_or(Reason::MEM)?;
        let nonce = os::process::random_u64();
        let number = self.tier.make_over_for(self.peer_of(group), memory, nonce)?;
        Segment::format(memory, geometry, nonce).ok_or(Reason::MEM)?;
        spare.nonce.store(nonce, Relaxed);
        spare.number.store(number, Relaxed);
        spare.used.store(0, Relaxed);
        spare.group.store(group.0, Relaxed);
        Ok((index, spare))
    }

    /// Looks through the slots that wait for a side which may have died without letting go.
    fn reclaim(&self, group: &Group) -> Option<(Index, &'static SlotView)> {
        for _ in 0..group.closing.len().min(2 * SLOTS_MAX) {
            let (index, view) = group.closing.pop_front(&self.views)?;
            if is_let_go(view.header()) || self.is_orphaned(view) {
                return Some((index, view));
            }
            group.closing.push_back(&self.views, index, view);
        }
        None
    }

    /// Gives a slot back after this process's last close of the client's side.
    pub fn give_back(&self, index: Index, view: &'static SlotView) {
        let Some(home) = self.offers.home_of(view) else {
            return;
        };
        let Some(group) = self.offers.group_of(home) else {
            return;
        };
        let Some(_turn) = self.offers.turn.take() else {
            return;
        };
        view.put_down();
        if !self.offers.is_own(group) {
            // Inherited by fork: the parent's list has it.
            return;
        }
        if is_let_go(view.header()) {
            self.keep_free(group, index, view);
        } else {
            group.closing.push_back(&self.views, index, view);
        }
        if group.closing.len() <= WARM {
            return;
        }
        for _ in 0..CLOSED_LOOKS {
            let Some((index, view)) = group.closing.pop_front(&self.views) else { return };
            match is_let_go(view.header()) {
                true => self.keep_free(group, index, view),
                false => group.closing.push_back(&self.views, index, view),
            }
        }
    }

    /// A slot that nobody uses is the next one to be lent. Behind some of these it waits without its pages,
    /// if it has used many and everything was read: who takes it up comes through the turn that the caller
    /// has, and who has a view of it without our knowledge finds no byte missing.
    fn keep_free(&self, group: &Group, index: Index, view: &'static SlotView) {
        if group.free.len() < WARM {
            return group.free.push_front(index, view);
        }
        let rings = [Side::Client, Side::Server].map(|side| view.outgoing(side));
        let moved = |ring: &Ring| ring.words().producer.0.prod.load(sync::Ordering::Relaxed);
        if rings.iter().any(|ring| moved(ring) > MANY)
            && rings.iter().all(|ring| ring.unread() == Ok(0))
            && let Some(memory) = view.segment().rings_of(view.number())
        {
            self.tier.give_back_pages(memory);
        }
        group.free.push_back(&self.views, index, view);
    }

    /// A socket of this process whose slot was lent again since is gone.
    pub fn forgo(&self, view: &SlotView) {
        view.put_down();
    }

    /// Lets segment and doorbells of a slot survive exec under their numbers, so that the next program can
    /// open them; or no longer.
    pub fn keep_offered_over_exec(&self, view: &SlotView, on: bool) {
        let Some(home) = self.offers.home_of(view) else {
            return;
        };
        self.tier.keep_over_exec(home.number.load(Relaxed), on);
        for side in [Side::Client, Side::Server] {
            self.tier.keep_bell_over_exec(view.bell(side), on);
        }
    }

    /// Number of the link group a slot of ours belongs to, as smcd prints it.
    pub fn link_group(&self, view: &SlotView) -> u32 {
        let group = self.offers.home_of(view).and_then(|home| self.offers.group_of(home));
        group.map_or(0, |group| group.id.load(Relaxed))
    }

    /// In a fork child: what the parent made is never offered from here, and nobody looks for it here.
    pub(crate) fn disown_inherited(&self) {
        self.disown_offers();
        self.offers.first_era.store(self.offers.era.load(Relaxed), Relaxed);
    }

    /// What was made so far is never offered again.
    pub(crate) fn disown_offers(&self) {
        self.offers.era.fetch_add(1, Relaxed);
    }

    /// The process gives its user up: what was made so far is never offered again. Of what the parent made
    /// only slots that are kept stay, and what this process made goes as a whole if there are none.
    pub(crate) fn leave_offers(&self) {
        for (_, offered) in self.offers.all() {
            let Some(segment) = offered.segment.get() else {
                continue;
            };
            let slots = self.slots_kept(segment);
            if slots != 0 && self.offers.is_made_here(offered) {
                continue;
            }
            self.drop_all_but(segment, slots);
            let number = offered.number.swap(-1, Relaxed);
            if number >= 0 {
                self.tier.close(number);
            }
        }
        self.disown_offers();
    }
}

/// Whether the daemon has taken the memory back, for who is about to lend the slot: see [`crate::revoke`].
fn is_taken_back(view: &SlotView) -> bool {
    crate::verdict::free(&view.header().row.verdict);
    view.segment().is_revoked()
}
