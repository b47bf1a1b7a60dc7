//! `smc completion SHELL TOOL`: what bash, zsh and fish have to know of a tool, out of its table. Owns: their
//! languages.

use crate::tool::{Object, Opt, Tool};
use crate::{output, smc_run, smcd, smcss};
use std::ffi::OsString;
use std::fmt::Write;

const TOOLS: [&Tool; 3] = [&smc_run::TOOL, &smcss::TOOL, &smcd::TOOL];
const USAGE: &str = "Usage: smc completion bash | zsh | fish TOOL\n       smc completion man TOOL\n";

/// Runs the applet.
pub(crate) fn main(args: &[OsString]) -> u8 {
    let words: Vec<&str> = args.iter().filter_map(|arg| arg.to_str()).collect();
    let text = match words.as_slice() {
        [kind, name] => TOOLS.iter().find(|tool| tool.name == *name).and_then(|tool| completion(kind, tool)),
        _ => None,
    };
    match text {
        Some(text) => output::print(&text),
        None => {
            output::complain(USAGE);
            return 1;
        }
    }
    0
}

fn completion(kind: &str, tool: &Tool) -> Option<String> {
    match kind {
        "bash" => Some(bash(tool)),
        "zsh" => Some(zsh(tool)),
        "fish" => Some(fish(tool)),
        "man" => Some(tool.manual_of_options()),
        _ => None,
    }
}

/// Whether a command of the user's follows the options.
fn starts_command(tool: &Tool) -> bool {
    !tool.permutes && tool.objects.is_empty()
}

fn names(tool: &Tool) -> String {
    let all: Vec<String> = tool.options.iter().flat_map(|option| option.names(tool.dashes)).collect();
    all.join(" ")
}

fn bash(tool: &Tool) -> String {
    let (name, words) = (tool.name, names(tool));
    let with_value: Vec<String> = tool
        .options
        .iter()
        .filter(|option| !option.value.is_empty())
        .flat_map(|option| option.names(tool.dashes))
        .collect();
    let skip = if with_value.is_empty() { "-\\0".to_string() } else { with_value.join("|") };
    let mut text = format!("# {name}: {}. Made of its table of options.\n_isthmus_{name}() {{\n", tool.about);
    text += "    local cur=${COMP_WORDS[COMP_CWORD]} at=1\n";
    text += "    while ((at < COMP_CWORD)) && [[ ${COMP_WORDS[at]} == -* ]]; do\n";
    let _ = writeln!(
        text,
        "        case ${{COMP_WORDS[at]}} in {skip}) ((at++)) ;; esac\n        ((at++))\n    done"
    );
    if starts_command(tool) {
        text += "    if ((at == COMP_CWORD)) && [[ $cur != -* ]]; then COMPREPLY=($(compgen -c -- \"$cur\")); return; fi\n";
        text += "    if ((at < COMP_CWORD)) && declare -F _command_offset >/dev/null; then _command_offset \"$at\"; return; fi\n";
        text += "    ((at > COMP_CWORD)) && return\n";
    }
    if !tool.objects.is_empty() {
        let objects: Vec<&str> = tool.objects.iter().map(|object| object.name).collect();
        text += "    if ((at < COMP_CWORD)); then\n        case ${COMP_WORDS[at]} in\n";
        for Object { name, commands, .. } in tool.objects {
            let _ = writeln!(
                text,
                "            {name}) COMPREPLY=($(compgen -W \"{}\" -- \"$cur\")) ;;",
                commands.join(" ")
            );
        }
        text += "        esac\n        return\n    fi\n";
        let _ = writeln!(
            text,
            "    if [[ $cur != -* ]]; then COMPREPLY=($(compgen -W \"{}\" -- \"$cur\")); return; fi",
            objects.join(" ")
        );
    }
    let _ = writeln!(
        text,
        "    COMPREPLY=($(compgen -W \"{words}\" -- \"$cur\"))\n}}\ncomplete -F _isthmus_{name} {name}"
    );
    text
}

