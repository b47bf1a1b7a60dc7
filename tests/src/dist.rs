//! Where the product under test lies: what `cargo xtask dist` laid out. Invariant: without it a test fails
//! with one sentence that says what to run; it never passes by testing nothing.

use std::path::{Path, PathBuf};

/// The laid-out product.
#[derive(Clone, Debug)]
pub struct Dist {
    root: PathBuf,
}

impl Dist {
    /// `$ISTHMUS_DIST`, else `$CARGO_TARGET_DIR/isthmus`, else `target/isthmus` of the workspace.
    pub fn find() -> Result<Dist, String> {
        let root = Self::root();
        let dist = Dist { root };
        if dist.library().is_file() && dist.tool("smc_run").is_file() {
            return Ok(dist);
        }
        Err(format!("nothing to test in {}: run cargo xtask dist first", dist.root.display()))
    }

    fn root() -> PathBuf {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests lie in the workspace");
        match (std::env::var_os("ISTHMUS_DIST"), std::env::var_os("CARGO_TARGET_DIR")) {
            (Some(dist), _) => workspace.join(dist),
            (None, Some(target)) => workspace.join(target).join("isthmus"),
            (None, None) => workspace.join("target/isthmus"),
        }
    }

    /// The preload library.
    pub fn library(&self) -> PathBuf {
        self.root.join("lib/libsmc-preload.so")
    }

    /// One of the tools, such as `smc_run` or `smcss`.
    pub fn tool(&self, name: &str) -> PathBuf {
        self.root.join("bin").join(name)
    }
}
