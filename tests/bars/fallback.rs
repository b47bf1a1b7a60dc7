//! Whatever fails, the program runs on TCP: each surrounding here takes something away that the library
//! wants, and the loads must end as well as ever. Which carrier they find is not asserted.

use crate::{LIMIT, PROGRAM, good, load, server};
use isthmus_tests::{Bed, Mode, free_port, sys};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const COUNT: u64 = 60;

/// One churn of both ends, changed by `adapt`, which is told whether the command is the server's.
fn churn(bed: &Bed, what: &str, adapt: impl Fn(&mut Command, bool)) {
    let numbers = [u64::from(free_port()), COUNT];
    let mut c = load(bed.server(PROGRAM), &["churn", "server"], &numbers);
    adapt(&mut c, true);
    let s = server(bed, &mut c, numbers[0], "server");
    let mut c = load(bed.client(PROGRAM), &["churn", "client"], &numbers);
    adapt(&mut c, false);
    good(bed, what, bed.run(&mut c, "client", LIMIT));
    good(bed, what, s.finish(Duration::from_secs(20)));
}

/// A bed with both ends enabled, or a plain one when only that is wanted: the loads must bear the
/// surroundings too.
fn bed(name: &str) -> Bed {
    let mode = if Mode::wanted().contains(&Mode::Smc) { Mode::Smc } else { Mode::Plain };
    Bed::new(name, mode)
}

#[test]
fn registry_cannot_be_made() {
    let bed = bed("no-registry");
    let file = bed.scratch.file("a-file", "not a directory");
    let read_only = bed.scratch.dir("read-only");
    std::fs::set_permissions(&read_only, std::fs::Permissions::from_mode(0o555)).expect("permissions");
    // (An empty value means the default place, where a test must leave nothing.)
    for place in [Path::new("/nonexistent/place"), &file, &read_only, Path::new("relative/place")] {
        churn(&bed, &format!("registry at {}", place.display()), |c, _| {
            c.env("SMC_REGISTRY_DIR", place);
        });
        churn(&bed, &format!("one registry at {}", place.display()), |c, server| {
            if server {
                c.env("SMC_REGISTRY_DIR", place);
            }
        });
    }
}

/// What other versions, crashes or other programs may have left in the registry's place.
#[test]
fn registry_holds_something_else() {
    let bed = bed("bad-registry");
    let fillings: [(&str, Vec<u8>); 5] = [
        ("empty", vec![]),
        ("short", vec![1; 100]),
        ("zeros", vec![0; 1 << 20]),
        ("garbage", (0..1 << 20).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()),
        ("ones", vec![0xff; 1 << 16]),
    ];
    churn(&bed, "first", |_, _| {});
    for (what, bytes) in &fillings {
        for entry in std::fs::read_dir(bed.registry()).expect("registry").flatten() {
            if entry.file_type().is_ok_and(|t| t.is_file()) {
                std::fs::write(entry.path(), bytes).expect("overwrite");
            }
        }
        churn(&bed, &format!("registry file: {what}"), |_, _| {});
    }
}

/// An update finds the registry of another version: nothing is shared while its programs run, and it is
/// replaced then.
#[test]
fn registry_of_another_version() {
    let bed = bed("other-version");
    if bed.mode != Mode::Smc {
        return;
    }
    churn(&bed, "first", |_, _| {});
    let path = registry_file(&bed);
    let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).expect("registry");
    std::os::unix::fs::FileExt::write_all_at(&file, &9u32.to_ne_bytes(), 8).expect("version");
    sys::lock_byte(&file, (1 << 40) + 5).expect("nobody else holds it");
    let upgraded = || bed.handshakes();
    churn(&bed, "beside the living", |_, _| {});
    assert_eq!(upgraded(), 0, "shared through a registry of another version");
    drop(file);
    churn(&bed, "after them", |_, _| {});
    assert!(upgraded() > 0, "the abandoned registry was not replaced");
}

