//! Answers of epoll_wait that do not hold all that is ready. Whoever was not told has its turn before anybody
//! is told again, whether the kernel tells of it or we do, and there are no gaps.

use crate::context::{Case, Cx, say, until_queued};
use isthmus_tests::sys::{self, Fd, Wait, ep_add, ep_mod, ep_wait_by};
use libc::{EPOLLET, EPOLLIN, EPOLLONESHOT, EPOLLOUT, EPOLLRDHUP};

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: true, run }
}

pub(crate) const CASES: &[Case] = &[
    case("full.connections", connections),
    case("full.connections_and_pipes", connections_and_pipes),
    case("full.more_than_one_look", more_than_one_look),
    case("full.ended_connections_and_pipes", ended_connections),
    case("full.edges_beside_pipes", edges_beside_pipes),
    case("full.once_beside_pipes", once_beside_pipes),
    case("full.after_a_sleep", after_a_sleep),
    case("full.in_a_set_that_is_watched", watched),
    case("full.with_the_same_data", same_data),
    case("full.with_the_same_data_beside_one_connection", same_data_beside_one),
    case("full.nobody_is_named_twice", nobody_twice),
    case("full.served_beside_pipes", served),
];

/// A set with a number of members that are ready; their data are their numbers.
struct Ready {
    ep: Fd,
    fds: Vec<Fd>,
    /// When each was told last, in events; 0 for never.
    told: Vec<u64>,
    clock: u64,
}

impl Ready {
    fn new() -> Ready {
        Ready { ep: sys::epoll(), fds: Vec::new(), told: Vec::new(), clock: 0 }
    }

    fn add(&mut self, fd: Fd, events: i32) {
        ep_add(self.ep, fd, events, self.fds.len() as u64).expect("add");
        self.fds.push(fd);
        self.told.push(0);
    }

    /// Connections with a byte unread.
    fn connections(&mut self, cx: &mut Cx, count: usize, events: i32) {
        for _ in 0..count {
            let p = cx.warm();
            cx.ask(&format!("send {} x", p.id));
            until_queued(p.fd, 1);
            self.add(p.fd, events);
        }
    }

    fn pipes(&mut self, count: usize) {
        for _ in 0..count {
            let (read, write) = sys::pipe(0);
            sys::write(write, b"x").expect("write");
            self.add(read, EPOLLIN);
        }
    }

    /// A wait for `max` events; how many were told before somebody who had waited for longer.
    fn wait(&mut self, max: usize, ms: i32) -> (usize, u64) {
        let told = ep_wait_by(Wait::Plain, self.ep, max, ms).expect("wait");
        let now: Vec<usize> = told.iter().map(|(data, _)| *data as usize).collect();
        let latest = now.iter().map(|member| self.told[*member]).max().unwrap_or(0);
        let is_passed = |member: &usize| !now.contains(member) && self.told[*member] < latest;
        let passed = (0..self.fds.len()).filter(is_passed).count();
        self.clock += 1;
        for member in &now {
            self.told[*member] = self.clock;
        }
        (now.len(), passed as u64)
    }

    /// Many waits in which nothing is read.
    fn go_round(&mut self, max: usize) {
        let waits: Vec<(usize, u64)> = (0..60).map(|_| self.wait(max, 0)).collect();
        let gaps = waits.iter().filter(|(count, _)| *count != max.min(self.fds.len())).count();
        let passed: u64 = waits.iter().map(|(_, passed)| passed).sum();
        say!("{} ready, room for {max}: {gaps} answers with gaps, {passed} passed over", self.fds.len());
    }
}

fn connections(cx: &mut Cx) {
    for (count, max) in [(4, 1), (5, 2), (7, 3)] {
        let mut ready = Ready::new();
        ready.connections(cx, count, EPOLLIN);
        ready.go_round(max);
        // With room for all of them, and then not again.
        ready.go_round(64);
        ready.go_round(max);
    }
}

