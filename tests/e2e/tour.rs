//! "Try it" of the README, followed by a script: its commands word for word, in its order, as
//! an ordinary user, and what it says that one then sees. Owns: that a newcomer who copies them finds what is
//! promised.
//!
//! What the script adds is patience between two commands, and a registry that is this test's own.

use crate::support::{LIMIT, programs};
use isthmus_tests::dist::Dist;
use isthmus_tests::{Bed, Mode, Outcome, installed, sys};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Any user who is not root; it needs no entry in the user database.
const ORDINARY: u32 = 65_534;

/// The port of the README's pair.
const PORT: u16 = 8000;

/// Waits between two commands, some seconds at most: `until_so COMMAND...`, whose output is dropped.
const PATIENCE: &str = r#"
until_so() { for _ in $(seq 150); do "$@" > /dev/null 2>&1 && return; sleep 0.1; done; echo "never so: $*"; exit 1; }
shows() { smcss -a | grep -- "$1"; }
listens() { grep ":1F40 00000000:0000 0A" /proc/net/tcp; }
says() { grep -- "$1" said; }
"#;

/// The section, without its heading.
fn section() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md");
    let text = std::fs::read_to_string(path).expect("the README");
    let tour = text.split("## Try it").nth(1).and_then(|rest| rest.split("\n## ").next());
    tour.expect("the tour").to_owned()
}

/// What stands behind `$ ` in its blocks, with the lines that a quote holds together, and what is printed
/// below it.
fn commands(section: &str) -> Vec<(String, Vec<String>)> {
    let blocks = section.split("```").skip(1).step_by(2).filter_map(|block| block.strip_prefix("console\n"));
    let mut all: Vec<(String, Vec<String>)> = vec![];
    for line in blocks.flat_map(str::lines) {
        match (line.strip_prefix("$ "), all.last_mut()) {
            (Some(command), _) => all.push((command.to_owned(), vec![])),
            (None, Some((command, _))) if command.matches('\'').count() % 2 == 1 => {
                *command += &format!("\n{line}")
            }
            (None, Some((_, printed))) => printed.push(line.to_owned()),
            (None, None) => panic!("a block begins with {line}"),
        }
    }
    all
}

