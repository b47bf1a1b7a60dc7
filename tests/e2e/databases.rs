//! redis, memcached and PostgreSQL with their own clients.

use crate::support::{
    LIMIT, assert_shown, output, programs, python, same_in_all_modes, script, serve, watch,
};
use isthmus_tests::postgres::Postgres;
use isthmus_tests::{Bed, Mode, free_port, within};
use std::path::Path;
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

/// redis-server is taken off shared memory, and let on again, while its clients work.
#[test]
fn redis_is_taken_off_shared_memory_while_it_serves() {
    let Some([server_, benchmark]) = programs(["redis-server", "redis-benchmark"]) else { return };
    if !Mode::wanted().contains(&Mode::Smc) {
        return;
    }
    let mut bed = Bed::new("redis-home", Mode::Smc);
    let port = free_port();
    let server = serve(&bed, &mut redis_command(bed.server(&server_), port, bed.scratch.path()), port);
    let mut b = bed.client(&benchmark);
    let pairs = [("-n", "200000"), ("-c", "20"), ("-d", "1000"), ("-t", "set"), ("--threads", "2")];
    b.args(["-p", &port.to_string(), "-q"]).args(pairs.iter().flat_map(|(name, value)| [name, value]));
    let mut client = bed.start(&mut b, "benchmark");
    assert!(within(LIMIT, || bed.connections().matches("SMCD").count() >= 40), "{}", bed.connections());
    bed.mark();
    let mut tool = bed.tool_command("smc_run").expect("this bed has tools");
    let said = tool.args(["-p", &server.pid().to_string(), "--tcp"]).output().expect("smc_run");
    let text = String::from_utf8_lossy(&said.stdout).into_owned() + &String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success() && client.alive(), "{text}");
    assert!(!bed.connections().contains("SMCD"), "{}", bed.connections());
    let outcome = client.finish(LIMIT).must("redis-benchmark");
    assert!(outcome.out.contains("requests per second") && !outcome.err.contains("rror"), "{outcome}");
    // (Of 200 MB most were still to come.)
    assert!(bed.crossed().is_none_or(|bytes| bytes > 20_000_000), "{:?} bytes", bed.crossed());
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

#[test]
fn postgresql_with_psql_and_pgbench() {
    let Some(found) = Postgres::find() else { return };
    same_in_all_modes("postgres", |bed| {
        let pg = found.at(free_port());
        let mut server = serve(bed, &mut pg.server(bed), pg.port);
        assert!(pg.is_ready(bed), "postgres does not take queries: {}", server.output());
        let answers = queries(bed, &pg);
        let load = pgbench(bed, &pg);
        assert!(server.alive(), "postgres ended by itself");
        (answers, load, Postgres::end(server))
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
