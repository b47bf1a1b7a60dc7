//! A process that does what it is told, step by step. Invariant: an answer comes after its call returned.

use crate::generate::script;
use crate::remote::Remote;
use crate::script::{Call, Step};
use crate::stage::Stage;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::time::Duration;

/// Does what it is told until nobody tells any more.
pub(crate) fn obey(from: File, mut to: File, stage: &mut Stage) {
    let mut steps = script(stage.seed);
    for line in BufReader::new(from).lines() {
        let line = line.expect("a line");
        let words: Vec<&str> = line.split(' ').collect();
        let number = || words[1].parse().expect("a number");
        let answer = match words[0] {
            "port" => {
                stage.their_port = number() as u16;
                stage.port().to_string()
            }
            "script" => {
                steps = script(number());
                stage.begin(number(), crate::links(&steps));
                "ready".into()
            }
            "step" => act(stage, &steps[number() as usize], &line),
            "meanwhile" => {
                let step: &Step = steps[number() as usize].meanwhile.as_ref().expect("there is one");
                act(stage, step, &line)
            }
            other => panic!("what is {other}"),
        };
        writeln!(to, "{answer}").expect("whoever asks lives");
    }
}

/// How long a "meanwhile" is to wait, for whoever does it.
pub(crate) fn pause(line: &str) {
    if let Some(micros) = line.split(' ').nth(2).and_then(|word| word.parse().ok()) {
        std::thread::sleep(Duration::from_micros(micros));
    }
}

/// Does a step itself, or has its child do it.
pub(crate) fn act(stage: &mut Stage, step: &Step, line: &str) -> String {
    match (step.call, &mut stage.child) {
        (Call::Fork, _) => fork(stage),
        (Call::ChildExits, child) => child.take().map_or("no child".into(), Remote::end),
        (_, Some(child)) if step.by.is_child => child.ask(line),
        _ => {
            pause(line);
            stage.act(step)
        }
    }
}

/// The child obeys until it is to end.
fn fork(stage: &mut Stage) -> String {
    let mut its_own = stage.of_a_child();
    stage.child = Some(Remote::fork(move |from, to| obey(from, to, &mut its_own)));
    "forked".into()
}
