//! The CLC handshake over the slot's mailbox: PROPOSAL before the SYN, ACCEPT with the claim, CONFIRM when
//! the client learns.
//!
//! Owns: the carrier. Who says what, and what is refused with which code, is `proto::handshake`'s; the
//! messages are those of SMC-Dv2.1 over a loopback ISM device, byte for byte. No message crosses TCP and
//! nobody waits for one.

use crate::here::{Part as _, fabric};
use fabric::Reason;
use fabric::door::Directory as _;
use fabric::slot::SlotView;
use proto::handshake::{Accept, Client, Dmb, Half, Input, Local, Refusal, Server};
use proto::{BufferClass, Eid};
use shm::Side;
use shm::layout::{MAIL_LEN, Mail};
use sync::{AtomicU32, Ordering};

/// The one user EID of the local tier.
const EID: Eid = constant("ISTHMUS.LOCAL");

/// That of the host tier, whose ends have no registry in common, and the number of its one device.
const FAR_EID: Eid = constant("ISTHMUS.HOST");
const FAR_GID: u64 = 0x4953_4D44 << 32;

const fn constant(text: &str) -> Eid {
    match Eid::user(text) {
        Ok(eid) => eid,
        Err(_) => panic!("not a user EID"),
    }
}

/// Places in the mailbox.
#[derive(Clone, Copy)]
enum Letter {
    Proposal = 0,
    Accept = 1,
    Confirm = 2,
}

fn local() -> Result<Local, Reason> {
    let map = fabric().tier().mapped().ok_or(Reason::NOSMCDDEV)?;
    let gid = [&map.gid[0], &map.gid[1]].map(|half| half.load(Ordering::Relaxed));
    Ok(Local::loopback(gid, EID, ""))
}

/// What this process is to the other end of a slot's connection.
#[inline(always)]
fn local_for(view: &SlotView) -> Result<Local, Reason> {
    if view.is_far() { Ok(Local::loopback([FAR_GID, 0], FAR_EID, "")) } else { local() }
}

/// What `side` offers: its incoming ring, named by its socket's cookie.
fn offered(view: &SlotView, side: Side, cookie: u64) -> Half {
    let class = BufferClass::holding(view.incoming(side).size() as u64).unwrap_or_default();
    Half { dmb: Dmb { token: cookie, class }, link_group: fabric().link_group(view) }
}

fn put(view: &SlotView, letter: Letter, message: &[u8]) -> Result<(), Reason> {
    let is_put = view.header().mail[letter as usize].put(message);
    if is_put { Ok(()) } else { Err(Reason::INTERR) }
}

/// A process's PROPOSAL, once it has been made: it says nothing of the connection, so it serves for all.
pub(crate) struct OwnProposal(Mail);

impl OwnProposal {
    pub(crate) const fn new() -> Self {
        OwnProposal(Mail { len: AtomicU32::new(0), words: [const { AtomicU32::new(0) }; MAIL_LEN / 4] })
    }
}

fn own_proposal() -> &'static Mail {
    &OwnProposal::here().0
}

fn write_proposal(local: &Local, bytes: &mut [u8; MAIL_LEN]) -> Result<usize, Reason> {
    let proposal = Client::new().propose(local).map_err(|refusal| refusal.reason())?;
    proposal.emit(bytes).map_err(|_| Reason::INTERR)
}

fn make_proposal() -> Result<(), Reason> {
    let mut bytes = [0; MAIL_LEN];
    let len = write_proposal(&local()?, &mut bytes)?;
    // (Two threads that make it at once make the same.)
    own_proposal().put(&bytes[..len]);
    Ok(())
}

/// The client's PROPOSAL, left in the slot it offers.
pub(crate) fn propose(view: &SlotView) -> Result<(), Reason> {
    if view.is_far() {
        return propose_far(view);
    }
    if own_proposal().is_empty() {
        make_proposal()?;
    }
    view.header().mail[Letter::Proposal as usize].put_copy(own_proposal());
    Ok(())
}

#[cold]
fn propose_far(view: &SlotView) -> Result<(), Reason> {
    let mut bytes = [0; MAIL_LEN];
    let len = write_proposal(&local_for(view)?, &mut bytes)?;
    put(view, Letter::Proposal, &bytes[..len])
}

/// Whether `letter` is the PROPOSAL that this process would send itself.
fn is_own_proposal(letter: &Mail) -> bool {
    let is_made = !own_proposal().is_empty() || make_proposal().is_ok();
    is_made && letter.repeats(own_proposal())
}

/// An ACCEPT that is sent once the claim has been won: until then the slot may become another connection's.
pub(crate) struct Answer {
    bytes: [u8; MAIL_LEN],
    len: usize,
}

impl Answer {
    /// Puts it into the mailbox.
    pub(crate) fn send(&self, view: &SlotView) {
        let _ = put(view, Letter::Accept, &self.bytes[..self.len]);
    }
}

/// The server's answer to the PROPOSAL in the slot it is about to claim: ACCEPT, or the reason to decline.
pub(crate) fn answer(view: &SlotView, cookie: u64) -> Result<Answer, Reason> {
    let letter = &view.header().mail[Letter::Proposal as usize];
    let half = offered(view, Side::Server, cookie);
    let accept = if view.is_far() {
        judge(letter, &local_for(view)?, half)
    } else if is_own_proposal(letter) {
        Server::new().answer_own(&local()?, half, true)
    } else {
        judge(letter, &local()?, half)
    };
    let accept = accept.map_err(|refusal| refusal.reason())?;
    let mut bytes = [0; MAIL_LEN];
    let len = accept.emit(&mut bytes).map_err(|_| Reason::INTERR)?;
    Ok(Answer { bytes, len })
}

/// The answer to a PROPOSAL of another make.
#[cold]
fn judge(letter: &Mail, local: &Local, half: Half) -> Result<Accept, Refusal> {
    let mut bytes = [0; MAIL_LEN];
    Server::new().handle_proposal(Input::Bytes(letter.take(&mut bytes)), local, Ok(half), true)
}

/// The client's look at the ACCEPT, and its CONFIRM; nothing if the letter is still on its way, for the
/// verdict word decides. An error means that the server broke the protocol.
pub(crate) fn confirm(view: &SlotView, cookie: u64) -> Result<(), Refusal> {
    let mut letter = [0; MAIL_LEN];
    let accept = view.header().mail[Letter::Accept as usize].take(&mut letter);
    if accept.is_empty() {
        return Ok(());
    }
    let local = local_for(view).map_err(|_| proto::handshake::Fault::NoDevice.refuse())?;
    let mut client = Client::proposed();
    let half = offered(view, Side::Client, cookie);
    let (confirm, _agreed) = client.handle_accept(Input::Bytes(accept), &local, Ok(half), |_| true)?;
    let mut bytes = [0; MAIL_LEN];
    if let Ok(len) = confirm.emit(&mut bytes) {
        let _ = put(view, Letter::Confirm, &bytes[..len]);
    }
    Ok(())
}
