//! Every bound of the wire formats, with its source and what happens beyond it.

/// User EIDs in a PROPOSAL. IBM SMC Version 2 and `net/smc/smc_clc.h`; more is `Error::TooMany`.
/// (A Linux 6.12 table holds only 4; the wire format allows 8.)
pub const USER_EIDS: usize = 8;

/// GID/CHID entries of ISM devices in a PROPOSAL (an emulated device takes two). Same sources.
pub const ISM_GIDS: usize = 8;

/// IPv6 prefixes in the IP area of a PROPOSAL. `net/smc/smc_clc.h`; a host with more sends the first eight.
pub const IPV6_PREFIXES: usize = 8;

/// RoCE GIDs in a CONFIRM of SMC-Rv2. `net/smc/smc_llc.h` keeps eight per link group.
pub const ROCE_GIDS: usize = 8;

/// Length of an EID and of the host name, both padded with blanks.
pub const NAME: usize = 32;

/// Longest CLC message: a PROPOSAL with every section and every list full.
pub const MESSAGE_MAX: usize =
    40 + 40 + 8 + IPV6_PREFIXES * 17 + 40 + USER_EIDS * NAME + 48 + ISM_GIDS * 10 + 4;

/// First CHID of emulated ISM devices (SMC v2.1): from here on a GID has 128 bits and takes two entries.
pub const EMULATED_CHID_FIRST: u16 = 0xFF00;

/// CHID of loopback-ism, the emulated device that reaches one kernel only.
pub const LOOPBACK_CHID: u16 = 0xFFFF;

/// Smallest buffer, class 0 (`net/smc/smc_core.c`).
pub const BUFFER_MIN: u32 = 16 * 1024;

/// Largest class of an SMC-D buffer: 1 MiB (`net/smc/smc_core.c`).
pub const SMCD_CLASS_MAX: u8 = 6;
