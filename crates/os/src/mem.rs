//! Memory: sealed memfds and mappings.
//! Owns: the promise that a mapping made here cannot be cut short by another process (`F_SEAL_SHRINK`), and
//! that what was said once for all is not said anew (`F_SEAL_WRITE`).

use crate::raw::{Errno, nr, syscall};
use crate::{Result, check};
use core::ffi::CStr;
use sync::AtomicU64;

const F_ADD_SEALS: u32 = 1033;
const F_GET_SEALS: u32 = 1034;
const F_SEAL_SEAL: usize = 1;
const F_SEAL_SHRINK: usize = 2;
const F_SEAL_GROW: usize = 4;
const F_SEAL_WRITE: usize = 8;
/// Which nobody adds to any more.
const SEALED: usize = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW;
const MADV_DONTDUMP: u32 = 16;

/// Makes a memfd of `len` bytes, sealed against shrinking and growing, at a high descriptor number.
pub fn sealed_memfd(name: &CStr, len: u64) -> Result<i32> {
    memfd(name, crate::fd::raise, |fd| resize(fd, len).and_then(|()| seal(fd, SEALED)))
}

/// Makes a memfd of `len` bytes that holds what `say` has written, and that nobody ever writes to again: a
/// word to the program that this one becomes. At a high descriptor number.
pub fn said_once(name: &CStr, len: usize, say: impl FnOnce(&[AtomicU64])) -> Result<i32> {
    memfd(name, crate::fd::raise_for_once, |fd| {
        resize(fd, len as u64)?;
        look(fd, len, say)?;
        seal(fd, SEALED | F_SEAL_WRITE)
    })
}

/// Whether `fd` is sealed as [`said_once`] does. (What a peer has made, and this process has mapped to write,
/// is not: nobody seals it later.)
pub(crate) fn was_said_once(fd: i32) -> bool {
    seals(fd) == Ok(SEALED | F_SEAL_WRITE)
}

/// Looks at what was said, and leaves nothing mapped.
pub fn hear<R>(fd: i32, what: impl FnOnce(&[AtomicU64]) -> R) -> Result<R> {
    let memory = map_shared_ro(fd, file_len(fd)? as usize)?;
    let result = what(memory);
    // (`what` could keep no part of it.)
    unmap(memory);
    Ok(result)
}

fn memfd(
    name: &CStr,
    raise: impl FnOnce(i32) -> Result<i32>,
    prepare: impl FnOnce(i32) -> Result<()>,
) -> Result<i32> {
    const MFD_CLOEXEC: u32 = 1;
    const MFD_ALLOW_SEALING: u32 = 2;
    // SAFETY: `name` is NUL terminated.
    let low =
        check(unsafe { syscall!(nr::__NR_memfd_create, name.as_ptr(), MFD_CLOEXEC | MFD_ALLOW_SEALING) })?;
    let fd = raise(low as i32)?;
    prepare(fd).inspect_err(|_| crate::fd::close(fd)).map(|()| fd)
}

fn seal(fd: i32, seals: usize) -> Result<()> {
    // SAFETY: adding seals touches no memory.
    check(unsafe { syscall!(nr::__NR_fcntl, fd, F_ADD_SEALS, seals) }).map(drop)
}

/// (But for that which the kernel adds to each where memory is not to be executed, vm.memfd_noexec.)
fn seals(fd: i32) -> Result<usize> {
    const F_SEAL_EXEC: usize = 32;
    // SAFETY: asking for seals touches no memory.
    check(unsafe { syscall!(nr::__NR_fcntl, fd, F_GET_SEALS) }).map(|seals| seals & !F_SEAL_EXEC)
}

/// Memory as memfd_create makes it (`linux/magic.h`). Another kind may seal as well and still fault when it
/// is touched: huge pages that the system has run out of.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// Whether what `fd` refers to (or only names) is memory of the ordinary kind.
pub(crate) fn is_plain_memory(fd: i32) -> bool {
    crate::file::about(fd).is_ok_and(crate::file::About::is_regular)
        && crate::file::file_system(fd) == Ok(TMPFS_MAGIC)
}

