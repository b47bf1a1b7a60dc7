//! One run: a slave, a master, a look at their connections in between, and what both wrote.
//!
//! The engine's command line is the contract: the slave says `slave listens on port N` first, both write a [`Run`] as
//! JSON. Nothing here waits without a limit.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use serde::de::DeserializeOwned;

use crate::cell::Cell;
use uperf::profile;
use uperf::result::{Connections, Run, Usage};

use super::abort;
use super::launch::Guarded;
use super::route::Route;
use super::sockets::{Watch, list};
use super::totals::Totals;

/// Longest warm-up; windows, rings and spin budgets settle within one second.
const WARM_UP: Duration = Duration::from_secs(1);
/// Between two looks whether the master still runs.
const PAUSE: Duration = Duration::from_millis(10);
/// What the slave says first, before the number.
const LISTENS: &str = "slave listens on port ";

/// Measures `cell` once over `route`. The witnesses tell what the connections ran over; the longest of what smcss prints for
/// people is kept in `listing`.
pub(super) fn run(
    engine: &Engine,
    cell: &Cell,
    route: &Route,
    witnesses: Witnesses<'_>,
    listing: Option<&mut String>,
) -> anyhow::Result<Run> {
    let folder = tempfile::Builder::new().prefix("smc_bench-").tempdir().context("no place for results")?;
    let patience = engine.patience;
    let pair = Pair { engine: &engine.program, patience, cell, route, folder: folder.path() };
    let witness = pair.witness(witnesses, Totals::read);
    let mut slave = pair.start(&route.server, pair.for_slave())?;
    let port = listening_port(&slave.line(patience)?)?;
    let mut master = pair.start(&route.client, pair.for_master(port))?;
    let mut seen = None;
    if let Witness::Looks(smcss) = witness {
        seen = pair.look_in_time(&slave, &mut master, port, smcss);
        if let (Some(smcss), Some(listing)) = (smcss, listing) {
            keep_longer(listing, list(smcss));
        }
    }
    let ended = master.finish(patience);
    // A master that failed most often did so because its slave did; both are heard.
    if let Err(error) = ended {
        let complaint = slave.complaint();
        return Err(anyhow!(
            "{error}{}",
            if complaint.is_empty() { complaint } else { format!("; slave{complaint}") }
        ));
    }
    slave.finish(patience)?;
    let mut run: Run = pair.read("master")?;
    run.server = pair.read::<Served>("slave")?.server;
    if let Witness::Counts(smcd, before) = &witness {
        let made = if pair.is_brief() { run.transactions } else { cell.connections.into() };
        let control = route.control.unwrap_or_default();
        seen = Totals::read(smcd).and_then(|now| now.since(before, control, made));
    }
    run.connections = seen.or(run.connections);
    Ok(run)
}

/// Programs that tell what connections run over, where they have a say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Witnesses<'a> {
    /// Of those that are open.
    pub(super) smcss: Option<&'a Path>,
    /// Of those that have been: it keeps totals.
    pub(super) smcd: Option<&'a Path>,
}

/// Who tells it of the connections of one run.
#[derive(Debug)]
enum Witness<'a> {
    /// We look at them while they are open, and smcss says how they travel.
    Looks(Option<&'a Path>),
    /// smcd counts them; its totals before the run.
    Counts(&'a Path, Totals),
    /// A look at what is gone at once costs both ends time and tells nothing.
    Nobody,
}

/// Who does the work at both ends.
pub(super) struct Engine {
    /// This program, or another with the engine's command line.
    pub(super) program: PathBuf,
    /// How long it may take beyond the planned time.
    pub(super) patience: Duration,
}

/// Of the slave's JSON, the part that the master cannot know.
#[derive(serde::Deserialize)]
struct Served {
    server: Option<Usage>,
}

struct Pair<'a> {
    engine: &'a Path,
    patience: Duration,
    cell: &'a Cell,
    route: &'a Route,
    folder: &'a Path,
}

