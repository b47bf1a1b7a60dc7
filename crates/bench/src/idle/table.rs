//! The cost of idle connections as a table for people.

use comfy_table::{CellAlignment, Table, TableComponent, presets};

use super::{Idle, Line};

const HEADER: [&str; 5] = ["over", "CPU while idle", "memory each", "resident each", "SMC-D"];

/// Title, table, what the columns mean, notes.
pub(super) fn table(idle: &Idle) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY).remove_style(TableComponent::HorizontalLines);
    table.remove_style(TableComponent::MiddleIntersections).set_header(HEADER);
    for line in &idle.lines {
        table.add_row(row(line));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let Idle { connections, transactions, .. } = idle;
    let mut text =
        format!("{connections} idle connections, {transactions} transactions over each before\n{table}\n");
    text += "both ends together; memory: anonymous and shared, the latter counted once; the kernel's own is not in it\n";
    idle.notes.iter().for_each(|note| text.extend([note.as_str(), "\n"]));
    text
}

fn row(line: &Line) -> [String; 5] {
    let seconds = line.elapsed_ns as f64 / 1e9;
    [
        line.path.to_string(),
        format!("{:.2} ms in {seconds:.1} s", line.cpu_ns as f64 / 1e6),
        kib(line.memory_bytes),
        kib(line.resident_bytes),
        format!("{} of {}", line.seen.smcd, line.seen.total),
    ]
}

fn kib(bytes: i64) -> String {
    format!("{:.1} KiB", bytes as f64 / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::Path;
    use crate::result::Connections;

    #[test]
    fn every_number_has_its_unit() {
        let seen = Connections { total: 3, smcd: 2, ..Connections::default() };
        let line = Line {
            path: Path::Smc,
            cpu_ns: 1_500_000,
            elapsed_ns: 2_000_000_000,
            memory_bytes: 2560,
            resident_bytes: -512,
            seen,
        };
        let text = table(&Idle { lines: vec![line], notes: vec!["a note".into()], ..Idle::default() });
        for wanted in ["1.50 ms in 2.0 s", "2.5 KiB", "-0.5 KiB", "2 of 3", "a note\n"] {
            assert!(text.contains(wanted), "{wanted} in {text}");
        }
    }
}