/// Fails with EPERM unless `fd` is a memfd of ordinary pages that can no longer shrink, nor be sealed in
/// another way.
pub fn require_unshrinkable(fd: i32) -> Result<()> {
    // (Asked first: nothing but memory has seals, and other files may be slow to tell what they are.)
    let needed = F_SEAL_SHRINK | F_SEAL_SEAL;
    let seals = seals(fd).map_err(|_| Errno::EPERM)?;
    if seals & needed == needed && is_plain_memory(fd) { Ok(()) } else { Err(Errno::EPERM) }
}

/// Whether it is sealed as [`sealed_memfd`] does.
pub(crate) fn is_sealed(fd: i32) -> bool {
    seals(fd) == Ok(SEALED)
}

/// ftruncate(2). EMSGSIZE if RLIMIT_FSIZE forbids the length: the kernel would kill the program with SIGXFSZ.
pub fn resize(fd: i32, len: u64) -> Result<()> {
    if crate::limits::file_size_limit() < len {
        return Err(Errno::EMSGSIZE);
    }
    // SAFETY: truncation touches no mapped memory of ours: it is called before the first mapping.
    check(unsafe { syscall!(nr::__NR_ftruncate, fd, len) }).map(drop)
}

/// Size of the file behind `fd` in bytes.
pub fn file_len(fd: i32) -> Result<u64> {
    // SAFETY: all-zero bytes are a valid `stat`.
    let mut stat: nr::stat = unsafe { core::mem::zeroed() };
    // SAFETY: `stat` is writable.
    check(unsafe { syscall!(nr::__NR_fstat, fd, &raw mut stat) })?;
    Ok(stat.st_size as u64)
}

/// Memory shared with whoever else maps the file; a static slice, because it is never unmapped (see
/// [`retire`]).
pub type Shared = &'static [AtomicU64];

fn map(at: usize, len: usize, prot: u32, flags: u32, fd: i32) -> Result<Shared> {
    // SAFETY: `at` is 0 (the kernel chooses an unused range) or the start of a mapping made here, replaced as
    // a whole.
    let at = check(unsafe { syscall!(nr::__NR_mmap, at, len, prot, flags, fd, 0) })?;
    // SAFETY: `len` bytes from `at` are mapped readable and are never unmapped; atomics allow concurrent
    // change, and the callers map writable or hand the slice out as read-only by contract.
    Ok(unsafe { core::slice::from_raw_parts(at as *const AtomicU64, len / 8) })
}

const RW: u32 = nr::PROT_READ | nr::PROT_WRITE;

/// Maps `len` bytes of `fd` shared, readable and writable, left out of core dumps.
pub fn map_shared(fd: i32, len: usize) -> Result<Shared> {
    let memory = map(0, len, RW, nr::MAP_SHARED | nr::MAP_NORESERVE, fd)?;
    leave_out_of_dumps(memory);
    Ok(memory)
}

fn leave_out_of_dumps(memory: Shared) {
    // SAFETY: advice on a mapping made here.
    unsafe { syscall!(nr::__NR_madvise, memory.as_ptr(), size_of_val(memory), MADV_DONTDUMP) };
}

/// Maps another part of the file that `first` maps from its beginning on: `len` bytes from `from` on, which
/// lie behind it. Needs no descriptor, for the kernel copies the mapping. Both are whole pages.
pub fn map_part(first: Shared, from: usize, len: usize) -> Result<Shared> {
    const PAGE: usize = 4096;
    const MAY_MOVE: u32 = 1;
    let last_page = size_of_val(first) - PAGE;
    let (start, skipped) = (first.as_ptr().addr() + last_page, from - last_page);
    // SAFETY: an old length of zero leaves the mapping as it is, and makes a new one of the same file that
    // begins with the same page, in a range that the kernel chooses; it fails if the mapping is not shared.
    let at = check(unsafe { syscall!(nr::__NR_mremap, start, 0usize, skipped + len, MAY_MOVE) })?;
    // SAFETY: nobody knows of the range yet; what lies in front of the part goes.
    check(unsafe { syscall!(nr::__NR_munmap, at, skipped) })?;
    // SAFETY: the rest stays mapped as `first` is.
    Ok(unsafe { core::slice::from_raw_parts((at + skipped) as *const AtomicU64, len / 8) })
}

