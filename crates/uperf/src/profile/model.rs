//! A profile as plain values: groups of strands, each of which runs the same transactions, each a list of flowops.
//!
//! Nothing here reads text or opens sockets. The invariant: a value made by the parser is complete and in range, so
//! whoever runs it asks no more questions about numbers, and both ends derive the other's part by [`Group::opposite`].

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::options::{Options, Size};
use crate::named;

/// Bytes that the peer of a sendfile flowop takes per read at most: it cannot know how long the file is.
const SENDFILE_READ: u32 = 64 * 1024;

/// A whole profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Profile {
    /// From `<profile name=>`; empty if it has none.
    pub(crate) name: String,
    /// At least one; they run at the same time.
    pub(crate) groups: Vec<Group>,
}

impl Profile {
    /// Whether connections come and go: one that a transaction opens it closes, too, so it lives for a pass.
    pub(crate) fn reconnects(&self) -> bool {
        let mut transactions = self.groups.iter().flat_map(|group| &group.transactions);
        transactions.any(|one| {
            let has = |wanted: fn(FlowopKind) -> bool| one.flowops.iter().any(|flowop| wanted(flowop.kind));
            has(FlowopKind::opens) && has(|kind| kind == FlowopKind::Disconnect)
        })
    }
}

/// Strands that do the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Group {
    /// From `name=`, or `Group<index>`.
    pub(crate) name: String,
    /// How many run the transactions, each with connections of its own; at least one.
    pub(crate) strands: u32,
    /// What a strand of the master is.
    pub(crate) kind: StrandKind,
    /// Run one after the other; all strands of the group begin one together.
    pub(crate) transactions: Vec<Transaction>,
}

/// What a strand of the master is. uperf's slave has threads always.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StrandKind {
    /// `nthreads=`: threads of one process.
    Threads,
    /// `nprocs=`: processes.
    Processes,
}

/// Flowops that are repeated together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Transaction {
    /// From `name=` (our extension; uperf gives such a name to the group), or `Txn<index>`.
    pub(crate) name: String,
    /// When it ends.
    pub(crate) until: Until,
    /// Repetitions per second and strand at most. As in uperf, it means nothing without a duration.
    pub(crate) rate: Option<NonZeroU32>,
    /// In this order; none only in a transaction with iterations.
    pub(crate) flowops: Vec<Flowop>,
}

/// When a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Until {
    /// After so many repetitions, at least one.
    Iterations(u64),
    /// After so long; never zero.
    Duration(Duration),
}

/// One step of a transaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Flowop {
    /// What it does.
    pub(crate) kind: FlowopKind,
    /// How.
    pub(crate) options: Options,
    /// Where it stands in the profile, for errors at run time.
    pub(crate) place: Place,
}

/// A line and a column of a profile, both from 1; a column counts characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Place {
    /// From 1.
    pub(crate) line: u32,
    /// From 1, in characters.
    pub(crate) column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// What a flowop does, seen from the end that runs it; in the order of uperf's numbers (flowops.h, FLOWOP_*), from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FlowopKind {
    /// read(2) until the size has come.
    Read,
    /// write(2) until the size has gone.
    Write,
    /// Open a connection to the slave.
    Connect,
    /// Close it.
    Disconnect,
    /// Take a connection that the slave opens.
    Accept,
    /// Nothing.
    Nop,
    /// Sleep, or spin.
    Think,
    /// send(2) until the size has gone.
    Send,
    /// recv(2) until the size has come.
    Recv,
    /// sendfile(2) of several files.
    Sendfilev,
    /// sendfile(2) of one file.
    Sendfile,
}

impl FlowopKind {
    /// What the slave does meanwhile.
    pub(crate) fn opposite(self) -> Self {
        match self {
            Self::Read => Self::Write,
            Self::Write | Self::Sendfile | Self::Sendfilev => Self::Read,
            Self::Connect => Self::Accept,
            Self::Accept => Self::Connect,
            Self::Send => Self::Recv,
            Self::Recv => Self::Send,
            Self::Disconnect | Self::Nop | Self::Think => self,
        }
    }

