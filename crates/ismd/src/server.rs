//! The daemon's loop: one thread, one epoll set. Owns: nobody waits for anybody else: sockets never block,
//! each is served a few packets per round, whoever does not read his answers or says what is no message is
//! thrown out, who connects and says nothing is after a second, and what may be slow to close is closed
//! elsewhere. Where no more can be accepted, nobody is for a while: the queue keeps them.

use crate::broker::{Answer, Broker};
use crate::closer::Closer;
use crate::homing::Homing;
use crate::mark::Mark;
use crate::policy::Policy;
use crate::quota::Common;
use crate::rights::{self, Rights};
use crate::scrape::Scrapes;
use crate::tables::{Asker, Earlier, Ruled};
use crate::trace::{Filter, Tracers};
use crate::who::{self, Credentials, Payer, User, Who};
use crate::{metrics, passed};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials, sockopt::PeerPidfd};
use os::passing;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};
use tracing::{debug, info, warn};
use wire::Reason;
use wire::host::{Event, MESSAGE_MAX, Message};

/// A packet is handled in microseconds: so many of one client's, then it is the next one's turn.
const PACKETS: usize = 16;
/// So many connections are taken per round.
const ACCEPTS: usize = 64;
/// So long one may be connected without having said hello.
const SILENCE: Duration = Duration::from_secs(1);

/// So long after a question for a table no other one is answered.
const AGAIN: Duration = Duration::from_millis(500);
/// So long nobody is accepted where there are no descriptors left, unless somebody goes before.
const PAUSE: Duration = Duration::from_millis(200);

/// What an event is about.
const LISTENER: u64 = 0;
const METRICS: u64 = 1;
const SIGNAL: u64 = 2;
#[cfg(have_mark)]
const TRACED: u64 = 3;
const FIRST: u64 = 16;
/// Of the number of a connection: its process has ended. (A child may have the socket still.)
const ENDED: u64 = 1 << 63;
/// Beside the number of a process that an earlier daemon knew: it has ended.
const EARLIER_ENDED: u64 = 1 << 62;

/// The daemon, running.
pub(crate) struct Server {
    epoll: OwnedFd,
    listener: OwnedFd,
    metrics: Option<OwnedFd>,
    pub(crate) broker: Broker<OwnedFd>,
    connections: HashMap<u64, Connection>,
    /// Those that have not said hello, the oldest first.
    silent: BTreeMap<u64, Instant>,
    /// Connections for which there are descriptors.
    most: usize,
    scrapes: Scrapes,
    closer: Closer,
    mark: Option<Mark>,
    tracers: Tracers,
    homing: Homing,
    /// Whose connection a process has its table by.
    registered: HashMap<u32, u64>,
    /// Processes that have a table from an earlier daemon, with their fabrics, and have not come back yet.
    earlier: HashMap<u32, (Who, u16)>,
    /// What tells of their ends, until they are heard.
    ends: HashMap<u32, OwnedFd>,
    /// Processes of those that may take no part for now.
    suspended: HashSet<u32>,
    /// Nobody is accepted until then.
    paused: Option<Instant>,
    next: u64,
    daemon: User,
}

/// Where the daemon is asked.
pub(crate) struct Sockets {
    /// By programs.
    pub(crate) programs: OwnedFd,
    /// By scrapes.
    pub(crate) metrics: Option<OwnedFd>,
    /// At one time, by so many.
    pub(crate) most: usize,
    /// And what marks their connections.
    pub(crate) mark: Option<Mark>,
}

/// One connection to the socket.
struct Connection {
    socket: OwnedFd,
    peer: Credentials,
    payer: Payer,
    /// Once it has said hello.
    client: Option<u32>,
    /// Once it was asked.
    user: Option<User>,
    /// What tells of the end of its process.
    process: Option<OwnedFd>,
    /// When it last asked for a table.
    asked: Option<Instant>,
}

impl Connection {
    /// It asks for a table, now. Whether it may: a library that was refused asks again after a second.
    fn asks_again_in_time(&mut self) -> bool {
        let before = self.asked.replace(Instant::now());
        before.is_none_or(|before| before.elapsed() >= AGAIN)
    }
}

