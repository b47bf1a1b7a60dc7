//! An endless reproducible byte stream, so that a reader can check every byte without being told what was
//! sent. Invariant: the byte at an offset depends on the seed and the offset alone, never on how the stream
//! was cut.

use crate::random::mix;

/// A position in the stream of one seed.
#[derive(Clone, Debug)]
pub struct Stream {
    seed: u64,
    at: u64,
}

impl Stream {
    /// The start of the stream of `seed`.
    pub fn new(seed: u64) -> Stream {
        Stream { seed: mix(seed.wrapping_add(0x1234_5678)), at: 0 }
    }

    /// Offset of the next byte.
    pub fn offset(&self) -> u64 {
        self.at
    }

    /// Writes the next bytes into `buf`.
    pub fn fill(&mut self, buf: &mut [u8]) {
        let mut done = 0;
        while done < buf.len() {
            let word = self.word();
            let part = &word[(self.at % 8) as usize..];
            let n = part.len().min(buf.len() - done);
            buf[done..done + n].copy_from_slice(&part[..n]);
            done += n;
            self.at += n as u64;
        }
    }

    /// Compares received bytes with what must come next; the offset of the first wrong one is the error.
    pub fn check(&mut self, bytes: &[u8]) -> Result<(), u64> {
        let mut want = vec![0; bytes.len()];
        let begin = self.at;
        self.fill(&mut want);
        match want.iter().zip(bytes).position(|(a, b)| a != b) {
            Some(i) => Err(begin + i as u64),
            None => Ok(()),
        }
    }

    fn word(&self) -> [u8; 8] {
        mix(self.seed ^ (self.at / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_ne_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::Stream;

    #[test]
    fn cutting_does_not_change_the_bytes() {
        let mut whole = [0; 1000];
        Stream::new(3).fill(&mut whole);
        let (mut cut, mut pieces) = (Stream::new(3), Vec::new());
        for n in (1..44).chain([54]) {
            let mut piece = vec![0; n];
            cut.fill(&mut piece);
            pieces.extend(piece);
        }
        assert_eq!(pieces[..], whole[..pieces.len().min(1000)]);
        assert_eq!(cut.offset(), pieces.len() as u64);
    }

    #[test]
    fn a_wrong_byte_is_found_at_its_offset() {
        let mut bytes = [0; 100];
        Stream::new(9).fill(&mut bytes);
        assert_eq!(Stream::new(9).check(&bytes), Ok(()));
        bytes[77] ^= 1;
        assert_eq!(Stream::new(9).check(&bytes), Err(77));
        assert_eq!(Stream::new(10).check(&bytes), Err(0));
    }
}
