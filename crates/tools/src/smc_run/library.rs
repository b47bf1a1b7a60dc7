//! Where libsmc-preload.so lies and how LD_PRELOAD names it. Owns: the rule that only a path the loader can
//! take is used.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const FILE: &str = "libsmc-preload.so";
/// Beside `bin`, in the order tried.
const FOLDERS: [&str; 2] = ["lib", "lib64"];

/// The library as an absolute path, or a sentence that says why there is none.
pub(super) fn find() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("SMC_PRELOAD_LIB").filter(|path| !path.is_empty()) {
        return usable(Path::new(&path)).map_err(|why| format!("SMC_PRELOAD_LIB: {why}"));
    }
    let program = std::env::current_exe().and_then(|path| path.canonicalize());
    let program = program.map_err(|error| format!("cannot tell where smc_run is installed: {error}"))?;
    beside(&program)
}

fn beside(program: &Path) -> Result<PathBuf, String> {
    let prefix = program.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    let candidates = FOLDERS.map(|folder| prefix.join(folder).join(FILE));
    let found = candidates.iter().find(|path| path.exists()).unwrap_or(&candidates[0]);
    usable(found)
}

fn usable(path: &Path) -> Result<PathBuf, String> {
    let cannot = |error: std::io::Error| format!("cannot use {}: {error}", path.display());
    let path = path.canonicalize().map_err(cannot)?;
    std::fs::File::open(&path).map_err(cannot)?;
    if !path.is_file() {
        return Err(format!("cannot use {}: not a file", path.display()));
    }
    // ld.so(8): the list is separated by blanks or colons, and '$' starts a token; none of them can be
    // escaped.
    if path.as_os_str().as_bytes().iter().any(|byte| matches!(byte, b' ' | b':' | b'$' | b'\t' | b'\n')) {
        return Err(format!(
            "cannot use {}: LD_PRELOAD takes no blank, ':' or '$' in a path",
            path.display()
        ));
    }
    Ok(path)
}

/// `list` with the library at its end, once.
pub(super) fn appended(list: Option<OsString>, library: &Path) -> Result<OsString, String> {
    let mut list = list.unwrap_or_default();
    let is_there = list
        .as_bytes()
        .split(|byte| matches!(byte, b' ' | b':'))
        .any(|one| one == library.as_os_str().as_bytes());
    if !is_there {
        if !list.is_empty() {
            list.push(":");
        }
        list.push(library);
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::{appended, beside};
    use std::fs;
    use std::path::{Path, PathBuf};

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("smc-run-{name}-{}", std::process::id()));
            fs::create_dir_all(path.join("lib")).expect("a temporary folder");
            Scratch(path.canonicalize().expect("it is there"))
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_library_lies_beside_the_programs_folder() {
        let scratch = Scratch::new("lib");
        let library = scratch.0.join("lib/libsmc-preload.so");
        let program = scratch.0.join("bin/smc");
        let missing = beside(&program).expect_err("nothing there yet");
        assert!(missing.contains("lib/libsmc-preload.so: No such file"), "{missing}");
        fs::write(&library, "x").expect("writable");
        assert_eq!(beside(&program), Ok(library));
    }

    #[test]
    fn a_path_the_loader_would_split_is_refused() {
        let scratch = Scratch::new("a b");
        fs::write(scratch.0.join("lib/libsmc-preload.so"), "x").expect("writable");
        assert!(beside(&scratch.0.join("bin/smc")).expect_err("a blank").contains("no blank"));
    }

    #[test]
    fn the_list_keeps_what_it_has_and_names_us_once() {
        let us = Path::new("/x/libsmc-preload.so");
        let add = |list: Option<&str>| appended(list.map(Into::into), us).expect("a list");
        assert_eq!(add(None), "/x/libsmc-preload.so");
        assert_eq!(add(Some("")), "/x/libsmc-preload.so");
        assert_eq!(add(Some("a.so b.so")), "a.so b.so:/x/libsmc-preload.so");
        assert_eq!(add(Some("/x/libsmc-preload.so:b.so")), "/x/libsmc-preload.so:b.so");
    }
}
