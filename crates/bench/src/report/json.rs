//! A study as JSON and back. Beside the study itself, which is all that is read back, stands a summary for programs
//! that do not want to count.

use std::path::Path;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use crate::compare::judge::judge;
use crate::compare::study::Study;
use crate::compare::summary::Reading;
use crate::compare::verdict;
use crate::report::csv::{self, Record};

/// What the file says of itself. The number grows when an old reader would misread a new file.
const FORMAT: &str = "smc_bench study 1";

#[derive(Serialize)]
struct Document<'a> {
    format: &'static str,
    verdict: Vec<String>,
    summary: Vec<Record>,
    study: &'a Study,
}

#[derive(Deserialize)]
struct Saved {
    format: String,
    study: Study,
}

/// The whole file.
pub(crate) fn emit(study: &Study) -> anyhow::Result<String> {
    let reading = Reading::new(study);
    let verdict = verdict::summary(&reading, &judge(&reading));
    let document = Document { format: FORMAT, verdict, summary: csv::records(study), study };
    Ok(serde_json::to_string(&document)? + "\n")
}

/// The study in `text`.
pub(crate) fn parse(text: &str) -> anyhow::Result<Study> {
    let saved: Saved = serde_json::from_str(text).context("this is not what --json saves")?;
    if saved.format != FORMAT {
        bail!("its format is \"{}\", this program reads \"{FORMAT}\"", saved.format);
    }
    Ok(saved.study)
}

/// The study in a file.
pub(crate) fn load(file: &Path) -> anyhow::Result<Study> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    parse(&text).with_context(|| format!("cannot read {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::agreement::every;

    #[test]
    fn what_is_saved_is_what_is_loaded() {
        for study in every() {
            let text = emit(&study).expect("a study can be saved");
            let again = parse(&text).expect("and loaded");
            assert_eq!((emit(&again).expect("it saves"), again), (text, study));
        }
    }

    #[test]
    fn other_files_are_refused_in_a_sentence() {
        let error = |text: &str| format!("{:#}", parse(text).expect_err("no study"));
        assert!(error("[1, 2]").starts_with("this is not what --json saves"));
        let newer = emit(&Study::default()).expect("saved").replace(FORMAT, "smc_bench study 2");
        let refused = format!("its format is \"smc_bench study 2\", this program reads \"{FORMAT}\"");
        assert_eq!(error(&newer), refused);
    }
}
