//! Master and slave as people run them: every built-in profile, every way to serve, exact counts, and what happens when
//! one end is missing, foreign, hostile, killed or interrupted. With a real uperf at hand, each end against that.

#[path = "uperf/ends.rs"]
mod ends;
#[path = "uperf/interop.rs"]
mod interop;
#[path = "uperf/trouble.rs"]
mod trouble;

use ends::{Profile, Slave, master, number};

/// What master and slave say of a run of `profile` that ended well.
fn both_ends(profile: &str, server: &str) -> (serde_json::Value, serde_json::Value) {
    let (profile, slave) = (Profile::new(profile), Slave::start(&["--server", server]));
    let run = master(&slave, profile.path(), &["-t"]);
    assert_eq!(run.status, Some(0), "{server}: {}", run.errors);
    (run.json(), slave.finish())
}

/// Names of the profiles that come with the program.
fn built_in() -> Vec<String> {
    let output = ends::program().args(["profile", "list"]).output().expect("the program starts");
    let list = String::from_utf8(output.stdout).expect("text");
    let lines = list.lines().take_while(|line| !line.is_empty());
    lines.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// Short, with a warm-up, so that transactions follow each other on the same connections.
const SHORT: [&str; 6] = ["--var", "duration=100ms", "--var", "warmup=50ms", "--var", "nprocs=2"];

#[test]
fn every_built_in_profile_runs_with_every_server() {
    let all = built_in();
    assert!(all.len() > 9, "{all:?}");
    for server in ["threads", "processes", "epoll"] {
        for profile in &all {
            let slave = Slave::start(&["--server", server]);
            let run = master(&slave, profile, &[&SHORT[..], &["--var", "?count=4"]].concat());
            assert_eq!(run.status, Some(0), "{profile} {server}: {}", run.errors);
            let (ours, theirs) = (run.json(), slave.finish());
            assert!(number(&ours, "/operations") > 0, "{profile} {server}: {ours}");
            assert!(number(&ours, "/transactions") > 0, "{profile} {server}");
            assert_eq!(number(&ours, "/errors"), 0, "{profile} {server}");
            assert!(number(&ours, "/elapsed_ns") > 0, "{profile} {server}");
            for end in ["client", "server"] {
                assert!(number(&ours, &format!("/{end}/cpu_ns")) > 0, "{profile} {server} {end}: {ours}");
            }
            assert_eq!(ours["server"], theirs["server"], "{profile} {server}");
            let counted = ours["latency"]["counts_ns"].as_array().expect("a histogram");
            let counted: u64 = counted.iter().map(|entry| entry[1].as_u64().expect("a count")).sum();
            assert_eq!(counted, number(&ours, "/transactions"), "{profile} {server}");
        }
    }
}

/// Iterations only, so that every number is known: 3 strands, 20 passes of 3 x 200 bytes there and 2 x 700 back.
const EXACT: &str = r#"<profile name="exact">
  <group $kind="3">
    <transaction iterations="1">
      <flowop type="connect" options="remotehost=127.0.0.1 protocol=$proto tcp_nodelay $port"/>
    </transaction>
    <transaction name="measured" iterations="20">
      <flowop type="write" options="count=3 size=200 rsize=300"/>
      <flowop type="recv" options="count=2 size=700"/>
    </transaction>
    <transaction iterations="2">
      <flowop type="send" options="size=rand(5,5)"/>
      <flowop type="nop"/>
    </transaction>
    <transaction iterations="1">
      <flowop type="disconnect"/>
    </transaction>
  </group>
</profile>"#;

#[test]
fn iterations_move_exactly_what_they_say() {
    let port = format!("port={}", ends::free_port());
    for kind in ["nthreads", "nprocs"] {
        for (server, protocol, port) in [
            ("threads", "tcp", ""),
            ("processes", "tcp", ""),
            ("epoll", "unix", ""),
            ("processes", "unix", ""),
            ("threads", "tcp", port.as_str()),
            ("processes", "tcp", port.as_str()),
            ("epoll", "tcp", port.as_str()),
        ] {
            let what = format!("{kind} {server} {protocol} {port}");
            let text = EXACT.replace("$kind", kind).replace("$proto", protocol).replace("$port", port);
            let (ours, theirs) = both_ends(&text, server);
            for (field, expected) in [
                ("bytes_sent", 36_000),
                ("bytes_received", 84_000),
                ("operations", 300),
                ("transactions", 60),
            ] {
                assert_eq!(number(&ours, &format!("/{field}")), expected, "{what} {field}");
            }
            assert_eq!(number(&theirs, "/bytes_received"), 36_000, "{what}");
            assert_eq!(number(&theirs, "/bytes_sent"), 84_000, "{what}");
            assert_eq!(number(&theirs, "/operations"), 240, "reads of 300 bytes: {what}");
            let later = &ours["groups"][0]["transactions"][2]["counts"];
            assert_eq!((number(later, "/sent"), number(later, "/operations")), (30, 12), "{what}");
        }
    }
}

/// What the master prints of a short run, asked with `args`.
fn printed(args: &[&str]) -> String {
    let slave = Slave::start(&[]);
    let run = ends::master_with_tables(&slave, "rr1c-200x1000", &[&SHORT[..], args].concat());
    assert_eq!(run.status, Some(0), "{}", run.errors);
    slave.finish();
    run.output
}

/// Both directions, two groups, two connections at once.
const SWAPPED: &str = r#"<profile name="swapped">
  <group nthreads="2">
    <transaction name="measured" iterations="5">
      <flowop type="accept" options="conn=1 remotehost=127.0.0.1 protocol=tcp tcp_nodelay wndsz=200k"/>
      <flowop type="connect" options="remotehost=127.0.0.1 protocol=tcp tcp_nodelay"/>
      <flowop type="write" options="size=64"/>
      <flowop type="write" options="conn=1 size=264"/>
      <flowop type="read" options="conn=1 size=100 non_blocking"/>
      <flowop type="think" options="duration=1ms"/>
      <flowop type="disconnect" options="conn=1"/>
      <flowop type="disconnect"/>
    </transaction>
  </group>
  <group nprocs="2">
    <transaction iterations="1">
      <flowop type="accept" options="remotehost=127.0.0.1 protocol=tcp"/>
    </transaction>
    <transaction iterations="5">
      <flowop type="write" options="size=64"/>
    </transaction>
    <transaction iterations="1">
      <flowop type="disconnect"/>
    </transaction>
  </group>
</profile>"#;

#[test]
fn masters_accept_and_groups_run_side_by_side() {
    for server in ["threads", "processes"] {
        let (ours, _) = both_ends(SWAPPED, server);
        let counts = |group: usize, transaction: usize| {
            let counts = &ours["groups"][group]["transactions"][transaction]["counts"];
            (number(counts, "/sent"), number(counts, "/received"))
        };
        assert_eq!(counts(0, 0), (3280, 1000), "{server}");
        assert_eq!(counts(1, 1), (640, 0), "{server}");
        assert_eq!(number(&ours, "/strands"), 4, "{server}");
    }
}

#[test]
fn sendfile_sends_whole_files() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("file"), vec![7; 300_000]).expect("a file");
    // Names in profiles are small letters.
    let Some(dir) = folder.path().to_str().filter(|dir| dir.to_lowercase() == *dir) else {
        println!("the folder for temporary files has capitals in its name; a profile cannot name it");
        return;
    };
    let text = format!(
        r#"<profile name="files">
  <group nthreads="1">
    <transaction iterations="1"> <flowop type="connect" options="remotehost=127.0.0.1 protocol=tcp"/> </transaction>
    <transaction name="measured" duration="50ms"> <flowop type="sendfile" options="dir={dir}"/> </transaction>
    <transaction iterations="1"> <flowop type="disconnect"/> </transaction>
  </group>
</profile>"#
    );
    let sent = number(&both_ends(&text, "threads").0, "/bytes_sent");
    assert!(sent > 0 && sent.is_multiple_of(300_000), "{sent}");
}

