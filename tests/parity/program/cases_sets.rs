//! Sets that others watch too: duplicates, sets around sets, several threads. Who sleeps where must not
//! matter for who is woken, whatever has become quiet before.

use crate::context::{Case, Cx, Pair, say, settle, until_asleep, until_queued, until_ready};
use isthmus_tests::sys::{self, Fd, Wait, ep_add, ep_mod, ep_show, ep_wait, ep_wait_by, show};
use libc::{EPOLLET, EPOLLIN, EPOLLRDHUP, POLLOUT};
use std::thread::JoinHandle;

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: true, run }
}

pub(crate) const CASES: &[Case] = &[
    case("sets.duplicate_of_an_empty_set", duplicate_of_an_empty_set),
    case("sets.first_member_while_waiting", first_member_while_waiting),
    case("sets.nested_after_use", nested_after_use),
    case("sets.nested_before_the_first_member", nested_before_the_first_member),
    case("sets.rings_beside_a_loud_pipe", rings_beside_a_loud_pipe),
    case("sets.edge_beside_a_poll", edge_beside_a_poll),
    case("sets.edge_beside_a_set_with_nothing_to_tell", edge_beside_another_set),
    case("sets.closed_while_reported", closed_while_reported),
    case("sets.closed_under_a_sleeper", closed_under_a_sleeper),
    case("sets.interest_over_fork", interest_over_fork),
    case("sets.passed_member", passed_member),
    case("sets.room_for_one_beside_the_kernels", room_for_one_beside_the_kernels),
    Case { name: "sets.urgent_with_room_for_one", shm: false, run: urgent_with_room_for_one },
    Case { name: "sets.exclusive_in_processes", shm: false, run: exclusive_in_processes },
    Case { name: "sets.hundreds_one_at_a_time", shm: false, run: hundreds_one_at_a_time },
];

/// What runtimes do that register through a copy of the descriptor they wait on (tokio).
fn duplicate_of_an_empty_set(cx: &mut Cx) {
    let (ep, p) = (sys::epoll(), cx.warm());
    let copy = sys::dup(ep).expect("dup") as Fd;
    say!("add -> {}", show(ep_add(copy, p.fd, EPOLLIN, 7)));
    say!("idle {}", ep_show(ep, 20));
    cx.peer("send 0 x");
    say!("data {}", ep_show(ep, 3000));
    say!("by the copy {}", ep_show(copy, 3000));
    say!("close -> {}", show(sys::close(copy)));
    say!("read -> {}", show(sys::read(p.fd, &mut [0; 9])));
    cx.ask("later 50 send 0 y");
    say!("data {}", ep_show(ep, 3000));
}

fn asleep(ep: Fd) -> JoinHandle<String> {
    let sleeper = std::thread::spawn(move || ep_show(ep, 5000));
    settle();
    sleeper
}

fn first_member_while_waiting(cx: &mut Cx) {
    let p = cx.warm();
    let ep = sys::epoll();
    cx.peer("send 0 x");
    until_queued(p.fd, 1);
    let sleeper = asleep(ep);
    say!("add -> {}", show(ep_add(ep, p.fd, EPOLLIN, 0x15C0_0000_1234_5678)));
    say!("woken {}", sleeper.join().expect("sleeper"));
}

/// Both members of a set have had their turns, so that neither has anything to tell for now.
fn quieten(cx: &mut Cx, ep: Fd, members: [Pair; 2]) {
    let mut wrong = 0;
    for round in 0..40 {
        let member = members[round % 2];
        cx.ask(&format!("send {} x", member.id));
        wrong += u32::from(ep_wait(ep, 3000) != Ok(vec![(u64::from(member.id), EPOLLIN as u32)]));
        wrong += u32::from(sys::read(member.fd, &mut [0; 9]) != Ok(1));
    }
    say!("wrong {wrong}");
}

fn inner_set(cx: &mut Cx) -> [Pair; 2] {
    [cx.warm(), cx.warm()]
}

fn nested_after_use(cx: &mut Cx) {
    let members = inner_set(cx);
    let inner = sys::epoll();
    for member in members {
        say!("add -> {}", show(ep_add(inner, member.fd, EPOLLIN, member.id.into())));
    }
    quieten(cx, inner, members);
    let outer = sys::epoll();
    say!("nest -> {}", show(ep_add(outer, inner, EPOLLIN, 9)));
    wake_from_outside(cx, [inner, outer], members);
}

