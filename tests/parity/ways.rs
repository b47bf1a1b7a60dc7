//! In which ways a case runs: over which addresses, under which limit of descriptors, with or without
//! spinning, its ends in one network or in two. Invariant: what runs follows from names and settings alone.

use std::process::Command;

/// Over which addresses, and what the program is started with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Way {
    family: &'static str,
    descriptors: Option<u32>,
    is_without_spinning: bool,
    /// The ends are in two containers.
    pub(crate) is_far: bool,
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

/// Beginnings of the names of cases that also run with their ends in two containers.
const FAR: &[&str] = &[
    "close.",
    "data.",
    "end.",
    "ends.",
    "epoll.edge",
    "full.",
    "interest.",
    "locks.",
    "messages.",
    "nap.",
    "order.",
    "stall.",
    "turns.",
];

/// Cases that differ there, for a cause that LIMITATIONS names: what is passed on, or goes on in another
/// program, goes on over TCP, or is reset; smc_run finds none of these connections; nobody sees a reader
/// asleep.
const DIFFERS_FAR: &[&str] = &[
    "agreed.passing",
    "early.a_write",
    "exec.",
    "fork.before_use",
    "fork.daemon_after_a_failed_execl",
    "fork.exec_",
    "fork.pass_used",
    "fork.spawn_unused",
    "fork.vfork_unused",
    "handed.",
    "operator.",
    "overflow.",
    "passed.",
    "scarce.",
    "sets.passed_member",
    "signal.send_timeout",
    "told.unread_for_too_long_by_poll",
];
/// And what tells how many bytes TCP takes at once, which a bridge alone makes less.
const DIFFERS_BY_THE_BRIDGE: &str = "data.writers_keep_records";
/// Of these groups what has listeners of its own on the loopback, and connects to them.
const NEAR: &[&str] = &[
    DIFFERS_BY_THE_BRIDGE,
    "full.nobody_is_named_twice",
    "turns.asked_anew_under_a_sleeper",
    "turns.fresh_connections_connected_by_us",
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
/// Of those whose ends are also put into containers one of so many are, in such a run.
const ONE_FAR_OF: u64 = 4;

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
        let far = if self.is_far { "/far" } else { "" };
        format!("{family}{limit}{spin}{far}")
    }

    /// Whether all may be TCP for want of descriptors.
    pub(crate) fn has_few_numbers(&self) -> bool {
        self.descriptors.is_some_and(|limit| limit <= 128)
    }

    /// Whether a case differs in this way for a cause that LIMITATIONS has.
    pub(crate) fn is_known(&self, case: &str) -> bool {
        let differs_far = || DIFFERS_FAR.iter().any(|group| case.starts_with(group));
        let is_far = self.is_far && (differs_far() || case == DIFFERS_BY_THE_BRIDGE);
        is_far || (self.descriptors.is_some() && NEEDS_NUMBERS.contains(&case))
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
    let far = || Way { family: "4", is_far: true, ..Way::default() };
    if setting("PARITY_FAR").is_some() {
        return if case.starts_with(crate::differs::GROUP) { vec![] } else { vec![far()] };
    }
    let asked = ["4", "6", "dual"].into_iter().filter(is_asked);
    let mut ways: Vec<Way> = asked.map(|family| Way { family, descriptors, ..Way::default() }).collect();
    let turn: Option<u64> = setting("PARITY_TURN").and_then(|n| n.parse().ok());
    let is_its_turn = turn.is_none_or(|turn| (isthmus_tests::hash(case) + turn).is_multiple_of(ONE_FAR_OF));
    let is_of_all = families.is_none() && !is_limited && is_its_turn && !NEAR.contains(&case);
    if is_of_all && FAR.iter().any(|group| case.starts_with(group)) {
        ways.push(far());
    }
    if let Some(turn) = turn {
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
        is_far: false,
        is_extra: true,
    })
}
