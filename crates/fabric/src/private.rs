//! Slots that only this process and its children have, for bytes that came with a socket over exec. Owns:
//! that nothing leads there from outside: no descriptor, no row of a directory, no doorbell of others.

use crate::bells;
use crate::door::{Tier, Whereabouts};
use crate::fabric::Fabric;
use crate::foreign::Attached;
use crate::process::ProcessId;
use crate::rows::RowId;
use crate::slot::SlotView;
use crate::verdict::{self, Verdict};
use os::mem;
use os::net::Endpoint;
use shm::segment::{Geometry, SLOTS_MAX, Segment};
use shm::slab::Index;
use shm::{Side, SlotHeader};
use sync::Ordering::Relaxed;
use sync::{AtomicI32, AtomicU32, AtomicU64};
use wire::reason::Reason;

impl<T: Tier> Fabric<T> {
    /// A slot for a connection whose sockets have these `cookies` and addresses, the client's first, and that
    /// is shared by the word in it. It serves no other connection. Reasons: MEM, SYNCERR.
    pub fn private_slot(
        &self,
        ring_size: u32,
        cookies: [u64; 2],
        [client, server]: [Endpoint; 2],
    ) -> Result<(Index, &'static SlotView), Reason> {
        let _turn = self.attached.turn.take().ok_or(Reason::SYNCERR)?;
        let geometry = Geometry { slots: 1, ring_size };
        let memory = mem::map_in_common(geometry.len()).map_err(|_| Reason::MEM)?;
        let Some(segment) = Segment::format(memory, geometry, 0) else {
            self.tier.retire(memory);
            return Err(Reason::SYNCERR);
        };
        let made = || Attached {
            memory,
            segment,
            // (What has none is let go with its connection.)
            nonce: AtomicU64::new(0),
            owner: AtomicU64::new(0),
            identity: [AtomicU64::new(0), AtomicU64::new(0)],
            kept: AtomicI32::new(-1),
            paid: AtomicU64::new(0),
            views: [const { AtomicU32::new(0) }; SLOTS_MAX as usize],
        };
        let (home, attached) = self.attached.table.take(mem::more, made).ok_or(Reason::MEM)?;
        let (index, view) = self.view_of(home, attached, 0)?;
        begin(view.header(), cookies);
        view.note_addresses(client, server);
        // (Nobody rings them. Without, where there are no numbers, a set that is polled does not hear of it.)
        let _ = bells::hang_private(view, &self.tier);
        view.take_up();
        Ok((index, view))
    }

    /// Whether the memory of a slot can be had by a program that knows the connection's row: this process has
    /// a number for it.
    pub fn has_number(&self, view: &SlotView, is_own: bool) -> bool {
        let number = match is_own {
            true => self.offers.home_of(view).map(|offered| offered.number.load(Relaxed)),
            false => self.attached.home_of(view).map(|attached| attached.kept.load(Relaxed)),
        };
        number.is_some_and(|number| number >= 0)
    }
}

impl<T: Tier> Fabric<T> {
    /// Whether this process may not look at the process that made an attached slot, by its row: it could not
    /// open the doorbells that are there, were it to open them now.
    pub fn is_denied(&self, row_id: RowId, view: &SlotView) -> bool {
        let Some(attached) = self.attached.home_of(view) else { return false };
        let place = self.rows().row(row_id).map(|row| Whereabouts {
            pid: row.owner_pid.load(Relaxed),
            number: row.memfd.load(Relaxed) as i32,
            nonce: attached.nonce.load(Relaxed),
            holder: ProcessId::from_word(0),
        });
        let holder = place.map(|place| self.tier.holder(&place, attached.identity()).err());
        holder.flatten() == Some(Reason::OPTUNSUPP)
    }
}

/// Both ends hold it, and both have agreed.
fn begin(header: &SlotHeader, [client, server]: [u64; 2]) {
    header.renew();
    header.reset(client);
    header.server_cookie.store(server, Relaxed);
    let row = &header.row;
    let generation = verdict::begin(&row.verdict);
    let _ = verdict::decide(&row.verdict, generation, Side::Server, Verdict::Smc);
    row.server_cookie.store(server, Relaxed);
    row.open.store(1 << Side::Client as u32 | 1 << Side::Server as u32, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::Local;
    use sync::Ordering::Relaxed;

    static FABRIC: Fabric<Local> = Fabric::new(Local::new());

    #[test]
    fn a_private_slot_is_shared_and_nobody_finds_it() {
        let at = |port| Endpoint { family: 2, port, ..Endpoint::default() };
        let (index, view) = FABRIC.private_slot(65536, [11, 12], [at(1), at(2)]).expect("a slot");
        let row = FABRIC.rows().in_slot(index, view);
        assert_eq!(FABRIC.rows().verdict(row), Some(Verdict::Smc));
        assert_eq!(view.header().client_cookie.load(Relaxed), 11);
        assert_eq!(view.header().server_cookie.load(Relaxed), 12);
        assert_eq!(view.addresses(), (at(1), at(2)));
        assert!(view.has_bells() && view.is_used() && !FABRIC.has_number(view, false));
        FABRIC.detach(view);
        assert!(!view.has_any_bell() && !view.is_used());
        assert_eq!(view.header().client_cookie.load(Relaxed), 0, "its memory is gone");
        assert_eq!(FABRIC.private_slot(3, [1, 2], [at(1), at(2)]).err(), Some(Reason::SYNCERR));
    }
}
