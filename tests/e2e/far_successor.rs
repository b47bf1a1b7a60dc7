//! Who a process is: the program that said hello, and none that runs under its number later, which may be
//! another user's.

use crate::far::Field;
use crate::support::LIMIT;
use isthmus_tests::within;

#[test]
fn nobody_speaks_for_the_next_program_of_a_process() {
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let Some(field) = Field::new("far-successor", "") else { return };
    let server = field.end(0, true, &["server", "10.5.0.1", "7102", "11", "n"]);
    assert!(within(LIMIT, || server.output().out.contains("listens")), "{}", server.output());
    let process = field.program(1, true, "successor.py", &["10.5.0.1", "7102"]);
    let has_said = |word| within(LIMIT, || process.output().out.contains(word));
    assert!(has_said("spoke"), "the next program is served: {}", process.output());
    assert!(has_said("asked True believed 0"), "{}", process.output());
}

#[test]
fn a_table_counts_for_who_answers_with_its_proof_and_was_the_program_that_asked() {
    let Some(field) = Field::new("far-stale", "") else { return };
    let server = field.end(0, true, &["server", "10.5.0.1", "7103", "10", "n"]);
    assert!(within(LIMIT, || server.output().out.contains("listens")), "{}", server.output());
    let daemon = field.daemon_pid().to_string();
    let process = field.program(1, false, "stale.py", &["10.5.0.1", "7103", &daemon]);
    let has_said = |word| within(LIMIT, || process.output().out.contains(word));
    assert!(has_said("spoke"), "the next program is served: {}", process.output());
    assert!(has_said("stale: "), "{}", process.output());
    let out = process.output();
    assert!(out.out.contains("honest: passed refused refused done end\n"), "{out}");
    assert!(out.out.contains("believed 0\n") && !out.out.contains("refused done asked"), "{out}");
}
