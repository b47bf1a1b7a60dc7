//! `ismd --trace`: an operator sees each step by which a connection comes to share memory, or the code that
//! keeps it from that; of what was asked for, and of nothing else.

use crate::far::{ALL_BY_MEMORY, ALL_BY_TCP, Field, WAYS};
use crate::support::LIMIT;
use isthmus_tests::{Running, within};
use std::process::Command;

/// One who looks, of those connections.
fn look(field: &Field, name: &str, filter: &[&str]) -> Running {
    let mut command = Command::new(field.dist.tool("ismd"));
    command.arg("--trace").arg("--socket").arg(field.socket()).args(filter);
    let tracer = Running::start(&mut command, field.scratch.path(), name);
    assert!(within(LIMIT, || tracer.output().err.contains("traces")), "{}", tracer.output());
    tracer
}

/// Steps that were seen so far: a cookie, and all that follows.
fn steps(tracer: &Running) -> Vec<(String, String)> {
    let step = |line: &str| {
        let mut words = line.splitn(3, ' ').skip(1).map(String::from);
        Some((words.next()?, words.next()?))
    };
    tracer.output().out.lines().filter_map(step).collect()
}

#[test]
fn each_step_of_a_connection_is_seen_by_the_port_of_either_end() {
    let Some(field) = Field::new("far-traced", "[[rule]]\nallow = false\nserver = { port = 7103 }\n") else {
        return;
    };
    let behind = look(&field, "behind", &["--port", "7000"]);
    let refused = look(&field, "refused", &["--address", "fd05::2"]);
    let nobody = look(&field, "nobody", &["--pid", "1"]);
    let other = look(&field, "unanswered", &["--port", "7102"]);
    assert_eq!(field.pair(&WAYS[4], (true, true), 2, "server"), [ALL_BY_MEMORY(2); 2]);
    assert_eq!(field.pair(&WAYS[3], (true, true), 2, "server"), [ALL_BY_TCP(2); 2]);
    assert_eq!(field.pair(&WAYS[2], (false, true), 1, "server"), [ALL_BY_TCP(1); 2]);
    let has = |tracer: &Running, word: &str| {
        steps(tracer).iter().filter(|(_, step)| step.starts_with(word)).count()
    };
    assert!(
        within(LIMIT, || has(&behind, "taken") == 2 && has(&refused, "refused") == 2),
        "{}",
        behind.output()
    );
    let seen = steps(&behind);
    let cookie = &seen[0].0;
    let of_first: Vec<&str> =
        seen.iter().filter(|(of, _)| of == cookie).map(|(_, step)| step.as_str()).collect();
    let [offered, answered, taken] = of_first[..] else { panic!("{seen:?}") };
    assert!(offered.starts_with("offered pid ") && offered.ends_with(" 10.5.0.1:9000"), "{offered}");
    assert!(answered.starts_with("answered pid ") && answered.contains(" 10.5.0.2:"), "{answered}");
    assert!(taken.starts_with("taken pid ") && taken.contains(" 10.5.0.1:7000 10.5.0.2:"), "{taken}");
    assert!(has(&behind, "passed pid") >= 1, "the daemon's part: {seen:?}");
    let refusals = steps(&refused);
    let is_told = |(_, step): &(String, String)| {
        step.contains("[fd05::1]:7103") && step.contains(" 0x05000000 Peer declined")
    };
    assert_eq!(refusals.iter().filter(|step| is_told(step)).count(), 2, "{refusals:?}");
    assert!(refusals.iter().all(|(_, step)| !step.contains("10.5.0.")), "{refusals:?}");
    assert_eq!(steps(&nobody), []);
    let whose = offered.split(' ').nth(2).expect("a pid").to_string();
    assert!(within(LIMIT, || has(&other, "unanswered") == 1), "{}", other.output());
    assert!(steps(&other).iter().all(|(_, step)| !step.contains(&format!("pid {whose} "))));
}
