//! The buffers of one call, moved piece by piece. Owns: that what was moved is not offered again.

use shm::Piece;

/// What is left of a list of buffers.
pub(crate) struct Rest<P, I> {
    current: Option<P>,
    parts: I,
}

impl<P: Piece, I: Iterator<Item = P>> Rest<P, I> {
    #[inline]
    pub(crate) fn of(parts: I) -> Self {
        Rest { current: None, parts }
    }

    #[inline]
    pub(crate) fn next_part(&mut self) -> Option<P> {
        match self.current {
            Some(part) if !part.is_empty() => Some(part),
            _ => {
                self.current = self.parts.find(|part| !part.is_empty());
                self.current
            }
        }
    }

    #[inline]
    pub(crate) fn done(&mut self, part: P, count: usize) {
        self.current = Some(part.after(count));
    }
}
