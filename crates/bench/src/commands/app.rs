//! `smc_bench app`: a real server with its own load generator, plain and under smc_run. Its tests are cells like all others.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;

use super::run::{Job, run};
use super::shared::Common;
use crate::app::{Name, Session};
use crate::cell::Cell;
use crate::compare::presets::Choice;
use crate::compare::probe::{self, whole_seconds};
use crate::compare::quantity::Probe;
use crate::compare::world::{self, Missing, World};
use crate::idle::{self, Idle};
use crate::path::Path;
use uperf::result::Run;

/// Which server, and how.
#[derive(Args)]
pub(crate) struct Options {
    /// The server
    name: Name,
    /// Connections of the load generator [default: 50 for redis and memcached, 100 for nginx, 10 for postgres]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    conns: Option<u32>,
    #[command(flatten)]
    common: Common,
}

impl Options {
    /// Measures and shows.
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let (duration, warm_up) = (Duration::from_secs(5), Some(Duration::from_secs(1)));
        let choice = self.common.change(Choice { duration, warm_up, ..Choice::usual() });
        let whole = |duration| Duration::from_secs(whole_seconds(duration).into());
        let (duration, warm_up) = (whole(choice.duration), whole(choice.warm_up()));
        let mut session = Session::open(self.name, self.name.find()?, self.conns, whole_seconds(duration))?;
        let mut notes = session.notes.clone();
        if duration != choice.duration || warm_up != choice.warm_up() {
            notes.push("load generators take whole seconds".into());
        }
        session.warm_up = whole_seconds(warm_up);
        let mut server = Server { name: uperf::named(self.name), session };
        let profiles = server.session.tests().iter().map(|test| format!("{} {test}", server.name)).collect();
        let connections = vec![server.session.connections()];
        let choice = Choice { profiles, connections, duration, warm_up: Some(warm_up), ..choice };
        let title = format!("{} {}", server.name, server.session.version());
        let plan = choice.plan(&server.session.paths(), Path::TcpLoopback);
        run(Job { notes, ..Job::new(&title, plan) }, &self.common.shown, &mut server)
    }
}

/// A world of one server.
struct Server {
    name: String,
    session: Session,
}

impl World for Server {
    fn run(&mut self, cell: &Cell) -> anyhow::Result<Run> {
        let test = self.session.tests().iter().find(|test| cell.profile == format!("{} {test}", self.name));
        let slices = self.session.slices(cell.path, &[*test.context("one of the tests")?])?;
        Ok(slices.first().context("a slice")?.run(&cell.profile, cell.connections))
    }

    fn available(&mut self, path: Path) -> Result<(), String> {
        if self.session.paths().contains(&path) { Ok(()) } else { Err(self.session.notes.join("; ")) }
    }

    fn idle(&mut self, _: &idle::Settings, _: &[Path]) -> anyhow::Result<Idle> {
        bail!("a server is measured, not connections")
    }

    fn open(&mut self, probe: Probe, duration: Duration) -> Result<Box<dyn world::Session>, Missing> {
        probe::open(probe, duration)
    }
}
