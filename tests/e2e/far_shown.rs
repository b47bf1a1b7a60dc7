//! What the tools on the host show of connections between network namespaces that met through the host
//! daemon: both ends, each with the addresses that it has itself.

use crate::far::{ALL_BY_MEMORY, Counts, Field, counts};
use crate::support::LIMIT;
use isthmus_tests::{Running, within};
use std::path::Path;
use std::process::Command;

/// What a tool prints; with `folder`, as a user of these registries asks.
pub(crate) fn told(field: &Field, tool: &str, arguments: &[&str], folder: Option<&Path>) -> String {
    let mut command = Command::new(field.dist.tool(tool));
    command.args(arguments).env_remove("SMC_REGISTRY_DIR").env_remove("LD_PRELOAD");
    command.env("ISMD_SOCKET", field.socket());
    folder.map(|folder| command.env("SMC_REGISTRY_DIR", folder));
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{tool} {arguments:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Connections that go on, behind DNAT, until there is a file of the name `stop`.
pub(crate) fn talk(field: &Field, count: u32, stop: &str) -> [Running; 2] {
    let (count, stop) = (count.to_string(), field.at(stop).display().to_string());
    let server = field.end(0, true, &["answering", "10.5.0.1", "7000", &count, "n"]);
    assert!(within(LIMIT, || server.output().out.contains("listens")), "{}", server.output());
    let client = field.end(1, true, &["talking", "10.5.0.1", "9000", &count, "n", &stop]);
    assert!(within(LIMIT, || client.output().out.contains("talks")), "{}", client.output());
    [server, client]
}

/// Their counts, the server's first.
pub(crate) fn stop(field: &Field, stop: &str, ends: [Running; 2]) -> [Counts; 2] {
    std::fs::write(field.at(stop), "").expect("a file");
    ends.map(|end| counts(end, stop))
}

#[test]
fn smcss_shows_both_ends_of_a_connection_between_containers() {
    let Some(field) = Field::new("far-shown", "") else { return };
    let ends = talk(&field, 2, "stop");
    let [server, client] = [field.registry(0, "answering"), field.registry(1, "talking")];
    // (Everybody else's of this machine are there, too, unless it is said whose are meant.)
    for folder in [None, Some(&*server), Some(&*client)] {
        for arguments in [&["-a"][..], &[], &["-D"]] {
            let text = told(&field, "smcss", arguments, folder);
            let is_one = |line: &str| line.starts_with("ACTIVE") && line.contains(" SMCD");
            let row = |local: &str, peer: &str| {
                let words = |line: &str| line.split_whitespace().map(String::from).collect::<Vec<_>>();
                let rows = text.lines().filter(|line| is_one(line)).map(words);
                rows.filter(|row| row[3].starts_with(local) && row[4].starts_with(peer)).count()
            };
            let what = format!("{arguments:?} {folder:?}:\n{text}");
            assert!(row("10.5.0.1:7000", "10.5.0.2:") >= 2, "the server's ends, {what}");
            assert!(row("10.5.0.2:", "10.5.0.1:9000") >= 2, "the client's ends, {what}");
        }
    }
    let elsewhere = field.scratch.dir("elsewhere");
    assert!(!told(&field, "smcss", &["-a"], Some(&elsewhere)).contains("10.5.0."), "none of those is meant");
    let json = told(&field, "smcss", &["-d", "--json"], Some(&server));
    let peer = r#""peer": {"address": "10.5.0.1", "port": 9000}"#;
    let of_clients = json.lines().filter(|line| line.contains(peer) && line.contains("\"mode\": \"SMCD\""));
    assert_eq!(of_clients.count(), 2, "{json}");
    let processes = told(&field, "smcss", &["-p"], Some(&server));
    assert!(
        processes.lines().filter(|line| line.contains("SMCD") && line.contains("python")).count() >= 4,
        "{processes}"
    );
    assert_eq!(stop(&field, "stop", ends), [ALL_BY_MEMORY(2); 2]);
    let after = told(&field, "smcss", &["-a"], Some(&server));
    assert!(!after.contains("10.5.0."), "they have ended: {after}");
}

#[test]
fn smcd_counts_connections_between_containers() {
    let Some(field) = Field::new("far-counted", "") else { return };
    let ends = talk(&field, 2, "stop");
    let server = field.registry(0, "answering");
    let groups = told(&field, "smcd", &["linkgroup"], Some(&server));
    let connections =
        groups.lines().skip(1).filter_map(|line| line.split_whitespace().nth(2)?.parse::<u32>().ok());
    assert_eq!(connections.collect::<Vec<_>>(), [2], "{groups}");
    let devices = told(&field, "smcd", &["device"], Some(&server));
    assert!(devices.lines().any(|line| line.contains("isthmus-ism") && line.contains("Yes")), "{devices}");
    let received = |folder: &Path| {
        let stats = told(&field, "smcd", &["-a", "stats", "json"], Some(folder));
        let rest = stats.split("RX_BYTES\":").nth(1).expect("a number");
        rest.split([',', '}']).next().and_then(|word| word.parse::<u64>().ok()).expect("a number")
    };
    let live = received(&server);
    assert!(live > 0, "what they have moved so far counts");
    assert_eq!(stop(&field, "stop", ends), [ALL_BY_MEMORY(2); 2]);
    assert!(received(&server) >= live, "and goes on counting when they have ended");
}
