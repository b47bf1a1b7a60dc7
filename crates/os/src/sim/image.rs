//! Values that stand for all private memory of a simulated process. Owns: where they lie, and what a child
//! gets of them.

use super::backing::Twin;
use crate::raw::{nr, real6};

const PAGE: usize = 4096;

/// The length of the range in which a `T` lies.
const fn len_of<T>() -> usize {
    size_of::<T>().next_multiple_of(PAGE)
}

/// A value in a range of its own, for as long as the simulation lasts. Panics without memory.
pub fn place<T: Sync>(value: T) -> &'static T {
    let flags = nr::MAP_PRIVATE | nr::MAP_ANONYMOUS | nr::MAP_NORESERVE;
    let prot = nr::PROT_READ | nr::PROT_WRITE;
    // SAFETY: the machine chooses an unused range.
    let at =
        unsafe { real6(nr::__NR_mmap, [0, len_of::<T>(), prot as usize, flags as usize, usize::MAX, 0]) };
    assert!(at > 0, "no memory for a process: {at}");
    let at = at as *mut T;
    // SAFETY: a fresh range of that size, at a page's start; it stays mapped (see `Ground`).
    unsafe {
        at.write(value);
        &*at
    }
}

/// A range that a process has mapped.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// Where.
    pub at: usize,
    /// Bytes.
    pub len: usize,
    /// From where on in the file.
    pub offset: usize,
    /// The machine's descriptor of what it shares with others; `None`: its own.
    pub backing: Option<i32>,
    /// A child finds it zeroed.
    pub is_empty: bool,
}

/// Whatever the process of these `ranges` shares with others is its own from now on, as it is at this moment:
/// what its threads do on their way out, nobody else sees.
pub fn part_from_others(ranges: &[Range]) {
    for range in ranges {
        let Some(backing) = range.backing else { continue };
        let prot = (nr::PROT_READ | nr::PROT_WRITE) as usize;
        let flags = (nr::MAP_PRIVATE | nr::MAP_NORESERVE | nr::MAP_FIXED) as usize;
        // SAFETY: the range is mapped, by the simulated kernel's books, and shows the same bytes as before.
        let at = unsafe {
            real6(nr::__NR_mmap, [range.at, range.len, prot, flags, backing as usize, range.offset])
        };
        assert!(at == range.at as isize, "no memory for a process that ends: {at}");
    }
}

/// fork(2): a child's copy of `parent` and of the `ranges` that it refers to. What the parent shares with
/// others the child shares, too; everything else is copied, and refers to the child's own ranges where the
/// parent's refers to the parent's. Returns the copy, and where each range is in the child, the value's own
/// first.
///
/// The calling thread is the only one of the simulation that runs; no other one looks into the parent's
/// ranges meanwhile.
pub fn fork<T: Sync>(parent: &'static T, ranges: &[Range]) -> (&'static T, Vec<Twin>) {
    let from = core::ptr::from_ref(parent).addr();
    let own = Twin::make(from, len_of::<T>(), None, 0);
    let others = ranges.iter().map(|range| {
        let twin = Twin::make(range.at, range.len, range.backing, range.offset);
        Twin { is_empty: range.is_empty, ..twin }
    });
    let twins: Vec<Twin> = core::iter::once(own).chain(others).collect();
    // SAFETY: the ranges are mapped, the parent's by the simulated kernel's books and the child's just now;
    // nobody runs meanwhile. A process's state consists of integers, numbers and addresses in ranges of its
    // own, as every process's that forks.
    unsafe { Twin::copy_all(&twins) };
    // SAFETY: a whole copy of a `T` whose references lead to copies of what they led to.
    (unsafe { &*(own.to as *const T) }, twins)
}

/// The memory of a whole simulation.
#[derive(Default)]
pub struct Ground {
    ranges: Vec<(usize, usize)>,
}

impl Ground {
    /// The range of a placed value.
    pub fn add_value<T>(&mut self, value: &'static T) {
        self.ranges.push((core::ptr::from_ref(value).addr(), len_of::<T>()));
    }

    /// Any other one.
    pub fn add(&mut self, at: usize, len: usize) {
        self.ranges.push((at, len));
    }

    /// Gives all of it back to the machine. To be called when no thread of the simulation runs any more, nor
    /// ever will.
    pub fn clear(self) {
        for (at, len) in self.ranges {
            // SAFETY: nobody looks there any more: the simulation is over, its threads are done or parked.
            unsafe { real6(nr::__NR_munmap, [at, len, 0, 0, 0, 0]) };
        }
    }
}
