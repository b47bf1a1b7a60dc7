//! Threads that take turns at one set, as Java's asynchronous channels do: one waits and hands the set on
//! before it reads until EAGAIN and asks again. Whatever another thread asks, drains or closes meanwhile,
//! nobody may be left asleep.

use crate::context::{Case, Cx, Pair, say, until_queued};
use isthmus_tests::sys::{self, Fd, ep_add, ep_del, ep_mod, ep_wait};
use libc::{EPOLLET, EPOLLIN, EPOLLONESHOT, EPOLLOUT};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: true, run }
}

pub(crate) const CASES: &[Case] = &[
    case("turns.fresh_connections", fresh_connections),
    case("turns.fresh_connections_connected_by_us", fresh_and_connecting),
    case("turns.added_anew", added_anew),
    case("turns.edge_added_anew", edge_added_anew),
    case("turns.level_taken_out_and_put_back", level_put_back),
    case("turns.asked_again", asked_again),
    case("turns.duplicates", duplicates),
    case("turns.two_sets", two_sets),
    case("turns.polled_beside", polled_beside),
    case("turns.nested", nested),
    case("turns.wish_turned_around_under_a_sleeper", turned_around),
    Case { name: "turns.asked_anew_under_a_sleeper", shm: false, run: asked_anew },
    case("turns.asked_by_a_number_that_is_used_again", asked_by_number),
];

const ONCE: i32 = EPOLLIN | EPOLLONESHOT;
const THREADS: usize = 3;
/// What the pipe that ends it all is registered as.
const END: u64 = u64::MAX;

/// How a thread asks for a socket again.
type Ask = fn(Fd, Fd);

/// As the JDK does it: whether the set knows the socket is found out by asking.
fn once(ep: Fd, fd: Fd) {
    if ep_mod(ep, fd, ONCE, fd as u64).is_err() {
        let _ = ep_add(ep, fd, ONCE, fd as u64);
    }
}

fn once_anew(ep: Fd, fd: Fd) {
    let _ = ep_del(ep, fd);
    let _ = ep_add(ep, fd, ONCE, fd as u64);
}

fn edge_anew(ep: Fd, fd: Fd) {
    let _ = ep_del(ep, fd);
    let _ = ep_add(ep, fd, ONCE | EPOLLET, fd as u64);
}

fn level_anew(ep: Fd, fd: Fd) {
    let _ = ep_del(ep, fd);
    let _ = ep_add(ep, fd, EPOLLIN, fd as u64);
}

/// The set, and how many bytes are still to come back.
struct Crew {
    ep: Fd,
    /// What is waited on: the set, or one around it.
    outer: Fd,
    ask: Ask,
    token: Mutex<()>,
    left: AtomicI32,
    is_over: AtomicBool,
    ends: (Fd, Fd),
}

impl Crew {
    fn start(outer: Option<Fd>, ask: Ask) -> (Arc<Crew>, Vec<JoinHandle<()>>) {
        // On one core who is woken runs at once, in the middle of the call that woke it.
        sys::stay_on_one_core();
        let (ep, ends) = (sys::epoll(), sys::pipe(0));
        let outer = outer.inspect(|outer| _ = ep_add(*outer, ep, EPOLLIN, 1)).unwrap_or(ep);
        ep_add(ep, ends.0, EPOLLIN, END).expect("add the end");
        let (left, is_over) = (AtomicI32::new(0), AtomicBool::new(false));
        let crew = Arc::new(Crew { ep, outer, ask, token: Mutex::new(()), left, is_over, ends });
        let threads = (0..THREADS).map(|_| crew.clone()).map(|crew| std::thread::spawn(move || crew.serve()));
        let threads = threads.collect();
        (crew, threads)
    }

    fn serve(&self) {
        while !self.is_over.load(Ordering::SeqCst) {
            let token = self.token.lock().expect("token");
            if self.outer != self.ep {
                let _ = ep_wait(self.outer, 5000);
            }
            let told = ep_wait(self.ep, if self.outer == self.ep { 5000 } else { 0 });
            drop(token);
            for (data, _) in told.unwrap_or_default() {
                if data != END {
                    self.turn(data as Fd);
                }
            }
        }
    }

    /// Reads until EAGAIN, answers each byte while more are wanted, and asks again.
    fn turn(&self, fd: Fd) {
        let mut byte = [0];
        while sys::read(fd, &mut byte) == Ok(1) {
            if self.left.fetch_sub(1, Ordering::SeqCst) > 1 {
                let _ = sys::write(fd, &byte);
            }
        }
        (self.ask)(self.ep, fd);
    }

    /// Lets one byte go round `times` times. How many were missing when nothing moved any more.
    fn rounds(&self, cx: &mut Cx, p: Pair, times: i32) -> i32 {
        self.left.store(times, Ordering::SeqCst);
        cx.tell(&format!("echo {} {times}", p.id));
        let _ = sys::write(p.fd, b"x");
        self.turn(p.fd);
        let (mut seen, mut since) = (times, Instant::now());
        loop {
            let left = self.left.load(Ordering::SeqCst);
            if left != seen {
                (seen, since) = (left, Instant::now());
            }
            if left == 0 {
                cx.answer();
                return 0;
            }
            if since.elapsed() > Duration::from_secs(3) {
                return left;
            }
            std::thread::yield_now();
        }
    }

