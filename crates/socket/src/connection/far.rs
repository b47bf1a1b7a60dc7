//! Connections of the host tier: ends that share no registry, and find each other by what travels with the
//! SYN. Owns: what such a connection asks and says that one of the local tier does not.

use crate::conn::Conn;
use crate::here::fabric;
use fabric::Reason;
use fabric::host::marks::{Arrived, Carried, Told};
use fabric::offer::Offer;
use fabric::rows::{Intent, RowId};
use shm::Side;
use sync::Ordering::Relaxed;

/// Whether the other end is one that no registry has.
#[inline]
pub(crate) fn is_far(conn: &Conn) -> bool {
    conn.row().is_in_slot()
}

/// The intent stands in the offered slot, and the SYN is to carry where that is.
#[cold]
pub(crate) fn publish(intent: &Intent, offered: &Offer) -> Result<RowId, Reason> {
    let host = fabric().tier().host().ok_or(Reason::NOSMCDDEV)?;
    let row = fabric().rows().publish_in_slot(intent, offered.index, offered.view);
    let carried = Carried {
        client: 0,
        cookie: intent.cookie,
        number: intent.memfd as u32,
        nonce: intent.nonce,
        slot: offered.view.number(),
        generation: offered.view.generation(),
    };
    host.carry(&carried).map(|()| row)
}

/// Why an established connection's intent is not going to be answered, as far as the kernel, and the daemon,
/// have told. (They told the process that connected: its children leave it to that.)
#[inline]
pub(crate) fn unanswered(conn: &Conn) -> Option<Told> {
    if is_far(conn) { was_told(conn) } else { None }
}

#[cold]
fn was_told(conn: &Conn) -> Option<Told> {
    let row = fabric().rows().row(conn.row());
    let is_told = row.is_some_and(|row| row.owner_pid.load(Relaxed) == os::process::cached_pid());
    let told = || fabric().tier().host().map_or(Told::Nothing, |host| host.told(conn.cookie()));
    is_told.then(told).filter(|told| *told != Told::Yes)
}

/// An accepted socket that nobody has used stays on TCP: its client, if it is one of these, is not to wait.
pub(crate) fn refuse(fd: i32) {
    if let Some(host) = fabric().tier().host()
        && let Some(Arrived::Offer(carried)) = host.take_arrived(fd)
    {
        host.decline(&carried);
    }
}

/// Whoever is at an address now may not have what was offered to who was there before.
pub(crate) fn was_declined() {
    if let Some(host) = fabric().tier().host() {
        host.begin_anew();
    }
}

/// The client's intent is decided: what the kernel said of its socket is not wanted any more.
#[inline]
pub(crate) fn forget(row: RowId, cookie: u64) {
    if row.is_in_slot() {
        forget_far(cookie);
    }
}

#[cold]
fn forget_far(cookie: u64) {
    if let Some(host) = fabric().tier().host() {
        host.forget(cookie);
    }
}

/// Whether the process at the other end, or another that has the memory, lives.
pub(crate) fn has_peer(conn: &Conn) -> bool {
    conn.view().is_none_or(|view| match conn.side() {
        Side::Client => fabric().is_offer_held(view),
        Side::Server => fabric().has_living_maker_of(view),
    })
}
