//! Options of smc_run(8). Owns: its messages, on stdout as in smc-tools, and what goes into the environment.

use crate::getopt;
use crate::tool::{Opt, Tool};
use std::ffi::OsString;
use std::net::SocketAddr;
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
        Opt::valued(
            b'c',
            "connection",
            "WHICH",
            "only this connection, by its inode or LOCAL-PEER, or all",
            r"With
.B \-p
and
.BR \-\-tcp :
only this connection of the process, and nothing of what is still to come.
.I WHICH
is the inode that
.B smcss
shows, or the two addresses with a hyphen between them, the process's own first
.RB ( 127.0.0.1:6379\-127.0.0.1:40000 );
or
.B all
that it has at the time.",
        ),
        Opt::both(b'h', "help", "show this text", "Show the usage and exit."),
        Opt::short(
            b'p',
            "PID",
            "change what a running process does; needs --tcp or --smc",
            r"Start nothing, but change what the running process
.I PID
does: see
.B \-\-tcp
and
.BR \-\-smc .
It must belong to the caller, unless that is root. Its children are processes of their own.",
        ),
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
        Opt::long(
            b'T',
            "tcp",
            "take the process of -p off shared memory",
            r"With
.BR \-p :
all connections of the process go back to TCP, in both directions and at whatever byte they are. Nothing is
lost, and neither end is waited for: each of them may sleep, compute or be stopped. New connections of the
process stay TCP.
.B smcss
shows them with the code of operators, 0x03000001.",
        ),
        Opt::long(
            b'S',
            "smc",
            "let new connections of the process of -p use shared memory again",
            r"With
.BR \-p :
new connections of the process may use shared memory again. Those that went back to TCP stay there.",
        ),
        Opt::both(b'v', "version", "show the version", "Show the version and exit."),
    ],
    objects: &[],
    dashes: "--",
    permutes: false,
};

pub(super) fn usage() -> String {
    let what = "Usage: smc_run [ OPTIONS ] COMMAND\nRun COMMAND using SMC for TCP sockets\n";
    let change = "   or: smc_run -p PID --tcp [ -c WHICH ] | --smc\n";
    format!("{what}{change}\n{}", TOOL.usage_of_options())
}

/// What the user wants.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    Help,
    Version,
    Start(Start),
    Change(Change),
}

/// What is to change about a process that runs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) pid: u32,
    pub(super) to: To,
}

/// Where its bytes are to go.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum To {
    /// TCP: all of its connections and those to come.
    Tcp,
    /// TCP: this connection.
    TcpOf(Which),
    /// Shared memory, where it can be.
    Smc,
}

/// A connection of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// All that it has.
    All,
    /// Whose socket has this inode.
    Inode(u32),
    /// Between these, the process's own first.
    Between([SocketAddr; 2]),
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
    let mut wishes = Wishes::default();
    for (option, value) in options {
        match option {
            b'p' => wishes.pid = value,
            b'c' => wishes.which = value,
            b'T' => wishes.tcp = true,
            b'S' => wishes.smc = true,
            b'd' => start.debug = true,
            b'r' => start.rcvbuf = Some(size(value.unwrap_or_default())?),
            b't' => start.sndbuf = Some(size(value.unwrap_or_default())?),
            b'v' => return Ok(Action::Version),
            _ => return Ok(Action::Help),
        }
    }
    if wishes != Wishes::default() {
        let is_alone = start == Start::default();
        let change = wishes.change().filter(|_| is_alone);
        return change.map(Action::Change).ok_or_else(|| {
            let wanted = "-p PID --tcp [ -c WHICH ] or -p PID --smc, and nothing else";
            let wrong = wishes.unreadable().unwrap_or_default();
            Complaint::on_stdout(format!("smc_run: Error: A running process is changed by {wanted}{wrong}\n"))
        });
    }
    if start.command.is_empty() {
        return Err(Complaint::on_stdout("smc_run: Error: Missing command parameter\n".into()));
    }
    Ok(Action::Start(start))
}

/// Options for a process that runs, as they were given.
#[derive(Default, PartialEq)]
struct Wishes {
    pid: Option<OsString>,
    which: Option<OsString>,
    tcp: bool,
    smc: bool,
}

impl Wishes {
    fn pid(&self) -> Option<u32> {
        self.pid.as_ref()?.to_str()?.parse().ok().filter(|pid| *pid > 0)
    }

