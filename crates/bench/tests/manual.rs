//! The manual page and the completions say what the program says: every command and every option of every usage.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

/// Usages, and the commands behind them.
const COMMANDS: &str = "|compare|sweep|buffers|demo|app|idle|report|to|serve|completion|profile|profile show";

fn commands() -> impl Iterator<Item = Vec<&'static str>> {
    COMMANDS.split('|').map(|words| words.split_whitespace().collect())
}

fn page() -> String {
    include_str!("../../../docs/man/smc_bench.8").replace("\\-", "-")
}

fn help(command: &[&str]) -> String {
    said(&[command, &["-h"]].concat())
}

fn said(command: &[&str]) -> String {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_smc_bench"));
    let output = bench.args(command).stdin(Stdio::null()).output().expect("the program starts");
    assert!(output.status.success(), "{command:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// `-m`, `--master` of the lines that begin with a dash.
fn options(help: &str) -> BTreeSet<&str> {
    let lines = help.lines().map(str::trim).filter(|line| line.starts_with('-'));
    let words = lines.flat_map(|line| line.split("  ").next().unwrap_or_default().split_whitespace());
    words.map(|word| word.trim_end_matches(',')).filter(|word| word.starts_with('-')).collect()
}

#[test]
fn every_option_is_described() {
    let page = page();
    let described: BTreeSet<&str> =
        page.lines().filter(|line| line.starts_with(".B")).flat_map(str::split_whitespace).collect();
    for command in commands() {
        let help = help(&command);
        let options = options(&help);
        assert!(options.contains("-h"), "{help}");
        for option in options {
            assert!(described.contains(option), "the page does not describe {option} of {command:?}");
        }
    }
}

#[test]
fn nothing_is_described_that_is_no_option() {
    let helps: Vec<String> = commands().map(|command| help(&command)).collect();
    let known: BTreeSet<&str> = helps.iter().flat_map(|help| options(help)).collect();
    let page = page();
    let heads = page.lines().zip(page.lines().skip(1)).filter(|(before, _)| *before == ".TP");
    let words = heads.flat_map(|(_, head)| head.split(|c: char| c.is_whitespace() || c == ',' || c == '"'));
    let described: Vec<&str> = words.filter(|word| word.starts_with('-')).collect();
    assert!(described.len() > 20, "{described:?}");
    for option in described {
        assert!(known.contains(option), "the page describes {option}, which no command has");
    }
}

#[test]
fn every_command_is_described_and_every_one_of_them_is_looked_at() {
    let page = page();
    let help = help(&[]);
    let list = help.split("Commands:").nth(1).and_then(|rest| rest.split("\n\n").next()).expect("a list");
    for name in list.lines().filter_map(|line| line.split_whitespace().next()) {
        assert!(page.lines().any(|line| line == format!(".B {name}")), "{name}");
        assert!(name == "help" || commands().any(|command| command == [name]), "{name} is looked at");
    }
}

#[test]
fn every_shell_completes_every_command_and_option_and_bash_can_load_it() {
    let words = "$0 completion bash)\" && COMP_WORDS=(smc_bench compare --pat) COMP_CWORD=2 && \
                 _smc_bench smc_bench --pat compare && echo $COMPREPLY";
    let loaded = Command::new("bash")
        .args(["-c", &format!("eval \"$({words}"), env!("CARGO_BIN_EXE_smc_bench")])
        .output();
    assert_eq!(loaded.expect("a shell").stdout, b"--paths\n");
    for shell in ["bash", "zsh", "fish"] {
        let text = said(&["completion", shell]);
        for command in commands() {
            command.iter().for_each(|word| assert!(text.contains(word), "{shell}: {word}"));
            let help = help(&command);
            let names = options(&help)
                .into_iter()
                .map(|name| if shell == "fish" { name.trim_start_matches('-') } else { name });
            names.for_each(|name| assert!(text.contains(name), "{shell}: {name} of {command:?}"));
        }
        assert!(!text.contains("idle-server"), "{shell} completes what the program starts itself");
    }
}
