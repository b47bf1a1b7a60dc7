//! Scripts from their beginning to their end, one after the other with the same two processes. Invariant: one
//! step at a time, but for a call that waits and what it waits for.

use crate::generate::script;
use crate::obey::act;
use crate::remote::Remote;
use crate::script::{End, Step};
use crate::stage::Stage;
use testkit::Random;

/// How much later than the call that waits for it something happens, in microseconds at most: while it spins,
/// naps or sleeps. (What is told is the same if it comes first.)
const LATER: usize = 3000;

pub(crate) struct Conductor {
    stage: Stage,
    puppet: Remote,
}

impl Conductor {
    pub(crate) fn new() -> Conductor {
        let mut puppet = Remote::puppet();
        let mut stage = Stage::new();
        stage.their_port = puppet.ask(&format!("port {}", stage.port())).parse().expect("a port");
        Conductor { stage, puppet }
    }

    /// Runs the script of a seed and prints it with what each call returned.
    pub(crate) fn run(&mut self, seed: u64) {
        let steps = script(seed);
        self.stage.begin(seed, crate::links(&steps));
        self.puppet.ask(&format!("script {seed}"));
        println!("seed {seed}");
        let mut random = Random::new(!seed);
        for (n, step) in steps.iter().enumerate() {
            let (line, meanwhile) = (format!("step {n}"), format!("meanwhile {n}"));
            match &step.meanwhile {
                None => println!("{n} {step} -> {}", self.act(step, &line)),
                Some(other) => {
                    let later = random.below(LATER) as u64;
                    let (own, theirs) = self.both(step, other, &line, &format!("{meanwhile} {later}"));
                    println!("{n} {step} -> {own}; {other} -> {theirs}");
                }
            }
        }
    }

    fn act(&mut self, step: &Step, line: &str) -> String {
        match step.by.end {
            End::Here => act(&mut self.stage, step, line),
            End::There => self.puppet.ask(line),
        }
    }

    fn both(&mut self, step: &Step, other: &Step, line: &str, meanwhile: &str) -> (String, String) {
        match step.by.end {
            End::Here => {
                self.puppet.tell(meanwhile);
                (act(&mut self.stage, step, line), self.puppet.answer())
            }
            End::There => {
                self.puppet.tell(line);
                let theirs = act(&mut self.stage, other, meanwhile);
                (self.puppet.answer(), theirs)
            }
        }
    }

    /// Ends the puppet.
    pub(crate) fn end(self) {
        drop(self.stage);
        println!("puppet {}", self.puppet.end());
    }
}
