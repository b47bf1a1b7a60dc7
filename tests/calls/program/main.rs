//! Random socket calls by two processes in turns, with what each returned. Invariant: over TCP a script says
//! the same each time, so what it says over shared memory can be held against it.
//!
//! `calls-load run SEED...` runs scripts one after the other, `calls-load explain SEED` prints one.

mod bytes;
mod conduct;
mod generate;
mod give;
mod look;
mod model;
mod obey;
mod remote;
mod script;
mod stage;
mod take;

use isthmus_tests::sys;
use script::{Call, Step};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let seeds = args.iter().skip(1).map(|arg| arg.parse::<u64>().expect("a seed"));
    sys::ignore(libc::SIGPIPE, true);
    match args.first().map_or("", String::as_str) {
        "run" => {
            let mut conductor = conduct::Conductor::new();
            seeds.for_each(|seed| conductor.run(seed));
            conductor.end();
        }
        "explain" => {
            for step in seeds.flat_map(generate::script) {
                let meanwhile = step.meanwhile.as_ref().map_or(String::new(), |other| format!("; {other}"));
                println!("{step}{meanwhile}");
            }
        }
        "puppet" => {
            let [from, to] = [0, 1].map(|fd| std::fs::File::from(sys::owned(fd)));
            obey::obey(from, to, &mut stage::Stage::new());
        }
        _ => {
            eprintln!("usage: calls-load run|explain SEED...");
            std::process::exit(2);
        }
    }
}

/// How many connections a script has.
fn links(steps: &[Step]) -> usize {
    steps.iter().filter(|step| matches!(step.call, Call::Connect)).count()
}
