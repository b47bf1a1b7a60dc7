//! What uperf prints, where uperf prints it: progress in place, then tables. Scripts that read uperf's output read this.
//!
//! Standard output only; errors are somebody else's. One deliberate difference: a group's line counts each byte once.

pub(super) mod json;
mod numbers;
mod tables;

use std::cell::RefCell;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use super::options::{Options, Tables};
use super::{Nic, Summary, kinds, nics};
use crate::profile::model::Profile;
use crate::strand::{Counts, wall_ns};

/// uperf's width where standard output is no terminal.
const USUAL_WIDTH: usize = 80;
/// uperf's widest.
const WIDEST: usize = 128;

/// The transaction whose progress is shown, and from where on it counts.
struct Line {
    name: String,
    begin: Instant,
    before: Counts,
}

/// Prints a run while it goes on, and what came of it.
pub(crate) struct Printer {
    tables: Tables,
    raw: bool,
    /// Standard output belongs to somebody else.
    quiet: bool,
    interval: Duration,
    profile: String,
    kinds: (u32, u32),
    next: Instant,
    line: Option<Line>,
    begin: Instant,
    nics: Vec<Nic>,
    /// What kept it from being printed.
    lost: RefCell<Option<io::Error>>,
}

impl Printer {
    /// For a run of `profile`.
    pub(crate) fn new(options: &Options, profile: &Profile) -> Self {
        Self {
            tables: options.tables,
            raw: options.raw,
            quiet: options.json.as_deref().is_some_and(|path| path.as_os_str() == "-"),
            interval: options.interval,
            profile: profile.name.clone(),
            kinds: kinds(&profile.groups),
            next: Instant::now(),
            line: None,
            begin: Instant::now(),
            nics: vec![],
            lost: RefCell::default(),
        }
    }

    /// The strands are about to be started.
    pub(crate) fn starting(&self) {
        let what = match self.kinds {
            (0, processes) => format!("{processes} processes"),
            (threads, 0) => format!("{threads} threads"),
            (threads, processes) => format!("{threads} threads, {processes} processes"),
        };
        self.print(&format!("Starting {what} running profile:{} ... ", self.profile));
    }

    /// They are, and the run begins.
    pub(crate) fn started(&mut self, took: Duration) {
        self.print(&format!(" {:5.2} seconds\n", took.as_secs_f64()));
        self.begin = Instant::now();
        self.nics = nics();
    }

    /// Transaction `number` begins.
    pub(crate) fn begin(&mut self, number: usize, counts: Counts) {
        self.end_line(counts);
        self.line = Some(Line { name: format!("Txn{}", number + 1), begin: Instant::now(), before: counts });
        self.next = Instant::now();
        self.tick(counts);
    }

    /// How long until the next line of progress.
    pub(crate) fn next_tick(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    /// Shows progress if it is time.
    pub(crate) fn tick(&mut self, counts: Counts) {
        let now = Instant::now();
        if now < self.next {
            return;
        }
        self.next = now + self.interval;
        self.progress(counts);
    }

    /// The last strand has ended.
    pub(crate) fn ended(&mut self, counts: Counts) {
        self.end_line(counts);
        self.rule();
    }

    fn end_line(&mut self, counts: Counts) {
        if self.line.is_some() {
            self.progress(counts);
            self.print_stats("\n");
            self.line = None;
        }
    }

    fn progress(&self, counts: Counts) {
        let Some(line) = &self.line else { return };
        let counts = counts.since(line.before);
        let text = self.summary(&line.name, counts, line.begin.elapsed());
        let blank = if self.raw { String::new() } else { format!("\r{}\r", " ".repeat(self.width() - 1)) };
        self.print_stats(&(blank + &text));
    }

    /// What was moved, in how long, and how fast that is.
    fn summary(&self, name: &str, counts: Counts, took: Duration) -> String {
        if self.raw {
            let millis = wall_ns() as f64 / 1e6;
            let (bytes, operations) = (counts.bytes(), counts.operations);
            return format!("timestamp_ms:{millis:.4} name:{name} nr_bytes:{bytes} nr_ops:{operations}\n");
        }
        tables::summary(name, counts, took.as_secs_f64())
    }

    /// Everything that is printed after a run.
    pub(crate) fn finish(&self, summary: &Summary) {
        let total = self.summary("Total", summary.counts, Duration::from_nanos(summary.elapsed_ns));
        self.print_stats(&total);
        self.print_stats(if self.raw { "" } else { "\n" });
        let rule = self.ruler();
        let all = [
            (self.tables.groups, tables::groups as fn(&Summary, &str) -> String),
            (self.tables.strands, tables::strands),
            (self.tables.transactions, tables::transactions),
            (self.tables.flowops, tables::flowops),
        ];
        for (_, table) in all.iter().filter(|(is_wanted, _)| *is_wanted) {
            self.print_stats(&table(summary, &rule));
        }
        let took = self.begin.elapsed().as_secs_f64();
        self.print_stats(&tables::packets(&self.nics, &nics(), took, &rule));
        self.print_stats(&tables::goodbyes(summary, &rule));
        if summary.failure.is_some() {
            self.print("\nWARNING: 1 Errors detected during run\n");
        }
    }

    /// Why not everything is where it was printed to.
    pub(crate) fn lost(&self) -> Option<io::Error> {
        self.lost.take()
    }

    fn rule(&self) {
        self.print_stats(&self.ruler());
    }

    fn ruler(&self) -> String {
        "-".repeat(self.width() - 1) + "\n"
    }

    fn width(&self) -> usize {
        let size = rustix::termios::tcgetwinsize(io::stdout());
        size.map_or(USUAL_WIDTH, |size| usize::from(size.ws_col).clamp(USUAL_WIDTH, WIDEST))
    }

    fn print_stats(&self, text: &str) {
        if !self.tables.none {
            self.print(text);
        }
    }

    fn print(&self, text: &str) {
        if !self.quiet {
            let mut out = io::stdout().lock();
            // Whoever closed our output does not want to know; the run and its other results go on.
            let printed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
            if let Err(error) = printed
                && error.kind() != io::ErrorKind::BrokenPipe
            {
                self.lost.replace(Some(error));
            }
        }
    }
}
