//! One study of each kind, every form of its report: text, Markdown, page, its charts, CSV and JSON tell the same number of
//! the same thing.

use crate::app::Name;
use crate::app::comparison::{Counted, Latency, Slice};
use crate::cell::Cell;
use crate::compare::digits::{bytes, connections, figure};
use crate::compare::idle_table;
use crate::compare::judge::judge;
use crate::compare::metric::{ALL, Metric};
use crate::compare::mock::{MockExecutor, connected, plan, run, stream, study};
use crate::compare::plan::Plan;
use crate::compare::study::Study;
use crate::compare::summary::Reading;
use crate::path::Path;
use crate::report::csv::Record;
use crate::report::html::example::{self, buffered, judged, swept, troubled};
use crate::report::html::tests::{Element, elements};
use crate::report::table::{Table, tables};
use crate::report::{csv, html, json, markdown, text, units};
use uperf::result::Run;

/// Profiles, and what stands for their speed.
const COMPARED: [(&str, Metric); 3] = [
    ("rr1c-200x1000", Metric::Rate),
    ("str-readx30k", Metric::Throughput),
    ("both-ways", Metric::Throughput),
];

/// An even number of rounds of which no two agree.
fn compared() -> Study {
    let model = |cell: &Cell, round: usize| {
        let times = match cell.path {
            Path::Smc => [3.0, 0.6, 2.9, 1.1][round],
            Path::Unix => [1.2, 1.9, 0.8, 1.1][round],
            _ => [1.0, 1.3, 0.7, 0.9][round],
        };
        let one_way = stream(20.0 * times, 2e4 / times);
        let half = one_way.bytes_sent / 2;
        let run = match cell.profile.as_str() {
            "both-ways" => Run { bytes_sent: half, bytes_received: half, one_way: true, ..one_way },
            "str-readx30k" => one_way,
            _ => run(2e4 * times, 40.0 / times),
        };
        connected(run, cell.connections, if cell.path == Path::Smc { cell.connections } else { 0 }, &[])
    };
    let paths = [Path::TcpVeth, Path::Unix, Path::Smc];
    let plan = Plan { rounds: 4, ..plan(&COMPARED.map(|(profile, _)| profile), &[1, 50], &paths) };
    study(plan, &mut MockExecutor::new(model))
}

/// What a load generator tells: no bytes, three latencies, the server's CPU alone. Its name is one that CSV has to quote.
fn served() -> Study {
    let model = |cell: &Cell, round: usize| {
        let latency = Latency { p50_ns: Some(9e3), p99_ns: Some(3e4 + round as f64), max_ns: Some(1e6) };
        let rate = if cell.path == Path::Smc { 91_234.0 } else { 40_321.0 } + 17.0 * round as f64;
        let counted = Counted { requests: 50_000, rate, latency };
        Slice { counted, server_cpu_ns: 4e8 / rate, ..Slice::default() }.run(&cell.profile, cell.connections)
    };
    let test = format!("{} \"GET\", or SET", uperf::named(Name::Redis));
    study(plan(&[&test], &[50], &[Path::TcpLoopback, Path::Smc]), &mut MockExecutor::new(model))
}

fn idle() -> Study {
    let plan = Plan::default();
    Study {
        extras: vec![idle_table::table(&example::idle(), None)],
        ..study(plan, &mut MockExecutor::default())
    }
}

/// One of each kind, and one that others disturbed.
pub(crate) fn every() -> [Study; 7] {
    [compared(), swept(), buffered(), served(), idle(), judged(), troubled()]
}

fn all(study: &Study) -> Vec<Table> {
    let reading = Reading::new(study);
    tables(&reading, &reading.lines(), &judge(&reading))
}

#[test]
fn text_and_markdown_have_the_cells_of_the_tables() {
    for study in every() {
        // Without what keeps its signs from being taken for marks.
        let markdown = markdown::emit(&study).expect("Markdown").replace('\\', "");
        let text = text::text(&study, usize::MAX);
        for table in all(&study) {
            let (mut lines, mut rows) = (text.lines(), markdown.lines());
            assert!(lines.any(|line| line == table.title), "{}", table.title);
            assert!(rows.any(|line| line == format!("## {}", table.title)), "{}", table.title);
            let header: Vec<&str> = lines.next().expect("a header").split_whitespace().collect();
            assert_eq!(header.join(" "), table.header.join(" "));
            for ((line, row), expected) in lines.skip(1).zip(rows.skip(3)).zip(&table.rows) {
                let all: Vec<&str> = expected.cells.iter().map(String::as_str).collect();
                let numbers: Vec<&str> =
                    all[table.names..].iter().copied().filter(|cell| !cell.is_empty()).collect();
                let cells: Vec<&str> =
                    line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
                assert_eq!(cells[cells.len() - numbers.len()..], numbers, "{line}");
                let cells: Vec<&str> = row.trim_matches(['|', ' ']).split(" | ").map(str::trim).collect();
                assert_eq!(cells.join("|").trim_end_matches('|'), all.join("|").trim_end_matches('|'));
            }
        }
    }
}