impl Pair<'_> {
    fn start(&self, place: &super::launch::Place, arguments: Vec<OsString>) -> anyhow::Result<Guarded> {
        let mut place = place.clone();
        place.environment.extend(self.cell.environment.clone());
        place.scratch = Some(self.folder.to_owned());
        place.start(self.engine, arguments)
    }

    fn for_slave(&self) -> Vec<OsString> {
        let server = uperf::named(self.cell.server);
        let words = ["-s", "--once", "-P", "0", "--server"].map(OsString::from);
        words.into_iter().chain([server.into()]).chain(self.json("slave")).collect()
    }

    fn for_master(&self, port: u16) -> Vec<OsString> {
        let words = ["-m", &self.cell.profile, "-P", &port.to_string()].map(OsString::from);
        let variables = variables(self.cell, self.route);
        // With a question mark: a profile need not have all of them.
        let variables =
            variables.iter().flat_map(|(key, value)| ["--var".into(), format!("?{key}={value}").into()]);
        words.into_iter().chain(self.json("master")).chain(variables).collect()
    }

    fn json(&self, end: &str) -> [OsString; 2] {
        ["--json".into(), self.folder.join(end).into()]
    }

    fn read<T: DeserializeOwned>(&self, end: &str) -> anyhow::Result<T> {
        let text = std::fs::read_to_string(self.folder.join(end))
            .with_context(|| format!("the {end} left no result"))?;
        serde_json::from_str(&text).with_context(|| format!("the {end}'s result is unreadable"))
    }

    /// `read` reads smcd's totals.
    fn witness<'w>(&self, witnesses: Witnesses<'w>, read: impl Fn(&Path) -> Option<Totals>) -> Witness<'w> {
        let (is_brief, asks) = (self.is_brief(), self.route.asks_smcss);
        let smcd = witnesses.smcd.filter(|_| is_brief || !asks);
        match smcd.and_then(|smcd| Some((smcd, read(smcd)?))) {
            Some((smcd, before)) => Witness::Counts(smcd, before),
            None if is_brief && !asks => Witness::Nobody,
            None => Witness::Looks(witnesses.smcss),
        }
    }

    /// Whether connections are gone before anybody could look at them.
    fn is_brief(&self) -> bool {
        let variables = variables(self.cell, self.route).into_iter();
        let variables = variables.map(|(name, value)| (format!("?{name}"), value)).collect();
        profile::reconnects(&self.cell.profile, &variables).unwrap_or(false)
    }

    /// Looks in the middle of the warm-up, since a look takes a CPU for a while; if by then not all connections are open
    /// and decided, in the middle of the measured transaction and again until they are or the master ends. None if none
    /// was seen.
    fn look_in_time(
        &self,
        slave: &Guarded,
        master: &mut Guarded,
        port: u16,
        smcss: Option<&Path>,
    ) -> Option<Connections> {
        let duration = self.cell.duration;
        let namespaces = self.route.server.namespaces.as_ref();
        let watch = Watch { counted: (self.route.counting)(port), smcss, namespaces };
        let (start, warm_up) = (Instant::now(), warm_up(self.cell));
        let middle = start + warm_up + duration / 2;
        let end = middle + duration + self.patience;
        let mut next = start + warm_up / 2;
        let mut most = Connections::default();
        while master.is_alive()
            && abort::check().is_ok()
            && !self.is_all(&most, smcss)
            && Instant::now() < end
        {
            if Instant::now() < next {
                std::thread::sleep(PAUSE);
                continue;
            }
            let processes = slave.processes();
            let seen = before_others(|| watch.look(&processes));
            // Fewer than before: they are being closed.
            if (seen.total, told(&seen)) >= (most.total, told(&most)) {
                most = seen;
            }
            next = middle.max(Instant::now() + (duration / 10).max(PAUSE));
        }
        (most.total > 0).then_some(most)
    }

    fn is_all(&self, seen: &Connections, smcss: Option<&Path>) -> bool {
        let wanted = self.cell.connections;
        seen.total >= wanted && (smcss.is_none() || told(seen) >= wanted)
    }
}

