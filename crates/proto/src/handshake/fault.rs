//! Everything that can go wrong in a handshake, and the one table that says with which code it is answered.

use wire::Reason;
use wire::clc::Decline;

use super::VERSION;

/// What went wrong. Every variant has one row in `TABLE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The bytes are no CLC message.
    Malformed,
    /// A valid message, but not the one that was due.
    UnexpectedMessage,
    /// ACCEPT or CONFIRM speaks a version that was not offered.
    VersionNotOffered,
    /// ACCEPT or CONFIRM chose SMC-R or version 1 of SMC-D, which were not offered.
    ModeNotOffered,
    /// The chosen device reaches none of ours.
    DeviceNotOffered,
    /// The chosen EID is not ours.
    EidNotOffered,
    /// The release is higher than offered, or CONFIRM repeats another one than ACCEPT.
    ReleaseMismatch,
    /// The buffer is larger than SMC-D allows.
    BufferTooLarge,
    /// One end knows a link group the other does not.
    LinkGroupMismatch,
    /// The peer's token names no memory we can reach.
    UnknownToken,
    /// PROPOSAL offers no version 2.
    NoVersion2,
    /// PROPOSAL offers version 2 without its extension.
    NoV2Extension,
    /// PROPOSAL offers no SMC-D (version 2 of SMC-R only).
    NoSmcD,
    /// PROPOSAL offers SMC-Dv2 without its extension.
    NoSmcDv2Extension,
    /// PROPOSAL has neither a user EID nor a system EID.
    NoEid,
    /// None of the peer's EIDs is ours.
    NoCommonEid,
    /// None of the peer's devices reaches one of ours.
    NoCommonDevice,
    /// This end has no ISM device.
    NoDevice,
    /// This end could not get memory.
    OutOfMemory,
    /// This end has no free buffer left by policy or quota.
    BufferLimit,
    /// No message within `CLC_WAIT_MS`.
    Timeout,
    /// The carrier or the TCP connection is gone.
    Lost,
    /// The peer sent DECLINE.
    PeerDeclined,
    /// The caller used a machine out of order. Never caused by a peer.
    Misuse,
}

/// Who is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Bytes that mean nothing.
    Malformed,
    /// A peer that breaks the protocol.
    PeerMisbehaved,
    /// A peer that is right, but different.
    PeerIncompatible,
    /// Circumstances: memory, time, the network.
    Circumstance,
    /// Our caller.
    ApiMisuse,
}

/// How a fault is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Send DECLINE.
    Decline,
    /// Send DECLINE with the out-of-sync bit: the peer must end the link group.
    DeclineOutOfSync,
    /// Send nothing.
    Silence,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The fault.
    pub fault: Fault,
    /// Who is to blame.
    pub class: Class,
    /// Code in DECLINE and in the Mode column of smcss.
    pub reason: Reason,
    /// What to send.
    pub answer: Answer,
    /// Whether a carrier inside the TCP stream no longer knows where the application's bytes begin. Linux
    /// then fails the connection; with the mailbox carrier every fault ends in TCP.
    pub is_stream_lost: bool,
}

macro_rules! table {
    ($($fault:ident $class:ident $reason:ident $answer:ident $lost:literal)*) => {
        /// Every fault, in the order of the enum. Codes as in `net/smc/af_smc.c` where Linux has one.
        pub const TABLE: &[Row] = &[$(Row {
            fault: Fault::$fault,
            class: Class::$class,
            reason: Reason::$reason,
            answer: Answer::$answer,
            is_stream_lost: $lost,
        },)*];
    };
}

