//! A schedule: what each process does, and when somebody is killed or stopped. Owns: that it follows from the
//! seed alone, and how it is cut.

use testkit::Random;

/// A step of a process; numbers are bytes or microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Send(usize),
    TrySend(usize),
    Recv(usize),
    TryRecv(usize),
    Peek(usize),
    /// The time limit, 0 for none.
    PollIn(u64),
    PollOut(u64),
    /// The flags of the registration, and the time limit.
    Epoll(u32, u64),
    ShutWrite,
    ShutRead,
    Nap(u64),
    /// Another number for the socket, and the first one closed.
    Copy,
    /// A child goes on, the parent closes.
    HandOver,
    /// A child holds a copy for a while.
    Share(u64),
    /// The connection goes back to TCP.
    Home,
    Exec,
    Reset,
    Close,
    Abort,
}

/// One connection.
#[derive(Clone, Debug)]
pub(crate) struct Conn {
    pub(crate) ops: [Vec<Op>; 2],
    pub(crate) is_client_enabled: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Blow {
    pub(crate) conn: usize,
    pub(crate) end: usize,
    pub(crate) after_us: u64,
    /// SIGSTOP, and SIGCONT so much later; 0: SIGKILL.
    pub(crate) stops_us: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) once_in: usize,
    pub(crate) tcp_room: usize,
    pub(crate) spin: u64,
    pub(crate) is_server_enabled: bool,
    /// Connections that are accepted; then nobody listens.
    pub(crate) accepts: usize,
    /// The process that listens serves them itself, one after the other.
    pub(crate) is_served_in_turn: bool,
    pub(crate) conns: Vec<Conn>,
    pub(crate) blows: Vec<Blow>,
}

fn op(random: &mut Random) -> Op {
    const FLAGS: [u32; 4] = [0, 1 << 31, 1 << 30, 3 << 30];
    let time = |random: &mut Random| if random.once_in(2) { 0 } else { random.size(30_000) as u64 };
    match random.below(32) {
        0..=6 => Op::Send(random.size(300_000)),
        7..=8 => Op::TrySend(random.size(300_000)),
        9..=14 => Op::Recv(random.size(300_000)),
        15 => Op::TryRecv(random.size(100_000)),
        16 => Op::Peek(random.size(100_000)),
        17..=18 => Op::PollIn(time(random)),
        19 => Op::PollOut(time(random)),
        20..=21 => Op::Epoll(FLAGS[random.below(4)], time(random)),
        22 => Op::ShutWrite,
        23 if random.once_in(4) => Op::ShutRead,
        24 => Op::Copy,
        25 => Op::HandOver,
        26 => Op::Share(random.size(10_000) as u64),
        27 => Op::Exec,
        28 if random.once_in(3) => Op::Reset,
        29 if random.once_in(3) => Op::Close,
        30 if random.once_in(3) => Op::Abort,
        _ => Op::Nap(random.size(20_000) as u64),
    }
}

impl Plan {
    pub(crate) fn new(seed: u64) -> Self {
        let random = &mut Random::new(seed);
        let count = 1 + random.below(3);
        let ops = |random: &mut Random| (0..1 + random.below(12)).map(|_| op(random)).collect();
        let conn = |random: &mut Random| Conn {
            ops: [ops(random), ops(random)],
            is_client_enabled: !random.once_in(8),
        };
        let conns: Vec<Conn> = (0..count).map(|_| conn(random)).collect();
        let blow = |random: &mut Random| Blow {
            conn: random.below(count),
            end: random.below(2),
            after_us: random.size(20_000) as u64,
            stops_us: if random.once_in(3) { random.size(50_000) as u64 } else { 0 },
        };
        let mut plan = Plan {
            seed,
            once_in: [2, 3, 5, 9, 20, 60][random.below(6)],
            tcp_room: [16 << 10, 128 << 10, 2 << 20][random.below(3)],
            spin: [16, 16, 0][random.below(3)],
            is_server_enabled: !random.once_in(10),
            accepts: if random.once_in(6) { random.below(count + 1) } else { count },
            is_served_in_turn: count == 1 || random.once_in(4),
            conns,
            blows: (0..random.below(3)).map(|_| blow(random)).collect(),
        };
        if seed % 2 == 1 {
            plan.send_home(&mut Random::new(!seed));
        }
        plan
    }

    /// Somewhere on their way some ends go back to TCP.
    fn send_home(&mut self, random: &mut Random) {
        for ops in self.conns.iter_mut().flat_map(|conn| &mut conn.ops) {
            for _ in 0..random.below(3) {
                ops.insert(random.below(ops.len() + 1), Op::Home);
            }
        }
    }

    /// This plan with one thing less, for each thing that it may do without.
    fn cuts(&self) -> Vec<Plan> {
        let mut cuts = vec![];
        for at in 0..self.blows.len() {
            let mut cut = self.clone();
            cut.blows.remove(at);
            cuts.push(cut);
        }
        if self.conns.len() > 1 {
            let mut cut = self.clone();
            cut.conns.pop();
            let left = cut.conns.len();
            cut.accepts = cut.accepts.min(left);
            cut.blows.retain(|blow| blow.conn < left);
            cuts.push(cut);
        }
        for (conn, end) in (0..self.conns.len()).flat_map(|conn| [(conn, 0), (conn, 1)]) {
            for at in (0..self.conns[conn].ops[end].len()).rev() {
                let mut cut = self.clone();
                cut.conns[conn].ops[end].remove(at);
                cuts.push(cut);
            }
        }
        cuts
    }

    /// The smallest plan found that fails as well, and how it fails.
    pub(crate) fn shrink(self, why: String, fails: impl Fn(&Plan) -> Result<(), String>) -> (Plan, String) {
        const MOST: usize = 400;
        let (mut smallest, mut left) = ((self, why), MOST);
        loop {
            let next = smallest.0.cuts().into_iter().take(left).find_map(|cut| {
                left = left.saturating_sub(1);
                fails(&cut).err().map(|why| (cut, why))
            });
            match next {
                Some(next) => smallest = next,
                None => return smallest,
            }
        }
    }
}
