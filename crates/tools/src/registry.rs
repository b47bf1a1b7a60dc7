//! The registries on this machine that we may read: our own, and as root everybody's.
//!
//! Owns: the proof that a file is its user's registry. Files are copied, not mapped: another user may cut his
//! file short at any time, and a copy cannot fault.

use fabric::Reason;
use fabric::local::{PATH_LEN, unforeseen_number};
use fabric::observe::{REGISTRY_LEN, Unreadable, View, layouts};
use fabric::visit::{KEEPS_AT, KEPT, KEPT_AT, is_vacant};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag};
use nix::unistd::AccessFlags;
use std::fs::{self, DirEntry, File};
use std::io::{ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

const PREFIX: &str = "isthmus.";

/// A user's registry as it was when it was read.
pub(crate) struct Registry {
    /// Whose it is.
    pub(crate) uid: u32,
    /// Its rows.
    pub(crate) view: View,
    /// Kept open: `view` asks about locks through it.
    _file: File,
}

/// Every registry we may read, by user, and sentences about those that should be readable and are not.
pub(crate) fn all() -> (Vec<Registry>, Vec<String>) {
    all_in(&folder(), os::process::euid())
}

/// Where we look for registries.
pub(crate) fn folder() -> PathBuf {
    directory(std::env::var_os("SMC_REGISTRY_DIR").map(PathBuf::from))
}

/// The registry of a user: under its usual name, or where another user has taken that, under the one that the
/// library chose.
pub(crate) fn file(folder: &Path, uid: u32) -> PathBuf {
    let usual = usual(folder, uid);
    if is_taken(&usual, uid) { unforeseen(folder, uid).unwrap_or(usual) } else { usual }
}

fn usual(folder: &Path, uid: u32) -> PathBuf {
    folder.join(format!("{PREFIX}{uid}"))
}

/// Whether somebody else has put something there. (What root puts there is meant.)
fn is_taken(path: &Path, uid: u32) -> bool {
    path.symlink_metadata().is_ok_and(|about| about.uid() != uid && about.uid() != 0)
}

fn unforeseen(folder: &Path, uid: u32) -> Option<PathBuf> {
    let number = |entry: &DirEntry| unforeseen_number(entry.file_name().as_bytes(), uid);
    let is_ours =
        |entry: &DirEntry| entry.metadata().is_ok_and(|about| about.is_file() && about.uid() == uid);
    let entries = fs::read_dir(folder).ok()?.flatten();
    let candidates = entries.filter_map(|entry| Some((number(&entry)?, entry)));
    let first = candidates.filter(|(_, entry)| is_ours(entry)).min_by_key(|(number, _)| *number)?;
    Some(first.1.path())
}

/// Whose registry has this file name.
pub(crate) fn user_of(name: &str) -> Option<u32> {
    let user = name.strip_prefix(PREFIX)?;
    let unforeseen = user.split_once('-').and_then(|(user, _)| user.parse().ok());
    unforeseen.filter(|uid| unforeseen_number(name.as_bytes(), *uid).is_some()).or_else(|| user.parse().ok())
}

/// Why the library can make no use of the registry of `uid`, or make one, if that can be seen from outside.
/// Reasons as the library gives them: NOSMCDDEV (no folder, or a closed one), MEM (a full one), CNFERR (not
/// the user's own, out of reach, or no registry).
pub(crate) fn fault(folder: &Path, uid: u32) -> Option<Reason> {
    let path = file(folder, uid);
    match fs::symlink_metadata(&path) {
        // (Taken: the library makes one of another name.)
        Ok(_) if is_taken(&path, uid) => why_none_is_made(folder, uid),
        Ok(about) => {
            let is_fit = about.is_file() && about.uid() == uid && about.mode() & 0o077 == 0;
            // (Root's own modes bind nobody.)
            let is_closed = uid != 0 && about.mode() & 0o600 != 0o600;
            let is_unusable = !is_fit || is_closed || is_read_only(&path) || is_something_else(&path, uid);
            is_unusable.then_some(Reason::CNFERR)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => why_none_is_made(folder, uid),
        Err(_) => Some(Reason::CNFERR),
    }
}

fn why_none_is_made(folder: &Path, uid: u32) -> Option<Reason> {
    let is_closed = !folder.is_dir() || !may_write(folder, uid);
    is_closed.then_some(Reason::NOSMCDDEV).or_else(|| is_full(folder).then_some(Reason::MEM))
}

/// Whether there is no room for a registry.
fn is_full(folder: &Path) -> bool {
    let path = std::ffi::CString::new(folder.as_os_str().as_bytes());
    path.is_ok_and(|path| os::file::room(&path).is_ok_and(|room| room < REGISTRY_LEN as u64))
}

/// Whether the registry of `uid` has a layout of another version than ours, or none yet.
pub(crate) fn is_of_another_version(folder: &Path, uid: u32) -> bool {
    let Ok(file) = open_own(&file(folder, uid), uid) else { return false };
    let is_empty = file.metadata().is_ok_and(|about| about.len() == 0);
    is_empty || version_of(&file).is_some_and(|version| version != layouts::VERSION)
}

/// Whether what lies in a registry's place is no registry of any version, and not about to be one.
fn is_something_else(path: &Path, uid: u32) -> bool {
    let is_other =
        |file: File| file.metadata().is_ok_and(|about| about.len() != 0) && version_of(&file).is_none();
    open_own(path, uid).is_ok_and(is_other)
}

/// What another user may follows from the folder's mode, its group being his for all we know.
fn may_write(folder: &Path, uid: u32) -> bool {
    match nix::unistd::eaccess(folder, AccessFlags::W_OK) {
        Err(Errno::EROFS) => false,
        own if uid == os::process::euid() => own.is_ok(),
        _ => folder.metadata().is_ok_and(|about| {
            let his = if about.uid() == uid { 0o200 } else { 0o022 };
            uid == 0 || about.mode() & his != 0
        }),
    }
}

/// Whether the file system takes no writes.
fn is_read_only(path: &Path) -> bool {
    nix::unistd::eaccess(path, AccessFlags::W_OK) == Err(Errno::EROFS)
}

/// Where the library keeps registries, with SMC_REGISTRY_DIR as given.
pub(crate) fn directory(wanted: Option<PathBuf>) -> PathBuf {
    let fits =
        |path: &PathBuf| !path.as_os_str().is_empty() && path.as_os_str().as_bytes().len() + 37 < PATH_LEN;
    wanted.filter(fits).unwrap_or("/dev/shm".into())
}

fn all_in(directory: &Path, me: u32) -> (Vec<Registry>, Vec<String>) {
    let (mut found, mut complaints) = (vec![], vec![]);
    for uid in users(directory) {
        let path = file(directory, uid);
        match open(&path, uid) {
            Ok(registry) => found.push(registry),
            // What belongs to others is theirs to mend, and not ours to read; so is what another user has put
            // in the place of a registry.
            Err(why) if uid == me && !is_taken(&path, uid) => {
                complaints.push(format!("Error: cannot read {}: {why}\n", path.display()))
            }
            Err(_) => {}
        }
    }
    (found, complaints)
}

fn users(directory: &Path) -> Vec<u32> {
    let names = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let mut users: Vec<u32> = names.filter_map(|name| user_of(name.to_str()?)).collect();
    users.sort_unstable();
    users.dedup();
    users
}

/// Whether a process is on the list of those that stay on TCP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kept {
    /// It was not, and is now; or the other way round.
    Changed,
    /// It was as wanted before.
    AsBefore,
}

/// Whether user `uid` has a registry; the first of his listeners makes it.
pub(crate) fn is_there(folder: &Path, uid: u32) -> bool {
    let path = file(folder, uid);
    path.symlink_metadata().is_ok() && !is_taken(&path, uid)
}

/// Puts a living process of user `uid` on the list of those whose new connections stay on TCP, or takes it
/// off. The file is written, not mapped: its user may cut it short at any time.
pub(crate) fn keep_on_tcp(folder: &Path, uid: u32, name: u64, is_wanted: bool) -> Result<Kept, String> {
    let text = |error: std::io::Error| error.to_string();
    let file = open_own_to(&file(folder, uid), uid, true)?;
    // (As `open` does: what is of another version is left alone.)
    open(&self::file(folder, uid), uid)?;
    let file = lock(file)?;
    let mut bytes = [0; KEPT * 8];
    file.read_exact_at(&mut bytes, KEPT_AT as u64).map_err(text)?;
    let mut names: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
    let place = names.iter().position(|there| *there == name);
    let (at, word) = match (place, is_wanted) {
        (Some(_), true) | (None, false) => return Ok(Kept::AsBefore),
        (Some(at), false) => (at, 0),
        (None, true) => {
            let vacant = names.iter().position(|there| is_vacant(*there));
            (vacant.ok_or_else(|| format!("{KEPT} processes are kept on TCP already"))?, name)
        }
    };
    names[at] = word;
    file.write_all_at(&word.to_ne_bytes(), (KEPT_AT + at * 8) as u64).map_err(text)?;
    let keeps = u32::from(names.iter().any(|name| *name != 0));
    file.write_all_at(&keeps.to_ne_bytes(), KEEPS_AT as u64).map_err(text)?;
    Ok(Kept::Changed)
}

/// One tool at a time. (Who holds the lock for longer than that has other aims.)
fn lock(mut file: File) -> Result<Flock<File>, String> {
    const PATIENCE: Duration = Duration::from_millis(10);
    for _ in 0..200 {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(locked) => return Ok(locked),
            Err((_, errno)) if errno != Errno::EWOULDBLOCK => return Err(errno.desc().to_string()),
            Err((unlocked, _)) => file = unlocked,
        }
        std::thread::sleep(PATIENCE);
    }
    Err("somebody keeps it locked".to_string())
}

