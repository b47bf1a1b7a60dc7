//! The files of a report, and what is said when one cannot be written.
//!
//! The invariant: a file that fails takes no other with it, and the results have been printed before.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::compare::study::Study;
use crate::report::{csv, html, json, markdown};
use uperf::file::{self, STDOUT};
use uperf::profile::Refusal;

/// Where results go, besides the text.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Files {
    /// Every number, for `smc_bench report` and other programs; - is stdout, in place of the text
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// A row per metric
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// The tables as Markdown
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
    /// One page with charts that needs no other file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Heading of the report
    #[arg(long)]
    pub(crate) title: Option<String>,
}

type Render = fn(&Study) -> anyhow::Result<String>;

impl Files {
    fn wanted(&self) -> impl Iterator<Item = (&Path, Render)> {
        let all = [
            (&self.json, json::emit as Render),
            (&self.csv, csv::emit),
            (&self.markdown, markdown::emit),
            (&self.html, html::emit),
        ];
        all.into_iter().filter_map(|(file, render)| Some((file.as_deref()?, render)))
    }

    /// Whether one of them goes to stdout, where the text would be in its way.
    pub(crate) fn takes_stdout(&self) -> bool {
        self.wanted().any(|(file, _)| file == Path::new(STDOUT))
    }

    /// Refuses two forms in one place, where the second would overwrite the first.
    pub(crate) fn refuse_clash(&self) -> Result<(), Refusal> {
        let mut seen = BTreeSet::new();
        match self
            .wanted()
            .find(|(file, _)| !seen.insert(fs::canonicalize(file).unwrap_or_else(|_| file.into())))
        {
            Some((file, _)) => {
                Err(Refusal::usage(&format!("two forms of the report are to go to {}", file.display())))
            }
            None => Ok(()),
        }
    }

    /// What will probably go wrong when results are to be written, before anything has been measured.
    pub(crate) fn doubts(&self) -> Vec<String> {
        let doubt = |file: &Path| {
            let error = file::check(file).err()?;
            Some(format!("{} cannot be written ({error}): results will be printed only", file.display()))
        };
        self.wanted().filter_map(|(file, _)| doubt(file)).collect()
    }

    /// Writes what was asked for; one sentence for each file that could not be written.
    pub(crate) fn save(&self, study: &Study) -> Vec<String> {
        let save =
            |file: &Path, render: Render| -> anyhow::Result<()> { Ok(file::write(file, &render(study)?)?) };
        let sentence = |file: &Path, error: anyhow::Error| {
            format!("cannot write {}: {error:#}; the results are in the text all the same", file.display())
        };
        self.wanted().filter_map(|(file, render)| Some(sentence(file, save(file, render).err()?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_is_known_beforehand() {
        let folder = tempfile::tempdir().expect("a folder for tests");
        let file = folder.path().join("absent/x.json");
        let files = Files { json: Some(file), csv: Some(folder.path().join("x.csv")), ..Files::default() };
        let doubts = files.doubts();
        assert!(doubts.len() == 1 && doubts[0].contains("No such file or directory"), "{doubts:?}");
        assert!(!doubts[0].contains(".smc_bench-"), "no file that nobody asked for: {doubts:?}");
        assert_eq!(fs::read_dir(folder.path()).map(Iterator::count).ok(), Some(0), "nothing is left behind");
    }
}