fn wake_from_outside(cx: &mut Cx, [inner, outer]: [Fd; 2], members: [Pair; 2]) {
    for member in members {
        let sleeper = asleep(outer);
        cx.ask(&format!("send {} x", member.id));
        say!("outer {}", sleeper.join().expect("sleeper"));
        say!("inner {}", ep_show(inner, 3000));
        say!("read -> {}", show(sys::read(member.fd, &mut [0; 9])));
        say!("inner quiet {}", ep_show(inner, 0));
        say!("outer quiet {}", ep_show(outer, 20));
    }
}

fn nested_before_the_first_member(cx: &mut Cx) {
    let members = inner_set(cx);
    let (inner, outer) = (sys::epoll(), sys::epoll());
    say!("nest -> {}", show(ep_add(outer, inner, EPOLLIN, 9)));
    for member in members {
        say!("add -> {}", show(ep_add(inner, member.fd, EPOLLIN, member.id.into())));
    }
    quieten(cx, inner, members);
    wake_from_outside(cx, [inner, outer], members);
}

/// Room for one event, a descriptor that is always ready, and a connection: both have their turns.
fn rings_beside_a_loud_pipe(cx: &mut Cx) {
    let p = cx.warm();
    let (ep, (r, w)) = (sys::epoll(), sys::pipe(0));
    say!("add -> {}", show(ep_add(ep, p.fd, EPOLLIN, 1)));
    say!("add -> {}", show(ep_add(ep, r, EPOLLIN, 2)));
    say!("write -> {}", show(sys::write(w, b"x")));
    let (mut starved, mut alone) = (0, 0);
    for _ in 0..100 {
        cx.ask("send 0 x");
        until_queued(p.fd, 1);
        // (Rings are looked at first, the kernel within fractions of a millisecond.)
        let mut seen = [false; 3];
        for _ in 0..100_000 {
            if let Ok([(data, _)]) = ep_wait_by(Wait::Plain, ep, 1, 1000).as_deref() {
                seen[*data as usize] = true;
            }
            if seen[1] && seen[2] {
                break;
            }
        }
        starved += u32::from(!seen[1]);
        alone += u32::from(!seen[2]);
        let _ = sys::read(p.fd, &mut [0; 9]);
        let _ = ep_wait_by(Wait::Plain, ep, 1, 0);
    }
    say!("without the connection {starved}, without the pipe {alone}");
}

/// One thread sleeps for an edge while another keeps asking for space: an edge is told once, and not to
/// nobody.
fn edge_beside_a_poll(cx: &mut Cx) {
    let p = cx.warm();
    let ep = sys::epoll();
    say!("add -> {}", show(ep_add(ep, p.fd, EPOLLIN | EPOLLET, 1)));
    say!("idle {}", ep_show(ep, 20));
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let lost = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                let _ = sys::poll1(p.fd, POLLOUT, 0);
            }
        });
        let mut lost = 0;
        for _ in 0..200 {
            cx.tell("send 0 x");
            lost += u32::from(ep_wait(ep, 2000) != Ok(vec![(1, EPOLLIN as u32)]));
            cx.answer();
            let _ = sys::recv(p.fd, &mut [0; 9], libc::MSG_DONTWAIT);
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        lost
    });
    say!("edges lost {lost}");
}

/// Two threads wait on one set; what one closes while the other has it in hand, later members must not pay
/// for.
fn closed_while_reported(cx: &mut Cx) {
    let keep = cx.warm();
    let ep = sys::epoll();
    say!("add -> {}", show(ep_add(ep, keep.fd, EPOLLIN, 1000)));
    for _ in 0..15 {
        let p = cx.warm();
        let _ = ep_add(ep, p.fd, EPOLLIN, 1);
        let waiters: Vec<_> = (0..2).map(|_| std::thread::spawn(move || ep_wait(ep, 200))).collect();
        cx.ask(&format!("shut {} 1", p.id));
        for waiter in waiters {
            if waiter.join().expect("waiter").is_ok_and(|events| !events.is_empty()) {
                let _ = sys::close(p.fd);
            }
        }
        let _ = sys::close(p.fd);
        cx.ask(&format!("drain {}", p.id));
    }
    say!("quiet {}", ep_show(ep, 20));
    cx.ask("later 50 send 0 x");
    say!("kept {}", ep_show(ep, 3000));
    cx.watch(keep.fd);
}

