//! The manual pages say what the programs do. smc_chk looks reasons up in the page of smcss, so its table is
//! an interface.

use std::fs;
use std::path::Path;
use std::process::Command;

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/man").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}")).replace("\\-", "-")
}

const PAGES: [&str; 14] = [
    "ismd.8",
    "ismd-device-plugin.8",
    "af_smc.7",
    "smcd-ueid.8",
    "smcd-seid.8",
    "smc_bench.8",
    "smc_run.8",
    "smcss.8",
    "smcd.8",
    "smcd-info.8",
    "smcd-linkgroup.8",
    "smcd-device.8",
    "smcd-stats.8",
    "libsmc-preload.7",
];

#[test]
fn the_table_of_codes_is_the_programs() {
    let page = page("smcss.8");
    let shown: Vec<&str> = page.lines().filter(|line| line.starts_with("0x")).collect();
    let known: Vec<String> =
        wire::reason::TABLE.iter().map(|entry| format!("{}  {}", entry.reason, entry.text)).collect();
    assert_eq!(shown, known);
}

#[test]
fn every_page_is_complete() {
    for name in PAGES {
        let page = page(name);
        let (title, section) = name.rsplit_once('.').expect("a section");
        assert!(page.starts_with(&format!(".TH {} {section} ", title.to_uppercase())), "{name}");
        for heading in ["NAME", "SYNOPSIS", "DESCRIPTION", "RETURN CODES", "SEE ALSO"] {
            assert!(page.lines().any(|line| line == format!(".SH {heading}")), "{name}: {heading}");
        }
        assert!(page.contains(&format!("Isthmus {}", env!("CARGO_PKG_VERSION"))), "{name}: version");
    }
}

/// The section is made by the program out of its table: what it prints belongs into the page.
#[test]
fn options_of_a_page_are_those_of_the_table() {
    for tool in ["smc_run", "smcss", "smcd"] {
        let output = Command::new(env!("CARGO_BIN_EXE_smc")).args(["completion", "man", tool]).output();
        let wanted = String::from_utf8_lossy(&output.expect("it starts").stdout).replace("\\-", "-");
        let page = page(&format!("{tool}.8"));
        let section = page.split_once("\n.SH OPTIONS\n").map(|(_, rest)| rest).unwrap_or_default();
        let end = section.find("\n.SH ").map_or(section.len(), |at| at + 1);
        // (smcd's page goes on with a paragraph of its own.)
        assert!(section[..end].starts_with(&wanted) && wanted.len() > 200, "{tool}.8: put in\n{wanted}");
        // Nor has the page an option that the table lacks, here or anywhere else.
        let elsewhere = page.replacen(&wanted, "", 1);
        let head = elsewhere.lines().zip(elsewhere.lines().skip(1)).find(|(before, line)| {
            *before == ".TP" && line.split_whitespace().nth(1).is_some_and(|word| word.starts_with('-'))
        });
        assert_eq!(head, None, "{tool}.8: an option that is not in the tool's table");
    }
}

/// Each completion is read by its shell, where there is one, and bash is asked what it would propose.
#[test]
fn shells_understand_their_completions() {
    let of = |shell: &str, tool: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_smc")).args(["completion", shell, tool]).output();
        String::from_utf8_lossy(&output.expect("it starts").stdout).into_owned()
    };
    for (shell, tool) in ["bash", "zsh", "fish"]
        .iter()
        .flat_map(|shell| ["smc_run", "smcss", "smcd"].map(|tool| (*shell, tool)))
    {
        let Ok(output) = Command::new(shell).args(["-n", "-c", &of(shell, tool)]).output() else { continue };
        assert!(output.status.success() && output.stderr.is_empty(), "{shell} {tool}: {output:?}");
    }
    let proposed = |tool: &str, line: &str| {
        let ask = format!(
            "{}\nCOMP_WORDS=({line}); [[ '{line}' == *' ' ]] && COMP_WORDS+=(''); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _isthmus_{tool}; echo ${{COMPREPLY[*]}}",
            of("bash", tool)
        );
        let output = Command::new("bash").args(["-c", &ask]).output().expect("bash starts");
        String::from_utf8_lossy(&output.stdout).trim().to_string()
    };
    assert_eq!(proposed("smcss", "smcss --re"), "--reasons");
    assert_eq!(proposed("smcd", "smcd -d st"), "stats");
    assert_eq!(proposed("smcd", "smcd stats "), "show reset json");
    assert_eq!(proposed("smc_run", "smc_run -d --v"), "--version");
    assert!(proposed("smc_run", "smc_run -r 64k ba").split(' ').any(|word| word == "bash"));
}

#[test]
fn every_option_of_the_usage_is_described() {
    for (applet, name) in [("smc_run", "smc_run.8"), ("smcss", "smcss.8")] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_smc")).args([applet, "-h"]).output().expect("it starts");
        let usage = String::from_utf8_lossy(&output.stdout).into_owned();
        let options =
            usage.lines().skip(1).flat_map(str::split_whitespace).filter(|word| word.starts_with('-'));
        let options: Vec<&str> = options.map(|word| word.trim_end_matches(',')).collect();
        assert!(options.len() >= 5, "{usage}");
        for option in options {
            let described = page(name).lines().any(|line| line.starts_with(".B") && line.contains(option));
            assert!(described, "{name} does not describe {option}");
        }
    }
}

#[test]
fn the_librarys_variables_are_described() {
    let page = page("libsmc-preload.7");
    let buffers = ["SMC_SNDBUF", "SMC_RCVBUF", "SMC_BRIEF", "SMC_MEMORY", "SMC_USER_MEMORY"];
    for variable in ["SMC_DEBUG", "SMC_DISABLE", "SMC_SPIN", "SMC_REGISTRY_DIR"].iter().chain(&buffers) {
        assert!(page.contains(variable), "{variable}");
    }
}
