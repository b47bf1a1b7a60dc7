//! A work order: one group, its transactions, and the flowops of each, as the slave is to do them.

use super::fields::{Fields, Order};
use super::{Malformed, Message};

/// The head of a work order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupHead {
    /// uperf.h, STRAND_TYPE_*: 2 processes, 4 threads, at the master.
    pub(crate) strand_flags: u32,
    /// How many strands.
    pub(crate) strands: u32,
    /// How many [`TransactionHead`] follow.
    pub(crate) transactions: u32,
}

impl GroupHead {
    /// A head and the byte order of everything that follows it.
    pub(crate) fn read(bytes: &[u8]) -> Result<(Self, Order), Malformed> {
        let order = Fields::taken(bytes, Order::Native).endian();
        let order = order.ok_or(Malformed("a work order without a byte order"))?;
        Ok((Self::decode(bytes, order)?, order))
    }
}

impl Message for GroupHead {
    const SIZE: usize = 24;

    fn visit(&mut self, fields: &mut Fields<'_>) -> Result<(), Malformed> {
        fields.endian();
        for value in [&mut self.strand_flags, &mut self.strands, &mut self.transactions] {
            fields.u32(value);
        }
        fields.gap(8);
        Ok(())
    }
}

/// The head of a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TransactionHead {
    /// How many [`RawFlowop`] follow.
    pub(crate) flowops: u32,
    /// From 0, within its group.
    pub(crate) id: u32,
    /// Repetitions per second and strand; 0 without a limit.
    pub(crate) rate: u32,
    /// Repetitions; without a meaning if there is a duration.
    pub(crate) iterations: u64,
    /// Nanoseconds; 0 if it has iterations.
    pub(crate) duration_ns: u64,
    /// `rate=` as it stands in the profile; nobody reads it.
    pub(crate) rate_text: String,
}

impl Message for TransactionHead {
    const SIZE: usize = 168;

    fn visit(&mut self, fields: &mut Fields<'_>) -> Result<(), Malformed> {
        fields.u32(&mut self.flowops);
        fields.u32(&mut self.id);
        fields.gap(8);
        fields.u32(&mut self.rate);
        fields.gap(4);
        fields.u64(&mut self.iterations);
        fields.u64(&mut self.duration_ns);
        fields.text(&mut self.rate_text, 128);
        Ok(())
    }
}

/// A flowop in uperf's own numbers. The options of protocols that nobody here has (SCTP, SSL) are not kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RawFlowop {
    /// Bytes; 0 if it is random or means nothing.
    pub(crate) size: u32,
    /// Smallest random size.
    pub(crate) size_min: u32,
    /// Largest random size.
    pub(crate) size_max: u32,
    /// The size for the slave, which has replaced `size` already if it counts.
    pub(crate) rsize: u32,
    /// protocol.h, PROTOCOL_*.
    pub(crate) protocol: u32,
    /// Port for data connections; 0 for one of each strand's own.
    pub(crate) port: u32,
    /// workorder.h, O_*.
    pub(crate) flags: u32,
    /// Files of a sendfilev.
    pub(crate) nfiles: u32,
    /// How long a think takes, in nanoseconds.
    pub(crate) duration_ns: u64,
    /// SO_SNDBUF and SO_RCVBUF; 0 for the kernel's.
    pub(crate) wndsz: u64,
    /// How often it is done each time.
    pub(crate) count: u64,
    /// System calls of one flowop.
    pub(crate) repeat: u64,
    /// Datagrams of one system call.
    pub(crate) batch_size: u64,
    /// How long a read may wait, in nanoseconds; 0 for ever.
    pub(crate) timeout_ns: u64,
    /// TCP_CONGESTION.
    pub(crate) cc: String,
    /// Folder of the files of sendfile.
    pub(crate) dir: String,
    /// Where a connect goes, or an accept comes from.
    pub(crate) remotehost: String,
    /// The other end's own address, if the profile names one.
    pub(crate) localhost: String,
    /// flowops.h, FLOWOP_*.
    pub(crate) kind: u32,
    /// `conn=`; 0 for the connection without a number.
    pub(crate) conn: u32,
}

impl Message for RawFlowop {
    const SIZE: usize = 944;

    fn visit(&mut self, fields: &mut Fields<'_>) -> Result<(), Malformed> {
        let sizes = [&mut self.size, &mut self.size_min, &mut self.size_max, &mut self.rsize];
        let numbers = [&mut self.protocol, &mut self.port, &mut self.flags, &mut self.nfiles];
        sizes.into_iter().chain(numbers).for_each(|value| fields.u32(value));
        let long = [&mut self.duration_ns, &mut self.wndsz, &mut self.count, &mut self.repeat];
        long.into_iter().for_each(|value| fields.u64(value));
        fields.u64(&mut self.batch_size);
        fields.u64(&mut self.timeout_ns);
        // UDP encapsulation, black box logging and SCTP.
        fields.gap(64);
        fields.text(&mut self.cc, 32);
        // The TCP stack, which only FreeBSD can choose.
        fields.gap(32);
        fields.text(&mut self.dir, 128);
        fields.text(&mut self.remotehost, 256);
        fields.text(&mut self.localhost, 256);
        // SSL.
        fields.gap(80);
        fields.u32(&mut self.kind);
        fields.u32(&mut self.conn);
        fields.gap(8);
        Ok(())
    }
}
