//! Process-private tables without an allocator: objects that are made once, never moved and never destroyed.
//!
//! Owns: the soundness of `&'static T` to a reused object. An object's constructor runs once in its life;
//! "freeing" only puts its number on a free list, so a thread that still looks at a freed object sees a valid
//! object. All state that changes is atomic fields of `T`.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;

use sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::free_list::FreeList;

/// Number of an object in its slab.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Index(pub u32);

/// (What a look needs comes first: an object's own first line.)
#[repr(C)]
struct Entry<T> {
    value: UnsafeCell<MaybeUninit<T>>,
    next_free: AtomicU32,
}

/// Objects in a leaf, if they are not large; more there never are.
pub const LEAF: usize = 64;

/// Which objects of a leaf are made, a bit for each: a line that all looks share, before them.
#[repr(C, align(64))]
struct Made(AtomicU64);

/// Some objects.
#[repr(C)]
struct Leaf<T, const PER_LEAF: usize> {
    made: Made,
    entries: [Entry<T>; PER_LEAF],
}

/// A table of at most `LEAVES` times `PER_LEAF` objects. Its memory comes leaf by leaf, as objects are made,
/// and is never given back: a leaf is a mapping that is zero at first.
pub struct Slab<T: 'static, const LEAVES: usize, const PER_LEAF: usize = LEAF> {
    leaves: [AtomicPtr<Leaf<T, PER_LEAF>>; LEAVES],
    made: AtomicU32,
    free: FreeList,
}

// SAFETY: entries are handed out as shared references to `T: Sync`; construction is exclusive (who moves
// `made` of the slab on).
unsafe impl<T: Sync + Send, const LEAVES: usize, const PER_LEAF: usize> Sync for Slab<T, LEAVES, PER_LEAF> {}

impl<T: Sync + Send, const LEAVES: usize, const PER_LEAF: usize> Slab<T, LEAVES, PER_LEAF> {
    /// Bytes of a leaf.
    const LEAF_LEN: usize =
        (size_of::<Leaf<T, PER_LEAF>>() + align_of::<Leaf<T, PER_LEAF>>()).next_multiple_of(8);

    /// A bit for each object of a leaf.
    const FITS: () = assert!(PER_LEAF <= u64::BITS as usize);

    /// An empty slab without memory; costs nothing.
    pub const fn new() -> Self {
        () = Self::FITS;
        Slab {
            leaves: [const { AtomicPtr::new(core::ptr::null_mut()) }; LEAVES],
            made: AtomicU32::new(0),
            free: FreeList::new(),
        }
    }

    /// Makes sure that the leaf of number `index` is there; `None` if there is no such leaf or no memory.
    fn grow(&self, index: u32, memory: impl FnOnce(usize) -> Option<&'static [AtomicU64]>) -> Option<()> {
        let leaf = self.leaves.get(index as usize / PER_LEAF)?;
        if !leaf.load(Ordering::Acquire).is_null() {
            return Some(());
        }
        let memory = memory(Self::LEAF_LEN).filter(|memory| size_of_val(*memory) >= Self::LEAF_LEN)?;
        let start = memory.as_ptr().cast_mut().cast::<u8>();
        let here = start.wrapping_add(start.align_offset(align_of::<Leaf<T, PER_LEAF>>()));
        // (Of two threads that bring memory at once one's stays unused.)
        let _ =
            leaf.compare_exchange(core::ptr::null_mut(), here.cast(), Ordering::AcqRel, Ordering::Relaxed);
        Some(())
    }

    #[inline]
    fn leaf(&self, index: u32) -> Option<(&'static Leaf<T, PER_LEAF>, usize)> {
        let leaf = self.leaves.get(index as usize / PER_LEAF)?.load(Ordering::Acquire);
        // SAFETY: null, or `grow` checked the length and aligned the start of memory that is never unmapped;
        // zero bytes are a valid leaf, with nothing made.
        Some((unsafe { leaf.as_ref() }?, index as usize % PER_LEAF))
    }

