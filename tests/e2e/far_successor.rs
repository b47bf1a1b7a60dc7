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