/// The child's idea of a registration is as old as the fork: it must not undo what its parent asked for
/// since.
fn interest_over_fork(cx: &mut Cx) {
    let p = cx.warm();
    let ep = sys::epoll();
    say!("add -> {}", show(ep_add(ep, p.fd, EPOLLIN, 1)));
    say!("mod -> {}", show(ep_mod(ep, p.fd, 0, 2)));
    let pid = sys::fork(|| {
        let _ = ep_wait(ep, 400);
        0
    });
    say!("mod -> {}", show(ep_mod(ep, p.fd, EPOLLIN, 3)));
    settle();
    cx.peer("shut 0 1");
    say!("child {}", sys::wait(pid));
    say!("end {}", ep_show(ep, 3000));
}

/// A member that another process has, too: what this one drains, the other is still woken for.
fn passed_member(cx: &mut Cx) {
    let p = cx.warm();
    let ep = sys::epoll();
    say!("add -> {}", show(ep_add(ep, p.fd, EPOLLIN, 1)));
    let (a, b) = sys::socketpair();
    let pid = sys::fork(|| {
        let _ = sys::close(p.fd);
        let Ok(fd) = sys::recv_fd(b) else { return 7 };
        (0..20).filter(|_| sys::read(fd as Fd, &mut [0; 1]) != Ok(1)).count() as u8
    });
    say!("pass -> {}", show(sys::send_fd(a, p.fd)));
    for _ in 0..20 {
        cx.ask("send 0 x");
        let _ = ep_wait(ep, 1);
    }
    say!("child missed {}", sys::wait(pid));
}

/// As servers wait that share a listener, each with a set of its own: at least one is woken.
fn exclusive_in_processes(cx: &mut Cx) {
    let p = cx.warm();
    let (r, w) = sys::pipe(0);
    let child = || {
        let ep = sys::epoll();
        let is_added = ep_add(ep, p.fd, EPOLLIN | libc::EPOLLEXCLUSIVE, 1).is_ok();
        if !is_added || sys::write(w, b"x") != Ok(1) {
            return 9;
        }
        u8::from(ep_wait(ep, 700).is_ok_and(|events| !events.is_empty()))
    };
    let children: Vec<i32> = (0..3).map(|_| sys::fork(child)).collect();
    say!("all wait {}", crate::context::read_all(r, 3));
    settle();
    cx.peer("send 0 x");
    let ends: Vec<String> = children.into_iter().map(sys::wait).collect();
    let woken = ends.iter().filter(|end| *end == "exit 1").count();
    say!("woken {}, failed {}", woken >= 1, ends.iter().any(|end| end != "exit 1" && end != "exit 0"));
    say!("read -> {}", show(sys::read(p.fd, &mut [0; 9])));
}

/// With room for one event, each of so many has its turn before any has many.
fn hundreds_one_at_a_time(cx: &mut Cx) {
    const MANY: usize = 250;
    let ep = sys::epoll();
    let pairs: Vec<Pair> = (0..MANY).map(|_| cx.pair()).collect();
    for pair in &pairs {
        ep_add(ep, pair.fd, EPOLLIN, u64::from(pair.id)).expect("add");
        cx.ask(&format!("send {} x", pair.id));
    }
    pairs.iter().for_each(|pair| until_queued(pair.fd, 1));
    let mut told = [0; MANY];
    for _ in 0..4 * MANY {
        let events = ep_wait_by(Wait::Plain, ep, 1, 1000).expect("wait");
        events.iter().for_each(|(data, _)| told[*data as usize] += 1);
    }
    say!("nobody starves: {}", told.iter().all(|count| *count >= 2));
    let mut read = 0;
    while let Ok([(data, _)]) = ep_wait_by(Wait::Plain, ep, 1, 100).as_deref() {
        read += sys::read(pairs[*data as usize].fd, &mut [0; 9]).unwrap_or(0);
    }
    say!("read {read}, then quiet");
}

