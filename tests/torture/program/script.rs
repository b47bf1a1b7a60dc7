//! What happens on a connection, derived from the seed and its number alone, so that both ends know it
//! without a word and one connection can be repeated. Invariant: the two ends' steps fit together: on TCP
//! every script comes to its end.

use crate::style::{Calls, Wait};
use std::ffi::OsString;
use std::sync::OnceLock;
use testkit::Random;
use testkit::random::mix;

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client = 0,
    Server = 1,
}

impl Side {
    pub(crate) const BOTH: [Side; 2] = [Side::Client, Side::Server];

    pub(crate) fn other(self) -> Side {
        if self == Side::Client { Side::Server } else { Side::Client }
    }
}

/// How the process behind a port serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    /// One connection after the other.
    Single,
    /// A thread per connection.
    Threads,
    /// Three processes accept from one listener, each one connection after the other.
    PreFork,
    /// A process per connection.
    Fork,
    /// A process per connection, replaced by exec with the socket as standard input and output.
    Inetd,
    /// One thread, one set, all connections.
    Loop,
    /// Threads take turns in one epoll set.
    Turns,
    /// Keeps the descriptors of connections that were reset, and writes to them later.
    Keeper,
}

impl Server {
    pub(crate) const ALL: [Server; 8] = [
        Server::Single,
        Server::Threads,
        Server::PreFork,
        Server::Fork,
        Server::Inetd,
        Server::Loop,
        Server::Turns,
        Server::Keeper,
    ];

    /// Whether each connection has a process of its own.
    pub(crate) fn is_solo(self) -> bool {
        matches!(self, Server::Fork | Server::Inetd)
    }

    /// Whether its connections are driven by readiness alone.
    pub(crate) fn is_loop(self) -> bool {
        matches!(self, Server::Loop | Server::Turns)
    }
}

/// How an end leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Close,
    Unread,
    Linger,
    Shutdown,
    ExitNow,
    Exit,
    Abort,
    Kill,
}

/// What happens to descriptor and process in the middle of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mid {
    ForkChildGoesOn,
    ForkParentGoesOn,
    ForkBothHold,
    ForkTakesTurns,
    Dup,
    Dup2,
    Dup2Stdin,
    Exec,
    ExecStdin,
    FailedExec,
    Spawn,
    Pass,
}

/// One step of an end; counts are totals of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Send(u64),
    Recv(u64),
    /// Microseconds.
    Idle(u64),
    Mid(Mid),
    ShutWrite,
    Eof,
    End(Ending),
}

/// What one end does and how.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) wait: Wait,
    pub(crate) calls: Calls,
    /// One list of steps, or two that run at once.
    pub(crate) lanes: Vec<Vec<Step>>,
    /// After the lanes.
    pub(crate) finale: Vec<Step>,
    /// Two lanes have a thread each.
    pub(crate) threads: bool,
}

/// A connection.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) number: u64,
    pub(crate) server: Server,
    /// Which of several servers of the kind.
    pub(crate) variant: usize,
    /// The client's end has a process of its own.
    pub(crate) solo_client: bool,
    /// The client connects without blocking.
    pub(crate) slow_connect: bool,
    /// Microseconds between its connect and its first bytes.
    pub(crate) silence: u64,
    pub(crate) plans: [Plan; 2],
}

/// Client processes of a run; connection N belongs to process N modulo this.
pub(crate) const CLIENTS: u64 = 5;
/// The client process that resets volleys of connections to the keeper.
pub(crate) const VOLLEYS: u64 = 4;

/// Loops with a readiness call each.
pub(crate) const LOOPS: usize = 4;
/// The servers of a run, each with its variant.
pub(crate) const SERVERS: [(Server, usize); 11] = [
    (Server::Single, 0),
    (Server::Threads, 0),
    (Server::PreFork, 0),
    (Server::Fork, 0),
    (Server::Inetd, 0),
    (Server::Loop, 0),
    (Server::Loop, 1),
    (Server::Loop, 2),
    (Server::Loop, 3),
    (Server::Turns, 0),
    (Server::Keeper, 0),
];

/// Whether the client processes with this index fork for each connection.
pub(crate) fn forks(process: u64) -> bool {
    process % 2 == 1
}

/// $TORTURE_ONLY: the number of a connection whose script all connections of the run follow.
pub(crate) fn only() -> Option<u64> {
    static ONLY: OnceLock<Option<u64>> = OnceLock::new();
    *ONLY.get_or_init(|| std::env::var("TORTURE_ONLY").ok()?.parse().ok())
}

