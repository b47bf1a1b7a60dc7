//! Process-private tables without an allocator: objects that are made once, never moved and never destroyed.
//!
//! Owns: the soundness of `&'static T` to a reused object. An object's constructor runs once in its life; "freeing" only
//! puts its number on a free list, so a thread that still looks at a freed object sees a valid object. All state that
//! changes is atomic fields of `T`. The free list is lock-free: a fork child never inherits it half changed.

use crate::sync::{AtomicU8, AtomicU64, Ordering};
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::AtomicPtr;

/// Number of an object in its slab.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Index(pub u32);

struct Entry<T> {
    next_free: core::sync::atomic::AtomicU32,
    is_made: AtomicU8,
    value: UnsafeCell<MaybeUninit<T>>,
}

/// A table of at most `capacity` objects; the memory comes from a mapping that is zero and never unmapped.
pub struct Slab<T: 'static> {
    entries: AtomicPtr<Entry<T>>,
    capacity: u32,
    made: core::sync::atomic::AtomicU32,
    /// Top of the free list plus one in the lower half, a change counter against ABA in the upper.
    free: core::sync::atomic::AtomicU64,
}

// SAFETY: entries are handed out as shared references to `T: Sync`; construction is exclusive (fetch_add on `made`).
unsafe impl<T: Sync + Send> Sync for Slab<T> {}

impl<T: Sync + Send> Slab<T> {
    /// An empty slab without memory; costs nothing.
    pub const fn new(capacity: u32) -> Self {
        Slab {
            entries: AtomicPtr::new(core::ptr::null_mut()),
            capacity,
            made: core::sync::atomic::AtomicU32::new(0),
            free: core::sync::atomic::AtomicU64::new(0),
        }
    }

    /// Bytes of memory [`Slab::adopt`] needs.
    pub const fn memory_len(&self) -> usize {
        (self.capacity as usize * size_of::<Entry<T>>() + align_of::<Entry<T>>()).next_multiple_of(8)
    }

    /// Whether memory has been given.
    pub fn has_memory(&self) -> bool {
        !self.entries.load(Ordering::Acquire).is_null()
    }

    /// Gives the slab its memory: zeroed, never unmapped. Says whether it was taken (it is not if another thread was first).
    pub fn adopt(&self, memory: &'static [AtomicU64]) -> bool {
        if size_of_val(memory) < self.memory_len() {
            return false;
        }
        let start = memory.as_ptr().cast_mut().cast::<u8>();
        let pad = start.align_offset(align_of::<Entry<T>>());
        let entries = start.wrapping_add(pad).cast::<Entry<T>>();
        self.entries
            .compare_exchange(core::ptr::null_mut(), entries, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    fn entry(&self, index: u32) -> Option<&'static Entry<T>> {
        let entries = self.entries.load(Ordering::Acquire);
        if entries.is_null() || index >= self.capacity {
            return None;
        }
        // SAFETY: `adopt` checked the length and aligned the start; zero bytes are a valid Entry (unmade).
        Some(unsafe { &*entries.add(index as usize) })
    }

    /// The object with this number, if it was ever made.
    #[inline]
    pub fn get(&self, index: Index) -> Option<&'static T> {
        let entry = self.entry(index.0)?;
        if entry.is_made.load(Ordering::Acquire) == 0 {
            return None;
        }
        // SAFETY: `is_made` is set, with release, after the value was written, and never cleared.
        Some(unsafe { (*entry.value.get()).assume_init_ref() })
    }

    /// A free object, recycled or made by `make`. `None` if the slab is full or has no memory.
    pub fn take(&self, make: impl FnOnce() -> T) -> Option<(Index, &'static T)> {
        if let Some(index) = self.pop_free() {
            return self.get(index).map(|value| (index, value));
        }
        let index = self.made.fetch_add(1, Ordering::Relaxed);
        let Some(entry) = self.entry(index) else {
            self.made.fetch_sub(1, Ordering::Relaxed);
            return None;
        };
        // SAFETY: `fetch_add` gave this index to this thread alone, and nobody reads before `is_made`.
        unsafe { (*entry.value.get()).write(make()) };
        entry.is_made.store(1, Ordering::Release);
        self.get(Index(index)).map(|value| (Index(index), value))
    }

    fn pop_free(&self) -> Option<Index> {
        let mut top = self.free.load(Ordering::Acquire);
        loop {
            let index = (top as u32).checked_sub(1)?;
            let next = self.entry(index)?.next_free.load(Ordering::Relaxed);
            let changed = ((top >> 32).wrapping_add(1) << 32) | u64::from(next);
            match self.free.compare_exchange_weak(top, changed, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(Index(index)),
                Err(now) => top = now,
            }
        }
    }

    /// Puts an object back. The caller has made sure that nothing refers to it by number any more.
    pub fn give_back(&self, index: Index) {
        let Some(entry) = self.entry(index.0) else { return };
        let mut top = self.free.load(Ordering::Acquire);
        loop {
            entry.next_free.store(top as u32, Ordering::Relaxed);
            let changed = ((top >> 32).wrapping_add(1) << 32) | u64::from(index.0 + 1);
            match self.free.compare_exchange_weak(top, changed, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }

    /// How many objects were ever made: numbers below this may exist.
    pub fn made(&self) -> u32 {
        self.made.load(Ordering::Acquire).min(self.capacity)
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

    fn memory(len: usize) -> &'static [AtomicU64] {
        Box::leak((0..len.div_ceil(8)).map(|_| AtomicU64::new(0)).collect())
    }

    #[test]
    fn objects_are_made_once_and_recycled() {
        let slab: Slab<AtomicU64> = Slab::new(2);
        assert!(slab.take(|| AtomicU64::new(1)).is_none(), "no memory yet");
        assert!(slab.adopt(memory(slab.memory_len())));
        let (first, one) = slab.take(|| AtomicU64::new(1)).unwrap();
        let (second, _) = slab.take(|| AtomicU64::new(2)).unwrap();
        assert!(slab.take(|| AtomicU64::new(3)).is_none(), "full");
        one.store(9, Ordering::Relaxed);
        slab.give_back(first);
        slab.give_back(second);
        let (again, _) = slab.take(|| AtomicU64::new(4)).unwrap();
        assert_eq!(again, second);
        let (again, value) = slab.take(|| AtomicU64::new(4)).unwrap();
        assert_eq!((again, value.load(Ordering::Relaxed)), (first, 9), "not made anew");
    }

    #[test]
    fn four_threads_never_hold_the_same_object() {
        static SLAB: Slab<AtomicU64> = Slab::new(8);
        SLAB.adopt(memory(SLAB.memory_len()));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let Some((index, value)) = SLAB.take(|| AtomicU64::new(0)) else { continue };
                        assert_eq!(value.fetch_add(1, Ordering::AcqRel), 0);
                        value.fetch_sub(1, Ordering::AcqRel);
                        SLAB.give_back(index);
                    }
                });
            }
        });
    }
}
