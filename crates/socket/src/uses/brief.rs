//! Addresses to which connections are brief: over before shared memory has paid for their beginning, which
//! costs both ends a third to two thirds of a plain connection (docs/performance.md). Owns: how many of these
//! are made.
//!
//! Each address has a bucket of tokens. A connection that ends brief takes one, a few come back every second,
//! and one that was worth it fills the bucket. Without tokens connections there are TCP; so a loop that makes
//! a connection for each request pays for few of them, and finds out soon if that changes. Per process: only
//! its own loops count.

use crate::conn::Conn;
use crate::end::End;
use crate::here::{Part as _, fabric};
use crate::release;
use os::net::Endpoint;
use os::time::Cycles;
use sync::Ordering::Relaxed;
use sync::{AtomicU32, AtomicU64};

/// Addresses that are known at once; two of one place share it in turns.
const ADDRESSES: usize = 64;
/// A token comes back with each tick: so many bits of the core's counter, some 5 ms.
const TICK_BITS: u32 = 24;
/// Calls that moved bytes through memory, at the client: more of them, or more bytes, have paid.
const BRIEF_CALLS: u64 = 8;
const BRIEF_BYTES: u64 = 64 * 1024;

/// What is known of one address.
struct Address {
    /// Its number; 0 for none.
    number: AtomicU32,
    /// How many tokens were taken, above, and the tick in which that was so, below.
    taken: AtomicU64,
}

/// What a process knows of addresses.
pub(crate) struct Addresses([Address; ADDRESSES]);

impl Addresses {
    pub(crate) const fn new() -> Self {
        Addresses([const { Address { number: AtomicU32::new(0), taken: AtomicU64::new(0) } }; ADDRESSES])
    }

    fn at(place: u32) -> Option<&'static Address> {
        Addresses::here().0.get(place.checked_sub(1)? as usize)
    }
}

/// How many tokens are taken at `now`.
fn left(word: u64, now: u32) -> u64 {
    (word >> 32).saturating_sub(u64::from(now.wrapping_sub(word as u32)))
}

/// One more is.
fn more(word: u64, now: u32, most: u32) -> u64 {
    (left(word, now) + 1).min(u64::from(most)) << 32 | u64::from(now)
}

fn now() -> u32 {
    (Cycles::now().word() >> TICK_BITS) as u32
}

/// The place of an address, for [`note_end`], from 1 on; `None` if connections there are to be TCP for now.
pub(crate) fn place(target: Endpoint) -> Option<u8> {
    let number = fabric::address::number(target);
    let place = (number >> 40) as usize % ADDRESSES;
    let (address, number) = (&Addresses::here().0[place], (number as u32).max(1));
    let most = fabric().config.brief();
    if address.number.load(Relaxed) != number {
        address.taken.store(0, Relaxed);
        address.number.store(number, Relaxed);
    } else if most != 0 && address.taken.load(Relaxed) >> 32 != 0 && is_spent(address, most) {
        return None;
    }
    Some(place as u8 + 1)
}

fn is_spent(address: &Address, most: u32) -> bool {
    left(address.taken.load(Relaxed), now()) >= u64::from(most)
}

/// A client's connection ends.
pub(crate) fn note_end(conn: &Conn) {
    let Some(address) = Addresses::at(conn.brief_place()) else { return };
    let Some(end) = End::still_of(conn).filter(|_| !release::is_copy(conn)) else { return };
    if is_brief(&end) {
        address.taken.store(more(address.taken.load(Relaxed), now(), fabric().config.brief()), Relaxed);
    } else {
        address.taken.store(0, Relaxed);
    }
}

fn is_brief(end: &End) -> bool {
    let mine = end.mine();
    let calls = mine.tx.0.requests.load(Relaxed).saturating_add(mine.rx.0.requests.load(Relaxed));
    let sent = end.outgoing.words().producer.0.prod.load(Relaxed);
    let received = end.incoming.words().consumer.0.cons.load(Relaxed);
    calls <= BRIEF_CALLS && sent.saturating_add(received) <= BRIEF_BYTES
}

#[cfg(test)]
mod tests {
    use super::{left, more};

    #[test]
    fn tokens_come_back() {
        let mut word = 0;
        for at in 0..20 {
            word = more(word, at / 5, 1000);
        }
        assert_eq!(left(word, 3), 17, "three came back on the way");
        assert_eq!(left(word, 13), 7);
        assert_eq!(left(word, u32::MAX / 2), 0);
    }

    #[test]
    fn no_more_are_taken_than_there_are() {
        let word = (0..50).fold(0, |word, _| more(word, 7, 10));
        assert_eq!(left(word, 7), 10);
        assert_eq!(left(more(word, 8, 10), 8), 10);
    }
}