/// $TORTURE_BRIEF: short connections, many at a time, between processes that live for the whole run.
pub(crate) fn is_brief() -> bool {
    static BRIEF: OnceLock<bool> = OnceLock::new();
    *BRIEF.get_or_init(|| std::env::var_os("TORTURE_BRIEF").is_some())
}

/// $TORTURE_NETWORK and $TORTURE_REGISTRY: the network of the clients, and their registry, where they have
/// others than the servers. A connection is not passed to another process then, which resets it
/// (LIMITATIONS).
pub(crate) fn network() -> Option<(OsString, OsString)> {
    std::env::var_os("TORTURE_NETWORK").zip(std::env::var_os("TORTURE_REGISTRY"))
}

/// Servers of brief connections.
const BRIEF: [Server; 3] = [Server::Threads, Server::Loop, Server::Turns];

/// Whether a client process takes part in the run.
pub(crate) fn takes_part(process: u64) -> bool {
    !is_brief() || (process != VOLLEYS && !forks(process))
}

struct Draft {
    random: Random,
    lanes: [Vec<Vec<Step>>; 2],
    finale: [Vec<Step>; 2],
}

impl Script {
    pub(crate) fn of(seed: u64, number: u64) -> Script {
        // A connection to be repeated lends its script to all.
        let model = only().unwrap_or(number);
        let mut random = Random::new(mix(seed ^ mix(model)));
        let process = model % CLIENTS;
        let server = match process {
            VOLLEYS => Server::Keeper,
            _ if is_brief() => BRIEF[random.below(BRIEF.len())],
            _ => Server::ALL[random.below(Server::ALL.len() - 1)],
        };
        let variant = if server == Server::Loop { (model / CLIENTS) as usize % LOOPS } else { 0 };
        let solo = [forks(process), server.is_solo()];
        let slow_connect = random.once_in(3);
        let silence = if random.once_in(2) { random.size(2000) as u64 } else { 0 };
        let mut draft = Draft { random, lanes: Default::default(), finale: Default::default() };
        let threads = draft.fill(solo, server);
        let Draft { mut random, lanes: [c, s], finale: [cf, sf] } = draft;
        let may_block = [true, !server.is_loop()];
        let mut plan = |side: usize, lanes: Vec<Vec<Step>>, finale| {
            let wait = Wait::any(&mut random, may_block[side]);
            let calls = Calls::any(&mut random);
            let threads = threads && may_block[side];
            // Without threads of their own, lanes that run at once must never block each other.
            let both = lanes.len() > 1 && !threads;
            let wait = if both && wait.is_blocking() { Wait::Poll } else { wait };
            Plan { wait, calls, lanes, finale, threads }
        };
        let plans = [plan(0, c, cf), plan(1, s, sf)];
        Script { number, server, variant, solo_client: solo[0], slow_connect, silence, plans }
    }

    pub(crate) fn plan(&self, side: Side) -> &Plan {
        &self.plans[side as usize]
    }

    /// Index of the server's port.
    pub(crate) fn port(&self) -> usize {
        SERVERS.iter().position(|s| *s == (self.server, self.variant)).expect("a server of the run")
    }

    pub(crate) fn is_solo(&self, side: Side) -> bool {
        if side == Side::Client { self.solo_client } else { self.server.is_solo() }
    }
}

impl Draft {
    /// Returns whether lanes have threads.
    fn fill(&mut self, solo: [bool; 2], server: Server) -> bool {
        let duplex = self.random.once_in(if is_brief() { 2 } else { 4 });
        let threads = self.random.once_in(2);
        let cutter = self.random.below(2);
        let cut = self
            .random
            .once_in(if is_brief() { 20 } else { 3 })
            .then(|| self.cut(solo[cutter], duplex && threads));
        if duplex {
            self.both_ways(cutter, cut);
        } else {
            self.turns(cutter, cut);
            if !is_brief() {
                self.middle(solo, server);
            }
        }
        threads
    }

    fn cut(&mut self, solo: bool, threads: bool) -> Ending {
        let shared: &[Ending] = if threads {
            // A close under another thread's blocked call ends nothing before that call returns.
            &[Ending::Shutdown]
        } else {
            &[Ending::Close, Ending::Unread, Ending::Linger, Ending::Shutdown]
        };
        let own = [Ending::ExitNow, Ending::Exit, Ending::Abort, Ending::Kill];
        if solo && self.random.once_in(2) {
            own[self.random.below(own.len())]
        } else {
            shared[self.random.below(shared.len())]
        }
    }