    fn end(&self, threads: Vec<JoinHandle<()>>) {
        self.is_over.store(true, Ordering::SeqCst);
        let _ = sys::write(self.ends.1, b"x");
        threads.into_iter().for_each(|thread| thread.join().expect("thread"));
    }
}

fn nonblocking(p: Pair) -> Pair {
    sys::nonblocking(p.fd, true);
    p
}

fn fresh_connections(cx: &mut Cx) {
    let (crew, threads) = Crew::start(None, once);
    let mut missing = 0;
    for _ in 0..150 {
        let p = nonblocking(cx.pair());
        missing += crew.rounds(cx, p, 4);
        if missing > 0 {
            break;
        }
        cx.ask(&format!("close {}", p.id));
        let _ = ep_del(crew.ep, p.fd);
        let _ = sys::close(p.fd);
    }
    say!("missing {missing}");
    crew.end(threads);
    let p = cx.warm();
    say!("after {}", cx.ask(&format!("send {} x", p.id)));
}

/// The same with connections that the set knows before they are connected.
fn fresh_and_connecting(cx: &mut Cx) {
    let (crew, threads) = Crew::start(None, once);
    let mut missing = 0;
    for id in 1000..1150 {
        let port = cx.listening_peer();
        let fd = sys::tcp(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
        let _ = sys::connect(fd, port);
        let _ = ep_add(crew.ep, fd, EPOLLOUT | EPOLLONESHOT, fd as u64);
        cx.ask(&format!("accept {id}"));
        cx.watch(fd);
        missing += crew.rounds(cx, Pair { fd, id }, 4);
        if missing > 0 {
            break;
        }
        cx.ask(&format!("close {id}"));
        let _ = ep_del(crew.ep, fd);
        let _ = sys::close(fd);
    }
    say!("missing {missing}");
    crew.end(threads);
    let p = cx.warm();
    say!("after {}", cx.ask(&format!("send {} x", p.id)));
}

fn on_one_connection(cx: &mut Cx, ask: Ask) {
    let (crew, threads) = Crew::start(None, ask);
    let p = nonblocking(cx.warm());
    say!("missing {}", crew.rounds(cx, p, 2000));
    crew.end(threads);
}

fn added_anew(cx: &mut Cx) {
    on_one_connection(cx, once_anew);
}

fn edge_added_anew(cx: &mut Cx) {
    on_one_connection(cx, edge_anew);
}

fn level_put_back(cx: &mut Cx) {
    on_one_connection(cx, level_anew);
}

fn asked_again(cx: &mut Cx) {
    on_one_connection(cx, once);
}

/// Two numbers of one socket in the set, each with its own record: what one drains the other must still hear
/// of.
fn duplicates(cx: &mut Cx) {
    let (crew, threads) = Crew::start(None, once);
    let p = nonblocking(cx.warm());
    let copy = sys::dup(p.fd).expect("dup") as Fd;
    once(crew.ep, copy);
    say!("missing {}", crew.rounds(cx, p, 2000));
    crew.end(threads);
}

fn two_sets(cx: &mut Cx) {
    let [(one, first), (two, second)] = [once, once_anew].map(|ask| Crew::start(None, ask));
    let p = nonblocking(cx.warm());
    once(two.ep, p.fd);
    // (Either set's threads take bytes, and answer none; a busy kernel delivers one long after it was sent.)
    let taken = || -one.left.load(Ordering::SeqCst) - two.left.load(Ordering::SeqCst);
    let mut missing = 0;
    for sent in 1..=500 {
        cx.ask(&format!("send {} x", p.id));
        once(one.ep, p.fd);
        let end = Instant::now() + Duration::from_secs(3);
        while taken() < sent && Instant::now() < end {
            std::thread::yield_now();
        }
        missing = sent - taken();
        if missing > 0 {
            break;
        }
    }
    say!("missing {missing}");
    one.end(first);
    two.end(second);
}

fn polled_beside(cx: &mut Cx) {
    let (crew, threads) = Crew::start(None, once_anew);
    let p = nonblocking(cx.warm());
    let watched = crew.clone();
    let poller = std::thread::spawn(move || {
        while !watched.is_over.load(Ordering::SeqCst) {
            let _ = sys::poll(&[(p.fd, libc::POLLIN)], 1);
        }
    });
    say!("missing {}", crew.rounds(cx, p, 1000));
    crew.end(threads);
    poller.join().expect("poller");
}

fn nested(cx: &mut Cx) {
    let (crew, threads) = Crew::start(Some(sys::epoll()), once_anew);
    let p = nonblocking(cx.warm());
    say!("missing {}", crew.rounds(cx, p, 1000));
    crew.end(threads);
}

/// Another thread turns the wish around while one sleeps on it, in both directions.
fn turned_around(cx: &mut Cx) {
    let p = nonblocking(cx.warm());
    for flags in [0, EPOLLONESHOT, EPOLLET, EPOLLET | EPOLLONESHOT] {
        let ep = sys::epoll();
        ep_add(ep, p.fd, EPOLLIN | flags, 1).expect("add");
        let (mut wrong, mut byte) = (0, [0; 9]);
        for _ in 0..200 {
            let sleeper = std::thread::spawn(move || ep_wait(ep, 3000));
            let _ = ep_mod(ep, p.fd, EPOLLOUT | flags, 2);
            wrong += u32::from(sleeper.join().expect("sleeper") != Ok(vec![(2, EPOLLOUT as u32)]));
            let _ = ep_mod(ep, p.fd, EPOLLIN | flags, 3);
            let sleeper = std::thread::spawn(move || ep_wait(ep, 3000));
            cx.ask(&format!("send {} x", p.id));
            wrong += u32::from(sleeper.join().expect("sleeper") != Ok(vec![(3, EPOLLIN as u32)]));
            let _ = sys::read(p.fd, &mut byte);
            if wrong > 2 {
                break;
            }
        }
        say!("{flags:#x}: wrong {wrong}");
        let _ = sys::close(ep);
    }
}

/// A thread asks by number all the while, whichever socket that is: it is the one that stands there when the
/// kernel is asked, and none is asked for what is another's.
fn asked_by_number(cx: &mut Cx) {
    const ROUNDS: usize = 500;
    let (ep, number) = (sys::epoll(), sys::dup(0).expect("dup") as Fd);
    let is_over = Arc::new(AtomicBool::new(false));
    let asker = std::thread::spawn({
        let is_over = is_over.clone();
        move || {
            while !is_over.load(Ordering::SeqCst) {
                let _ = ep_mod(ep, number, ONCE, 7);
            }
        }
    });
    let mut silent = 0;
    for _ in 0..ROUNDS {
        let p = nonblocking(cx.pair());
        sys::dup3(p.fd, number, libc::O_CLOEXEC).expect("dup3");
        let _ = sys::close(p.fd);
        let _ = ep_add(ep, number, ONCE, 7);
        cx.ask(&format!("send {} x", p.id));
        silent += u32::from(ep_wait(ep, 3000).is_ok_and(|told| told.is_empty()));
        while sys::read(number, &mut [0]) == Ok(1) {}
        cx.ask(&format!("close {}", p.id));
    }
    is_over.store(true, Ordering::SeqCst);
    asker.join().expect("asker");
    say!("silent {silent}");
}

/// Each question has data of its own. Once it was answered, and another was asked, nobody is told of it.
fn asked_anew(_: &mut Cx) {
    const ROUNDS: u64 = 150;
    // (Who is woken by a question runs in the middle of it.)
    sys::stay_on_one_core();
    let (ep, ends, (listener, port)) = (sys::epoll(), sys::pipe(0), sys::listener());
    ep_add(ep, ends.0, EPOLLIN, END).expect("add the end");
    // (So fresh that the client's room is on TCP still.)
    let client = sys::tcp(libc::SOCK_CLOEXEC);
    sys::connect(client, port).expect("connect");
    let server = sys::accept4(listener, libc::SOCK_CLOEXEC).expect("accept") as Fd;
    for (from, to) in [(client, server), (server, client)] {
        sys::write(from, b"h").expect("write");
        sys::read(to, &mut [0]).expect("read");
    }
    sys::write(server, b"x").expect("write");
    until_queued(client, 1);
    ep_add(ep, client, EPOLLIN | EPOLLET, 0).expect("add");
    let told: Arc<Vec<AtomicI32>> = Arc::new((0..ROUNDS).map(|_| AtomicI32::new(0)).collect());
    let sleeper = std::thread::spawn({
        let told = told.clone();
        move || loop {
            for (data, _) in ep_wait(ep, -1).unwrap_or_default() {
                let Some(told) = told.get(data as usize) else { return };
                told.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    let mut late = 0;
    for round in 0..ROUNDS {
        if round > 0 {
            ep_mod(ep, client, EPOLLIN | EPOLLOUT | EPOLLET, round).expect("mod");
        }
        let from = Instant::now();
        while told[round as usize].load(Ordering::SeqCst) == 0 && from.elapsed() < Duration::from_secs(3) {
            std::thread::sleep(Duration::from_micros(500));
        }
        late += i32::from(told[round as usize].load(Ordering::SeqCst) == 0);
        std::thread::sleep(Duration::from_millis(2));
    }
    let counts = told.iter().map(|told| told.load(Ordering::SeqCst));
    say!("late {late}, told again {}", counts.filter(|count| *count > 1).count());
    sys::write(ends.1, b"x").expect("an end");
    sleeper.join().expect("sleeper");
}
