//! redis, memcached and PostgreSQL with their own clients.

use crate::support::{
    LIMIT, assert_shown, output, programs, python, same_in_all_modes, script, serve, watch,
};
use isthmus_tests::{Bed, free_port, sys, within};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

fn redis_command(mut c: Command, port: u16, dir: &Path) -> Command {
    c.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir"])
        .arg(dir);
    c
}

#[test]
fn redis_with_its_tools() {
    let Some([server_, cli, benchmark]) = programs(["redis-server", "redis-cli", "redis-benchmark"]) else {
        return;
    };
    same_in_all_modes("redis", |bed| {
        let port = free_port();
        let _server = serve(bed, &mut redis_command(bed.server(&server_), port, bed.scratch.path()), port);
        bed.mark();
        let mut b = bed.client(&benchmark);
        b.args([
            "-p",
            &port.to_string(),
            "-n",
            "4000",
            "-c",
            "20",
            "-d",
            "1000",
            "-t",
            "set,get,lpush,lrange_100",
            "-q",
        ]);
        let (outcome, seen) = watch(bed, &mut b, "benchmark");
        let text = outcome.must("redis-benchmark").out;
        let finished = text.matches("requests per second").count();
        bed.assert_carrier(4000 * 1000, &seen);
        assert_shown(bed, &seen);
        (finished, redis_commands(bed, &cli, port))
    });
}

/// Answers of a session through redis-cli, large values included.
fn redis_commands(bed: &Bed, cli: &Path, port: u16) -> Vec<String> {
    let scripts = [
        "for i=1,2000 do redis.call('RPUSH','list',string.rep('x',i%100)..i) end return 'ok'",
        "return #redis.call('LRANGE','list',0,-1)",
        "return redis.sha1hex(table.concat(redis.call('LRANGE','list',0,-1)))",
    ];
    let mut commands: Vec<Vec<&str>> = scripts.iter().map(|s| vec!["EVAL", s, "0"]).collect();
    commands.push(vec!["LRANGE", "list", "0", "-1"]);
    commands.push(vec!["SETRANGE", "big", "3000000", "end"]);
    commands.push(vec!["GET", "big"]);
    commands.push(vec!["-r", "50", "INCR", "counter"]);
    commands.push(vec!["SUBSCRIBE"]);
    let run = |(n, args): (usize, &Vec<&str>)| {
        let mut c = bed.client(cli);
        output(bed, c.args(["-p", &port.to_string()]).args(args), &format!("cli{n}"))
    };
    commands.iter().enumerate().map(run).collect()
}

/// Many commands ahead of their answers, as bulk loading does.
#[test]
fn redis_pipelined() {
    let Some([server_, benchmark]) = programs(["redis-server", "redis-benchmark"]) else { return };
    same_in_all_modes("redis-pipe", |bed| {
        let port = free_port();
        let _server = serve(bed, &mut redis_command(bed.server(&server_), port, bed.scratch.path()), port);
        bed.mark();
        let mut b = bed.client(&benchmark);
        b.args([
            "-p",
            &port.to_string(),
            "-n",
            "20000",
            "-c",
            "8",
            "-P",
            "64",
            "-d",
            "200",
            "-t",
            "set,get",
            "-q",
            "--threads",
            "2",
        ]);
        let (outcome, seen) = watch(bed, &mut b, "benchmark");
        let finished = outcome.must("redis-benchmark").out.matches("requests per second").count();
        bed.assert_carrier(20000 * 200 * 2, &seen);
        finished
    });
}

#[test]
fn memcached_text_protocol() {
    let (Some([memcached]), Some(python)) = (programs(["memcached"]), python()) else { return };
    same_in_all_modes("memcached", |bed| {
        let port = free_port();
        let mut s = bed.server(&memcached);
        s.args(["-p", &port.to_string(), "-l", "127.0.0.1", "-U", "0", "-t", "2", "-u", "root"]);
        let _server = serve(bed, &mut s, port);
        bed.mark();
        let mut c = bed.client(&python);
        let text = output(bed, c.arg(script("memcache.py")).arg(port.to_string()), "client");
        bed.assert_carrier(2 * 40 * 39 / 2 * 700, "");
        text
    });
}

/// The newest PostgreSQL's programs, or None after saying that it is missing.
fn postgres_bin() -> Option<PathBuf> {
    let mut versions: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path().join("bin"))
        .collect();
    versions.sort();
    let found = versions.into_iter().rev().find(|p| p.join("initdb").is_file());
    found.or_else(|| programs(["initdb"]).map(|[p]| p.parent().expect("a directory").to_path_buf()))
}

