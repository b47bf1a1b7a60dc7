//! memcached with the loader of this program ([`super::loader`]; Debian has no package of another one): ten reads for each
//! write, values of 100 bytes, the text protocol.

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::application::{About, Application, Load, Program};
use super::comparison::Counted;
use super::programs::{find, version};

/// Where the programs are.
pub(super) struct Memcached {
    server: PathBuf,
    own: PathBuf,
}

impl Memcached {
    pub(super) fn find() -> anyhow::Result<Self> {
        let own = std::env::current_exe().context("where is this program?")?;
        Ok(Self { server: find("memcached", "memcached")?, own })
    }
}

impl Application for Memcached {
    fn about(&self) -> About {
        About { version: version(&self.server, "--version"), connections: 50, tests: &["10 GET : 1 SET"] }
    }

    fn server(&self, _: &Path, port: u16) -> anyhow::Result<Program> {
        // It refuses to run as root without being told so.
        let user = if rustix::process::geteuid().is_root() { "-u root" } else { "" };
        Ok(Program::new(&self.server, &format!("-l 127.0.0.1 -p {port} -U 0 -t 2 -c 4096 {user}")))
    }

    fn load(&self, _: &str, port: u16, load: &Load) -> Program {
        let Load { connections, seconds, .. } = load;
        let line = format!("inner memcached-load --port {port} --conns {connections} --seconds {seconds}");
        Program::new(&self.own, &line)
    }

    fn counted(&self, printed: &str, _: &Load) -> anyhow::Result<Counted> {
        serde_json::from_str(printed).context("the loader printed no result")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::comparison::Latency;

    #[test]
    fn the_own_loaders_result_is_read_back() {
        let own = Memcached { server: "m".into(), own: "b".into() };
        let counted = Counted { requests: 3, rate: 1.5, latency: Latency::default() };
        let printed = serde_json::to_string(&counted).expect("serialises");
        let load = Load { connections: 1, seconds: 2, rate: None };
        assert_eq!(own.counted(&printed, &load).expect("JSON"), counted);
    }
}
