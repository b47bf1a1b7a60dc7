//! What the command line asks of a master.

use std::path::PathBuf;
use std::time::Duration;

use crate::strand::Detail;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Control port of the slaves.
    pub(crate) port: u16,
    /// Between two lines of progress.
    pub(crate) interval: Duration,
    /// What the strands measure beside transactions.
    pub(crate) detail: Detail,
    /// What is printed at the end.
    pub(crate) tables: Tables,
    /// Lines of `-R` instead of tables.
    pub(crate) raw: bool,
    /// Where a [`crate::result::Run`] goes; `-` is standard output, which then has nothing else.
    pub(crate) json: Option<PathBuf>,
    /// Say on standard error what is going on.
    pub(crate) verbose: bool,
}

/// Which tables follow the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tables {
    /// `-n` takes away even the lines of progress.
    pub(crate) none: bool,
    /// `-g`
    pub(crate) groups: bool,
    /// `-T`
    pub(crate) strands: bool,
    /// `-t`
    pub(crate) transactions: bool,
    /// `-f`
    pub(crate) flowops: bool,
}
