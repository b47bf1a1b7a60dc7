//! What clients offer and claim. Owns: the rules of passing memory. A claim must name what was offered, know
//! its nonce, come from the same fabric, and be let by the policy; the first one binds the memory to the
//! claimant's domain, and another domain never gets it. A doorbell is opened only for who has claimed its
//! memory. Nothing of a client outlives its connection. No system call is made here: descriptors are values
//! of a type that tests choose.

use crate::fabrics::{Domain, Function as Owned, FunctionId, Functions};
use crate::policy::{Policy, Ruling};
use crate::quota::{Accounts, Amount, Common};
use crate::rights::Rights;
use crate::tables::NUMBER;
use crate::who::{User, Who};
use std::collections::{BTreeMap, HashMap};
use wire::Reason;
use wire::host::{Function, Message};

/// Wrong nonces after which nobody listens to a client any more.
const WRONG_NONCES: u32 = 16;

/// Everything that is known.
pub(crate) struct Broker<D> {
    pub(crate) policy: Policy,
    pub(crate) functions: Functions,
    pub(crate) accounts: Accounts,
    pub(crate) counts: Counts,
    clients: HashMap<u32, Client<D>>,
    /// Numbers that processes have from an earlier daemon: marks that are under way say them.
    known: HashMap<u32, u32>,
    next: u32,
    /// The GIDs of functions begin with it, as with a machine's serial number.
    gid_base: u32,
    /// Descriptors of memory and doorbells that are held, and how many may be, whoever passed them.
    held: usize,
    room: usize,
}

/// What has happened so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) clients: u64,
    pub(crate) offers: u64,
    pub(crate) claims: u64,
    pub(crate) refused: BTreeMap<Reason, u64>,
    pub(crate) thrown_out: u64,
}

/// A process that has said hello.
struct Client<D> {
    who: Who,
    domain: Domain,
    function: FunctionId,
    offers: BTreeMap<u32, Offer<D>>,
    wrong_nonces: u32,
}

/// Memory that can be claimed.
pub(crate) struct Offer<D> {
    size: u64,
    nonce: u64,
    pub(crate) memory: D,
    pub(crate) doorbells: BTreeMap<u32, D>,
    /// The domain that has it.
    bound_to: Option<Domain>,
    /// Who has it, and by which ruling.
    claimants: BTreeMap<u32, Ruling>,
}