table! {
    Malformed          Malformed        SYNCERR     Decline          true
    UnexpectedMessage  PeerMisbehaved   SYNCERR     Decline          true
    VersionNotOffered  PeerMisbehaved   VERSMISMAT  Decline          false
    ModeNotOffered     PeerMisbehaved   MODEUNSUPP  Decline          false
    DeviceNotOffered   PeerMisbehaved   NOSMCD2DEV  Decline          false
    EidNotOffered      PeerMisbehaved   NOUEID      Decline          false
    ReleaseMismatch    PeerMisbehaved   RELEASEERR  Decline          false
    BufferTooLarge     PeerMisbehaved   CNFERR      Decline          false
    LinkGroupMismatch  PeerMisbehaved   SYNCERR     DeclineOutOfSync false
    UnknownToken       PeerMisbehaved   CNFERR      Decline          false
    NoVersion2         PeerIncompatible VERSMISMAT  Decline          false
    NoV2Extension      PeerIncompatible NOV2EXT     Decline          false
    NoSmcD             PeerIncompatible MODEUNSUPP  Decline          false
    NoSmcDv2Extension  PeerIncompatible NOV2DEXT    Decline          false
    NoEid              PeerIncompatible NOUEID      Decline          false
    NoCommonEid        PeerIncompatible NOUEID      Decline          false
    NoCommonDevice     PeerIncompatible NOSMCD2DEV  Decline          false
    NoDevice           Circumstance     NOSMCDEV    Decline          false
    OutOfMemory        Circumstance     MEM         Decline          false
    BufferLimit        Circumstance     MAX_DMB     Decline          false
    Timeout            Circumstance     PEERNOSMC   Silence          true
    Lost               Circumstance     PEERNOSMC   Silence          true
    PeerDeclined       PeerIncompatible PEERDECL    Silence          false
    Misuse             ApiMisuse        INTERR      Silence          false
}

impl Fault {
    /// This fault's row.
    pub fn row(self) -> &'static Row {
        // Rows stand in the order of the enum, which a test checks; the fallback is the last row, a fault of
        // our own.
        TABLE.get(self as usize).unwrap_or(&TABLE[TABLE.len() - 1])
    }

    /// The refusal this fault leads to.
    pub fn refuse(self) -> Refusal {
        let row = self.row();
        let out_of_sync = row.answer == Answer::DeclineOutOfSync;
        let decline = Decline { out_of_sync, ..Decline::new(VERSION, row.reason) };
        let decline = (row.answer != Answer::Silence).then_some(decline);
        Refusal { fault: self, decline, peer_reason: None, peer_out_of_sync: false, malformed: None }
    }
}

/// The end of a handshake that did not succeed: the connection is TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub fault: Fault,
    /// What to send, if anything.
    pub decline: Option<Decline>,
    /// The peer's code, if the peer refused: the second number of smcss.
    pub peer_reason: Option<Reason>,
    /// The peer asks to end the link group.
    pub peer_out_of_sync: bool,
    /// What was wrong with the bytes, if they were no message.
    pub malformed: Option<wire::Error>,
}

impl Refusal {
    /// Our code: the first number of smcss.
    pub fn reason(&self) -> Reason {
        self.fault.row().reason
    }

    pub(super) fn malformed(cause: wire::Error) -> Self {
        Self { malformed: Some(cause), ..Fault::Malformed.refuse() }
    }

    pub(super) fn declined(decline: &Decline) -> Self {
        let peer_reason = Some(decline.diagnosis);
        Self { peer_reason, peer_out_of_sync: decline.out_of_sync, ..Fault::PeerDeclined.refuse() }
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        fault.refuse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_the_order_of_the_enum() {
        for (at, row) in TABLE.iter().enumerate() {
            assert_eq!(row.fault as usize, at);
            assert_eq!(row.fault.row().fault, row.fault);
        }
        assert_eq!(TABLE.len(), Fault::Misuse as usize + 1);
    }

    #[test]
    fn a_decline_carries_the_code_of_its_row() {
        for row in TABLE {
            let refusal = row.fault.refuse();
            assert_eq!(refusal.reason(), row.reason);
            assert_eq!(refusal.decline.is_none(), row.answer == Answer::Silence);
            let Some(decline) = refusal.decline else { continue };
            assert_eq!(decline.diagnosis, row.reason);
            assert_eq!(decline.out_of_sync, row.answer == Answer::DeclineOutOfSync);
        }
    }
}