#[test]
fn the_page_has_them_too() {
    for study in every() {
        let page = elements(&html::emit(&study).expect("a page"));
        let cells: Vec<&str> =
            page.iter().filter(|one| one.name == "td").map(|one| one.text.as_str()).collect();
        let tables = all(&study);
        let rows = tables.iter().flat_map(|table| table.rows.iter().map(|row| &row.cells[table.names..]));
        let expected: Vec<&str> = rows.flatten().map(String::as_str).collect();
        assert_eq!(cells, expected, "{}", study.title);
    }
}

/// As the file has them, which are those of the CSV.
fn saved(study: &Study) -> Vec<Record> {
    let file: serde_json::Value = serde_json::from_str(&json::emit(study).expect("JSON")).expect("JSON");
    let saved: Vec<Record> = serde_json::from_value(file["summary"].clone()).expect("records");
    let text = csv::emit(study).expect("CSV");
    let rows: Result<Vec<Record>, _> = ::csv::Reader::from_reader(text.as_bytes()).deserialize().collect();
    assert_eq!(rows.expect("a record per row"), saved);
    saved
}

/// The records of one metric that have a ratio, those of one group together.
fn groups(all: &[Record], metric: Metric) -> Vec<Vec<&Record>> {
    let name = metric.name();
    let of_metric: Vec<&Record> =
        all.iter().filter(|one| one.metric == name && one.ratio.is_some()).collect();
    let group = |one: &&Record| (one.profile.clone(), one.variables.clone(), one.connections);
    of_metric.chunk_by(|a, b| group(a) == group(b)).map(<[_]>::to_vec).collect()
}

fn value(record: &Record) -> f64 {
    record.value.expect("it was measured")
}

#[test]
fn every_cell_of_a_table_of_runs_is_a_number_that_is_saved() {
    for study in every() {
        let saved = saved(&study);
        let of_runs = |table: &&Table| ["Speed and latency", "Cost"].contains(&table.title.as_str());
        for table in all(&study).iter().filter(of_runs) {
            table.rows.iter().for_each(|row| assert_cells(&saved, table, &row.cells));
        }
    }
    let saved = saved(&served());
    let has = |metric: Metric| saved.iter().any(|one| one.metric == metric.name());
    assert!(has(Metric::P99) && !has(Metric::CpuPerGigabit), "what no run could tell has no row");
}

fn assert_cells(saved: &[Record], table: &Table, row: &[String]) {
    let is_own = |one: &Record| {
        let server =
            one.server.map_or("", |one| ["", " (server processes)", " (epoll server)"][one as usize]);
        let named = format!("{} {}", one.profile, one.variables);
        let count = one.connections.unwrap_or(0).to_string();
        [named.trim_end().to_owned() + server, count, one.over.clone()] == row[..3]
    };
    let find = |metric: Metric| saved.iter().find(|one| is_own(one) && one.metric == metric.name());
    let of = |metric| find(metric).unwrap_or_else(|| panic!("{metric:?} of {row:?} is saved"));
    let is_stream = ["str", "both"].iter().any(|begin| row[0].starts_with(begin));
    let speed = if is_stream { Metric::Throughput } else { Metric::Rate };
    let costs = [Metric::CpuPerGigabit, Metric::CpuPerTransaction, Metric::ServerCpuPerTransaction];
    let cost = costs.into_iter().find(|metric| find(*metric).is_some());
    let main = if table.title == "Cost" { cost.expect("it cost something") } else { speed };
    let cells = table.header.iter().zip(row).skip(table.names).filter(|(_, cell)| !cell.is_empty());
    for (column, cell) in cells {
        let (record, shown) = (of(main), |metric| units::show(metric, value(of(metric))));
        let ratio = record.ratio.zip(record.ratio_min.zip(record.ratio_max));
        let expected = match (column.as_str(), ratio) {
            ("rate", _) => shown(speed),
            ("mean", _) => shown(Metric::TransactionTime),
            ("CPU/transaction", _) => shown(Metric::CpuPerTransaction),
            ("server CPU/transaction", _) => shown(Metric::ServerCpuPerTransaction),
            ("switches", _) => shown(Metric::SwitchesPerTransaction),
            ("CPU us/Gb", _) => units::grouped(value(of(Metric::CpuPerGigabit))),
            ("server us/Gb", _) => units::grouped(value(of(Metric::ServerCpuPerGigabit))),
            ("host us/Gb", _) => units::grouped(value(of(Metric::HostCpuPerGigabit))),
            ("min..max", _) => {
                units::show_range(main, record.min.expect("a spread"), record.max.expect("a spread"))
            }
            ("ratio min..max", Some((_, (min, max)))) => units::ratio_range(main, min, max),
            (name, Some((ratio, _))) if name.contains("vs ") || name == "ratio" => units::ratio(main, ratio),
            (name, _) => shown(ALL.iter().find(|about| about.title == name).expect("a metric").metric),
        };
        assert_eq!(*cell, expected, "{column} of {row:?}");
    }
}

