//! The torture: servers and clients of random styles that check every byte. Invariant: over TCP a run is
//! clean, whatever the seed, so over shared memory every fault is the library's.
//!
//! `torture-load run FOLDER SEED SECONDS` conducts a run and exits with 0 if it was clean; `torture-load
//! explain FOLDER SEED NUMBER` prints the script of a connection. The other tasks are what `run` starts.

mod board;
mod client;
mod conductor;
mod connection;
mod disturb;
mod drive;
mod ends;
mod event_loop;
mod hello;
mod home;
mod keeper;
mod machine;
mod mid;
mod processes;
mod run;
mod script;
mod server;
mod steps;
mod stream;
mod style;
mod summary;
mod transfer;
mod turns;
mod watchdog;

use isthmus_tests::sys;
use script::{SERVERS, Script, Side};
use std::path::Path;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let word = |i: usize| args.get(i).map_or("", String::as_str);
    let number = |i: usize| word(i).parse::<u64>().unwrap_or(0);
    if args.len() < 3 {
        eprintln!("usage: torture-load run|explain FOLDER SEED [SECONDS|NUMBER]");
        std::process::exit(2);
    }
    run::join(Path::new(word(1)), number(2));
    let side = if word(4) == "client" { Side::Client } else { Side::Server };
    let ports = || word(4).split(',').filter_map(|p| p.parse().ok()).collect::<Vec<u16>>();
    match word(0) {
        "run" => {
            stream::self_check();
            let clean = conductor::conduct(number(3));
            std::process::exit(i32::from(!clean));
        }
        "explain" => println!("{:#?}", Script::of(number(2), number(3))),
        "server" => {
            sys::all_fds();
            let index = number(3) as usize;
            let (kind, variant) = SERVERS[index];
            server::run_process(kind, variant, ports()[index]);
        }
        "client" => {
            sys::all_fds();
            client::run_process(number(3), &ports());
        }
        "operator" => home::operate(),
        "inetd" => server::inetd_started(),
        "resume" => go_on(number(3), side, number(5) as sys::Fd),
        "receive" => {
            // Who was to pass it may be killed before that.
            if sys::recv(0, &mut [0], libc::MSG_PEEK) != Ok(1) {
                return;
            }
            let fd = sys::recv_fd(0).expect("a descriptor") as sys::Fd;
            let _ = sys::close(0);
            go_on(number(3), side, fd);
        }
        other => panic!("no task named {other}"),
    }
}

/// Goes on with a connection that another process, or this one before exec, has begun.
fn go_on(number: u64, side: Side, fd: sys::Fd) {
    let connection = connection::Connection::new(number, side, fd);
    if fd == 0 {
        connection.copies.lock().expect("no panic").push(1);
    }
    drive::to_the_end(&connection);
}
