//! What users and projects have at the moment. Owns: what was counted is counted off again, nobody gets
//! beyond a quota, and of what all share whoever has nothing finds something: a few with much, however many
//! quotas they have together, leave the rest to others.

use crate::fabrics::Domain;
use crate::policy::{Policy, Quota};
use crate::who::Payer;
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

/// Who has an account.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Holder {
    User(Payer),
    Project(String),
}

/// The accounts.
#[derive(Default)]
pub(crate) struct Accounts(HashMap<Holder, Amount>);

/// Something that all share, and that quotas alone would give to a few: functions of a fabric, connections to
/// the daemon, descriptors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Common {
    /// So much of it there is.
    pub(crate) total: u64,
    /// So much of it somebody has.
    pub(crate) taken: u64,
}

impl Common {
    /// Whether one who holds so much may have one more.
    ///
    /// A 256th (one at least) is everybody's while there is any. Beyond it a quarter of the whole is kept for
    /// those who come with nothing: enough for 64 of them. Of what is free besides, one may hold a quarter.
    /// So one alone gets 3/20 of the whole (38 of 255 functions, 1228 of 8192 connections: more than the
    /// usual quotas), and the next four fifths of what the one before could have had.
    pub(crate) fn has_one_for(self, held: u64) -> bool {
        const EVERYBODYS: u64 = 256;
        const KEPT: u64 = 4;
        const OF_THE_FREE: u64 = 4;
        let Some(free) = self.total.saturating_sub(self.taken).checked_sub(1) else { return false };
        let plentiful = free.saturating_sub(self.total / KEPT);
        held < (self.total / EVERYBODYS).max(1) || (held + 1).saturating_mul(OF_THE_FREE) <= plentiful
    }
}

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

    /// Each segment is one, and each doorbell.
    fn descriptors(self) -> u64 {
        u64::from(self.segments) + u64::from(self.doorbells)
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
    pub(crate) fn admit(&mut self, payer: Payer, common: Common, policy: &Policy) -> Result<(), Reason> {
        let holder = Holder::User(payer);
        let account = self.of(&holder);
        let sum = account.plus(Amount::CLIENT);
        let is_fair = policy.has_own_quota(payer) || common.has_one_for(account.clients.into());
        if !is_fair || !sum.is_within(policy.quota_of(payer)) {
            return Err(Reason::MAX_DMB);
        }
        self.0.insert(holder, sum);
        Ok(())
    }

    /// It has gone.
    pub(crate) fn dismiss(&mut self, payer: Payer) {
        self.give_back(&Holder::User(payer), Amount::CLIENT);
    }

    fn of(&self, holder: &Holder) -> Amount {
        self.0.get(holder).copied().unwrap_or_default()
    }

    /// Descriptors that a domain's user holds, or its project, whichever are more.
    pub(crate) fn descriptors(&self, domain: &Domain) -> u64 {
        let project = domain.project.clone().map(Holder::Project);
        let all = [Some(Holder::User(domain.payer)), project];
        let counts = all.iter().flatten().map(|holder| self.of(holder).descriptors());
        counts.max().unwrap_or_default()
    }

    /// Takes `amount` for a domain: of the user's and of the project's. Reason: MAX_DMB.
    pub(crate) fn take(&mut self, domain: &Domain, amount: Amount, policy: &Policy) -> Result<(), Reason> {
        let user = Holder::User(domain.payer);
        let users = self.of(&user).plus(amount);
        let project = domain.project.clone().map(Holder::Project);
        let projects = project.as_ref().map(|holder| self.of(holder).plus(amount));
        if !users.is_within(policy.quota_of(domain.payer))
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
        self.give_back(&Holder::User(domain.payer), amount);
        if let Some(project) = domain.project.clone() {
            self.give_back(&Holder::Project(project), amount);
        }
    }

    fn give_back(&mut self, holder: &Holder, amount: Amount) {
        if let Some(account) = self.0.get_mut(holder) {
            *account = account.minus(amount);
            if *account == Amount::default() {
                self.0.remove(holder);
            }
        }
    }

    /// What users have.
    pub(crate) fn users(&self) -> impl Iterator<Item = (Payer, Amount)> {
        self.0.iter().filter_map(|(holder, amount)| match holder {
            Holder::User(payer) => Some((*payer, *amount)),
            Holder::Project(_) => None,
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
            payer: Payer::User(uid),
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
        let (one, common) = (Payer::User(1), Common { total: 10, taken: 0 });
        accounts.admit(one, common, &policy).expect("room");
        accounts.dismiss(one);
        accounts.dismiss(one);
        assert_eq!(accounts.0.len(), 0);
    }

    /// Each takes what he is given, up to his quota, one after the other; how many of the first `users` get
    /// something, and what the first ones get.
    fn grabbed(total: u64, quota: u64, users: usize) -> Vec<u64> {
        let mut taken = 0;
        let grab = |_| {
            let mut held = 0;
            while held < quota && (Common { total, taken }).has_one_for(held) {
                (held, taken) = (held + 1, taken + 1);
            }
            held
        };
        (0..users).map(grab).collect()
    }

    #[test]
    fn one_alone_has_his_quota_and_a_few_leave_something_to_many() {
        for (total, quota) in [(255, 32), (8192, 1024), (262_144, 24_096)] {
            let all = grabbed(total, quota, 64);
            assert_eq!(all[..2], [quota, quota], "of {total}");
            let least = total / 256;
            assert!(all.iter().all(|held| *held >= least.max(1)), "of {total}: {all:?}");
        }
        // (Eight users with 32 functions each, and nine with 1024 connections, had everything before.)
        assert!(grabbed(255, 32, 8).iter().sum::<u64>() < 180);
        assert!(grabbed(8192, 1024, 9).iter().sum::<u64>() < 5600);
    }

    #[test]
    fn many_with_one_each_have_all_and_whoever_waits_gets_what_is_given_back() {
        let mut accounts = Accounts::default();
        let policy = parse("test", "").unwrap_or_else(|fault| panic!("{fault}"));
        let admit = |accounts: &mut Accounts, uid, taken| {
            accounts.admit(Payer::User(uid), Common { total: 255, taken }, &policy).is_ok()
        };
        assert!((0..255).all(|uid| admit(&mut accounts, uid, u64::from(uid))));
        assert!(!admit(&mut accounts, 255, 255), "there is nothing left");
        assert!(
            admit(&mut accounts, 255, 254) && !admit(&mut accounts, 0, 190),
            "0 has one, and there are few"
        );
        assert!(admit(&mut accounts, 0, 60), "and there are many");
    }

    #[test]
    fn whom_the_policy_names_has_what_it_says_of_what_there_is() {
        let text = "[[quota.special]]\nuid = 7\nclients = 9\n";
        let policy = parse("test", text).unwrap_or_else(|fault| panic!("{fault}"));
        let mut accounts = Accounts::default();
        let mut admitted = |uid| {
            let mut admit = |taken| accounts.admit(Payer::User(uid), Common { total: 10, taken }, &policy);
            (0..10).take_while(|taken| admit(*taken).is_ok()).count()
        };
        assert_eq!([admitted(7), admitted(8)], [9, 1]);
    }
}