/// Commands in the paragraph that begins with `start`: what stands in backticks and begins with one of our
/// tools' names.
fn inline(section: &str, start: &str) -> Vec<String> {
    let paragraph =
        section.split("\n\n").find(|one| one.trim_start().starts_with(start)).expect("the paragraph");
    let codes = paragraph
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|code| ["smcss", "smcd", "man "].iter().any(|name| code.starts_with(name)));
    codes.map(|code| code.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// A bed with a folder in which `cargo xtask dist` has been called, open to every user.
fn bed() -> Option<Bed> {
    programs(["bash", "python3"])?;
    if !Mode::wanted().contains(&Mode::Smc) {
        return None;
    }
    let bed = Bed::new("tour", Mode::Smc);
    if std::net::TcpListener::bind(("127.0.0.1", PORT)).is_err() {
        println!("skipped: somebody has the port {PORT} of the README's pair");
        return None;
    }
    let dist = Dist::find().expect("the bed has it");
    let laid_out = bed.scratch.path().join("target/isthmus");
    std::fs::create_dir_all(&laid_out).expect("a folder");
    let from = dist.library().ancestors().nth(2).expect("lib lies in it").to_owned();
    for part in ["bin", "lib", "share"] {
        let copied = Command::new("cp").arg("-r").arg(from.join(part)).arg(&laid_out).status();
        assert!(copied.is_ok_and(|status| status.success()), "cannot copy {part}");
    }
    Some(bed)
}

/// Runs `script` behind the README's first two commands, of which the first has been called already.
fn follow(bed: &Bed, script: &str) -> Outcome {
    let file = bed.scratch.file("tour.sh", script.as_bytes());
    let mut bash = Command::new("bash");
    bash.arg(&file).current_dir(bed.scratch.path()).env_remove("LD_PRELOAD");
    bash.env("SMC_REGISTRY_DIR", bed.registry());
    if sys::euid() == 0 {
        bash.uid(ORDINARY).gid(ORDINARY);
    }
    bed.run(&mut bash, "tour", LIMIT)
}

/// The words of a table, numbers apart: what may differ from one machine to the next.
fn shape(line: &str) -> Vec<String> {
    let word =
        |word: &str| word.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect::<String>();
    let ports = |word: String| word.split(':').next().unwrap_or_default().to_owned();
    line.split_whitespace().map(word).map(ports).map(|word| word.trim_end_matches('0').to_owned()).collect()
}

#[test]
fn try_it() {
    let Some(bed) = bed() else { return };
    let section = section();
    let all = commands(&section);
    let [
        (build, _),
        (export, _),
        (server, _),
        (client, _),
        (look, table),
        (kill, _),
        (plain, _),
        (why, reasons),
    ] = &all[..]
    else {
        panic!("other commands than this test knows: {all:#?}");
    };
    let known = ["cargo xtask dist", "smcss", "kill %2", "smcss -r"];
    assert_eq!([build, look, kill, why].map(String::as_str), known);
    let debugged = client.replacen("smc_run ", "smc_run -d ", 1);
    let plain_server = server.strip_prefix("smc_run ").expect("under smc_run");
    assert!(section.contains("`smc_run -d` prints each refusal"), "the tour does not say that any more");
    let more: String = inline(&section, "More to look at").iter().map(|command| asked(command)).collect();
    assert!(more.matches("== ").count() >= 6, "{more}");
    let script = format!(
        "{PATIENCE}exec 2> said\n{export}\n{server}\nuntil_so listens\n{client}\nuntil_so shows SMCD\n{look} > table\n{more}\
         {kill}\nwait %2\n{plain}\nuntil_so shows 'TCP 0x03010000'\n{why} > reasons\nkill $(jobs -p)\nwait\n\
         {plain_server}\nuntil_so listens\n{debugged}\nuntil_so says 'connect stays on TCP: Peer does not support SMC'\n\
         kill $(jobs -p)\nwait\necho done\n"
    );
    let outcome = follow(&bed, &script);
    let said = std::fs::read_to_string(bed.scratch.path().join("said")).unwrap_or_default();
    assert!(outcome.ok() && outcome.out.ends_with("done\n"), "{outcome}\n{said}\n{script}");
    assert!(!outcome.out.contains("FAILED"), "{outcome}\n{said}");
    let shown = as_promised(&bed, "table", table);
    assert_whose(&shown, &bed);
    as_promised(&bed, "reasons", reasons);
}

/// What a tool printed into `file`, which has the promised shape.
fn as_promised(bed: &Bed, file: &str, promised: &[String]) -> String {
    let shown = std::fs::read_to_string(bed.scratch.path().join(file)).expect("smcss printed it");
    let shapes = |lines: &mut dyn Iterator<Item = &str>| {
        let mut all: Vec<_> = lines.filter(|line| !line.is_empty()).map(shape).collect();
        all.sort();
        all
    };
    let wanted = shapes(&mut promised.iter().map(String::as_str));
    assert_eq!(shapes(&mut shown.lines()), wanted, "smcss looks like this:\n{shown}");
    shown
}

/// A command of the prose, called for its status and for something to read.
fn asked(command: &str) -> String {
    if command.starts_with("man ") && installed(&["man"]).is_none() {
        println!("skipped: {command}: man is not installed");
        return String::new();
    }
    format!("echo '== {command}'\n({command}) > asked && test -s asked || echo 'FAILED: {command}'\n")
}

/// The rows are the ordinary user's.
fn assert_whose(table: &str, bed: &Bed) {
    let user = if sys::euid() == 0 { ORDINARY } else { sys::euid() };
    let rows = table.lines().filter(|line| line.trim_end().ends_with("SMCD"));
    assert!(rows.clone().all(|row| row.split_whitespace().nth(1) == Some(&format!("{user:05}"))), "{table}");
    assert_eq!(rows.count(), 2, "{table}");
    assert!(
        Path::new(bed.registry()).join(format!("isthmus.{user}")).exists(),
        "the registry of whoever ran it"
    );
}
