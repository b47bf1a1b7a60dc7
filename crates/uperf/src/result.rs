//! What one run of one profile over one path came to: the value that all other parts hand on.
//!
//! The master fills in what it counted, the slave its CPU, the executor what smcss and the kernel said.
//! Nothing in here measures and nothing prints. In JSON by `--json`; nanoseconds and bytes.

use std::collections::BTreeMap;
use std::iter::Sum;
use std::ops::{Add, Sub};

use hdrhistogram::Histogram;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use serde::{Deserialize, Serialize};

/// One run. All numbers but `connections` and `errors` are of the measured transaction only: the one that is
/// named `measured`, or else the one that moved the most operations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The profile's name.
    pub profile: String,
    /// Strands of the master (uperf's word: a process or thread with its own connections).
    pub strands: u32,
    /// From the first strand's start to the last one's end.
    pub elapsed_ns: u64,
    /// Flowops executed by the master: uperf's operations.
    pub operations: u64,
    /// Passes through the transaction's flowops; where a flowop has `count=N`, one pass has N of them.
    pub transactions: u64,
    /// Bytes that the master wrote.
    pub bytes_sent: u64,
    /// Bytes that the master read.
    pub bytes_received: u64,
    /// Whether each group moved bytes one way only, be it another way than the next group.
    #[serde(default)]
    pub one_way: bool,
    /// How long a pass took.
    pub latency: Latency,
    /// The master's strands; None where it is a program that does not tell.
    #[serde(default)]
    pub client: Option<Usage>,
    /// The slave's strands; None where the slave could not tell (a foreign uperf).
    pub server: Option<Usage>,
    /// All of the host; None where the kernel does not tell.
    pub host: Option<HostUsage>,
    /// What the data connections ran over; None where nobody could tell.
    pub connections: Option<Connections>,
    /// Errors that a `canfail` let pass.
    pub errors: u64,
}

impl Run {
    /// Bits moved, both directions.
    pub fn bits(&self) -> f64 {
        (self.bytes_sent + self.bytes_received) as f64 * 8.0
    }

    /// Whether gigabits tell of it, and not transactions. (Of what was saved before there was `one_way`, bytes do.)
    pub fn is_stream(&self) -> bool {
        (self.one_way || self.bytes_sent == 0 || self.bytes_received == 0) && self.bits() > 0.0
    }
}

/// A histogram in its sparse form. Coordinated omission: strands are closed loops, so a stall delays the
/// passes behind it instead of being counted for each; with `rate=` the planned start counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    /// (nanoseconds, passes that took so long), ascending, to three significant digits.
    pub counts_ns: Vec<(u64, u64)>,
    /// (thousandths of all passes, nanoseconds that these took at most), where no more is told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub told_ns: Vec<(u16, u64)>,
}

/// For nanoseconds of up to an hour, to three significant digits; recording never allocates.
pub fn histogram() -> Histogram<u64> {
    // The library accepts these bounds, which are constants.
    Histogram::new_with_bounds(1, 3_600_000_000_000, 3).unwrap_or_else(|_| unreachable!("they are in range"))
}

impl From<&Histogram<u64>> for Latency {
    fn from(histogram: &Histogram<u64>) -> Self {
        let counts = histogram.iter_recorded().map(|one| (one.value_iterated_to(), one.count_at_value()));
        Self { counts_ns: counts.collect(), told_ns: vec![] }
    }
}

/// What a group of processes or threads used during the measured transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// On a CPU, user and system.
    pub cpu_ns: u64,
    /// Of that, in the kernel.
    pub system_ns: u64,
    /// Switches because it waited: getrusage(2), ru_nvcsw.
    pub voluntary_switches: u64,
    /// Switches because somebody else had to run: ru_nivcsw.
    pub involuntary_switches: u64,
}

impl Usage {
    /// Since the process or thread began: getrusage(2). Zeros if that fails, which it cannot for ourselves.
    pub fn now(who: UsageWho) -> Self {
        let Ok(usage) = getrusage(who) else { return Self::default() };
        let count = |value: i64| u64::try_from(value).unwrap_or(0);
        let ns = |time: TimeVal| count(time.tv_sec()) * 1_000_000_000 + count(time.tv_usec()) * 1000;
        Self {
            cpu_ns: ns(usage.user_time()) + ns(usage.system_time()),
            system_ns: ns(usage.system_time()),
            voluntary_switches: count(usage.voluntary_context_switches()),
            involuntary_switches: count(usage.involuntary_context_switches()),
        }
    }

    fn with(self, other: Self, both: fn(u64, u64) -> u64) -> Self {
        Self {
            cpu_ns: both(self.cpu_ns, other.cpu_ns),
            system_ns: both(self.system_ns, other.system_ns),
            voluntary_switches: both(self.voluntary_switches, other.voluntary_switches),
            involuntary_switches: both(self.involuntary_switches, other.involuntary_switches),
        }
    }
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }
}

impl Sub for Usage {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        self.with(earlier, u64::saturating_sub)
    }
}

impl Sum for Usage {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

/// /proc/stat over the measured transaction, all CPUs added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostUsage {
    /// User, nice, system, irq, softirq and steal.
    pub busy_ns: u64,
    /// Idle and waiting for I/O.
    pub idle_ns: u64,
}

/// What the data connections ran over. The control connection is never in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connections {
    /// Data connections open at the end of the measured transaction; or made, if each lives for a pass.
    pub total: u32,
    /// Through memory of this host.
    pub smcd: u32,
    /// Through RDMA.
    pub smcr: u32,
    /// Fallback codes, as smcss prints them, or the names in `smcd stats`, and how many had each.
    pub fallback: BTreeMap<String, u32>,
}

impl Connections {
    /// Takes the connections of another run to these.
    pub fn add(&mut self, other: &Self) {
        self.total = self.total.saturating_add(other.total);
        self.smcd = self.smcd.saturating_add(other.smcd);
        self.smcr = self.smcr.saturating_add(other.smcr);
        for (code, count) in &other.fallback {
            *self.fallback.entry(code.clone()).or_default() += count;
        }
    }

    /// Those that stayed on TCP or AF_UNIX.
    pub fn plain(&self) -> u32 {
        self.total.saturating_sub(self.smcd + self.smcr)
    }
}
