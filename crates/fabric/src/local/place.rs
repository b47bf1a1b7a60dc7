//! Where the registry of a user lies: found or made, and opened. Owns: the file's name, mode and birth.
//!
//! It is born complete: written under another name with all its blocks allocated (a full /dev/shm is an error
//! here, never a SIGBUS later), then renamed into place unless someone was faster. Names in a folder that
//! everybody may write to are hostile: what has the name is looked at before it is opened, and opening never
//! waits. Whoever takes the name first cannot be made to give it back; then the registry gets a name that
//! nobody foresees, and is found by its owner.

use super::name::{Folder, PATH_LEN, Path, unforeseen_number};
use core::ffi::CStr;
use os::file::{self, About, How};
use os::{Errno, fd, mem};
use shm::registry::{FILE_LEN, MAGIC, Part as _, RegistryMap, VERSION};
use sync::Ordering::{Relaxed, Release};
use wire::reason::Reason;

/// Opens the registry of `uid`. Reasons: NOSMCDDEV (there is none), MEM (no descriptor), CNFERR (ours, and
/// unusable).
pub(crate) fn open(folder: &Folder, uid: u32, how: How) -> Result<i32, Reason> {
    let mut path = [0; PATH_LEN];
    let path = find(folder, uid, &mut path)?;
    let file = file::open(path, how).map_err(why_not)?;
    // In a folder where others may rename things it could be another by now.
    if file::about(file).is_ok_and(|about| about.is_private_file_of(uid)) {
        return Ok(file);
    }
    fd::close(file);
    Err(Reason::CNFERR)
}

fn why_not(errno: Errno) -> Reason {
    match errno {
        Errno::ENOENT => Reason::NOSMCDDEV,
        _ if errno.is_shortage() => Reason::MEM,
        _ => Reason::CNFERR,
    }
}

/// The name of the registry of `uid`, if it has one.
fn find<'a>(folder: &Folder, uid: u32, path: &'a mut Path) -> Result<&'a CStr, Reason> {
    let usual = folder.registry(path, uid, None).ok_or(Reason::CNFERR)?;
    match file::about_name(usual) {
        Err(errno) => Err(why_not(errno)),
        Ok(about) if is_taken(about, uid) => {
            tell_that_it_is_taken(folder);
            unforeseen(folder, uid, path).ok_or(Reason::NOSMCDDEV)
        }
        Ok(about) if about.is_private_file_of(uid) => folder.registry(path, uid, None).ok_or(Reason::CNFERR),
        Ok(_) => Err(Reason::CNFERR),
    }
}

/// Another user has put something of his where the registry belongs. (What root puts there is meant: it can.)
fn is_taken(about: About, uid: u32) -> bool {
    about.uid != uid && about.uid != 0
}

fn tell_that_it_is_taken(folder: &Folder) {
    if folder.is_telling() {
        os::process::tell(
            b"libsmc-preload: the registry's name is taken by another user; a name of its own is used instead\n",
        );
    }
}

/// The first of the registries of `uid` that have unforeseen names. There is more than one only if two
/// processes made one at the very same time: the later one removes its own.
fn unforeseen<'a>(folder: &Folder, uid: u32, path: &'a mut Path) -> Option<&'a CStr> {
    let mut name = [0; PATH_LEN];
    let mut first = u64::MAX;
    file::names_in(folder.name(&mut name)?, &mut |name| {
        let number = unforeseen_number(name, uid);
        if let Some(number) = number.filter(|number| *number < first)
            && is_ours(folder, uid, number)
        {
            first = number;
        }
    })
    .ok()?;
    if first == u64::MAX { None } else { folder.unforeseen_registry(path, uid, first) }
}

fn is_ours(folder: &Folder, uid: u32, number: u64) -> bool {
    let mut path = [0; PATH_LEN];
    let about = folder.unforeseen_registry(&mut path, uid, number).map(file::about_name);
    about.is_some_and(|about| about.is_ok_and(|about| about.is_private_file_of(uid)))
}

