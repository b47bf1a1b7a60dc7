//! `smc`: one program that answers to several names. Owns: which applet runs.
//!
//! The name it was started under decides (`smc_run`, `smcss`, `smcd` are links to it); started as `smc`, its
//! first argument does. Every applet takes its arguments and answers with an exit code.
#![deny(unsafe_code)]

mod completion;
mod far;
mod getopt;
mod host;
mod inherited;
mod json;
mod live;
mod netlink;
mod output;
mod registry;
mod segments;
mod smc_run;
mod smcd;
mod smcss;
mod tool;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// An applet: arguments without its name in, exit code out.
type Applet = fn(&[OsString]) -> u8;

const APPLETS: [(&str, Applet, &str); 4] = [
    ("smc_run", smc_run::main, smc_run::TOOL.about),
    ("smcss", smcss::main, smcss::TOOL.about),
    ("smcd", smcd::main, smcd::TOOL.about),
    ("completion", completion::main, "print what bash, zsh and fish complete a tool's options with"),
];
/// What `-v` of every applet ends with.
const VERSION: &str = concat!("isthmus-", env!("CARGO_PKG_VERSION"));

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    let name = args.first().and_then(|path| Path::new(path).file_name()).and_then(|name| name.to_str());
    let code = match name.and_then(applet) {
        Some(applet) => applet(args.get(1..).unwrap_or_default()),
        None => smc(args.get(1..).unwrap_or_default()),
    };
    ExitCode::from(code)
}

fn applet(name: &str) -> Option<Applet> {
    APPLETS.iter().find(|(known, ..)| *known == name).map(|(_, applet, _)| *applet)
}

/// `smc APPLET ...`; also `smc run`, `smc ss`, `smc d`.
fn smc(args: &[OsString]) -> u8 {
    let Some(first) = args.first().and_then(|first| first.to_str()) else {
        output::complain(&usage());
        return 1;
    };
    match first {
        "-h" | "--help" | "help" => output::print(&usage()),
        "-v" | "-V" | "--version" => output::print(&format!("smc utility, {VERSION}\n")),
        name => match applet(name)
            .or_else(|| applet(&format!("smc{name}")))
            .or_else(|| applet(&format!("smc_{name}")))
        {
            Some(applet) => return applet(&args[1..]),
            None => {
                output::complain(&format!("smc: unknown applet '{name}'\n{}", usage()));
                return 1;
            }
        },
    }
    0
}

fn usage() -> String {
    let list: String = APPLETS.iter().map(|(name, _, text)| format!("  {name:<11} {text}\n")).collect();
    format!(
        "Usage: smc APPLET [ ARGUMENTS ]\nApplets, the first three also to be called by their own names:\n{list}"
    )
}

#[cfg(test)]
mod tests {
    use super::{applet, usage};

    #[test]
    fn every_applet_is_found_and_told_of() {
        for name in ["smc_run", "smcss", "smcd"] {
            assert!(applet(name).is_some() && usage().contains(name), "{name}");
        }
        assert!(applet("smc").is_none());
    }
}
