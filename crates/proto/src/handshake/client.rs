//! The client's side: PROPOSAL out, ACCEPT in, CONFIRM out.

use wire::Eid;
use wire::clc::{
    Accept, Confirm, FEATURE_EMULATED_ISM, Kind, Modes, Proposal, SmcDArea, SmcDv2Extension, V2Extension,
    push_device,
};

use super::local::Terms;
use super::{Agreed, Fault, Half, Input, Local, Refusal, Stage, VERSION};

/// One handshake, client's side. `propose`, then `handle_accept` once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Client {
    stage: Stage,
}

impl Client {
    /// A handshake that has not begun.
    pub const fn new() -> Self {
        Self { stage: Stage::Start }
    }

    /// A handshake whose PROPOSAL has been sent: for a carrier that keeps no machine meanwhile.
    pub const fn proposed() -> Self {
        Self { stage: Stage::Waiting }
    }

    /// The PROPOSAL to send. Refused without an ISM device or without an EID (Linux: no device is found
    /// then).
    pub fn propose(&mut self, local: &Local) -> Result<Proposal, Refusal> {
        if self.stage != Stage::Start {
            return Err(Fault::Misuse.refuse());
        }
        self.stage = Stage::Over;
        let smcd = SmcDv2Extension { seid: local.seid.unwrap_or(Eid::NONE), ..offered_devices(local)? };
        self.stage = Stage::Waiting;
        let ext = V2Extension {
            release: local.release,
            seid_offered: local.seid.is_some(),
            features: if local.release >= 1 { FEATURE_EMULATED_ISM } else { 0 },
            user_eids: local.user_eids,
            smcd: Some(smcd),
            ..V2Extension::default()
        };
        Ok(Proposal {
            version: VERSION,
            v1: Modes::N,
            v2: Modes::D,
            smcd: Some(SmcDArea::default()),
            v2_ext: Some(ext),
            ..Proposal::default()
        })
    }

    /// Judges the answer to the PROPOSAL; on success CONFIRM is to be sent and the connection is SMC. `half`
    /// is our buffer, or why there is none. `knows` tells whether we have the link group (the peer's device
    /// and id) the server continues.
    pub fn handle_accept(
        &mut self,
        input: Input<'_>,
        local: &Local,
        half: Result<Half, Fault>,
        knows: impl FnOnce(&Agreed) -> bool,
    ) -> Result<(Confirm, Agreed), Refusal> {
        if self.stage != Stage::Waiting {
            return Err(Fault::Misuse.refuse());
        }
        self.stage = Stage::Over;
        let accept = input.expect(Kind::Accept, Accept::parse)?;
        let agreed = Agreed::from_peer(local, &accept.0)?;
        if agreed.release.is_some_and(|release| release > local.release) {
            return Err(Fault::ReleaseMismatch.refuse());
        }
        if !agreed.is_first_contact && !knows(&agreed) {
            return Err(Fault::LinkGroupMismatch.refuse());
        }
        let terms = Terms {
            eid: agreed.eid,
            is_first_contact: agreed.is_first_contact,
            release: agreed.release.unwrap_or(local.release),
        };
        Ok((Confirm(local.endpoint(agreed.device, &half?, &terms)), agreed))
    }
}

/// Our devices as PROPOSAL lists them; one that no longer fits is left out, as Linux does.
fn offered_devices(local: &Local) -> Result<SmcDv2Extension, Fault> {
    let mut smcd = SmcDv2Extension::default();
    for device in local.devices.iter() {
        let _left_out = push_device(&mut smcd.entries, *device);
    }
    let has_eid = !local.user_eids.is_empty() || local.seid.is_some();
    if smcd.entries.is_empty() || !has_eid { Err(Fault::NoDevice) } else { Ok(smcd) }
}
