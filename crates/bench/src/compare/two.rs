//! Two saved studies beside each other: the cells that both have. They are two runs, which is said before anything else: what
//! differs may be the machine's, or the day's.

use crate::compare::digits::{connections, figure};
use crate::compare::study::{Extra, Study};
use crate::compare::summary::{Line, Reading};

/// A study that has no runs of its own, only a table and the warning.
pub(crate) fn beside(first: &Study, second: &Study) -> Study {
    let (one, other) = (Reading::new(first), Reading::new(second));
    let others = other.lines();
    let same = |line: &Line<'_>| {
        let is_same = |other: &&Line<'_>| {
            other.group.setting == line.group.setting && other.contender == line.contender
        };
        others.iter().find(is_same)
    };
    let row = |line: &Line<'_>| {
        let metric = one.main_metric(line.turn.group);
        let (before, after) = (line.values.get(&metric)?, same(line)?.values.get(&metric)?);
        let (a, b) = (before.spread, after.spread);
        let apart = if a.max < b.min || b.max < a.min { "apart" } else { "overlapping" };
        let shown = |all: crate::compare::stats::Spread| {
            let unit = metric.about().unit;
            format!("{:.4e} {unit} ({:.3e}..{:.3e})", all.median, all.min, all.max)
        };
        let setting = &line.group.setting;
        let name =
            format!("{}, {} over {}", setting.profile, connections(setting.connections), line.contender);
        let times = format!("{}x", figure(metric.times_better(b.median, a.median)));
        Some(vec![name, shown(a), shown(b), times, apart.to_owned()])
    };
    let rows: Vec<Vec<String>> = one.lines().iter().filter_map(row).collect();
    let missing = one.lines().len() + others.len() - 2 * rows.len();
    let whose =
        |study: &Study| format!("{} on {} by `{}`", study.started, study.machine.sentence(), study.command);
    let caution = format!(
        "these are two runs, so a difference may be the machine's or the day's: first {}; second {}",
        whose(first),
        whose(second)
    );
    let header = ["what", "first", "second", "second/first", "rounds"].map(str::to_owned).into();
    let seen = first.seen().chain(second.seen()).collect();
    Study {
        title: format!("{} and {}", first.title, second.title),
        command: first.command.clone(),
        version: first.version.clone(),
        started: first.started.clone(),
        machine: first.machine.clone(),
        axis: first.axis,
        notes: (missing > 0)
            .then(|| format!("{missing} rows are in one of the two only"))
            .into_iter()
            .collect(),
        cautions: vec![caution],
        extras: vec![Extra { title: "First and second".into(), header, rows, seen }],
        seconds: first.seconds + second.seconds,
        ..Study::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::mock::{MockExecutor, plan, run, study};
    use crate::compare::verdict;
    use crate::path::Path;

    #[test]
    fn what_both_have_stands_side_by_side_under_a_warning() {
        let of = |rate: f64, paths: &[Path]| {
            study(plan(&["rr"], &[1], paths), &mut MockExecutor::new(move |_, _| run(rate, 1.0)))
        };
        let two = beside(&of(1000.0, &[Path::TcpVeth, Path::Smc]), &of(1500.0, &[Path::Unix, Path::Smc]));
        let rows = &two.extras[0].rows;
        assert_eq!(rows.len(), 1, "{rows:?}");
        assert_eq!(
            (rows[0][0].as_str(), rows[0][3].as_str(), rows[0][4].as_str()),
            ("rr, 1 connection over smc", "1.50x", "apart")
        );
        assert_eq!(two.notes, ["2 rows are in one of the two only"]);
        assert!(
            verdict::warnings(&two)[0].starts_with("these are two runs"),
            "{:?}",
            verdict::warnings(&two)
        );
    }
}
