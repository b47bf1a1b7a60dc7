//! Strategies for arbitrary, self-consistent CLC values.

use proptest::prelude::*;
use wire::clc::{
    Accept, Confirm, Decline, End, Endpoint, FirstContact, FirstContactV21, Ipv6Prefix, IsmEntry, Message,
    Modes, Os, PrefixArea, Proposal, SmcD, SmcDArea, SmcDv2, SmcDv2Extension, SmcR, SmcRv2, V2Extension,
};
use wire::{BufferClass, Eid, List, Reason};

fn list<T: Copy + Default + std::fmt::Debug, const N: usize>(
    one: impl Strategy<Value = T>,
) -> impl Strategy<Value = List<T, N>> {
    prop::collection::vec(one, 0..=N).prop_map(|values| List::of(&values).unwrap())
}

fn modes() -> impl Strategy<Value = Modes> {
    prop::sample::select(vec![Modes::R, Modes::D, Modes::N, Modes::B])
}

fn class() -> impl Strategy<Value = BufferClass> {
    (0u8..16).prop_map(|n| BufferClass::new(n).unwrap())
}

fn decline() -> impl Strategy<Value = Decline> {
    let reserved = (0u8..8, 0u8..16, any::<[u8; 3]>());
    (1u8..16, any::<bool>(), any::<[u8; 8]>(), any::<u32>(), 0u8..16, any::<[u32; 4]>(), reserved).prop_map(
        |(version, out_of_sync, system_id, diagnosis, os, details, (bits, low, [a, b, c]))| Decline {
            version,
            out_of_sync,
            system_id,
            diagnosis: Reason(diagnosis),
            os: Os(os),
            details: (version >= 2).then_some(details),
            reserved: [bits, low, a, b, c],
        },
    )
}

fn first_contact() -> impl Strategy<Value = FirstContact> {
    let v21 = (any::<u8>(), any::<u8>(), any::<u16>(), any::<[u8; 4]>(), any::<[u8; 8]>()).prop_map(
        |(max_conns, max_links, features, vendor, reserved)| FirstContactV21 {
            max_conns,
            max_links,
            features,
            vendor,
            reserved,
        },
    );
    let reserved = (0u8..0x80, any::<[u8; 2]>()).prop_map(|(bits, [a, b])| [bits, a, b]);
    (any::<bool>(), 0u8..16, 0u8..16, any::<[u8; 32]>(), v21, reserved).prop_map(
        |(direct, os, release, host, v21, reserved)| FirstContact {
            direct,
            os: Os(os),
            release,
            host,
            v21: (release >= 1).then_some(v21),
            reserved,
        },
    )
}

fn smcd(v2: bool) -> impl Strategy<Value = End> {
    let ids = (any::<u64>(), any::<u64>(), any::<u8>(), class(), any::<u32>());
    let reserved = (0u8..16, any::<[u8; 2]>(), any::<[u8; 12]>());
    (ids, (any::<u16>(), any::<[u8; 32]>(), any::<u64>()), reserved).prop_map(
        move |((gid, token, dmbe_idx, class, link_group), (chid, eid, gid_ext), (low, [a, b], tail))| {
            End::SmcD(SmcD {
                gid,
                token,
                dmbe_idx,
                class,
                link_group,
                v2: v2.then_some(SmcDv2 { chid, eid: Eid(eid), gid_ext }),
                reserved: [low, a, b],
                reserved_v1: if v2 { [0; 12] } else { tail },
            })
        },
    )
}

fn smcr(v2: bool, has_gids: bool) -> impl Strategy<Value = End> {
    let ids = (any::<[u8; 8]>(), any::<[u8; 16]>(), any::<[u8; 6]>(), 0u32..1 << 24, any::<u32>());
    let sizes = (any::<u8>(), any::<u32>(), class(), 0u8..16, any::<u64>(), 0u32..1 << 24);
    let tail =
        (any::<[u8; 2]>(), any::<[u8; 32]>(), any::<[u8; 8]>(), list(any::<[u8; 16]>()), any::<[u8; 3]>());
    (ids, sizes, tail).prop_map(move |(ids, sizes, (reserved, eid, v2_reserved, gids, gids_reserved))| {
        let (system_id, gid, mac, queue_pair, rmb_key) = ids;
        let (rmbe_idx, alert_token, class, mtu, rmb_address, psn) = sizes;
        End::SmcR(SmcR {
            system_id,
            gid,
            mac,
            queue_pair,
            rmb_key,
            rmbe_idx,
            alert_token,
            class,
            mtu,
            rmb_address,
            psn,
            reserved,
            v2: v2.then_some(SmcRv2 { eid: Eid(eid), reserved: v2_reserved }),
            gids: has_gids.then_some((gids, gids_reserved)),
        })
    })
}

