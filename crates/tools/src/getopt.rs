//! Options as getopt_long(3) reads them, with its messages. Owns: clusters, attached values, abbreviated long
//! names.

use crate::tool::Tool;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// An option and its value.
pub(crate) type Found = (u8, Option<OsString>);

/// What is wrong with the options.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    /// As getopt_long(3) of glibc words it.
    pub(crate) message: String,
    /// What the user wrote: `-x` or `--xyz`.
    pub(crate) option: String,
}

/// Options in order, and the arguments that are none.
pub(crate) fn parse(tool: &Tool, args: &[OsString]) -> Result<(Vec<Found>, Vec<OsString>), Wrong> {
    let (mut found, mut rest) = (vec![], vec![]);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_bytes() {
            b"--" => {
                rest.extend(args.cloned());
                break;
            }
            [b'-', b'-', name @ ..] => found.push(long(tool, name, &mut args)?),
            [b'-', cluster @ ..] if !cluster.is_empty() => short(tool, cluster, &mut args, &mut found)?,
            _ if tool.permutes => rest.push(arg.clone()),
            _ => {
                rest.push(arg.clone());
                rest.extend(args.cloned());
                break;
            }
        }
    }
    Ok((found, rest))
}

fn long<'a>(tool: &Tool, name: &[u8], args: &mut impl Iterator<Item = &'a OsString>) -> Result<Found, Wrong> {
    let text = String::from_utf8_lossy(name).into_owned();
    let wrong = |message: String| Wrong {
        message: format!("{}: {message}\n", tool.name),
        option: format!("--{text}"),
    };
    let (key, attached) = match name.iter().position(|byte| *byte == b'=') {
        Some(at) => (&name[..at], Some(OsStr::from_bytes(&name[at + 1..]).to_os_string())),
        None => (name, None),
    };
    let named = tool.options.iter().filter(|option| !option.long.is_empty());
    let exact = named.clone().filter(|option| option.long.as_bytes() == key);
    let starting = named.filter(|option| option.long.as_bytes().starts_with(key));
    let candidates: Vec<_> = if exact.clone().count() == 1 { exact.collect() } else { starting.collect() };
    match candidates[..] {
        [] => Err(wrong(format!("unrecognized option '--{text}'"))),
        [option] if option.value.is_empty() && attached.is_some() => {
            Err(wrong(format!("option '--{}' doesn't allow an argument", option.long)))
        }
        [option] if option.value.is_empty() => Ok((option.id, None)),
        [option] => match attached.or_else(|| args.next().cloned()) {
            None => Err(wrong(format!("option '--{}' requires an argument", option.long))),
            value => Ok((option.id, value)),
        },
        _ => Err(wrong(format!("option '--{text}' is ambiguous"))),
    }
}

fn short<'a>(
    tool: &Tool,
    cluster: &[u8],
    args: &mut impl Iterator<Item = &'a OsString>,
    found: &mut Vec<Found>,
) -> Result<(), Wrong> {
    for (i, option) in cluster.iter().enumerate() {
        let letter = char::from(*option);
        let wrong = |message: String| Wrong {
            message: format!("{}: {message}\n", tool.name),
            option: format!("-{letter}"),
        };
        let known = tool.short(*option).ok_or_else(|| wrong(format!("invalid option -- '{letter}'")))?;
        if known.value.is_empty() {
            found.push((*option, None));
            continue;
        }
        let value = match &cluster[i + 1..] {
            [] => args.next().cloned(),
            attached => Some(OsStr::from_bytes(attached).to_os_string()),
        };
        let value = value.ok_or_else(|| wrong(format!("option requires an argument -- '{letter}'")))?;
        found.push((*option, Some(OsString::from_vec(value.into_vec()))));
        break;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Found, parse};
    use crate::tool::{Opt, Tool};
    use std::ffi::OsString;

    const TOOL: Tool = Tool {
        name: "x",
        about: "",
        before_options: "",
        options: &[
            Opt::both(b'a', "all", "", ""),
            Opt::short(b'b', "SIZE", "", ""),
            Opt::long(b'c', "alien", "", ""),
            Opt::long(b'd', "al", "", ""),
            Opt::valued(b'w', "which", "ONE", "", ""),
        ],
        objects: &[],
        dashes: "--",
        permutes: true,
    };

    fn read(tool: &Tool, line: &str) -> Result<(Vec<Found>, Vec<OsString>), String> {
        let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        parse(tool, &args).map_err(|wrong| wrong.message)
    }

    #[test]
    fn clusters_values_and_long_names_are_read() {
        let (found, rest) = read(&TOOL, "-ab5 one -b 6 --ali --al -- -a").expect("all well");
        let text: Vec<_> =
            found.iter().map(|(o, v)| (char::from(*o), v.clone().map(|v| v.into_string()))).collect();
        let value = |v: &str| Some(Ok(v.to_string()));
        assert_eq!(text, [('a', None), ('b', value("5")), ('b', value("6")), ('c', None), ('d', None)]);
        assert_eq!(rest, ["one", "-a"]);
    }

    #[test]
    fn values_of_long_names_are_attached_or_follow() {
        for line in ["--which 5 one", "--wh=5 one", "-w5 one"] {
            let found = read(&TOOL, line).expect("all well");
            assert_eq!(found, (vec![(b'w', Some("5".into()))], vec!["one".into()]), "{line}");
        }
    }

    #[test]
    fn without_permutation_the_first_argument_ends_the_options() {
        let tool = Tool { permutes: false, ..TOOL };
        assert_eq!(read(&tool, "-a prog -a").expect("all well").1, ["prog", "-a"]);
        assert_eq!(read(&tool, "-a - -z").expect("all well").1, ["-", "-z"]);
    }

    #[test]
    fn complaints_are_those_of_getopt() {
        let complaints = [
            ("-z", "x: invalid option -- 'z'\n"),
            ("-:", "x: invalid option -- ':'\n"),
            ("-b", "x: option requires an argument -- 'b'\n"),
            ("--no", "x: unrecognized option '--no'\n"),
            ("--a", "x: option '--a' is ambiguous\n"),
            ("--which", "x: option '--which' requires an argument\n"),
            ("--all=1", "x: option '--all' doesn't allow an argument\n"),
        ];
        for (line, message) in complaints {
            assert_eq!(read(&TOOL, line), Err(message.to_string()), "{line}");
        }
    }
}