#[test]
fn every_goal_is_saved_with_what_it_reached() {
    let study = judged();
    let (saved, tables) = (saved(&study), all(&study));
    let goals: Vec<&Record> = saved.iter().filter(|one| one.metric == "goal").collect();
    let table = tables.iter().find(|table| table.title == "Goals").expect("goals");
    assert_eq!(goals.len(), table.rows.len());
    for (record, row) in goals.into_iter().zip(&table.rows) {
        let is_least = row.cells[5].ends_with('x');
        let number = |value: f64| match record.unit.as_str() {
            "bytes" => format!("{} KiB", figure(value / 1024.0)),
            "% of a core" => format!("{value:.3} %"),
            _ if is_least && record.goal.is_some_and(|goal| goal < 1.0) => format!("{value:.3}"),
            _ => figure(value),
        };
        let bar = |bar: Option<f64>| match (bar.expect("it has one"), record.unit.as_str()) {
            (bar, _) if is_least => format!("{bar}x"),
            (bar, "bytes") => format!("<= {}", bytes(bar)),
            (bar, "% of a core") => format!("<= {bar} %"),
            (bar, _) => format!("<= {bar}"),
        };
        let reached = record.value.map(|value| number(value) + if is_least { "x" } else { "" });
        let range = record.min.zip(record.max).map(|(min, max)| format!("{}..{}", number(min), number(max)));
        let cells = [record.profile.clone(), record.baseline.clone(), row.cells[2].clone()];
        let numbers =
            [reached.unwrap_or_default(), range.unwrap_or_default(), bar(record.goal), bar(record.floor)];
        assert_eq!(row.cells, [&cells[..], &numbers].concat());
        assert!(record.verdict.starts_with(&row.cells[2]), "{} is {}", row.cells[2], record.verdict);
    }
}

#[test]
fn every_number_of_idle_connections_is_saved() {
    for study in [idle(), swept()] {
        let (saved, tables) = (saved(&study), all(&study));
        let table = tables.iter().find(|table| table.title.contains("idle connections")).expect("a table");
        assert!(table.rows.len() == 2 && saved.iter().filter(|one| one.profile == table.title).count() == 12);
        for row in &table.rows {
            let of = |column: &str| {
                let is_it = |one: &&Record| {
                    (&one.profile, &one.over) == (&table.title, &row.cells[0]) && one.metric == column
                };
                saved.iter().find(is_it).map(value).expect("it is saved")
            };
            let [cpu, memory, resident, smcd] = [1, 2, 3, 4].map(|column| of(&table.header[column]));
            let kib = |bytes: f64| format!("{:.1} KiB", bytes / 1024.0);
            let expected = [
                row.cells[0].clone(),
                format!("{cpu:.2} ms in {:.1} s", of("watched")),
                kib(memory),
                kib(resident),
                format!("{smcd} of {}", of("all")),
            ];
            assert_eq!(row.cells, expected);
        }
        let last = ["smc", "1.23 ms in 1.0 s", "44.6 KiB", "88.7 KiB", "499 of 500"];
        assert!(table.rows[1].cells == last && table.rows[0].cells[3] == "-0.5 KiB", "{:?}", table.rows);
    }
}

/// Text in a class of the drawings.
fn said(page: &[Element], class: &str) -> Vec<String> {
    let is_one = |one: &&Element| one.name == "text" && one.attribute("class") == Some(class);
    page.iter().filter(is_one).map(|one| one.text.clone()).collect()
}

