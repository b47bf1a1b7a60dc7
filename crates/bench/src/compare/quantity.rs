//! Numbers that no cell gives: one table of them, and what was measured of each in rounds of its own.
//!
//! Nothing in here measures. The invariant: the two numbers of a pair were measured one right after the other.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::app::Name;
use crate::compare::quiet::Interference;
use uperf::result::Connections;

/// What is measured besides cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Quantity {
    /// Connect, request, close, where only the client's end is under smc_run.
    PlainPeer,
    /// Reads and writes on a pipe in a preloaded program.
    Pipe,
    /// The same on a file.
    File,
    /// CPU time of connections that do nothing.
    IdleCpu,
    /// Their memory.
    IdleMemory,
    /// redis-benchmark's SET.
    RedisSet,
    /// Its GET.
    RedisGet,
    /// wrk with a small file.
    Nginx,
    /// pgbench, reading only.
    Postgres,
    /// Ten reads for each write.
    Memcached,
}

/// What measures quantities; each has a session of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    /// Cells of short connections to a plain peer, and of plain TCP.
    PlainPeer,
    /// Calls on descriptors that are none of SMC's business.
    Descriptors,
    /// Connections that do nothing.
    Idle,
    /// A real server and its load generator.
    App(Name),
}

/// What a quantity is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Our rate through the other one.
    Times,
    /// Of one core's time, 0 to 100 and more.
    PercentOfCore,
    /// Bytes.
    Bytes,
}

impl Unit {
    /// In words.
    pub(crate) fn name(self) -> &'static str {
        ["times", "% of a core", "bytes"][self as usize]
    }
}

/// How a quantity is called and measured.
pub(crate) struct About {
    /// Which one.
    pub(crate) quantity: Quantity,
    /// For people.
    pub(crate) title: &'static str,
    /// What it is measured against; empty for what stands by itself.
    pub(crate) against: &'static str,
    /// Of its values.
    pub(crate) unit: Unit,
    /// Who measures it.
    pub(crate) probe: Probe,
}

const LOOPBACK: &str = "tcp-loopback";
const PLAIN: &str = "no library";

const fn times(quantity: Quantity, title: &'static str, against: &'static str, probe: Probe) -> About {
    About { quantity, title, against, unit: Unit::Times, probe }
}

const fn served(quantity: Quantity, name: Name, title: &'static str) -> About {
    times(quantity, title, LOOPBACK, Probe::App(name))
}

const fn idle(quantity: Quantity, unit: Unit, title: &'static str) -> About {
    About { quantity, title, against: "", unit, probe: Probe::Idle }
}

/// Every quantity, in the order of [`Quantity`].
pub(crate) const ALL: [About; 10] = [
    times(
        Quantity::PlainPeer,
        "crr-200x1000, 1 connection, plain server: transactions per second",
        LOOPBACK,
        Probe::PlainPeer,
    ),
    times(Quantity::Pipe, "read, write on a pipe: calls per second", PLAIN, Probe::Descriptors),
    times(Quantity::File, "read, write on a file: calls per second", PLAIN, Probe::Descriptors),
    idle(Quantity::IdleCpu, Unit::PercentOfCore, "1000 idle connections: CPU"),
    idle(Quantity::IdleMemory, Unit::Bytes, "1000 idle connections: memory of each"),
    served(Quantity::RedisSet, Name::Redis, "redis SET, 50 connections: requests per second"),
    served(Quantity::RedisGet, Name::Redis, "redis GET, 50 connections: requests per second"),
    served(Quantity::Nginx, Name::Nginx, "nginx 512 bytes, 100 connections: requests per second"),
    served(Quantity::Postgres, Name::Postgres, "pgbench -S, 10 connections: transactions per second"),
    served(Quantity::Memcached, Name::Memcached, "memcached, 50 connections: requests per second"),
];

impl About {
    /// The title without what is counted.
    pub(crate) fn subject(&self) -> &'static str {
        self.title.split(':').next().unwrap_or(self.title)
    }
}

impl Quantity {
    /// Its row of the table.
    pub(crate) fn about(self) -> &'static About {
        &ALL[self as usize]
    }

    /// Whether the connections over SMC shall be SMC-D.
    pub(crate) fn wants_smc(self) -> bool {
        self != Quantity::PlainPeer
    }
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Probe::PlainPeer => f.pad("connections to a plain server"),
            Probe::Descriptors => f.pad("pipes and files"),
            Probe::Idle => f.pad("idle connections"),
            Probe::App(name) => f.pad(&uperf::named(*name)),
        }
    }
}

impl Probe {
    /// What it measures.
    pub(crate) fn quantities(self) -> impl Iterator<Item = Quantity> {
        ALL.iter().filter(move |about| about.probe == self).map(|about| about.quantity)
    }
}

/// A number, and what it is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pair {
    /// Ours.
    pub(crate) ours: f64,
    /// The other's; None of what stands by itself.
    pub(crate) theirs: Option<f64>,
}

impl Pair {
    /// In the quantity's [`Unit`].
    pub(crate) fn value(self) -> f64 {
        self.theirs.map_or(self.ours, |theirs| self.ours / theirs)
    }
}

/// What a round gave of one quantity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Take {
    /// Of what.
    pub(crate) quantity: Quantity,
    /// From 0.
    pub(crate) round: u16,
    /// What others did before and during it; None where nobody could tell.
    pub(crate) interference: Option<Interference>,
    /// At least one.
    pub(crate) pairs: Vec<Pair>,
    /// What our connections ran over; None where there are none, where nobody could tell, and where another quantity of the
    /// same round has them.
    pub(crate) connections: Option<Connections>,
}

impl Take {
    /// Of a round that nobody has numbered yet.
    pub(crate) fn new(quantity: Quantity, pairs: Vec<Pair>, connections: Option<Connections>) -> Self {
        Self { quantity, round: 0, interference: None, pairs, connections }
    }
}

/// A quantity that was not measured, or not in all rounds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lack {
    /// Which one.
    pub(crate) quantity: Quantity,
    /// Why, in one sentence.
    pub(crate) reason: String,
    /// Whether the reason is a program of somebody else's that is not installed here, which is no failure.
    pub(crate) is_absent: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_enum() {
        for (place, about) in ALL.iter().enumerate() {
            assert_eq!(about.quantity as usize, place, "{}", about.title);
            assert_eq!(about.against.is_empty(), about.unit != Unit::Times, "{}", about.title);
        }
    }

    #[test]
    fn a_pair_is_a_ratio_and_a_number_alone_is_itself() {
        assert_eq!(Pair { ours: 3.0, theirs: Some(2.0) }.value(), 1.5);
        assert_eq!(Pair { ours: 3.0, theirs: None }.value(), 3.0);
    }
}
