//! A daemon that answers later than it is waited for: that connection is TCP, and nothing after it.

use crate::far::{ALL_BY_MEMORY, Field, counts, does};
use crate::support::LIMIT;
use isthmus_tests::{Running, within};
use std::time::Duration;

/// For so many milliseconds the end waits whose question is answered late.
const PATIENCE: u32 = 1_000;

fn is_connected(field: &Field, port: u16) -> bool {
    let look = format!("ip netns exec {} cat /proc/net/tcp | grep -i ':{port:04X} 01 '", field.namespaces[1]);
    does(&look)
}

/// As long as `asks` waits in vain.
fn while_the_daemon_stands_still(field: &Field, asks: impl FnOnce()) {
    let daemon = field.daemon.as_ref().expect("it runs");
    daemon.signal(libc::SIGSTOP);
    asks();
    std::thread::sleep(Duration::from_millis(u64::from(PATIENCE) * 3 / 2));
    daemon.signal(libc::SIGCONT);
}

fn connect(field: &Field, port: &str, count: u32) -> Running {
    field.end(1, true, &["client", "10.5.0.1", port, &count.to_string(), "n"])
}

/// It only accepts, and finds nothing that it could ask for once no offer arrives.
#[test]
fn a_server_whose_question_is_answered_late_shares_the_next_connections() {
    let Some(mut field) = Field::new("far-late", "") else { return };
    field.patience = PATIENCE;
    let server = field.end(0, true, &["serving", "10.5.0.1", "7600", "0", "n"]);
    assert!(within(LIMIT, || server.output().out.contains("listens")), "{}", server.output());
    field.patience = 20_000;
    // (So little patience may be too little for a daemon that has no core.)
    let shares = || counts(connect(&field, "7600", 4), "before") == ALL_BY_MEMORY(4);
    assert!(within(LIMIT, shares), "{}", server.output());
    for turn in 0..2 {
        server.signal(libc::SIGSTOP);
        // (Its memory is new to the server.)
        let client = connect(&field, "7600", 1);
        assert!(within(LIMIT, || is_connected(&field, 7600)), "{}", client.output());
        while_the_daemon_stands_still(&field, || server.signal(libc::SIGCONT));
        assert_eq!(counts(client, "meanwhile").wrong, 0);
        let is_back = || counts(connect(&field, "7600", 2), "afterwards") == ALL_BY_MEMORY(2);
        assert!(within(LIMIT, is_back), "after {turn} times, {}", server.output());
    }
}
