//! The ISM devices of the host: fabrics by VCHID, and on each the functions that trust domains hold. Owns:
//! a FID is one domain's at a time, a UID is one function's on the whole host, and a function goes with its
//! last process, but for one that an operator has taken away: it stays to be given back.

use crate::policy::{Fabric, Policy};
use crate::who::{Payer, User};
use std::collections::{BTreeMap, BTreeSet};
use wire::Reason;

/// Whoever may reach into each other anyway: the processes of a user in one place, or of a project's.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Domain {
    pub(crate) user: User,
    /// Who pays for it: of a user always the same.
    pub(crate) payer: Payer,
    pub(crate) project: Option<String>,
}

/// VCHID and FID.
pub(crate) type FunctionId = (u16, u16);

/// One function.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) domain: Domain,
    pub(crate) uid: u32,
    pub(crate) processes: u32,
    /// Doorbells that hang: two for each connection that there is room for.
    pub(crate) doorbells: u32,
    pub(crate) limit: u32,
    pub(crate) pnet_id: String,
    pub(crate) is_disabled: bool,
}

/// All of them.
#[derive(Default)]
pub(crate) struct Functions {
    by_id: BTreeMap<FunctionId, Function>,
    /// Taken away by an operator, whoever of the domain comes and goes.
    taken: BTreeSet<(u16, Domain)>,
    last_uid: u32,
}

impl Functions {
    /// One more process of `domain` on `fabric`. Reason: MAX_DMB if all functions are taken.
    pub(crate) fn join(&mut self, fabric: &Fabric, domain: &Domain) -> Result<FunctionId, Reason> {
        let on_it = (fabric.vchid, 0)..=(fabric.vchid, u16::MAX);
        let known = self.by_id.range_mut(on_it).find(|(_, function)| function.domain == *domain);
        if let Some((id, function)) = known {
            function.processes += 1;
            return Ok(*id);
        }
        let ids = (1..=fabric.functions).map(|fid| (fabric.vchid, fid));
        let id = ids.into_iter().find(|id| !self.by_id.contains_key(id)).ok_or(Reason::MAX_DMB)?;
        let uid = self.free_uid().ok_or(Reason::MAX_DMB)?;
        let function = Function {
            domain: domain.clone(),
            uid,
            processes: 1,
            doorbells: 0,
            limit: fabric.connections,
            pnet_id: fabric.pnet_id.clone(),
            is_disabled: self.is_taken(fabric.vchid, domain),
        };
        self.by_id.insert(id, function);
        Ok(id)
    }

    /// An operator takes a function away, by its UID, or gives it back. `None` if there is none such; the
    /// domain that has it no more, if that was without processes.
    pub(crate) fn enable(&mut self, uid: u32, is_enabled: bool) -> Option<Option<Domain>> {
        let (id, function) = self.by_id.iter_mut().find(|(_, function)| function.uid == uid)?;
        let name = (id.0, function.domain.clone());
        function.is_disabled = !is_enabled;
        let (id, is_nobodys) = (*id, function.processes == 0);
        match is_enabled {
            true => _ = self.taken.remove(&name),
            false => _ = self.taken.insert(name),
        }
        let left = if is_enabled && is_nobodys { self.by_id.remove(&id) } else { None };
        Some(left.map(|function| function.domain))
    }

    /// Whether an operator has taken a domain's function on a fabric away.
    pub(crate) fn is_taken(&self, vchid: u16, domain: &Domain) -> bool {
        self.taken.iter().any(|(at, whose)| *at == vchid && whose == domain)
    }

    /// Whether `domain` has a function on a fabric.
    pub(crate) fn has(&self, vchid: u16, domain: &Domain) -> bool {
        self.on(vchid).any(|function| function.domain == *domain)
    }

    fn on(&self, vchid: u16) -> impl Iterator<Item = &Function> {
        self.by_id.range((vchid, 0)..=(vchid, u16::MAX)).map(|(_, function)| function)
    }

    /// Functions of a fabric that are taken, and how many of those are of a domain's user, or of its project,
    /// whichever are more.
    pub(crate) fn taken(&self, vchid: u16, domain: &Domain) -> (u64, u64) {
        let payers = self.on(vchid).filter(|function| function.domain.payer == domain.payer);
        let is_projects = |one: &&Function| domain.project.is_some() && one.domain.project == domain.project;
        let projects = self.on(vchid).filter(is_projects);
        (self.on(vchid).count() as u64, payers.count().max(projects.count()) as u64)
    }

    /// PCI domains have 16 bits, and 0 is nobody's; one is used again as late as possible.
    fn free_uid(&mut self) -> Option<u32> {
        const UIDS: u32 = 0xFFFF;
        let mut candidates = (0..UIDS).map(|step| (self.last_uid + step) % UIDS + 1);
        let free = candidates.find(|uid| self.by_id.values().all(|function| function.uid != *uid))?;
        self.last_uid = free;
        Some(free)
    }

