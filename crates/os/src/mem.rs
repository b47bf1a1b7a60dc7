//! Memory: sealed memfds and mappings.
//! Owns: the promise that a mapping made here cannot be cut short by another process (`F_SEAL_SHRINK`).

use crate::raw::{Errno, nr, syscall};
use crate::{Result, check};
use core::ptr::NonNull;

const F_ADD_SEALS: u32 = 1033;
const F_GET_SEALS: u32 = 1034;
const F_SEAL_SEAL: usize = 1;
const F_SEAL_SHRINK: usize = 2;
const F_SEAL_GROW: usize = 4;
const MADV_DONTDUMP: u32 = 16;

/// Makes a memfd of `len` bytes, sealed against shrinking and growing, at a high descriptor number.
pub fn sealed_memfd(name: &core::ffi::CStr, len: u64) -> Result<i32> {
    const MFD_CLOEXEC: u32 = 1;
    const MFD_ALLOW_SEALING: u32 = 2;
    // SAFETY: `name` is NUL terminated.
    let low = check(unsafe { syscall!(nr::__NR_memfd_create, name.as_ptr(), MFD_CLOEXEC | MFD_ALLOW_SEALING) })?;
    let fd = crate::fd::raise(low as i32)?;
    let sealed = resize(fd, len).and_then(|()| {
        // SAFETY: adding seals touches no memory.
        check(unsafe {
            syscall!(nr::__NR_fcntl, fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW)
        })
    });
    if let Err(errno) = sealed {
        crate::fd::close(fd);
        return Err(errno);
    }
    Ok(fd)
}

/// Fails with EPERM unless `fd` is a memfd that can no longer shrink.
pub fn require_unshrinkable(fd: i32) -> Result<()> {
    // SAFETY: asking for seals touches no memory.
    let seals = check(unsafe { syscall!(nr::__NR_fcntl, fd, F_GET_SEALS) })?;
    if seals & F_SEAL_SHRINK == 0 { Err(Errno::EPERM) } else { Ok(()) }
}

/// ftruncate(2).
pub fn resize(fd: i32, len: u64) -> Result<()> {
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

fn map(len: usize, prot: u32, flags: u32, fd: i32) -> Result<NonNull<u8>> {
    // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing.
    let at = check(unsafe { syscall!(nr::__NR_mmap, 0, len, prot, flags, fd, 0) })?;
    NonNull::new(at as *mut u8).ok_or(Errno::ENOMEM)
}

/// Maps `len` bytes of `fd` shared, readable and writable, left out of core dumps.
pub fn map_shared(fd: i32, len: usize) -> Result<NonNull<u8>> {
    let at = map(len, nr::PROT_READ | nr::PROT_WRITE, nr::MAP_SHARED | nr::MAP_NORESERVE, fd)?;
    // SAFETY: advice on the mapping just made.
    unsafe { syscall!(nr::__NR_madvise, at.as_ptr(), len, MADV_DONTDUMP) };
    Ok(at)
}

/// Maps `len` bytes of `fd` shared and read-only.
pub fn map_shared_ro(fd: i32, len: usize) -> Result<NonNull<u8>> {
    map(len, nr::PROT_READ, nr::MAP_SHARED, fd)
}

/// Maps `len` zeroed private bytes that cost nothing until touched.
pub fn map_private(len: usize) -> Result<NonNull<u8>> {
    map(len, nr::PROT_READ | nr::PROT_WRITE, nr::MAP_PRIVATE | nr::MAP_ANONYMOUS | nr::MAP_NORESERVE, -1)
}

/// Unmaps a mapping made here.
///
/// # Safety
/// Nothing may use the mapping any more.
pub unsafe fn unmap(at: NonNull<u8>, len: usize) {
    // SAFETY: the caller gives the mapping up.
    unsafe { syscall!(nr::__NR_munmap, at.as_ptr(), len) };
}
