//! Rules by address and port: the kernel decides by what the server's socket has, behind whatever translates
//! addresses; both ends stay on TCP and show the code; and neither a new policy, nor a new daemon, nor an end
//! that lies gets around it.

use crate::far::{ALL_BY_MEMORY, ALL_BY_TCP, Counts, Field, WAYS, counts};
use crate::far_shown::{stop, talk, told};
use crate::far_taken::{COUNT, OPERATOR, reload, rows};
use crate::support::LIMIT;
use isthmus_tests::within;

const DECLINED: &str = "TCP 0x05000000";
const BEHIND_DNAT: &str = "[[rule]]\nallow = false\nserver = { port = 7000, address = \"10.5.0.0/24\" }\n";

#[test]
fn what_a_rule_says_of_a_place_holds_there_and_nowhere_else() {
    let policy = "[[rule]]\nallow = false\nserver = { port = [7000, \"7103-7110\"], address = [\"10.5.0.0/24\", \"fd05::1\"] }\n\
                  [[rule]]\nallow = false\nclient = { address = \"::1\" }\n";
    let Some(field) = Field::new("far-places", policy) else { return };
    for way in &WAYS {
        let is_shared = ["loopback", "bridge"].contains(&way.name);
        let expected = if is_shared { ALL_BY_MEMORY(6) } else { ALL_BY_TCP(6) };
        assert_eq!(field.pair(way, (true, true), 6, "server"), [expected; 2], "{}", way.name);
    }
}

#[test]
fn a_rule_can_allow_one_port_to_who_may_not_talk_otherwise() {
    let policy = "[[rule]]\nallow = true\nserver = { port = 7102 }\n[[rule]]\nallow = false\n";
    let Some(field) = Field::new("far-one-port", policy) else { return };
    assert_eq!(field.pair(&WAYS[2], (true, true), 6, "server"), [ALL_BY_MEMORY(6); 2]);
    assert_eq!(field.pair(&WAYS[3], (true, true), 6, "server"), [ALL_BY_TCP(6); 2]);
}

#[test]
fn both_ends_show_why_and_a_new_policy_counts_at_once() {
    let Some(field) = Field::new("far-place-shown", BEHIND_DNAT) else { return };
    let ends = talk(&field, COUNT, "stop");
    let shown = || told(&field, "smcss", &["-a"], Some(&field.registry(1, "talking")));
    assert!(within(LIMIT, || rows(&field, DECLINED) == 2 * COUNT as usize), "{}", shown());
    assert_eq!(stop(&field, "stop", ends), [ALL_BY_TCP(COUNT); 2]);
    reload(&field, "");
    let ends = talk(&field, COUNT, "stop-again");
    assert_eq!(rows(&field, "SMCD"), 2 * COUNT as usize, "{}", shown());
    reload(&field, BEHIND_DNAT);
    assert!(within(LIMIT, || rows(&field, OPERATOR) == 2 * COUNT as usize), "{}", shown());
    assert_eq!(stop(&field, "stop-again", ends), [ALL_BY_TCP(COUNT); 2]);
}

/// Its policy would be the kernel's from then on.
#[test]
fn a_second_daemon_overwrites_nothing_of_the_first() {
    let Some(mut field) = Field::new("far-second", BEHIND_DNAT) else { return };
    let second = field.second_daemon();
    assert!(!second.ok() && second.err.contains("another daemon's, which runs"), "{second}");
    let ends = talk(&field, COUNT, "stop");
    assert_eq!(stop(&field, "stop", ends), [ALL_BY_TCP(COUNT); 2]);
    // (What the kernel holds ends with the process.)
    field.restart_daemon("");
    let ends = talk(&field, COUNT, "stop-again");
    assert_eq!(stop(&field, "stop-again", ends), [ALL_BY_MEMORY(COUNT); 2]);
}

/// The server has nothing to ask the new daemon for: who it is, is looked up.
#[test]
fn a_daemon_that_is_started_anew_judges_processes_that_it_never_met() {
    let Some(mut field) = Field::new("far-place-anew", BEHIND_DNAT) else { return };
    let server = field.end(0, true, &["server", "10.5.0.1", "7000", "12", "n"]);
    assert!(within(LIMIT, || server.output().out.contains("listens")));
    let connect =
        |field: &Field| counts(field.end(1, true, &["client", "10.5.0.1", "9000", "6", "n"]), "behind DNAT");
    assert_eq!(connect(&field), ALL_BY_TCP(6));
    field.restart_daemon("");
    assert_eq!(connect(&field), ALL_BY_MEMORY(6));
    assert_eq!(counts(server, "the server"), Counts { memory: 6, tcp: 6, wrong: 0 });
}

/// As with a function that was taken away: what stands in memory is either end's to change, and says nothing.
#[test]
fn who_lies_about_memory_that_a_policy_took_back_gains_nothing() {
    let Some(field) = Field::new("far-place-lies", "") else { return };
    let server = field.end(0, true, &["server", "10.5.0.1", "7502", "12", "n"]);
    assert!(within(LIMIT, || server.output().out.contains("listens")));
    let stop = field.at("stop").display().to_string();
    let client = field.end(1, true, &["lying", "10.5.0.1", "7502", "6", "n", &stop]);
    assert!(within(LIMIT, || client.output().out.contains("memory 6 tcp 0 wrong 0")), "{}", client.output());
    reload(&field, "[[rule]]\nallow = false\nserver = { port = 7502 }\n");
    let is_back = || field.daemon.as_ref().is_some_and(|it| it.output().err.contains("takes memory back"));
    assert!(within(LIMIT, is_back));
    std::fs::write(field.at("stop"), "").expect("a file");
    assert!(within(LIMIT, || client.output().out.contains("undone 1")), "{}", client.output());
    assert_eq!(counts(client, "a liar"), ALL_BY_TCP(6));
    assert_eq!(counts(server, "its server"), Counts { memory: 6, tcp: 6, wrong: 0 });
}
