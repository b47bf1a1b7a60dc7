//! The program's own buffers, as passed to a socket call. Owns: the argument that they may be read or
//! written.
//!
//! The preload library is the only maker of these values: it vouches for what the program promised libc. All
//! other rooms handle them without unsafe code.

use crate::copy::copy_run;
use core::cell::Cell;
use core::marker::PhantomData;
use core::mem::MaybeUninit;

/// A buffer, of either direction.
pub trait Piece: Copy {
    /// Bytes (left).
    fn len(&self) -> usize;

    /// Whether there is nothing (left).
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What remains after `count` bytes; nothing if there are fewer.
    fn after(&self, count: usize) -> Self;
}

/// Where bytes to send come from.
pub trait Supply: Piece {
    /// Whether all of it is there: it cannot end before its time.
    const IS_WHOLE: bool;

    /// At most the first `count` bytes.
    fn first(&self, count: usize) -> Self;

    /// Copies its first bytes to `room`, as many as fit; returns how many. Fewer only where it ended before
    /// its time.
    fn copy_to(&self, room: Sink<'_>) -> usize;

    /// Whether it ended before its time: nothing more will come.
    fn has_ended(&self) -> bool {
        false
    }

    /// The bytes themselves, for a system call; `None` if they lie in no memory of the program's.
    fn cells(&self) -> Option<&[Cell<MaybeUninit<u8>>]> {
        None
    }
}

/// Bytes the program wants to send.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    at: *const u8,
    len: usize,
    call: PhantomData<&'a [u8]>,
}

/// Room the program offers to receive into.
#[derive(Clone, Copy, Debug)]
pub struct Sink<'a> {
    at: *mut u8,
    len: usize,
    call: PhantomData<&'a mut [u8]>,
}

macro_rules! span {
    ($name:ident, $pointer:ty, $access:literal) => {
        impl $name<'_> {
            #[doc = concat!("A buffer of the program.\n\n# Safety\n`at` is ", $access, " for `len` bytes during the call.")]
            #[inline]
            pub unsafe fn new(at: $pointer, len: usize) -> Self {
                $name { at, len, call: PhantomData }
            }

            /// Length in bytes.
            #[inline]
            pub fn len(&self) -> usize {
                self.len
            }

            /// Whether there is nothing (left).
            #[inline]
            pub fn is_empty(&self) -> bool {
                self.len == 0
            }

            /// Start of the buffer.
            #[inline]
            pub fn address(&self) -> $pointer {
                self.at
            }

            /// The buffer for a system call, which the program's other threads may look at and change
            /// meanwhile.
            pub fn cells(&self) -> &[Cell<MaybeUninit<u8>>] {
                if self.at.is_null() {
                    return &[];
                }
                // SAFETY: the maker vouched for the bytes during the call, which `self` does not outlive;
                // cells claim nothing of what is in them, and Rust code neither reads nor writes them.
                unsafe { core::slice::from_raw_parts(self.at.cast(), self.len) }
            }

            /// What remains after `count` bytes; nothing if there are fewer.
            #[inline]
            pub fn after(&self, count: usize) -> Self {
                let count = count.min(self.len);
                $name { at: self.at.wrapping_add(count), len: self.len - count, call: PhantomData }
            }

            /// At most the first `count` bytes.
            #[inline]
            pub fn first(&self, count: usize) -> Self {
                $name { at: self.at, len: self.len.min(count), call: PhantomData }
            }
        }

        impl Piece for $name<'_> {
            #[inline]
            fn len(&self) -> usize {
                self.len
            }

            #[inline]
            fn after(&self, count: usize) -> Self {
                self.after(count)
            }
        }
    };
}
span!(Source, *const u8, "readable");
span!(Sink, *mut u8, "writable");

impl Supply for Source<'_> {
    const IS_WHOLE: bool = true;

    #[inline]
    fn first(&self, count: usize) -> Self {
        self.first(count)
    }

    #[inline]
    fn copy_to(&self, room: Sink<'_>) -> usize {
        let count = self.len.min(room.len);
        // SAFETY: both makers vouched for their ends, and a ring is never part of the program's own memory.
        unsafe { copy_run(self.at, room.at, count) };
        count
    }

    fn cells(&self) -> Option<&[Cell<MaybeUninit<u8>>]> {
        Some(self.cells())
    }
}

impl<'a> From<&'a [u8]> for Source<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Source { at: bytes.as_ptr(), len: bytes.len(), call: PhantomData }
    }
}

impl<'a> From<&'a mut [u8]> for Sink<'a> {
    fn from(bytes: &'a mut [u8]) -> Self {
        Sink { at: bytes.as_mut_ptr(), len: bytes.len(), call: PhantomData }
    }
}

/// `struct iovec`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IoVec {
    at: *mut u8,
    len: usize,
}

/// The program's iovec array.
#[derive(Clone, Copy, Debug)]
pub struct IoVecs<'a> {
    at: *const IoVec,
    count: usize,
    call: PhantomData<&'a [IoVec]>,
}

impl<'a> IoVecs<'a> {
    /// # Safety
    /// `at` holds `count` entries, and each describes memory the program may have read or written
    /// during the call.
    pub unsafe fn new(at: *const IoVec, count: usize) -> Self {
        IoVecs { at, count, call: PhantomData }
    }

    fn entries(self) -> impl Iterator<Item = IoVec> + Clone {
        // SAFETY: `new` promised `count` entries.
        (0..self.count).map(move |index| unsafe { *self.at.add(index) })
    }

    /// The entries as bytes to send, empty ones left out.
    pub fn sources(self) -> impl Iterator<Item = Source<'a>> + Clone {
        let full = self.entries().filter(|entry| entry.len != 0);
        full.map(|entry| Source { at: entry.at, len: entry.len, call: PhantomData })
    }

    /// The entries as room to receive into, empty ones left out.
    pub fn sinks(self) -> impl Iterator<Item = Sink<'a>> + Clone {
        let full = self.entries().filter(|entry| entry.len != 0);
        full.map(|entry| Sink { at: entry.at, len: entry.len, call: PhantomData })
    }

    /// Whether `is_outside` says of any entry, by address and length, that it cannot be a buffer.
    #[inline]
    pub fn any(self, is_outside: impl Fn(usize, usize) -> bool) -> bool {
        self.entries().any(|entry| is_outside(entry.at.addr(), entry.len))
    }

    /// The entries before the first of which `is_outside` says that.
    pub fn until(self, is_outside: impl Fn(usize, usize) -> bool) -> Self {
        let is_bad = |entry: IoVec| is_outside(entry.at.addr(), entry.len);
        IoVecs { count: self.entries().position(is_bad).unwrap_or(self.count), ..self }
    }

    /// Sum of the lengths; `None` where the kernel would say EINVAL (more than `isize::MAX`).
    pub fn total(self) -> Option<usize> {
        self.entries().try_fold(0usize, |sum, entry| {
            sum.checked_add(entry.len).filter(|total| *total <= isize::MAX as usize)
        })
    }
}
