//! Decline and fallback codes: why a connection is TCP. Owns the one table of numbers, names and texts that
//! smcss, smcd stats and `smc_chk` print (smcss(8); symbols as in `net/smc/smc_clc.h`).

/// A reason code as it travels in DECLINE and appears in the Mode column of smcss. Unknown codes survive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reason(pub u32);

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The code.
    pub reason: Reason,
    /// Symbol without its prefix.
    pub symbol: &'static str,
    /// Name in `smcd stats` / `smcr stats`.
    pub stats_name: &'static str,
    /// Text of smcss(8), or ours where the manual page has none.
    pub text: &'static str,
}

macro_rules! reasons {
    ($($code:literal $symbol:ident $stats:literal $text:literal)*) => {
        impl Reason {
            $(#[doc = $text] pub const $symbol: Self = Self($code);)*
        }

        /// Every code known, in ascending order.
        pub const TABLE: &[Entry] = &[
            $(Entry { reason: Reason::$symbol, symbol: stringify!($symbol), stats_name: $stats, text: $text },)*
        ];
    };
}

reasons! {
    0x0101_0000 MEM "MEMORY" "Out of memory"
    0x0201_0000 TIMEOUT_CL "TIMEOUT_CL" "Timeout while waiting for confirm link message over RDMA device"
    0x0202_0000 TIMEOUT_AL "TIMEOUT_AL" "Timeout while waiting for RDMA device to be added"
    0x0300_0000 CNFERR "CNF_ERR" "Configuration error"
    0x0300_0001 OPERATOR "OPERATOR" "Taken off SMC by its operator"
    0x0300_0002 BRIEF "BRIEF" "Connections there are too brief to pay"
    0x0301_0000 PEERNOSMC "PEER_NO_SMC" "Peer does not support SMC"
    0x0302_0000 IPSEC "IPSEC" "Connection uses IPsec"
    0x0303_0000 NOSMCDEV "NOSMCDEV" "No SMC devices found (R and D)"
    0x0303_0001 NOSMCDDEV "NOSMCDDEV" "No ISM device for SMC-D found"
    0x0303_0002 NOSMCRDEV "NOSMCRDEV" "No RDMA device for SMC-R found"
    0x0303_0003 NOISM2SUPP "NOISM2SUPP" "Hardware has no ISMv2 support"
    0x0303_0004 NOV2EXT "NOV2EXT" "Peer sent no SMCv2 extension"
    0x0303_0005 NOV2DEXT "NOV2DEXT" "Peer sent no SMC-Dv2 extension"
    0x0303_0006 NOSEID "NOSEID" "Peer sent no ISMv2 SEID"
    0x0303_0007 NOSMCD2DEV "NOSMCD2DEV" "No SMC-Dv2 device found, but required"
    0x0303_0008 NOUEID "[unknown]" "Peer sent no UEID"
    0x0303_0009 RELEASEERR "[unknown]" "Release version negotiation failed"
    0x0303_000a MAXCONNERR "[unknown]" "Max connections negotiation failed"
    0x0303_000b MAXLINKERR "[unknown]" "Max links negotiation failed"
    0x0304_0000 MODEUNSUPP "MODEUNSUPP" "SMC modes mismatch (R or D)"
    0x0305_0000 RMBE_EC "RMBE_EC" "Peer has eyecatcher in RMBE"
    0x0306_0000 OPTUNSUPP "OPTUNSUPP" "Fastopen sockopt not supported"
    0x0307_0000 DIFFPREFIX "DIFFPREFIX" "IP prefix / subnet mismatch"
    0x0308_0000 GETVLANERR "GETVLANERR" "Error retrieving VLAN ID of IP device"
    0x0309_0000 ISMVLANERR "ISMVLANERR" "Error while registering VLAN ID on ISM device"
    0x030a_0000 NOACTLINK "NOACTLINK" "No active SMC-R link in link group"
    0x030b_0000 NOSRVLINK "NOSRVLINK" "SMC-R link from server not found"
    0x030c_0000 VERSMISMAT "VERSMISMAT" "SMC version mismatch"
    0x030d_0000 MAX_DMB "MAX_DMB" "SMC-D connection limit reached"
    0x030e_0000 NOROUTE "[unknown]" "SMC-Rv2 connection found no route to peer"
    0x030f_0000 NOINDIRECT "[unknown]" "SMC-Rv2 connection mismatch direct/indirect with peer"
    0x0400_0000 SYNCERR "SYNCERR" "Synchronization error"
    0x0500_0000 PEERDECL "PEERDECL" "Peer declined during handshake"
    0x0999_0000 INTERR "[unknown]" "Internal error"
    0x0999_0001 ERR_RTOK "[unknown]" "rtoken handling failed"
    0x0999_0002 ERR_RDYLNK "[unknown]" "RDMA link failed"
    0x0999_0003 ERR_REGBUF "[unknown]" "RMB registration failed"
}

impl Reason {
    /// The table's row, if the code is known.
    pub fn entry(self) -> Option<&'static Entry> {
        TABLE.iter().find(|entry| entry.reason == self)
    }

    /// The text of smcss(8).
    pub fn text(self) -> &'static str {
        self.entry().map_or("Unknown reason code", |entry| entry.text)
    }

    /// The name in `smcd stats`; `[unknown]` for codes it does not know.
    pub fn stats_name(self) -> &'static str {
        self.entry().map_or("[unknown]", |entry| entry.stats_name)
    }
}

impl core::fmt::Display for Reason {
    /// As in the Mode column of smcss.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn the_table_is_sorted_and_without_duplicates() {
        assert!(TABLE.windows(2).all(|pair| pair[0].reason < pair[1].reason));
        assert_eq!(TABLE.len(), 38);
    }

    #[test]
    fn known_and_unknown_codes_have_their_texts() {
        assert_eq!(Reason::PEERDECL.to_string(), "0x05000000");
        assert_eq!(Reason::NOUEID.text(), "Peer sent no UEID");
        assert_eq!((Reason::MEM.stats_name(), Reason::NOUEID.stats_name()), ("MEMORY", "[unknown]"));
        assert_eq!((Reason(7).text(), Reason(7).stats_name()), ("Unknown reason code", "[unknown]"));
        assert_eq!(Reason(0x0303_0008), Reason::NOUEID);
    }
}
