//! A mapped segment: from an address and a length to checked slots. Owns: the bounds of the mapping.

use crate::layout::{MAGIC, PAGE, SegmentHeader, Side, SlotHeader, VERSION};
use crate::ring::Ring;
use core::ptr::NonNull;
use sync::{AtomicU64, Ordering};

/// Smallest and largest ring: SMC's buffer classes, 16 KiB << 0 ..= 6 (kernel SMC-D limit).
pub const RING_MIN: u32 = 16 * 1024;
/// Largest ring.
pub const RING_MAX: u32 = 1024 * 1024;
/// More slots than this are never made, so more are never believed.
pub const SLOTS_MAX: u32 = 64;

/// What a segment consists of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Number of slots.
    pub slots: u32,
    /// Bytes of one ring's data area.
    pub ring_size: u32,
}

impl Geometry {
    /// Bytes of one slot.
    pub const fn slot_len(self) -> usize {
        PAGE + 2 * self.ring_size as usize
    }

    /// Bytes of the whole segment.
    pub const fn len(self) -> usize {
        PAGE + self.slots as usize * self.slot_len()
    }

    /// A geometry has a header page even without slots.
    pub fn is_empty(self) -> bool {
        self.slots == 0
    }

    fn is_sane(self) -> bool {
        self.ring_size.is_power_of_two()
            && (RING_MIN..=RING_MAX).contains(&self.ring_size)
            && (1..=SLOTS_MAX).contains(&self.slots)
    }
}

/// Why a segment is not used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// Not a segment of ours, or not the one that was meant.
    Foreign,
    /// Another layout version.
    Version,
    /// The numbers do not fit the mapping.
    Geometry,
}

/// An address range that holds a segment. The geometry was read once and checked; it is never read again.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    at: NonNull<u8>,
    geometry: Geometry,
    nonce: u64,
}

// SAFETY: an address of shared memory; all access goes through atomics and raw copies.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

impl Segment {
    /// Writes the header of a new, zeroed segment. `None` if the memory is too short or the geometry makes no
    /// sense.
    pub fn format(memory: &'static [AtomicU64], geometry: Geometry, nonce: u64) -> Option<Self> {
        let is_aligned = memory.as_ptr().addr().is_multiple_of(PAGE);
        if !geometry.is_sane() || geometry.len() > size_of_val(memory) || !is_aligned {
            return None;
        }
        let segment = Segment { at: NonNull::from(memory).cast(), geometry, nonce };
        let header = segment.header();
        header.slots.store(geometry.slots, Ordering::Relaxed);
        header.ring_size.store(geometry.ring_size, Ordering::Relaxed);
        header.nonce.store(nonce, Ordering::Relaxed);
        header.version.store(VERSION, Ordering::Relaxed);
        header.magic.store(MAGIC, Ordering::Release);
        Some(segment)
    }

    /// Checks a mapping of a segment made by another process.
    pub fn attach(memory: &'static [AtomicU64], nonce: u64) -> Result<Self, Refused> {
        let len = size_of_val(memory);
        if len < PAGE || !memory.as_ptr().addr().is_multiple_of(PAGE) {
            return Err(Refused::Geometry);
        }
        let mut segment = Segment {
            at: NonNull::from(memory).cast(),
            geometry: Geometry { slots: 0, ring_size: 0 },
            nonce,
        };
        let header = segment.header();
        if header.magic.load(Ordering::Acquire) != MAGIC {
            return Err(Refused::Foreign);
        }
        if header.version.load(Ordering::Relaxed) != VERSION {
            return Err(Refused::Version);
        }
        if header.nonce.load(Ordering::Relaxed) != nonce {
            return Err(Refused::Foreign);
        }
        let geometry = Geometry {
            slots: header.slots.load(Ordering::Relaxed),
            ring_size: header.ring_size.load(Ordering::Relaxed),
        };
        if !geometry.is_sane() || geometry.len() > len {
            return Err(Refused::Geometry);
        }
        segment.geometry = geometry;
        Ok(segment)
    }