fn open_own(path: &Path, uid: u32) -> Result<File, String> {
    open_own_to(path, uid, false)
}

/// Opens what has the name if it is a file of `uid`.
fn open_own_to(path: &Path, uid: u32, write: bool) -> Result<File, String> {
    let about = path.symlink_metadata().map_err(|error| error.to_string())?;
    // Not even opened else: it may be made to wait, or to do something.
    refuse_others(&about, uid)?;
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let file = File::options()
        .read(true)
        .write(write)
        .custom_flags(flags.bits())
        .open(path)
        .map_err(|error| error.to_string())?;
    refuse_others(&file.metadata().map_err(|error| error.to_string())?, uid)?;
    Ok(file)
}

fn refuse_others(about: &fs::Metadata, uid: u32) -> Result<(), String> {
    let what = match (about.is_file(), about.uid() == uid) {
        (true, true) => return Ok(()),
        (false, _) => "it is no plain file".to_string(),
        (true, false) => format!("it does not belong to user {uid}"),
    };
    Err(format!("{what} ({}, {})", Reason::CNFERR, Reason::CNFERR.text()))
}

fn open(path: &Path, uid: u32) -> Result<Registry, String> {
    let mut file = open_own(path, uid)?;
    // (One of another version may be of another length.)
    if let Some(version) = version_of(&file).filter(|version| *version != layouts::VERSION) {
        return Err(unknown(version));
    }
    let view = View::over(copy(&mut file)?, file.as_raw_fd()).map_err(|why| match why {
        Unreadable::Foreign => "it is no registry".to_string(),
        Unreadable::Version(version) => unknown(version),
    })?;
    Ok(Registry { uid, view, _file: file })
}

