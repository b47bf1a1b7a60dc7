//! What the comparison must know about a server and its load generator. Each application states facts in here; how a
//! slice is measured is [`super::slice`]'s business.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::paths::launch::Place;

use super::comparison::Counted;

/// A program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// Its file.
    pub(crate) file: PathBuf,
    /// Its arguments.
    pub(crate) arguments: Vec<OsString>,
}

impl Program {
    /// `file` with the arguments in `line`, which are divided by blanks.
    pub(crate) fn new(file: &Path, line: &str) -> Self {
        Self { file: file.to_owned(), arguments: line.split_whitespace().map(OsString::from).collect() }
    }

    /// One more argument, which may hold blanks.
    pub(crate) fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }
}

/// How much load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Load {
    /// Connections at once.
    pub(crate) connections: u32,
    /// Whole seconds, since most generators take no others.
    pub(crate) seconds: u16,
    /// Requests per second that the last load of this kind came to, for generators that count and do not watch the clock.
    pub(crate) rate: Option<f64>,
}

impl Load {
    /// Requests that take about as long as wanted; a first guess where no rate is known.
    pub(crate) fn requests(&self) -> u64 {
        self.rate.map_or(20_000, |rate| (rate * f64::from(self.seconds)) as u64).max(1000)
    }
}

/// What an application says of itself.
pub(crate) struct About {
    /// The server's version, or all that it prints about it.
    pub(crate) version: String,
    /// Connections at once unless somebody asks for another number.
    pub(crate) connections: u32,
    /// Names of what is measured, in this order, against one server.
    pub(crate) tests: &'static [&'static str],
}

/// A server and its load generator.
pub(crate) trait Application {
    /// What it is.
    fn about(&self) -> About;

    /// How the surroundings of both programs differ from an ordinary user's.
    fn place(&self) -> Place {
        Place::default()
    }

    /// Fills `folder` with what the server needs: files to serve, a database.
    fn prepare(&self, _folder: &Path) -> anyhow::Result<()> {
        Ok(())
    }

    /// The server at 127.0.0.1 and `port`, in the foreground.
    fn server(&self, folder: &Path, port: u16) -> anyhow::Result<Program>;

    /// A program that succeeds when the server takes requests; None if it does as soon as it accepts connections.
    fn readiness(&self, _port: u16) -> Option<Program> {
        None
    }

    /// The generator.
    fn load(&self, test: &str, port: u16, load: &Load) -> Program;

    /// What the generator printed. The error says what is wrong with it.
    fn counted(&self, printed: &str, load: &Load) -> anyhow::Result<Counted>;
}
