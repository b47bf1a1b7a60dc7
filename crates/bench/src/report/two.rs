//! Two saved studies beside each other: what both have. They are two runs, which is said before anything else: what differs
//! may be the machine's, or the day's. The invariant: a number looks as in the reports of the two.

use crate::compare::digits::connections;
use crate::compare::judge::judge;
use crate::compare::metric::Metric;
use crate::compare::study::{Extra, Study};
use crate::compare::summary::{Line, Reading};
use crate::report::table::{Row, Table, tables};
use crate::report::units::{ratio, show, show_range};

/// Those of a report whose numbers stand beside each other already.
const OF_LINES: [&str; 2] = ["Speed and latency", "Cost"];

/// A study that has no runs of its own, only tables and the warning.
pub(crate) fn beside(first: &Study, second: &Study) -> Study {
    let (one, other) = (Reading::new(first), Reading::new(second));
    let (lines, others) = (one.lines(), other.lines());
    let pair = |line| Some((line, others.iter().find(|other| name(other) == name(line))?));
    let pairs: Vec<(&Line<'_>, &Line<'_>)> = lines.iter().filter_map(pair).collect();
    let rows = pairs.iter().flat_map(|(line, same)| {
        let metrics = [one.main_metric(line.turn.group), Metric::P99, line.cost()];
        metrics.into_iter().filter_map(|metric| row((&one, line), (&other, same), metric))
    });
    let header = ["what", "first", "min..max", "second", "min..max", "second/first", "rounds"];
    let seen = first.seen().chain(second.seen()).collect();
    let lead = Extra {
        title: "First and second".into(),
        header: header.map(str::to_owned).into(),
        rows: rows.collect(),
        seen,
        ..Extra::default()
    };
    let [ours, theirs] = [&one, &other].map(|all| tables(all, &all.lines(), &judge(all)));
    let is_left = |table: &&Table| !OF_LINES.contains(&table.title.as_str());
    let more = ours.iter().filter(is_left).filter_map(|table| in_turns(table, &theirs));
    let missing = lines.len() + others.len() - 2 * pairs.len();
    let both = |read: fn(&Study) -> String| match [first, second].map(read) {
        [one, other] if one == other => one,
        [one, other] => format!("{one} and {other}"),
    };
    let caution = format!(
        "these are two runs, so a difference may be the machine's or the day's: first {} on {}; second {} on {}",
        first.started,
        first.machine.sentence(),
        second.started,
        second.machine.sentence()
    );
    let note = format!("{missing} rows are in one of the two only");
    Study {
        title: both(|study| study.title.clone()),
        command: both(|study| study.command.clone()),
        version: both(|study| study.version.clone()),
        started: both(|study| study.started.clone()),
        machine: first.machine.clone(),
        axis: first.axis,
        notes: (missing > 0).then_some(note).into_iter().collect(),
        cautions: vec![caution],
        extras: [lead].into_iter().chain(more).collect(),
        seconds: first.seconds + second.seconds,
        ..Study::default()
    }
}

/// What a line is, however long its runs were.
fn name(line: &Line<'_>) -> String {
    let setting = &line.group.setting;
    format!("{}, {} over {}", setting.workload(), connections(setting.connections), line.contender)
}

fn row(
    first: (&Reading<'_>, &Line<'_>),
    second: (&Reading<'_>, &Line<'_>),
    metric: Metric,
) -> Option<Vec<String>> {
    let number = |(reading, line): (&Reading<'_>, &Line<'_>)| {
        Some((reading.shown(line, metric)?, line.values.get(&metric)?.spread))
    };
    let ((before, a), (after, b)) = (number(first)?, number(second)?);
    let apart = if a.max < b.min || b.max < a.min { "apart" } else { "overlapping" };
    let what = format!("{}: {}", name(first.1), metric.about().title);
    let [a, b] = [a, b].map(|all| show_range(metric, all.min, all.max));
    let [before, after, times] = [show(metric, before), show(metric, after), ratio(metric, after / before)];
    Some(vec![what, before, a, after, b, times, apart.into()])
}

/// The rows that both have of a table of goals, or of idle connections.
fn in_turns(table: &Table, others: &[Table]) -> Option<Extra> {
    let other = others.iter().find(|other| (&other.title, &other.header) == (&table.title, &table.header))?;
    let names = table.names.max(2) - 1;
    let same = |row: &Row| other.rows.iter().find(|other| other.cells[..names] == row.cells[..names]);
    let cells = |row: &Row, whose: &str| {
        [&[format!("{}, {whose}", row.cells[..names].join(", "))], &row.cells[names..]].concat()
    };
    let rows = table.rows.iter().filter_map(|row| Some([cells(row, "first"), cells(same(row)?, "second")]));
    let header = [&table.header[..1], &table.header[names..]].concat();
    Some(Extra { title: table.title.clone(), header, rows: rows.flatten().collect(), ..Extra::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::mock::{MockExecutor, plan, run, study};
    use crate::compare::verdict;
    use crate::path::Path;
    use crate::report::html::example;

    #[test]
    fn what_both_have_stands_side_by_side_under_a_warning() {
        let of = |rate: f64, paths: &[Path]| {
            study(plan(&["rr"], &[1], paths), &mut MockExecutor::new(move |_, _| run(rate, 1.0)))
        };
        let (first, mut second) =
            (of(1000.0, &[Path::TcpVeth, Path::Smc]), of(1500.0, &[Path::Unix, Path::Smc]));
        second.plan.groups[0].setting.duration *= 2;
        let two = beside(&first, &second);
        let rows = &two.extras[0].rows;
        let rate = "rr, 1 connection over smc: transactions per second";
        let range = |k: &str| format!("{k}..{k} k/s");
        assert_eq!(rows[0], [rate, "1.00 k/s", &range("1.00"), "1.50 k/s", &range("1.50"), "1.50x", "apart"]);
        assert_eq!(two.notes, ["2 rows are in one of the two only"]);
        assert_eq!(two.title, first.title, "said once");
        let warnings = verdict::warnings(&two);
        assert!(warnings[0].starts_with("these are two runs"), "{warnings:?}");
    }

    #[test]
    fn every_row_has_a_name_of_its_own_and_tables_of_other_things_are_kept() {
        for (study, title) in [(example::swept(), "idle connections"), (example::judged(), "Goals")] {
            let two = beside(&study, &study);
            let names: std::collections::BTreeSet<&String> =
                two.extras[0].rows.iter().map(|row| &row[0]).collect();
            assert_eq!((names.len(), &two.notes), (two.extras[0].rows.len(), &vec![]));
            let more =
                two.extras.iter().find(|extra| extra.title.contains(title)).expect("what else there is");
            assert!(
                more.rows[0][0].ends_with(", first") && more.rows[1][0].ends_with(", second"),
                "{more:?}"
            );
            assert_eq!(more.rows[0][1..], more.rows[1][1..]);
            let csv = crate::report::csv::emit(&two).expect("tables of several widths");
            assert_eq!(csv.split("\n\n").count(), two.extras.len());
        }
    }
}
