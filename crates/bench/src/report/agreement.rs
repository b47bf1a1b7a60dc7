//! One study, every form of its report: text, Markdown, page, its charts and JSON tell the same number of the same thing.

use crate::cell::Cell;
use crate::compare::judge::judge;
use crate::compare::metric::Metric;
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

#[test]
fn charts_and_tables_show_the_ratios_that_are_saved() {
    let study = example();
    let saved: serde_json::Value = serde_json::from_str(&json::emit(&study).expect("JSON")).expect("JSON");
    let saved: Vec<Record> = serde_json::from_value(saved["summary"].clone()).expect("records");
    assert_eq!(saved, csv::records(&study));
    let page = elements(&html::emit(&study).expect("a page"));
    let of = |class: &str| -> Vec<&Element> {
        page.iter().filter(|one| one.name == "text" && one.attribute("class") == Some(class)).collect()
    };
    let (mut ratios, tables) = (of("value").into_iter(), all(&study));
    for (profile, main) in [("rr1c-200x1000", Metric::Rate), ("str-readx30k", Metric::Throughput)] {
        for (metric, table) in [(main, &tables[0]), (Metric::CpuPerGigabit, &tables[1])] {
            let column = table.header.iter().position(|name| name.contains("vs tcp-veth")).expect("a ratio");
            for record in records(&saved, profile, metric) {
                let shown = units::ratio(metric, record.ratio.expect("chosen so"));
                assert_eq!(ratios.next().map(|one| one.text.clone()), Some(shown.clone()), "{record:?}");
                let is_row = |cells: &[String]| {
                    cells[..3] == [profile.to_owned(), record.connections.to_string(), record.over.clone()]
                };
                let row = table.rows.iter().find(|row| is_row(&row.cells)).expect("a row");
                let cell = &row.cells[column];
                assert!(
                    *cell == shown || (record.over == record.baseline && cell.is_empty()),
                    "{cell} {shown}"
                );
            }
        }
    }
    assert!(ratios.next().is_none(), "every bar was looked at");
}

#[test]
fn the_same_ratio_read_the_other_way_round_is_its_inverse() {
    let study = example();
    let saved = csv::records(&study);
    let ratio = |metric| {
        records(&saved, "rr1c-200x1000", metric).iter().map(|one| one.ratio.unwrap_or(0.0)).collect()
    };
    let (rates, times): (Vec<f64>, Vec<f64>) = (ratio(Metric::Rate), ratio(Metric::TransactionTime));
    assert!(
        rates.iter().zip(&times).all(|(rate, time)| (rate * time - 1.0).abs() < 1e-9),
        "{rates:?} {times:?}"
    );
}