/// The version that its head tells, if it is a registry's.
fn version_of(file: &File) -> Option<u32> {
    let mut head = [0; 12];
    file.read_exact_at(&mut head, 0).ok()?;
    let (magic, version) = head.split_at(8);
    (magic == layouts::MAGIC.to_ne_bytes()).then(|| version.try_into().ok().map(u32::from_ne_bytes))?
}

fn unknown(version: u32) -> String {
    let mismatch = Reason::VERSMISMAT;
    format!(
        "its layout is version {version}, which this program does not know ({mismatch}, {})",
        mismatch.text()
    )
}

fn copy(file: &mut File) -> Result<os::mem::Shared, String> {
    let words = os::mem::map_private(REGISTRY_LEN).map_err(|_| "out of memory".to_string())?;
    let mut bytes = vec![0; 1 << 16];
    for words in words.chunks(bytes.len() / 8) {
        let bytes = &mut bytes[..words.len() * 8];
        file.read_exact(bytes).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => "it is too short".to_string(),
            _ => error.to_string(),
        })?;
        for (word, bytes) in words.iter().zip(bytes.as_chunks::<8>().0) {
            // Pages that stay zero cost nothing.
            if *bytes != [0; 8] {
                word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
            }
        }
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::{all_in, directory, fault};
    use fabric::Reason;
    use fabric::observe::{REGISTRY_LEN, layouts};
    use std::fs::{self, File};
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("isthmus-registry-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).expect("a temporary folder");
            Folder(path)
        }

        /// A file of this user with `head` in front.
        fn put(&self, head: &[u8], len: usize) {
            let path = self.0.join(format!("isthmus.{}", os::process::euid()));
            let mut file = File::create(path).expect("writable");
            file.write_all(head).and_then(|()| file.set_len(len as u64)).expect("writable");
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn head(version: u32) -> Vec<u8> {
        [&layouts::MAGIC.to_ne_bytes()[..], &version.to_ne_bytes()].concat()
    }

    #[test]
    fn the_directory_is_the_librarys() {
        assert_eq!(directory(None), PathBuf::from("/dev/shm"));
        assert_eq!(directory(Some("".into())), PathBuf::from("/dev/shm"));
        assert_eq!(directory(Some("/x".into())), PathBuf::from("/x"));
        assert_eq!(directory(Some("/x".repeat(200).into())), PathBuf::from("/dev/shm"));
    }

    #[test]
    fn a_missing_folder_and_foreign_files_are_no_trouble() {
        let folder = Folder::new("none");
        assert_eq!(all_in(&folder.0.join("nowhere"), 0).0.len(), 0);
        for name in ["isthmus.x", "isthmus.4294967295.7", "other.1"] {
            fs::write(folder.0.join(name), "x").expect("writable");
        }
        let (found, complaints) = all_in(&folder.0, os::process::euid());
        assert_eq!((found.len(), complaints), (0, vec![]));
    }

    #[test]
    fn only_a_registry_of_this_version_is_read() {
        let folder = Folder::new("versions");
        let me = os::process::euid();
        let complaint = || all_in(&folder.0, me).1.concat();
        folder.put(&head(layouts::VERSION), REGISTRY_LEN - 1);
        assert!(complaint().ends_with("it is too short\n"), "{}", complaint());
        folder.put(&head(9), REGISTRY_LEN);
        assert!(complaint().contains("version 9"), "{}", complaint());
        folder.put(b"something else", REGISTRY_LEN);
        assert!(complaint().ends_with("it is no registry\n"), "{}", complaint());
        folder.put(&head(layouts::VERSION), REGISTRY_LEN);
        let (found, complaints) = all_in(&folder.0, me);
        assert_eq!((found.len(), found[0].uid, complaints), (1, me, vec![]));
        assert_eq!(found[0].view.connections().count(), 0);
    }

    #[test]
    fn what_the_library_cannot_use_is_told() {
        let (folder, me) = (Folder::new("faults"), os::process::euid());
        assert_eq!(fault(&folder.0, me), None, "nobody has made one yet");
        assert_eq!(fault(&folder.0.join("nowhere"), me), Some(Reason::NOSMCDDEV));
        let may_all = me == 0;
        fs::set_permissions(&folder.0, PermissionsExt::from_mode(0o555)).expect("our own");
        assert_eq!(fault(&folder.0, me), (!may_all).then_some(Reason::NOSMCDDEV));
        fs::set_permissions(&folder.0, PermissionsExt::from_mode(0o755)).expect("our own");
        folder.put(&head(layouts::VERSION), REGISTRY_LEN);
        let path = super::file(&folder.0, me);
        for (mode, wanted) in [(0o640, Some(Reason::CNFERR)), (0o600, None)] {
            fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("our own");
            assert_eq!(fault(&folder.0, me), wanted, "{mode:o}");
        }
        assert_eq!(fault(&path, me), Some(Reason::CNFERR), "a file where the folder should be");
    }

    #[test]
    fn a_registry_whose_name_is_taken_is_found_by_its_owner() {
        let (folder, me) = (Folder::new("taken"), os::process::euid());
        if me != 0 {
            println!("skipped: giving a file to another user needs root");
            return;
        }
        let uid = 65534;
        assert_eq!(fault(&folder.0, uid), Some(Reason::NOSMCDDEV), "the folder is root's alone");
        fs::set_permissions(&folder.0, PermissionsExt::from_mode(0o1777)).expect("our own");
        let give = |name: &str, owner: u32| {
            let path = folder.0.join(name);
            fs::write(&path, head(layouts::VERSION)).expect("writable");
            std::os::unix::fs::chown(&path, Some(owner), None).expect("root may");
            path
        };
        let usual = give(&format!("isthmus.{uid}"), 1234);
        assert_eq!((super::file(&folder.0, uid), fault(&folder.0, uid)), (usual, None));
        give(&format!("isthmus.{uid}-0000000000000001"), 1234);
        let own = give(&format!("isthmus.{uid}-0000000000000003"), uid);
        give(&format!("isthmus.{uid}-0000000000000004"), uid);
        assert_eq!((super::file(&folder.0, uid), fault(&folder.0, uid)), (own.clone(), Some(Reason::CNFERR)));
        for (mode, wanted) in [(0o600, None), (0o400, Some(Reason::CNFERR))] {
            fs::set_permissions(&own, PermissionsExt::from_mode(mode)).expect("root may");
            assert_eq!(fault(&folder.0, uid), wanted, "{mode:o}");
        }
        assert_eq!(super::users(&folder.0), [uid]);
        assert_eq!(super::user_of("isthmus.7-0000000000000001"), Some(7));
        assert_eq!(super::user_of("isthmus.7-1"), None);
    }

    #[test]
    fn what_another_user_has_put_in_the_place_of_a_registry_is_none() {
        let (folder, me) = (Folder::new("squatted"), os::process::euid());
        if me != 0 {
            return println!("skipped: another user's file takes root");
        }
        let path = folder.0.join("isthmus.0");
        fs::write(&path, "").expect("writable");
        std::os::unix::fs::chown(&path, Some(65534), None).expect("root may");
        let (found, complaints) = all_in(&folder.0, me);
        assert_eq!((found.len(), complaints, super::is_there(&folder.0, me)), (0, vec![], false));
    }

    #[test]
    fn what_claims_to_be_another_users_is_passed_over() {
        let folder = Folder::new("others");
        let me = os::process::euid();
        fs::write(folder.0.join(format!("isthmus.{}", me + 1)), head(layouts::VERSION)).expect("writable");
        std::os::unix::fs::symlink("/dev/zero", folder.0.join(format!("isthmus.{me}"))).expect("a link");
        let (found, complaints) = all_in(&folder.0, me);
        assert_eq!((found.len(), complaints.len()), (0, 1));
        assert!(
            complaints[0].ends_with("it is no plain file (0x03000000, Configuration error)\n"),
            "{complaints:?}"
        );
    }
}
