//! One study, every form of its report: text, Markdown, page, its charts and JSON tell the same number of the same thing.

use crate::cell::Cell;
use crate::compare::judge::judge;
use crate::compare::metric::{ALL, Metric};
use crate::compare::mock::{MockExecutor, connected, plan, run, stream, study};
use crate::compare::plan::Plan;
use crate::compare::study::Study;
use crate::compare::summary::Reading;
use crate::path::Path;
use crate::report::csv::Record;
use crate::report::html::tests::{Element, elements};
use crate::report::table::{Table, tables};
use crate::report::{csv, html, json, markdown, text, units};

/// An even number of rounds of which no two agree: the mean of two ratios is not the inverse of the mean of their inverses.
fn example() -> Study {
    let model = |cell: &Cell, round: usize| {
        let times = match cell.path {
            Path::Smc => [3.0, 0.6, 2.9, 1.1][round],
            Path::Unix => [1.2, 1.9, 0.8, 1.1][round],
            _ => [1.0, 1.3, 0.7, 0.9][round],
        };
        let run = if cell.profile.starts_with("str") {
            stream(20.0 * times, 2e4 / times)
        } else {
            run(2e4 * times, 40.0 / times)
        };
        connected(run, cell.connections, if cell.path == Path::Smc { cell.connections } else { 0 }, &[])
    };
    let paths = [Path::TcpVeth, Path::Unix, Path::Smc];
    let plan = Plan { rounds: 4, ..plan(&["rr1c-200x1000", "str-readx30k"], &[1, 50], &paths) };
    study(plan, &mut MockExecutor::new(model))
}

fn all(study: &Study) -> Vec<Table> {
    let reading = Reading::new(study);
    tables(&reading, &reading.lines(), &judge(&reading))
}

/// What of a table's row is no name and not empty.
fn numbers(table: &Table) -> Vec<Vec<String>> {
    let shown = |cells: &[String]| cells.iter().filter(|cell| !cell.is_empty()).cloned().collect();
    table.rows.iter().map(|row| shown(&row.cells[table.names..])).collect()
}

#[test]
fn text_and_markdown_have_the_cells_of_the_tables() {
    let study = example();
    let (text, markdown) = (text::text(&study, usize::MAX), markdown::emit(&study).expect("Markdown"));
    for table in all(&study) {
        let (mut lines, mut rows) = (text.lines(), markdown.lines());
        assert!(
            lines.any(|line| line == table.title) && rows.any(|line| line == format!("## {}", table.title))
        );
        let (lines, rows) = (lines.skip(2), rows.skip(3));
        for ((line, row), expected) in lines.zip(rows).zip(numbers(&table)) {
            let cells: Vec<&str> = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
            assert_eq!(cells[cells.len() - expected.len()..], expected, "{line}");
            let cells: Vec<&str> = row.split(" | ").map(|cell| cell.trim_matches(['|', ' '])).collect();
            let cells: Vec<&str> =
                cells[table.names..].iter().filter(|cell| !cell.is_empty()).copied().collect();
            assert_eq!(cells, expected, "{row}");
        }
    }
}

#[test]
fn the_page_has_them_too() {
    let study = example();
    let page = elements(&html::emit(&study).expect("a page"));
    let cells: Vec<&str> = page.iter().filter(|one| one.name == "td").map(|one| one.text.as_str()).collect();
    let tables = all(&study);
    let expected =
        tables.iter().flat_map(|table| table.rows.iter().flat_map(|row| &row.cells[table.names..]));
    assert_eq!(cells, expected.map(String::as_str).collect::<Vec<_>>());
}

/// The records of one profile that have a ratio.
fn records<'a>(all: &'a [Record], profile: &str, metric: Metric) -> Vec<&'a Record> {
    all.iter().filter(|one| one.profile == profile && one.metric == metric && one.ratio.is_some()).collect()
}

/// As the file has them.
fn saved(study: &Study) -> Vec<Record> {
    let saved: serde_json::Value = serde_json::from_str(&json::emit(study).expect("JSON")).expect("JSON");
    let saved: Vec<Record> = serde_json::from_value(saved["summary"].clone()).expect("records");
    assert_eq!(saved, csv::records(study));
    saved
}

