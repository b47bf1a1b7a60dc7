//! From a job to a report: measures, puts the study together, shows it, and says by its exit status how it went.
//!
//! The invariant: whatever was measured is shown, however the measurement ended.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use super::shared::Shown;
use crate::compare::goals::{self, Goal};
use crate::compare::idle_table;
use crate::compare::judge::judge;
use crate::compare::machine::Machine;
use crate::compare::measure::{Bench, Taken, WINDOW};
use crate::compare::plan::Plan;
use crate::compare::probe;
use crate::compare::procfs::Procfs;
use crate::compare::progress::Progress;
use crate::compare::quiet::Host as _;
use crate::compare::study::{Axis, Ending, Study};
use crate::compare::summary::Reading;
use crate::compare::world::World;
use crate::idle;
use crate::path::Path;
use crate::paths::abort;
use crate::report;
use uperf::say;

/// The exit status of a program that Ctrl-C ended, as shells have it.
pub(crate) const INTERRUPTED: u8 = 130;
/// Of this program; what was measured without the optimiser says so.
const VERSION: &str = if cfg!(debug_assertions) {
    concat!(env!("CARGO_PKG_VERSION"), " (debug build)")
} else {
    env!("CARGO_PKG_VERSION")
};
/// Where idle connections are measured if nothing else is planned.
const IDLE: [Path; 2] = [Path::TcpLoopback, Path::Smc];

/// What to do, whatever it is called.
pub(crate) struct Job {
    /// Heading of the report, unless the user has one.
    pub(crate) title: String,
    /// What its charts stand on.
    pub(crate) axis: Axis,
    /// What to measure.
    pub(crate) plan: Plan,
    /// What to reach. What of it no cell tells is measured behind the plan.
    pub(crate) goals: Vec<Goal>,
    /// Length of one measurement of that.
    pub(crate) probing: Duration,
    /// What the reader should know beforehand.
    pub(crate) notes: Vec<String>,
    /// What connections cost that do nothing, where it is to be measured, too.
    pub(crate) idle: Option<idle::Settings>,
}

impl Job {
    /// One whose charts stand on numbers of connections, without goals.
    pub(crate) fn new(title: &str, plan: Plan) -> Self {
        Self {
            title: title.into(),
            axis: Axis::Connections,
            plan,
            goals: vec![],
            probing: Duration::ZERO,
            notes: vec![],
            idle: None,
        }
    }
}

/// Measures and shows.
pub(crate) fn run(job: Job, shown: &Shown, world: &mut dyn World) -> anyhow::Result<ExitCode> {
    shown.files.refuse_clash()?;
    shown.files.doubts().iter().for_each(say);
    let study = measure(job, shown, world)?;
    let is_shown = report::show(&study, &shown.files);
    Ok(status(&study, is_shown))
}

/// Measures, with news on stderr.
pub(crate) fn measure(job: Job, shown: &Shown, world: &mut dyn World) -> anyhow::Result<Study> {
    let (machine, started) =
        (Machine::read(), humantime::format_rfc3339_seconds(SystemTime::now()).to_string());
    let (probes, duration) = (goals::probes(&job.goals), job.probing);
    let guess = probes.iter().map(|probe| probe::guess(*probe, duration)).sum::<Duration>();
    let guess = guess * u32::from(job.plan.rounds);
    let (mut host, mut progress) = (Procfs::new(), Progress::new(&job.plan, guess));
    let mut bench = Bench {
        world,
        host: &mut host,
        stop: &abort::asked,
        tell: &mut |news| progress.tell(news),
        wait: shown.wait(),
    };
    let measured = bench.measure(&job.plan);
    let taken = match measured.ending {
        Ending::Complete => bench.take(&probes, job.plan.rounds, duration),
        ending => Taken { ending, ..Taken::default() },
    };
    let mut study = Study {
        title: shown.files.title.clone().unwrap_or(job.title),
        command: command_line(std::env::args()),
        version: VERSION.into(),
        started,
        machine,
        plan: job.plan,
        axis: job.axis,
        samples: measured.samples,
        failures: measured.failures,
        ending: taken.ending,
        takes: taken.takes,
        lacks: taken.lacks,
        notes: job.notes,
        goals: job.goals,
        ..Study::default()
    };
    if let Some(settings) = job.idle.filter(|_| study.ending != Ending::Interrupted) {
        add_idle(&mut study, &settings, &mut bench)?;
    }
    progress.end();
    study.seconds = host.now().as_secs_f64();
    Ok(study)
}

