//! Paying for segments out of the budget. Owns: that a segment is paid for before it is mapped, and that what
//! is paid back was paid.

use crate::budget::{Limits, REST_NS};
use crate::door::Tier;
use crate::fabric::Fabric;
use crate::process::ProcessId;
use os::room::Room;
use shm::registry::{ProcessRow, RegistryMap};
use sync::{AtomicU64, Ordering::Relaxed};
use wire::reason::Reason;

/// What a segment costs, to be given back with it.
#[derive(Clone, Copy)]
pub(crate) struct Price {
    mapped: u64,
    paid: u64,
}

fn less(word: &AtomicU64, by: u64) {
    let _ = word.fetch_update(Relaxed, Relaxed, |bytes| Some(bytes.saturating_sub(by)));
}

impl<T: Tier> Fabric<T> {
    /// Takes `len` bytes for a segment of this process, or one of `owner`'s. Reason: MEM where the budget
    /// ends; while it rests, why it does.
    pub(crate) fn pay(&self, len: usize, owner: Option<ProcessId>) -> Result<Price, Reason> {
        let now = os::time::monotonic_ns();
        if now < self.budget.exhausted.load(Relaxed) {
            return Err(Reason(self.budget.exhausted_for.load(Relaxed)));
        }
        let room = os::room::look();
        let limits = Limits::of(&room, self.config.memory(), self.config.user_memory());
        let map = self.tier.mapped();
        let row = map.and_then(|map| map.processes.get(self.tier.me(map)?.row as usize));
        if let Some(row) = row {
            row.domain.store(room.domain, sync::Ordering::Relaxed);
        }
        let is_other = |map: &RegistryMap, owner: ProcessId| {
            if owner.is_far() {
                return true;
            }
            let row = map.processes.get(owner.row as usize);
            room.domain != 0 && row.is_some_and(|row| row.domain.load(sync::Ordering::Relaxed) != room.domain)
        };
        let pays = owner.is_none_or(|owner| map.is_some_and(|map| is_other(map, owner)));
        let price = Price { mapped: len as u64, paid: if pays { len as u64 } else { 0 } };
        let mapped = self.budget.mapped.fetch_add(price.mapped, Relaxed) + price.mapped;
        let paid = self.budget.paid.fetch_add(price.paid, Relaxed) + price.paid;
        note(row, paid);
        let is_within = mapped <= limits.process
            && limits.has_some
            && (price.paid == 0 || map.is_none_or(|map| self.is_within(map, &limits, &room)));
        if is_within {
            return Ok(price);
        }
        self.pay_back(price);
        Err(Reason::MEM)
    }

    /// There was no room for the smallest segment.
    pub(crate) fn rest(&self, why: Reason) {
        self.budget.exhausted_for.store(why.0, Relaxed);
        self.budget.exhausted.store(os::time::monotonic_ns().saturating_add(REST_NS), Relaxed);
    }

    /// Whether this user's processes together stay within the limits.
    fn is_within(&self, map: &RegistryMap, limits: &Limits, room: &Room) -> bool {
        let sums = |is_counted: &dyn Fn(usize, &ProcessRow) -> bool| {
            let rows = map.processes.iter().enumerate();
            rows.fold([0u64; 2], |[user, cgroup], (at, row)| {
                let paid = row.memory.load(sync::Ordering::Relaxed);
                if paid == 0 || !is_counted(at, row) {
                    return [user, cgroup];
                }
                let is_same = room.domain != 0 && row.domain.load(sync::Ordering::Relaxed) == room.domain;
                [user.saturating_add(paid), cgroup.saturating_add(if is_same { paid } else { 0 })]
            })
        };
        let fits = |[user, cgroup]: [u64; 2]| user <= limits.user && cgroup <= limits.cgroup;
        // Who has died has paid back; whether somebody has is asked only if it matters.
        let lives = |at: usize, row: &ProcessRow| {
            let generation = row.generation.load(sync::Ordering::Relaxed);
            self.tier.is_alive(map, ProcessId { row: at as u32, generation })
        };
        fits(sums(&|_, _| true)) || fits(sums(&lives))
    }

    /// A segment is mapped no more.
    pub(crate) fn pay_back(&self, price: Price) {
        less(&self.budget.mapped, price.mapped);
        less(&self.budget.paid, price.paid);
        let map = self.tier.mapped();
        let row = map.and_then(|map| map.processes.get(self.tier.me(map)?.row as usize));
        note(row, self.budget.paid.load(Relaxed));
    }

    /// In a fork child: what the parent has paid for is the parent's.
    pub(crate) fn owe_nothing(&self) {
        self.budget.paid.store(0, Relaxed);
    }
}

fn note(row: Option<&ProcessRow>, paid: u64) {
    if let Some(row) = row {
        row.memory.store(paid, sync::Ordering::Relaxed);
    }
}

impl Price {
    /// Of a segment of `len` bytes, of which `paid` were paid for.
    pub(crate) fn of(len: usize, paid: u64) -> Price {
        Price { mapped: len as u64, paid }
    }

    /// What of it was paid for.
    pub(crate) fn paid(self) -> u64 {
        self.paid
    }
}