fn endpoint(is_confirm: bool) -> impl Strategy<Value = Endpoint> {
    (1u8..16, any::<bool>(), any::<bool>()).prop_flat_map(move |(version, is_first_contact, spare)| {
        let (v2, extended) = (version >= 2, version >= 2 && is_first_contact);
        let end = prop_oneof![smcd(v2), smcr(v2, extended && is_confirm)];
        (end, first_contact()).prop_map(move |(end, fce)| Endpoint {
            version,
            is_first_contact,
            end,
            first_contact: extended.then_some(fce),
            spare,
        })
    })
}

fn smcd_v2() -> impl Strategy<Value = SmcDv2Extension> {
    let entry = (any::<u64>(), any::<u16>()).prop_map(|(gid, chid)| IsmEntry { gid, chid });
    (any::<[u8; 32]>(), any::<[u8; 16]>(), list(entry))
        .prop_map(|(seid, reserved, entries)| SmcDv2Extension { seid: Eid(seid), reserved, entries })
}

fn v2_extension() -> impl Strategy<Value = V2Extension> {
    let fixed = (0u8..16, any::<bool>(), any::<[u8; 16]>(), any::<u8>(), any::<u8>(), any::<u16>());
    let eids = list(any::<[u8; 32]>().prop_map(Eid));
    let reserved = (any::<u8>(), 0u8..8, any::<[u8; 2]>()).prop_map(|(a, bits, [b, c])| [a, bits << 1, b, c]);
    (fixed, eids, prop::option::of(smcd_v2()), reserved, any::<[u8; 12]>()).prop_map(
        |(
            (release, seid_offered, roce_gid, max_conns, max_links, features),
            user_eids,
            smcd,
            reserved,
            tail,
        )| {
            V2Extension {
                release,
                seid_offered,
                roce_gid,
                max_conns,
                max_links,
                features,
                user_eids,
                smcd,
                reserved,
                reserved_tail: tail,
            }
        },
    )
}

fn prefixes() -> impl Strategy<Value = PrefixArea> {
    let prefix = (any::<[u8; 16]>(), any::<u8>()).prop_map(|(address, len)| Ipv6Prefix { address, len });
    (any::<u32>(), any::<u8>(), any::<[u8; 2]>(), list(prefix))
        .prop_map(|(subnet, prefix_len, reserved, ipv6)| PrefixArea { subnet, prefix_len, reserved, ipv6 })
}

fn smcd_area() -> impl Strategy<Value = SmcDArea> {
    (any::<u64>(), any::<u16>(), any::<[u8; 3]>(), any::<[u8; 5]>(), any::<[u8; 20]>()).prop_map(
        |(gid, chid, vendor_oui, vendor_options, reserved)| SmcDArea {
            gid,
            chid,
            vendor_oui,
            vendor_options,
            reserved,
        },
    )
}

fn proposal() -> impl Strategy<Value = Proposal> {
    let ids = (any::<[u8; 8]>(), any::<[u8; 16]>(), any::<[u8; 6]>());
    let sections = (smcd_area(), any::<bool>(), prefixes(), any::<u16>(), prop::option::of(v2_extension()));
    (1u8..16, modes(), modes(), ids, sections).prop_map(
        |(version, v1, v2, (system_id, roce_gid, mac), (area, has_area, prefixes, unused, v2_ext))| {
            let v1 = if version == 1 && v1 == Modes::N { Modes::B } else { v1 };
            Proposal {
                version,
                v1,
                v2,
                system_id,
                roce_gid,
                mac,
                smcd: (version >= 2 || has_area).then_some(area),
                prefixes: (v1 != Modes::N).then_some(prefixes),
                unused_ip_offset: if v1 == Modes::N { unused } else { 0 },
                v2_ext: v2_ext.filter(|_| version >= 2 && v2 != Modes::N),
            }
        },
    )
}

/// Any CLC message that can be written.
pub(crate) fn message() -> impl Strategy<Value = Message> {
    prop_oneof![
        proposal().prop_map(Message::Proposal),
        endpoint(false).prop_map(|e| Message::Accept(Accept(e))),
        endpoint(true).prop_map(|e| Message::Confirm(Confirm(e))),
        decline().prop_map(Message::Decline),
    ]
}