#[test]
fn tables_have_uperfs_columns() {
    let text = printed(&["-a", "-i", "50ms"]).replace('\r', "\n");
    assert!(text.contains("Starting 2 processes running profile:rr1c-200x1000 ... "), "{text}");
    for start in ["Txn1 ", "Txn2 ", "Txn4 ", "Total ", "Group0 ", "Thr0 ", "Thr1 "] {
        let line = text.lines().rfind(|line| line.starts_with(start) && line.contains("op/s"));
        let line = line.unwrap_or_else(|| panic!("no line of {start}in {text}"));
        let columns = [line.find('/'), line.find("(s) = "), line.rfind("op/s")];
        assert_eq!(columns, [18, 26, 56].map(Some), "{line}");
    }
    for head in ["Group Details", "Strand Details", "Netstat statistics for this run", "Run Statistics"] {
        assert!(text.contains(&format!("\n{head}\n")), "{head}");
    }
    let averages = |name: &str| {
        let line =
            text.lines().rfind(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name} in {text}"));
        line.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    for name in ["Txn3", "connect", "write", "read", "disconnect"] {
        assert_eq!(averages(name).len(), 5, "{name}");
    }
    assert_eq!(averages("127.0.0.1")[3], averages("master")[3], "operations of both ends");
    assert!(averages("Difference(%)").iter().all(|number| number.ends_with('%')));
}

#[test]
fn raw_lines_are_uperfs() {
    let output = printed(&["-R", "-i", "20ms"]);
    let lines: Vec<&str> = output.lines().filter(|line| line.starts_with("timestamp_ms:")).collect();
    assert!(lines.len() >= 5, "{output}");
    for line in lines {
        let words: Vec<_> = line.split(' ').map(|word| word.split_once(':').expect("name:value")).collect();
        let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["timestamp_ms", "name", "nr_bytes", "nr_ops"], "{line}");
        let (_, decimals) = words[0].1.split_once('.').expect("a fraction");
        assert_eq!(decimals.len(), 4, "{line}");
        assert!(words[2..].iter().all(|(_, value)| value.parse::<u64>().is_ok()), "{line}");
    }
}

#[test]
fn history_has_a_line_for_each_flowop() {
    let text = EXACT.replace("$kind", "nprocs").replace("$proto", "tcp").replace("$port", "");
    let (profile, slave) = (Profile::new(&text), Slave::start(&[]));
    let file = tempfile::NamedTempFile::new().expect("a file");
    let path = file.path().to_str().expect("a name");
    let run = master(&slave, profile.path(), &["-X", path, "-f"]);
    assert_eq!(run.status, Some(0), "{}", run.errors);
    slave.finish();
    let text = std::fs::read_to_string(path).expect("it was written");
    // Of each of 3 strands: connect, 20 x (write, recv), 2 x (send, nop), disconnect.
    assert_eq!(text.lines().count(), 3 * 46);
    for line in text.lines() {
        let words: Vec<u64> = line.split_whitespace().map(|word| word.parse().expect("a number")).collect();
        assert!(words.len() == 5 && &line[13..17] == "  0 " && words[3] > words[4], "{line}");
    }
    let flowops = &run.json()["groups"][0]["transactions"][1]["flowops"];
    assert_eq!((number(&flowops[0], "/count"), number(&flowops[1], "/count")), (180, 120));
}