fn connections_and_pipes(cx: &mut Cx) {
    for (count, pipes, max) in [(2, 2, 1), (3, 3, 2), (3, 1, 3), (1, 3, 3), (1, 1, 1), (1, 5, 2), (6, 1, 1)] {
        let mut ready = Ready::new();
        ready.connections(cx, count, EPOLLIN);
        ready.pipes(pipes);
        ready.go_round(max);
    }
}

/// (A look finds so many at a time, and an answer of more is asked for at once.)
fn more_than_one_look(cx: &mut Cx) {
    let mut ready = Ready::new();
    ready.connections(cx, 20, EPOLLIN | EPOLLOUT | EPOLLRDHUP);
    ready.pipes(3);
    ready.go_round(1);
    ready.go_round(9);
    ready.go_round(17);
}

fn ended_connections(cx: &mut Cx) {
    let mut ready = Ready::new();
    ready.connections(cx, 3, EPOLLIN);
    (0..3).for_each(|id| drop(cx.ask(&format!("shut {id} 1"))));
    ready.fds.iter().for_each(|fd| drop(sys::poll1(*fd, libc::POLLRDHUP, 3000)));
    ready.pipes(2);
    ready.go_round(1);
    ready.go_round(2);
}

/// How many waits with room for one it takes until each of the connections was told of.
fn until_all_are_told(ready: &mut Ready, count: usize) -> usize {
    let from = ready.clock;
    (0..200)
        .take_while(|_| ready.told[..count].iter().any(|at| *at <= from) && ready.wait(1, 0).0 == 1)
        .count()
}

fn edges_beside_pipes(cx: &mut Cx) {
    let mut ready = Ready::new();
    ready.connections(cx, 3, EPOLLIN | EPOLLET);
    ready.pipes(2);
    for round in 0..4 {
        let waits = until_all_are_told(&mut ready, 3);
        say!("round {round}: {}", if waits <= 5 { "told" } else { "late" });
        (0..3).for_each(|id| drop(cx.ask(&format!("send {id} y"))));
        ready.fds[..3].iter().for_each(|fd| until_queued(*fd, round + 2));
    }
}

fn once_beside_pipes(cx: &mut Cx) {
    let mut ready = Ready::new();
    ready.connections(cx, 3, EPOLLIN | EPOLLONESHOT);
    ready.pipes(2);
    for round in 0..4 {
        let waits = until_all_are_told(&mut ready, 3);
        say!("round {round}: {}", if waits <= 5 { "told" } else { "late" });
        for member in 0..3 {
            ep_mod(ready.ep, ready.fds[member], EPOLLIN | EPOLLONESHOT, member as u64).expect("mod");
        }
    }
}

/// Members that are quiet for so long that only the kernel looks after them.
fn after_a_sleep(cx: &mut Cx) {
    let mut ready = Ready::new();
    let pairs: Vec<_> = (0..4).map(|_| cx.warm()).collect();
    pairs.iter().for_each(|p| ready.add(p.fd, EPOLLIN));
    (0..20).for_each(|_| assert_eq!(ready.wait(1, 1).0, 0));
    for p in &pairs {
        cx.ask(&format!("send {} x", p.id));
        until_queued(p.fd, 1);
    }
    ready.pipes(1);
    ready.go_round(1);
    ready.go_round(2);
}

fn watched(cx: &mut Cx) {
    let mut ready = Ready::new();
    ready.connections(cx, 3, EPOLLIN);
    ready.pipes(2);
    let outer = sys::epoll();
    ep_add(outer, ready.ep, EPOLLIN, 7).expect("add");
    ready.go_round(1);
    say!("the set around it: {}", sys::ep_show(outer, 0));
    ready.go_round(2);
}

/// Events of two members that have the same data are two.
fn same_data(cx: &mut Cx) {
    let ep = sys::epoll();
    for _ in 0..2 {
        let p = cx.warm();
        cx.ask(&format!("send {} x", p.id));
        until_queued(p.fd, 1);
        ep_add(ep, p.fd, EPOLLIN, 7).expect("add");
        let (read, write) = sys::pipe(0);
        sys::write(write, b"x").expect("write");
        ep_add(ep, read, EPOLLIN, 7).expect("add");
    }
    let counts = |max| {
        (0..20).map(|_| ep_wait_by(Wait::Plain, ep, max, 0).map_or(0, |told| told.len())).sum::<usize>()
    };
    say!("by ones {}, twos {}, threes {}", counts(1), counts(2), counts(3));
}

