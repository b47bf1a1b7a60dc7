//! The messages of a run: the master's commands and the slave's goodbye.

use super::fields::{Order, Reader, Writer, before_nul};
use super::{Malformed, Message};

/// How long either magic is: the first bytes of a message tell which one it is.
pub(crate) const MAGIC_SIZE: usize = 64;
/// common.h, UPERF_COMMAND_MAGIC.
const COMMAND_MAGIC: &str = "uperf_command";
/// goodbye.h, GOODBYE_MAGIC.
const GOODBYE_MAGIC: &str = "So Long, and Thanks for All the Fish";
/// goodbye.h, GOODBYE_MESSAGE_LEN.
const MESSAGE: usize = 512;

/// What the master wants; from a slave of ours to a master of ours: what it has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Begin transaction `.0`, from 0.
    NextTransaction(u32),
    /// Stop at once.
    Abort,
    /// All is done: say goodbye. A master of ours tells which transaction was the measured one; uperf says 0.
    SendStats(u32),
    /// Something went wrong. Nobody sends it.
    Error,
}

impl Command {
    fn number(self) -> (u32, u32) {
        match self {
            Self::NextTransaction(transaction) => (0, transaction),
            Self::Abort => (1, 0),
            Self::SendStats(measured) => (2, measured),
            Self::Error => (3, 0),
        }
    }
}

impl Message for Command {
    const SIZE: usize = 72;

    fn decode(bytes: &[u8], order: Order) -> Result<Self, Malformed> {
        let mut fields = Reader::new(bytes, order);
        if before_nul(fields.bytes(MAGIC_SIZE)) != COMMAND_MAGIC.as_bytes() {
            return Err(Malformed("what should be a command is none"));
        }
        match (fields.u32(), fields.u32()) {
            (0, transaction) => Ok(Self::NextTransaction(transaction)),
            (1, _) => Ok(Self::Abort),
            (2, measured) => Ok(Self::SendStats(measured)),
            (3, _) => Ok(Self::Error),
            _ => Err(Malformed("a command that uperf does not have")),
        }
    }

    fn encode(&self, order: Order) -> Vec<u8> {
        let mut fields = Writer::new(order);
        let (command, value) = self.number();
        fields.text(COMMAND_MAGIC, MAGIC_SIZE);
        fields.u32(command);
        fields.u32(value);
        fields.finish()
    }
}

/// How the run was for the slave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It says why.
    Error,
    /// It says what was not as ordered.
    Warning,
    /// All went well.
    Info,
    /// Nothing to say.
    Silent,
}

/// The slave's last message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Goodbye {
    /// How it was.
    pub(crate) verdict: Verdict,
    /// From the end of the handshake to the end of the last strand.
    pub(crate) elapsed_ns: u64,
    /// Errors; uperf always says 0.
    pub(crate) errors: u64,
    /// Read and written, all strands.
    pub(crate) bytes: u64,
    /// Flowops executed.
    pub(crate) operations: u64,
    /// Up to the field's first NUL: for people.
    pub(crate) message: String,
    /// After that NUL, up to the next one: from a slave of ours to a master of ours, JSON. uperf never looks there.
    pub(crate) detail: String,
}

impl Message for Goodbye {
    const SIZE: usize = 616;

    fn decode(bytes: &[u8], order: Order) -> Result<Self, Malformed> {
        let mut fields = Reader::new(bytes, order);
        if before_nul(fields.bytes(MAGIC_SIZE)) != GOODBYE_MAGIC.as_bytes() {
            return Err(Malformed("what should be a goodbye is none"));
        }
        let verdict = match fields.u64() {
            0xaa => Verdict::Error,
            0xbb => Verdict::Warning,
            0xcc => Verdict::Info,
            _ => Verdict::Silent,
        };
        let (elapsed_ns, errors, bytes, operations) =
            (fields.u64(), fields.u64(), fields.u64(), fields.u64());
        let mut texts = fields.bytes(MESSAGE).split(|&byte| byte == 0);
        let mut text = || String::from_utf8_lossy(texts.next().unwrap_or_default()).into_owned();
        Ok(Self { verdict, elapsed_ns, errors, bytes, operations, message: text(), detail: text() })
    }

    fn encode(&self, order: Order) -> Vec<u8> {
        let mut fields = Writer::new(order);
        fields.text(GOODBYE_MAGIC, MAGIC_SIZE);
        fields.u64(match self.verdict {
            Verdict::Error => 0xaa,
            Verdict::Warning => 0xbb,
            Verdict::Info => 0xcc,
            Verdict::Silent => 0xdd,
        });
        for value in [self.elapsed_ns, self.errors, self.bytes, self.operations] {
            fields.u64(value);
        }
        let texts = [self.message.as_bytes(), &[0], self.detail.as_bytes()].concat();
        fields.field(&texts, MESSAGE);
        fields.finish()
    }
}

/// Whatever a slave sends during a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FromSlave {
    /// An echo: it has begun this transaction. Only between two ends of ours.
    Command(Command),
    /// It ends.
    Goodbye(Goodbye),
}

impl FromSlave {
    /// How many bytes the message has that begins with `magic`.
    pub(crate) fn size(magic: &[u8]) -> Result<usize, Malformed> {
        match before_nul(magic) {
            command if command == COMMAND_MAGIC.as_bytes() => Ok(Command::SIZE),
            goodbye if goodbye == GOODBYE_MAGIC.as_bytes() => Ok(Goodbye::SIZE),
            _ => Err(Malformed("a message that no uperf slave sends")),
        }
    }

    /// The message in `bytes`, of the size that [`FromSlave::size`] said.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        if bytes.len() == Command::SIZE {
            return Command::decode(bytes, Order::Native).map(Self::Command);
        }
        Goodbye::decode(bytes, Order::Native).map(Self::Goodbye)
    }
}
