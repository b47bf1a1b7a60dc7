//! Options of smc_run(8). Owns: its messages, on stdout as in smc-tools, and what goes into the environment.

use crate::getopt;
use crate::tool::{Opt, Tool};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// smc_run, with the options of smc-tools; the long names are ours.
pub(crate) const TOOL: Tool = Tool {
    name: "smc_run",
    about: "run a program with its TCP connections in shared memory",
    before_options: "",
    options: &[
        Opt::short(
            b'd',
            "",
            "show debug messages of the library",
            r"Debug messages of the library on standard error (sets
.B SMC_DEBUG
to 1): why a connection or a listener stays on TCP, with the code that
.BR smcss (8)
shows.",
        ),
        Opt::both(b'h', "help", "show this text", "Show the usage and exit."),
        Opt::short(
            b'r',
            "SIZE",
            "receive buffer size in bytes; k and m multiply by 1024 and 1048576",
            r"Size of receive buffers in bytes (sets
.BR SMC_RCVBUF ).
A
.B k
or
.B K
behind the number multiplies by 1024,
.B m
or
.B M
by 1048576.",
        ),
        Opt::short(
            b't',
            "SIZE",
            "send buffer size",
            r"Size of send buffers (sets
.BR SMC_SNDBUF ).",
        ),
        Opt::both(b'v', "version", "show the version", "Show the version and exit."),
    ],
    objects: &[],
    dashes: "--",
    permutes: false,
};

pub(super) fn usage() -> String {
    let what = "Usage: smc_run [ OPTIONS ] COMMAND\nRun COMMAND using SMC for TCP sockets\n\n";
    format!("{what}{}", TOOL.usage_of_options())
}

/// What the user wants.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    Help,
    Version,
    Start(Start),
}

/// A program to start.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Start {
    debug: bool,
    rcvbuf: Option<OsString>,
    sndbuf: Option<OsString>,
    /// The program and its arguments; never empty.
    pub(super) command: Vec<OsString>,
}

/// What is wrong, exit code 1.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Complaint {
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Complaint {
    fn on_stdout(text: String) -> Self {
        Complaint { stdout: text, stderr: String::new() }
    }
}

impl Start {
    /// Variables for the program besides LD_PRELOAD. `debug_now` is SMC_DEBUG as it stands.
    pub(super) fn environment(&self, debug_now: Option<OsString>) -> Vec<(&'static str, OsString)> {
        let debug = if self.debug { Some("1".into()) } else { debug_now };
        let mut all = vec![("SMC_DEBUG", debug.unwrap_or("0".into()))];
        all.extend(self.rcvbuf.clone().map(|size| ("SMC_RCVBUF", size)));
        all.extend(self.sndbuf.clone().map(|size| ("SMC_SNDBUF", size)));
        all
    }
}

/// Reads the arguments. The first of -h and -v wins, as does the first complaint.
pub(super) fn parse(args: &[OsString]) -> Result<Action, Complaint> {
    let (options, command) = getopt::parse(&TOOL, args).map_err(|wrong| Complaint {
        stdout: format!("smc_run: Error: Invalid option: {}\n", wrong.option),
        stderr: wrong.message,
    })?;
    let mut start = Start { command, ..Start::default() };
    for (option, value) in options {
        match option {
            b'd' => start.debug = true,
            b'r' => start.rcvbuf = Some(size(value.unwrap_or_default())?),
            b't' => start.sndbuf = Some(size(value.unwrap_or_default())?),
            b'v' => return Ok(Action::Version),
            _ => return Ok(Action::Help),
        }
    }
    if start.command.is_empty() {
        return Err(Complaint::on_stdout("smc_run: Error: Missing command parameter\n".into()));
    }
    Ok(Action::Start(start))
}

/// A size is digits with at most one of k, K, m, M behind.
fn size(value: OsString) -> Result<OsString, Complaint> {
    let bytes = value.as_bytes();
    let digits = bytes.strip_suffix(b"k").or(bytes.strip_suffix(b"K"));
    let digits = digits.or(bytes.strip_suffix(b"m")).or(bytes.strip_suffix(b"M")).unwrap_or(bytes);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        let text = value.to_string_lossy();
        return Err(Complaint::on_stdout(format!("Error: Invalid buffer size specified: '{text}'\n")));
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::{Action, Start, parse};
    use std::ffi::OsString;

    fn read(args: &[&str]) -> Result<Action, (String, String)> {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        parse(&args).map_err(|complaint| (complaint.stdout, complaint.stderr))
    }

    #[test]
    fn options_end_at_the_program() {
        let Ok(Action::Start(start)) = read(&["-dr", "64k", "-t1M", "prog", "-v", "a b"]) else {
            panic!("a program to start")
        };
        let text = |s: &str| OsString::from(s);
        assert_eq!(start.command, ["prog", "-v", "a b"]);
        let wanted = [("SMC_DEBUG", text("1")), ("SMC_RCVBUF", text("64k")), ("SMC_SNDBUF", text("1M"))];
        assert_eq!(start.environment(None), wanted);
    }

    #[test]
    fn debug_is_as_the_environment_has_it_without_the_option() {
        let start = Start { command: vec!["x".into()], ..Start::default() };
        assert_eq!(start.environment(None), [("SMC_DEBUG", OsString::from("0"))]);
        assert_eq!(start.environment(Some("1".into())), [("SMC_DEBUG", OsString::from("1"))]);
    }

    #[test]
    fn help_and_version_need_no_program() {
        assert_eq!(read(&["-h"]), Ok(Action::Help));
        assert_eq!(read(&["-dv", "x"]), Ok(Action::Version));
        assert_eq!((read(&["--help"]), read(&["--version", "x"])), (Ok(Action::Help), Ok(Action::Version)));
        assert!(matches!(read(&["x", "--help"]), Ok(Action::Start(_))), "that is the program's");
    }

    #[test]
    fn complaints_go_to_stdout() {
        let stdout = |args: &[&str]| read(args).expect_err("a complaint").0;
        for bad in ["", "k", "12kk", "1|", "-1", "0x10", "1 "] {
            assert_eq!(stdout(&["-r", bad, "x"]), format!("Error: Invalid buffer size specified: '{bad}'\n"));
        }
        assert_eq!(stdout(&[]), "smc_run: Error: Missing command parameter\n");
        assert_eq!(stdout(&["-d"]), "smc_run: Error: Missing command parameter\n");
        let wrong = read(&["-x", "prog"]).expect_err("a complaint");
        assert_eq!(wrong.0, "smc_run: Error: Invalid option: -x\n");
        assert_eq!(wrong.1, "smc_run: invalid option -- 'x'\n");
        assert_eq!(stdout(&["-r"]), "smc_run: Error: Invalid option: -r\n");
    }
}
