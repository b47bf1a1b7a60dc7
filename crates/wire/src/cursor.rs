//! Cursors: how far a side has written or read, as (wrap, count). Owns the arithmetic of RFC 7609 (RMBE
//! cursors); whether a peer's cursor is believable is for its reader to decide.

/// A position in a ring: `count` bytes into turn `wrap`. A sane cursor has `count < size`; a parsed one may
/// not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// Turns around the ring, modulo 65536.
    pub wrap: u16,
    /// Bytes into the current turn.
    pub count: u32,
}

impl Cursor {
    /// The cursor of a monotonic byte position in a ring of `size` bytes; `None` if `size` is 0.
    pub fn at_position(position: u64, size: u32) -> Option<Self> {
        let turns = position.checked_div(u64::from(size))?;
        let count = position.checked_rem(u64::from(size))?;
        Some(Self { wrap: turns as u16, count: count as u32 })
    }

    /// Whether the cursor lies inside a ring of `size` bytes.
    pub const fn is_within(self, size: u32) -> bool {
        self.count < size
    }

    /// This cursor `len` bytes further (at most one turn); `None` if cursor or `len` do not fit the ring.
    pub fn advanced(self, len: u32, size: u32) -> Option<Self> {
        if !self.is_within(size) || len > size {
            return None;
        }
        let sum = u64::from(self.count) + u64::from(len);
        let turns = u16::from(sum >= u64::from(size));
        let count = sum - u64::from(turns) * u64::from(size);
        Some(Self { wrap: self.wrap.wrapping_add(turns), count: count as u32 })
    }

    /// Bytes from `self` to `later`, 0 to `size`; `None` if `later` is behind, or more than one turn ahead.
    pub fn distance_to(self, later: Self, size: u32) -> Option<u32> {
        if !self.is_within(size) || !later.is_within(size) {
            return None;
        }
        let distance = match later.wrap.wrapping_sub(self.wrap) {
            0 => later.count.checked_sub(self.count)?,
            1 => (size - self.count).checked_add(later.count)?,
            _ => return None,
        };
        (distance <= size).then_some(distance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_turn_is_a_distance_and_more_is_not() {
        let at = |wrap, count| Cursor { wrap, count };
        assert_eq!(at(3, 10).distance_to(at(4, 10), 100), Some(100));
        assert_eq!(at(3, 10).distance_to(at(4, 11), 100), None);
        assert_eq!(at(65535, 99).distance_to(at(0, 0), 100), Some(1));
        assert_eq!(at(3, 10).distance_to(at(3, 9), 100), None);
        assert_eq!(at(3, 10).distance_to(at(3, 100), 100), None);
    }

    #[test]
    fn advancing_agrees_with_positions_across_the_wrap_of_the_wrap() {
        let size = 100;
        for start in [0u64, 99, 100, 6_553_500, 6_553_599] {
            for len in 0..=size {
                let from = Cursor::at_position(start, size).unwrap();
                let to = Cursor::at_position(start + u64::from(len), size);
                assert_eq!(from.advanced(len, size), to);
                assert_eq!(from.distance_to(to.unwrap(), size), Some(len));
            }
        }
        assert_eq!(Cursor::at_position(5, 0), None);
        assert_eq!(Cursor::default().advanced(101, size), None);
    }
}
