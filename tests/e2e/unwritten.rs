//! Codes that nobody has written down, for the process could not: what the tools conclude from what they see
//! of it is what the process tells on its own.

use crate::reasons::{
    MEMORY, NO_SMC, NOT_OURS, assert_rows, assert_says, assert_shown, bed, enabled, meet, start,
};
use isthmus_tests::{Bed, free_port, sys};
use std::process::Command;

/// What has the registry's name is somebody's file: it stays as it is.
#[test]
fn a_registry_that_is_something_else() {
    let Some((bed, python)) = bed("reasons-else") else { return };
    let path = bed.registry().join(format!("isthmus.{}", sys::euid()));
    std::fs::write(&path, "what somebody has put there").expect("our own file");
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&path, private).expect("our own");
    let ends = meet(&bed, &python, "", "");
    let rows = ["client", "listener", "server"].map(|end| format!("{end} TCP {NOT_OURS}"));
    assert_shown(&bed, &ends, &rows.each_ref().map(String::as_str));
    assert_says(&ends.server, "listen stays on TCP: Configuration error", NOT_OURS);
    assert_eq!(std::fs::read(&path).expect("it is there"), b"what somebody has put there");
    drop(ends);
    // An empty one was never anybody's.
    std::fs::write(&path, "").expect("our own file");
    let ends = meet(&bed, &python, "", "");
    assert_rows(&bed, &ends, &["client SMCD", "listener", "server SMCD"]);
}

/// Where a process may have so few descriptors, none is ours, and it can write nothing down.
#[test]
fn a_process_with_few_descriptors() {
    let Some((bed, python)) = bed("reasons-few") else { return };
    let port = free_port();
    let server = enabled(&bed, &python, "server", port, "");
    let client = with_few_descriptors(&bed, &enabled(&bed, &python, "client", port, ""));
    let ends = start(&bed, port, server, client);
    let of_server = format!("server TCP {NO_SMC}/{MEMORY}");
    assert_rows(&bed, &ends, &[&format!("client TCP {MEMORY}"), "listener", &of_server]);
    drop(ends);
    let port = free_port();
    let server = with_few_descriptors(&bed, &enabled(&bed, &python, "server", port, ""));
    let ends = start(&bed, port, server, enabled(&bed, &python, "client", port, ""));
    let of_client = format!("client TCP {NO_SMC}/{MEMORY}");
    let of_server = ["listener", "server"].map(|end| format!("{end} TCP {MEMORY}"));
    assert_shown(&bed, &ends, &[&of_client, &of_server[0], &of_server[1]]);
    assert_says(&ends.server, "listen stays on TCP: Out of memory", MEMORY);
}

fn with_few_descriptors(bed: &Bed, command: &Command) -> Command {
    let mut limited = bed.plain("sh");
    limited
        .args(["-c", "ulimit -n 100; exec \"$0\" \"$@\""])
        .arg(command.get_program())
        .args(command.get_args());
    limited.env_remove("LD_PRELOAD").current_dir(bed.scratch.path());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    limited
}
