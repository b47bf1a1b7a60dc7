//! `smc_bench serve` and `smc_bench to HOST`: one line each for the impatient, who get a slave and a master with a stream.

use clap::Args;

use crate::cell::seconds;

/// Control port of both, uperf's own.
const PORT: u16 = 20_000;

/// Where to, how much.
#[derive(Args)]
pub(crate) struct To {
    /// Where `smc_bench serve` runs
    host: String,
    /// Connections at once
    #[arg(short = 'P', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    parallel: u32,
    /// The other way round: from HOST to here
    #[arg(short = 'R', long)]
    reverse: bool,
    /// How long, in seconds
    #[arg(short = 't', long, value_name = "S", default_value_t = 10.0, value_parser = seconds, allow_negative_numbers = true)]
    time: f64,
    /// Control port
    #[arg(long, default_value_t = PORT)]
    port: u16,
}

/// Where.
#[derive(Args)]
pub(crate) struct Serve {
    /// Control port
    #[arg(long, default_value_t = PORT)]
    port: u16,
    /// End after one master
    #[arg(long)]
    once: bool,
}

impl To {
    /// The same in uperf's letters.
    pub(crate) fn words(&self) -> Vec<String> {
        let profile = if self.reverse { "str-readx30k" } else { "str-writex30k" };
        let variables = [
            format!("h={}", self.host),
            format!("nprocs={}", self.parallel),
            format!("duration={}ms", (self.time * 1e3).round()),
        ];
        let fixed = ["smc_bench".into(), "-m".into(), profile.into(), "-P".into(), self.port.to_string()];
        fixed
            .into_iter()
            .chain(variables.into_iter().flat_map(|variable| ["--var".into(), variable]))
            .collect()
    }
}

impl Serve {
    /// The same in uperf's letters.
    pub(crate) fn words(&self) -> Vec<String> {
        let fixed = ["smc_bench".into(), "-s".into(), "-P".into(), self.port.to_string()];
        fixed.into_iter().chain(self.once.then(|| "--once".into())).collect()
    }
}