/// Another set of this process, which has heard of the bytes and has nothing to tell of them, takes the edge
/// from nobody.
fn edge_beside_another_set(cx: &mut Cx) {
    let p = cx.warm();
    let (edges, other) = (sys::epoll(), sys::epoll());
    say!("add -> {}", show(ep_add(edges, p.fd, EPOLLIN | EPOLLET, 1)));
    say!("add -> {}", show(ep_add(other, p.fd, EPOLLRDHUP, 2)));
    for round in 0..3 {
        let idle = (0..12).filter(|_| ep_show(edges, 2) == "[]").count();
        cx.ask("send 0 x");
        until_queued(p.fd, round + 1);
        say!("idle {idle}, other {}, edge {}", ep_show(other, 2), ep_show(edges, 2));
    }
    say!("none left {}", ep_show(edges, 2));
}

/// Members of both kinds, told one by one: no answer is empty, and nobody is left out.
fn room_for_one_beside_the_kernels(cx: &mut Cx) {
    let (ep, p, q) = (sys::epoll(), cx.warm(), cx.warm());
    let (counter, (out, into)) = (sys::eventfd(0), sys::pipe(0));
    for (at, fd) in [p.fd, q.fd, counter, out].into_iter().enumerate() {
        ep_add(ep, fd, EPOLLIN, at as u64).expect("add");
    }
    // (How often the kernel's members have their turn is another matter.)
    let rounds = |what: &str| {
        let mut told: Vec<_> = (0..40).map(|_| ep_wait_by(Wait::Plain, ep, 1, 0).expect("told")).collect();
        told.sort_unstable();
        told.dedup();
        say!("{what}: {told:?}");
    };
    for pair in [p, q] {
        cx.peer(&format!("send {} x", pair.id));
        until_queued(pair.fd, 1);
    }
    rounds("connections");
    sys::write(counter, &1_u64.to_ne_bytes()).expect("count");
    rounds("and a counter");
    for pair in [p, q] {
        sys::recv(pair.fd, &mut [0; 4], 0).expect("byte");
    }
    rounds("a counter alone");
    sys::write(into, b"x").expect("byte");
    rounds("and a pipe");
}

fn urgent_with_room_for_one(cx: &mut Cx) {
    for (inline, events) in [(0, EPOLLIN), (1, EPOLLIN), (0, EPOLLIN | EPOLLET), (1, EPOLLIN | EPOLLET)] {
        let (ep, p) = (sys::epoll(), cx.warm());
        sys::setopt(p.fd, libc::SOL_SOCKET, libc::SO_OOBINLINE, inline).expect("inline");
        ep_add(ep, p.fd, events | libc::EPOLLPRI, 7).expect("add");
        for round in 0..2 {
            cx.peer(&format!("oob {} U", p.id));
            until_ready(p.fd, libc::POLLPRI);
            for _ in 0..6 {
                let told = ep_wait_by(Wait::Plain, ep, 1, 0);
                say!("inline {inline} round {round} {}", sys::show_events(told));
            }
            let _ = sys::recv(p.fd, &mut [0; 4], libc::MSG_DONTWAIT);
        }
    }
}

/// Who sleeps on a set has it, whatever becomes of its number; and a set that gets the number is another one.
fn closed_under_a_sleeper(cx: &mut Cx) {
    let p = cx.warm();
    let ep = sys::epoll();
    say!("add -> {}", show(ep_add(ep, p.fd, EPOLLIN, 1)));
    let sleeper = std::thread::Builder::new().name("sleeper".into());
    let sleeper = sleeper.spawn(move || ep_show(ep, 1500)).expect("a thread");
    until_asleep("sleeper");
    say!("close -> {}", show(sys::close(ep)));
    let other = sys::epoll();
    say!("the same number {}", other == ep);
    settle();
    cx.peer("send 0 x");
    say!("the sleeper {}", sleeper.join().expect("sleeper"));
    say!("the new one {}", ep_show(other, 20));
    say!("add -> {}", show(ep_add(other, p.fd, EPOLLIN, 2)));
    say!("the new one {}", ep_show(other, 3000));
}
