//! The world between two ends: virtual time in milliseconds, a queue of what happens next, shared memory,
//! crashes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use proto::conn::{Event, State};
use proto::handshake::{CLC_WAIT_MS, Dmb, Half, Input, Local};
use proto::verdict::{Generation, Role, Settled, Verdict, Word, settle};
use wire::clc::Message;
use wire::{BufferClass, Eid, Reason, limits};

use super::Rng;
use super::end::End;

/// Virtual time after which a run has hung.
const TOO_LONG_MS: u64 = 600_000;
/// When a liar dies, long after honest ends are done.
const LIAR_DIES_MS: u64 = 60_000;
const GENERATION: Generation = Generation::new(5);

/// What may happen in a run.
#[derive(Clone, Copy, Default)]
pub(crate) struct Rules {
    pub(crate) is_polite: bool,
    pub(crate) is_server_late: bool,
    pub(crate) crashes: bool,
    pub(crate) client_lies: bool,
}

/// What happens to one end.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// A CLC message arrives; `None` if the carrier is gone.
    Clc(Option<Vec<u8>>),
    /// The wait for a CLC message is over.
    ClcTimeout,
    /// The peer's cursors arrive.
    Cdc(Vec<u8>),
    /// The application gets the processor.
    Turn,
    /// The end dies.
    Crash,
    /// The kernel tells that the peer is dead.
    PeerDied,
}

/// Two ends and everything between them.
pub(crate) struct World {
    pub(crate) ends: [End; 2],
    pub(crate) size: u32,
    rules: Rules,
    rng: Rng,
    now: u64,
    word: Word,
    /// Ring `n` is written by end `n`.
    rings: [Vec<u8>; 2],
    queue: BinaryHeap<Reverse<(u64, u64, usize, What)>>,
    /// Last arrival at each end: what one end sends stays in order.
    last_arrival: [u64; 2],
    counter: u64,
    local: Local,
}

impl World {
    pub(crate) fn new(mut rng: Rng, rules: Rules) -> Self {
        let size = rng.within(1, 200) as u32;
        // Shortly before the wrap count wraps, so that every run crosses it.
        let mut start = || u64::from(size) * 65536 * rng.within(1, 9) - rng.within(0, 2 * u64::from(size));
        let (a, b) = (start(), start());
        let totals = [rng.within(0, 2000), rng.within(0, 2000)];
        let mut ends = [
            End::new(Role::Client, size, [a, b], totals[0]),
            End::new(Role::Server, size, [b, a], totals[1]),
        ];
        ends[0].lies = rules.client_lies;
        for end in &mut ends {
            end.is_polite = rules.is_polite || rng.one_in(2);
            end.trusts_bytes = !rules.client_lies;
        }
        let local = Local::loopback([1, 2], Eid::user("SIMULATED").unwrap(), "sim");
        let rings = [vec![0; size as usize], vec![0; size as usize]];
        Self {
            ends,
            size,
            rules,
            rng,
            now: 0,
            word: Word::intent(GENERATION),
            rings,
            queue: BinaryHeap::new(),
            last_arrival: [0; 2],
            counter: 0,
            local,
        }
    }

    pub(crate) fn peer_of(&self, end: &End) -> &End {
        &self.ends[usize::from(end.side == Role::Client)]
    }

    pub(crate) fn is_smc(&self) -> bool {
        self.word.verdict() == Some(Verdict::Smc)
    }

    /// From the PROPOSAL to the last event.
    pub(crate) fn run(&mut self) {
        let proposal = self.ends[0].client.propose(&self.local).unwrap();
        // Half of the late servers answer about when the client gives up.
        let busy = match (self.rules.is_server_late, self.rng.one_in(2)) {
            (false, _) => 0,
            (true, false) => self.rng.within(0, 9000),
            (true, true) => self.rng.within(u64::from(CLC_WAIT_MS) - 60, u64::from(CLC_WAIT_MS) + 10),
        };
        self.last_arrival[1] = busy;
        self.send_clc(0, Message::Proposal(proposal));
        self.at(u64::from(CLC_WAIT_MS), 0, What::ClcTimeout);
        if self.rules.crashes {
            let (when, who) = (self.rng.within(0, 400), usize::from(self.rng.one_in(2)));
            self.at(when, who, What::Crash);
        }
        if self.rules.client_lies {
            // A lie can also be silence, which nothing but the death of the liar ends.
            self.at(LIAR_DIES_MS, 0, What::Crash);
        }
        while let Some(Reverse((now, _, to, what))) = self.queue.pop() {
            assert!(now < TOO_LONG_MS, "still running at {now} ms");
            self.now = now;
            if !self.ends[to].is_dead {
                self.happen(to, what);
                self.publish(to);
            }
        }
    }

    fn at(&mut self, time: u64, to: usize, what: What) {
        self.counter += 1;
        self.queue.push(Reverse((time, self.counter, to, what)));
    }

    /// Puts something on its way to the other end of `from`, behind everything sent before.
    fn send(&mut self, from: usize, what: What) {
        let to = 1 - from;
        let arrival = (self.now + self.rng.within(0, 30)).max(self.last_arrival[to]);
        self.last_arrival[to] = arrival;
        self.at(arrival, to, what);
    }

