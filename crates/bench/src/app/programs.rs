//! Finds the programs of others, and says which package of Debian has those that are missing.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// Debian keeps servers of PostgreSQL beside the PATH, one folder per version.
const POSTGRES: &str = "/usr/lib/postgresql";
/// Searched as well, since an ordinary user's PATH often lacks them.
const SYSTEM: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];

/// The file of `name`, or one sentence that names `package`.
pub(super) fn find(name: &str, package: &str) -> anyhow::Result<PathBuf> {
    installed(name)
        .with_context(|| format!("{name} is not here: install the package {package} (Debian's name)"))
}

/// The file of `name`, if it is there.
pub(super) fn installed(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(SYSTEM.map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// The folder with the programs of the newest PostgreSQL.
pub(super) fn postgres() -> anyhow::Result<PathBuf> {
    let versions =
        std::fs::read_dir(POSTGRES).into_iter().flatten().flatten().map(|entry| entry.path().join("bin"));
    let mut folders: Vec<PathBuf> = versions.filter(|folder| folder.join("initdb").is_file()).collect();
    folders.sort();
    let on_path = || installed("initdb").and_then(|file| file.parent().map(Path::to_owned));
    let Some(folder) = folders.pop().or_else(on_path) else {
        bail!("initdb is not here: install the package postgresql (Debian's name)")
    };
    Ok(folder)
}

/// The first version number in what `program` prints about itself.
pub(super) fn version(program: &Path, option: &str) -> String {
    let output = Command::new(program).arg(option).env_remove("LD_PRELOAD").stdin(Stdio::null()).output();
    let text = output.map(|output| [output.stdout, output.stderr].concat()).unwrap_or_default();
    version_in(&String::from_utf8_lossy(&text)).unwrap_or("unknown").to_owned()
}

/// Digits with dots between them.
fn version_in(text: &str) -> Option<&str> {
    let numbers = text.split(|c: char| !c.is_ascii_digit() && c != '.').map(|word| word.trim_matches('.'));
    numbers.into_iter().find(|number| number.contains('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_print() {
        for (text, wanted) in [
            ("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64", "7.0.15"),
            ("nginx version: nginx/1.22.1", "1.22.1"),
            ("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)", "15.18"),
            ("memcached 1.6.18", "1.6.18"),
        ] {
            assert_eq!(version_in(text), Some(wanted));
        }
        assert_eq!(version_in("no number 7."), None);
    }
}