/// Why a round ended early.
pub(crate) enum Wake {
    /// Somebody has sent a signal.
    Signal,
    /// It was time, or there was something to do, and it was done.
    Other,
}

/// A connection is to be closed.
struct ThrowOut(&'static str);

impl Server {
    /// Serves `sockets` from now on; `signals` is readable when a signal has come.
    pub(crate) fn new(
        broker: Broker<OwnedFd>,
        sockets: Sockets,
        signals: BorrowedFd<'_>,
    ) -> anyhow::Result<Self> {
        let Sockets { programs: listener, metrics, most, mut mark } = sockets;
        let tracers = Tracers::new(mark.as_mut().and_then(|mark| mark.tap.take()));
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let watch = |fd: BorrowedFd<'_>, id| {
            rustix::io::ioctl_fionbio(fd, true)?;
            epoll::add(&epoll, fd, EventData::new_u64(id), EventFlags::IN)
        };
        watch(listener.as_fd(), LISTENER)?;
        watch(signals, SIGNAL)?;
        if let Some(metrics) = &metrics {
            watch(metrics.as_fd(), METRICS)?;
        }
        #[cfg(have_mark)]
        if let Some(events) = tracers.descriptor() {
            epoll::add(&epoll, events, EventData::new_u64(TRACED), EventFlags::IN)?;
        }
        // (Where the kernel lets accepted sockets inherit it, no packet comes without its sender.)
        let _ = passing::ask_for_senders(listener.as_raw_fd());
        let mut server = Server {
            epoll,
            listener,
            metrics,
            broker,
            connections: HashMap::new(),
            silent: BTreeMap::new(),
            most,
            scrapes: Scrapes::default(),
            closer: Closer::new(),
            homing: Homing::new(),
            registered: HashMap::new(),
            earlier: mark.as_ref().map(of_earlier).unwrap_or_default(),
            ends: HashMap::new(),
            mark,
            tracers,
            suspended: HashSet::new(),
            paused: None,
            next: FIRST,
            daemon: who::daemon()?,
        };
        server.watch_the_earlier();
        server.rule();
        Ok(server)
    }

    /// Waits for something, for `limit` at most or until somebody has been silent for too long, and does it.
    pub(crate) fn round(&mut self, limit: Option<Duration>) -> anyhow::Result<Wake> {
        let mut events = [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 64];
        let ready = match epoll::wait(&self.epoll, &mut events[..], self.time_left(limit).as_ref()) {
            Ok(count) => count,
            Err(Errno::INTR) => 0,
            Err(error) => return Err(error.into()),
        };
        let mut wake = Wake::Other;
        for event in &events[..ready] {
            match event.data.u64() {
                LISTENER => self.accept(),
                METRICS => self.accept_scrapes(),
                SIGNAL => wake = Wake::Signal,
                #[cfg(have_mark)]
                TRACED => self.tracers.hear(),
                id if id & ENDED != 0 => self.close(id & !ENDED, "its process has ended"),
                id if id & EARLIER_ENDED != 0 => self.forget_earlier(id as u32),
                id if self.scrapes.has(id) => {
                    let text = || metrics::text(&self.broker, self.mark.is_some());
                    self.scrapes.serve(id, text);
                }
                id => self.serve(id),
            }
        }
        self.throw_out_the_silent();
        if self.paused.is_some_and(|until| until <= Instant::now()) {
            self.go_on();
        }
        Ok(wake)
    }

    /// Those that have a table from an earlier daemon end, too.
    fn watch_the_earlier(&mut self) {
        let known = self.mark.as_ref().map(|mark| mark.known.keys().copied().collect()).unwrap_or(vec![]);
        for pid in known {
            let watched = who::open(pid).ok().filter(|process| {
                let id = EventData::new_u64(EARLIER_ENDED | u64::from(pid));
                epoll::add(&self.epoll, process, id, EventFlags::IN).is_ok()
            });
            match watched {
                Some(process) => _ = self.ends.insert(pid, process),
                None => self.forget_earlier(pid),
            }
        }
    }

    fn forget_earlier(&mut self, pid: u32) {
        self.ends.remove(&pid);
        self.earlier.remove(&pid);
        self.broker.forget_earlier(pid);
        // (Who has come back meanwhile is known by its connection.)
        if !self.registered.contains_key(&pid) {
            self.mark.iter().for_each(|mark| mark.forget(pid));
        }
    }

    /// No descriptors are left: the sockets stay readable, and are not to be looked at in vain.
    fn pause(&mut self) {
        if self.paused.is_none() {
            warn!("out of descriptors: accepts nobody for a moment");
            self.listen_for(EventFlags::empty());
        }
        self.paused = Some(Instant::now() + PAUSE);
    }

    fn go_on(&mut self) {
        if self.paused.take().is_some() {
            self.listen_for(EventFlags::IN);
        }
    }

    fn listen_for(&self, flags: EventFlags) {
        let sockets = [(Some(&self.listener), LISTENER), (self.metrics.as_ref(), METRICS)];
        for (socket, id) in sockets {
            let changed =
                socket.map(|socket| epoll::modify(&self.epoll, socket, EventData::new_u64(id), flags));
            if let Some(Err(error)) = changed {
                warn!(%error, "cannot change what is waited for");
            }
        }
    }

    /// Only while somebody is silent, or scrapes, is there a time to look at.
    fn time_left(&self, limit: Option<Duration>) -> Option<rustix::event::Timespec> {
        let silent = self.silent.first_key_value().map(|(_, since)| *since);
        let oldest = silent.into_iter().chain(self.scrapes.since()).min();
        let due = oldest.map(|since| (since + SILENCE).saturating_duration_since(Instant::now()));
        let paused = self.paused.map(|until| until.saturating_duration_since(Instant::now()));
        let wait = due.into_iter().chain(limit).chain(paused).min()?;
        // (Rounded up, or the last fraction of a millisecond would be spent looking.)
        (wait + Duration::from_millis(1)).try_into().ok()
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTS {
            match accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => self.welcome(socket),
                // (Whoever has gone again while he waited is no reason to wait.)
                Err(Errno::CONNABORTED | Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => return self.pause(),
            }
        }
    }

    fn welcome(&mut self, socket: OwnedFd) {
        let Ok(peer) = getsockopt(&socket, PeerCredentials) else { return };
        let peer = Credentials { pid: peer.pid().cast_unsigned(), uid: peer.uid(), gid: peer.gid() };
        let most = self.most.min(self.broker.policy.daemon.clients as usize);
        let (open, closing) = (self.connections.len(), self.closer.waiting());
        let is_full = open + closing >= most || self.closer.is_full_of(peer.uid);
        let payer = who::payer(peer);
        let common = Common { total: most as u64, taken: (open + closing) as u64 };
        if is_full || self.broker.accounts.admit(payer, common, &self.broker.policy).is_err() {
            // (Said at debug: a flood must not fill the log.)
            debug!(peer.uid, peer.pid, is_full, "turned away");
            *self.broker.counts.refused.entry(Reason::MAX_DMB).or_default() += 1;
            return self.closer.dispose(peer.uid, socket);
        }
        let id = self.next;
        self.next += 1;
        let watched = epoll::add(&self.epoll, &socket, EventData::new_u64(id), EventFlags::IN).is_ok();
        if !watched || passing::ask_for_senders(socket.as_raw_fd()).is_err() {
            self.broker.accounts.dismiss(payer);
            return self.closer.dispose(peer.uid, socket);
        }
        self.connections.insert(
            id,
            Connection { socket, peer, payer, client: None, user: None, process: None, asked: None },
        );
        self.silent.insert(id, Instant::now());
    }

    fn accept_scrapes(&mut self) {
        for _ in 0..ACCEPTS {
            let Some(listener) = &self.metrics else { return };
            let socket = match accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => socket,
                Err(Errno::CONNABORTED | Errno::INTR) => continue,
                Err(Errno::AGAIN) => return,
                Err(_) => return self.pause(),
            };
            if self.scrapes.is_full()
                || epoll::add(&self.epoll, &socket, EventData::new_u64(self.next), EventFlags::IN).is_err()
            {
                continue;
            }
            self.scrapes.add(self.next, socket);
            self.next += 1;
        }
    }

    /// Some packets of one client.
    fn serve(&mut self, id: u64) {
        for _ in 0..PACKETS {
            let Some(connection) = self.connections.get(&id) else { return };
            let mut bytes = [0; MESSAGE_MAX];
            let (socket, uid) = (connection.socket.as_raw_fd(), connection.peer.uid);
            let doubtful = |number| self.closer.doubtful(uid, number);
            let done = match passing::receive_whole(socket, &mut bytes, |more| drop(doubtful(more))) {
                Err(os::Errno::EAGAIN | os::Errno::EINTR) => return,
                Err(_) => Err(ThrowOut("too long a packet, or too many descriptors")),
                // (Everything was read, and nothing can come any more.)
                Ok(passing::Packet { len: 0, passed: None, sender: None }) => return self.leave(id),
                Ok(packet) => {
                    let passed = packet.passed.map(|number| passed::Passed::new(doubtful(number)));
                    self.handle(id, &bytes[..packet.len], packet.sender, passed)
                }
            };
            if let Err(ThrowOut(why)) = done {
                self.broker.counts.thrown_out += 1;
                return self.close(id, why);
            }
        }
    }

    fn handle(
        &mut self,
        id: u64,
        packet: &[u8],
        sender: Option<passing::Sender>,
        passed: Option<passed::Passed>,
    ) -> Result<(), ThrowOut> {
        let connection = self.connections.get(&id).ok_or(ThrowOut("unknown"))?;
        let (tag, message) = Message::parse(packet).map_err(|_| ThrowOut("no message"))?;
        if message.has_descriptor() != passed.is_some() {
            return Err(ThrowOut("a descriptor too many, or too few"));
        }
        require_sender(&connection.peer, sender, matches!(message, Message::Hello { .. }))?;
        let (client, reply) = (connection.client, Reply { socket: connection.socket.as_raw_fd(), tag });
        match message {
            Message::List { after } => return self.list(id, after, reply),
            Message::Enable { uid, is_enabled } => return self.enable(id, uid, is_enabled, reply),
            Message::Trace { pid, port, address } => {
                return self.trace(id, Filter { pid, port, address }, reply);
            }
            _ => {}
        }
        let Some(client) = client else {
            return self.hello(id, message, reply);
        };
        match message {
            Message::Register { has_table, proof } => {
                return self.register(id, client, (has_table, proof), reply);
            }
            Message::Decline { owner, cookie, nonce } => {
                let peer = connection.peer;
                self.decline(peer, owner, cookie, nonce);
                return reply.send(Message::Done, None);
            }
            _ => {}
        }
        let pid = connection.peer.pid;
        // (Of a claim the one who offered is the client.)
        let pair = match message {
            Message::Claim { owner, .. } | Message::Open { owner, .. } => (self.broker.pid_of(owner), pid),
            _ => (pid, 0),
        };
        let answered = answer(&mut self.broker, client, message, passed);
        match &answered {
            Ok(Answer::Memory(..)) => self.tracers.tell(Event::PASSED, Reason(0), pair, 0),
            Err(reason) => self.tracers.tell(Event::REFUSED, *reason, pair, 0),
            Ok(_) => {}
        }
        match answered {
            Ok(Answer::Say(message)) => reply.send(message, None),
            Ok(Answer::Memory(message, memory)) => reply.send(message, Some(memory)),
            Ok(Answer::Doorbell(message, bell)) => match passed::open_anew(bell) {
                Ok(bell) => reply.send(message, Some(&bell)),
                Err(_) => reply.send(Message::Refused(Reason::MEM), None),
            },
            Err(reason) => self.refuse(id, client, reason, &message, reply),
        }
    }

    /// The thread that makes tables answers.
    fn register(
        &mut self,
        id: u64,
        client: u32,
        (has_table, proof): (bool, u32),
        reply: Reply,
    ) -> Result<(), ThrowOut> {
        let newest = self.newest_of(id)?;
        let connection = self.connections.get_mut(&id).ok_or(ThrowOut("unknown"))?;
        let Credentials { pid, uid, .. } = connection.peer;
        if newest.is_some_and(|newest| newest > id) {
            return Err(ThrowOut("the process has become another program since it connected"));
        }
        if has_table && proof != 0 {
            // (It may be another program by now that has this socket, and would say what it is given to say.)
            let is_same = who::ask(&connection.socket, connection.peer).map(|who| who.user).ok();
            if is_same != connection.user {
                return Err(ThrowOut("it is another process, or user, than said hello"));
            }
        } else if !connection.asks_again_in_time() {
            return Err(ThrowOut("a second table"));
        }
        let copy = connection.socket.try_clone();
        let rights = self.broker.rights_of(client);
        let (Some(mark), Ok(socket), Some(rights)) = (&self.mark, copy, rights) else {
            return reply.send(Message::Refused(Reason::NOSMCDDEV), None);
        };
        match mark.register(Asker { pid, uid, client, rights, socket, tag: reply.tag, has_table, proof }) {
            Ok(()) => _ = self.registered.insert(pid, id),
            Err(reason) => return reply.send(Message::Refused(reason), None),
        }
        self.earlier.remove(&pid);
        self.suspended.remove(&pid);
        if !self.broker.is_enabled(client) {
            self.allow_or_suspend();
        } else if has_table && proof == 0 {
            mark.allow(pid, true);
        }
        Ok(())
    }

    /// By which connection the process of this one is known, if by any.
    fn newest_of(&self, id: u64) -> Result<Option<u64>, ThrowOut> {
        let connection = self.connections.get(&id).ok_or(ThrowOut("unknown"))?;
        let newest = self.registered.get(&connection.peer.pid).copied();
        Ok(newest.filter(|newest| self.connections.contains_key(newest)))
    }

    fn decline(&mut self, peer: Credentials, owner: u32, cookie: u64, nonce: u64) {
        if let (Some(mark), Some(pid)) = (&self.mark, self.broker.offerer(owner, nonce)) {
            mark.decline(peer.uid, pid, cookie);
            self.tracers.tell(Event::DECLINED, Reason::PEERDECL, (pid, peer.pid), cookie);
        }
    }

    /// Who may see all functions may see all connections.
    fn trace(&mut self, id: u64, filter: Filter, reply: Reply) -> Result<(), ThrowOut> {
        if !self.user_of(id)?.is_some_and(|user| self.is_operator(user)) {
            return reply.send(Message::Refused(Reason::CNFERR), None);
        }
        if let Err(reason) = self.tracers.add(id, reply.socket, reply.tag, filter) {
            return reply.send(Message::Refused(reason), None);
        }
        self.silent.remove(&id);
        reply.send(Message::Done, None)
    }

    /// Root and the daemon's own user see all functions, if they are where it is; others see their own.
    /// Nobody needs one to ask.
    fn list(&mut self, id: u64, after: u32, reply: Reply) -> Result<(), ThrowOut> {
        let Some(user) = self.user_of(id)? else {
            return reply.send(Message::Refused(Reason::CNFERR), None);
        };
        let only = (!self.is_operator(user)).then_some(user);
        reply.send(self.broker.list(only, after, self.mark.is_some()), None)
    }

    fn user_of(&mut self, id: u64) -> Result<Option<User>, ThrowOut> {
        let connection = self.connections.get_mut(&id).ok_or(ThrowOut("unknown"))?;
        if connection.user.is_none() {
            connection.user = who::ask(&connection.socket, connection.peer).ok().map(|who| who.user);
        }
        Ok(connection.user)
    }

    fn is_operator(&self, user: User) -> bool {
        user == self.daemon || user == User { uid: 0, ..self.daemon }
    }

    /// Takes a function away, or gives it back. Nobody needs one to ask, but must be who sees all.
    fn enable(&mut self, id: u64, uid: u32, is_enabled: bool, reply: Reply) -> Result<(), ThrowOut> {
        if !self.user_of(id)?.is_some_and(|user| self.is_operator(user)) {
            return reply.send(Message::Refused(Reason::CNFERR), None);
        }
        if !self.broker.enable(uid, is_enabled) {
            return reply.send(Message::Refused(Reason::SYNCERR), None);
        }
        info!(uid, is_enabled, "an operator's word on a function");
        self.take_back();
        reply.send(Message::Done, None)
    }

    /// Another policy, from now on, for what there is as well.
    pub(crate) fn adopt(&mut self, policy: Policy) {
        self.broker.adopt(policy);
        self.rule();
        self.take_back();
    }

    /// Tells the kernel what the policy says. (Before anything is taken back: what is, does not begin anew.)
    fn rule(&self) {
        let Some(mark) = &self.mark else { return };
        let policy = &self.broker.policy;
        let of_client = |(pid, id): (&u32, &u64)| {
            let client = self.connections.get(id)?.client?;
            Some((*pid, self.broker.rights_of(client)?))
        };
        let of_earlier = |(pid, (who, vchid)): (&u32, &(Who, u16))| {
            Some((*pid, Rights::of(who, policy.fabric_for(who, *vchid)?.vchid, policy)))
        };
        let earlier = self.earlier.iter().filter_map(of_earlier);
        let rights = earlier.chain(self.registered.iter().filter_map(of_client)).collect();
        mark.rule(Ruled { lines: rights::lines(policy), rights });
    }

    /// The kernel marks connections only of processes whose function works.
    fn allow_or_suspend(&mut self) {
        let Some(mark) = &self.mark else { return };
        for (pid, id) in &self.registered {
            let Some(client) = self.connections.get(id).and_then(|connection| connection.client) else {
                continue;
            };
            match self.broker.is_enabled(client) {
                true if self.suspended.remove(pid) => mark.allow(*pid, true),
                false if self.suspended.insert(*pid) => mark.allow(*pid, false),
                _ => {}
            }
        }
    }

    fn take_back(&mut self) {
        self.allow_or_suspend();
        let all = self.broker.take_back();
        if !all.is_empty() {
            info!(segments = all.len(), "takes memory back: its connections go to TCP");
        }
        all.into_iter().for_each(|offer| self.homing.send(offer));
    }

    fn hello(&mut self, id: u64, message: Message, reply: Reply) -> Result<(), ThrowOut> {
        let Message::Hello { vchid } = message else { return Err(ThrowOut("it did not say hello")) };
        let connection = self.connections.get_mut(&id).ok_or(ThrowOut("unknown"))?;
        let peer = connection.peer;
        let who = match who::ask(&connection.socket, peer) {
            Ok(who) => who,
            Err(error) => {
                info!(peer.pid, peer.uid, error = format!("{error:#}"), "not let in");
                *self.broker.counts.refused.entry(Reason::CNFERR).or_default() += 1;
                return reply.send(Message::Refused(Reason::CNFERR), None);
            }
        };
        let (user, program, cgroup) = (who.user, who.program.clone(), who.cgroup.clone());
        match self.broker.hello(who, vchid) {
            Ok((client, welcome)) => {
                connection.client = Some(client);
                connection.process = watch_process(&self.epoll, &connection.socket, id | ENDED);
                self.silent.remove(&id);
                connection.user = Some(user);
                debug!(client, peer.pid, peer.uid, program, cgroup, "hello");
                reply.send(welcome, None)
            }
            Err(reason) => {
                info!(peer.pid, peer.uid, program, cgroup, %reason, "no function");
                self.tracers.tell(Event::REFUSED, reason, (peer.pid, 0), 0);
                *self.broker.counts.refused.entry(reason).or_default() += 1;
                reply.send(Message::Refused(reason), None)
            }
        }
    }

    fn refuse(
        &mut self,
        id: u64,
        client: u32,
        reason: Reason,
        message: &Message,
        reply: Reply,
    ) -> Result<(), ThrowOut> {
        *self.broker.counts.refused.entry(reason).or_default() += 1;
        let peer = self.connections.get(&id).map(|connection| connection.peer.uid);
        info!(client, uid = peer, %reason, text = reason.text(), question = ?message, "refused");
        if self.broker.is_guessing(client) {
            warn!(client, uid = peer, "guesses at other clients' memory");
            return Err(ThrowOut("it guesses"));
        }
        reply.send(Message::Refused(reason), None)
    }

    /// The other end has closed.
    fn leave(&mut self, id: u64) {
        if let Some((socket, _)) = self.forget(id, "closed") {
            drop(socket);
            self.go_on();
        }
    }

    fn close(&mut self, id: u64, why: &str) {
        let Some((socket, uid)) = self.forget(id, why) else { return };
        // (It may be open for a while yet.)
        let _ = epoll::delete(&self.epoll, &socket);
        self.closer.dispose(uid, socket);
        self.go_on();
    }

    fn forget(&mut self, id: u64, why: &str) -> Option<(OwnedFd, u32)> {
        let connection = self.connections.remove(&id)?;
        self.silent.remove(&id);
        self.tracers.remove(id);
        let Connection { socket, peer, payer, client, .. } = connection;
        debug!(client, peer.pid, peer.uid, why, "gone");
        if let Some(client) = client {
            self.broker.gone(client);
        }
        if self.registered.get(&peer.pid) == Some(&id) {
            self.registered.remove(&peer.pid);
            self.suspended.remove(&peer.pid);
            self.mark.iter().for_each(|mark| mark.forget(peer.pid));
        }
        self.broker.accounts.dismiss(payer);
        Some((socket, peer.uid))
    }

    fn throw_out_the_silent(&mut self) {
        while let Some((id, since)) = self.silent.first_key_value().map(|(id, since)| (*id, *since))
            && since.elapsed() >= SILENCE
        {
            self.broker.counts.thrown_out += 1;
            self.close(id, "silent");
        }
        self.scrapes.drop_older_than(SILENCE);
    }
}