    fn entry(&self, index: u32) -> Option<&'static Entry<T>> {
        self.leaf(index).map(|(leaf, at)| &leaf.entries[at])
    }

    /// The object with this number, if it was ever made.
    #[inline]
    pub fn get(&self, Index(index): Index) -> Option<&'static T> {
        let (leaf, at) = self.leaf(index)?;
        if leaf.made.0.load(Ordering::Acquire) & 1 << at == 0 {
            return None;
        }
        // SAFETY: the bit is set, with release, after the value was written, and never taken back.
        Some(unsafe { (*leaf.entries[at].value.get()).assume_init_ref() })
    }

    /// A free object, recycled or made by `make`, in memory that `memory` brings (zeroed, never unmapped, so
    /// many bytes). `None` if the slab is full or there is no memory.
    pub fn take(
        &self,
        memory: impl Fn(usize) -> Option<&'static [AtomicU64]>,
        make: impl FnOnce() -> T,
    ) -> Option<(Index, &'static T)> {
        if let Some(index) = self.free.pop(|index| Some(&self.entry(index)?.next_free)).map(Index) {
            return self.get(index).map(|value| (index, value));
        }
        let index = loop {
            let next = self.made.load(Ordering::Relaxed);
            self.grow(next, &memory)?;
            let moved_on = self.made.compare_exchange(next, next + 1, Ordering::AcqRel, Ordering::Relaxed);
            if moved_on.is_ok() {
                break next;
            }
        };
        let (leaf, at) = self.leaf(index)?;
        // SAFETY: moving `made` on gave this index to this thread alone, and nobody reads before its bit is
        // set.
        unsafe { (*leaf.entries[at].value.get()).write(make()) };
        leaf.made.0.fetch_or(1 << at, Ordering::Release);
        self.get(Index(index)).map(|value| (Index(index), value))
    }

    /// Puts an object back. The caller has made sure that nothing refers to it by number any more.
    pub fn give_back(&self, index: Index) {
        if let Some(entry) = self.entry(index.0) {
            self.free.push(index.0, &entry.next_free);
        }
    }

    /// How many objects were ever made: numbers below this may exist.
    pub fn made(&self) -> u32 {
        self.made.load(Ordering::Acquire)
    }
}

impl<T: Sync + Send, const LEAVES: usize> Default for Slab<T, LEAVES> {
    fn default() -> Self {
        Self::new()
    }
}

/// A `&'static T` that is set once.
pub struct OnceRef<T: 'static>(AtomicPtr<T>);

impl<T: Sync> OnceRef<T> {
    /// Not set.
    pub const fn new() -> Self {
        OnceRef(AtomicPtr::new(core::ptr::null_mut()))
    }

    /// The reference, once set.
    #[inline]
    pub fn get(&self) -> Option<&'static T> {
        // SAFETY: only `set` stores, and only `&'static T`.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// Sets it; a later caller's value is dropped. Returns the one that stands.
    pub fn set(&self, value: &'static T) -> &'static T {
        let pointer = core::ptr::from_ref(value).cast_mut();
        let _ = self.0.compare_exchange(core::ptr::null_mut(), pointer, Ordering::AcqRel, Ordering::Acquire);
        self.get().unwrap_or(value)
    }

    /// Empties it, so that it can be set anew. Whoever has got the reference keeps it: it is valid for ever.
    pub fn take(&self) -> Option<&'static T> {
        // SAFETY: as in `get`.
        unsafe { self.0.swap(core::ptr::null_mut(), Ordering::AcqRel).as_ref() }
    }
}

impl<T: Sync> Default for OnceRef<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn memory(len: usize) -> Option<&'static [AtomicU64]> {
        Some(Box::leak((0..len.div_ceil(8)).map(|_| AtomicU64::new(0)).collect()))
    }

    #[test]
    fn objects_are_made_once_and_recycled() {
        let slab: Slab<AtomicU64, 1> = Slab::new();
        assert!(slab.take(|_| None, || AtomicU64::new(1)).is_none(), "no memory yet");
        let (first, one) = slab.take(memory, || AtomicU64::new(1)).unwrap();
        let (second, _) = slab.take(|_| None, || AtomicU64::new(2)).unwrap();
        for _ in 2..LEAF {
            slab.take(|_| None, || AtomicU64::new(3)).unwrap();
        }
        assert!(slab.take(memory, || AtomicU64::new(3)).is_none(), "full");
        one.store(9, Ordering::Relaxed);
        slab.give_back(first);
        slab.give_back(second);
        let (again, _) = slab.take(memory, || AtomicU64::new(4)).unwrap();
        assert_eq!(again, second);
        let (again, value) = slab.take(memory, || AtomicU64::new(4)).unwrap();
        assert_eq!((again, value.load(Ordering::Relaxed)), (first, 9), "not made anew");
    }

    #[test]
    fn memory_is_asked_for_leaf_by_leaf() {
        let (slab, asked): (Slab<u8, 3>, _) = (Slab::new(), core::cell::Cell::new(0));
        let counted = |len| {
            asked.set(asked.get() + 1);
            memory(len)
        };
        let numbers: Vec<u8> =
            (0..LEAF + 1).filter_map(|n| Some(*slab.take(counted, || n as u8)?.1)).collect();
        assert_eq!((asked.get(), slab.made()), (2, LEAF as u32 + 1));
        assert!(numbers.iter().enumerate().all(|(n, value)| n as u8 == *value));
        assert_eq!(slab.get(Index(LEAF as u32)), Some(&(LEAF as u8)));
        assert_eq!((slab.get(Index(LEAF as u32 + 1)), slab.get(Index(u32::MAX))), (None, None));
    }

    #[test]
    fn four_threads_never_hold_the_same_object() {
        static SLAB: Slab<AtomicU64, 1> = Slab::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..if cfg!(miri) { 50 } else { 20_000 } {
                        let Some((index, value)) = SLAB.take(memory, || AtomicU64::new(0)) else { continue };
                        assert_eq!(value.fetch_add(1, Ordering::AcqRel), 0);
                        value.fetch_sub(1, Ordering::AcqRel);
                        SLAB.give_back(index);
                    }
                });
            }
        });
    }
}
