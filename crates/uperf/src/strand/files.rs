//! What sendfile sends: the files of a folder, one picked at random each time.

use std::fs::{self, File};
use std::io;
use std::path::Path;

/// Regular files of a folder and all below it, open.
pub(crate) struct Files {
    pub(super) dir: String,
    pub(super) files: Vec<(File, u64)>,
}

impl Files {
    /// Opens what can be opened. An error if that is nothing.
    pub(crate) fn open(dir: &str) -> io::Result<Self> {
        let mut files = vec![];
        collect(Path::new(dir), &mut files)?;
        if files.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("no file in {dir}")));
        }
        Ok(Self { dir: dir.into(), files })
    }
}

fn collect(dir: &Path, files: &mut Vec<(File, u64)>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            collect(&entry.path(), files)?;
        } else if kind.is_file() {
            let size = entry.metadata()?.len();
            files.extend(File::open(entry.path()).ok().filter(|_| size > 0).map(|file| (file, size)));
        }
    }
    Ok(())
}
