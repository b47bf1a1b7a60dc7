//! The cost of idle connections as a table of a report.

use crate::compare::quiet::Interference;
use crate::compare::study::{Extra, Number};
use crate::idle::{Idle, Line};

const HEADER: [&str; 5] = ["over", "CPU while idle", "memory each", "resident each", "SMC-D"];

/// A row per path; the title says what the columns mean.
pub(crate) fn table(idle: &Idle, seen: Option<Interference>) -> Extra {
    let Idle { connections, transactions, .. } = idle;
    Extra {
        title: format!(
            "{connections} idle connections, {transactions} transactions over each before, both ends together; memory: \
                 anonymous and shared, the latter counted once, the kernel's own not at all"
        ),
        header: HEADER.map(str::to_owned).into(),
        seen: vec![seen],
        rows: idle.lines.iter().map(|line| row(line).into()).collect(),
        numbers: idle.lines.iter().flat_map(numbers).collect(),
    }
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

fn numbers(line: &Line) -> [Number; 6] {
    let [_, cpu, memory, resident, smcd] = HEADER;
    let number = |(column, unit, value): (&str, &str, f64)| {
        let [row, column, unit] = [&line.path.to_string(), column, unit].map(str::to_owned);
        Number { row, column, unit, value }
    };
    [
        (cpu, "ms", line.cpu_ns as f64 / 1e6),
        ("watched", "s", line.elapsed_ns as f64 / 1e9),
        (memory, "bytes", line.memory_bytes as f64),
        (resident, "bytes", line.resident_bytes as f64),
        (smcd, "connections", f64::from(line.seen.smcd)),
        ("all", "connections", f64::from(line.seen.total)),
    ]
    .map(number)
}

fn kib(bytes: i64) -> String {
    format!("{:.1} KiB", bytes as f64 / 1024.0)
}
