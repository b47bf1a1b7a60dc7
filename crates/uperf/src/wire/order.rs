//! A work order: one group, its transactions, and the flowops of each, as the slave is to do them.

use super::fields::{Order, Reader, Writer};
use super::{Malformed, Message};

/// The head of a work order.
#[derive(Clone, Debug, PartialEq, Eq)]
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
        let marker = Reader::new(bytes, Order::Native).u32();
        let order = Order::of_marker(marker).ok_or(Malformed("a work order without a byte order"))?;
        Ok((Self::decode(bytes, order)?, order))
    }
}

impl Message for GroupHead {
    const SIZE: usize = 24;

    fn decode(bytes: &[u8], order: Order) -> Result<Self, Malformed> {
        let mut fields = Reader::new(bytes, order);
        fields.skip(4);
        Ok(Self { strand_flags: fields.u32(), strands: fields.u32(), transactions: fields.u32() })
    }

    fn encode(&self, order: Order) -> Vec<u8> {
        let mut fields = Writer::new(order);
        fields.endian();
        fields.u32(self.strand_flags);
        fields.u32(self.strands);
        fields.u32(self.transactions);
        fields.zeros(8);
        fields.finish()
    }
}

/// The head of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
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

    fn decode(bytes: &[u8], order: Order) -> Result<Self, Malformed> {
        let mut fields = Reader::new(bytes, order);
        let (flowops, id) = (fields.u32(), fields.u32());
        fields.skip(8);
        let rate = fields.u32();
        fields.skip(4);
        let (iterations, duration_ns) = (fields.u64(), fields.u64());
        Ok(Self { flowops, id, rate, iterations, duration_ns, rate_text: fields.text(128) })
    }

    fn encode(&self, order: Order) -> Vec<u8> {
        let mut fields = Writer::new(order);
        fields.u32(self.flowops);
        fields.u32(self.id);
        fields.zeros(8);
        fields.u32(self.rate);
        fields.zeros(4);
        fields.u64(self.iterations);
        fields.u64(self.duration_ns);
        fields.text(&self.rate_text, 128);
        fields.finish()
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

    fn decode(bytes: &[u8], order: Order) -> Result<Self, Malformed> {
        let mut fields = Reader::new(bytes, order);
        let mut flowop = Self {
            size: fields.u32(),
            size_min: fields.u32(),
            size_max: fields.u32(),
            rsize: fields.u32(),
            protocol: fields.u32(),
            port: fields.u32(),
            flags: fields.u32(),
            nfiles: fields.u32(),
            duration_ns: fields.u64(),
            wndsz: fields.u64(),
            count: fields.u64(),
            repeat: fields.u64(),
            batch_size: fields.u64(),
            timeout_ns: fields.u64(),
            ..Self::default()
        };
        // UDP encapsulation, black box logging and SCTP.
        fields.skip(64);
        flowop.cc = fields.text(32);
        // The TCP stack, which only FreeBSD can choose.
        fields.skip(32);
        flowop.dir = fields.text(128);
        flowop.remotehost = fields.text(256);
        flowop.localhost = fields.text(256);
        // SSL.
        fields.skip(80);
        flowop.kind = fields.u32();
        flowop.conn = fields.u32();
        Ok(flowop)
    }

    fn encode(&self, order: Order) -> Vec<u8> {
        let mut fields = Writer::new(order);
        for value in [self.size, self.size_min, self.size_max, self.rsize, self.protocol, self.port] {
            fields.u32(value);
        }
        fields.u32(self.flags);
        fields.u32(self.nfiles);
        for value in [self.duration_ns, self.wndsz, self.count, self.repeat, self.batch_size] {
            fields.u64(value);
        }
        fields.u64(self.timeout_ns);
        fields.zeros(64);
        fields.text(&self.cc, 32);
        fields.zeros(32);
        fields.text(&self.dir, 128);
        fields.text(&self.remotehost, 256);
        fields.text(&self.localhost, 256);
        fields.zeros(80);
        fields.u32(self.kind);
        fields.u32(self.conn);
        fields.zeros(8);
        fields.finish()
    }
}
