//! Where the registry belongs in a folder that everybody may write to, another user has been first: with a
//! file, a FIFO, a file that makes whoever opens it wait, a link, a folder. The library takes another name,
//! and both ends find the same one.

use crate::{LIMIT, PROGRAM, good, load, server};
use isthmus_tests::{Bed, Mode, Running, free_port, sys, within};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::time::Duration;

const COUNT: u64 = 40;
const NOBODY: u32 = 65534;

fn bed(name: &str) -> Option<Bed> {
    if !Mode::wanted().contains(&Mode::Smc) {
        return None;
    }
    if sys::euid() != 0 {
        println!("skipped: {name}: another user is needed, and so root");
        return None;
    }
    Some(Bed::new(name, Mode::Smc))
}

/// Another user, who sits on the registry's name.
fn squatter(bed: &Bed, kind: &str) -> Running {
    let path = bed.registry().join("isthmus.0");
    let mut command = load(bed.plain(PROGRAM), &["squat", kind], &[]);
    let mut squatter = bed.start(command.env("BAR_PATH", &path).uid(NOBODY).gid(NOBODY), kind);
    let sits =
        within(Duration::from_secs(20), || squatter.output().out.contains("squatting") || !squatter.alive());
    assert!(sits && squatter.alive(), "{kind}: {}", squatter.output());
    squatter
}

fn churn(bed: &Bed, what: &str) {
    let numbers = [u64::from(free_port()), COUNT];
    let s = server(bed, &mut load(bed.server(PROGRAM), &["churn", "server"], &numbers), numbers[0], "server");
    let mut c = load(bed.client(PROGRAM), &["churn", "client"], &numbers);
    good(bed, what, bed.run(&mut c, "client", LIMIT));
    good(bed, what, s.finish(Duration::from_secs(20)));
}

#[test]
fn a_name_that_another_user_has_taken_switches_nobody_off() {
    for kind in ["file", "fifo", "lease", "link", "folder"] {
        let Some(bed) = bed(&format!("taken-{kind}")) else { return };
        let squatter = squatter(&bed, kind);
        churn(&bed, kind);
        let upgraded = bed.handshakes();
        assert!(upgraded > 0, "{kind}: the registry's name was taken, and no connection used shared memory");
        drop(squatter);
        churn(&bed, kind);
        assert!(bed.handshakes() > upgraded, "{kind}: not found again");
        let own = std::fs::read_dir(bed.registry()).expect("a folder").flatten();
        let own = own.filter(|entry| entry.metadata().is_ok_and(|about| about.uid() == 0)).count();
        assert_eq!(own, 1, "{kind}: one registry");
    }
}

/// The squatter has gone: the registry moves to its usual name, with those who use it.
#[test]
fn a_name_that_is_free_again_is_taken_up() {
    let Some(bed) = bed("free-again") else { return };
    drop(squatter(&bed, "file"));
    let numbers = [u64::from(free_port()), 0];
    let early =
        server(&bed, &mut load(bed.server(PROGRAM), &["many", "server"], &numbers), numbers[0], "early");
    std::fs::remove_file(bed.registry().join("isthmus.0")).expect("the squatter's");
    churn(&bed, "after it");
    assert!(bed.registry().join("isthmus.0").exists(), "the usual name is used");
    let before = bed.handshakes();
    let mut c = load(bed.client(PROGRAM), &["many", "client"], &[numbers[0], 5]);
    good(&bed, "a client of the early server", bed.run(&mut c, "client", LIMIT));
    assert_eq!(bed.handshakes(), before + 5, "the early server is not found any more");
    drop(early);
}

/// A /dev/shm that takes no writes, with and without a registry of before: the programs run, and smcss says
/// why they use TCP.
#[test]
fn a_folder_that_takes_no_writes() {
    for is_old in [false, true] {
        let Some(bed) = bed("read-only-shm") else { return };
        let dir = bed.registry().display().to_string();
        if is_old {
            churn(&bed, "before");
        }
        let port = free_port();
        let smcss = bed.tool_command("smcss").map(|c| c.get_program().to_owned()).expect("smcss");
        let smcss = smcss.to_string_lossy();
        let script = format!(
            "mount --bind '{dir}' '{dir}' && mount -o remount,ro,bind '{dir}' || exit 3
             ('{PROGRAM}' idle server {port} & sleep 0.5; '{PROGRAM}' idle client {port} &
              for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do '{smcss}' -a; sleep 0.1; done; wait)"
        );
        let outcome = bed.run(bed.server("unshare").args(["-m", "sh", "-c", &script]), "pair", LIMIT);
        let text = good(&bed, "read-only", outcome);
        let code = if is_old { "0x03000000" } else { "0x03030001" };
        assert!(text.contains(code) && !text.contains("SMCD"), "{code} is missing:\n{text}");
    }
}

/// A process that has no number to spare for a registry of its own leaves no half of one behind.
#[test]
fn a_process_of_few_descriptors_leaves_nothing_in_the_folder() {
    for limit in [8, 16, 64] {
        if !Mode::wanted().contains(&Mode::Smc) {
            return;
        }
        let bed = Bed::new("few-descriptors", Mode::Smc);
        let port = free_port();
        let script = format!("ulimit -n {limit}; exec '{PROGRAM}' idle server {port}");
        good(
            &bed,
            "a server of few descriptors",
            bed.run(bed.server("sh").args(["-c", &script]), "server", LIMIT),
        );
        let names = std::fs::read_dir(bed.registry()).expect("a folder").flatten();
        let drafts: Vec<_> = names
            .map(|entry| entry.file_name())
            .filter(|name| name.to_string_lossy().matches('.').count() > 1)
            .collect();
        assert!(drafts.is_empty(), "{limit} descriptors: {drafts:?}");
    }
}