/// Runs as the user postgres when root, because the server refuses root.
struct Postgres {
    bin: PathBuf,
    user: Option<(u32, u32)>,
    port: u16,
}

impl Postgres {
    fn find() -> Option<Postgres> {
        let bin = postgres_bin()?;
        let user = if sys::euid() == 0 { Some(postgres_user()?) } else { None };
        Some(Postgres { bin, user, port: 0 })
    }

    fn at(&self, port: u16) -> Postgres {
        Postgres { bin: self.bin.clone(), user: self.user, port }
    }

    fn as_user<'a>(&self, c: &'a mut Command) -> &'a mut Command {
        match self.user {
            Some((uid, gid)) => c.uid(uid).gid(gid),
            None => c,
        }
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
    fn is_ready(&self, bed: &Bed) -> bool {
        within(LIMIT, || {
            let mut c = bed.plain(self.bin.join("pg_isready"));
            c.args(["-h", "127.0.0.1", "-p", &self.port.to_string()]);
            bed.run(self.as_user(&mut c), "ready", LIMIT).ok()
        })
    }

    fn client(&self, bed: &Bed, program: &str) -> Command {
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

#[test]
fn postgresql_with_psql_and_pgbench() {
    let Some(found) = Postgres::find() else {
        println!("skipped: postgresql not installed");
        assert!(
            std::env::var_os("CI_REQUIRE_PROGRAMS").is_none(),
            "postgresql is required and not installed"
        );
        return;
    };
    same_in_all_modes("postgres", |bed| {
        let pg = found.at(free_port());
        let (data, port) = (pg.init(bed), pg.port);
        let mut s = bed.server(pg.bin.join("postgres"));
        s.arg("-D").arg(data).args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1"]);
        s.args([
            "-c",
            "unix_socket_directories=",
            "-c",
            "fsync=off",
            "-c",
            "dynamic_shared_memory_type=mmap",
        ]);
        let mut server = serve(bed, pg.as_user(&mut s), port);
        assert!(pg.is_ready(bed), "postgres does not take queries: {}", server.output());
        let answers = queries(bed, &pg);
        let load = pgbench(bed, &pg);
        assert!(server.alive(), "postgres ended by itself");
        server.signal(libc::SIGINT);
        (answers, load, server.finish(LIMIT).ok())
    });
}

fn queries(bed: &mut Bed, pg: &Postgres) -> Vec<String> {
    bed.mark();
    let file = bed.scratch.file("rows.csv", (0..20000).map(|i| format!("{i},row {i}\n")).collect::<String>());
    let copy = format!("\\copy t from '{}' csv", file.display());
    let sql = [
        "create table t(i int, name text)",
        &copy,
        "select count(*), sum(i), md5(string_agg(name, ',' order by i)) from t",
        "select i, name from t order by i",
        "select repeat('x', 3000000)",
        "select 1/0",
        "select pg_sleep(0.05), 'slept'",
    ];
    let answer = |(n, q): (usize, &&str)| {
        let mut c = pg.client(bed, "psql");
        let outcome = bed.run(c.args(["-XAtc", q]), &format!("psql{n}"), LIMIT);
        assert!(outcome.status.is_some(), "psql hung: {outcome}");
        format!("{:?} {} {}", outcome.status, outcome.out, outcome.err)
    };
    let answers = sql.iter().enumerate().map(answer).collect();
    // About 3.0 to 4 MB, by how the kernel cuts the stream.
    bed.assert_carrier(2_500_000, "");
    answers
}

fn pgbench(bed: &mut Bed, pg: &Postgres) -> (bool, bool) {
    let mut c = pg.client(bed, "pgbench");
    output(bed, c.args(["-i", "-q", "-s", "1", "postgres"]), "pgbench-init");
    bed.mark();
    let mut c = pg.client(bed, "pgbench");
    c.args(["-n", "-S", "-c", "4", "-j", "2", "-t", "1000", "postgres"]);
    let (outcome, seen) = watch(bed, &mut c, "pgbench");
    let reads = outcome.must("pgbench -S").out;
    bed.assert_carrier(4 * 1000 * 100, &seen);
    assert_shown(bed, &seen);
    let mut c = pg.client(bed, "pgbench");
    let writes =
        output(bed, c.args(["-n", "-M", "prepared", "-c", "3", "-t", "60", "postgres"]), "pgbench-rw");
    (reads.contains("4000/4000"), writes.contains("180/180"))
}
