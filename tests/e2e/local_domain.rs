//! Sockets that TCP would not have carried either: they stay off it without a word, and count nowhere.

use crate::support::{LIMIT, python, script};
use isthmus_tests::{Bed, Mode};

#[test]
fn a_socket_of_the_local_domain_is_no_connection_that_stays_on_tcp() {
    let (Some(python), true) = (python(), Mode::wanted().contains(&Mode::Smc)) else { return };
    let bed = Bed::new("local-domain", Mode::Smc);
    let mut command = bed.tool_command("smc_run").expect("this bed has tools");
    command.arg("-d").arg(python).arg(script("local_domain.py")).arg(bed.scratch.path().join("socket"));
    let outcome = bed.run(&mut command, "local-domain", LIMIT);
    assert_eq!(outcome.out, "AF_UNIX word\nAF_UNIX again\nAF_INET word\nAF_INET again\n", "{outcome}");
    assert!(!outcome.err.contains("TCP"), "{outcome}");
    let counted = bed.tool("smcd", &["-d", "stats", "json"]);
    let of = |key: &str| {
        counted
            .split(&format!("\"{key}\":"))
            .nth(1)
            .and_then(|rest| rest.split(',').next())
            .map(str::to_owned)
    };
    assert_eq!(of("SMC_SRV_V2_SUCC_CNT").as_deref(), Some("2"), "{counted}");
    assert_eq!(of("SMC_SRV_FBACK_CNT").as_deref(), Some("0"), "{counted}");
}
