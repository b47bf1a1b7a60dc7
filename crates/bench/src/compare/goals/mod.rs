//! What SMC has to reach: each goal is a ratio to another path of the same run, or a quantity that was measured in rounds of
//! its own, with a floor below which something is broken. The table of goals is in `suite.rs`.

mod suite;

use serde::{Deserialize, Serialize};

pub(crate) use self::suite::{Pace, suite};
use crate::compare::metric::Metric;
use crate::compare::plan::Turn;
use crate::compare::quantity::{Probe, Quantity};

/// What a ratio or a quantity has to reach.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Bar {
    /// So many times better than the other path: more of a rate, less of a time.
    AtLeast {
        /// Reached: passed.
        goal: f64,
        /// Not reached: broken.
        floor: f64,
    },
    /// Not more than this part of the other path's number, or not more than this in the quantity's unit.
    AtMost {
        /// Reached: passed.
        goal: f64,
        /// Exceeded: broken.
        floor: f64,
    },
}

/// One row as it is judged and saved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Goal {
    /// For people.
    pub(crate) name: String,
    /// What is judged.
    #[serde(flatten)]
    pub(crate) what: What,
    /// What is to be reached.
    pub(crate) bar: Bar,
}

/// What a goal is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum What {
    /// Two cells of the plan.
    Turns {
        /// SMC's turn.
        ours: Turn,
        /// The other path's.
        theirs: Turn,
        /// What is compared.
        metric: Metric,
    },
    /// Something that no cell tells.
    Quantity {
        /// Which one.
        quantity: Quantity,
    },
}

/// What measures the quantities of `goals`, each once.
pub(crate) fn probes(goals: &[Goal]) -> Vec<Probe> {
    let of_goal = |goal: &Goal| match goal.what {
        What::Turns { .. } => None,
        What::Quantity { quantity } => Some(quantity.about().probe),
    };
    let mut probes: Vec<Probe> = goals.iter().filter_map(of_goal).collect();
    probes.dedup();
    probes
}
