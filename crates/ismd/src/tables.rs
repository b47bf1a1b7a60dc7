//! The kernel's maps about processes, as the daemon writes them, for `bpf/mark.bpf.c`. Owns: that a table,
//! and the number under which a process is known, is given by the daemon alone, and counts for the program
//! that asked and no other; that who has ended loses both; and that a policy counts once all of it is
//! written ([`crate::rights`]).
//!
//! At exec, and at its end, the kernel forgets a process. A question may be older than that: it waits in a
//! socket. So who is given a table has to answer with the proof that lies in it, as itself (`server` looks at
//! the sender), and only then does its number count; what was forgotten meanwhile cannot be made to count.
//!
//! Each change of the map of tables costs the kernel a grace period of some 10 ms, and many at once cost one:
//! so a round of jobs makes its changes together.

use crate::rights::{self, LINE, RIGHTS, Rights};
use fabric::host::marks;
use os::bpf;
use os::mem::Shared;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use tracing::{info, warn};
use wire::Reason;
use wire::host::{MESSAGE_MAX, Message};

/// Of the number of a client: it has answered since it was written.
const CONFIRMED: u32 = 1 << 31;
/// It may take no part for now.
const SUSPENDED: u32 = 1 << 30;
/// The number itself.
pub(crate) const NUMBER: u32 = SUSPENDED - 1;

/// Where its answer goes.
pub(crate) struct Asker {
    pub(crate) pid: u32,
    pub(crate) uid: u32,
    pub(crate) client: u32,
    pub(crate) rights: Rights,
    /// A copy of its connection.
    pub(crate) socket: OwnedFd,
    pub(crate) tag: u32,
    /// It has a table, from an earlier connection or with this proof.
    pub(crate) has_table: bool,
    pub(crate) proof: u32,
}

/// What is to be done.
pub(crate) enum Job {
    /// A process is to have a table, or says that it has one.
    Register(Asker),
    /// What this process offered with this socket is not taken up.
    Decline(u32, u64),
    /// It has ended, or takes part no more.
    Forget(u32),
    /// Whether connections of a process that has a table are marked.
    Allow(u32, bool),
    /// From now on this counts.
    Rule(Ruled),
}

/// A policy, as the kernel has it.
pub(crate) struct Ruled {
    /// All that is said of connections.
    pub(crate) lines: Vec<[u8; LINE]>,
    /// Of everybody who has a table. Nobody else shares memory.
    pub(crate) rights: Vec<(u32, Rights)>,
}

/// A process that has a table from an earlier daemon.
#[derive(Clone, Copy)]
pub(crate) struct Earlier {
    /// Its number.
    pub(crate) client: u32,
    /// The fabric that it was on, if that was known.
    pub(crate) vchid: u16,
}

/// The maps that the daemon writes.
pub(crate) struct Maps {
    tables: i32,
    clients: i32,
    rules: i32,
    rights: i32,
    policy: i32,
    /// Which half counts.
    half: u32,
    /// What the kernel has of processes.
    written: HashMap<u32, [u8; RIGHTS]>,
    /// The tables that it has given, by process, and places of those that it has taken back.
    given: HashMap<u32, Shared>,
    places: Vec<Shared>,
    /// What is to be answered by whom, who has not answered yet.
    proofs: HashMap<u32, u32>,
    /// What this round changes in the map of tables.
    gone: Vec<u32>,
    asked: Vec<Asked>,
}

/// A process with a table that the kernel is to know.
struct Asked {
    asker: Asker,
    table: i32,
}

impl Drop for Asked {
    fn drop(&mut self) {
        os::fd::close(self.table);
    }
}

impl Drop for Maps {
    fn drop(&mut self) {
        let all = [self.tables, self.clients, self.rules, self.rights, self.policy];
        all.into_iter().for_each(os::fd::close);
    }
}

impl Maps {
    /// Those that `map` finds by their names.
    pub(crate) fn of(map: impl Fn(&str) -> anyhow::Result<i32>) -> anyhow::Result<Maps> {
        let (tables, clients, rules) = (map("tables")?, map("clients")?, map("rules")?);
        let (rights, policy) = (map("rights")?, map("policy")?);
        let half = bpf::get(policy, 0).unwrap_or(0) & 1;
        let (written, given, proofs) = (HashMap::new(), HashMap::new(), HashMap::new());
        let (places, gone, asked) = (vec![], vec![], vec![]);
        Ok(Maps { tables, clients, rules, rights, policy, half, written, given, places, proofs, gone, asked })
    }

