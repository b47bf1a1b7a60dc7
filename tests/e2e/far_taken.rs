//! What an operator takes away while it is used: connections between containers go to TCP with not a byte
//! wrong, no new one is shared, and the codes say why; until it is given back.

use crate::far::{ALL_BY_MEMORY, ALL_BY_TCP, Counts, Field, WAYS, counts};
use crate::far_shown::{stop, talk, told};
use crate::support::LIMIT;
use isthmus_tests::within;

pub(crate) const OPERATOR: &str = "TCP 0x03000001";
const NO_DEVICE: &str = "TCP 0x03030001";
const HUP: i32 = 1;
/// Connections under way.
pub(crate) const COUNT: u32 = 8;

/// How many rows of the pair have such a mode, as root sees them.
pub(crate) fn rows(field: &Field, mode: &str) -> usize {
    let (server, client) = (field.registry(0, "answering"), field.registry(1, "talking"));
    let count = |folder| {
        let text = told(field, "smcss", &["-a"], Some(folder));
        let of_mode = text.lines().filter(|line| line.starts_with("ACTIVE") && line.contains(mode));
        of_mode.map(String::from).collect::<Vec<_>>()
    };
    let mut all = [count(&server), count(&client)].concat();
    all.sort();
    all.dedup();
    all.len()
}

/// Another policy for the daemon that runs.
pub(crate) fn reload(field: &Field, policy: &str) {
    let so_far = |word| field.daemon.as_ref().map_or(0, |it| it.output().err.matches(word).count());
    let judged = || so_far("the kernel has the policy") + so_far("keeps the policy");
    let before = judged();
    field.scratch.file("ismd.toml", policy);
    field.daemon.as_ref().expect("it runs").signal(HUP);
    assert!(within(LIMIT, || judged() > before), "it has read its policy");
}

/// The address of the one function that there is, and whether it is in use.
fn function(field: &Field) -> (String, String) {
    let text = told(field, "smcd", &["device"], None);
    let words: Vec<&str> = text.lines().nth(2).expect("a function").split_whitespace().collect();
    (words[2].into(), words[4].into())
}

#[test]
fn a_function_that_is_disabled_under_load_leaves_its_connections_on_tcp_and_gets_no_new_ones() {
    let Some(field) = Field::new("far-disabled", "") else { return };
    let ends = talk(&field, COUNT, "stop");
    assert_eq!(rows(&field, "SMCD"), 2 * COUNT as usize);
    let (name, in_use) = function(&field);
    assert_eq!(in_use, "Yes");
    told(&field, "smcd", &["device", "disable", &name], None);
    assert!(within(LIMIT, || rows(&field, OPERATOR) == 2 * COUNT as usize), "all of them are on TCP");
    assert_eq!(function(&field), (name.clone(), "Off".into()));
    assert_eq!(stop(&field, "stop", ends), [ALL_BY_TCP(COUNT); 2], "0 wrong");
    let ends = talk(&field, 2, "stop-again");
    assert!(
        within(LIMIT, || rows(&field, NO_DEVICE) == 2),
        "{}",
        told(&field, "smcss", &["-a"], Some(&field.registry(1, "talking")))
    );
    assert_eq!(stop(&field, "stop-again", ends), [ALL_BY_TCP(2); 2]);
}

#[test]
fn a_function_that_is_given_back_serves_programs_that_ran_all_the_time() {
    let Some(field) = Field::new("far-enabled", "") else { return };
    let server = field.end(0, true, &["server", "10.5.0.1", "7501", "18", "n"]);
    assert!(within(LIMIT, || server.output().out.contains("listens")));
    let connect = || counts(field.end(1, true, &["client", "10.5.0.1", "7501", "6", "n"]), "a client");
    let switch = |command| told(&field, "smcd", &["device", command, &function(&field).0], None);
    assert_eq!(connect(), ALL_BY_MEMORY(6));
    switch("disable");
    assert_eq!(connect(), ALL_BY_TCP(6));
    switch("enable");
    assert_eq!(connect(), ALL_BY_MEMORY(6));
    assert_eq!(counts(server, "the server"), Counts { memory: 12, tcp: 6, wrong: 0 });
}

