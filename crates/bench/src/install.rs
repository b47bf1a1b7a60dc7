//! Where the rest of an installation is: smc_run, smcss, smcd, ismd and the library, found from where we lie.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::bail;

/// What was found. Whatever is absent is said in one sentence by whoever needs it.
pub(crate) struct Install {
    smc_run: Option<PathBuf>,
    /// The lister of connections.
    pub(crate) smcss: Option<PathBuf>,
    /// Who knows the totals.
    pub(crate) smcd: Option<PathBuf>,
    /// The daemon of the host tier.
    pub(crate) ismd: Option<PathBuf>,
    library: Option<PathBuf>,
}

impl Install {
    /// Looks beside this program, then where `cargo xtask dist` puts things.
    pub(crate) fn find() -> Self {
        Self::find_in(&folders())
    }

    fn find_in(tops: &[PathBuf]) -> Self {
        let first = |relative: &str| tops.iter().map(|top| top.join(relative)).find(|path| path.is_file());
        Self {
            smc_run: first("bin/smc_run"),
            smcss: first("bin/smcss"),
            smcd: first("bin/smcd"),
            ismd: first("bin/ismd"),
            library: first("lib/libsmc-preload.so"),
        }
    }

    /// What puts a program's TCP sockets on SMC: smc_run before it, or the library in it.
    pub(crate) fn with_smc(&self) -> anyhow::Result<(Option<&Path>, Option<&Path>)> {
        let both = (self.smc_run.as_deref(), self.library.as_deref().filter(|_| self.smc_run.is_none()));
        if both == (None, None) {
            bail!("neither smc_run nor libsmc-preload.so is here: `cargo xtask dist` makes both")
        }
        Ok(both)
    }
}

/// Tops of installations: ours is `TOP/bin/smc_bench`, or `target/debug/smc_bench` with `target/isthmus`.
fn folders() -> Vec<PathBuf> {
    let given: Option<OsString> = std::env::var_os("ISTHMUS_DIST");
    let mut folders: Vec<PathBuf> = given.into_iter().map(PathBuf::from).collect();
    if let Some(bin) = std::env::current_exe().ok().as_deref().and_then(Path::parent) {
        folders.extend(bin.parent().map(Path::to_path_buf));
        folders.extend(bin.parent().map(|target| target.join("isthmus")));
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::Install;

    #[test]
    fn an_absent_installation_is_one_sentence() {
        let install = Install::find_in(&[]);
        assert!(install.smcss.is_none() && install.smcd.is_none());
        let error = install.with_smc().expect_err("nothing was found").to_string();
        assert!(error.contains("cargo xtask dist"), "{error}");
    }
}
