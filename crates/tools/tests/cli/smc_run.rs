//! smc_run: what the program it starts gets to see.

use super::{Folder, stderr, stdout};
use std::path::PathBuf;
use std::process::{Command, Output};

/// An installation: the program in `bin`, some library of the system in the place of ours.
struct Installed(Folder);

impl Installed {
    fn new(name: &str) -> Self {
        let installed = Self::without_library(name);
        std::fs::create_dir(installed.0.0.join("lib")).expect("a folder");
        // Not loadable: the loader says so on stderr and goes on, which is all these tests need.
        std::fs::write(installed.library(), "").expect("a file");
        installed
    }

    fn without_library(name: &str) -> Self {
        let folder = Folder::new(name);
        let bin = folder.0.join("bin");
        std::fs::create_dir(&bin).expect("a folder");
        // By another process: while this one writes a program, a test beside it may fork, and nobody could
        // start it.
        let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_smc")).arg(bin.join("smc")).status();
        assert!(copied.is_ok_and(|status| status.success()), "cp");
        std::os::unix::fs::symlink("smc", bin.join("smc_run")).expect("a link");
        Installed(folder)
    }

    fn library(&self) -> PathBuf {
        self.0
            .0
            .join("lib/libsmc-preload.so")
            .canonicalize()
            .unwrap_or(self.0.0.join("lib/libsmc-preload.so"))
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.0.0.join("bin/smc_run"));
        command.args(args).env_remove("SMC_DEBUG").env_remove("LD_PRELOAD");
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("smc_run starts")
    }
}

#[test]
fn the_environment_is_set_and_the_exit_code_is_the_programs() {
    let installed = Installed::new("run-env");
    let show = "echo $SMC_DEBUG/$SMC_RCVBUF/$SMC_SNDBUF/$LD_PRELOAD \"$1\"; exit 7";
    let output = installed.run(&["-d", "-r", "64k", "-t", "1M", "sh", "-c", show, "sh", "a  b"]);
    let wanted = format!("1/64k/1M/{} a  b\n", installed.library().display());
    assert_eq!((stdout(&output), output.status.code()), (wanted, Some(7)));
    let plain = installed.run(&["sh", "-c", "echo $SMC_DEBUG/$SMC_RCVBUF"]);
    assert_eq!(stdout(&plain), "0/\n");
}

#[test]
fn other_preloaded_libraries_stay_and_smc_run_may_be_nested() {
    let installed = Installed::new("run-nested");
    let path = installed.0.0.join("bin/smc_run");
    let args = [path.to_str().expect("UTF-8"), "sh", "-c", "echo $LD_PRELOAD"];
    let output = installed.command(&args).env("LD_PRELOAD", "libother.so").output().expect("it starts");
    assert_eq!(stdout(&output), format!("libother.so:{}\n", installed.library().display()));
}

#[test]
fn without_the_library_the_program_runs_plain() {
    let installed = Installed::without_library("run-missing");
    let output = installed.run(&["sh", "-c", "echo \"<$LD_PRELOAD>\""]);
    assert_eq!((stdout(&output), output.status.code()), ("<>\n".into(), Some(0)));
    let said = stderr(&output);
    assert!(
        said.starts_with("smc_run: cannot use ") && said.ends_with("; the program runs on TCP\n"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1);
    let elsewhere =
        installed.command(&["true"]).env("SMC_PRELOAD_LIB", "/nowhere/x.so").output().expect("it starts");
    assert!(
        elsewhere.status.success()
            && stderr(&elsewhere).contains("SMC_PRELOAD_LIB: cannot use /nowhere/x.so")
    );
}

#[test]
fn programs_that_cannot_start_have_the_shells_codes() {
    let installed = Installed::without_library("run-codes");
    let missing = installed.run(&["no-such-program-anywhere"]);
    assert_eq!(missing.status.code(), Some(127));
    assert!(stderr(&missing).contains("exec: no-such-program-anywhere: not found"));
    for (program, code) in [("/dev/null", 126), ("/no/such/program", 127), ("", 127)] {
        assert_eq!(installed.run(&[program]).status.code(), Some(code), "{program}");
    }
}

#[test]
fn options_are_complained_of_on_stdout() {
    let installed = Installed::without_library("run-options");
    for (args, said) in [
        (&["-x", "true"][..], "smc_run: Error: Invalid option: -x\n"),
        (&["-r", "12q", "true"], "Error: Invalid buffer size specified: '12q'\n"),
        (&[], "smc_run: Error: Missing command parameter\n"),
    ] {
        let output = installed.run(args);
        assert_eq!((stdout(&output).as_str(), output.status.code()), (said, Some(1)));
    }
    let help = stdout(&installed.run(&["-h"]));
    assert!(help.starts_with("Usage: smc_run [ OPTIONS ] COMMAND\nRun COMMAND using SMC for TCP sockets\n"));
}

/// What `script` prints under a shell that first does `before`, directly and by way of smc_run.
fn both_ways(installed: &Installed, before: &str, script: &str) -> [String; 2] {
    let path = installed.0.0.join("bin/smc_run");
    ["", path.to_str().expect("UTF-8")].map(|prefix| {
        let line = format!("{before}; exec {prefix} sh -c '{script}'");
        stdout(&Command::new("sh").args(["-c", &line]).output().expect("a shell"))
    })
}

#[test]
fn the_program_finds_signals_and_descriptors_as_smc_run_did() {
    let installed = Installed::without_library("run-signals");
    for before in ["trap \"\" PIPE", ":"] {
        let [plain, ours] = both_ways(&installed, before, "grep -E \"SigIgn|SigBlk\" /proc/self/status");
        assert_eq!(plain, ours, "{before}");
        assert!(plain.contains("SigIgn"));
    }
    let [plain, ours] = both_ways(&installed, "exec <&-", "readlink /proc/self/fd/0 || echo closed");
    assert_eq!((plain.as_str(), ours.as_str()), ("closed\n", "closed\n"));
}

#[test]
fn a_running_process_that_cannot_be_changed_is_told_by_an_exit_code() {
    let installed = Installed::new("run-change");
    let me = std::process::id().to_string();
    let ask = |args: &[&str]| {
        let mut command = installed.command(args);
        let output = command.env("SMC_REGISTRY_DIR", &installed.0.0).output().expect("smc_run starts");
        (output.status.code(), stderr(&output) + &stdout(&output))
    };
    // (Above the kernel's largest process id.)
    let (code, text) = ask(&["-p", "99999999", "--tcp"]);
    assert_eq!((code, text.as_str()), (Some(2), "smc_run: no process 99999999\n"));
    let (code, text) = ask(&["-p", &me, "--tcp"]);
    assert_eq!((code, text), (Some(4), format!("smc_run: process {me} does not run under the library\n")));
    for wrong in
        [&["-p", &me][..], &["--tcp"], &["-p", &me, "--smc", "-c", "all"], &["-p", &me, "--tcp", "sh"]]
    {
        let (code, text) = ask(wrong);
        assert_eq!(code, Some(1), "{wrong:?}");
        assert!(text.starts_with("smc_run: Error: A running process is changed by -p PID --tcp"), "{text}");
    }
}
