//! The one fabric of a process that holds no value yet, and today's functions on it. To be removed with the
//! last of its callers, which are in `socket`: they are to bring a [`Fabric`] of their own. Owns: the only
//! static of this crate.

use crate::fabric::Fabric;
use crate::local::Local;
use crate::slot::SlotView;
use shm::slab::Index;

static HERE: Fabric<Local> = Fabric::new(Local::new());

impl SlotView {
    /// The view with this number.
    #[inline]
    pub fn get(index: Index) -> Option<&'static SlotView> {
        HERE.views.get(index)
    }
}

/// As the methods of [`Config`](crate::config::Config).
#[allow(missing_docs, reason = "each is documented where it leads")]
pub(crate) mod config {
    use super::HERE;

    pub fn set(name: &[u8], value: &[u8]) {
        HERE.set(name, value);
    }

    pub fn is_disabled() -> bool {
        HERE.config.is_disabled()
    }

    pub fn is_debug() -> bool {
        HERE.config.is_debug()
    }

    pub fn sndbuf() -> u32 {
        HERE.config.sndbuf()
    }

    pub fn rcvbuf() -> u32 {
        HERE.config.rcvbuf()
    }

    #[inline]
    pub fn spin() -> u32 {
        HERE.config.spin()
    }
}

/// As the methods of [`Directory`](crate::door::Directory).
#[allow(missing_docs, reason = "each is documented where it leads")]
pub mod registry {
    use super::{HERE, Local};
    use crate::door::Directory as _;
    use crate::fabric::Using;
    use shm::registry::RegistryMap;
    use wire::reason::Reason;

    #[inline]
    pub fn mapped() -> Option<&'static RegistryMap> {
        HERE.tier.mapped()
    }

    pub fn existing() -> Result<&'static RegistryMap, Reason> {
        HERE.tier.existing()
    }

    pub fn existing_or_new() -> Result<&'static RegistryMap, Reason> {
        HERE.tier.existing_or_new()
    }

    pub fn using() -> Option<Using<'static, Local>> {
        HERE.using()
    }

    pub fn begin_change() {
        HERE.tier.begin_change();
    }

    pub fn end_change() {
        HERE.tier.end_change();
    }

    pub fn has_left() -> bool {
        HERE.tier.has_left()
    }

    pub fn owner() -> Option<u32> {
        HERE.tier.owner()
    }

    pub fn is_a_copy() -> bool {
        HERE.tier.is_a_copy()
    }
}

/// As the methods of [`Rendezvous`](crate::door::Rendezvous).
#[allow(missing_docs, reason = "each is documented where it leads")]
pub mod listener {
    use super::HERE;
    use crate::door::Rendezvous as _;
    use crate::process::ProcessId;
    use os::net::Endpoint;
    use wire::reason::Reason;

    pub fn announce(fd: i32) -> Result<u64, Reason> {
        HERE.tier.announce(fd)
    }

    pub fn withdraw(key: u64, at: Endpoint) {
        HERE.tier.withdraw(key, at);
    }

    pub fn is_announced(key: u64, port: u16) -> bool {
        HERE.tier.is_announced(key, port)
    }

    pub fn forget(key: u64, fd: i32) {
        HERE.tier.forget(key, fd);
    }

    pub fn owner_of(target: Endpoint) -> Result<ProcessId, Reason> {
        HERE.tier.owner_of(target)
    }
}

/// As the methods of [`Life`](crate::door::Life).
#[allow(missing_docs, reason = "each is documented where it leads")]
pub(crate) mod process {
    use super::HERE;
    use crate::door::Life as _;
    use crate::process::ProcessId;
    use shm::registry::RegistryMap;

    pub fn me(map: &'static RegistryMap) -> Option<ProcessId> {
        HERE.tier.me(map)
    }
}

/// As the methods of [`Members`](crate::member::Members).
#[allow(missing_docs, reason = "each is documented where it leads")]
pub(crate) mod member {
    use super::HERE;
    use shm::SideBlock;

    pub fn join(side: &SideBlock) {
        HERE.members().join(side);
    }

    pub fn leave(side: &SideBlock) {
        HERE.members().leave(side);
    }

    pub fn has_others(side: &SideBlock) -> bool {
        HERE.members().has_others(side)
    }

    pub fn clear(side: &SideBlock) {
        HERE.members().clear(side);
    }
}

/// As the methods of [`Connections`](crate::rows::Connections).
#[allow(missing_docs, reason = "each is documented where it leads")]
pub(crate) mod connection {
    use super::HERE;
    use crate::process::ProcessId;
    use crate::rows::{Intent, RowId};
    use crate::slot::SlotView;
    use crate::verdict::Verdict;
    use os::net::Endpoint;
    use shm::Side;
    use shm::registry::ConnectionRow;
    use wire::reason::Reason;