/// What a client is told.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer<'a, D> {
    /// Just this.
    Say(Message),
    /// This, and a descriptor of memory.
    Memory(Message, &'a D),
    /// This, and a doorbell, opened anew.
    Doorbell(Message, &'a D),
}

impl<D> Broker<D> {
    /// `first` is the number of the first client: one that no earlier daemon has given, so that what was
    /// offered to that one is not looked for here. `room`: descriptors that all clients may pass.
    pub(crate) fn new(policy: Policy, first: u32, gid_base: u32, room: usize) -> Self {
        Broker {
            policy,
            functions: Functions::default(),
            accounts: Accounts::default(),
            counts: Counts::default(),
            clients: HashMap::new(),
            known: HashMap::new(),
            next: first,
            gid_base,
            held: 0,
            room,
        }
    }

    /// With processes that had these numbers from an earlier daemon, and get them again.
    pub(crate) fn knowing(self, known: HashMap<u32, u32>) -> Self {
        Broker { known, ..self }
    }

    /// The process of a client that has offered something with this nonce.
    pub(crate) fn offerer(&self, client: u32, nonce: u64) -> Option<u32> {
        let owner = self.clients.get(&client)?;
        owner.offers.values().any(|offer| offer.nonce == nonce).then_some(owner.who.pid)
    }

    /// The process of a client; 0 if there is none.
    pub(crate) fn pid_of(&self, client: u32) -> u32 {
        self.clients.get(&client).map_or(0, |client| client.who.pid)
    }

    /// Another policy, from now on.
    pub(crate) fn adopt(&mut self, policy: Policy) {
        self.functions.review(&policy);
        self.policy = policy;
    }

    /// Clients that have said hello.
    pub(crate) fn clients(&self) -> usize {
        self.clients.len()
    }

    /// A process says hello; its number, and the answer. Reasons: NOSMCDDEV (no fabric lets it in), MAX_DMB.
    pub(crate) fn hello(&mut self, who: Who, vchid: u16) -> Result<(u32, Message), Reason> {
        let fabric = self.policy.fabric_for(&who, vchid).ok_or(Reason::NOSMCDDEV)?;
        let project = self.policy.project_of(&who).map(String::from);
        let domain = Domain { user: who.user, payer: who.payer, project };
        let is_new = !self.functions.has(fabric.vchid, &domain);
        if is_new {
            let (taken, held) = self.functions.taken(fabric.vchid, &domain);
            let common = Common { total: fabric.functions.into(), taken };
            if !self.policy.has_own_quota(domain.payer) && !common.has_one_for(held) {
                return Err(Reason::MAX_DMB);
            }
            self.accounts.take(&domain, Amount::FUNCTION, &self.policy)?;
        }
        let joined = self.functions.join(fabric, &domain);
        let function = joined.inspect_err(|_| {
            if is_new {
                self.accounts.give(&domain, Amount::FUNCTION);
            }
        })?;
        let earlier = self.known.remove(&who.pid).filter(|number| !self.clients.contains_key(number));
        let client = earlier.unwrap_or_else(|| self.number());
        let (vchid, fid) = function;
        let (uid, connections) =
            self.functions.get(function).map_or((0, 0), |function| (function.uid, function.limit));
        let gid = u64::from(self.gid_base) << 32 | u64::from(vchid) << 16 | u64::from(fid);
        let offers = BTreeMap::new();
        self.clients.insert(client, Client { who, domain, function, offers, wrong_nonces: 0 });
        self.counts.clients += 1;
        Ok((client, Message::Welcome { client, vchid, fid, uid, connections, gid }))
    }

    /// An operator takes a function away, by its UID, or gives it back. `false` if there is none such.
    pub(crate) fn enable(&mut self, uid: u32, is_enabled: bool) -> bool {
        let left = self.functions.enable(uid, is_enabled);
        if let Some(Some(domain)) = &left {
            self.accounts.give(domain, Amount::FUNCTION);
        }
        left.is_some()
    }

    /// A process that an earlier daemon knew has ended: its number is nobody's.
    pub(crate) fn forget_earlier(&mut self, pid: u32) {
        self.known.remove(&pid);
    }

    fn number(&mut self) -> u32 {
        loop {
            let number = self.next & NUMBER;
            self.next = self.next.wrapping_add(1) & NUMBER;
            let is_known = self.known.values().any(|known| *known == number);
            if number != 0 && !self.clients.contains_key(&number) && !is_known {
                return number;
            }
        }
    }

    /// A client is gone, and with it all that it offered.
    pub(crate) fn gone(&mut self, client: u32) {
        let numbers: Vec<u32> =
            self.clients.get(&client).map_or(vec![], |gone| gone.offers.keys().copied().collect());
        for number in numbers {
            self.withdraw(client, number);
        }
        if let Some(gone) = self.clients.remove(&client) {
            self.functions.leave(gone.function);
            if self.functions.get(gone.function).is_none() {
                self.accounts.give(&gone.domain, Amount::FUNCTION);
            }
        }
    }

    /// Memory, proven to be `size` bytes that stay. Reasons: MAX_DMB, MEM, NOSMCDDEV (the function is
    /// disabled).
    pub(crate) fn offer(
        &mut self,
        client: u32,
        (number, size, nonce): (u32, u64, u64),
        memory: D,
    ) -> Result<Message, Reason> {
        self.withdraw(client, number);
        let is_enabled = self.is_enabled(client);
        if !is_enabled || nonce == 0 {
            return Err(if is_enabled { Reason::SYNCERR } else { Reason::NOSMCDDEV });
        }
        self.require_room(client)?;
        let own = self.clients.get_mut(&client).ok_or(Reason::SYNCERR)?;
        self.accounts.take(&own.domain, Amount::segment(size), &self.policy)?;
        self.held += 1;
        let (doorbells, claimants) = (BTreeMap::new(), BTreeMap::new());
        own.offers.insert(number, Offer { size, nonce, memory, doorbells, bound_to: None, claimants });
        self.counts.offers += 1;
        Ok(Message::Done)
    }

    /// For one more descriptor. Reasons: MEM (there is none), MAX_DMB (the client's user has more than his
    /// share).
    fn require_room(&self, client: u32) -> Result<(), Reason> {
        let domain = &self.clients.get(&client).ok_or(Reason::SYNCERR)?.domain;
        if self.held >= self.room {
            return Err(Reason::MEM);
        }
        let common = Common { total: self.room as u64, taken: self.held as u64 };
        let is_fair = common.has_one_for(self.accounts.descriptors(domain));
        if is_fair || self.policy.has_own_quota(domain.payer) { Ok(()) } else { Err(Reason::MAX_DMB) }
    }

    /// A doorbell of offered memory, in place of one that had this number. Reasons: MAX_DMB, MEM, SYNCERR.
    pub(crate) fn hang(
        &mut self,
        client: u32,
        (memory, number): (u32, u32),
        bell: D,
    ) -> Result<Message, Reason> {
        let is_more = |offer: &Offer<D>| !offer.doorbells.contains_key(&number);
        if self.clients.get(&client).and_then(|own| own.offers.get(&memory)).is_some_and(is_more) {
            self.require_room(client)?;
        }
        let own = self.clients.get_mut(&client).ok_or(Reason::SYNCERR)?;
        let offer = own.offers.get_mut(&memory).ok_or(Reason::SYNCERR)?;
        if !offer.doorbells.contains_key(&number) {
            let function = self.functions.get_mut(own.function).ok_or(Reason::SYNCERR)?;
            if function.doorbells >= function.limit.saturating_mul(2) {
                return Err(Reason::MAX_DMB);
            }
            self.accounts.take(&own.domain, Amount::DOORBELL, &self.policy)?;
            function.doorbells += 1;
            self.held += 1;
        }
        offer.doorbells.insert(number, bell);
        Ok(Message::Done)
    }

    /// The memory, for who may have it. Reasons: SYNCERR (there is none such, or the nonce is another),
    /// NOSMCDDEV (no common fabric), PEERDECL (the policy, or another domain has it).
    pub(crate) fn claim(
        &mut self,
        client: u32,
        (owner, number, nonce): (u32, u32, u64),
    ) -> Result<Answer<'_, D>, Reason> {
        let claimant = self.clients.get_mut(&client).ok_or(Reason::SYNCERR)?;
        let (who, domain, function) = (claimant.who.clone(), claimant.domain.clone(), claimant.function);
        let offer = self.clients.get(&owner).and_then(|own| Some((own, own.offers.get(&number)?)));
        // Who does not know the nonce learns nothing, not even whether there is such a client.
        let Some((own, offer)) = offer.filter(|(_, offer)| offer.nonce == nonce) else {
            self.note_wrong_nonce(client);
            return Err(Reason::SYNCERR);
        };
        if own.function.0 != function.0 || !self.is_enabled(owner) || !self.is_enabled(client) {
            return Err(Reason::NOSMCDDEV);
        }
        let is_others = offer.bound_to.as_ref().is_some_and(|bound| *bound != domain);
        let ruling = self.policy.ruling(&own.who, &who, function.0);
        if is_others || !ruling.is_possible() {
            return Err(Reason::PEERDECL);
        }
        self.counts.claims += 1;
        let own = self.clients.get_mut(&owner).ok_or(Reason::SYNCERR)?;
        let offer = own.offers.get_mut(&number).ok_or(Reason::SYNCERR)?;
        offer.bound_to.get_or_insert(domain);
        offer.claimants.insert(client, ruling);
        Ok(Answer::Memory(Message::Passed { size: offer.size }, &offer.memory))
    }

    /// Whether a client's function still works, by the policy as it is now.
    pub(crate) fn is_enabled(&self, client: u32) -> bool {
        self.clients.get(&client).is_some_and(|client| {
            let function = self.functions.get(client.function);
            function.is_some_and(|function| !function.is_disabled)
                && self.policy.fabric_for(&client.who, client.function.0).is_some()
        })
    }

    fn note_wrong_nonce(&mut self, client: u32) {
        if let Some(guesser) = self.clients.get_mut(&client) {
            guesser.wrong_nonces += 1;
        }
    }

    /// Whether a client has guessed too often.
    pub(crate) fn is_guessing(&self, client: u32) -> bool {
        self.clients.get(&client).is_some_and(|guesser| guesser.wrong_nonces > WRONG_NONCES)
    }

    /// A doorbell of claimed memory. Reasons: SYNCERR, NOSMCDDEV.
    pub(crate) fn open(
        &self,
        client: u32,
        (owner, memory, number): (u32, u32, u32),
    ) -> Result<Answer<'_, D>, Reason> {
        let offer = self.clients.get(&owner).and_then(|own| own.offers.get(&memory));
        let claimed = offer.filter(|offer| offer.claimants.contains_key(&client)).ok_or(Reason::SYNCERR)?;
        if !self.is_enabled(owner) || !self.is_enabled(client) {
            return Err(Reason::NOSMCDDEV);
        }
        let bell = claimed.doorbells.get(&number).ok_or(Reason::SYNCERR)?;
        Ok(Answer::Doorbell(Message::Passed { size: 0 }, bell))
    }

    /// The memory is offered no more; who has it keeps it.
    pub(crate) fn withdraw(&mut self, client: u32, number: u32) -> Message {
        drop(self.remove(client, number));
        Message::Done
    }

    fn remove(&mut self, client: u32, number: u32) -> Option<Offer<D>> {
        let own = self.clients.get_mut(&client)?;
        let offer = own.offers.remove(&number)?;
        let bells = offer.doorbells.len() as u32;
        self.held -= 1 + offer.doorbells.len();
        if let Some(function) = self.functions.get_mut(own.function) {
            function.doorbells = function.doorbells.saturating_sub(bells);
        }
        self.accounts.give(&own.domain, Amount { doorbells: bells, ..Amount::segment(offer.size) });
        Some(offer)
    }

    /// After a change: memory between two that may not share it any more, or not everywhere where they could.
    /// It is offered no more.
    pub(crate) fn take_back(&mut self) -> Vec<Offer<D>> {
        let (mut all, mut changed) = (vec![], vec![]);
        for (client, own) in &self.clients {
            for (number, offer) in &own.offers {
                match self.may_stay(*client, own, offer) {
                    Some(rulings) => changed.push((*client, *number, rulings)),
                    None => all.push((*client, *number)),
                }
            }
        }
        for (client, number, rulings) in changed {
            if let Some(offer) = self.clients.get_mut(&client).and_then(|own| own.offers.get_mut(&number)) {
                offer.claimants.extend(rulings);
            }
        }
        all.into_iter().filter_map(|(client, number)| self.remove(client, number)).collect()
    }

    /// By which rulings its claimants go on. (One that has ended, or takes part no more, is not known; its
    /// domain is.)
    fn may_stay(&self, owner: u32, own: &Client<D>, offer: &Offer<D>) -> Option<BTreeMap<u32, Ruling>> {
        let vchid = own.function.0;
        let is_taken = |domain: &Domain| self.functions.is_taken(vchid, domain);
        if !self.is_enabled(owner) || offer.bound_to.as_ref().is_some_and(is_taken) {
            return None;
        }
        let mut rulings = BTreeMap::new();
        for (claimant, earlier) in &offer.claimants {
            let Some(other) = self.clients.get(claimant) else { continue };
            let ruling = self.policy.ruling(&own.who, &other.who, vchid);
            if !self.is_enabled(*claimant) || !ruling.allows_all_of(earlier) {
                return None;
            }
            rulings.insert(*claimant, ruling);
        }
        Some(rulings)
    }

    /// What the kernel is to know of a client.
    pub(crate) fn rights_of(&self, client: u32) -> Option<Rights> {
        let client = self.clients.get(&client)?;
        Some(Rights::of(&client.who, client.function.0, &self.policy))
    }

    /// The next function after so many: any of them, or of `only` this user's.
    pub(crate) fn list(&self, only: Option<User>, after: u32, marks: bool) -> Message {
        let is_seen = |function: &Owned| only.is_none_or(|user| function.domain.user == user);
        let mut seen = self.functions.all().filter(|(_, function)| is_seen(function));
        let Some((id, function)) = seen.nth(after as usize) else {
            return if marks { Message::Done } else { Message::Refused(Reason::NOSMCDDEV) };
        };
        let mut pnet_id = [0; 16];
        pnet_id.iter_mut().zip(function.pnet_id.as_bytes()).for_each(|(to, from)| *to = *from);
        Message::Function(Function {
            vchid: id.0,
            fid: id.1,
            uid: function.uid,
            user: function.domain.user.uid,
            processes: function.processes,
            connections: function.connections(),
            limit: function.limit,
            pnet_id,
            flags: if function.is_disabled { Function::DISABLED } else { 0 },
        })
    }

    /// Segments and bytes that are offered now.
    pub(crate) fn offered(&self) -> (usize, u64) {
        let all = self.clients.values().flat_map(|client| client.offers.values());
        all.fold((0, 0), |(count, bytes), offer| (count + 1, bytes + offer.size))
    }
}

#[cfg(test)]
#[path = "broker_tests.rs"]
mod tests;
