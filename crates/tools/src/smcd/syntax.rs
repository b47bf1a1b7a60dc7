//! Arguments of smcd(8), in the manner of ip(8): options, object, command, each abbreviated to any prefix;
//! the first match in table order counts. Owns: which complaint has which exit code.

use super::MINUS_ONE;
use crate::tool::{Object, Opt, Tool};

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Info,
    /// All, or the one with this id.
    LinkGroups(Option<u32>),
    Devices,
    /// The function with this UID is to have connections, or none.
    Enable(u32, bool),
    Stats(Stats),
    ShowUeid,
    ChangeUeid,
    ShowSeid,
    ChangeSeid,
}

/// What to do with statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stats {
    Show,
    Reset,
    Json,
}

/// A command and how much to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) command: Command,
    pub(super) details: bool,
    pub(super) absolute: bool,
}

/// Nothing to do but to say this on stderr.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) text: String,
    pub(super) code: u8,
}

/// smcd, as smc-tools has it. Objects are in the order in which abbreviations are looked up.
pub(crate) const TOOL: Tool = Tool {
    name: "smcd",
    about: "show link groups, devices and statistics of SMC-D",
    before_options: "Options stand before the object. They may begin with one dash or two.",
    options: &[
        Opt::both(b'v', "version", "show the version", "Show the version on standard error and exit."),
        Opt::both(b'd', "details", "show more", "Show more."),
        Opt::both(
            b'a',
            "absolute",
            "statistics since the registry exists",
            "Statistics since the registry exists, whatever was reset.",
        ),
        Opt::both(b'h', "help", "show the usage", "Show the usage and exit."),
    ],
    objects: &[
        Object {
            name: "device",
            about: "devices",
            usage: "[show] [all] | enable PCI-ID | disable PCI-ID",
            commands: &["show", "all", "enable", "disable"],
        },
        Object {
            name: "linkgroup",
            about: "link groups",
            usage: "[show] [all | LG-ID]",
            commands: &["show", "all"],
        },
        Object { name: "info", about: "capabilities of this host", usage: "[show]", commands: &["show"] },
        Object {
            name: "stats",
            about: "statistics",
            usage: "[show | reset | json]",
            commands: &["show", "reset", "json"],
        },
        Object {
            name: "ueid",
            about: "user EIDs",
            usage: "[show] | add <eid> | del <eid> | flush",
            commands: &["show", "add", "del", "flush"],
        },
        Object {
            name: "seid",
            about: "the system EID",
            usage: "[show] | enable | disable",
            commands: &["show", "enable", "disable"],
        },
    ],
    dashes: "-",
    permutes: false,
};
/// As smc-tools names the objects in its usage.
const ORDER: [&str; 6] = ["info", "linkgroup", "device", "stats", "ueid", "seid"];

fn usage() -> String {
    let named = |option: &&Opt| option.long != "help";
    let option = |option: &Opt| format!("-{}[{}]", &option.long[..1], &option.long[1..]);
    let options: Vec<String> = TOOL.options.iter().filter(named).map(option).collect();
    format!(
        "Usage:  smcd  [ OPTIONS ] OBJECT {{COMMAND | help}}\nwhere  OBJECT := {{{}}}\n       OPTIONS := {{{}}}\n",
        ORDER.join(" | "),
        options.join(" | ")
    )
}

/// Reads the arguments behind the program's name.
pub(super) fn parse(args: &[String]) -> Result<Request, Refusal> {
    let (mut details, mut absolute, mut at) = (false, false, 0);
    while let Some(option) = args.get(at).filter(|arg| arg.starts_with('-')) {
        at += 1;
        if option == "--" {
            break;
        }
        match option_named(option) {
            Some("version") => return Err(minus_one(format!("smcd utility, {}\n", crate::VERSION))),
            Some("help") => return Err(Refusal { text: usage(), code: 0 }),
            Some("details") => details = true,
            Some("absolute") => absolute = true,
            Some(_) => (details, absolute) = (true, true),
            None => {
                return Err(minus_one(format!(
                    "Error: Option \"{option}\" is unknown, try \"smcd help\".\n"
                )));
            }
        }
    }
    let command = object(args.get(at..).unwrap_or_default())?;
    Ok(Request { command, details, absolute })
}

