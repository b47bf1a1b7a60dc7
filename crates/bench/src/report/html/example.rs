//! A study for tests of the page: what a machine with two CPUs might say, with all that may stand in a report.

use std::time::Duration;

use crate::app::Name;
use crate::cell::Cell;
use crate::compare::goals::{Pace, suite};
use crate::compare::idle_table;
use crate::compare::machine::Machine;
use crate::compare::mock::{MockExecutor, connected, plan, run, stream, study, study_on, suite_study};
use crate::compare::presets::Choice;
use crate::compare::quantity::{Pair, Probe, Quantity, Unit};
use crate::compare::study::{Axis, Study};
use crate::idle::{Idle, Line};
use crate::path::Path;
use uperf::result::{Connections, Latency, Run};

const PATHS: [Path; 4] = [Path::TcpVeth, Path::TcpLoopback, Path::Unix, Path::Smc];

/// Thousand transactions per second, or gigabits per second, and CPU per transaction in us, or us/Gb.
fn figures(cell: &Cell) -> (f64, f64) {
    let is_stream = cell.profile.starts_with("str");
    let row = [1, 10, 50, 250].iter().position(|count| *count == cell.connections).unwrap_or(0);
    match (is_stream, cell.path) {
        (false, Path::TcpVeth) => ([18.2, 98.1, 86.4, 54.0][row], [44.0, 20.1, 22.8, 36.5][row]),
        (false, Path::TcpLoopback) => ([20.3, 119.5, 108.9, 60.1][row], [39.9, 16.7, 18.4, 33.1][row]),
        (false, Path::Unix) => ([28.5, 172.4, 155.7, 101.0][row], [30.4, 11.5, 12.8, 19.7][row]),
        (false, _) => ([3302.0, 1388.0, 248.0, 410.0][row], [0.6, 1.17, 7.6, 4.8][row]),
        (true, Path::TcpVeth) => {
            ([31.2, 35.9, 33.0, 28.2][row], [28_000.0, 41_000.0, 52_000.0, 70_000.0][row])
        }
        (true, Path::TcpLoopback) => {
            ([34.4, 43.7, 45.5, 37.0][row], [25_100.0, 36_300.0, 43_000.0, 53_800.0][row])
        }
        (true, Path::Unix) => ([46.8, 81.7, 73.5, 60.9][row], [20_900.0, 23_000.0, 26_800.0, 32_100.0][row]),
        (true, _) => ([131.0, 269.0, 247.0, 141.0][row], [9_600.0, 9_500.0, 9_900.0, 13_900.0][row]),
    }
}

/// A few per cent around the number, another way in each round and cell.
fn wobble(cell: &Cell, round: usize) -> f64 {
    let seed = round * 7 + cell.connections as usize * 3 + cell.path as usize * 5 + cell.profile.len();
    1.0 + (seed % 11) as f64 / 100.0 - 0.05
}

fn model(cell: &Cell, round: usize) -> Run {
    let (speed, cost) = figures(cell);
    let speed = speed * wobble(cell, round);
    let is_stream = cell.profile.starts_with("str");
    finished(if is_stream { stream(speed, cost) } else { run(speed * 1e3, cost) }, cell)
}

/// With latencies that look real; over SMC, if the path is that.
fn finished(run: Run, cell: &Cell) -> Run {
    let count = cell.connections;
    let run = Run { latency: tailed(&run, count), ..run };
    connected(run, count, if cell.path == Path::Smc { count } else { 0 }, &[])
}

/// As latencies are: a hump, and a tail of those whose process had to wait for a CPU.
fn tailed(run: &Run, count: u32) -> Latency {
    let middle_ns = 0.9e9 * f64::from(count) / run.transactions as f64;
    let at = |i: i32| {
        let (time, hump) = (1.08_f64.powi(i - 20), (-0.02 * f64::from((i - 20) * (i - 20))).exp());
        let tail = if i > 20 { 3e-3 * 0.88_f64.powi(i - 20) } else { 0.0 };
        ((middle_ns * time) as u64, (run.transactions as f64 * (hump + tail) / 12.0).round() as u64)
    };
    let counts_ns = (0..90).map(at).filter(|(_, passes)| *passes > 0).collect();
    Latency { counts_ns, ..Latency::default() }
}

fn machine() -> Machine {
    Machine {
        cpu: Some("AMD EPYC 9B14".into()),
        cpus: 2,
        cpus_online: Some(2),
        virtualised: Some("KVM".into()),
        kernel: Some("6.18.44".into()),
        system: Some("Debian GNU/Linux 12 (bookworm)".into()),
        memory_bytes: Some(8 << 30),
        governor: None,
        on_battery: false,
        load: Some([0.04, 0.11, 0.09]),
    }
}

