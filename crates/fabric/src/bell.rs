//! Internal descriptors: which numbers are ours. Owns: the list that close loops and close_range() spare.

use core::sync::atomic::{AtomicU64, Ordering};

/// Numbers up to this one can be remembered; internal descriptors above it are closed by close loops like any other.
const NUMBERS: usize = 1 << 20;

static OURS: [AtomicU64; NUMBERS / 64] = [const { AtomicU64::new(0) }; NUMBERS / 64];

fn place(fd: i32) -> Option<(&'static AtomicU64, u64)> {
    let number = usize::try_from(fd).ok()?;
    Some((OURS.get(number / 64)?, 1 << (number % 64)))
}

/// Remembers `fd` as ours and returns it.
pub fn keep_internal(fd: i32) -> i32 {
    if let Some((word, bit)) = place(fd) {
        word.fetch_or(bit, Ordering::Relaxed);
    }
    fd
}

/// Closes an internal descriptor.
pub fn close_internal(fd: i32) {
    if let Some((word, bit)) = place(fd) {
        word.fetch_and(!bit, Ordering::Relaxed);
    }
    if fd >= 0 {
        os::fd::close(fd);
    }
}

/// Whether `fd` is one of ours.
#[inline]
pub fn is_internal(fd: i32) -> bool {
    place(fd).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
}

/// The first internal number in `first..=last`.
pub fn next_internal(first: u32, last: u32) -> Option<u32> {
    let end = (last as usize).min(NUMBERS - 1);
    let mut number = first as usize;
    while number <= end {
        let rest = OURS[number / 64].load(Ordering::Relaxed) >> (number % 64);
        if rest == 0 {
            number = (number / 64 + 1) * 64;
            continue;
        }
        let found = number + rest.trailing_zeros() as usize;
        return (found <= end).then_some(found as u32);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn internal_numbers_are_found_in_order() {
        keep_internal(900_001);
        keep_internal(900_100);
        assert_eq!(next_internal(900_000, u32::MAX), Some(900_001));
        assert_eq!(next_internal(900_002, u32::MAX), Some(900_100));
        assert_eq!(next_internal(900_002, 900_099), None);
        assert!(is_internal(900_100) && !is_internal(900_099) && !is_internal(-1));
    }
}
