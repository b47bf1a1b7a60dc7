//! In which ways a case runs: over which addresses, under which limit of descriptors, with or without
//! spinning. Invariant: what runs follows from names and settings alone.

use std::process::Command;

/// Over which addresses, and what the program is started with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Way {
    family: &'static str,
    descriptors: Option<u32>,
    is_without_spinning: bool,
    /// Beside what a run of all has.
    pub(crate) is_extra: bool,
}

/// Cases that also run over IPv6 and from IPv4 clients to IPv6 listeners.
const ALL_FAMILIES: &[&str] = &[
    "data.short_read",
    "data.names",
    "data.large_both_ways",
    "close.clean",
    "epoll.accept_loop",
    "fork.prefork_accept",
];

const FEW: Option<u32> = Some(64);

/// The ways that a run of all has in turns: family, descriptors, without spinning.
const IN_TURNS: [(&str, Option<u32>, bool); 8] = [
    ("6", None, false),
    ("dual", None, false),
    ("4", None, true),
    ("4", FEW, false),
    ("6", FEW, true),
    ("dual", None, true),
    ("6", None, true),
    ("dual", FEW, false),
];

/// One case of so many has another way beside its own, in a run with PARITY_TURN.
const ONE_OF: u64 = 8;

/// Cases that differ with few descriptors for the cause that LIMITATIONS names: where the hard limit leaves
/// no other numbers, doorbells come out of the program's own, from half of it on: EMFILE comes sooner, or a
/// connection stays TCP.
const NEEDS_NUMBERS: &[&str] = &[
    "ends.shut_rd",
    "ends.shut_rdwr",
    "ends.shut_wr",
    "fds.many_connections",
    "left.many_sockets_polled",
    "sharer.killed_writer_is_not_waited_for",
];

impl Way {
    /// What is added to the name of a case: nothing in the ordinary way.
    pub(crate) fn suffix(&self) -> String {
        let family = if self.family == "4" { String::new() } else { format!("/{}", self.family) };
        let limit = self.descriptors.filter(|_| self.is_extra).map_or(String::new(), |n| format!("/{n}fds"));
        let spin = if self.is_without_spinning { "/nospin" } else { "" };
        format!("{family}{limit}{spin}")
    }

    /// Whether all may be TCP for want of descriptors.
    pub(crate) fn has_few_numbers(&self) -> bool {
        self.descriptors.is_some_and(|limit| limit <= 128)
    }

    /// Whether a case differs in this way for a cause that LIMITATIONS has.
    pub(crate) fn is_known(&self, case: &str) -> bool {
        self.descriptors.is_some() && NEEDS_NUMBERS.contains(&case)
    }

    /// The command of a case, in this way.
    pub(crate) fn apply(&self, mut command: Command) -> Command {
        command.env("PARITY_FAMILY", self.family);
        if self.is_without_spinning {
            command.env("SMC_SPIN", "0");
        }
        if let Some(limit) = self.descriptors {
            command = after(&["/bin/sh", "-c", "ulimit -n $0 && exec \"$@\"", &limit.to_string()], &command);
        }
        match std::env::var("PARITY_WRAP") {
            Ok(program) => after(&[&program], &command),
            Err(_) => command,
        }
    }
}

/// The command as the arguments of another one, which has its surroundings.
fn after(words: &[&str], command: &Command) -> Command {
    let mut outer = Command::new(words[0]);
    outer.args(&words[1..]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        outer.current_dir(folder);
    }
    outer
}

/// The ways that the settings of this run ask for.
pub(crate) fn of(case: &str) -> Vec<Way> {
    let setting = |name: &str| std::env::var(name).ok();
    let families = setting("PARITY_FAMILIES");
    let descriptors = setting("PARITY_DESCRIPTORS").and_then(|n| n.parse().ok());
    let is_asked = |family: &&str| match &families {
        Some(asked) => asked.split(',').any(|one| one == *family),
        None => *family == "4" || ALL_FAMILIES.contains(&case),
    };
    let is_limited = descriptors.is_some() || setting("PARITY_WRAP").is_some();
    if is_limited && case.starts_with(crate::differs::GROUP) {
        return vec![];
    }
    let asked = ["4", "6", "dual"].into_iter().filter(is_asked);
    let mut ways: Vec<Way> = asked.map(|family| Way { family, descriptors, ..Way::default() }).collect();
    if let Some(turn) = setting("PARITY_TURN").and_then(|n| n.parse().ok()) {
        ways.extend(
            in_turn(case, turn).filter(|extra| !ways.iter().any(|way| way.suffix() == extra.suffix())),
        );
    }
    ways
}

/// The other way of this case, if it is its turn: with each of the first so many numbers another eighth of
/// all cases has one, and then the next way.
fn in_turn(case: &str, turn: u64) -> Option<Way> {
    let at = isthmus_tests::hash(case) + turn;
    let (family, descriptors, is_without_spinning) = IN_TURNS[(at / ONE_OF) as usize % IN_TURNS.len()];
    let is_left_out = case.starts_with(crate::differs::GROUP) && descriptors.is_some();
    (at.is_multiple_of(ONE_OF) && !is_left_out).then_some(Way {
        family,
        descriptors,
        is_without_spinning,
        is_extra: true,
    })
}
