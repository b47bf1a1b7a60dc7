//! Addresses in memory that others look at while they are written: words of a row, and a slot's own note of
//! them. Owns: how an address becomes words. Nothing here is whole unless somebody else says so: whoever
//! reads checks a key after.

use os::net::Endpoint;
use shm::registry::EndpointWords;
use sync::AtomicU64;
use sync::Ordering::Relaxed;

/// A number for an address and a port, never 0. (Two addresses of the same number share their doubts.)
pub fn number(at: Endpoint) -> u64 {
    const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
    let (ends, _) = at.addr.as_chunks::<8>();
    let start = u64::from(at.family) << 16 | u64::from(at.port);
    let sum = ends
        .iter()
        .fold(start, |sum, end| (sum ^ u64::from_ne_bytes(*end)).wrapping_mul(ODD).rotate_left(29));
    sum.wrapping_mul(ODD).max(1)
}

/// Writes an address into a row.
#[inline]
pub(crate) fn store_endpoint(into: &EndpointWords, at: Endpoint) {
    let (family_port, addr) = words_of(at);
    into.family_port.store(family_port, Relaxed);
    for (word, part) in into.addr.iter().zip(addr) {
        word.store(part, Relaxed);
    }
}

/// Reads an address out of a row.
pub(crate) fn load_endpoint(from: &EndpointWords) -> Endpoint {
    let family_port = from.family_port.load(Relaxed);
    let mut at =
        Endpoint { family: (family_port >> 16) as u16, port: family_port as u16, ..Endpoint::default() };
    for (bytes, word) in at.addr.chunks_exact_mut(4).zip(&from.addr) {
        bytes.copy_from_slice(&word.load(Relaxed).to_le_bytes());
    }
    at
}

/// Family and port in one word, and the address in four.
#[inline]
pub(crate) fn words_of(at: Endpoint) -> (u32, [u32; 4]) {
    let addr = u128::from_le_bytes(at.addr);
    let part = |n: u32| (addr >> (32 * n)) as u32;
    (u32::from(at.family) << 16 | u32::from(at.port), [part(0), part(1), part(2), part(3)])
}

/// An address in atomics: written at a connection's end, read when its slot is wanted again.
#[derive(Default)]
pub(crate) struct EndpointCell([AtomicU64; 3]);

impl EndpointCell {
    pub(crate) fn store(&self, at: Endpoint) {
        for (word, part) in self.0.iter().zip(at.to_words()) {
            word.store(part, Relaxed);
        }
    }

    pub(crate) fn load(&self) -> Endpoint {
        Endpoint::from_words(self.0.each_ref().map(|word| word.load(Relaxed)))
    }
}