    pub fn row(id: RowId) -> Option<&'static ConnectionRow> {
        HERE.connections().row(id)
    }

    pub fn publish(intent: &Intent, view: &SlotView) -> Result<RowId, Reason> {
        HERE.connections().publish(intent, view)
    }

    #[inline]
    pub fn any_pending() -> bool {
        HERE.connections().any_pending()
    }

    pub fn find(key: u64) -> Option<RowId> {
        HERE.connections().find(key)
    }

    pub fn find_at(client: Endpoint) -> Option<RowId> {
        HERE.connections().find_at(client)
    }

    pub fn decide(id: RowId, side: Side, wanted: Verdict) -> Verdict {
        HERE.connections().decide(id, side, wanted)
    }

    #[inline]
    pub fn verdict(id: RowId) -> Option<Verdict> {
        HERE.connections().verdict(id)
    }

    pub fn note_side(id: RowId, side: Side, process: ProcessId, at: Endpoint, inode: u32) {
        HERE.connections().note_side(id, side, process, at, inode);
    }

    pub fn target(id: RowId) -> Option<Endpoint> {
        HERE.connections().target(id)
    }

    pub fn note_client_address(id: RowId, at: Endpoint) {
        HERE.connections().note_client_address(id, at);
    }

    pub fn close_side(id: RowId, client_key: u64, side: Side) {
        HERE.connections().close_side(id, client_key, side);
    }

    pub fn leave_side(id: RowId, client_key: u64, side: Side) {
        HERE.connections().leave_side(id, client_key, side);
    }
}

/// As the methods of [`Fabric`] for memory of others.
#[allow(missing_docs, reason = "each is documented where it leads")]
pub(crate) mod attach {
    use super::HERE;
    use crate::door::Memory as _;
    use crate::rows::RowId;
    use crate::slot::SlotView;
    use os::net::Endpoint;
    use shm::slab::Index;
    use wire::reason::Reason;

    pub fn open(row: RowId) -> Result<(Index, &'static SlotView), Reason> {
        HERE.attach(row)
    }

    pub fn done(view: &SlotView) {
        HERE.detach(view);
    }

    pub fn keep_over_exec(view: &SlotView, on: bool) {
        HERE.keep_attached_over_exec(view, on);
    }

    pub fn note_adopted() {
        HERE.tier.note_adopted();
    }

    pub fn note_addresses(view: &SlotView, client: Endpoint, server: Endpoint) {
        view.note_addresses(client, server);
    }
}

/// As the methods of [`Fabric`] for memory of ours.
#[allow(missing_docs, reason = "each is documented where it leads")]
pub(crate) mod offer {
    use super::HERE;
    use crate::offer::Offer;
    use crate::process::ProcessId;
    use crate::slot::SlotView;
    use shm::slab::Index;
    use wire::reason::Reason;

    pub fn take(peer: ProcessId, ring_size: u32, key: u64) -> Result<Offer, Reason> {
        HERE.offer(peer, ring_size, key)
    }

    pub fn give_back(index: Index, view: &'static SlotView) {
        HERE.give_back(index, view);
    }

    pub fn keep_over_exec(view: &SlotView, on: bool) {
        HERE.keep_offered_over_exec(view, on);
    }

    pub fn link_group(view: &SlotView) -> u32 {
        HERE.link_group(view)
    }

    pub fn after_fork() {
        HERE.after_fork();
    }
}

/// As the methods of [`Fabric`] for a change of credentials.
#[allow(missing_docs, reason = "each is documented where it leads")]
pub(crate) mod leaving {
    use super::HERE;
    use shm::slab::Index;

    pub fn keep(index: Index) {
        HERE.keep(index);
    }

    pub fn leave() {
        HERE.leave();
    }
}

/// As the methods of [`Totals`](crate::totals::Totals).
#[allow(missing_docs, reason = "each is documented where it leads")]
pub(crate) mod totals {
    use super::HERE;
    use shm::{Side, SlotHeader};

    pub fn upgraded(side: Side) {
        HERE.totals().upgraded(side);
    }

    pub fn settle(header: &SlotHeader) {
        HERE.totals().settle(header);
    }
}

/// As [`Fabric::doubt`].
#[allow(missing_docs, reason = "each is documented where it leads")]
pub(crate) mod doubt {
    use super::HERE;
    use os::net::Endpoint;

    pub fn note(target: Endpoint) {
        HERE.doubt(target);
    }
}

/// As the methods of [`Fabric`] for sockets that stay on TCP.
#[allow(missing_docs, reason = "each is documented where it leads")]
pub(crate) mod fallback {
    use super::HERE;
    use crate::fallback::What;
    use shm::Side;
    use wire::reason::Reason;

    pub fn note(fd: i32, what: What, reason: Reason) {
        HERE.stays_on_tcp(fd, what, reason);
    }

    pub fn note_decided(side: Side, reason: Reason) {
        HERE.stays_by_verdict(side, reason);
    }
}