/// Makes the registry of `uid`, unless somebody is faster, whose registry serves as well.
pub(crate) fn make(folder: &Folder, uid: u32) -> Result<(), Reason> {
    let mut usual = [0; PATH_LEN];
    let usual = folder.registry(&mut usual, uid, None).ok_or(Reason::CNFERR)?;
    let mut other = [0; PATH_LEN];
    if let Some(other) = unforeseen(folder, uid, &mut other) {
        // Left from when the usual name was taken: whoever looks only there shall find it.
        let _ = file::rename_noreplace(other, usual);
        return Ok(());
    }
    let mut draft = [0; PATH_LEN];
    let (draft, file) = draft_of(folder, uid, &mut draft)?;
    // (Under another file system user than the effective one it would be somebody else's.)
    let is_ours = file::about(file).is_ok_and(|about| about.is_private_file_of(uid));
    let filled = if is_ours { fill(file) } else { Err(Reason::CNFERR) };
    fd::close(file);
    if filled.is_ok() && file::rename_noreplace(draft, usual).is_err() {
        let is_taken = file::about_name(usual).is_ok_and(|about| is_taken(about, uid));
        if is_taken {
            publish_unforeseen(folder, uid, draft);
        }
    }
    file::unlink(draft);
    filled
}

/// A new file of a name that no other process of this user uses. Another user may have guessed the first one.
fn draft_of<'a>(folder: &Folder, uid: u32, path: &'a mut Path) -> Result<(&'a CStr, i32), Reason> {
    for attempt in 0..3 {
        let number = if attempt == 0 { os::process::tid() } else { os::process::random_u64() as u32 };
        let draft = folder.registry(path, uid, Some(number)).ok_or(Reason::CNFERR)?;
        if attempt == 0 {
            // A draft of the same name was left by a killed process: thread ids of the living are unique.
            file::unlink(draft);
        }
        let made = file::open(draft, How::CREATE_NEW);
        match made.and_then(fd::raise) {
            Ok(file) => {
                return folder
                    .registry(path, uid, Some(number))
                    .map(|draft| (draft, file))
                    .ok_or(Reason::CNFERR);
            }
            Err(Errno::EEXIST) => {}
            Err(errno) => {
                if made.is_ok() {
                    // (There is no number for it out of the program's way.)
                    file::unlink(draft);
                }
                return Err(if errno.is_shortage() { Reason::MEM } else { Reason::NOSMCDDEV });
            }
        }
    }
    Err(Reason::NOSMCDDEV)
}

fn publish_unforeseen(folder: &Folder, uid: u32, draft: &CStr) {
    let (mut mine, mut first) = ([0; PATH_LEN], [0; PATH_LEN]);
    let number = os::process::random_u64();
    let Some(mine) = folder.unforeseen_registry(&mut mine, uid, number) else {
        return;
    };
    if file::rename_noreplace(draft, mine).is_ok() && unforeseen(folder, uid, &mut first) != Some(mine) {
        file::unlink(mine);
    }
}

/// After an update: takes the registry of another version away. The caller has made sure that nobody uses it.
pub(crate) fn remove(folder: &Folder, uid: u32) {
    let mut path = [0; PATH_LEN];
    if let Ok(path) = find(folder, uid, &mut path) {
        file::unlink(path);
    }
}

fn fill(file: i32) -> Result<(), Reason> {
    let len = FILE_LEN as u64;
    mem::resize(file, len).and_then(|()| mem::allocate(file, len)).map_err(|_| Reason::MEM)?;
    let filled = mem::look(file, RegistryMap::LEN, |words| {
        let Some(map) = RegistryMap::over(words) else { return };
        map.version.store(VERSION, Relaxed);
        map.next_link_group.store(256, Relaxed);
        for half in &map.gid {
            half.store(os::process::random_u64(), Relaxed);
        }
        map.magic.store(MAGIC, Release);
    });
    filled.map_err(|_| Reason::MEM)
}