fn number(element: &Element, name: &str) -> f64 {
    element.attribute(name).and_then(|value| value.parse().ok()).expect("a number")
}

/// Every drawing in words.
fn labels(page: &[Element]) -> Vec<&str> {
    page.iter().filter(|one| one.name == "svg").filter_map(|one| one.attribute("aria-label")).collect()
}

#[test]
fn every_bar_is_as_long_as_the_ratio_that_is_saved_and_says_it() {
    let study = compared();
    let (saved, page) = (saved(&study), elements(&html::emit(&study).expect("a page")));
    let bars: Vec<&Element> = page.iter().filter(|one| one.name == "rect").collect();
    let (mut expected, mut done) = (vec![], 0);
    for (profile, main) in COMPARED {
        for metric in [main, Metric::CpuPerGigabit] {
            let groups: Vec<_> =
                groups(&saved, metric).into_iter().filter(|group| group[0].profile == profile).collect();
            let records: Vec<&Record> = groups.iter().flatten().copied().collect();
            let scale = units::unit(metric, records.iter().map(|one| value(one))).0;
            let ratio = |one: &Record| one.ratio.expect("chosen so");
            let said = |one: &Record| (units::ratio(metric, ratio(one)), units::grouped(value(one) / scale));
            expected.extend(records.iter().map(|one| said(one)));
            for group in &groups {
                let drawn = group.iter().zip(&bars[done..]);
                let of_one: Vec<f64> = drawn.map(|(one, bar)| number(bar, "width") / ratio(one)).collect();
                let most = group.iter().filter_map(|one| one.ratio_max).fold(1.0, f64::max);
                // (The longest line of a group ends where the numbers begin.)
                let is_so = |one: &f64| (one * most / 126.0 - 1.0).abs() < 0.03;
                assert!(of_one.iter().all(is_so), "{metric:?}: {of_one:?}, {most}");
                done += group.len();
            }
            let words = groups.iter().map(|group| {
                let bar = |one: &&Record| format!("{} {} ({})", one.over, said(one).0, said(one).1);
                let all = group.iter().map(bar).collect::<Vec<_>>().join(", ");
                format!("{}: {all}.", connections(group[0].connections.expect("a number")))
            });
            let words = words.collect::<Vec<_>>().join(" ");
            assert!(labels(&page).iter().any(|label| label.ends_with(&words)), "{words}");
        }
    }
    assert_eq!(said(&page, "value").into_iter().zip(said(&page, "more")).collect::<Vec<_>>(), expected);
    assert_eq!(done, bars.len());
}

/// The lines of the drawing with these words go through the points that are saved, on axes of powers.
fn assert_points(page: &[Element], words: &str, saved: &[(f64, f64)]) {
    let is_own = |one: &&Element| one.attribute("aria-label").is_some_and(|label| label.ends_with(words));
    let own = page.iter().skip_while(|one| !is_own(one)).skip(1).take_while(|one| one.name != "svg");
    let lines = own.filter(|one| one.name == "polyline").filter_map(|one| one.attribute("points"));
    let place =
        |point: &str| point.split_once(',').and_then(|(x, y)| Some((x.parse().ok()?, y.parse().ok()?)));
    let drawn: Vec<(f64, f64)> = lines.flat_map(|line| line.split(' ').filter_map(place)).collect();
    assert_eq!(drawn.len(), saved.len(), "{words}");
    for of in [|point: &(f64, f64)| point.0, |point: &(f64, f64)| point.1] {
        let mut both: Vec<(f64, f64)> =
            saved.iter().map(|one| of(one).ln()).zip(drawn.iter().map(of)).collect();
        both.sort_by(|a, b| a.0.total_cmp(&b.0));
        let ((from, begin), (to, end)) = (both[0], both[both.len() - 1]);
        let is_there = |(at, drawn): &(f64, f64)| {
            (begin + (at - from) / (to - from) * (end - begin) - drawn).abs() < 0.2
        };
        assert!(both.iter().all(is_there), "{words}: {both:?}");
    }
}

