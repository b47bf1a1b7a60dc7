//! PostgreSQL's own programs: where they are, and a cluster of one's own. Invariant: the server never runs as
//! root, which it refuses.

use crate::{Bed, Running, installed, within};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// The newest PostgreSQL's programs.
fn postgres_bin() -> Option<PathBuf> {
    let mut versions: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path().join("bin"))
        .collect();
    versions.sort();
    let found = versions.into_iter().rev().find(|p| p.join("initdb").is_file());
    found.or_else(|| installed(&["initdb"]).and_then(|p| Some(p.parent()?.to_path_buf())))
}

/// A cluster; it runs as the user postgres when root.
#[derive(Debug)]
pub struct Postgres {
    bin: PathBuf,
    user: Option<(u32, u32)>,
    /// Where it listens.
    pub port: u16,
}

impl Postgres {
    /// What is installed; None after saying that it is missing.
    pub fn find() -> Option<Postgres> {
        let found = Postgres::look();
        if found.is_none() {
            println!("skipped: postgresql not installed");
            assert!(
                std::env::var_os("CI_REQUIRE_PROGRAMS").is_none(),
                "postgresql is required and not installed"
            );
        }
        found
    }

    fn look() -> Option<Postgres> {
        let bin = postgres_bin()?;
        let user = if crate::sys::euid() == 0 { Some(postgres_user()?) } else { None };
        Some(Postgres { bin, user, port: 0 })
    }

    /// The same at this port.
    pub fn at(&self, port: u16) -> Postgres {
        Postgres { bin: self.bin.clone(), user: self.user, port }
    }

    /// A command as its user: shared memory is for processes of one user.
    pub fn as_user<'a>(&self, c: &'a mut Command) -> &'a mut Command {
        match self.user {
            Some((uid, gid)) => c.uid(uid).gid(gid),
            None => c,
        }
    }

    /// Makes the cluster's files, and returns what starts its server.
    pub fn server(&self, bed: &Bed) -> Command {
        let data = self.init(bed);
        let mut s = bed.server(self.bin.join("postgres"));
        s.arg("-D").arg(data).args(["-p", &self.port.to_string()]);
        let settings = [
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "fsync=off",
            "dynamic_shared_memory_type=mmap",
        ];
        s.args(settings.iter().flat_map(|setting| ["-c", setting]));
        self.as_user(&mut s);
        s
    }

    /// Ends a server in order, and its connections with it.
    pub fn end(server: Running) -> bool {
        server.signal(libc::SIGINT);
        server.finish(LIMIT).ok()
    }

    fn init(&self, bed: &Bed) -> PathBuf {
        let data = bed.scratch.path().join("data");
        let mut c = bed.plain(self.bin.join("initdb"));
        c.arg("-D").arg(&data).args([
            "-A",
            "trust",
            "-U",
            "postgres",
            "--no-sync",
            "-E",
            "UTF8",
            "--locale=C",
        ]);
        bed.run(self.as_user(&mut c), "initdb", LIMIT).must("initdb");
        data
    }

    /// It listens a moment before it takes queries.
    pub fn is_ready(&self, bed: &Bed) -> bool {
        within(LIMIT, || {
            let mut c = bed.plain(self.bin.join("pg_isready"));
            c.args(["-h", "127.0.0.1", "-p", &self.port.to_string()]);
            bed.run(self.as_user(&mut c), "ready", LIMIT).ok()
        })
    }

    /// One of its own clients.
    pub fn client(&self, bed: &Bed, program: &str) -> Command {
        let mut c = bed.client(self.bin.join(program));
        c.args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", "postgres"]);
        self.as_user(&mut c);
        c
    }
}

fn postgres_user() -> Option<(u32, u32)> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let line = users.lines().find(|l| l.starts_with("postgres:"))?;
    let mut f = line.split(':').skip(2).map(|n| n.parse().ok());
    Some((f.next()??, f.next()??))
}