    /// Which of the values it is that says nothing.
    fn unreadable(&self) -> Option<String> {
        let pid = self.pid.as_ref().filter(|_| self.pid().is_none());
        let is_read = |which: &&OsString| which.to_str().and_then(Which::read).is_some();
        let which = self.which.as_ref().filter(|which| !is_read(which));
        let no_pid = pid.map(|pid| format!(" ('{}' is no process id)", pid.display()));
        let no_which = || Some(format!(" ('{}' is no inode, no LOCAL-PEER and not 'all')", which?.display()));
        no_pid.or_else(no_which)
    }

    fn change(&self) -> Option<Change> {
        let pid = self.pid()?;
        let to = match (self.tcp, self.smc, &self.which) {
            (true, false, None) => To::Tcp,
            (true, false, Some(which)) => To::TcpOf(Which::read(which.to_str()?)?),
            (false, true, None) => To::Smc,
            _ => return None,
        };
        Some(Change { pid, to })
    }
}

impl Which {
    fn read(text: &str) -> Option<Which> {
        if text == "all" {
            return Some(Which::All);
        }
        if let Ok(inode) = text.parse() {
            return Some(inode).filter(|inode| *inode > 0).map(Which::Inode);
        }
        let (local, peer) = text.split_once('-')?;
        Some(Which::Between([address(local)?, address(peer)?]))
    }
}

/// An address with its port, also as smcss writes it, without brackets.
fn address(text: &str) -> Option<SocketAddr> {
    let of_parts = || {
        let (ip, port) = text.rsplit_once(':')?;
        Some(SocketAddr::new(ip.parse().ok()?, port.parse().ok()?))
    };
    let address: SocketAddr = text.parse().ok().or_else(of_parts)?;
    Some(SocketAddr::new(address.ip().to_canonical(), address.port()))
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
    use super::{Action, Change, Start, To, Which, parse};
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
    fn a_running_process_is_named_with_what_is_to_change() {
        let change = |args: &[&str]| match read(args) {
            Ok(Action::Change(change)) => change,
            other => panic!("{other:?}"),
        };
        assert_eq!(change(&["-p", "7", "--tcp"]), Change { pid: 7, to: To::Tcp });
        assert_eq!(change(&["--smc", "-p7"]), Change { pid: 7, to: To::Smc });
        let of = |which: &str| change(&["-p7", "--tcp", "-c", which]).to;
        assert_eq!(of("all"), To::TcpOf(Which::All));
        assert_eq!(of("4711"), To::TcpOf(Which::Inode(4711)));
        let ends = ["127.0.0.1:80", "127.0.0.1:4000"].map(|end| end.parse().expect("an address"));
        assert_eq!(of("127.0.0.1:80-127.0.0.1:4000"), To::TcpOf(Which::Between(ends)));
        assert_eq!(of("::ffff:127.0.0.1:80-127.0.0.1:4000"), To::TcpOf(Which::Between(ends)));
        let six = ["[::1]:80", "[::1]:4000"].map(|end| end.parse().expect("an address"));
        assert_eq!(of("::1:80-[::1]:4000"), To::TcpOf(Which::Between(six)));
        for wrong in [
            &["-p7"][..],
            &["--tcp"],
            &["-p0", "--tcp"],
            &["-px", "--tcp"],
            &["-p7", "--tcp", "--smc"],
            &["-p7", "--smc", "-c", "1"],
            &["-p7", "--tcp", "-c", "0"],
            &["-p7", "--tcp", "-c", "127.0.0.1:80"],
            &["-p7", "--tcp", "prog"],
            &["-dp7", "--tcp"],
        ] {
            let complaint = read(wrong).expect_err("a complaint").0;
            assert!(complaint.starts_with("smc_run: Error: A running process is changed by"), "{wrong:?}");
        }
        let complaint = |args: &[&str]| read(args).expect_err("a complaint").0;
        assert!(complaint(&["-pabc", "--tcp"]).ends_with("nothing else ('abc' is no process id)\n"));
        let of_which = complaint(&["-p7", "--tcp", "-c", "foo"]);
        assert!(of_which.ends_with("('foo' is no inode, no LOCAL-PEER and not 'all')\n"), "{of_which}");
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