fn same_data_beside_one(cx: &mut Cx) {
    let mut ready = Ready::new();
    ready.connections(cx, 1, EPOLLIN);
    for _ in 0..4 {
        let (read, write) = sys::pipe(0);
        sys::write(write, b"x").expect("write");
        ep_add(ready.ep, read, EPOLLIN, 7).expect("add");
    }
    let counts = |max| {
        (0..20).map(|_| ep_wait_by(Wait::Plain, ready.ep, max, 0).map_or(0, |told| told.len())).sum::<usize>()
    };
    say!("by ones {}, twos {}, threes {}, fours {}", counts(1), counts(2), counts(3), counts(4));
}

/// Waits with room for `max` on members of which ever others are ready. (Those that have become silent or
/// ready since make each lap of the kernel's another than the one before.) How many answers named one twice.
fn storm(ready: &mut Ready, pipes: &[(Fd, Fd)], max: usize) -> usize {
    let mut dice = max as u32;
    let mut roll = |sides: u32| {
        dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (dice >> 16) % sides
    };
    let mut is_full = vec![false; pipes.len()];
    let mut twice = 0;
    for _ in 0..1500 {
        let told = ep_wait_by(Wait::Plain, ready.ep, max, 0).expect("wait");
        let mut members: Vec<u64> = told.iter().map(|(data, _)| *data).collect();
        members.sort_unstable();
        twice += usize::from(members.windows(2).any(|two| two[0] == two[1]));
        for (at, (read, write)) in pipes.iter().enumerate() {
            match is_full[at] {
                true if roll(3) == 0 => assert_eq!(sys::read(*read, &mut [0; 9]), Ok(1)),
                false if roll(4) == 0 => assert_eq!(sys::write(*write, b"x"), Ok(1)),
                _ => continue,
            }
            is_full[at] = !is_full[at];
        }
    }
    twice
}

/// The server's end of a connection that stays TCP's.
fn ended_before_a_look() -> Fd {
    let (listener, port) = sys::listener();
    let client = sys::tcp(libc::SOCK_CLOEXEC);
    sys::connect(client, port).expect("connect");
    sys::write(client, b"x").expect("write");
    sys::close(client).expect("close");
    let server = sys::accept(listener).expect("accept") as Fd;
    sys::close(listener).expect("close");
    server
}

fn nobody_twice(cx: &mut Cx) {
    for (connections, max) in [(1, 3), (1, 4), (2, 5), (3, 6), (3, 8), (2, 10), (3, 12)] {
        let mut ready = Ready::new();
        ready.connections(cx, connections, EPOLLIN);
        let pipes: Vec<_> = (0..12).map(|_| sys::pipe(0)).collect();
        pipes.iter().for_each(|(read, _)| ready.add(*read, EPOLLIN));
        (0..2).for_each(|_| ready.add(ended_before_a_look(), EPOLLIN));
        say!("{connections} beside pipes, room for {max}: {} answers", storm(&mut ready, &pipes, max));
    }
}

/// A server that reads what it is told of, while two pipes are never read: nobody waits for longer than a
/// round.
fn served(cx: &mut Cx) {
    let mut ready = Ready::new();
    ready.connections(cx, 3, EPOLLIN);
    ready.pipes(2);
    let mut late = 0;
    for round in 0..60 {
        let member = round % 3;
        let fd = ready.fds[member];
        let from = ready.clock;
        let waits = (0..200).take_while(|_| ready.told[member] <= from && ready.wait(1, 0).0 == 1).count();
        late += u32::from(waits > 5);
        assert_eq!(sys::read(fd, &mut [0; 9]), Ok(1));
        cx.ask(&format!("send {member} x"));
        until_queued(fd, 1);
    }
    say!("late {late}");
}