    /// The same for an observer, who was told no nonce: the one that stands there is taken.
    pub fn attach_as_it_is(memory: &'static [AtomicU64]) -> Result<Self, Refused> {
        const NONCE_AT: usize = core::mem::offset_of!(SegmentHeader, nonce) / size_of::<AtomicU64>();
        let nonce = memory.get(NONCE_AT).ok_or(Refused::Geometry)?.load(Ordering::Relaxed);
        Self::attach(memory, nonce)
    }

    fn header(&self) -> &'static SegmentHeader {
        // SAFETY: the constructors checked for a page of memory that is never unmapped; the header is atomics
        // only.
        unsafe { self.at.cast::<SegmentHeader>().as_ref() }
    }

    /// Number of slots and ring size.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The random number it was made with, or checked against; the one in shared memory is not read again.
    pub fn nonce(&self) -> u64 {
        self.nonce
    }

    /// No connection begins in it from now on. Who looks before it publishes one, or takes one up, and has
    /// not seen this has done so before the call returns.
    pub fn revoke(&self) {
        self.header().revoked.store(1, Ordering::SeqCst);
        sync::fence(Ordering::SeqCst);
    }

    /// Whether somebody has.
    pub fn is_revoked(&self) -> bool {
        self.header().revoked.load(Ordering::SeqCst) != 0
    }

    fn slot_at(&self, slot: u32) -> Option<NonNull<u8>> {
        if slot >= self.geometry.slots {
            return None;
        }
        // SAFETY: the checked geometry fits the mapping, so the offset lies inside it.
        Some(unsafe { self.at.add(PAGE + slot as usize * self.geometry.slot_len()) })
    }

    /// Header of slot number `slot`, `None` if there is no such slot.
    pub fn slot(&self, slot: u32) -> Option<&'static SlotHeader> {
        // SAFETY: a whole page lies at every slot address; the header is atomics only.
        self.slot_at(slot).map(|at| unsafe { at.cast::<SlotHeader>().as_ref() })
    }

    /// All of its memory, to be let go.
    pub fn memory(&self) -> &'static [AtomicU64] {
        // SAFETY: the constructors checked that the geometry fits the memory, which is never unmapped; the
        // slice stands for its address and length.
        unsafe { core::slice::from_raw_parts(self.at.as_ptr().cast(), self.geometry.len() / 8) }
    }

    /// The memory of the header's page, to be let go.
    pub fn header_memory(&self) -> &'static [AtomicU64] {
        // SAFETY: the constructors checked for a page, which is never unmapped; the slice stands for its
        // address and length.
        unsafe { core::slice::from_raw_parts(self.at.as_ptr().cast(), PAGE / 8) }
    }

    /// The memory of slots `first..end`, to be let go. `None` if there are no such slots.
    pub fn memory_of(&self, first: u32, end: u32) -> Option<&'static [AtomicU64]> {
        let start = self.slot_at(first)?;
        if end <= first || end > self.geometry.slots {
            return None;
        }
        let len = (end - first) as usize * self.geometry.slot_len();
        // SAFETY: the checked geometry fits the mapping, which is never unmapped; the slice stands for its
        // address and length.
        Some(unsafe { core::slice::from_raw_parts(start.as_ptr().cast(), len / 8) })
    }

    /// The memory of both rings of slot `slot`. `None` if there is no such slot.
    pub fn rings_of(&self, slot: u32) -> Option<&'static [AtomicU64]> {
        Some(&self.memory_of(slot, slot + 1)?[PAGE / 8..])
    }

    /// Whether this is the same mapping.
    pub fn is(&self, other: &Segment) -> bool {
        self.at == other.at
    }

    /// The ring into which `side` of slot `slot` writes.
    pub fn outgoing(&self, slot: u32, side: Side) -> Option<Ring> {
        let at = self.slot_at(slot)?;
        let header = self.slot(slot)?;
        let index = side as usize;
        let words = NonNull::from(&header.rings[index]);
        // SAFETY: the two data areas follow the header page inside the slot.
        let data = unsafe { at.add(PAGE + index * self.geometry.ring_size as usize) };
        // SAFETY: words and data lie inside the mapping, which outlives the segment value.
        Some(unsafe { Ring::new(words, data, self.geometry.ring_size) })
    }
}
