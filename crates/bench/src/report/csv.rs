//! A study as CSV: one row per contender and metric, in base units, which is what spreadsheets pivot and R plots.

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::compare::metric::{ALL, Metric};
use crate::compare::quiet::refusal;
use crate::compare::study::Study;
use crate::compare::summary::{Line, Reading};

/// One row; the fields are the columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The profile.
    pub(crate) profile: String,
    /// Strands.
    pub(crate) connections: u32,
    /// How the slave served.
    pub(crate) server: uperf::Server,
    /// Variables of the profile, `name=value`, blanks between.
    pub(crate) variables: String,
    /// The path and its environment.
    pub(crate) over: String,
    /// What the numbers are.
    pub(crate) metric: Metric,
    /// Unit of all numbers but ratios.
    pub(crate) unit: String,
    /// Median of the rounds; of a percentile, that of all rounds merged.
    pub(crate) value: f64,
    /// Smallest round.
    pub(crate) min: f64,
    /// First quartile of the rounds.
    pub(crate) q1: f64,
    /// Third quartile.
    pub(crate) q3: f64,
    /// Largest round.
    pub(crate) max: f64,
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
    /// Why the study allows no verdict; empty if it does.
    pub(crate) refusal: String,
}

/// All rows.
pub(crate) fn records(study: &Study) -> Vec<Record> {
    let lines = Reading::new(study).lines();
    let of_line = |line| ALL.iter().filter_map(move |about| record(study, line, about.metric));
    lines.iter().flat_map(of_line).collect()
}

fn record(study: &Study, line: &Line<'_>, metric: Metric) -> Option<Record> {
    let value = line.values.get(&metric)?;
    let setting = &line.group.setting;
    let variables: Vec<String> =
        setting.variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
    Some(Record {
        profile: setting.profile.clone(),
        connections: setting.connections,
        server: setting.server,
        variables: variables.join(" "),
        over: line.contender.to_string(),
        metric,
        unit: metric.about().unit.into(),
        value: value.shown,
        min: value.spread.min,
        q1: value.spread.q1,
        q3: value.spread.q3,
        max: value.spread.max,
        rounds: value.spread.rounds,
        baseline: line.group.baseline.to_string(),
        ratio: value.ratio.map(|ratio| ratio.median),
        ratio_min: value.ratio.map(|ratio| ratio.min),
        ratio_max: value.ratio.map(|ratio| ratio.max),
        refusal: refusal(study.seen()).map(|why| format!("no verdict: {why}")).unwrap_or_default(),
        disturbed: study.of(line.turn).filter(|sample| sample.is_disturbed()).count(),
    })
}

/// The whole file, with a header.
pub(crate) fn emit(study: &Study) -> anyhow::Result<String> {
    let mut writer = ::csv::Writer::from_writer(vec![]);
    let records = records(study);
    for record in &records {
        writer.serialize(record)?;
    }
    // Without cells, what else there is.
    for extra in study.extras.iter().filter(|_| records.is_empty()) {
        writer.write_record(&extra.header)?;
        extra.rows.iter().try_for_each(|row| writer.write_record(row))?;
    }
    let bytes = writer.into_inner().map_err(|error| error.into_error())?;
    String::from_utf8(bytes).context("names are text, so the file is")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::mock::{MockExecutor, plan, run, study};
    use crate::compare::plan::Contender;
    use crate::path::Path;

    #[test]
    fn what_is_written_can_be_read_back() {
        let mut plan = plan(&["rr, with \"quotes\"\nand lines"], &[1, 50], &[Path::TcpVeth]);
        plan.groups[0].setting.variables.insert("size".into(), "4".into());
        plan.groups[1].contenders.push(Contender::new(Path::Smc).with("A", "b,c"));
        let model =
            |cell: &crate::cell::Cell, _| run(if cell.path == Path::Smc { 3000.0 } else { 1000.0 }, 1.0);
        let study = study(plan, &mut MockExecutor::new(model));
        let text = emit(&study).expect("CSV");
        let mut reader = ::csv::Reader::from_reader(text.as_bytes());
        let read: Vec<Record> = reader.deserialize().collect::<Result<_, _>>().expect("a record per row");
        assert_eq!(read, records(&study));
        assert_eq!(read.len(), 3 * ALL.len());
        let rate =
            read.iter().find(|one| one.over == "smc A=b,c" && one.metric == Metric::Rate).expect("a row");
        assert_eq!((rate.value, rate.ratio, rate.unit.as_str()), (3000.0, Some(3.0), "/s"));
    }

    #[test]
    fn what_no_run_could_tell_has_no_row() {
        let model =
            |_: &crate::cell::Cell, _| uperf::result::Run { server: None, host: None, ..run(1000.0, 1.0) };
        let study = study(plan(&["rr"], &[1], &[Path::Smc]), &mut MockExecutor::new(model));
        let metrics: Vec<Metric> = records(&study).iter().map(|record| record.metric).collect();
        assert!(!metrics.contains(&Metric::CpuPerGigabit) && metrics.contains(&Metric::P999), "{metrics:?}");
    }
}