/// A text inside single quotes and brackets of zsh.
fn quoted(text: &str) -> String {
    text.replace('\'', "'\\''").replace('[', "\\[").replace(']', "\\]").replace(':', "\\:")
}

fn zsh(tool: &Tool) -> String {
    let mut text = format!(
        "#compdef {}\n# {}. Made of its table of options.\n_arguments -S \\\n",
        tool.name, tool.about
    );
    for option in tool.options {
        let names = option.names(tool.dashes);
        let value = if option.value.is_empty() { String::new() } else { format!(":{}:", option.value) };
        for name in &names {
            let _ = writeln!(text, "    '({})'{name}'[{}]{value}' \\", names.join(" "), quoted(option.text));
        }
    }
    if starts_command(tool) {
        text += "    '(-):command:_command_names -e' '*::arguments:_normal'\n";
    } else if tool.objects.is_empty() {
        text += "    && return 0\n";
    } else {
        text += &objects_of_zsh(tool);
    }
    text
}

fn objects_of_zsh(tool: &Tool) -> String {
    let list: Vec<String> =
        tool.objects.iter().map(|object| format!("{}\\:\"{}\"", object.name, quoted(object.about))).collect();
    let mut text = format!("    '1:object:(({}))' '*::command:->command' && return 0\n", list.join(" "));
    text += "case $words[1] in\n";
    for Object { name, commands, .. } in tool.objects {
        let _ = writeln!(text, "    {name}) _values command {} ;;", commands.join(" "));
    }
    text + "esac\n"
}

fn fish(tool: &Tool) -> String {
    let name = tool.name;
    let mut text = format!("# {name}: {}. Made of its table of options.\n", tool.about);
    if !starts_command(tool) {
        let _ = writeln!(text, "complete -c {name} -f");
    }
    for option in tool.options {
        let _ = writeln!(
            text,
            "complete -c {name}{} -d '{}'",
            switches(option, tool.dashes),
            option.text.replace('\'', "\\'")
        );
    }
    if starts_command(tool) {
        let _ = writeln!(text, "complete -c {name} -x -a '(__fish_complete_subcommand)'");
    }
    for Object { name: object, about, commands, .. } in tool.objects {
        let _ = writeln!(text, "complete -c {name} -n __fish_use_subcommand -a {object} -d '{about}'");
        let _ = writeln!(
            text,
            "complete -c {name} -n '__fish_seen_subcommand_from {object}' -a '{}'",
            commands.join(" ")
        );
    }
    text
}

fn switches(option: &Opt, dashes: &str) -> String {
    let short = if option.is_short { format!(" -s {}", char::from(option.id)) } else { String::new() };
    let kind = if dashes == "-" { "-o" } else { "-l" };
    let long = if option.long.is_empty() { String::new() } else { format!(" {kind} {}", option.long) };
    let value = if option.value.is_empty() { "" } else { " -x" };
    format!("{short}{long}{value}")
}

#[cfg(test)]
mod tests {
    use super::{TOOLS, bash, completion, fish, zsh};

    #[test]
    fn every_name_is_in_every_completion() {
        for tool in TOOLS {
            for option in tool.options {
                for name in option.names(tool.dashes) {
                    assert!(bash(tool).contains(&name) && zsh(tool).contains(&name), "{}: {name}", tool.name);
                }
                assert!(
                    fish(tool).contains(option.text) && zsh(tool).contains(option.text),
                    "{}",
                    option.text
                );
            }
            for object in tool.objects {
                for kind in ["bash", "zsh", "fish"] {
                    let text = completion(kind, tool).expect("a shell");
                    assert!(
                        text.contains(object.name) && text.contains(&object.commands.join(" ")),
                        "{kind}"
                    );
                }
            }
        }
        assert_eq!(completion("tcsh", TOOLS[0]), None);
    }
}
