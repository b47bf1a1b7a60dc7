//! Options of smcss(8). Owns: which exclude each other.

use super::row::{Mode, Row, State};
use crate::getopt;
use crate::tool::{Opt, Tool};
use std::ffi::OsString;

/// smcss, with the options of smc-tools under the same names, and four of our own.
pub(crate) const TOOL: Tool = Tool {
    name: "smcss",
    about: "list SMC sockets",
    before_options: "",
    options: &[
        Opt::both(b'h', "help", "show this text", "Show the usage and exit."),
        Opt::both(b'v', "version", "show the version", "Show the version and exit."),
        Opt::both(
            b'a',
            "all",
            "all sockets",
            r"All sockets, listening ones and undecided connections (INIT) included.",
        ),
        Opt::both(
            b'l',
            "listening",
            "listening sockets only",
            r"Listening sockets only. Not together with \-a, \-d, \-D or \-R.",
        ),
        Opt::both(
            b'd',
            "debug",
            "with cursors, buffer sizes and flags",
            r"More columns: shutdown state, token, buffer sizes, cursors, flags. A note on stderr names enabled programs whose
.I /proc/PID/fd
is closed to the caller, so that their connections over TCP are missing.",
        ),
        Opt::both(b'W', "wide", "do not cut addresses", "Do not cut addresses to the width of their column."),
        Opt::both(
            b'D',
            "smcd",
            "SMC-D sockets only, with their DMBs",
            r"SMC\-D sockets only, with GIDs, tokens and link group.",
        ),
        Opt::both(
            b'R',
            "smcr",
            "SMC-R sockets only, with their links",
            r"SMC\-R sockets only, with their links. Only a kernel has such. Not together with \-D.",
        ),
        Opt::both(
            b'r',
            "reasons",
            "reasons of TCP in words",
            r"The reason behind each code of a connection over TCP, in words. Not in smc\-tools.",
        ),
        Opt::both(
            b'p',
            "processes",
            "processes that have the socket",
            r"Every process that has the socket, with its descriptor, behind each row, as
.B ss \-p
has it. Not in smc\-tools.",
        ),
        Opt::long(
            b'P',
            "pid",
            "with process and program",
            r"Process id and program in front of each row; 0 and \- where unknown. Not in smc\-tools.",
        ),
        Opt::long(
            b'J',
            "json",
            "as JSON",
            r"A JSON array with one object per socket. All columns are in it; \-a, \-l, \-D and \-R choose the rows. Not in smc\-tools.",
        ),
    ],
    objects: &[],
    dashes: "--",
    permutes: true,
};

pub(super) fn usage() -> String {
    format!("Usage: smcss [ OPTIONS ]\n{}", TOOL.usage_of_options())
}

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
    pub(super) reasons: bool,
    pub(super) processes: bool,
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
            b'r' => &mut self.reasons,
            b'p' => &mut self.processes,
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
    let (options, rest) = getopt::parse(&TOOL, args).map_err(|wrong| wrong.message)?;
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
        let words = Wanted { reasons: true, processes: true, ..Wanted::default() };
        assert_eq!(
            (read("-rp"), read("--reasons --processes")),
            (Ok(Action::List(words.clone())), Ok(Action::List(words)))
        );
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