    /// Whether bytes go over a connection, so that one must be open.
    pub(crate) fn moves_bytes(self) -> bool {
        matches!(self, Self::Read | Self::Write | Self::Send | Self::Recv) || self.sends_files()
    }

    /// Whether it takes its bytes from files.
    pub(crate) fn sends_files(self) -> bool {
        matches!(self, Self::Sendfile | Self::Sendfilev)
    }

    /// Whether it makes a connection.
    pub(crate) fn opens(self) -> bool {
        matches!(self, Self::Connect | Self::Accept)
    }
}

impl fmt::Display for FlowopKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&named(*self))
    }
}

impl Group {
    /// The slave's part of this group.
    pub(crate) fn opposite(&self) -> Self {
        let transactions = self.transactions.iter().map(Transaction::opposite).collect();
        Self { transactions, ..self.clone() }
    }
}

impl Transaction {
    fn opposite(&self) -> Self {
        let endless = matches!(self.until, Until::Duration(_)) && self.flowops.len() == 1;
        let flowops = self.flowops.iter().map(|flowop| flowop.opposite(endless)).collect();
        Self { flowops, ..self.clone() }
    }
}

impl Flowop {
    /// `endless`: nothing but this flowop follows itself, so its bytes have no boundary that the other end must keep.
    fn opposite(&self, endless: bool) -> Self {
        let mut options = self.options.clone();
        if self.kind.sends_files() {
            options.size = Some(Size::Random { min: 1, max: SENDFILE_READ });
        } else if let (Some(Size::Fixed(size)), Some(rsize)) = (options.size, options.rsize) {
            let bytes = u64::from(size) * options.count;
            if rsize > size && (endless || bytes.is_multiple_of(rsize.into())) {
                options.size = Some(Size::Fixed(rsize));
                options.count = (bytes / u64::from(rsize)).max(1);
            }
        }
        Self { kind: self.kind.opposite(), options, place: self.place }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(size: u32, rsize: u32, count: u64) -> Flowop {
        let options =
            Options { size: Some(Size::Fixed(size)), rsize: Some(rsize), count, ..Options::default() };
        Flowop { kind: FlowopKind::Write, options, place: Place { line: 1, column: 1 } }
    }

    fn transaction(until: Until, flowops: Vec<Flowop>) -> Transaction {
        Transaction { name: "Txn0".into(), until, rate: None, flowops }
    }

    fn slave_reads(transaction: &Transaction) -> (Option<Size>, u64) {
        let flowop = &transaction.opposite().flowops[0];
        assert_eq!(flowop.kind, FlowopKind::Read);
        (flowop.options.size, flowop.options.count)
    }

    #[test]
    fn opposites_of_opposites_move_the_same_bytes() {
        use FlowopKind::{Accept, Connect, Disconnect, Nop, Read, Recv, Send, Think, Write};
        for kind in [Read, Write, Connect, Accept, Send, Recv, Disconnect, Nop, Think] {
            assert_eq!(kind.opposite().opposite(), kind);
        }
        assert_eq!(FlowopKind::Sendfile.opposite(), Read);
        assert_eq!(FlowopKind::Sendfilev.opposite(), Read);
    }

    #[test]
    fn slave_reads_larger_pieces_where_they_fit_or_the_stream_is_endless() {
        let endless = Until::Duration(Duration::from_secs(1));
        for (until, count, size, reads) in [
            (Until::Iterations(4), 10, 16_384, 5),
            (Until::Iterations(4), 1, 8192, 1),
            (endless, 1, 16_384, 1),
        ] {
            let pieces = transaction(until, vec![write(8192, 16_384, count)]);
            assert_eq!(slave_reads(&pieces), (Some(Size::Fixed(size)), reads), "{until:?}");
        }
    }

    #[test]
    fn slave_takes_whatever_a_file_brings() {
        let mut flowop = write(512, 0, 1);
        flowop.kind = FlowopKind::Sendfile;
        let whole = transaction(Until::Iterations(1), vec![flowop]);
        assert_eq!(slave_reads(&whole).0, Some(Size::Random { min: 1, max: SENDFILE_READ }));
    }
}