/// Looks from a thread that goes before all others, where that is allowed: among five hundred busy processes a look would
/// last longer than what is measured.
fn before_others<T: Send>(look: impl FnOnce() -> T + Send) -> T {
    let hurry = || {
        let _ = rustix::process::setpriority_process(None, -15);
        look()
    };
    std::thread::scope(|scope| match scope.spawn(hurry).join() {
        Ok(seen) => seen,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

fn keep_longer(kept: &mut String, new: String) {
    if new.lines().count() > kept.lines().count() {
        *kept = new;
    }
}

/// Those of which smcss tells how they travel; the others have not decided yet.
fn told(seen: &Connections) -> u32 {
    seen.smcd + seen.smcr + seen.fallback.values().sum::<u32>()
}

/// What the profile is told; the cell's own variables win.
fn variables(cell: &Cell, route: &Route) -> Vec<(String, String)> {
    let in_ms = |duration: Duration| format!("{}ms", duration.as_millis());
    let own = [
        ("h", route.host.to_owned()),
        ("proto", route.protocol.to_owned()),
        ("nprocs", cell.connections.to_string()),
        ("duration", in_ms(cell.duration)),
        ("warmup", in_ms(warm_up(cell))),
    ];
    let own = own.into_iter().map(|(key, value)| (key.to_owned(), value));
    let own = own.filter(|(key, _)| !cell.variables.contains_key(key));
    own.chain(cell.variables.clone()).collect()
}

/// The cell's own, or half of what is measured.
pub(super) fn warm_up(cell: &Cell) -> Duration {
    let own = cell.variables.get("warmup").and_then(|text| text.strip_suffix("ms")?.parse().ok());
    own.map_or((cell.duration / 2).min(WARM_UP), Duration::from_millis)
}

fn listening_port(line: &str) -> anyhow::Result<u16> {
    let port = line.trim().strip_prefix(LISTENS).and_then(|port| port.parse().ok());
    port.with_context(|| format!("a slave said \"{line}\" and not where it listens"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use uperf::Server;

    fn cell() -> Cell {
        Cell {
            profile: "rr".into(),
            connections: 7,
            path: crate::path::Path::Unix,
            server: Server::Epoll,
            duration: Duration::from_millis(1500),
            variables: BTreeMap::from([("size".into(), "3".into()), ("warmup".into(), "9".into())]),
            environment: BTreeMap::new(),
        }
    }

    #[test]
    fn the_profile_is_told_everything_and_the_cell_has_the_last_word() {
        let told = variables(&cell(), &Route::unix());
        let told: BTreeMap<&str, &str> = told.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let wanted = [("duration", "1500ms"), ("h", "127.0.0.1"), ("nprocs", "7"), ("proto", "unix")];
        assert!(wanted.iter().all(|(key, value)| told.get(key) == Some(value)), "{told:?}");
        assert_eq!((told["size"], told["warmup"], told.len()), ("3", "9", 6));
    }

    #[test]
    fn a_warm_up_is_the_cells_or_half() {
        let mut cell = cell();
        assert_eq!(warm_up(&cell), Duration::from_millis(750), "9 has no unit that is used here");
        cell.variables.insert("warmup".into(), "300ms".into());
        assert_eq!(warm_up(&cell), Duration::from_millis(300));
    }

    #[test]
    fn connections_of_one_request_are_counted_and_others_looked_at() {
        let (plain, mut smc, mut half) = (Route::unix(), Route::unix(), Route::unix());
        (smc.asks_smcss, smc.control, half.control) = (true, Some(1), Some(0));
        let witness = |profile: &str, route: &Route, totals: Option<Totals>| {
            let cell = Cell { profile: profile.into(), ..cell() };
            let (engine, folder) = (Path::new("e"), Path::new("/f"));
            let pair = Pair { engine, patience: WARM_UP, cell: &cell, route, folder };
            let (smcss, smcd) = (Some(Path::new("smcss")), route.control.map(|_| Path::new("smcd")));
            match pair.witness(Witnesses { smcss, smcd }, |_| totals.clone()) {
                Witness::Looks(_) => "looks",
                Witness::Counts(..) => "counts",
                Witness::Nobody => "nobody",
            }
        };
        let all = |profile: &str, totals: Option<Totals>| {
            [&smc, &half, &plain].map(|route| witness(profile, route, totals.clone()))
        };
        let totals = Some(Totals::default());
        assert_eq!(all("crr-200x1000", totals.clone()), ["counts", "counts", "nobody"]);
        assert_eq!(all("crr-200x1000", None), ["looks", "nobody", "nobody"], "better late than never");
        for profile in ["rr1c-200x1000", "stream", "dreams"] {
            assert_eq!(all(profile, totals.clone()), ["looks", "counts", "looks"], "{profile}");
        }
    }

    #[test]
    fn the_longest_list_is_kept() {
        let mut kept = String::new();
        for text in ["State", "State\na", "State"] {
            keep_longer(&mut kept, text.into());
        }
        assert_eq!(kept, "State\na");
    }

    #[test]
    fn a_slave_says_its_port_or_is_refused() {
        assert_eq!(listening_port("slave listens on port 4711\n").expect("a port"), 4711);
        assert!(listening_port("hello").expect_err("no port").to_string().contains("hello"));
    }
}
