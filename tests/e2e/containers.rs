//! What tests of containers share: the blocks of `docs/containers.md`, roots of images, and the cgroups that
//! are left. Owns: what was mounted or made goes with the values.

use crate::far::{Field, does, must};
use crate::support::{LIMIT, programs, script};
use isthmus_tests::within;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

const GUIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/containers.md");

/// The guide's blocks of a language, one after the other.
pub(crate) fn blocks(language: &str) -> String {
    let text = std::fs::read_to_string(GUIDE).expect("the guide");
    let blocks = text.split("```").skip(1).step_by(2);
    blocks.filter_map(|block| block.strip_prefix(&format!("{language}\n"))).collect()
}

/// The root of an image, read-only, with places for what is mounted.
pub(crate) struct Image {
    pub(crate) root: PathBuf,
    pub(crate) has_python: bool,
}

impl Image {
    /// A Python, out of this host's /usr.
    pub(crate) fn with_glibc(at: PathBuf) -> Image {
        Self::make(&at, &["usr", "tmp", "etc", "var/tmp"]);
        for name in ["bin", "lib", "lib64"].iter().filter(|name| Path::new("/").join(name).is_symlink()) {
            symlink(Path::new("usr").join(name), at.join(name)).expect("a link");
        }
        std::fs::copy(script("ends.py"), at.join("ends.py")).expect("copied");
        must(&format!("mount --bind /usr {0}/usr && mount -o remount,bind,ro {0}/usr", at.display()));
        Image { root: at, has_python: true }
    }

    /// One program, and musl; nothing else.
    pub(crate) fn with_musl(at: PathBuf) -> Option<Image> {
        let [compiler] = programs(["musl-gcc"])?;
        let loader = Path::new("/lib/ld-musl-x86_64.so.1");
        if !loader.exists() {
            println!("skipped: musl's loader is not at {}", loader.display());
            return None;
        }
        Self::make(&at, &["lib"]);
        must(&format!("{} -O2 -o {}/ends {}", compiler.display(), at.display(), script("ends.c").display()));
        std::fs::copy(loader, at.join("lib/ld-musl-x86_64.so.1")).expect("copied");
        Some(Image { root: at, has_python: false })
    }

    fn make(at: &Path, more: &[&str]) {
        for name in ["proc", "dev", "sys", "run/isthmus", "opt/isthmus"].iter().chain(more) {
            std::fs::create_dir_all(at.join(name)).expect("a folder");
        }
        // (Who is not root in there makes no places for mounts.)
        std::fs::write(at.join("opt/isthmus/libsmc-preload.so"), "").expect("a file");
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        if self.has_python {
            does(&format!("umount {}/usr", self.root.display()));
        }
    }
}

/// Where the containers' cgroups are, as engines count.
pub(crate) fn cgroup(field: &Field) -> String {
    let own = field.cgroup.strip_prefix(field.cgroup.parent().expect("a root")).expect("below it");
    Path::new("/").join(own).display().to_string()
}

/// What engines leave below the field's cgroup, processes and cgroups; it goes with the value.
pub(crate) struct Groups(pub(crate) String);

impl Drop for Groups {
    fn drop(&mut self) {
        let own = &self.0;
        let below = format!("for group in /sys/fs/cgroup{own} /sys/fs/cgroup/*{own}; do [ ! -d $group ] ||");
        // (Of a user's podman one process stays, to be asked by the next.)
        does(&format!(
            "for group in /sys/fs/cgroup{own} /sys/fs/cgroup/*{own}; do echo 1 > $group/cgroup.kill; done"
        ));
        // (The kernel takes a moment to see that the last process has gone.)
        within(LIMIT, || {
            does(&format!("{below} find $group -mindepth 1 -depth -type d -exec rmdir {{}} +; done"));
            does(&format!("{below} [ -z \"$(find $group -mindepth 1 -type d)\" ] || exit 1; done"))
        });
        // (Of version 1, where that is mounted; the field's own is the field's.)
        does(&format!("{below} [ -e $group/cgroup.controllers ] || rmdir $group; done"));
    }
}