fn minus_one(text: String) -> Refusal {
    Refusal { text, code: MINUS_ONE }
}

/// `--opt` is `-opt`; anything from one letter on may be left out at the end.
fn option_named(option: &str) -> Option<&'static str> {
    let name = option.strip_prefix('-').filter(|rest| rest.starts_with('-')).unwrap_or(option);
    let both = ["-da", "-ad"].into_iter().find(|both| *both == name);
    both.or_else(|| {
        let meant = name.strip_prefix('-').filter(|name| !name.is_empty())?;
        TOOL.options.iter().map(|option| option.long).find(|known| known.starts_with(meant))
    })
}

fn object(args: &[String]) -> Result<Command, Refusal> {
    let Some(name) = args.first() else { return Err(Refusal { text: usage(), code: 0 }) };
    let is_meant = |known: &str| !name.is_empty() && known.starts_with(name.as_str());
    if let Some(object) = TOOL.objects.iter().find(|object| is_meant(object.name)) {
        let usage = || minus_one(format!("Usage: smcd {} {}\n", object.name, object.usage));
        return command(object.name, &args[1..]).ok_or_else(usage);
    }
    if is_meant("help") {
        return Err(Refusal { text: usage(), code: 0 });
    }
    Err(Refusal { text: format!("Error: Object \"{name}\" is unknown, try \"smcd help\".\n"), code: 1 })
}

/// `None`: the object's usage is to be shown.
fn command(object: &str, args: &[String]) -> Option<Command> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let is = |word: &str, full: &str| !word.is_empty() && full.starts_with(word);
    match (object, words.as_slice()) {
        ("info", []) => Some(Command::Info),
        ("info", [show]) if is(show, "show") => Some(Command::Info),
        ("linkgroup", [show, rest @ ..]) if is(show, "show") => link_groups(rest),
        ("linkgroup", rest) => link_groups(rest),
        ("device", []) => Some(Command::Devices),
        ("device", [all]) if is(all, "show") || is(all, "all") => Some(Command::Devices),
        ("device", [show, all]) if is(show, "show") && is(all, "all") => Some(Command::Devices),
        ("device", [change, id]) if is(change, "enable") => Some(Command::Enable(uid(id)?, true)),
        ("device", [change, id]) if is(change, "disable") => Some(Command::Enable(uid(id)?, false)),
        ("stats", []) => Some(Command::Stats(Stats::Show)),
        ("stats", [show]) if is(show, "show") => Some(Command::Stats(Stats::Show)),
        ("stats", [reset]) if is(reset, "reset") => Some(Command::Stats(Stats::Reset)),
        ("stats", [json]) if is(json, "json") => Some(Command::Stats(Stats::Json)),
        ("ueid", []) => Some(Command::ShowUeid),
        ("ueid", [show]) if is(show, "show") => Some(Command::ShowUeid),
        ("ueid", [flush]) if is(flush, "flush") => Some(Command::ChangeUeid),
        ("ueid", [change, _]) if is(change, "add") || is(change, "del") => Some(Command::ChangeUeid),
        ("seid", []) => Some(Command::ShowSeid),
        ("seid", [show]) if is(show, "show") => Some(Command::ShowSeid),
        ("seid", [change]) if is(change, "enable") || is(change, "disable") => Some(Command::ChangeSeid),
        _ => None,
    }
}

/// The PCI domain of a function's address is its UID.
fn uid(id: &str) -> Option<u32> {
    let domain = id.strip_suffix(":00:00.0").unwrap_or(id);
    (domain.len() <= 4).then(|| u32::from_str_radix(domain, 16).ok())?
}

