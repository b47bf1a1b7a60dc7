//! The program that is run over TCP and over SMC: it performs one named case and prints what every call
//! returned. Invariant: a transcript contains nothing that depends on timing, addresses or buffer sizes, so
//! two runs over plain TCP print the same text. Lines that start with '#' are remarks and not part of the
//! transcript.
//!
//! `parity-case --list`, `parity-case CASE client|server`, and inside a case `parity-case --peer` (the other
//! end, driven through its stdin), `parity-case --inherited FD`, `parity-case --passes FD` and `parity-case
//! --after-exec HOW FD` (programs that were exec'ed with a connection).

mod cases_after_exec;
mod cases_agreed;
mod cases_cancel;
mod cases_clone;
mod cases_close;
mod cases_control;
mod cases_data;
mod cases_differs;
mod cases_dissolve;
mod cases_early;
mod cases_elsewhere;
mod cases_end;
mod cases_ends;
mod cases_epoll;
mod cases_errno;
mod cases_exec;
mod cases_family;
mod cases_fds;
mod cases_filter;
mod cases_filter_rest;
mod cases_fork;
mod cases_full;
mod cases_handed;
mod cases_handler;
mod cases_interest;
mod cases_kept;
mod cases_left;
mod cases_limit;
mod cases_locks;
mod cases_messages;
mod cases_move;
mod cases_names;
mod cases_nap;
mod cases_odd;
mod cases_onward;
mod cases_operator;
mod cases_options;
mod cases_order;
mod cases_overflow;
mod cases_passed;
mod cases_peek;
mod cases_pointers;
mod cases_poll;
mod cases_push;
mod cases_queue;
mod cases_reset;
mod cases_scarce;
mod cases_sets;
mod cases_sets_fork;
mod cases_sets_passed;
mod cases_sharer;
mod cases_signal;
mod cases_slots;
mod cases_stack;
mod cases_stack_all;
mod cases_stale;
mod cases_stall;
mod cases_told;
mod cases_turns;
mod cases_unseen;
mod cases_values;
mod context;
mod peer;

use context::{Case, Cx, Role};

fn all() -> Vec<Case> {
    // (With the slowest cases first, no thread goes on with one of them when the others have nothing left.)
    let groups: &[&[Case]] = &[
        cases_operator::CASES,
        cases_push::CASES,
        cases_queue::CASES,
        cases_data::CASES,
        cases_close::CASES,
        cases_ends::CASES,
        cases_told::CASES,
        cases_slots::CASES,
        cases_sharer::CASES,
        cases_signal::CASES,
        cases_nap::CASES,
        cases_cancel::CASES,
        cases_handler::CASES,
        cases_fds::CASES,
        cases_fork::CASES,
        cases_family::CASES,
        cases_clone::CASES,
        cases_interest::CASES,
        cases_kept::CASES,
        cases_poll::CASES,
        cases_epoll::CASES,
        cases_sets::CASES,
        cases_full::CASES,
        cases_stall::CASES,
        cases_turns::CASES,
        cases_move::CASES,
        cases_left::CASES,
        cases_limit::CASES,
        cases_exec::CASES,
        cases_handed::CASES,
        cases_after_exec::CASES,
        cases_end::CASES,
        cases_filter::CASES,
        cases_filter_rest::CASES,
        cases_agreed::CASES,
        cases_options::CASES,
        cases_order::CASES,
        cases_overflow::CASES,
        cases_early::CASES,
        cases_values::CASES,
        cases_pointers::CASES,
        cases_locks::CASES,
        cases_scarce::CASES,
        cases_stack::CASES,
        cases_stack_all::CASES,
        cases_names::CASES,
        cases_messages::CASES,
        cases_dissolve::CASES,
        cases_passed::CASES,
        cases_peek::CASES,
        cases_reset::CASES,
        cases_unseen::CASES,
        cases_elsewhere::CASES,
        cases_odd::CASES,
        cases_onward::CASES,
        cases_sets_fork::CASES,
        cases_sets_passed::CASES,
        cases_stale::CASES,
        cases_control::CASES,
        cases_errno::CASES,
        cases_differs::CASES,
    ];
    groups.concat()
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--list"] => all().iter().for_each(|c| println!("{} {}", c.name, if c.shm { "shm" } else { "any" })),
        ["--peer"] => peer::run(),
        ["--inherited", fd] => cases_fork::inherited(fd.parse().expect("descriptor")),
        ["--passes", fd] => cases_passed::pass_unused(fd.parse().expect("descriptor")),
        ["--handed", after, fd, wanted] => {
            cases_handed::goes_on(after, fd.parse().expect("descriptor"), wanted.parse().expect("bytes"));
        }
        ["--heir", how, fd, parent, wanted] => {
            let fds = [fd, parent].map(|fd| fd.parse().expect("descriptor"));
            cases_handed::inherits(how, fds, wanted.parse().expect("bytes"));
        }
        ["--after-exec", how, fd] => cases_after_exec::inherited(how, fd.parse().expect("descriptor")),
        ["--set-after-exec", set] => cases_after_exec::inherited_set(set.parse().expect("descriptor")),
        ["--read-after-exec", fd] => cases_after_exec::reads_on(fd.parse().expect("descriptor")),
        ["--refused", name, fd, over_exec] => {
            cases_agreed::refused(name, fd.parse().expect("descriptor"), over_exec == "true");
        }
        ["--waits", fd] => cases_filter::waits_behind_one(fd.parse().expect("descriptor")),
        [name] => run(name, Role::Client),
        [name, "client"] => run(name, Role::Client),
        [name, "server"] => run(name, Role::Server),
        _ => {
            eprintln!("usage: parity-case --list | CASE [client|server]");
            std::process::exit(2);
        }
    }
}

fn run(name: &str, role: Role) {
    let cases = all();
    let Some(case) = cases.iter().find(|c| c.name == name) else {
        eprintln!("parity-case: no case named {name}");
        std::process::exit(2);
    };
    let mut cx = Cx::start(role, case.shm);
    (case.run)(&mut cx);
    cx.finish();
}
