//! A listener goes on being marked for who accepts from it, once the program that called listen() is over;
//! and while that runs, nobody else gets it.

use crate::far::{ALL_BY_MEMORY, Field, counts, must};
use crate::support::LIMIT;
use isthmus_tests::{Running, within};

const PORT: &str = "7700";

/// Connections of a client in the other container.
fn connect(field: &Field, count: u32) -> Running {
    field.end(1, true, &["client", "10.5.0.1", PORT, &count.to_string(), "n"])
}

fn is_marked_soon(field: &Field, server: &Running) {
    let shares = || {
        let one = counts(connect(field, 1), "one");
        assert_eq!(one.wrong, 0);
        one == ALL_BY_MEMORY(1)
    };
    assert!(within(LIMIT, shares), "{}", server.output());
}

/// Who has served so far, the first one first.
fn servers(server: &Running) -> Vec<i32> {
    let mut all = vec![];
    for pid in server.output().out.lines().filter_map(|line| line.split_once(" serves ")?.0.parse().ok()) {
        if !all.contains(&pid) {
            all.push(pid);
        }
    }
    all
}

fn left_by(way: &str, field: &Field) -> Running {
    let server = field.program(0, true, "heirs.py", &[way, "10.5.0.1", PORT]);
    let listens = || server.output().out.contains("listens");
    assert!(within(LIMIT, listens), "{way}: {}", server.output());
    is_marked_soon(field, &server);
    assert_eq!(counts(connect(field, 12), way), ALL_BY_MEMORY(12), "{way}: {}", server.output());
    server
}

#[test]
fn who_is_left_with_a_listener_gets_its_marks() {
    let Some(field) = Field::new("far-heirs", "") else { return };
    for way in ["ending", "becoming", "again", "handed"] {
        left_by(way, &field);
    }
}

/// The marks are one's at a time; the other finds what comes to it where that one's lies. Also where the
/// daemon that gave both their tables is another one by the time the first of them ends.
#[test]
fn of_two_that_are_left_both_share_memory_and_the_second_when_the_first_has_ended() {
    let Some(mut field) = Field::new("far-siblings", "") else { return };
    for restarts in [false, true] {
        let server = left_by("ending", &field);
        assert_eq!(servers(&server).len(), 2, "both accept: {}", server.output());
        if restarts {
            field.restart_daemon("");
        }
        // (The first that served has asked for the marks.)
        must(&format!("kill -9 {}", servers(&server)[0]));
        is_marked_soon(&field, &server);
        assert_eq!(counts(connect(&field, 6), "the other one"), ALL_BY_MEMORY(6), "{}", server.output());
    }
}

#[test]
fn nobody_gets_the_marks_of_a_listener_whose_program_runs() {
    let Some(field) = Field::new("far-thief", "") else { return };
    must(&format!("chmod 711 {0} && chmod 755 {0}/run", field.scratch.path().display()));
    let server = field.end(0, true, &["serving", "10.5.0.1", PORT, "0", "n"]);
    assert!(within(LIMIT, || server.output().out.contains("listens")), "{}", server.output());
    is_marked_soon(&field, &server);
    let owner = server.pid().to_string();
    // (Its own user's may look where the marks go: they could write into its memory as well.)
    for (user, told) in [("0", "passed"), ("65534", "refused:5000000")] {
        let thief = field.program(1, false, "thief.py", &["10.5.0.1", PORT, &owner, user]);
        let out = thief.finish(LIMIT).must("the thief").out;
        let no = "refused:4000000";
        let nothing = format!("nothing: {}", [no; 7].join(" "));
        let expected = format!("without a table: {no}\nunproven: {no}\n{nothing}\nanother's: {told}\n");
        assert_eq!(out, expected, "as {user}");
        assert_eq!(counts(connect(&field, 6), "afterwards"), ALL_BY_MEMORY(6), "as {user}");
    }
}
