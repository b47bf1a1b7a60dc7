//! Memory of the machine on which simulated files and processes stand. Owns: that what is copied for a child
//! is copied whole, and that addresses within it are moved along.

use crate::raw::{nr, real6};
use core::ffi::CStr;

const RW: u32 = nr::PROT_READ | nr::PROT_WRITE;

/// Memory that a simulated file consists of: a memfd of the machine's.
pub struct Backing(i32);

impl Backing {
    /// An empty one; panics if the machine refuses.
    pub fn new() -> Self {
        let name: &CStr = c"simulated";
        // SAFETY: the name is NUL terminated.
        let fd = unsafe { real6(nr::__NR_memfd_create, [name.as_ptr() as usize, 1, 0, 0, 0, 0]) };
        assert!(fd >= 0, "no memfd: {fd}");
        Backing(fd as i32)
    }

    /// The machine's number for it.
    pub fn number(&self) -> i32 {
        self.0
    }

    /// Makes it so long.
    pub fn resize(&self, len: u64) {
        // SAFETY: nothing of it is mapped beyond its end by whom the simulation lets shrink it.
        unsafe { real6(nr::__NR_ftruncate, [self.0 as usize, len as usize, 0, 0, 0, 0]) };
    }
}

impl Default for Backing {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        // SAFETY: closing a descriptor of ours; mappings keep the memory.
        unsafe { real6(nr::__NR_close, [self.0 as usize, 0, 0, 0, 0, 0]) };
    }
}

/// A range of a parent's memory and where its child has it.
#[derive(Clone, Copy, Debug)]
pub struct Twin {
    /// Where the parent has it.
    pub from: usize,
    /// Where the child has it.
    pub to: usize,
    /// Bytes, a multiple of eight.
    pub len: usize,
    /// Whether it is the child's own, copied word by word, or shared by both.
    pub is_private: bool,
    /// Whether the child finds it zeroed.
    pub is_empty: bool,
}

impl Twin {
    /// A new range for a child: `len` bytes shared with the machine's descriptor `backing`, from `offset` on,
    /// or private ones.
    pub(super) fn make(from: usize, len: usize, backing: Option<i32>, offset: usize) -> Self {
        let (flags, fd) = match backing {
            Some(fd) => (nr::MAP_SHARED | nr::MAP_NORESERVE, fd),
            None => (nr::MAP_PRIVATE | nr::MAP_ANONYMOUS | nr::MAP_NORESERVE, -1),
        };
        // SAFETY: the machine chooses an unused range.
        let to = unsafe { real6(nr::__NR_mmap, [0, len, RW as usize, flags as usize, fd as usize, offset]) };
        assert!(to > 0, "no memory for a child: {to}");
        Twin { from, to: to as usize, len, is_private: backing.is_none(), is_empty: false }
    }

    /// Copies the private ranges of `twins`, and moves every address in them that lies in a parent's range to
    /// where the child has the same.
    ///
    /// # Safety
    /// Every range is mapped at both places, nobody writes into the parent's or looks into the child's
    /// meanwhile; and no word of a private range looks like such an address without being one.
    pub(super) unsafe fn copy_all(twins: &[Twin]) {
        for twin in twins.iter().filter(|twin| twin.is_private && !twin.is_empty) {
            for at in (0..twin.len).step_by(8) {
                // SAFETY: both are mapped, so long and aligned, by the caller's word.
                let word = unsafe { ((twin.from + at) as *const usize).read_volatile() };
                if word != 0 {
                    // SAFETY: as above.
                    unsafe { ((twin.to + at) as *mut usize).write_volatile(copy_of(twins, word)) };
                }
            }
        }
    }
}

/// Where the child has what the parent has at `address`; the same number if it is none of these.
fn copy_of(twins: &[Twin], address: usize) -> usize {
    let home = twins.iter().find(|twin| (twin.from..twin.from + twin.len).contains(&address));
    home.map_or(address, |twin| twin.to + (address - twin.from))
}
