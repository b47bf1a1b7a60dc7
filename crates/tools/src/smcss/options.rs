//! Options of smcss(8). Owns: which exclude each other.

use super::row::{Mode, Row, State};
use crate::getopt::{self, Spec};
use std::ffi::OsString;

pub(super) const USAGE: &str = "\
Usage: smcss [ OPTIONS ]
   -h, --help        show this text
   -v, --version     show the version
   -a, --all         all sockets
   -l, --listening   listening sockets only
   -d, --debug       with cursors, buffer sizes and flags
   -W, --wide        do not cut addresses
   -D, --smcd        SMC-D sockets only, with their DMBs
   -R, --smcr        SMC-R sockets only, with their links
       --pid         with process and program
       --json        as JSON
";
const SPEC: Spec = Spec {
    program: "smcss",
    short: b"aldDRhvW",
    long: &[
        ("all", b'a'),
        ("listening", b'l'),
        ("debug", b'd'),
        ("smcd", b'D'),
        ("smcr", b'R'),
        ("help", b'h'),
        ("version", b'v'),
        ("wide", b'W'),
        ("pid", b'P'),
        ("json", b'J'),
    ],
    permutes: true,
};

/// What the user wants.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    Help,
    Version,
    List(Wanted),
}

/// Rows and columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) all: bool,
    pub(super) listening: bool,
    pub(super) details: bool,
    pub(super) wide: bool,
    pub(super) smcd: bool,
    pub(super) smcr: bool,
    pub(super) program: bool,
    pub(super) json: bool,
}

impl Wanted {
    /// Whether a row is to be shown. Without options: connections.
    pub(super) fn takes(&self, row: &Row) -> bool {
        let of_state = match row.state {
            State::LISTEN => self.all || self.listening,
            State::INIT => self.all,
            _ => !self.listening,
        };
        let of_mode = (!self.smcd || row.mode == Mode::Smcd) && (!self.smcr || row.mode == Mode::Smcr);
        of_state && of_mode
    }

    fn set(&mut self, option: u8) {
        let switch = match option {
            b'a' => &mut self.all,
            b'l' => &mut self.listening,
            b'd' => &mut self.details,
            b'W' => &mut self.wide,
            b'D' => &mut self.smcd,
            b'R' => &mut self.smcr,
            b'P' => &mut self.program,
            _ => &mut self.json,
        };
        *switch = true;
    }

    fn conflict(&self) -> Option<String> {
        let pairs = [
            (self.listening && self.all, "listening", "all"),
            (self.listening && self.details, "listening", "debug"),
            (self.listening && self.smcd, "listening", "smcd"),
            (self.listening && self.smcr, "listening", "smcr"),
            (self.smcd && self.smcr, "smcd", "smcr"),
        ];
        let (_, one, other) = pairs.iter().find(|(both, ..)| *both)?;
        Some(format!("--{one} together with --{other} is not supported\n"))
    }
}

/// Reads the arguments; the error is what to say before the usage, exit code 1.
pub(super) fn parse(args: &[OsString]) -> Result<Action, String> {
    let (options, rest) = getopt::parse(&SPEC, args).map_err(|wrong| wrong.message)?;
    let mut wanted = Wanted::default();
    for (option, _) in options {
        match option {
            b'h' => return Ok(Action::Help),
            b'v' => return Ok(Action::Version),
            other => wanted.set(other),
        }
    }
    if let Some(argument) = rest.first() {
        return Err(format!("smcss: unexpected argument '{}'\n", argument.to_string_lossy()));
    }
    match wanted.conflict() {
        Some(message) => Err(message),
        None => Ok(Action::List(wanted)),
    }
}

#[cfg(test)]
mod tests {
    use super::{Action, Wanted, parse};
    use std::ffi::OsString;

    fn read(line: &str) -> Result<Action, String> {
        let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        parse(&args)
    }

    #[test]
    fn options_combine() {
        let wanted = Wanted { all: true, details: true, wide: true, smcd: true, ..Wanted::default() };
        assert_eq!(read("-adWD"), Ok(Action::List(wanted.clone())));
        assert_eq!(read("--all --debug --wide --smcd"), Ok(Action::List(wanted)));
        let extras = Wanted { program: true, json: true, listening: true, ..Wanted::default() };
        assert_eq!(read("-l --pid --json"), Ok(Action::List(extras)));
        assert_eq!((read("-av"), read("--help")), (Ok(Action::Version), Ok(Action::Help)));
    }

    #[test]
    fn conflicts_are_told() {
        let conflicts = [
            ("-la", "listening", "all"),
            ("-ld", "listening", "debug"),
            ("-lD", "listening", "smcd"),
            ("-lR", "listening", "smcr"),
            ("-RD", "smcd", "smcr"),
        ];
        for (line, one, other) in conflicts {
            assert_eq!(read(line), Err(format!("--{one} together with --{other} is not supported\n")));
        }
        assert_eq!(read("-x"), Err("smcss: invalid option -- 'x'\n".into()));
        assert_eq!(read("what"), Err("smcss: unexpected argument 'what'\n".into()));
    }
}
