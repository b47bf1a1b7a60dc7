//! smc_run: starts a program with the preload library, or takes one that runs off shared memory (`change`).
//! Owns: the promise that the program starts whatever is wrong here.

mod change;
mod library;
mod options;

use crate::{inherited, output};
pub(crate) use options::TOOL;
use options::{Action, Complaint, Start};
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Runs the applet; returns only if there is nothing to run.
pub(crate) fn main(args: &[OsString]) -> u8 {
    match options::parse(args) {
        Ok(Action::Help) => output::print(&options::usage()),
        Ok(Action::Version) => output::print(&format!("smc_run utility, {}\n", crate::VERSION)),
        Ok(Action::Start(start)) => return run(&start),
        Ok(Action::Change(wanted)) => return change::run(&wanted),
        Err(Complaint { stdout, stderr }) => {
            output::complain(&stderr);
            output::print(&stdout);
            return 1;
        }
    }
    0
}

fn run(start: &Start) -> u8 {
    let preload =
        library::find().and_then(|library| library::appended(std::env::var_os("LD_PRELOAD"), &library));
    let mut additions = start.environment(std::env::var_os("SMC_DEBUG"));
    match preload {
        Ok(list) => {
            additions.push(("LD_PRELOAD", list));
            additions.push(("ASAN_OPTIONS", beside_a_sanitizer(std::env::var_os("ASAN_OPTIONS"))));
        }
        Err(reason) => output::complain(&format!("smc_run: {reason}; the program runs on TCP\n")),
    }
    inherited::close_what_was_closed();
    let error = exec(&start.command, &additions);
    let (text, code) = match is_there(&start.command[0]) {
        false => ("not found".to_string(), 127),
        true => (error.to_string(), 126),
    };
    output::complain(&format!("smc_run: exec: {}: {text}\n", start.command[0].to_string_lossy()));
    code
}

/// A program built with AddressSanitizer ends at once if another library than its runtime comes first, unless
/// it is told that this is meant. Our hooks call on to the runtime's, which look at the buffers as ever.
/// Nobody else reads the variable.
fn beside_a_sanitizer(options: Option<OsString>) -> OsString {
    let mut options = options.unwrap_or_default();
    if !options.is_empty() {
        options.push(":");
    }
    options.push("verify_asan_link_order=0");
    options
}

/// Whether there is such a program at all. The error of exec does not tell: it is "permission denied" as well
/// when a folder on the path cannot be searched.
fn is_there(program: &OsStr) -> bool {
    if program.as_bytes().contains(&b'/') {
        return Path::new(program).exists();
    }
    let path = std::env::var_os("PATH").unwrap_or("/bin:/usr/bin".into());
    !program.is_empty() && std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Becomes `command`; returns why that failed.
fn exec(command: &[OsString], additions: &[(&str, OsString)]) -> std::io::Error {
    if inherited::sigpipe_ignored() {
        return exec_with_signals_kept(command, additions);
    }
    // The runtime ignored SIGPIPE for us; this way of starting a program puts the default back.
    let additions = additions.iter().map(|(name, value)| (name, value));
    Command::new(&command[0]).args(&command[1..]).envs(additions).exec()
}

fn exec_with_signals_kept(command: &[OsString], additions: &[(&str, OsString)]) -> std::io::Error {
    let is_kept = |name: &OsString| !additions.iter().any(|(added, _)| name == added);
    let kept = std::env::vars_os().filter(|(name, _)| is_kept(name));
    let added = additions.iter().map(|(name, value)| (OsString::from(name), value.clone()));
    let strings = |all: Vec<OsString>| -> Result<Vec<CString>, std::ffi::NulError> {
        all.into_iter().map(|one| CString::new(one.into_vec())).collect()
    };
    let pairs = kept.chain(added).map(|(mut name, value)| {
        name.push("=");
        name.push(value);
        name
    });
    match (strings(command.to_vec()), strings(pairs.collect())) {
        (Ok(args), Ok(environment)) => match nix::unistd::execvpe(&args[0], &args, &environment) {
            Ok(never) => match never {},
            Err(errno) => errno.into(),
        },
        _ => std::io::ErrorKind::InvalidInput.into(),
    }
}