fn registry_file(bed: &Bed) -> std::path::PathBuf {
    let files = std::fs::read_dir(bed.registry()).expect("registry").flatten();
    files.map(|entry| entry.path()).find(|path| path.is_file()).expect("a registry file")
}

#[test]
fn sandboxes_refuse_calls() {
    let bed = bed("sandbox");
    let lists = [
        "memfd_create",
        "eventfd2",
        "unix",
        "netlink",
        "memfd_create,eventfd2,unix,netlink",
        "epoll_ctl",
        "openat",
    ];
    for list in lists {
        for (server, client) in [(true, false), (false, true), (true, true)] {
            churn(&bed, &format!("without {list}, server {server}, client {client}"), |c, is_server| {
                if if is_server { server } else { client } {
                    c.env("BAR_DENY", list);
                }
            });
        }
    }
}

/// A shell's limits, set before the program starts. Output goes through a pipe because of `ulimit -f`.
#[test]
fn limits_are_tight() {
    let bed = bed("limits");
    for limit in ["-n 10", "-n 16", "-f 0", "-l 0", "-v 400000", "-s 512"] {
        let numbers = [u64::from(free_port()), COUNT];
        let line = |role: &str| {
            format!("(ulimit {limit}; exec '{PROGRAM}' churn {role} {} {COUNT}) | cat", numbers[0])
        };
        let s = server(&bed, bed.server("sh").arg("-c").arg(line("server")), numbers[0], "server");
        let c = bed.run(bed.client("sh").arg("-c").arg(line("client")), "client", LIMIT);
        assert!(good(&bed, limit, c).ends_with("good\n"), "ulimit {limit}: the client did not end well");
        let s = good(&bed, limit, s.finish(Duration::from_secs(20)));
        assert!(s.ends_with("good\n"), "ulimit {limit}: the server did not end well");
    }
}

/// A registry's file system with no room. Mounting needs root.
#[test]
fn memory_file_system_is_full() {
    let bed = bed("full");
    if sys::euid() != 0 || isthmus_tests::installed(&["unshare"]).is_none() {
        println!("skipped: mounting needs root");
        return;
    }
    for size in ["4k", "64k", "300k"] {
        let port = free_port();
        let dir = bed.registry().display().to_string();
        let script = format!(
            "mount -t tmpfs -o size={size} none '{dir}' && mount -t tmpfs -o size={size} none /dev/shm &&
             ('{PROGRAM}' churn server {port} {COUNT} & sleep 0.5; '{PROGRAM}' churn client {port} {COUNT} && wait $!)"
        );
        let outcome = bed.run(bed.server("unshare").args(["-m", "sh", "-c", &script]), "pair", LIMIT);
        let text = good(&bed, size, outcome);
        assert_eq!(text.matches("good").count(), 2, "{size}: {text}");
    }
}

/// Two users: plain TCP, whoever serves. Switching users needs root.
#[test]
fn another_user() {
    let bed = bed("users");
    if sys::euid() != 0 {
        println!("skipped: switching users needs root");
        return;
    }
    for server_is_root in [true, false] {
        churn(&bed, "two users", |c, is_server| {
            if is_server != server_is_root {
                c.uid(65534).gid(65534);
            }
        });
    }
}

#[test]
fn switched_off() {
    let mut bed = bed("off");
    for (server, client) in [(true, false), (false, true), (true, true)] {
        bed.mark();
        churn(&bed, "SMC_DISABLE=1", |c, is_server| {
            if if is_server { server } else { client } {
                c.env("SMC_DISABLE", "1");
            }
        });
        if let Some(n) = bed.crossed() {
            assert!(n > 10 * 60_000, "only {n} bytes crossed TCP with the library switched off");
        }
    }
}

#[test]
fn buffer_sizes_from_the_environment() {
    let bed = bed("buffers");
    for size in ["1", "16384", "20k", "64k", "1m", "999999999", "nonsense", ""] {
        churn(&bed, &format!("buffers of {size}"), |c, _| {
            c.env("SMC_RCVBUF", size).env("SMC_SNDBUF", size);
        });
    }
}
