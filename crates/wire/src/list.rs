//! A list with a fixed capacity, so that messages need no allocation. Owns: `len` never exceeds `N`.

use crate::error::{Error, Result};

/// Up to `N` values. Compares and prints as the slice it holds.
#[derive(Clone, Copy)]
pub struct List<T, const N: usize> {
    items: [T; N],
    len: usize,
}

impl<T: Copy + Default, const N: usize> List<T, N> {
    /// The empty list.
    pub fn new() -> Self {
        Self { items: [T::default(); N], len: 0 }
    }

    /// A list of these values; `Error::TooMany` above `N`.
    pub fn of(values: &[T]) -> core::result::Result<Self, Error> {
        let mut list = Self::new();
        values.iter().try_for_each(|v| list.push(*v))?;
        Ok(list)
    }

    /// Appends one value; `Error::TooMany` when full.
    pub fn push(&mut self, value: T) -> core::result::Result<(), Error> {
        let slot = self.items.get_mut(self.len).ok_or(Error::TooMany { max: N, have: N + 1 })?;
        *slot = value;
        self.len += 1;
        Ok(())
    }

    /// Reads `count` values, refusing the count before the first read.
    pub(crate) fn read(count: u8, mut one: impl FnMut() -> Result<T>) -> Result<Self> {
        let have = usize::from(count);
        if have > N {
            return Err(Error::TooMany { max: N, have });
        }
        let mut list = Self::new();
        for _ in 0..have {
            list.push(one()?)?;
        }
        Ok(list)
    }

    /// Number of values as the wire's count byte. Never truncates: every `N` is far below 256.
    pub(crate) fn count(&self) -> u8 {
        self.len.min(255) as u8
    }
}

impl<T, const N: usize> core::ops::Deref for List<T, N> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        self.items.get(..self.len).unwrap_or(&[])
    }
}

impl<T: Copy + Default, const N: usize> Default for List<T, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: PartialEq, const N: usize> PartialEq for List<T, N> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Eq, const N: usize> Eq for List<T, N> {}

impl<T: core::fmt::Debug, const N: usize> core::fmt::Debug for List<T, N> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_one_more_than_its_capacity() {
        assert_eq!(&*List::<u8, 2>::of(&[1, 2]).unwrap(), &[1, 2]);
        assert_eq!(List::<u8, 2>::of(&[1, 2, 3]), Err(Error::TooMany { max: 2, have: 3 }));
        assert_eq!(List::<u8, 2>::read(3, || Ok(0)), Err(Error::TooMany { max: 2, have: 3 }));
    }
}