    /// One process fewer.
    pub(crate) fn leave(&mut self, id: FunctionId) {
        let Some(function) = self.by_id.get_mut(&id) else { return };
        function.processes = function.processes.saturating_sub(1);
        let is_nobodys = function.processes == 0;
        let domain = function.domain.clone();
        if is_nobodys && !self.is_taken(id.0, &domain) {
            self.by_id.remove(&id);
        }
    }

    pub(crate) fn get(&self, id: FunctionId) -> Option<&Function> {
        self.by_id.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: FunctionId) -> Option<&mut Function> {
        self.by_id.get_mut(&id)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (FunctionId, &Function)> {
        self.by_id.iter().map(|(id, function)| (*id, function))
    }

    /// After a change of the policy: functions of fabrics that are gone are disabled.
    pub(crate) fn review(&mut self, policy: &Policy) {
        let is_taken =
            |vchid, domain: &Domain| self.taken.iter().any(|(at, whose)| *at == vchid && whose == domain);
        for ((vchid, _), function) in &mut self.by_id {
            let fabric = policy.fabrics.iter().find(|fabric| fabric.vchid == *vchid);
            function.is_disabled = fabric.is_none() || is_taken(*vchid, &function.domain);
            if let Some(fabric) = fabric {
                function.limit = fabric.connections;
                function.pnet_id.clone_from(&fabric.pnet_id);
            }
        }
    }
}

impl Function {
    pub(crate) fn connections(&self) -> u32 {
        self.doorbells.div_ceil(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::file::parse;

    fn policy(text: &str) -> Policy {
        parse("test", text).unwrap_or_else(|fault| panic!("{fault}"))
    }

    fn domain(uid: u32) -> Domain {
        let user = User { uid, user_namespace: 1, process_namespace: 1 };
        Domain { user, payer: Payer::User(uid), project: None }
    }

    #[test]
    fn a_domain_has_one_function_as_long_as_it_has_processes() {
        let policy = policy("");
        let (fabric, mut functions) = (&policy.fabrics[0], Functions::default());
        let first = functions.join(fabric, &domain(1)).expect("room");
        assert_eq!(functions.join(fabric, &domain(1)), Ok(first));
        let second = functions.join(fabric, &domain(2)).expect("room");
        assert_eq!((first, second), ((0xFF00, 1), (0xFF00, 2)));
        functions.leave(first);
        assert!(functions.get(first).is_some());
        functions.leave(first);
        assert!(functions.get(first).is_none());
        assert_eq!(functions.join(fabric, &domain(3)), Ok(first), "a FID is used again");
        let uids: Vec<u32> = functions.all().map(|(_, function)| function.uid).collect();
        assert_eq!(uids, [3, 2], "a UID is not, for a while");
    }

    #[test]
    fn a_fabric_has_so_many_functions_and_no_more() {
        let policy = policy("");
        let (fabric, mut functions) = (&policy.fabrics[0], Functions::default());
        for uid in 0..255 {
            assert!(functions.join(fabric, &domain(uid)).is_ok(), "{uid}");
        }
        assert_eq!(functions.join(fabric, &domain(255)), Err(Reason::MAX_DMB));
        functions.leave((0xFF00, 77));
        assert_eq!(functions.join(fabric, &domain(255)), Ok((0xFF00, 77)));
    }

    #[test]
    fn functions_of_a_fabric_that_is_gone_are_disabled() {
        let mut functions = Functions::default();
        let id = functions.join(&policy("").fabrics[0], &domain(1)).expect("room");
        functions.review(&policy("[[fabric]]\nvchid = 0xFF05\nname = \"x\"\n"));
        assert!(functions.get(id).is_some_and(|function| function.is_disabled));
        functions.review(&policy("[[fabric]]\nvchid = 0xFF00\nname = \"x\"\nconnections = 3\n"));
        assert!(functions.get(id).is_some_and(|function| !function.is_disabled && function.limit == 3));
    }

    #[test]
    fn what_an_operator_has_taken_away_stays_so_until_it_is_given_back() {
        let policy = policy("");
        let mut functions = Functions::default();
        let id = functions.join(&policy.fabrics[0], &domain(1)).expect("room");
        assert_eq!(functions.enable(77, false), None, "no such function");
        assert_eq!(functions.enable(1, false), Some(None));
        functions.review(&policy);
        assert!(functions.get(id).is_some_and(|function| function.is_disabled), "whatever the policy says");
        functions.leave(id);
        assert_eq!(functions.all().count(), 1, "it can be given back when its processes have ended");
        let again = functions.join(&policy.fabrics[0], &domain(1)).expect("room");
        let uid = functions.get(again).map_or(0, |function| function.uid);
        assert!(functions.get(again).is_some_and(|function| function.is_disabled), "whoever comes and goes");
        assert_eq!(functions.enable(uid, true), Some(None));
        assert!(functions.get(again).is_some_and(|function| !function.is_disabled));
        assert_eq!(functions.enable(uid, false), Some(None));
        functions.leave(again);
        let left = functions.enable(uid, true).flatten();
        assert!(left.is_some(), "with no process left");
        assert_eq!(functions.all().count(), 0);
    }
}
