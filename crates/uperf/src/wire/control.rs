//! The messages of a run: the master's commands and the slave's goodbye.

use super::fields::{Fields, Order, before_nul};
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Command {
    /// Begin transaction `.0`, from 0.
    NextTransaction(u32),
    /// Stop at once.
    Abort,
    /// All is done: say goodbye. A master of ours tells which transaction was the measured one; uperf says 0.
    SendStats(u32),
    /// Something went wrong. Nobody sends it.
    #[default]
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

    fn visit(&mut self, fields: &mut Fields<'_>) -> Result<(), Malformed> {
        if !fields.is(COMMAND_MAGIC, MAGIC_SIZE) {
            return Err(Malformed("what should be a command is none"));
        }
        let (mut command, mut value) = self.number();
        fields.u32(&mut command);
        fields.u32(&mut value);
        *self = match command {
            0 => Self::NextTransaction(value),
            1 => Self::Abort,
            2 => Self::SendStats(value),
            3 => Self::Error,
            _ => return Err(Malformed("a command that uperf does not have")),
        };
        Ok(())
    }
}

/// How the run was for the slave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It says why.
    Error = 0xaa,
    /// It says what was not as ordered.
    Warning = 0xbb,
    /// All went well.
    Info = 0xcc,
    /// Nothing to say.
    #[default]
    Silent = 0xdd,
}

/// The slave's last message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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

    fn visit(&mut self, fields: &mut Fields<'_>) -> Result<(), Malformed> {
        if !fields.is(GOODBYE_MAGIC, MAGIC_SIZE) {
            return Err(Malformed("what should be a goodbye is none"));
        }
        let mut verdict = self.verdict as u64;
        fields.u64(&mut verdict);
        let known = [Verdict::Error, Verdict::Warning, Verdict::Info];
        self.verdict = known.into_iter().find(|one| *one as u64 == verdict).unwrap_or_default();
        let numbers = [&mut self.elapsed_ns, &mut self.errors, &mut self.bytes, &mut self.operations];
        numbers.into_iter().for_each(|value| fields.u64(value));
        let texts = [self.message.as_bytes(), &[0], self.detail.as_bytes()].concat();
        let texts = fields.field(texts, MESSAGE);
        let mut texts = texts.split(|&byte| byte == 0);
        let mut text = || String::from_utf8_lossy(texts.next().unwrap_or_default()).into_owned();
        (self.message, self.detail) = (text(), text());
        Ok(())
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
