//! A small reproducible generator (SplitMix64, Steele, Lea and Flood 2014). Invariant: equal seeds give equal
//! runs.

/// A generator of numbers from a seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Starts from a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `n`; 0 when `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        if n == 0 { 0 } else { (self.bits() % n as u64) as usize }
    }

    /// A size from 1 to `max`, small ones as likely as large ones on a logarithmic scale.
    pub fn size(&mut self, max: usize) -> usize {
        let width = usize::BITS - max.max(1).leading_zeros();
        let bits = 1 + self.below(width as usize);
        (1 + self.below(1 << bits)).min(max.max(1))
    }

    /// True once in `n` times on average.
    pub fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// SplitMix64's finalizer: a good hash of one word, and a bijection.
pub fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn equal_seeds_give_equal_numbers() {
        let (mut a, mut b, mut c) = (Random::new(7), Random::new(7), Random::new(8));
        let take = |r: &mut Random| (0..100).map(|_| r.bits()).collect::<Vec<_>>();
        let first = take(&mut a);
        assert_eq!(first, take(&mut b));
        assert_ne!(first, take(&mut c));
    }

    #[test]
    fn sizes_stay_in_range_and_reach_both_ends() {
        let mut r = Random::new(1);
        let sizes: Vec<usize> = (0..10_000).map(|_| r.size(65536)).collect();
        assert!(sizes.iter().all(|n| (1..=65536).contains(n)));
        assert!(sizes.iter().any(|n| *n < 4) && sizes.iter().any(|n| *n > 40_000));
        assert_eq!(r.size(1), 1);
        assert_eq!(r.below(0), 0);
    }
}