/// Lets the loop hear of the end of the process that connected `socket`.
fn watch_process(epoll: &OwnedFd, socket: &OwnedFd, id: u64) -> Option<OwnedFd> {
    let process = getsockopt(socket, PeerPidfd).ok()?;
    epoll::add(epoll, &process, EventData::new_u64(id), EventFlags::IN).ok()?;
    Some(process)
}

/// Who they are now.
fn of_earlier(mark: &Mark) -> HashMap<u32, (Who, u16)> {
    let look = |(pid, earlier): (&u32, &Earlier)| Some((*pid, (who::look_at(*pid).ok()?, earlier.vchid)));
    mark.known.iter().filter_map(look).collect()
}

/// Only the process that connected, and only as the user that it was, is heard: not a child that has the
/// socket, and not a worker that gave its user up.
fn require_sender(
    peer: &Credentials,
    sender: Option<passing::Sender>,
    is_first: bool,
) -> Result<(), ThrowOut> {
    match sender {
        Some(sender) if (sender.pid, sender.uid) == (peer.pid, peer.uid) => Ok(()),
        // A hello between accept() and SO_PASSCRED, on older kernels: it is judged by the socket alone.
        None if is_first => Ok(()),
        Some(passing::Sender { pid: 0, uid: 0xFFFE, .. }) if is_first => Ok(()),
        _ => Err(ThrowOut("another process, or another user, than connected")),
    }
}