/// A table of idle connections, or a note why there is none.
fn add_idle(study: &mut Study, settings: &idle::Settings, bench: &mut Bench<'_>) -> anyhow::Result<()> {
    let contenders = study.plan.groups.iter().flat_map(|group| &group.contenders);
    let planned: BTreeSet<Path> = contenders.map(|one| one.path).collect();
    let planned_nothing = planned.is_empty();
    let paths = if planned_nothing { IDLE.to_vec() } else { planned.into_iter().collect() };
    say("measuring what idle connections cost");
    let (idle, seen) = bench.watched(WINDOW.1, |world| world.idle(settings, &paths));
    match idle {
        Err(_) if (bench.stop)() => study.ending = Ending::Interrupted,
        // Nothing else was measured that could be shown.
        Err(error) if planned_nothing => return Err(error),
        Err(error) => study.notes.push(format!("idle connections were not measured: {error:#}")),
        Ok(idle) => {
            study.extras.extend((!idle.lines.is_empty()).then(|| idle_table::table(&idle, seen)));
            study.notes.extend(idle.notes);
        }
    }
    if (bench.stop)() {
        study.ending = Ending::Interrupted;
    }
    Ok(())
}

/// Documented in `--help`: 0 all well, 1 something is missing, below its floor or without a verdict, 130 Ctrl-C.
pub(crate) fn status(study: &Study, is_shown: bool) -> ExitCode {
    let judged = judge(&Reading::new(study));
    let is_broken = judged.iter().any(|row| row.verdict.is_failure());
    let is_incomplete = !study.failures.is_empty() || study.lacks.iter().any(|lack| !lack.is_absent);
    match study.ending {
        Ending::Interrupted => ExitCode::from(INTERRUPTED),
        _ if is_incomplete || !is_shown || is_broken => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    }
}

/// As a shell would take it, the program by its bare name.
fn command_line(args: impl Iterator<Item = String>) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,/:+@%".contains(c);
    let quoted = |arg: String| match arg.is_empty() || !arg.chars().all(is_plain) {
        true => format!("'{}'", arg.replace('\'', r"'\''")),
        false => arg,
    };
    let args: Vec<String> = args.skip(1).map(quoted).collect();
    format!("smc_bench {}", args.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::Name;
    use crate::cell::Cell;
    use crate::compare::mock::{self, MockExecutor, plan, study, suite_study};
    use crate::compare::quantity::{Pair, Probe, Quantity, Unit};

    fn is(study: &Study, is_shown: bool, expected: ExitCode) {
        assert_eq!(format!("{:?}", status(study, is_shown)), format!("{expected:?}"));
    }

    #[test]
    fn the_exit_status_tells_how_it_went() {
        let plan = plan(&["rr"], &[1], &[Path::TcpVeth, Path::Smc]);
        let good = study(plan.clone(), &mut MockExecutor::default());
        is(&good, true, ExitCode::SUCCESS);
        is(&good, false, ExitCode::FAILURE);
        is(&Study { ending: Ending::OutOfTime, ..good.clone() }, true, ExitCode::SUCCESS);
        is(&Study { ending: Ending::Interrupted, ..good }, true, ExitCode::from(130));
        let mut executor = MockExecutor::default();
        executor.fail("rr 1 smc", "no");
        is(&study(plan, &mut executor), true, ExitCode::FAILURE);
    }

    #[test]
    fn a_row_below_its_floor_fails_and_a_program_that_is_not_installed_fails_nothing() {
        let model = |cell: &Cell, _: usize| match cell.path {
            Path::Smc => mock::run(200_000.0, 0.1),
            _ => mock::run(1000.0, 100.0),
        };
        let quantity = |quantity: Quantity, _| match quantity.about().unit {
            Unit::Times => Pair { ours: 3.0, theirs: Some(1.0) },
            _ => Pair { ours: 0.0, theirs: None },
        };
        let great = || MockExecutor::new(model).with_quantities(quantity);
        let pace = goals::Pace { duration: Duration::from_secs(1), rounds: 1, ..Default::default() };
        for (mut executor, is_absent, expected) in [
            (MockExecutor::default(), true, ExitCode::FAILURE),
            (great(), true, ExitCode::SUCCESS),
            (great(), false, ExitCode::FAILURE),
        ] {
            executor.lack(Probe::App(Name::Redis), "redis-server is not here", is_absent);
            is(&suite_study(goals::suite(&pace, Path::TcpVeth), &mut executor), true, expected);
        }
    }

    #[test]
    fn a_command_line_can_be_pasted() {
        let args = ["/opt/bin/smc_bench", "compare", "--title", "it's", "--conns=1,10", ""];
        let line = command_line(args.iter().map(ToString::to_string));
        assert_eq!(line, r"smc_bench compare --title 'it'\''s' --conns=1,10 ''");
    }
}