    /// Both directions at once.
    fn both_ways(&mut self, cutter: usize, cut: Option<Ending>) {
        let most = if is_brief() { 1 << 18 } else { 1 << 20 };
        let totals = [self.random.size(most) as u64, self.random.size(most) as u64];
        for side in 0..2 {
            let mut send = Vec::new();
            let mut at = 0;
            while at < totals[side] {
                at = (at + self.random.size(1 << 18) as u64).min(totals[side]);
                send.push(Step::Send(at));
            }
            if let (true, Some(ending)) = (side == cutter, cut) {
                send.truncate(self.random.below(send.len() + 1));
                send.push(Step::End(ending));
            }
            self.lanes[side] = vec![send, vec![Step::Recv(totals[1 - side])]];
        }
        self.orderly(cutter);
    }

    /// Messages one after the other, in turns or all one way.
    fn turns(&mut self, cutter: usize, cut: Option<Ending>) {
        let shape = self.random.below(4);
        let count = 1 + self.random.below(if shape < 2 { 40 } else { 8 });
        let most = if shape < 2 { 1 << 14 } else { 1 << 20 };
        let most = if is_brief() { most >> 3 } else { most };
        let end = if cut.is_some() { self.random.below(count) } else { count };
        let (mut totals, mut lanes) = ([0u64; 2], [Vec::new(), Vec::new()]);
        for i in 0..count {
            let from = match shape {
                0 | 1 => i % 2,
                2 => 0,
                _ => 1,
            };
            totals[from] += self.random.size(most) as u64;
            let pause = self.pause();
            let at = totals[from];
            for (side, lane) in lanes.iter_mut().enumerate() {
                if i == end && side == cutter {
                    lane.extend(cut.map(Step::End));
                }
                lane.extend(pause.filter(|_| i % 2 == side));
                lane.push(if side == from { Step::Send(at) } else { Step::Recv(at) });
            }
        }
        for lane in &mut lanes {
            let over = lane.iter().position(|s| matches!(s, Step::End(_))).map_or(lane.len(), |i| i + 1);
            lane.truncate(over);
        }
        self.lanes = lanes.map(|lane| vec![lane]);
        self.orderly(cutter);
        if cut.is_none() && self.random.once_in(4) {
            self.tail(cutter, totals);
        }
    }

    /// Mostly none; long ones let the peer fall asleep, short ones meet it while it does.
    fn pause(&mut self) -> Option<Step> {
        match self.random.below(12) {
            0 => Some(Step::Idle(1000 * (1 + self.random.below(30) as u64))),
            1..4 => Some(Step::Idle(self.random.size(600) as u64)),
            _ => None,
        }
    }

    /// The orderly end: one end closes, the other reads to the end.
    fn orderly(&mut self, first: usize) {
        let kind = self.random.below(4);
        for (side, finale) in self.finale.iter_mut().enumerate() {
            *finale = match (kind, side == first) {
                (0, _) => vec![],
                (1, true) => vec![Step::ShutWrite, Step::Eof],
                (_, true) => vec![],
                (_, false) => vec![Step::Eof],
            };
            finale.push(Step::End(Ending::Close));
        }
    }

    /// One end shuts its writing side, and the other goes on writing for a while.
    fn tail(&mut self, first: usize, totals: [u64; 2]) {
        let last = totals[1 - first] + self.random.size(1 << 19) as u64;
        let close = Step::End(Ending::Close);
        self.finale[first] = vec![Step::ShutWrite, Step::Recv(last), Step::Eof, close];
        self.finale[1 - first] = vec![Step::Eof, Step::Send(last), close];
    }

    /// Something that happens to one end's descriptor or process between two steps.
    fn middle(&mut self, solo: [bool; 2], server: Server) {
        if self.random.once_in(2) {
            return;
        }
        let side = self.random.below(2);
        if side == 1 && (server.is_loop() || server == Server::Keeper) {
            return;
        }
        let anywhere = [
            Mid::ForkChildGoesOn,
            Mid::ForkParentGoesOn,
            Mid::ForkBothHold,
            Mid::ForkTakesTurns,
            Mid::Dup,
            Mid::Dup2,
            Mid::FailedExec,
            Mid::Spawn,
            Mid::Pass,
        ];
        let own = [Mid::Dup2Stdin, Mid::Exec, Mid::ExecStdin, Mid::FailedExec];
        let mid = if solo[side] && self.random.once_in(2) {
            own[self.random.below(own.len())]
        } else {
            anywhere[self.random.below(anywhere.len())]
        };
        if mid == Mid::Pass && network().is_some() {
            return;
        }
        let lane = &mut self.lanes[side][0];
        let place = self.random.below(lane.len().max(1));
        lane.insert(place, Step::Mid(mid));
    }
}
