//! Files of results: whole or not at all. What a file held before is there until its new text is on the disk.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// A file name that means standard output.
pub const STDOUT: &str = "-";
/// What a new file may be opened for, before the umask: as `File::create` has it.
const MODE: u32 = 0o666;

/// Writes `text` beside `path` and renames; to standard output, devices and pipes it writes straight.
///
/// # Errors
///
/// Whatever the system says; `path` is as it was.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    if path == Path::new(STDOUT) {
        let mut stdout = io::stdout().lock();
        return stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    }
    // A link stays, and what it leads to is replaced.
    let place = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let old = fs::metadata(&place).ok();
    if old.as_ref().is_some_and(|old| !old.is_file()) {
        return File::create(place)?.write_all(text.as_bytes());
    }
    let mut beside = beside(&place, old.map_or(Permissions::from_mode(MODE), |old| old.permissions()))?;
    beside.as_file_mut().write_all(text.as_bytes())?;
    beside.as_file().sync_all()?;
    beside.persist(place).map(drop).map_err(|error| error.error)
}

/// Whether [`write()`] could begin; leaves everything as it was.
///
/// # Errors
///
/// Why not.
pub fn check(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        _ if path == Path::new(STDOUT) => Ok(()),
        Ok(old) if old.is_file() => {
            OpenOptions::new().append(true).open(path)?;
            beside(path, old.permissions()).map(drop)
        }
        // To open a pipe would wait for its reader, and to close it would send him away.
        Ok(other) if other.file_type().is_fifo() => Ok(()),
        Ok(_) => OpenOptions::new().append(true).open(path).map(drop),
        Err(_) => beside(path, Permissions::from_mode(MODE)).map(drop),
    }
}

fn beside(path: &Path, permissions: Permissions) -> io::Result<NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.map_or(PathBuf::from("."), Path::to_path_buf);
    let made = tempfile::Builder::new().prefix(".smc_bench-").permissions(permissions).tempfile_in(folder);
    // Nobody asked for the name that stands there.
    let plain = |text: String| text.split(" at path ").next().unwrap_or_default().to_owned();
    made.map_err(|error| io::Error::new(error.kind(), plain(error.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("it is there").flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_keeps_its_mode() {
        let folder = tempfile::tempdir().expect("a folder for tests");
        let (file, link) = (folder.path().join("x"), folder.path().join("link"));
        fs::write(&file, "old").expect("written");
        fs::set_permissions(&file, Permissions::from_mode(0o640)).expect("it is ours");
        std::os::unix::fs::symlink(&file, &link).expect("linked");
        write(&link, "new").expect("written");
        assert_eq!(fs::read_to_string(&file).expect("read"), "new");
        assert_eq!(fs::metadata(&file).expect("there").permissions().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink() && names(folder.path()).len() == 2);
    }

    #[test]
    fn what_cannot_be_written_leaves_what_was_there() {
        let folder = tempfile::tempdir().expect("a folder for tests");
        let absent = folder.path().join("absent/x");
        assert!(write(&absent, "new").is_err() && check(&absent).is_err());
        assert!(check(&folder.path().join("new")).is_ok());
        assert_eq!(names(folder.path()), [""; 0], "a look leaves nothing");
        let old = folder.path().join("old");
        fs::write(&old, "old").expect("written");
        assert!(check(&old).is_ok() && fs::read_to_string(&old).is_ok_and(|text| text == "old"));
        let full = write(Path::new("/dev/full"), "new").expect_err("it is full");
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    }
}
