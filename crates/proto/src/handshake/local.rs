//! What one end brings to the handshake, and what both have afterwards. Owns: which ISM devices reach each
//! other, which EID is common, and how our half of ACCEPT and CONFIRM looks.

use wire::clc::{
    End, Endpoint, FEATURE_EMULATED_ISM, FirstContact, FirstContactV21, IsmDevice, Os, SmcD, SmcDv2,
    V2Extension, devices,
};
use wire::limits::{ISM_GIDS, LOOPBACK_CHID, NAME, SMCD_CLASS_MAX, USER_EIDS};
use wire::{BufferClass, Eid, List};

use super::{Fault, VERSION};

/// Who this end is. The same value for every call of one handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Local {
    /// ISM devices, preferred first.
    pub devices: List<IsmDevice, ISM_GIDS>,
    /// User EIDs.
    pub user_eids: List<Eid, USER_EIDS>,
    /// System EID, where enabled.
    pub seid: Option<Eid>,
    /// Host name, padded with blanks.
    pub host: [u8; NAME],
    /// Highest release to speak, normally `RELEASE`.
    pub release: u8,
}

impl Local {
    /// An end on one kernel: a loopback device with this 128-bit GID, one EID, our release.
    pub fn loopback(gid: [u64; 2], eid: Eid, host: &str) -> Self {
        let device = IsmDevice { gid: gid[0], gid_ext: gid[1], chid: LOOPBACK_CHID };
        let mut padded = [b' '; NAME];
        padded.iter_mut().zip(host.bytes()).for_each(|(to, from)| *to = from);
        Self {
            devices: List::of(&[device]).unwrap_or_default(),
            user_eids: List::of(&[eid]).unwrap_or_default(),
            seid: None,
            host: padded,
            release: super::RELEASE,
        }
    }

    /// The first of the peer's devices that one of ours reaches; returns ours.
    pub(super) fn device_for(&self, peer: impl Iterator<Item = IsmDevice>) -> Option<IsmDevice> {
        peer.into_iter().find_map(|theirs| self.reaching(&theirs))
    }

    /// Our device that reaches the peer's. Same fabric; loopback reaches only itself
    /// (`net/smc/smc_loopback.c`).
    pub(super) fn reaching(&self, theirs: &IsmDevice) -> Option<IsmDevice> {
        let reaches = |ours: &&IsmDevice| match ours.chid {
            LOOPBACK_CHID => *ours == theirs,
            chid => chid == theirs.chid,
        };
        self.devices.iter().find(reaches).copied()
    }

    /// The first of the peer's user EIDs that is ours too, else the system EID if both have the same.
    pub(super) fn common_eid(&self, peer: &V2Extension, seid: Eid) -> Option<Eid> {
        let user = peer.user_eids.iter().find(|eid| self.user_eids.contains(eid)).copied();
        user.or_else(|| self.seid.filter(|ours| peer.seid_offered && *ours == seid))
    }

    /// Whether an EID is one we offered.
    pub(super) fn has_eid(&self, eid: Eid) -> bool {
        self.user_eids.contains(&eid) || self.seid == Some(eid)
    }

    /// Our half of the agreement.
    pub(super) fn endpoint(&self, device: IsmDevice, half: &Half, terms: &Terms) -> Endpoint {
        let v2 = SmcDv2 { chid: device.chid, eid: terms.eid, gid_ext: device.gid_ext };
        let end = SmcD {
            gid: device.gid,
            token: half.dmb.token,
            class: half.dmb.class,
            link_group: half.link_group,
            v2: Some(v2),
            ..SmcD::default()
        };
        Endpoint {
            version: VERSION,
            is_first_contact: terms.is_first_contact,
            end: End::SmcD(end),
            first_contact: terms.is_first_contact.then(|| self.first_contact(terms.release)),
            spare: false,
        }
    }

    fn first_contact(&self, release: u8) -> FirstContact {
        let v21 = FirstContactV21 { features: FEATURE_EMULATED_ISM, ..FirstContactV21::default() };
        let v21 = (release >= 1).then_some(v21);
        FirstContact { os: Os::LINUX, release, host: self.host, v21, ..FirstContact::default() }
    }
}

/// What the server chose and both must repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) eid: Eid,
    pub(super) is_first_contact: bool,
    pub(super) release: u8,
}

/// A direct memory buffer: where the other side may write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dmb {
    /// Names the buffer on its device. A peer's token is only a claim: look it up, never compute with it.
    pub token: u64,
    /// Its size.
    pub class: BufferClass,
}

/// What this end brings to one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Half {
    /// The buffer the peer may write to.
    pub dmb: Dmb,
    /// Our id of the link group the connection belongs to.
    pub link_group: u32,
}

/// What both ends have when the handshake succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// The device of ours that carries the connection.
    pub device: IsmDevice,
    /// The peer's device.
    pub peer_device: IsmDevice,
    /// The buffer we may write to; class at most `wire::limits::SMCD_CLASS_MAX`.
    pub peer_dmb: Dmb,
    /// The peer's id of the link group.
    pub peer_link_group: u32,
    /// Whether the link group begins with this connection.
    pub is_first_contact: bool,
    /// The EID both have.
    pub eid: Eid,
    /// The release both speak; known from first contact only.
    pub release: Option<u8>,
    /// The peer's host name, from first contact only.
    pub peer_host: Option<[u8; NAME]>,
}

impl Agreed {
    /// Judges the peer's half: SMC-Dv2, a device that reaches one of ours, a size that exists, an EID that is
    /// ours. The peer's DMB element index is ignored on purpose: there is one element per DMB.
    pub(super) fn from_peer(local: &Local, peer: &Endpoint) -> Result<Self, Fault> {
        if peer.version != VERSION {
            return Err(Fault::VersionNotOffered);
        }
        let End::SmcD(SmcD { v2: Some(v2), gid, token, class, link_group, .. }) = peer.end else {
            return Err(Fault::ModeNotOffered);
        };
        let peer_device = IsmDevice { gid, gid_ext: v2.gid_ext, chid: v2.chid };
        let device = local.reaching(&peer_device).ok_or(Fault::DeviceNotOffered)?;
        if !local.has_eid(v2.eid) {
            return Err(Fault::EidNotOffered);
        }
        if class.class() > SMCD_CLASS_MAX {
            return Err(Fault::BufferTooLarge);
        }
        Ok(Self {
            device,
            peer_device,
            peer_dmb: Dmb { token, class },
            peer_link_group: link_group,
            is_first_contact: peer.is_first_contact,
            eid: v2.eid,
            release: peer.first_contact.map(|fce| fce.release),
            peer_host: peer.first_contact.map(|fce| fce.host),
        })
    }
}

/// The peer's devices in a v2 extension.
pub(super) fn peer_devices(ext: &V2Extension) -> impl Iterator<Item = IsmDevice> + '_ {
    ext.smcd.iter().flat_map(|smcd| devices(&smcd.entries))
}
