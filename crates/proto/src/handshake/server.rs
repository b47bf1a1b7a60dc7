//! The server's side: PROPOSAL in, ACCEPT out, CONFIRM in.

use wire::clc::{Accept, Confirm, IsmDevice, Kind, Proposal, V2Extension};

use super::local::{Terms, peer_devices};
use super::{Agreed, Fault, Half, Input, Local, Refusal, Stage};

/// One handshake, server's side. `handle_proposal`, then `handle_confirm` once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Server {
    stage: Stage,
    /// What ACCEPT said; CONFIRM must repeat it.
    terms: Option<(IsmDevice, Terms)>,
}

/// What the server brings for this client: its buffer and link group, and whether that group is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Choice {
    device: IsmDevice,
    terms: Terms,
}

impl Server {
    /// A handshake that has not begun.
    pub const fn new() -> Self {
        Self { stage: Stage::Start, terms: None }
    }

    /// Judges a PROPOSAL; on success ACCEPT is to be sent. `half` is our buffer, or why there is none;
    /// `is_first_contact` tells whether its link group begins with this connection.
    pub fn handle_proposal(
        &mut self,
        input: Input<'_>,
        local: &Local,
        half: Result<Half, Fault>,
        is_first_contact: bool,
    ) -> Result<Accept, Refusal> {
        if self.stage != Stage::Start {
            return Err(Fault::Misuse.refuse());
        }
        self.stage = Stage::Over;
        let proposal = input.expect(Kind::Proposal, Proposal::parse)?;
        let Choice { device, terms } = choose(&proposal, local, is_first_contact)?;
        let accept = Accept(local.endpoint(device, &half?, &terms));
        self.stage = Stage::Waiting;
        self.terms = Some((device, terms));
        Ok(accept)
    }

    /// Answers a PROPOSAL that says, byte for byte, what [`super::Client::propose`] says with the same
    /// `local`: with peers that are of one kind nearly all of them do, and there is nothing in it to be
    /// judged.
    pub fn answer_own(
        &mut self,
        local: &Local,
        half: Half,
        is_first_contact: bool,
    ) -> Result<Accept, Refusal> {
        if self.stage != Stage::Start {
            return Err(Fault::Misuse.refuse());
        }
        self.stage = Stage::Over;
        let device = *local.devices.first().ok_or(Fault::NoDevice)?;
        let eid = local.user_eids.first().copied().or(local.seid).ok_or(Fault::NoEid)?;
        let terms = Terms { eid, is_first_contact, release: local.release };
        self.stage = Stage::Waiting;
        self.terms = Some((device, terms));
        Ok(Accept(local.endpoint(device, &half, &terms)))
    }

    /// Judges the CONFIRM; on success the connection is SMC.
    pub fn handle_confirm(&mut self, input: Input<'_>, local: &Local) -> Result<Agreed, Refusal> {
        let (Stage::Waiting, Some((device, terms))) = (self.stage, self.terms) else {
            return Err(Fault::Misuse.refuse());
        };
        self.stage = Stage::Over;
        let confirm = input.expect(Kind::Confirm, Confirm::parse)?;
        let agreed = Agreed::from_peer(local, &confirm.0)?;
        repeats(&agreed, device, &terms)?;
        Ok(agreed)
    }
}

/// Mode, extension, EID, device: in the order of Linux, which decides the code of a peer that lacks several.
fn choose(proposal: &Proposal, local: &Local, is_first_contact: bool) -> Result<Choice, Fault> {
    if !proposal.offers_v2() {
        return Err(Fault::NoVersion2);
    }
    let ext = proposal.v2_ext.as_ref().ok_or(Fault::NoV2Extension)?;
    if !proposal.v2.offers_d() {
        return Err(Fault::NoSmcD);
    }
    let smcd = ext.smcd.as_ref().ok_or(Fault::NoSmcDv2Extension)?;
    if ext.user_eids.is_empty() && !ext.seid_offered {
        return Err(Fault::NoEid);
    }
    let device = find_device(ext, local)?;
    let eid = local.common_eid(ext, smcd.seid).ok_or(Fault::NoCommonEid)?;
    let release = ext.release.min(local.release);
    Ok(Choice { device, terms: Terms { eid, is_first_contact, release } })
}

fn find_device(ext: &V2Extension, local: &Local) -> Result<IsmDevice, Fault> {
    if local.devices.is_empty() {
        return Err(Fault::NoDevice);
    }
    local.device_for(peer_devices(ext)).ok_or(Fault::NoCommonDevice)
}

/// Whether CONFIRM says what ACCEPT said.
fn repeats(agreed: &Agreed, device: IsmDevice, terms: &Terms) -> Result<(), Fault> {
    if agreed.is_first_contact != terms.is_first_contact {
        return Err(Fault::LinkGroupMismatch);
    }
    if agreed.device != device {
        return Err(Fault::DeviceNotOffered);
    }
    if agreed.eid != terms.eid {
        return Err(Fault::EidNotOffered);
    }
    if agreed.release.is_some_and(|release| release != terms.release) {
        return Err(Fault::ReleaseMismatch);
    }
    Ok(())
}