    fn send_clc(&mut self, from: usize, message: Message) {
        let mut bytes = vec![0; limits::MESSAGE_MAX];
        let len = message.emit(&mut bytes).unwrap();
        bytes.truncate(len);
        self.send(from, What::Clc(Some(bytes)));
    }

    fn publish(&mut self, from: usize) {
        if self.ends[from].has_news && !self.ends[from].is_dead {
            let bytes = self.ends[from].cdc(&mut self.rng);
            self.send(from, What::Cdc(bytes.to_vec()));
        }
    }

    fn happen(&mut self, to: usize, what: What) {
        match what {
            What::Clc(bytes) => self.handle_clc(to, bytes.as_deref().map_or(Input::Lost, Input::Bytes)),
            What::ClcTimeout if self.ends[to].verdict.is_none() => self.give_up(to),
            What::ClcTimeout => {}
            What::Cdc(bytes) => self.ends[to].handle_cdc(&bytes),
            What::Turn => self.turn(to),
            What::Crash => {
                self.ends[to].is_dead = true;
                let what = if self.ends[1 - to].is_established { What::PeerDied } else { What::Clc(None) };
                self.send(to, what);
            }
            What::PeerDied => self.ends[to].handle(Event::LinkLost),
        }
    }

    fn handle_clc(&mut self, to: usize, input: Input<'_>) {
        if self.ends[to].is_established || self.ends[to].verdict.is_some_and(|v| v != Verdict::Smc) {
            // The handshake is over; only the death of the peer is news.
            return if matches!(input, Input::Lost) {
                self.ends[to].handle(Event::LinkLost)
            };
        }
        match (to, self.ends[1].verdict) {
            (0, _) => self.handle_accept(input),
            (_, None) => self.handle_proposal(input),
            (_, Some(_)) => self.handle_confirm(input),
        }
    }

    fn half(&self, token: u64) -> Half {
        Half { dmb: Dmb { token, class: BufferClass::default() }, link_group: 256 }
    }

    fn handle_proposal(&mut self, input: Input<'_>) {
        let half = Ok(self.half(11));
        match self.ends[1].server.handle_proposal(input, &self.local, half, true) {
            Ok(accept) => {
                if self.settle(1, Verdict::Smc) == Verdict::Smc {
                    self.send_clc(1, Message::Accept(accept));
                }
            }
            Err(refusal) => {
                self.settle(1, Verdict::Plain(refusal.reason()));
            }
        }
    }

    fn handle_accept(&mut self, input: Input<'_>) {
        let half = Ok(self.half(22));
        match self.ends[0].client.handle_accept(input, &self.local, half, |_| false) {
            Ok((confirm, agreed)) => {
                assert_eq!(agreed.peer_dmb.token, 11);
                assert_eq!(
                    self.settle(0, Verdict::Plain(Reason::INTERR)),
                    Verdict::Smc,
                    "ACCEPT follows the swap"
                );
                self.send_clc(0, Message::Confirm(confirm));
                self.establish(0);
            }
            Err(refusal) => {
                self.settle(0, Verdict::Plain(refusal.reason()));
            }
        }
    }

    fn handle_confirm(&mut self, input: Input<'_>) {
        match self.ends[1].server.handle_confirm(input, &self.local) {
            Ok(agreed) => {
                assert_eq!(agreed.peer_dmb.token, 22);
                self.establish(1);
            }
            // The client died after the verdict: the connection exists, and is broken.
            Err(_) => {
                self.establish(1);
                self.ends[1].handle(Event::LinkLost);
            }
        }
    }

    /// The client waited long enough. If the server has decided meanwhile, its ACCEPT is on the way.
    fn give_up(&mut self, to: usize) {
        self.settle(to, Verdict::Plain(Reason::PEERNOSMC));
    }

    fn settle(&mut self, who: usize, wanted: Verdict) -> Verdict {
        let word = &mut self.word;
        let swap = |old, new| {
            if *word != old {
                return Err(*word);
            }
            *word = new;
            Ok(())
        };
        let settled = settle(Word::intent(GENERATION), GENERATION, self.ends[who].side, wanted, swap);
        let Settled::Verdict { verdict, .. } = settled else { panic!("{settled:?}") };
        self.ends[who].verdict = Some(verdict);
        verdict
    }

    fn establish(&mut self, who: usize) {
        self.ends[who].is_established = true;
        self.ends[who].handle(Event::Established);
        self.at(self.now, who, What::Turn);
    }

    fn turn(&mut self, who: usize) {
        let [first, second] = &mut self.rings;
        let rings =
            if who == 0 { [&mut first[..], &mut second[..]] } else { [&mut second[..], &mut first[..]] };
        self.ends[who].act(rings, &mut self.rng);
        if !self.ends[who].conn.facts().is_released {
            let next = self.now + self.rng.within(1, 15);
            self.at(next, who, What::Turn);
        }
    }

    /// What must hold at the end of every run.
    pub(crate) fn check(&self) {
        for end in self.ends.iter().filter(|end| !end.is_dead) {
            assert!(end.verdict.is_some(), "{:?} has no verdict", end.side);
            assert_eq!(end.verdict, self.word.verdict(), "{:?}", end.side);
            let state = if self.is_smc() { State::Closed } else { State::Init };
            assert_eq!(end.conn.state(), state, "{:?} {:?}", end.side, end.conn.facts());
            assert_eq!(end.is_established, self.is_smc());
        }
    }
}
