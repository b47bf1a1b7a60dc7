//! What is compared if the user does not say it, and if they do.

use super::*;
use crate::compare::mock::{MockExecutor, Program};
use clap::Parser;

fn chosen(
    args: &[&str],
    has: fn(Path) -> Result<(), String>,
) -> anyhow::Result<(Vec<Path>, Path, Vec<String>)> {
    let program = Program::<PathChoice>::parse_from(["compare"].iter().chain(args));
    select(&program.options, &QUICK_PATHS, &mut MockExecutor::default().with_paths(has))
}

fn not_veth(path: Path) -> Result<(), String> {
    if path == Path::TcpVeth { Err("only root may make network namespaces".into()) } else { Ok(()) }
}

#[test]
fn what_does_not_work_here_is_left_out_and_named() {
    let (paths, baseline, notes) = chosen(&[], not_veth).expect("most of them work");
    assert_eq!((paths, baseline), (vec![Path::TcpLoopback, Path::Unix, Path::Smc], Path::TcpLoopback));
    assert_eq!(notes, ["tcp-veth was left out: only root may make network namespaces"]);
}

#[test]
fn what_the_user_wants_is_measured_or_refused_before_anything_runs() {
    let refused = chosen(&["--paths", "smc,tcp-veth,smc"], not_veth).expect_err("not here").to_string();
    assert_eq!(refused, "tcp-veth cannot be measured here: only root may make network namespaces");
    let (paths, baseline, notes) = chosen(&["--paths", "smc,tcp-veth,smc"], |_| Ok(())).expect("said");
    assert_eq!((paths, baseline, notes.len()), (vec![Path::Smc, Path::TcpVeth], Path::TcpVeth, 0));
    let (paths, baseline, _) = chosen(&["--paths", "smc,unix"], not_veth).expect("said");
    assert_eq!((paths, baseline), (vec![Path::Smc, Path::Unix], Path::Smc));
}

#[test]
fn a_baseline_is_measured_even_if_it_was_not_listed() {
    let (paths, baseline, _) = chosen(&["--paths", "smc", "--baseline", "unix"], |_| Ok(())).expect("said");
    assert_eq!((paths, baseline), (vec![Path::Unix, Path::Smc], Path::Unix));
}

#[test]
fn where_nothing_works_that_is_the_error() {
    let error = chosen(&[], |_| Err("no sockets".into())).expect_err("nothing works").to_string();
    assert!(error.contains("tcp-veth was left out: no sockets") && error.contains("; smc"), "{error}");
}
