//! Connections that end before shared memory has paid for their beginning: a process makes few of them, and
//! says why the rest is TCP.

use crate::reasons::{BRIEF, LONG, assert_says, bed, counted, enabled, start};
use isthmus_tests::{free_port, within};

/// A loop that makes a connection for everything, and is to be told of the second brief one.
#[test]
fn connections_that_do_not_pay() {
    let Some((bed, python)) = bed("reasons-brief") else { return };
    let port = free_port();
    let server = enabled(&bed, &python, "server", port, "");
    let mut client = enabled(&bed, &python, "client", port, "brief");
    client.env("SMC_BRIEF", "1");
    let ends = start(&bed, port, server, client);
    assert_says(&ends.client, "connect stays on TCP: Connections there are too brief to pay", BRIEF);
    assert!(within(LONG, || counted(&bed, "Client").iter().any(|row| row.starts_with("BRIEF "))));
    // Any number of them, if that is wanted. (By then the first client writes into its file no more.)
    drop(ends);
    let port = free_port();
    let server = enabled(&bed, &python, "server", port, "");
    let mut client = enabled(&bed, &python, "client", port, "brief");
    client.env("SMC_BRIEF", "0");
    let ends = start(&bed, port, server, client);
    assert!(within(LONG, || ends.client.output().out.contains("connected")), "{}", ends.client.output());
    assert!(!ends.client.output().err.contains(BRIEF), "{}", ends.client.output());
}
