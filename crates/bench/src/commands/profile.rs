//! `smc_bench profile`: the built-in profiles, to look at and to hand to uperf.

use std::process::ExitCode;

use clap::Subcommand;

use crate::report;
use uperf::profile::builtin::{self, Builtin};
use uperf::say;

/// Names and values.
type Variables = [(&'static str, &'static str)];

/// What to do with them.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Name them, with their variables
    List,
    /// Print one as the file that it is
    Show {
        /// Which one
        name: String,
        /// The file for uperf, without what only this program knows
        #[arg(long)]
        for_uperf: bool,
    },
}

impl Command {
    /// Prints.
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        match self {
            Command::List => report::print(&list())?,
            Command::Show { name, for_uperf } => show(builtin::named(name)?, *for_uperf)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn list() -> String {
    let line = |one: &Builtin| {
        let own = if one.own.is_empty() { String::new() } else { format!(" ({})", settings(one.own)) };
        format!("{:<16}{}{own}\n", one.name, one.about)
    };
    let lines: String = builtin::list().iter().map(line).collect();
    format!("{lines}\nvariables of all: {}\n", settings(&builtin::COMMON))
}

/// The variables go to stderr: stdout may be a file that is to be a profile.
fn show(profile: &Builtin, for_uperf: bool) -> anyhow::Result<()> {
    if !for_uperf {
        return report::print(profile.text);
    }
    report::print(&profile.for_uperf())?;
    let variables = profile.defaults();
    let needed: Vec<_> = variables.into_iter().filter(|(name, _)| *name != builtin::WARM_UP_TIME).collect();
    say(format_args!("uperf takes its variables from the environment: {} uperf -m FILE", settings(&needed)));
    Ok(())
}

/// `h=127.0.0.1 proto=tcp`
fn settings(variables: &Variables) -> String {
    variables.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}
