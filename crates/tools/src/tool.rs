//! One table per tool: its options and commands. Owns: that the parser, the usage, the OPTIONS of the manual
//! page and the completions of shells (`completion`) say the same, since all of them read the table.

/// A tool.
pub(crate) struct Tool {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it does, for completions.
    pub(crate) about: &'static str,
    /// What stands before its options in the manual page.
    pub(crate) before_options: &'static str,
    /// Its options, in the order of the usage.
    pub(crate) options: &'static [Opt],
    /// Objects and their commands (smcd).
    pub(crate) objects: &'static [Object],
    /// Dashes before a long name.
    pub(crate) dashes: &'static str,
    /// Whether options may stand behind other arguments. If not, what follows is a command of its own or an
    /// object.
    pub(crate) permutes: bool,
}

/// An option.
pub(crate) struct Opt {
    /// What the parser answers: its short name, if it has one.
    pub(crate) id: u8,
    /// Whether `id` is what the user writes.
    pub(crate) is_short: bool,
    /// Its long name; empty for none.
    pub(crate) long: &'static str,
    /// Name of its value; empty for none.
    pub(crate) value: &'static str,
    /// For the usage and for completions.
    pub(crate) text: &'static str,
    /// For the manual page, in its markup.
    pub(crate) manual: &'static str,
}

/// An object of smcd.
pub(crate) struct Object {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it shows.
    pub(crate) about: &'static str,
    /// What may follow, for its usage.
    pub(crate) usage: &'static str,
    /// The words that may follow.
    pub(crate) commands: &'static [&'static str],
}

impl Opt {
    /// With a short and a long name.
    pub(crate) const fn both(id: u8, long: &'static str, text: &'static str, manual: &'static str) -> Opt {
        Opt { id, is_short: true, long, value: "", text, manual }
    }

    /// With a long name only.
    pub(crate) const fn long(id: u8, long: &'static str, text: &'static str, manual: &'static str) -> Opt {
        Opt { is_short: false, ..Opt::both(id, long, text, manual) }
    }

    /// With a short name only, and a value unless that is empty.
    pub(crate) const fn short(id: u8, value: &'static str, text: &'static str, manual: &'static str) -> Opt {
        Opt { value, ..Opt::both(id, "", text, manual) }
    }

    /// With both names and a value.
    pub(crate) const fn valued(
        id: u8,
        long: &'static str,
        value: &'static str,
        text: &'static str,
        manual: &'static str,
    ) -> Opt {
        Opt { value, ..Opt::both(id, long, text, manual) }
    }

    /// As the user may write it.
    pub(crate) fn names(&self, dashes: &str) -> Vec<String> {
        let short = self.is_short.then(|| format!("-{}", char::from(self.id)));
        let long = (!self.long.is_empty()).then(|| format!("{dashes}{}", self.long));
        short.into_iter().chain(long).collect()
    }
}

impl Tool {
    /// The option with this short name.
    pub(crate) fn short(&self, letter: u8) -> Option<&Opt> {
        self.options.iter().find(|option| option.is_short && option.id == letter)
    }

    /// Options of the usage, one per line.
    pub(crate) fn usage_of_options(&self) -> String {
        let heads: Vec<String> = self.options.iter().map(|option| self.head(option)).collect();
        let width = heads.iter().map(String::len).max().unwrap_or(0) + 3;
        let lines = self.options.iter().zip(heads);
        lines.map(|(option, head)| format!("   {head:<width$}{}\n", option.text)).collect()
    }

    fn head(&self, option: &Opt) -> String {
        let indent = if option.is_short { "" } else { "    " };
        let value = if option.value.is_empty() { String::new() } else { format!(" {}", option.value) };
        format!("{indent}{}{value}", option.names(self.dashes).join(", "))
    }

    /// The section OPTIONS of the manual page.
    pub(crate) fn manual_of_options(&self) -> String {
        let paragraphs = self.options.iter().map(|option| {
            let names: Vec<String> =
                option.names(self.dashes).iter().map(|name| name.replace('-', r"\-")).collect();
            let head = match (names.as_slice(), option.value) {
                ([only], "") => format!(".B {only}"),
                ([only], value) => format!(".BI {only} \" {value}\""),
                (both, "") => format!(".BR {}", both.join(" \", \" ")),
                (both, value) => format!(".BR {} \" \\fI{value}\\fR\"", both.join(" \", \" ")),
            };
            format!(".TP\n{head}\n{}\n", option.manual)
        });
        let before = self.before_options;
        let before = if before.is_empty() { String::new() } else { format!("{before}\n") };
        std::iter::once(before).chain(paragraphs).collect()
    }
}