fn link_groups(words: &[&str]) -> Option<Command> {
    match words {
        [] => Some(Command::LinkGroups(None)),
        [all] if !all.is_empty() && "all".starts_with(all) => Some(Command::LinkGroups(None)),
        [id] => {
            let digits = id.strip_prefix("0x").unwrap_or(id);
            Some(Command::LinkGroups(Some(u32::from_str_radix(digits, 16).ok()?)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Command, ORDER, Refusal, Request, Stats, TOOL, parse, usage};

    fn read(line: &str) -> Result<Request, Refusal> {
        let args: Vec<String> = line.split_whitespace().map(String::from).collect();
        parse(&args)
    }

    fn command(line: &str) -> Option<Command> {
        read(line).ok().map(|request| request.command)
    }

    #[test]
    fn objects_and_commands_may_be_abbreviated() {
        for (line, wanted) in [
            ("info", Command::Info),
            ("i sh", Command::Info),
            ("l", Command::LinkGroups(None)),
            ("linkgroup show all", Command::LinkGroups(None)),
            ("linkg s 00000100", Command::LinkGroups(Some(0x100))),
            ("linkgroup 0x1a00", Command::LinkGroups(Some(0x1a00))),
            ("dev", Command::Devices),
            ("device show all", Command::Devices),
            ("s", Command::Stats(Stats::Show)),
            ("stats r", Command::Stats(Stats::Reset)),
            ("stat json", Command::Stats(Stats::Json)),
            ("u", Command::ShowUeid),
            ("ueid add X", Command::ChangeUeid),
            ("se", Command::ShowSeid),
            ("seid dis", Command::ChangeSeid),
            ("-- info", Command::Info),
        ] {
            assert_eq!(command(line), Some(wanted), "{line}");
        }
    }

    #[test]
    fn every_word_of_the_table_is_understood() {
        for object in TOOL.objects {
            assert!(ORDER.contains(&object.name) && ORDER.len() == TOOL.objects.len(), "{}", object.name);
            for word in object.commands {
                let takes = |what: &str| object.usage.contains(&format!("{word} {what}"));
                let of_it = if takes("<eid>") || takes("PCI-ID") { " 1a" } else { "" };
                let line = format!("{} {word}{of_it}", object.name);
                assert!(command(&line).is_some() && object.usage.contains(word), "{line}");
            }
        }
    }

    #[test]
    fn a_function_is_named_by_its_address_or_its_uid() {
        for (line, wanted) in [
            ("device disable 001a:00:00.0", Some(Command::Enable(0x1a, false))),
            ("device en 1A", Some(Command::Enable(0x1a, true))),
            ("device enable 10000", None),
            ("device enable 001a:00:00.1", None),
            ("device disable", None),
        ] {
            assert_eq!(command(line), wanted, "{line}");
        }
    }

    #[test]
    fn options_stand_in_front() {
        for (line, details, absolute) in [
            ("-d info", true, false),
            ("--details info", true, false),
            ("-abs -det info", true, true),
            ("-da info", true, true),
            ("--ad info", true, true),
        ] {
            assert_eq!(read(line), Ok(Request { command: Command::Info, details, absolute }), "{line}");
        }
    }

    #[test]
    fn refusals_have_their_codes() {
        let refusal = |line: &str| read(line).expect_err("a refusal");
        for line in ["", "help", "-h", "--help", "-d"] {
            assert_eq!(refusal(line), Refusal { text: usage(), code: 0 }, "{line}");
        }
        assert_eq!(refusal("-version"), refusal("-v"));
        let version = refusal("-v");
        assert!(version.code == 255 && version.text.starts_with("smcd utility, isthmus-"));
        let option = refusal("-x info");
        assert_eq!(
            (option.text.as_str(), option.code),
            ("Error: Option \"-x\" is unknown, try \"smcd help\".\n", 255)
        );
        let object = refusal("bogus");
        assert_eq!(
            (object.text.as_str(), object.code),
            ("Error: Object \"bogus\" is unknown, try \"smcd help\".\n", 1)
        );
        for line in ["info help", "stats bogus", "linkgroup show xyz", "device netdev eth0", "ueid add"] {
            let refusal = refusal(line);
            assert!(refusal.code == 255 && refusal.text.starts_with("Usage: smcd "), "{line}: {refusal:?}");
        }
    }
}
