//! One thing to measure.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use uperf::Server;

use crate::path::Path;

/// One thing to measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cell {
    /// Name of a built-in profile, or a file.
    pub(crate) profile: String,
    /// The profile's strands ($nprocs).
    pub(crate) connections: u32,
    /// Which way the bytes go.
    pub(crate) path: Path,
    /// How the slave serves.
    pub(crate) server: Server,
    /// Length of the measured transaction ($duration).
    pub(crate) duration: Duration,
    /// More variables for the profile ($size, $rate, ...).
    pub(crate) variables: BTreeMap<String, String>,
    /// Environment of both ends: SMC_RCVBUF, SMC_SNDBUF and the like.
    pub(crate) environment: BTreeMap<String, String>,
}

/// A length that a run can have: a hundredth of a second to an hour.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.01..=3600.0).contains(&value) => Ok(value),
        _ => Err("a number of seconds from 0.01 to 3600 is wanted".into()),
    }
}