/// Looks at the first `len` bytes of `fd`, which may be written to, and leaves nothing mapped.
pub fn look<R>(fd: i32, len: usize, what: impl FnOnce(&[AtomicU64]) -> R) -> Result<R> {
    let memory = map_shared(fd, len)?;
    let result = what(memory);
    // SAFETY: mapped just now; `what` could keep no part of it.
    check(unsafe { syscall!(nr::__NR_munmap, memory.as_ptr(), len) }).map(|_| result)
}

/// Maps `len` bytes of `fd` read-only: storing into the slice faults.
pub fn map_shared_ro(fd: i32, len: usize) -> Result<Shared> {
    map(0, len, nr::PROT_READ, nr::MAP_SHARED, fd)
}

/// Maps `len` zeroed private bytes that cost nothing until touched.
pub fn map_private(len: usize) -> Result<Shared> {
    map(0, len, RW, nr::MAP_PRIVATE | nr::MAP_ANONYMOUS | nr::MAP_NORESERVE, -1)
}

/// Maps `len` zeroed bytes that this process's children have in common with it, and nobody else.
pub fn map_in_common(len: usize) -> Result<Shared> {
    let memory = map(0, len, RW, nr::MAP_SHARED | nr::MAP_ANONYMOUS | nr::MAP_NORESERVE, -1)?;
    leave_out_of_dumps(memory);
    Ok(memory)
}

/// As [`map_private`], for tables that grow: `None` where there is no memory.
pub fn more(len: usize) -> Option<Shared> {
    map_private(len).ok()
}

/// Maps a zeroed private page that every child finds zeroed again.
pub fn map_not_inherited() -> Result<Shared> {
    const MADV_WIPEONFORK: u32 = 18;
    const PAGE: usize = 4096;
    let page = map_private(PAGE)?;
    // SAFETY: advice on the mapping just made.
    check(unsafe { syscall!(nr::__NR_madvise, page.as_ptr(), PAGE, MADV_WIPEONFORK) }).map(|_| page)
}

/// Gives the addresses of a mapping back that nobody but the caller has ever seen, who looks no more.
pub fn unmap(memory: Shared) {
    // SAFETY: a mapping made here, of which no reference is left but the caller's, which ends here.
    unsafe { syscall!(nr::__NR_munmap, memory.as_ptr(), size_of_val(memory)) };
}

/// Lets go of a shared mapping: the addresses stay valid and read as zero, the file is no longer referenced.
/// So a thread that still looks at the old memory sees nothing rather than faulting.
pub fn retire(memory: Shared) -> Result<()> {
    let flags = nr::MAP_PRIVATE | nr::MAP_ANONYMOUS | nr::MAP_NORESERVE | nr::MAP_FIXED;
    map(memory.as_ptr().addr(), size_of_val(memory), RW, flags, -1).map(drop)
}

/// Gives the pages of a shared mapping back to the system: they read as zero from then on, for everybody. Who
/// has locked them keeps them.
pub fn give_back_pages(memory: Shared) {
    const MADV_REMOVE: u32 = 9;
    // SAFETY: advice on a part of a mapping made here; bytes of shared memory may change at any time.
    unsafe { syscall!(nr::__NR_madvise, memory.as_ptr(), size_of_val(memory), MADV_REMOVE) };
}

/// Maps `fd` over a retired range of the same length.
pub fn remap_shared(memory: Shared, fd: i32) -> Result<()> {
    let flags = nr::MAP_SHARED | nr::MAP_NORESERVE | nr::MAP_FIXED;
    map(memory.as_ptr().addr(), size_of_val(memory), RW, flags, fd).map(leave_out_of_dumps)
}