fn answer<'a>(
    broker: &'a mut Broker<OwnedFd>,
    client: u32,
    message: Message,
    passed: Option<passed::Passed>,
) -> Result<Answer<'a, OwnedFd>, Reason> {
    match (message, passed) {
        (Message::Offer { number, size, nonce }, Some(passed)) => {
            let memory = passed.into_memory(size)?;
            broker.offer(client, (number, size, nonce), memory).map(Answer::Say)
        }
        (Message::Hang { memory, number }, Some(passed)) => {
            let bell = passed.into_doorbell()?;
            broker.hang(client, (memory, number), bell).map(Answer::Say)
        }
        (Message::Claim { owner, number, nonce }, None) => broker.claim(client, (owner, number, nonce)),
        (Message::Open { owner, memory, number }, None) => broker.open(client, (owner, memory, number)),
        (Message::Withdraw { number }, None) => Ok(Answer::Say(broker.withdraw(client, number))),
        _ => Err(Reason::SYNCERR),
    }
}

/// Where an answer goes.
#[derive(Clone, Copy)]
struct Reply {
    socket: i32,
    tag: u32,
}

impl Reply {
    fn send(self, message: Message, passed: Option<&OwnedFd>) -> Result<(), ThrowOut> {
        let mut bytes = [0; MESSAGE_MAX];
        let len = message.emit(self.tag, &mut bytes).map_err(|_| ThrowOut("an answer too long"))?;
        let sent = passing::send(self.socket, &bytes[..len], passed.map(AsRawFd::as_raw_fd));
        sent.map_err(|_| ThrowOut("it does not read its answers"))
    }
}
