//! One slice: a fresh server, a warm-up, then each test, watched from outside.

use std::path::Path;
use std::time::Duration;

use crate::paths::abort;
use crate::paths::launch::{Guarded, Place};
use uperf::result::Connections;

use super::application::{Application, Load};
use super::comparison::{Counted, Slice};
use super::server::{Server, free_port};

/// Beyond the planned length: generators that count requests may have guessed wrongly.
const PATIENCE: Duration = Duration::from_secs(60);

/// How an application is measured.
pub(super) struct Bench<'a> {
    /// What.
    pub(super) application: &'a dyn Application,
    /// Its data.
    pub(super) folder: &'a Path,
    /// How much.
    pub(super) load: Load,
    /// Seconds of a warm-up.
    pub(super) warm_up: u16,
    /// Which of its tests.
    pub(super) tests: &'a [&'static str],
    /// Who tells what connections run over.
    pub(super) smcss: Option<&'a Path>,
}

impl Bench<'_> {
    /// Measures every test once in surroundings that differ from the application's as `way` does from an ordinary place.
    pub(super) fn slices(&self, way: &Place) -> anyhow::Result<Vec<Slice>> {
        let place = Place {
            wrapper: way.wrapper.clone(),
            preload: way.preload.clone(),
            scratch: Some(self.folder.to_owned()),
            ..self.application.place()
        };
        let port = free_port()?;
        let server = Server::start(self.application, self.folder, &place, port)?;
        let client = Place { gently: false, ..place };
        self.tests.iter().map(|test| self.slice(test, port, &server, &client)).collect()
    }

    fn slice(&self, test: &str, port: u16, server: &Server, client: &Place) -> anyhow::Result<Slice> {
        let short = Load { seconds: self.warm_up, ..self.load };
        let (warm_up, _) = self.once(test, port, server, client, &short)?;
        let load = Load { rate: Some(warm_up.rate), ..self.load };
        let before_ns = server.cpu_ns();
        let (counted, connections) = self.once(test, port, server, client, &load)?;
        let used_ns = server.cpu_ns().saturating_sub(before_ns);
        Ok(Slice { counted, server_cpu_ns: used_ns as f64 / counted.requests.max(1) as f64, connections })
    }

    fn once(
        &self,
        test: &str,
        port: u16,
        server: &Server,
        client: &Place,
        load: &Load,
    ) -> anyhow::Result<(Counted, Connections)> {
        let program = self.application.load(test, port, load);
        let mut running = client.start(&program.file, &program.arguments)?;
        let connections = self.look(&mut running, server, load);
        let printed = running.finish(Duration::from_secs(load.seconds.into()) + PATIENCE)?;
        Ok((self.application.counted(&printed, load)?, connections))
    }

    /// Looks until all connections have been seen, most often that is once. The first look is early: a generator that
    /// counts requests may be done in a fraction of the time planned.
    fn look(&self, running: &mut Guarded, server: &Server, load: &Load) -> Connections {
        let mut most = Connections::default();
        for part in [32, 16, 8].into_iter().chain([4; 240]) {
            if abort::sleep(Duration::from_secs(load.seconds.into()) / part).is_err() {
                break;
            }
            let seen = server.connections(self.smcss);
            if seen.total >= most.total {
                most = seen;
            }
            if most.total >= load.connections || !running.is_alive() {
                break;
            }
        }
        most
    }
}
