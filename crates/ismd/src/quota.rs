//! What users and projects have at the moment. Owns: what was counted is counted off again, and nobody gets
//! beyond a quota.

use crate::fabrics::Domain;
use crate::policy::{Policy, Quota};
use std::collections::HashMap;
use wire::Reason;

/// An amount of everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) clients: u32,
    pub(crate) segments: u32,
    pub(crate) bytes: u64,
    pub(crate) doorbells: u32,
    pub(crate) functions: u32,
}

/// Who is counted together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Payer {
    User(u32),
    Project(String),
}

/// The accounts.
#[derive(Default)]
pub(crate) struct Accounts(HashMap<Payer, Amount>);

impl Amount {
    pub(crate) fn segment(bytes: u64) -> Self {
        Amount { segments: 1, bytes, ..Self::default() }
    }

    const NONE: Self = Amount { clients: 0, segments: 0, bytes: 0, doorbells: 0, functions: 0 };
    pub(crate) const CLIENT: Self = Amount { clients: 1, ..Self::NONE };
    pub(crate) const DOORBELL: Self = Amount { doorbells: 1, ..Self::NONE };
    pub(crate) const FUNCTION: Self = Amount { functions: 1, ..Self::NONE };

    fn plus(self, more: Self) -> Self {
        Amount {
            clients: self.clients.saturating_add(more.clients),
            segments: self.segments.saturating_add(more.segments),
            bytes: self.bytes.saturating_add(more.bytes),
            doorbells: self.doorbells.saturating_add(more.doorbells),
            functions: self.functions.saturating_add(more.functions),
        }
    }

    fn minus(self, less: Self) -> Self {
        Amount {
            clients: self.clients.saturating_sub(less.clients),
            segments: self.segments.saturating_sub(less.segments),
            bytes: self.bytes.saturating_sub(less.bytes),
            doorbells: self.doorbells.saturating_sub(less.doorbells),
            functions: self.functions.saturating_sub(less.functions),
        }
    }

    fn is_within(self, quota: Quota) -> bool {
        self.clients <= quota.clients
            && self.segments <= quota.segments
            && self.bytes <= quota.bytes
            && self.doorbells.div_ceil(2) <= quota.connections
            && self.functions <= quota.functions
    }
}

impl Accounts {
    /// A user connects to the socket, before anything is known of the process. Reason: MAX_DMB.
    pub(crate) fn admit(&mut self, uid: u32, policy: &Policy) -> Result<(), Reason> {
        let account = self.0.entry(Payer::User(uid)).or_default();
        let sum = account.plus(Amount::CLIENT);
        if !sum.is_within(policy.quota_of(uid)) {
            return Err(Reason::MAX_DMB);
        }
        *account = sum;
        Ok(())
    }

    /// It has gone.
    pub(crate) fn dismiss(&mut self, uid: u32) {
        self.give_back(&Payer::User(uid), Amount::CLIENT);
    }

    /// Takes `amount` for a domain: of the user's and of the project's. Reason: MAX_DMB.
    pub(crate) fn take(&mut self, domain: &Domain, amount: Amount, policy: &Policy) -> Result<(), Reason> {
        let uid = domain.user.uid;
        let of = |accounts: &Self, payer: &Payer| accounts.0.get(payer).copied().unwrap_or_default();
        let user = Payer::User(uid);
        let users = of(self, &user).plus(amount);
        let project = domain.project.clone().map(Payer::Project);
        let projects = project.as_ref().map(|payer| of(self, payer).plus(amount));
        if !users.is_within(policy.quota_of(uid))
            || projects.is_some_and(|sum| !sum.is_within(policy.project_quota))
        {
            return Err(Reason::MAX_DMB);
        }
        self.0.insert(user, users);
        self.0.extend(project.zip(projects));
        Ok(())
    }

    /// Gives `amount` back.
    pub(crate) fn give(&mut self, domain: &Domain, amount: Amount) {
        self.give_back(&Payer::User(domain.user.uid), amount);
        if let Some(project) = domain.project.clone() {
            self.give_back(&Payer::Project(project), amount);
        }
    }

    fn give_back(&mut self, payer: &Payer, amount: Amount) {
        if let Some(account) = self.0.get_mut(payer) {
            *account = account.minus(amount);
            if *account == Amount::default() {
                self.0.remove(payer);
            }
        }
    }

    /// What users have, by uid.
    pub(crate) fn users(&self) -> impl Iterator<Item = (u32, Amount)> {
        self.0.iter().filter_map(|(payer, amount)| match payer {
            Payer::User(uid) => Some((*uid, *amount)),
            Payer::Project(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::file::parse;
    use crate::who::User;

    #[test]
    fn nobody_gets_beyond_his_quota_nor_his_projects() {
        let text = "[quota.user]\nsegments = 3\n[quota.project]\nbytes = 100\n";
        let policy = parse("test", text).unwrap_or_else(|fault| panic!("{fault}"));
        let mut accounts = Accounts::default();
        let domain = |uid, project: Option<&str>| Domain {
            user: User { uid, user_namespace: 1, process_namespace: 1 },
            project: project.map(String::from),
        };
        let (one, other) = (domain(1, Some("web")), domain(2, Some("web")));
        for (who, bytes, expected) in
            [(&one, 60, true), (&other, 60, false), (&other, 40, true), (&one, 1, false)]
        {
            let taken = accounts.take(who, Amount::segment(bytes), &policy);
            assert_eq!(taken.is_ok(), expected, "{who:?} {bytes}");
        }
        accounts.give(&one, Amount::segment(60));
        assert!(accounts.take(&other, Amount::segment(60), &policy).is_ok());
        let alone = domain(1, None);
        for expected in [true, true, true, false] {
            assert_eq!(accounts.take(&alone, Amount::segment(1), &policy).is_ok(), expected);
        }
    }

    #[test]
    fn what_was_given_back_leaves_nothing() {
        let policy = parse("test", "").unwrap_or_else(|fault| panic!("{fault}"));
        let mut accounts = Accounts::default();
        accounts.admit(1, &policy).expect("room");
        accounts.dismiss(1);
        accounts.dismiss(1);
        assert_eq!(accounts.0.len(), 0);
    }
}