#[test]
fn every_cell_of_a_table_is_a_number_that_is_saved() {
    let study = example();
    let (saved, mut looked_at) = (saved(&study), 0);
    for (table, row) in all(&study).iter().flat_map(|table| table.rows.iter().map(move |row| (table, row))) {
        let [profile, count, over] = [0, 1, 2].map(|name| &row.cells[name]);
        let is_own =
            |one: &Record| (&one.profile, &one.connections.to_string(), &one.over) == (profile, count, over);
        let of = |metric| saved.iter().find(|one| one.metric == metric && is_own(one)).expect("it is saved");
        let speed = if profile.starts_with("str") { Metric::Throughput } else { Metric::Rate };
        let main = if table.title == "Cost" { Metric::CpuPerGigabit } else { speed };
        let cells = table.header.iter().zip(&row.cells).skip(table.names);
        for (column, cell) in cells.filter(|(_, cell)| !cell.is_empty()) {
            let (main, shown) = (of(main), |metric| units::show(metric, of(metric).value));
            let expected = match (column.as_str(), main.ratio.zip(main.ratio_min.zip(main.ratio_max))) {
                ("rate", _) => shown(speed),
                ("mean", _) => shown(Metric::TransactionTime),
                ("CPU/transaction", _) => shown(Metric::CpuPerTransaction),
                ("switches", _) => shown(Metric::SwitchesPerTransaction),
                ("CPU us/Gb", _) => units::grouped(of(Metric::CpuPerGigabit).value),
                ("server us/Gb", _) => units::grouped(of(Metric::ServerCpuPerGigabit).value),
                ("host us/Gb", _) => units::grouped(of(Metric::HostCpuPerGigabit).value),
                ("min..max", _) => units::show_range(main.metric, main.min, main.max),
                ("ratio min..max", Some((_, (min, max)))) => units::ratio_range(main.metric, min, max),
                ("vs tcp-veth" | "CPU vs tcp-veth", Some((ratio, _))) => units::ratio(main.metric, ratio),
                (name, _) => shown(ALL.iter().find(|about| about.title == name).expect("a metric").metric),
            };
            assert_eq!(*cell, expected, "{column} of {:?}", row.cells);
            looked_at += 1;
        }
    }
    assert!(looked_at > 100, "{looked_at}");
}

#[test]
fn every_bar_shows_the_ratio_and_the_number_that_are_saved() {
    let study = example();
    let (saved, page) = (saved(&study), elements(&html::emit(&study).expect("a page")));
    let of = |class: &str| -> Vec<String> {
        let is_one = |one: &&Element| one.name == "text" && one.attribute("class") == Some(class);
        page.iter().filter(is_one).map(|one| one.text.clone()).collect()
    };
    let mut expected = vec![];
    for (profile, main) in [("rr1c-200x1000", Metric::Rate), ("str-readx30k", Metric::Throughput)] {
        for metric in [main, Metric::CpuPerGigabit] {
            let records = records(&saved, profile, metric);
            let scale = units::unit(metric, records.iter().map(|one| one.value)).0;
            expected.extend(records.iter().map(|one| {
                (units::ratio(metric, one.ratio.expect("chosen so")), units::grouped(one.value / scale))
            }));
        }
    }
    assert_eq!(of("value").into_iter().zip(of("more")).collect::<Vec<_>>(), expected);
}

#[test]
fn the_same_ratio_read_the_other_way_round_is_its_inverse() {
    let study = example();
    let saved = csv::records(&study);
    let ratio = |metric| {
        records(&saved, "rr1c-200x1000", metric).iter().map(|one| one.ratio.unwrap_or(0.0)).collect()
    };
    let (rates, times): (Vec<f64>, Vec<f64>) = (ratio(Metric::Rate), ratio(Metric::TransactionTime));
    let is_inverse = |(rate, time): (&f64, &f64)| (rate * time - 1.0).abs() < 1e-9;
    assert!(rates.iter().zip(&times).all(is_inverse), "{rates:?} {times:?}");
}