    /// Processes that an earlier daemon knew, with their numbers; the others are forgotten.
    pub(crate) fn of_the_living(&mut self) -> HashMap<u32, Earlier> {
        let (mut living, mut dead, mut last) = (HashMap::new(), vec![], None);
        while let Ok(pid) = bpf::next_key(self.clients, last) {
            last = Some(pid);
            match bpf::get(self.clients, pid) {
                Ok(client) if client & CONFIRMED != 0 && os::process::exists(pid) => {
                    let mut rights = [0; RIGHTS];
                    let is_known = bpf::read(self.rights, pid, &mut rights).is_ok();
                    let vchid = if is_known { rights::vchid_in(&rights) } else { 0 };
                    self.written.extend(is_known.then_some((pid, rights)));
                    living.insert(pid, Earlier { client: client & NUMBER, vchid });
                }
                _ => dead.push(pid),
            }
        }
        last = None;
        while let Ok(pid) = bpf::next_key(self.tables, last) {
            last = Some(pid);
            if !living.contains_key(&pid) {
                dead.push(pid);
            }
        }
        self.perform(dead.into_iter().map(Job::Forget).collect());
        living
    }

    /// Does all of it.
    pub(crate) fn perform(&mut self, jobs: Vec<Job>) {
        for job in jobs {
            match job {
                Job::Forget(pid) => self.forget(pid),
                Job::Allow(pid, is_allowed) => self.allow(pid, is_allowed),
                Job::Decline(pid, cookie) => {
                    if let Some(table) = self.given.get(&pid) {
                        marks::decline(table, cookie);
                    }
                }
                Job::Rule(ruled) => {
                    let (lines, processes) = (ruled.lines.len(), ruled.rights.len());
                    match self.rule(&ruled) {
                        Ok(()) => info!(lines, processes, "the kernel has the policy"),
                        Err(errno) => warn!(?errno, "the kernel does not take the policy"),
                    }
                }
                Job::Register(asker) if asker.has_table && self.counts(&asker) => {
                    asker.answer(Message::Done, None);
                }
                // (A proof that does not hold asks for nothing.)
                Job::Register(asker) if asker.proof != 0 => {
                    asker.answer(Message::Refused(Reason::SYNCERR), None);
                }
                Job::Register(asker) => self.prepare(asker),
            }
        }
        self.end_round();
    }

    fn forget(&mut self, pid: u32) {
        // (Who asked has gone, and is not to cost anybody a round.)
        self.asked.retain(|asked| asked.asker.pid != pid);
        // (Its number first: then it can ask for nothing more.)
        let _ = bpf::remove(self.clients, pid);
        let _ = bpf::remove(self.rights, pid);
        self.written.remove(&pid);
        self.proofs.remove(&pid);
        let given = self.given.remove(&pid);
        self.retire(given);
        self.gone.push(pid);
    }

    /// The place of a table that is nobody's serves another one.
    fn retire(&mut self, table: Option<Shared>) {
        self.places.extend(table.filter(|table| os::mem::retire(table).is_ok()));
    }

    fn is_asked_for(&self, pid: u32) -> bool {
        self.asked.iter().any(|asked| asked.asker.pid == pid)
    }

    fn allow(&mut self, pid: u32, is_allowed: bool) {
        if self.is_asked_for(pid) {
            self.end_round();
        }
        if let Ok(client) = bpf::get(self.clients, pid) {
            let client = if is_allowed { client & !SUSPENDED } else { client | SUSPENDED };
            let _ = bpf::set_existing(self.clients, pid, client);
        }
    }

    /// Whether the kernel knows the process by its number, as the program that asks: it was so before, or it
    /// answers with the proof.
    fn counts(&mut self, asker: &Asker) -> bool {
        let pid = asker.pid;
        let is_proven = self.proofs.get(&pid).is_some_and(|proof| *proof == asker.proof);
        let is_known = bpf::get(self.clients, pid)
            .is_ok_and(|known| known & NUMBER == asker.client && (is_proven || known & CONFIRMED != 0));
        if !is_known {
            return false;
        }
        self.proofs.remove(&pid);
        if let Err(errno) = self.write(pid, &asker.rights, self.half) {
            warn!(pid, ?errno, "cannot have rights");
        }
        let suspended = bpf::get(self.clients, pid).map_or(0, |known| known & SUSPENDED);
        // (It may have become another program since it asked: then there is no such entry.)
        bpf::set_existing(self.clients, pid, asker.client | CONFIRMED | suspended).is_ok()
    }

