//! What tests may leave in /dev/shm: nothing. Processes are the business of [`crate::exec`], files elsewhere
//! that of the temporary folders.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::bail;

/// Beginnings of the names that our library and the servers under test use there.
const NAMES: [&str; 2] = ["isthmus", "PostgreSQL"];
const FOLDER: &str = "/dev/shm";

/// Runs tests, removes what they left, and fails if they did or if there was something.
pub(crate) fn none_after(tests: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let before = files(Path::new(FOLDER));
    let outcome = tests();
    let mut left = files(Path::new(FOLDER));
    left.retain(|file| !before.contains(file));
    for file in &left {
        // Gone already is as good.
        let _ = fs::remove_file(file);
    }
    outcome?;
    if !left.is_empty() {
        bail!(
            "the tests left {left:?}.\n   How to fix it: each program of a test gets a SMC_REGISTRY_DIR of its own \
             (tests/src/bed.rs), and each server is ended so that it can tidy up"
        );
    }
    Ok(())
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries
        .filter(|entry| NAMES.iter().any(|name| entry.file_name().to_string_lossy().starts_with(name)));
    names.map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::files;
    use std::fs;

    #[test]
    fn only_names_of_ours_count() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        for name in ["isthmus.1000", "PostgreSQL.7", "somebody.else"] {
            fs::write(dir.path().join(name), "").expect("written");
        }
        assert_eq!(files(dir.path()).len(), 2);
        assert_eq!(files(&dir.path().join("nowhere")).len(), 0);
    }
}
