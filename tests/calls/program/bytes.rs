//! The bytes of a direction of a connection. Invariant: each follows from the seed, the direction and its
//! offset, so that a foreign, lost or doubled one is seen.

use crate::script::End;
use testkit::random::mix;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes {
    key: u64,
    at: u64,
}

impl Bytes {
    pub(crate) fn new(seed: u64, link: usize, from: End, at: u64) -> Bytes {
        Bytes { key: mix(seed * 16 + link as u64 * 2 + from as u64), at }
    }

    pub(crate) fn next(self, count: usize) -> Vec<u8> {
        let byte = |at: u64| mix(self.key.wrapping_add(at / 8)).to_le_bytes()[(at % 8) as usize];
        (self.at..self.at + count as u64).map(byte).collect()
    }

    /// Says which byte is wrong, if one is.
    pub(crate) fn judge(self, got: &[u8]) -> String {
        let want = self.next(got.len());
        match (0..got.len()).find(|at| got[*at] != want[*at]) {
            None => String::new(),
            Some(at) => format!(" WRONG from byte {} on", self.at + at as u64),
        }
    }
}
