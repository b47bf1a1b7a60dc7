//! The registry file: found or made, checked, mapped once per process.
//!
//! Owns: the file's name, mode and birth. It is born complete: written under another name with all its blocks allocated
//! (a full /dev/shm is an error here, never a SIGBUS later), then renamed into place unless someone was faster.

use crate::config;
use crate::process::LOCK_BASE;
use core::sync::atomic::{AtomicI32, Ordering};
use os::file::{How, open};
use os::{Errno, fd, file, mem};
use shm::registry::{MAGIC, RegistryMap, VERSION};
use shm::slab::OnceRef;
use shm::sync::Ordering::{Acquire, Relaxed, Release};
use wire::reason::Reason;

static MAP: OnceRef<RegistryMap> = OnceRef::new();
/// A description of the file that never holds a lock: whoever asks about locks asks through this one.
static ASKING_FD: AtomicI32 = AtomicI32::new(-1);

/// The registry if this process has mapped it already.
#[inline]
pub fn mapped() -> Option<&'static RegistryMap> {
    MAP.get()
}

/// The registry if it exists. Reasons: CNFERR (not ours, wrong mode), VERSMISMAT, NOSMCDDEV (there is none).
pub fn existing() -> Result<&'static RegistryMap, Reason> {
    match MAP.get() {
        Some(map) => Ok(map),
        None => map_existing(),
    }
}

/// The registry, made if need be. Reasons: as [`existing`], MEM if there is no room for it.
pub fn existing_or_new() -> Result<&'static RegistryMap, Reason> {
    match existing() {
        Err(Reason::NOSMCDDEV) => create().and_then(|()| map_existing()),
        Err(Reason::VERSMISMAT) if remove_abandoned() => create().and_then(|()| map_existing()),
        other => other,
    }
}

/// After an update: the registry of another version is taken away if none of its programs runs any more.
fn remove_abandoned() -> bool {
    let mut path = [0; config::PATH_LEN];
    let uid = os::process::euid();
    let Some(path) = config::registry_path(&mut path, uid, None) else { return false };
    let Ok(file) = open(path, How::READ_WRITE) else { return false };
    let is_ours = file::owner_and_mode(file) == Ok((uid, 0o600));
    let is_abandoned = is_ours && is_registry(file) && !file::is_locked_from(file, LOCK_BASE);
    if is_abandoned {
        file::unlink(path);
    }
    fd::close(file);
    is_abandoned
}

/// Whether the file begins as every version's registry does.
fn is_registry(file: i32) -> bool {
    const HEAD: usize = 4096;
    if mem::file_len(file).is_ok_and(|len| len < HEAD as u64) {
        return false;
    }
    let Ok(words) = mem::map_shared(file, HEAD) else { return false };
    let is_one = words.first().is_some_and(|word| word.load(Acquire) == MAGIC);
    let _ = mem::retire(words);
    is_one
}

/// The descriptor to ask about byte locks with; -1 before the registry is mapped.
pub(crate) fn asking_fd() -> i32 {
    ASKING_FD.load(Ordering::Relaxed)
}

/// A fresh description of the registry file, at a high number.
pub(crate) fn reopen() -> Option<i32> {
    let mut path = [0; config::PATH_LEN];
    let path = config::registry_path(&mut path, os::process::euid(), None)?;
    open(path, How::READ_WRITE).and_then(fd::raise).ok()
}

fn map_existing() -> Result<&'static RegistryMap, Reason> {
    let mut path = [0; config::PATH_LEN];
    let uid = os::process::euid();
    let path = config::registry_path(&mut path, uid, None).ok_or(Reason::CNFERR)?;
    let low = open(path, How::READ_WRITE).map_err(|errno| match errno {
        Errno::ENOENT => Reason::NOSMCDDEV,
        _ => Reason::CNFERR,
    })?;
    let file = fd::raise(low).map_err(|_| Reason::MEM)?;
    match check_and_map(file, uid) {
        Ok(map) => {
            let standing = MAP.set(map);
            if ASKING_FD.compare_exchange(-1, file, Ordering::AcqRel, Ordering::Acquire).is_err() {
                fd::close(file);
            }
            Ok(standing)
        }
        Err(reason) => {
            fd::close(file);
            Err(reason)
        }
    }
}

fn check_and_map(file: i32, uid: u32) -> Result<&'static RegistryMap, Reason> {
    let (owner, mode) = file::owner_and_mode(file).map_err(|_| Reason::CNFERR)?;
    if owner != uid || mode & 0o077 != 0 {
        return Err(Reason::CNFERR);
    }
    if mem::file_len(file).map_err(|_| Reason::CNFERR)? < RegistryMap::LEN as u64 {
        return Err(Reason::VERSMISMAT);
    }
    let words = mem::map_shared(file, RegistryMap::LEN.next_multiple_of(8)).map_err(|_| Reason::MEM)?;
    let map = RegistryMap::over(words).ok_or(Reason::MEM)?;
    if map.magic.load(Acquire) != MAGIC || map.version.load(Relaxed) != VERSION {
        let _ = mem::retire(words);
        return Err(Reason::VERSMISMAT);
    }
    Ok(map)
}

fn create() -> Result<(), Reason> {
    let (mut path, mut draft) = ([0; config::PATH_LEN], [0; config::PATH_LEN]);
    let uid = os::process::euid();
    let path = config::registry_path(&mut path, uid, None).ok_or(Reason::CNFERR)?;
    let draft = config::registry_path(&mut draft, uid, Some(os::process::tid())).ok_or(Reason::CNFERR)?;
    // A draft of the same name was left by a killed process: thread ids of the living are unique.
    file::unlink(draft);
    let file = open(draft, How::CREATE_NEW).and_then(fd::raise).map_err(|_| Reason::NOSMCDDEV)?;
    let filled = fill(file);
    fd::close(file);
    if filled.is_ok() {
        // EEXIST: another process was faster, and its registry serves as well.
        let _ = file::rename_noreplace(draft, path);
    }
    file::unlink(draft);
    filled
}

fn fill(file: i32) -> Result<(), Reason> {
    let len = RegistryMap::LEN.next_multiple_of(4096) as u64;
    mem::resize(file, len).and_then(|()| mem::allocate(file, len)).map_err(|_| Reason::MEM)?;
    let words = mem::map_shared(file, RegistryMap::LEN).map_err(|_| Reason::MEM)?;
    if let Some(map) = RegistryMap::over(words) {
        map.version.store(VERSION, Relaxed);
        map.next_link_group.store(256, Relaxed);
        for half in &map.gid {
            half.store(os::process::random_u64(), Relaxed);
        }
        map.magic.store(MAGIC, Release);
    }
    mem::retire(words).map_err(|_| Reason::MEM)
}
