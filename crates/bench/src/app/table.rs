//! A comparison of an application as a table for people.

use comfy_table::{CellAlignment, Table, TableComponent, presets};

use crate::path::Path;

use super::comparison::{Comparison, Line};

const HEADER: [&str; 9] =
    ["test", "over", "requests/s", "vs TCP", "mean", "p50", "p99", "server CPU", "SMC-D"];

/// Title, table and notes.
pub(crate) fn table(comparison: &Comparison) -> String {
    let Comparison { application, version, connections, seconds, .. } = comparison;
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY).remove_style(TableComponent::HorizontalLines);
    table.remove_style(TableComponent::MiddleIntersections).set_header(HEADER);
    for line in &comparison.lines {
        table.add_row(row(line, comparison));
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text =
        format!("{application} {version}, {connections} connections, {seconds} s per slice\n{table}\n");
    comparison.notes.iter().for_each(|note| text.extend([note.as_str(), "\n"]));
    text
}

fn row(line: &Line, comparison: &Comparison) -> [String; 9] {
    let (counted, seen) = (&line.median.counted, &line.median.connections);
    [
        line.test.clone(),
        line.path.to_string(),
        format!("{:.0}", counted.rate),
        versus(line, comparison),
        time(counted.latency.mean_ns),
        time(counted.latency.p50_ns),
        time(counted.latency.p99_ns),
        format!("{:.2} us", line.median.server_cpu_ns / 1e3),
        format!("{} of {}", seen.smcd, seen.total),
    ]
}

fn versus(line: &Line, comparison: &Comparison) -> String {
    let tcp =
        comparison.lines.iter().find(|other| other.path == Path::TcpLoopback && other.test == line.test);
    match tcp {
        Some(tcp) if line.path != Path::TcpLoopback && tcp.median.counted.rate > 0.0 => {
            format!("{:.2}x", line.median.counted.rate / tcp.median.counted.rate)
        }
        _ => String::new(),
    }
}

/// Empty where the generator does not tell.
fn time(ns: Option<f64>) -> String {
    match ns {
        None => String::new(),
        Some(ns) if ns < 1e6 => format!("{:.0} us", ns / 1e3),
        Some(ns) => format!("{:.2} ms", ns / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::comparison::{Counted, Slice};

    fn line(path: Path, rate: f64) -> Line {
        let counted = Counted { requests: 1, rate, ..Counted::default() };
        let median = Slice { counted, server_cpu_ns: 1500.0, ..Slice::default() };
        Line { test: "GET".into(), path, median, rounds: vec![] }
    }

    #[test]
    fn smc_stands_beside_tcp_and_notes_below() {
        let lines = vec![line(Path::TcpLoopback, 100.0), line(Path::Smc, 250.0)];
        let notes = vec!["a note".into()];
        let text = table(&Comparison { application: "redis".into(), lines, notes, ..Comparison::default() });
        assert!(text.contains("2.50x") && !text.contains("1.00x"), "{text}");
        assert!(
            text.starts_with("redis ") && text.ends_with("a note\n") && text.contains("1.50 us"),
            "{text}"
        );
    }
}
