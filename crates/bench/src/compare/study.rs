//! All that one call of `smc_bench compare` measured: the value that is saved, loaded and shown.
//!
//! The invariant: a study holds the runs of one machine, one date and one command line. Everything that a report says
//! is computed from it, so a saved study can be shown again, and two studies can never stand in one table.

use serde::{Deserialize, Serialize};

use crate::compare::digits::connections;
use crate::compare::goals::Goal;
use crate::compare::machine::Machine;
use crate::compare::plan::{Contender, Group, Plan, Turn};
use crate::compare::quantity::{Lack, Quantity, Take};
use crate::compare::quiet::{Interference, is_disturbed};
use uperf::result::Run;

/// One machine, one date, one command line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Study {
    /// What the report is headed with.
    pub(crate) title: String,
    /// The command line, as a shell would take it.
    pub(crate) command: String,
    /// Version of this program.
    pub(crate) version: String,
    /// Start, RFC 3339 in UTC.
    pub(crate) started: String,
    /// How long it took.
    pub(crate) seconds: f64,
    /// Where.
    pub(crate) machine: Machine,
    /// What was planned.
    pub(crate) plan: Plan,
    /// What the charts stand on.
    pub(crate) axis: Axis,
    /// Every run that gave numbers, in the order in which they ran.
    pub(crate) samples: Vec<Sample>,
    /// Cells that gave none.
    pub(crate) failures: Vec<Failure>,
    /// Whether everything had its turn.
    pub(crate) ending: Ending,
    /// What a reader should know, a sentence each: paths left out, and the like.
    pub(crate) notes: Vec<String>,
    /// What a reader has to know before anything else.
    #[serde(default)]
    pub(crate) cautions: Vec<String>,
    /// What was to be reached; empty unless the suite of goals ran.
    #[serde(default)]
    pub(crate) goals: Vec<Goal>,
    /// Every round of a quantity that gave numbers.
    #[serde(default)]
    pub(crate) takes: Vec<Take>,
    /// Quantities that gave none, or too few.
    #[serde(default)]
    pub(crate) lacks: Vec<Lack>,
    /// Numbers that are no cells: memory of idle connections, and the like.
    #[serde(default)]
    pub(crate) extras: Vec<Extra>,
}

impl Study {
    /// Who had `turn`; None if the plan has no such turn.
    pub(crate) fn contender(&self, turn: Turn) -> Option<(&Group, &Contender)> {
        let group = self.plan.groups.get(turn.group)?;
        Some((group, group.contenders.get(turn.contender)?))
    }

    /// The samples of `turn`, one per round.
    pub(crate) fn of(&self, turn: Turn) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(move |sample| sample.turn == turn)
    }

    /// The rounds of `quantity`.
    pub(crate) fn taken(&self, quantity: Quantity) -> impl Iterator<Item = &Take> {
        self.takes.iter().filter(move |take| take.quantity == quantity)
    }

    /// What others did during each run and each round of a quantity; None where nobody could tell.
    pub(crate) fn seen(&self) -> impl Iterator<Item = Option<Interference>> {
        let runs = self.samples.iter().map(|sample| sample.interference);
        let takes = self.takes.iter().map(|take| take.interference);
        runs.chain(takes).chain(self.extras.iter().flat_map(|extra| extra.seen.iter().copied()))
    }

    /// `profile, N connections over contender`, for sentences.
    pub(crate) fn name(&self, turn: Turn) -> String {
        let Some((group, contender)) = self.contender(turn) else { return "an unknown cell".into() };
        format!("{}, {} over {contender}", group.setting.workload(), connections(group.setting.connections))
    }
}

/// What the charts of a study stand on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Axis {
    /// Numbers of connections: `compare`.
    #[default]
    Connections,
    /// Sizes of messages: `sweep`.
    Size,
    /// Sizes of SMC's buffers: `buffers`.
    Buffer,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// Whose.
    pub(crate) turn: Turn,
    /// From 0.
    pub(crate) round: u16,
    /// What others did before and during it; None where nobody could tell.
    pub(crate) interference: Option<Interference>,
    /// The numbers.
    pub(crate) run: Run,
}

impl Sample {
    /// Whether others used so much of the CPU that the run proves nothing.
    pub(crate) fn is_disturbed(&self) -> bool {
        is_disturbed(self.interference)
    }
}

/// A cell that could not be measured. It is not tried again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    /// Whose.
    pub(crate) turn: Turn,
    /// From 0.
    pub(crate) round: u16,
    /// Why, in one sentence.
    pub(crate) reason: String,
}

/// How a study ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Ending {
    /// Every cell had all its turns, or failed.
    #[default]
    Complete,
    /// Ctrl-C.
    Interrupted,
    /// Another round would have taken longer than the preset may.
    OutOfTime,
}

/// A small table that comes from somewhere else than runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Extra {
    /// What it is.
    pub(crate) title: String,
    /// Of the columns.
    pub(crate) header: Vec<String>,
    /// As many cells each as the header.
    pub(crate) rows: Vec<Vec<String>>,
    /// What stands in the cells, for programs.
    #[serde(default)]
    pub(crate) numbers: Vec<Number>,
    /// What others did while it was measured; None where nobody could tell.
    #[serde(default)]
    pub(crate) seen: Vec<Option<Interference>>,
}

/// A number of an [`Extra`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Number {
    /// First cell of its row.
    pub(crate) row: String,
    /// Of its column, or what else is said in the cell.
    pub(crate) column: String,
    /// What it is counted in.
    pub(crate) unit: String,
    /// Not rounded.
    pub(crate) value: f64,
}