/// Reserves file space so that storing into a mapping cannot fault on a full file system. ENOSPC if there is
/// none.
pub fn allocate(fd: i32, len: u64) -> Result<()> {
    // SAFETY: allocation touches no memory of ours.
    check(unsafe { syscall!(nr::__NR_fallocate, fd, 0, 0, len) }).map(drop)
}

/// Private memory for the time of one call: an array of plain integers, zeroed, unmapped on drop.
pub struct Scratch {
    memory: Shared,
}

impl Scratch {
    /// Room for `count` poll entries.
    pub fn for_poll(count: usize) -> Result<Self> {
        let len = (count * size_of::<crate::raw_poll::PollFd>()).next_multiple_of(4096);
        map_private(len).map(|memory| Scratch { memory })
    }

    /// The same memory as words: one for each entry asked for.
    pub(crate) fn words(&mut self) -> &mut [u64] {
        // SAFETY: as for `poll_entries`.
        unsafe { core::slice::from_raw_parts_mut(self.memory.as_ptr().cast_mut().cast(), self.memory.len()) }
    }

    /// The entries.
    pub fn poll_entries(&mut self) -> &mut [crate::raw_poll::PollFd] {
        let count = size_of_val(self.memory) / size_of::<crate::raw_poll::PollFd>();
        // SAFETY: nobody else has this mapping, `&mut self` makes the slice unique, and integers allow any
        // bytes.
        unsafe { core::slice::from_raw_parts_mut(self.memory.as_ptr().cast_mut().cast(), count) }
    }
}

impl Scratch {
    /// The same memory as bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: as in `poll_entries`.
        unsafe {
            core::slice::from_raw_parts_mut(self.memory.as_ptr().cast_mut().cast(), size_of_val(self.memory))
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: the mapping is private to this value, and no slice of it outlives the borrow of
        // `poll_entries`.
        unsafe { syscall!(nr::__NR_munmap, self.memory.as_ptr(), size_of_val(self.memory)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// memfd_create with `flags`, of 4 MiB, with these seals.
    fn sealed(flags: u32, seals: usize) -> Result<i32> {
        const MFD_ALLOW_SEALING: u32 = 2;
        // SAFETY: the name is NUL terminated.
        let fd =
            check(unsafe { syscall!(nr::__NR_memfd_create, c"test".as_ptr(), MFD_ALLOW_SEALING | flags) })?
                as i32;
        resize(fd, 4 << 20)?;
        // SAFETY: adding seals touches no memory.
        check(unsafe { syscall!(nr::__NR_fcntl, fd, F_ADD_SEALS, seals) })?;
        Ok(fd)
    }

    #[test]
    fn memory_that_can_still_shrink_or_be_sealed_is_not_believed() {
        let refused = [0, F_SEAL_GROW, F_SEAL_SHRINK, F_SEAL_SHRINK | F_SEAL_GROW, F_SEAL_SEAL | F_SEAL_GROW];
        for (seals, told) in
            refused.map(|seals| (seals, Err(Errno::EPERM))).into_iter().chain([(SEALED, Ok(()))])
        {
            let fd = sealed(0, seals).unwrap();
            assert_eq!(require_unshrinkable(fd), told, "seals {seals:#x}");
            crate::fd::close(fd);
        }
    }

    #[test]
    fn only_ordinary_pages_that_cannot_shrink_are_believed() {
        const MFD_HUGETLB: u32 = 4;
        let fine = sealed_memfd(c"test", 4 << 20).unwrap();
        assert_eq!(require_unshrinkable(fine), Ok(()));
        let ends = crate::pipe::create().unwrap();
        assert!(require_unshrinkable(ends).is_err(), "a pipe");
        match sealed(MFD_HUGETLB, SEALED) {
            Ok(huge) => {
                assert_eq!(require_unshrinkable(huge), Err(Errno::EPERM), "huge pages");
                crate::fd::close(huge);
            }
            Err(errno) => println!("no memfd of huge pages here: {errno:?}"),
        }
        crate::fd::close(ends);
        crate::fd::close(fine);
    }
}
