//! The client's memory: link groups, their segments, and free slots.
//!
//! Owns: which slot may be offered. A slot is lent again when both sides have let it go, or when the kernel
//! knows neither socket as open and nobody who held one lives (`member`): a socket that was reset is known to
//! nobody but its owner. A link group is a pair of processes, so a peer that scribbles breaks only its own
//! connections.

use crate::bells;
use crate::door::Tier;
use crate::fabric::Fabric;
use crate::groups::{Group, List, Offered, SEGMENTS};
use crate::process::ProcessId;
use crate::slot::SlotView;
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::Relaxed};
use shm::segment::{Geometry, SLOTS_MAX, Segment};
use shm::slab::{Index, OnceRef};
use shm::sync::Ordering::Acquire;
use shm::{Side, SlotHeader};
use wire::reason::Reason;

/// Slots in a group's segments, one after the other: most groups need few, and each slot is address space in
/// two processes.
const SLOTS: [u32; 4] = [2, 8, 32, SLOTS_MAX];
/// How many slots whose peer has not closed are looked at before a new slot is taken.
const CLOSING_LOOKS: u32 = 4;

/// A slot for one connection, and the number under which the server finds its segment.
#[derive(Clone, Copy)]
pub struct Offer {
    /// Number of the view.
    pub index: Index,
    /// The slot.
    pub view: &'static SlotView,
    /// Number of the segment (a descriptor, in the local tier).
    pub memfd: i32,
}

impl<T: Tier> Fabric<T> {
    /// Takes a slot for a connection to `peer`, resetting it for the client socket `cookie`.
    /// Reasons: MEM if memory or descriptors cannot be had, MAX_DMB if the tables are full.
    pub fn offer(&self, peer: ProcessId, ring_size: u32, cookie: u64) -> Result<Offer, Reason> {
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
        if !bells::hang(view, &self.tier) {
            group.free.push_front(index, view);
            return Err(Reason::MEM);
        }
        if !is_new {
            // A side that was killed has told nobody what it moved.
            self.totals().settle(view.header());
        }
        view.header().reset(cookie);
        if let Some(map) = self.tier.mapped() {
            let counter = if is_new { &map.totals.slots_made } else { &map.totals.slots_reused };
            counter.fetch_add(1, shm::sync::Ordering::Relaxed);
        }
        let home = self.offers.home_of(view).ok_or(Reason::MEM)?;
        Ok(Offer { index, view, memfd: home.number.load(Relaxed) })
    }

    fn group_for(&self, peer: ProcessId, ring_size: u32) -> Option<(Index, &'static Group)> {
        let key = peer.word();
        let own = self.offers.first_group.load(Relaxed)..self.offers.groups.made();
        let known = own
            .filter_map(|index| Some((Index(index), self.offers.groups.get(Index(index))?)))
            .find(|(_, group)| group.peer.load(Relaxed) == key && group.ring_size.load(Relaxed) == ring_size);
        known.or_else(|| {
            let id = self.tier.mapped()?.next_link_group.fetch_add(256, shm::sync::Ordering::Relaxed);
            self.offers.groups.take(os::mem::more, || Group {
                peer: AtomicU64::new(key),
                ring_size: AtomicU32::new(ring_size),
                id: AtomicU32::new(id),
                segments: AtomicU32::new(0),
                current: AtomicU32::new(0),
                free: List::new(),
                closing: List::new(),
            })
        })
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
        !header.sides.iter().any(|side| self.members().has_living(side))
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
        let number = offered.used.fetch_add(1, Relaxed);
        self.views.make(segment, number, home).ok_or(Reason::MEM)
    }

    fn new_segment(&self, index: Index, group: &Group) -> Result<(Index, &'static Offered), Reason> {
        let step = (group.segments.load(Relaxed) as usize).min(SLOTS.len() - 1);
        let geometry = Geometry { slots: SLOTS[step], ring_size: group.ring_size.load(Relaxed) };
        let (memory, number) = self.tier.make(geometry.len())?;
        let made = Segment::format(memory, geometry, os::process::random_u64())
            .and_then(|segment| self.offers.values.take(os::mem::more, || segment))
            .and_then(|(_, segment)| {
                self.offers.segments.take(os::mem::more, || {
                    let offered = Offered {
                        segment: OnceRef::new(),
                        number: AtomicI32::new(number),
                        slots: AtomicU32::new(geometry.slots),
                        used: AtomicU32::new(0),
                        group: AtomicU32::new(index.0),
                    };
                    offered.segment.set(segment);
                    offered
                })
            });
        match made {
            Some(made) => Ok(made),
            None => {
                self.tier.close(number);
                Err(if self.offers.segments.made() as usize >= SEGMENTS {
                    Reason::MAX_DMB
                } else {
                    Reason::MEM
                })
            }
        }
    }

    /// Looks through the slots that wait for a side which may have died without letting go.
    fn reclaim(&self, group: &Group) -> Option<(Index, &'static SlotView)> {
        for _ in 0..2 * SLOTS_MAX {
            let (index, view) = group.closing.pop_front(&self.views)?;
            if is_let_go(view.header()) || self.is_orphaned(view) {
                return Some((index, view));
            }
            group.closing.push_back(&self.views, index, view);
        }
        None
    }

    /// Whether nobody is left who could use the slot, though not all said so. That the kernel lists no socket
    /// does not suffice: after a reset it lists neither, and both descriptors may be open.
    fn is_orphaned(&self, view: &SlotView) -> bool {
        self.tier.is_over(view) && !view.header().sides.iter().any(|side| self.members().has_living(side))
    }

    /// Gives a slot back after this process's last close of the client's side.
    pub fn give_back(&self, index: Index, view: &'static SlotView) {
        let Some(home) = self.offers.home_of(view) else {
            return;
        };
        let Some(group) = self.offers.group_of(home) else {
            return;
        };
        if home.group.load(Relaxed) < self.offers.first_group.load(Relaxed) {
            // Inherited by fork: the parent's list has it.
            return;
        }
        let Some(_turn) = self.offers.turn.take() else {
            return;
        };
        if is_let_go(view.header()) {
            group.free.push_front(index, view);
        } else {
            group.closing.push_back(&self.views, index, view);
        }
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

    /// In a fork child: what the parent made is never offered from here.
    pub(crate) fn disown_offers(&self) {
        self.offers.first_group.store(self.offers.groups.made(), Relaxed);
    }

    /// The process gives its user up: what was made so far is never offered again. Of what the parent made
    /// only slots that are kept stay, and what this process made goes as a whole if there are none.
    pub(crate) fn leave_offers(&self) {
        let first_own = self.offers.first_group.swap(self.offers.groups.made(), Relaxed);
        for offered in
            (0..self.offers.segments.made()).filter_map(|index| self.offers.segments.get(Index(index)))
        {
            let Some(segment) = offered.segment.get() else {
                continue;
            };
            let slots = self.slots_kept(segment);
            if slots != 0 && offered.group.load(Relaxed) >= first_own {
                continue;
            }
            self.drop_all_but(segment, slots);
            let number = offered.number.swap(-1, Relaxed);
            if number >= 0 {
                self.tier.close(number);
            }
        }
    }
}

/// Whether both sides say that they hold the slot no more.
fn is_let_go(header: &SlotHeader) -> bool {
    header.sides.iter().all(|side| side.holders.load(Acquire) == 0 && side.roster.is_empty())
}
