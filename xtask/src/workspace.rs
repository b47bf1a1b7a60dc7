//! Where things are: the answer of `cargo metadata`, asked once.

use std::path::{Path, PathBuf};

use anyhow::Context;
use cargo_metadata::{Metadata, MetadataCommand};
use ignore::WalkBuilder;

/// The crate that becomes libsmc-preload.so. It has no unwinder, so it is built with the `dist` profile only.
pub(crate) const PRELOAD: &str = "preload";

/// The checkout and its target directory.
pub(crate) struct Workspace {
    /// What cargo knows, without the resolved graph of third-party crates.
    pub(crate) metadata: Metadata,
}

impl Workspace {
    /// Asks cargo, from the directory of this crate, so that the task works from anywhere.
    pub(crate) fn load() -> anyhow::Result<Self> {
        let metadata = MetadataCommand::new()
            .manifest_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"))
            .no_deps()
            .exec()
            .context("cargo metadata failed; is a Cargo.toml malformed?")?;
        Ok(Self { metadata })
    }

    /// The top of the checkout.
    pub(crate) fn root(&self) -> PathBuf {
        self.metadata.workspace_root.clone().into()
    }

    /// `target`, or what CARGO_TARGET_DIR says.
    pub(crate) fn target(&self) -> PathBuf {
        self.metadata.target_directory.clone().into()
    }

    /// Where `dist` lays out bin, lib and share. Not `target/dist`: that is where cargo works on the profile
    /// `dist`.
    pub(crate) fn dist(&self) -> PathBuf {
        self.target().join("isthmus")
    }
}

/// Everything in a checkout that git would track, in a clone as well as in an unpacked archive.
pub(crate) fn walk_sources(root: &Path) -> WalkBuilder {
    let mut walk = WalkBuilder::new(root);
    walk.hidden(false).require_git(false).filter_entry(|entry| entry.file_name() != ".git");
    walk
}
