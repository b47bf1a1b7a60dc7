//! Results of the short commands for people: one table, one line about SMC-D, the beginning of what smcss printed.

use comfy_table::{CellAlignment, Table, TableComponent, presets};

use crate::plan::{Cell, Line};
use crate::socket::Transport;
use crate::workload::Shape;

const HEADER: [&str; 8] = ["workload", "conns", "over", "rate", "vs TCP", "p50", "p99", "CPU of both ends"];

/// All lines, with each cell beside TCP's of the same workload.
pub(crate) fn table(lines: &[Line]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY).remove_style(TableComponent::HorizontalLines);
    table.remove_style(TableComponent::MiddleIntersections).set_header(HEADER);
    for line in lines {
        table.add_row(row(line, lines));
    }
    for column in table.column_iter_mut().skip(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

fn row(line: &Line, lines: &[Line]) -> [String; 8] {
    let Line { cell, median, .. } = line;
    [
        name(cell),
        cell.connections.to_string(),
        cell.transport.to_string(),
        rate(line),
        versus(line, lines),
        time(median.p50_ns as f64),
        time(median.p99_ns as f64),
        cpu(line),
    ]
}

fn name(cell: &Cell) -> String {
    let workload = cell.workload;
    match workload.shape {
        Shape::Rr => format!("request-response {}x{}", workload.request, workload.response),
        Shape::Stream => format!("stream, writes of {}", workload.request),
        Shape::Crr => format!("connect, {}x{}, close", workload.request, workload.response),
    }
}

fn rate(line: &Line) -> String {
    match line.cell.workload.shape {
        Shape::Stream => format!("{:.1} Gb/s", line.median.bits / 1e9),
        Shape::Rr | Shape::Crr => format!("{:.1} k/s", line.median.rate / 1e3),
    }
}

fn versus(line: &Line, lines: &[Line]) -> String {
    let tcp = Cell { transport: Transport::Tcp, ..line.cell };
    match lines.iter().find(|other| other.cell == tcp) {
        Some(tcp) if line.cell.transport != Transport::Tcp && tcp.median.rate > 0.0 => {
            format!("{:.2}x", line.median.rate / tcp.median.rate)
        }
        _ => String::new(),
    }
}

fn cpu(line: &Line) -> String {
    let shown = match line.cell.workload.shape {
        Shape::Stream => line.median.cpu_us_per_gigabit().map(|us| format!("{us:.0} us/Gb")),
        Shape::Rr | Shape::Crr => line.median.cpu_ns().map(|ns| format!("{:.2} us/op", ns / 1e3)),
    };
    shown.unwrap_or_else(|| "unknown".into())
}

fn time(ns: f64) -> String {
    match ns {
        ns if ns < 1e4 => format!("{:.2} us", ns / 1e3),
        ns if ns < 1e6 => format!("{:.0} us", ns / 1e3),
        ns => format!("{:.1} ms", ns / 1e6),
    }
}

/// How many connections used SMC-D, in every slice that was measured over SMC.
pub(crate) fn smc_line(lines: &[Line]) -> String {
    let over_smc = || lines.iter().filter(|line| line.cell.transport == Transport::Smc);
    if over_smc().all(|line| line.cell.workload.shape == Shape::Crr) {
        return "connections of one request are over before smcss could show them: `smcd stats` counts them"
            .into();
    }
    let slices = over_smc().flat_map(|line| &line.rounds);
    let told: Vec<(usize, usize)> =
        slices.filter_map(|slice| Some((slice.smcd?, slice.connections))).collect();
    if told.is_empty() {
        return "connections that used SMC-D: unknown (smcss is not there, or cannot tell)".into();
    }
    let (used, all) = told.iter().fold((0, 0), |sum, slice| (sum.0 + slice.0, sum.1 + slice.1));
    let line = format!("{used} of {all} connections used SMC-D");
    if used == all {
        line
    } else {
        format!("{line}; README.md, \"Why is it not faster?\", explains the others")
    }
}

/// The header and the first `rows` of what smcss printed.
pub(crate) fn snapshot(printed: &str, rows: usize) -> String {
    let mut lines: Vec<&str> = printed.lines().map(str::trim_end).collect();
    let more = lines.len().saturating_sub(rows + 1);
    lines.truncate(rows + 1);
    let text = lines.join("\n");
    if more > 0 { format!("{text}\n... and {more} more") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Slice;
    use crate::worker::ServerKind;
    use crate::workload::{CONNECT_AND_CLOSE, REQUEST_RESPONSE};

    fn line(transport: Transport, rate: f64, smcd: Option<usize>) -> Line {
        let cell = Cell { workload: REQUEST_RESPONSE, connections: 2, transport, server: ServerKind::Pair };
        let slice = Slice { rate, smcd, connections: 2, ..Slice::default() };
        Line { cell, median: slice.clone(), rounds: vec![slice.clone(), slice] }
    }

    #[test]
    fn each_transport_stands_beside_tcp() {
        let lines = [line(Transport::Tcp, 1000.0, None), line(Transport::Smc, 21_500.0, Some(2))];
        let text = table(&lines);
        assert!(text.contains("21.50x") && !text.contains("1.00x"), "{text}");
    }

    #[test]
    fn the_last_line_counts_every_slice() {
        assert!(smc_line(&[line(Transport::Smc, 1.0, Some(2))]).starts_with("4 of 4 connections"));
        assert!(smc_line(&[line(Transport::Smc, 1.0, Some(1))]).contains("Why is it not faster"));
        assert!(smc_line(&[line(Transport::Smc, 1.0, None)]).contains("unknown"));
        let mut short = line(Transport::Smc, 1.0, None);
        short.cell.workload = CONNECT_AND_CLOSE;
        assert!(smc_line(&[short]).contains("smcd stats"));
    }

    #[test]
    fn a_long_snapshot_is_cut_and_says_so() {
        assert_eq!(snapshot("State  \na\nb\nc", 2), "State\na\nb\n... and 1 more");
        assert_eq!(snapshot("State", 2), "State");
    }
}
