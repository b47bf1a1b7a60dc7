//! A server that stalled once is a server again soon, however many waited for it meanwhile.

use crate::{LIMIT, PROGRAM, assert_nothing_left, good, load, serve, shared_files};
use isthmus_tests::{Bed, Mode, free_port};

/// Connections that wait for one stall.
const STALLED: u64 = 10;

#[test]
fn one_stall_counts_once_for_all_who_waited() {
    if !Mode::wanted().contains(&Mode::Smc) {
        return;
    }
    let bed = Bed::new("stall", Mode::Smc);
    let (port, before) = (u64::from(free_port()), shared_files());
    let server = serve(&bed, &["stall", "server"], &[port, STALLED], "server");
    let run =
        bed.run(&mut load(bed.client(PROGRAM), &["stall", "client"], &[port, STALLED]), "client", LIMIT);
    let line = good(&bed, "client", run);
    let shared = bed.handshakes();
    drop(server);
    assert!(shared > 0, "{line}, and none in shared memory");
    assert_nothing_left(&bed, &before);
}
