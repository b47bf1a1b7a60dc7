//! What a fork costs a program with the library: pages that the child is given before it does anything.

use crate::{LIMIT, PROGRAM, good, last_number, load, serve};
use isthmus_tests::{Bed, Mode, free_port};

/// Beyond what a child without the library is given: its own copies of what the library writes in it.
const MORE: u64 = 50;

fn pages(mode: Mode) -> u64 {
    let bed = Bed::new("forked", mode);
    let port = u64::from(free_port());
    let _server = serve(&bed, &["mixed", "enabled"], &[port], "server");
    let run = bed.run(&mut load(bed.client(PROGRAM), &["forked", "client"], &[port]), "client", LIMIT);
    last_number(&good(&bed, "client", run))
}

#[test]
fn a_fork_child_is_given_few_pages_for_the_library() {
    if !Mode::wanted().contains(&Mode::Smc) {
        return;
    }
    let [plain, enabled] = [Mode::Plain, Mode::Smc].map(pages);
    assert!(enabled <= plain + MORE, "{enabled} pages, {plain} without the library");
}
