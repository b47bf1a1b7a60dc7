//! Threads, and children in this memory, that have a table of descriptors of their own beside the process's.
//! Owns: whether there are any, and which threads they are.

use sync::{AtomicU32, Ordering};

/// By their kernel ids, the first sixteen.
static PARTED: [AtomicU32; 16] = [const { AtomicU32::new(0) }; 16];
/// How many there were.
static PARTINGS: AtomicU32 = AtomicU32::new(0);

/// Whether a thread of this process has had a table of its own: a number may mean two things here.
pub(crate) fn has_any() -> bool {
    PARTINGS.load(Ordering::Relaxed) != 0
}

/// Whether the calling thread has one.
pub(crate) fn is_one() -> bool {
    has_any() && {
        let tid = os::process::tid();
        PARTED.iter().any(|parted| parted.load(Ordering::Relaxed) == tid)
    }
}

/// A child is to have one, of which its process id tells; or shares this one's and has memory of its own.
pub(crate) fn note_child() {
    PARTINGS.fetch_add(1, Ordering::AcqRel);
}

/// The calling thread is one from now on.
pub(crate) fn note() {
    let place = PARTINGS.fetch_add(1, Ordering::AcqRel) as usize;
    if let Some(parted) = PARTED.get(place) {
        parted.store(os::process::tid(), Ordering::Relaxed);
    }
}