/// As `compare --full` would be.
pub(crate) fn compared() -> Study {
    let plan = plan(&["rr1c-200x1000", "str-readx30k"], &[1, 10, 50, 250], &PATHS);
    Study {
        machine: machine(),
        command: "smc_bench compare --full --html report.html".into(),
        ..study(plan, &mut MockExecutor::new(model))
    }
}

/// The same with everything that may go wrong.
pub(crate) fn troubled() -> Study {
    let troubled = |cell: &Cell, round| match cell.path {
        Path::Smc => connected(
            model(cell, round),
            cell.connections,
            cell.connections / 2,
            &[("0x03010000", cell.connections.div_ceil(2))],
        ),
        _ => model(cell, round),
    };
    let mut executor = MockExecutor::new(troubled).taking(Duration::from_secs(1));
    executor.fail("str-readx30k 1 unix", "<b>no sockets</b> & no \"quotes\"");
    let mut host = executor.host();
    host.set_others([0.4; 200]);
    let plan = plan(&["rr1c-200x1000", "str-readx30k"], &[1, 50], &PATHS);
    let study = study_on(plan, &mut executor, &mut host);
    let notes = vec!["af-smc was left out: this kernel has no SMC".into()];
    Study { title: "<script>alert(1)</script> & more".into(), notes, machine: machine(), ..study }
}

/// As `sweep` would be.
pub(crate) fn swept() -> Study {
    let choice =
        Choice { profiles: vec!["ping".into(), "stream".into()], connections: vec![1], ..Choice::usual() };
    let model = |cell: &Cell, round: usize| {
        let size: f64 = cell.variables.get("size").and_then(|size| size.parse().ok()).unwrap_or(1000.0);
        let (start_us, gigabits) = match cell.path {
            Path::Smc => (0.25, 180.0),
            Path::Unix => (12.0, 60.0),
            Path::TcpLoopback => (21.0, 42.0),
            _ => (25.0, 34.0),
        };
        let us = (start_us + size * 8.0 / gigabits / 1e3) * wobble(cell, round);
        let run = match cell.profile.as_str() {
            "stream" => stream(size * 8.0 / us / 1e3, 1e6 / gigabits),
            _ => run(1e6 / us, us * 1.8),
        };
        finished(run, cell)
    };
    let study = study(choice.sweep(&PATHS, Path::TcpVeth), &mut MockExecutor::new(model));
    Study {
        title: "Sizes of messages".into(),
        axis: Axis::Size,
        machine: machine(),
        extras: vec![idle_table::table(&idle(), None)],
        ..study
    }
}

/// What `sweep` and `idle` say of connections that do nothing.
pub(crate) fn idle() -> Idle {
    let line = |path, memory_bytes| Line {
        path,
        cpu_ns: 1_230_000,
        elapsed_ns: 1_004_000_000,
        memory_bytes,
        resident_bytes: 2 * memory_bytes - 512,
        seen: Connections {
            total: 500,
            smcd: if path == Path::Smc { 499 } else { 0 },
            ..Connections::default()
        },
    };
    let lines = vec![line(Path::TcpLoopback, 12), line(Path::Smc, 45_678)];
    Idle { connections: 500, transactions: 100, lines, notes: vec![] }
}

/// As `buffers` would be.
pub(crate) fn buffered() -> Study {
    let choice = Choice { profiles: vec!["str-readx30k".into()], ..Choice::usual() };
    let model = |cell: &Cell, round: usize| {
        let kib = cell
            .environment
            .get("SMC_RCVBUF")
            .and_then(|size| size.trim_end_matches('k').parse::<f64>().ok());
        let part = kib.map_or(0.9, |kib| (kib / 300.0).powf(0.4).min(1.15));
        finished(stream(150.0 * part * wobble(cell, round), 9_000.0 / part), cell)
    };
    let study = study(choice.buffers(), &mut MockExecutor::new(model));
    Study { title: "Sizes of SMC's buffers".into(), axis: Axis::Buffer, machine: machine(), ..study }
}

/// As `compare --suite goals` would be.
pub(crate) fn judged() -> Study {
    let pace = Pace { duration: Duration::from_secs(2), rounds: 3, ..Pace::default() };
    let quantity = |quantity: Quantity, round: u16| match quantity.about().unit {
        Unit::PercentOfCore => Pair { ours: 0.0, theirs: None },
        Unit::Bytes => Pair { ours: 45_875.2 + f64::from(round), theirs: None },
        Unit::Times => Pair { ours: 985.0 + f64::from(round), theirs: Some(1000.0) },
    };
    let mut executor = MockExecutor::new(model).with_quantities(quantity);
    executor.fail("crr-200x1000 1 smc", "the server went away");
    executor.lack(Probe::App(Name::Nginx), "wrk is not here: install the package wrk", true);
    let suite = suite(&pace, Path::TcpVeth);
    Study { title: "What SMC has to reach".into(), machine: machine(), ..suite_study(suite, &mut executor) }
}
