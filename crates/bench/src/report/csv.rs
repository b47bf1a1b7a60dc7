//! A study as CSV: one row per contender and metric, per goal, and per number of idle connections, in base units, which is
//! what spreadsheets pivot and R plots.

use ::csv::Writer;
use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::compare::goals::Bar;
use crate::compare::judge::{Judged, Verdict, judge, unit};
use crate::compare::metric::{ALL, Metric};
use crate::compare::quiet::refusal;
use crate::compare::stats::Spread;
use crate::compare::study::{Extra, Study};
use crate::compare::summary::{Line, Reading};

/// One row; the fields are the columns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The profile, or a goal's name, or the title of what is no cell.
    pub(crate) profile: String,
    /// Strands.
    pub(crate) connections: Option<u32>,
    /// How the slave served.
    pub(crate) server: Option<uperf::Server>,
    /// Variables of the profile, `name=value`, blanks between.
    pub(crate) variables: String,
    /// The path and its environment.
    pub(crate) over: String,
    /// What the numbers are: a metric's name, `goal`, or a column's heading.
    pub(crate) metric: String,
    /// Unit of all numbers but ratios.
    pub(crate) unit: String,
    /// Median of the rounds; of a percentile, that of all rounds merged.
    pub(crate) value: Option<f64>,
    /// Smallest round.
    pub(crate) min: Option<f64>,
    /// First quartile of the rounds.
    pub(crate) q1: Option<f64>,
    /// Third quartile.
    pub(crate) q3: Option<f64>,
    /// Largest round.
    pub(crate) max: Option<f64>,
    /// Rounds that could tell.
    pub(crate) rounds: usize,
    /// What it is measured against.
    pub(crate) baseline: String,
    /// Median of the ratios to the baseline in the same round.
    pub(crate) ratio: Option<f64>,
    /// Smallest ratio.
    pub(crate) ratio_min: Option<f64>,
    /// Largest ratio.
    pub(crate) ratio_max: Option<f64>,
    /// Rounds of this contender in which others disturbed it.
    pub(crate) disturbed: usize,
    /// What a goal has to reach, and below what it is broken.
    pub(crate) goal: Option<f64>,
    /// The latter.
    pub(crate) floor: Option<f64>,
    /// How it stands.
    pub(crate) verdict: String,
    /// Why the study allows no verdict; empty if it does.
    pub(crate) refusal: String,
}

/// All rows.
pub(crate) fn records(study: &Study) -> Vec<Record> {
    let reading = Reading::new(study);
    let (lines, judged) = (reading.lines(), judge(&reading));
    let of_line = |line| ALL.iter().filter_map(move |about| record(study, line, about.metric));
    let extras = study.extras.iter().flat_map(numbers);
    let all = lines.iter().flat_map(of_line).chain(judged.iter().map(goal)).chain(extras);
    let refusal = refusal(study.seen()).map(|why| format!("no verdict: {why}")).unwrap_or_default();
    all.map(|record| Record { refusal: refusal.clone(), ..record }).collect()
}

impl Record {
    /// Of no more than its numbers.
    fn of(value: f64, spread: Spread) -> Self {
        let Spread { min, q1, q3, max, rounds, .. } = spread;
        let [value, min, q1, q3, max] = [value, min, q1, q3, max].map(Some);
        Self { value, min, q1, q3, max, rounds, ..Self::default() }
    }
}

fn record(study: &Study, line: &Line<'_>, metric: Metric) -> Option<Record> {
    let value = line.values.get(&metric)?;
    let setting = &line.group.setting;
    let variables: Vec<String> =
        setting.variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
    Some(Record {
        profile: setting.profile.clone(),
        connections: Some(setting.connections),
        server: Some(setting.server),
        variables: variables.join(" "),
        over: line.contender.to_string(),
        metric: metric.name(),
        unit: metric.about().unit.into(),
        baseline: line.group.baseline.to_string(),
        ratio: value.ratio.map(|ratio| ratio.median),
        ratio_min: value.ratio.map(|ratio| ratio.min),
        ratio_max: value.ratio.map(|ratio| ratio.max),
        disturbed: study.of(line.turn).filter(|sample| sample.is_disturbed()).count(),
        ..Record::of(value.shown, value.spread)
    })
}

fn goal(judged: &Judged<'_>) -> Record {
    let (Bar::AtLeast { goal, floor } | Bar::AtMost { goal, floor }) = judged.goal.bar;
    let why = match &judged.verdict {
        Verdict::Forbidden(why) | Verdict::NotMeasured(why) | Verdict::NotHere(why) => format!(": {why}"),
        _ => String::new(),
    };
    Record {
        profile: judged.goal.name.clone(),
        metric: "goal".into(),
        unit: unit(judged.goal).name().into(),
        baseline: judged.against.clone(),
        goal: Some(goal),
        floor: Some(floor),
        verdict: format!("{}{why}", judged.verdict.word()),
        ..judged.reached.map(|all| Record::of(all.median, all)).unwrap_or_default()
    }
}

/// What stands in the cells of a table that does not come from runs, but for the names of its rows.
fn numbers(extra: &Extra) -> impl Iterator<Item = Record> {
    extra.numbers.iter().map(|number| Record {
        profile: extra.title.clone(),
        over: number.row.clone(),
        metric: number.column.clone(),
        unit: number.unit.clone(),
        value: Some(number.value),
        rounds: 1,
        ..Record::default()
    })
}

/// The whole file, with a header. Two studies beside each other are tables alone, an empty line between them.
pub(crate) fn emit(study: &Study) -> anyhow::Result<String> {
    let records = records(study);
    if !records.is_empty() {
        return written(|file| records.iter().try_for_each(|record| file.serialize(record)));
    }
    let table = |extra: &Extra| {
        let rows = || [&extra.header].into_iter().chain(&extra.rows);
        written(|file| rows().try_for_each(|row| file.write_record(row)))
    };
    Ok(study.extras.iter().map(table).collect::<anyhow::Result<Vec<_>>>()?.join("\n"))
}

fn written(write: impl FnOnce(&mut Writer<Vec<u8>>) -> ::csv::Result<()>) -> anyhow::Result<String> {
    let mut writer = Writer::from_writer(vec![]);
    write(&mut writer)?;
    let bytes = writer.into_inner().map_err(|error| error.into_error())?;
    String::from_utf8(bytes).context("names are text, so the file is")
}