#[test]
fn a_policy_that_forbids_what_is_under_way_ends_it_without_a_wrong_byte() {
    let Some(field) = Field::new("far-forbidden", "") else { return };
    let ends = talk(&field, COUNT, "stop");
    let reload = |policy| reload(&field, policy);
    reload("[[rule]]\nallow = true\n");
    reload("[[rule]]\nallow = maybe\n");
    assert_eq!(
        rows(&field, "SMCD"),
        2 * COUNT as usize,
        "what allows the same, or is faulty, changes nothing"
    );
    reload("[[rule]]\nallow = false\n");
    assert!(within(LIMIT, || rows(&field, OPERATOR) == 2 * COUNT as usize), "all of them are on TCP");
    assert_eq!(stop(&field, "stop", ends), [ALL_BY_TCP(COUNT); 2]);
    assert_eq!(field.pair(&WAYS[2], (true, true), 6, "server"), [ALL_BY_TCP(6); 2]);
    reload("");
    let by_memory = || field.pair(&WAYS[3], (true, true), 6, "server") == [ALL_BY_MEMORY(6); 2];
    assert!(within(LIMIT, by_memory), "and back");
}

/// A client that connects again and again while the function comes and goes: its connections are shared while
/// it is there, and not while it is not, and each of them is right; also when it is there for moments only.
#[test]
fn connections_that_are_made_while_a_function_comes_and_goes_are_right() {
    let Some(field) = Field::new("far-coming", "") else { return };
    let server = field.end(0, true, &["serving", "10.5.0.1", "7500", "0", "n"]);
    assert!(within(LIMIT, || server.output().out.contains("listens")));
    let stop = field.at("stop").display().to_string();
    let client = field.end(1, true, &["coming", "10.5.0.1", "7500", "0", "n", &stop]);
    let so_far = |way| client.output().out.matches(way).count();
    let another = |way| {
        let before = so_far(way);
        assert!(within(LIMIT, || so_far(way) > before), "none {way}, {}", client.output());
    };
    another("by memory");
    let name = function(&field).0;
    let switch = |command| told(&field, "smcd", &["device", command, &name], None);
    for _ in 0..5 {
        switch("disable");
        another("by tcp");
        switch("enable");
        another("by memory");
    }
    for _ in 0..30 {
        switch("disable");
        switch("enable");
    }
    another("by memory");
    std::fs::write(field.at("stop"), "").expect("a file");
    let [of_server, of_client] = [server, client].map(|end| counts(end, "while a function comes and goes"));
    assert_eq!((of_server.memory + of_server.tcp, of_server.wrong), (of_client.memory + of_client.tcp, 0));
    assert!(of_client.wrong == 0 && of_client.memory >= 7 && of_client.tcp >= 5, "{of_client:?}");
}

/// A program that undoes in its memory what says that this was taken back: the kernel marks nothing of it.
#[test]
fn who_lies_about_memory_that_was_taken_back_gains_nothing() {
    let Some(field) = Field::new("far-lies", "") else { return };
    let server = field.end(0, true, &["server", "10.5.0.1", "7502", "12", "n"]);
    assert!(within(LIMIT, || server.output().out.contains("listens")));
    let stop = field.at("stop").display().to_string();
    let client = field.end(1, true, &["lying", "10.5.0.1", "7502", "6", "n", &stop]);
    assert!(within(LIMIT, || client.output().out.contains("memory 6 tcp 0 wrong 0")), "{}", client.output());
    told(&field, "smcd", &["device", "disable", &function(&field).0], None);
    assert!(within(LIMIT, || field
        .daemon
        .as_ref()
        .is_some_and(|it| it.output().err.contains("takes memory back"))));
    std::fs::write(field.at("stop"), "").expect("a file");
    assert!(within(LIMIT, || client.output().out.contains("undone 1")), "{}", client.output());
    assert_eq!(counts(client, "a liar"), ALL_BY_TCP(6));
    assert_eq!(counts(server, "its server"), Counts { memory: 6, tcp: 6, wrong: 0 });
}