    /// A table that the process is to have at the end of the round.
    fn prepare(&mut self, asker: Asker) {
        // (What is changed now is of a program that nobody knows by its number yet.)
        let _ = bpf::remove(self.clients, asker.pid);
        if let Err(errno) = self.write(asker.pid, &asker.rights, self.half) {
            warn!(pid = asker.pid, ?errno, "cannot have rights");
        }
        let table = match bpf::new_table(marks::ENTRIES as u32, marks::ENTRY as u32) {
            Ok(table) => table,
            Err(errno) => return asker.refuse(errno),
        };
        let proof = (os::process::random_u64() as u32).max(1);
        let asked = Asked { asker, table };
        let Some(mapped) = self.map(table) else { return asked.asker.refuse(os::Errno::ENOMEM) };
        marks::lay_proof(mapped, proof);
        let before = self.given.insert(asked.asker.pid, mapped);
        self.retire(before);
        self.asked.retain(|other| other.asker.pid != asked.asker.pid);
        self.proofs.insert(asked.asker.pid, proof);
        self.gone.retain(|pid| *pid != asked.asker.pid);
        self.asked.push(asked);
    }

    /// What the round changes in the map of tables; who waits for that is answered.
    fn end_round(&mut self) {
        let (gone, asked) = (std::mem::take(&mut self.gone), std::mem::take(&mut self.asked));
        bpf::remove_all(self.tables, &gone);
        let (pids, tables): (Vec<u32>, Vec<u32>) =
            asked.iter().map(|asked| (asked.asker.pid, asked.table.cast_unsigned())).unzip();
        let given = bpf::set_all(self.tables, &pids, &tables);
        for Asked { asker, table } in &asked {
            let size = marks::LEN as u64;
            match given.and_then(|()| bpf::set(self.clients, asker.pid, asker.client)) {
                Ok(()) => asker.answer(Message::Passed { size }, Some(*table)),
                Err(errno) => asker.refuse(errno),
            }
        }
    }

    fn write(&mut self, pid: u32, rights: &Rights, half: u32) -> os::Result<()> {
        let mut known = self.written.get(&pid).copied();
        let bytes = rights.write(half, &mut known);
        bpf::put(self.rights, pid, &bytes).inspect(|()| _ = self.written.insert(pid, bytes))
    }

    /// All of it into the half at which the program does not look, and then it looks there.
    fn rule(&mut self, ruled: &Ruled) -> os::Result<()> {
        let half = self.half ^ 1;
        for (at, line) in ruled.lines.iter().enumerate() {
            bpf::put(self.rules, half * rights::LINES as u32 + at as u32, line)?;
        }
        let others: Vec<u32> = self.written.keys().copied().collect();
        let are_named = |pid: &u32| ruled.rights.iter().any(|(named, _)| named == pid);
        for pid in others.into_iter().filter(|pid| !are_named(pid)) {
            let _ = bpf::remove(self.rights, pid);
            self.written.remove(&pid);
        }
        for (pid, rights) in &ruled.rights {
            // (What counted for it is not to count again.)
            if self.write(*pid, rights, half).is_err() {
                let _ = bpf::remove(self.rights, *pid);
                self.written.remove(pid);
            }
        }
        bpf::set(self.policy, 0, 2 | half)?;
        self.half = half;
        Ok(())
    }
}

impl Maps {
    fn map(&mut self, table: i32) -> Option<Shared> {
        match self.places.pop() {
            Some(place) => os::mem::remap_shared(place, table).is_ok().then_some(place),
            None => os::mem::map_shared(table, marks::LEN).ok(),
        }
    }
}

impl Asker {
    fn refuse(&self, errno: os::Errno) {
        warn!(pid = self.pid, ?errno, "cannot have a table");
        self.answer(Message::Refused(Reason::MEM), None);
    }

    fn answer(&self, message: Message, table: Option<i32>) {
        use std::os::fd::AsRawFd;
        let mut bytes = [0; MESSAGE_MAX];
        // (Who is gone, or does not read, learns nothing.)
        if let Ok(len) = message.emit(self.tag, &mut bytes) {
            let _ = os::passing::send(self.socket.as_raw_fd(), &bytes[..len], table);
        }
    }
}
