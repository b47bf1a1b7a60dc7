//! What is measured, and in which order: transports take turns, so that a machine that gets busy or throttles is unfair
//! to all of them alike.

use std::time::Duration;

use serde::Serialize;

use crate::socket::Transport;
use crate::stats::Slice;
use crate::worker::ServerKind;
use crate::workload::Workload;

/// One thing to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Cell {
    /// The operation.
    pub(crate) workload: Workload,
    /// Connections at once.
    pub(crate) connections: u16,
    /// How the ends are connected.
    pub(crate) transport: Transport,
    /// How servers are made.
    pub(crate) server: ServerKind,
}

/// How long and how often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Before each slice, not counted: windows and spin budgets settle.
    pub(crate) warm_up: Duration,
    /// One measured slice.
    pub(crate) slice: Duration,
    /// Slices per cell.
    pub(crate) rounds: u16,
}

impl Pace {
    /// A slice is preceded by half its length of warm-up, a second at most.
    pub(crate) fn new(slice: Duration, rounds: u16) -> Self {
        Self { warm_up: (slice / 2).min(Duration::from_secs(1)), slice, rounds }
    }
}

/// A cell and what it came to.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Line {
    /// What was measured.
    #[serde(flatten)]
    pub(crate) cell: Cell,
    /// Medians of all rounds.
    pub(crate) median: Slice,
    /// Each round.
    pub(crate) rounds: Vec<Slice>,
}

/// Measures every cell once, then every cell again, and so on; the first failure ends it.
pub(crate) fn interleave(
    cells: &[Cell],
    rounds: u16,
    measure: &mut dyn FnMut(&Cell) -> anyhow::Result<Slice>,
) -> anyhow::Result<Vec<Line>> {
    let mut slices = vec![vec![]; cells.len()];
    for _ in 0..rounds {
        for (cell, slices) in cells.iter().zip(&mut slices) {
            slices.push(measure(cell)?);
        }
    }
    let line =
        |(cell, rounds): (&Cell, Vec<Slice>)| Line { cell: *cell, median: Slice::median(&rounds), rounds };
    Ok(cells.iter().zip(slices).map(line).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::REQUEST_RESPONSE;

    fn cell(transport: Transport) -> Cell {
        Cell { workload: REQUEST_RESPONSE, connections: 1, transport, server: ServerKind::Pair }
    }

    #[test]
    fn transports_take_turns() {
        let (cells, mut order) = ([cell(Transport::Tcp), cell(Transport::Smc)], vec![]);
        let lines = interleave(&cells, 2, &mut |cell| {
            order.push(cell.transport);
            Ok(Slice { rate: order.len() as f64, ..Slice::default() })
        });
        assert_eq!(order, [Transport::Tcp, Transport::Smc, Transport::Tcp, Transport::Smc]);
        let medians: Vec<f64> = lines.expect("no failure").iter().map(|line| line.median.rate).collect();
        assert_eq!(medians, [2.0, 3.0]);
    }

    #[test]
    fn a_failure_ends_the_run() {
        let mut calls = 0;
        let outcome = interleave(&[cell(Transport::Tcp)], 9, &mut |_| {
            calls += 1;
            anyhow::bail!("no")
        });
        assert!(outcome.is_err() && calls == 1);
    }
}