#[test]
fn every_curve_over_sizes_goes_through_what_is_saved_and_says_it() {
    let study = swept();
    let (saved, page) = (saved(&study), elements(&html::emit(&study).expect("a page")));
    let latency = [Metric::P50, Metric::P99, Metric::CpuPerTransaction];
    let streamed = [Metric::Throughput, Metric::CpuPerGigabit];
    for (profile, metric) in
        latency.map(|one| ("ping", one)).into_iter().chain(streamed.map(|one| ("stream", one)))
    {
        let name = metric.name();
        let records: Vec<&Record> =
            saved.iter().filter(|one| one.profile == profile && one.metric == name).collect();
        let size = |one: &Record| -> f64 {
            one.variables.strip_prefix("size=").and_then(|size| size.parse().ok()).expect("a size")
        };
        let words = |one: &&Record| {
            format!("{} at {}: {}.", one.over, bytes(size(one)), units::show(metric, value(one)))
        };
        let words = records.iter().map(words).collect::<Vec<_>>().join(" ");
        let paths =
            records.iter().take(4).flat_map(|first| records.iter().filter(|one| one.over == first.over));
        assert_points(&page, &words, &paths.map(|one| (size(one), value(one))).collect::<Vec<_>>());
    }
}

#[test]
fn every_curve_over_buffers_goes_through_the_ratios_that_are_saved_and_says_them() {
    let study = buffered();
    let (saved, page) = (saved(&study), elements(&html::emit(&study).expect("a page")));
    for (group, costs) in
        groups(&saved, Metric::Throughput).into_iter().zip(groups(&saved, Metric::CpuPerGigabit))
    {
        let kib = |one: &Record| {
            one.over.split('=').next_back().and_then(|size| size.strip_suffix('k')?.parse::<f64>().ok())
        };
        let points = |all: &[&Record]| -> Vec<(f64, f64)> {
            all.iter().filter_map(|one| Some((kib(one)? * 1024.0, one.ratio?))).collect()
        };
        let (speed, cost) = (points(&group), points(&costs));
        let words = |name: &str, all: &[(f64, f64)]| {
            let all: Vec<String> =
                all.iter().map(|(at, part)| format!("{} at {}", units::percent(*part), bytes(*at))).collect();
            format!("{name}: {}.", all.join(", "))
        };
        let all = format!("{} {}", words("throughput", &speed), words("CPU per Gb", &cost));
        assert!(
            speed.len() == 7
                && labels(&page).contains(
                    &format!("Buffers, {}. {all}", connections(group[0].connections.expect("some"))).as_str()
                )
        );
        // The numbers of connections may have the same words; the last ones are the same then.
        assert_points(&page, &all, &[speed, cost].concat());
    }
}

#[test]
fn every_percentile_that_a_drawing_says_and_every_tile_is_saved() {
    let study = compared();
    let (saved, page) = (saved(&study), elements(&html::emit(&study).expect("a page")));
    for group in groups(&saved, Metric::P50).into_iter().filter(|group| group[0].profile.starts_with("rr")) {
        let words = group.iter().map(|one| {
            let of = |metric: Metric| {
                let is_it = |other: &&Record| {
                    (&other.over, other.connections, &other.profile)
                        == (&one.over, one.connections, &one.profile)
                };
                let found = saved.iter().filter(is_it).find(|one| one.metric == metric.name());
                format!("{} {}", metric.about().title, units::show(metric, value(found.expect("saved"))))
            };
            format!("{}: {}.", one.over, [Metric::P50, Metric::P99, Metric::P999].map(of).join(", "))
        });
        let words = words.collect::<Vec<_>>().join(" ");
        assert!(labels(&page).iter().any(|label| label.ends_with(&words)), "{words}");
    }
    let range = |profile: &str, metric: Metric, times: f64| {
        let own = saved
            .iter()
            .filter(|one| one.profile == profile && one.metric == metric.name() && one.over == "smc");
        let all: Vec<f64> = own.filter_map(|one| one.ratio).map(|ratio| ratio * times).collect();
        let [low, high] =
            [f64::min, f64::max].map(|pick| figure(all.iter().copied().reduce(pick).expect("some")));
        if low == high { high } else { format!("{low} to {high}") }
    };
    let facts = COMPARED.map(|(profile, main)| {
        let cost = format!("{}\u{a0}%", range(profile, Metric::CpuPerGigabit, 100.0));
        [format!("{}x", range(profile, main, 1.0)), cost]
    });
    let tiles = page
        .iter()
        .skip_while(|one| one.attribute("class") != Some("tiles"))
        .take_while(|one| one.name != "main");
    let tiles: Vec<&str> = tiles.filter(|one| one.name == "b").map(|one| one.text.as_str()).collect();
    assert_eq!(tiles, facts.concat());
}
