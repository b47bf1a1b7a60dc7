//! Bytes held back: MSG_MORE, TCP_CORK. What is held is not seen before the program says so or TCP's 200 ms
//! are over, and then by whoever waits for it, in whatever way; nothing that is held is ever lost.
//!
//! A machine that stops for 200 ms lets TCP's own timer run out in the middle: what is to be seen as one is
//! tried a few times.

use crate::context::{Case, Cx, Pair, got, pattern, read_all, say, until_queued, write_all};
use isthmus_tests::sys::{self, Fd, Select, show};
use libc::{EPOLLET, EPOLLIN, IPPROTO_TCP, MSG_DONTWAIT, MSG_MORE, POLLIN, TCP_CORK, TCP_NODELAY};

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: true, run }
}

pub(crate) const CASES: &[Case] = &[
    case("push.more_waits_for_the_rest", more_waits_for_the_rest),
    case("push.cork_waits_for_its_end", cork_waits_for_its_end),
    case("push.corked_before_connecting", corked_before_connecting),
    case("push.nodelay_pushes_a_corked_socket", nodelay_pushes_a_corked_socket),
    case("push.held_long_enough_is_seen_by_every_wait", held_long_enough_is_seen_by_every_wait),
    case("push.held_long_enough_is_seen_by_who_asks", held_long_enough_is_seen_by_who_asks),
    case("push.held_long_enough_raises_a_signal", held_long_enough_raises_a_signal),
    case("push.who_hears_of_it_may_leave", who_hears_of_it_may_leave),
    case("push.short_waits_on_a_set_around", short_waits_on_a_set_around),
    case("push.a_set_that_was_left_alone", a_set_that_was_left_alone),
    case("push.whatever_ends_the_stream_lets_out", whatever_ends_the_stream_lets_out),
    case("push.a_killed_writer_has_written", a_killed_writer_has_written),
    case("push.much_is_not_held", much_is_not_held),
    Case { name: "push.urgent_data_behind_what_is_held", shm: false, run: urgent_data_behind_what_is_held },
    case("push.a_full_ring_of_small_pieces", a_full_ring_of_small_pieces),
];

const TRIES: usize = 6;

/// What `attempt` shows, if it does so at all.
fn seen(wanted: &str, mut attempt: impl FnMut() -> String) {
    let mut last = String::new();
    for _ in 0..TRIES {
        last = attempt();
        if last == wanted {
            break;
        }
    }
    say!("{last}");
}

fn take(fd: Fd) -> String {
    let mut buf = [0; 64];
    let r = sys::read(fd, &mut buf);
    got(r, &buf)
}

fn is_there(fd: Fd, ms: i32) -> bool {
    sys::poll1(fd, POLLIN, ms).contains("IN")
}

fn more_waits_for_the_rest(cx: &mut Cx) {
    let Pair { fd, id } = cx.warm();
    seen("false false 8 'headrest'", || {
        cx.ask(&format!("more {id} head"));
        let early = [is_there(fd, 0), is_there(fd, 30)];
        cx.ask(&format!("send {id} rest"));
        let together = take(fd);
        sys::recv(fd, &mut [0; 64], MSG_DONTWAIT).ok();
        format!("{} {} {together}", early[0], early[1])
    });
    say!("more -> {}", show(sys::send(fd, b"abc", MSG_MORE)));
    say!("more -> {}", show(sys::send(fd, b"def", MSG_MORE | MSG_DONTWAIT)));
    say!("last -> {}", show(sys::write(fd, b"g")));
    cx.peer(&format!("recvn {id} 7"));
}

fn cork(fd: Fd, on: i32) {
    assert_eq!(sys::setopt(fd, IPPROTO_TCP, TCP_CORK, on), Ok(0));
}

/// Writes two pieces through a corked socket; what the peer finds before and after it is uncorked.
fn corked(cx: &mut Cx, Pair { fd, id }: Pair, end: fn(Fd)) {
    seen("- then IN: 4 'abcd'", || {
        cork(fd, 1);
        assert_eq!((sys::write(fd, b"ab"), sys::write(fd, b"cd")), (Ok(2), Ok(2)));
        let early = cx.ask(&format!("poll {id} {POLLIN} 20"));
        end(fd);
        let late = cx.ask(&format!("poll {id} {POLLIN} 5000"));
        let seen = cx.ask(&format!("recv {id} 64"));
        cork(fd, 0);
        format!("{early} then {late}: {seen}")
    });
}

fn cork_waits_for_its_end(cx: &mut Cx) {
    let pair = cx.warm();
    corked(cx, pair, |fd| cork(fd, 0));
    corked(cx, pair, |fd| cork(fd, 0));
}

fn nodelay_pushes_a_corked_socket(cx: &mut Cx) {
    let pair = cx.warm();
    corked(cx, pair, |fd| assert_eq!(sys::setopt(fd, IPPROTO_TCP, TCP_NODELAY, 1), Ok(0)));
}

fn corked_before_connecting(cx: &mut Cx) {
    let port = cx.listening_peer();
    let fd = sys::tcp(libc::SOCK_CLOEXEC);
    cork(fd, 1);
    sys::connect(fd, port).expect("connect");
    cx.watch(fd);
    cx.ask("accept 0");
    cx.ask("send 0 x");
    say!("{}", take(fd));
    assert_eq!(sys::write(fd, b"hold"), Ok(4));
    // (Over TCP the first write after an answer goes out once the 200 ms are over, at the latest.)
    cx.peer("recv 0 64");
    corked(cx, Pair { fd, id: 0 }, |fd| cork(fd, 0));
}

fn held_long_enough_is_seen_by_every_wait(cx: &mut Cx) {
    let Pair { fd, id } = cx.warm();
    let later = format!("later 40 more {id} held");
    cx.ask(&later);
    say!("read {}", take(fd));
    cx.ask(&later);
    say!("poll {} {}", sys::poll1(fd, POLLIN, 5000), take(fd));
    cx.ask(&later);
    say!("select {} {}", sys::select(Select::Plain, &[fd], &[], &[], 5000), take(fd));
    for events in [EPOLLIN, EPOLLIN | EPOLLET] {
        let (outer, inner) = (sys::epoll(), sys::epoll());
        sys::ep_add(inner, fd, events, 1).expect("added");
        cx.ask(&later);
        say!("epoll {} {}", sys::ep_show(inner, 5000), take(fd));
        sys::ep_add(outer, inner, EPOLLIN, 2).expect("added");
        cx.ask(&later);
        let mut told = sys::ep_show(outer, 5000);
        while sys::ep_show(inner, 0) == "0" && told != "0" {
            told = sys::ep_show(outer, 5000);
        }
        say!("nested {told} {}", take(fd));
        for ep in [outer, inner] {
            sys::close(ep).expect("closed");
        }
    }
}

fn held_long_enough_is_seen_by_who_asks(cx: &mut Cx) {
    let Pair { fd, id } = cx.warm();
    cx.ask(&format!("more {id} held"));
    crate::context::until("bytes that are due", || sys::recv(fd, &mut [0; 4], MSG_DONTWAIT) == Ok(4));
    cx.ask(&format!("more {id} held"));
    crate::context::until("bytes that are due", || is_there(fd, 0));
    say!("{}", take(fd));
    cx.ask(&format!("more {id} held"));
    until_queued(fd, 4);
    say!("{}", take(fd));
}

/// Who reads when SIGIO comes, and only then.
fn held_long_enough_raises_a_signal(cx: &mut Cx) {
    let Pair { fd, id } = cx.warm();
    sys::catch(libc::SIGIO, true);
    sys::fcntl(fd, libc::F_SETOWN, std::process::id() as i32).expect("owner");
    sys::fcntl(fd, libc::F_SETFL, libc::O_ASYNC | libc::O_NONBLOCK).expect("flags");
    let mut before = sys::hits();
    cx.ask(&format!("later 40 more {id} held"));
    let mut seen = String::new();
    crate::context::until("a signal for bytes that are due", || {
        let now = sys::hits();
        if now != before {
            before = now;
            seen = take(fd);
        }
        seen.contains("held")
    });
    say!("{seen}");
}

/// Somebody else waits, who is rung instead of the reader, and goes before the bytes are due.
fn who_hears_of_it_may_leave(cx: &mut Cx) {
    let Pair { fd, id } = cx.warm();
    for wait in 0..3 {
        let reader = std::thread::spawn(move || take(fd));
        std::thread::sleep(std::time::Duration::from_millis(80));
        let set = sys::epoll();
        sys::ep_add(set, fd, EPOLLIN | EPOLLET, 1).expect("added");
        cx.ask(&format!("later 30 more {id} held"));
        match wait {
            0 => drop(sys::poll1(fd, POLLIN, 90)),
            1 => drop(sys::ep_wait(set, 90)),
            _ => drop(sys::select(Select::Plain, &[fd], &[], &[], 90)),
        }
        say!("{}", reader.join().expect("no panic"));
        sys::close(set).expect("closed");
    }
}

/// The outer set has no socket itself, and no wait is as long as a look apart.
fn short_waits_on_a_set_around(cx: &mut Cx) {
    let Pair { fd, id } = cx.warm();
    let (outer, inner) = (sys::epoll(), sys::epoll());
    sys::ep_add(inner, fd, EPOLLIN, 1).expect("added");
    sys::ep_add(outer, inner, EPOLLIN, 2).expect("added");
    cx.ask(&format!("later 30 more {id} held"));
    let mut seen = String::new();
    crate::context::until("bytes that are due", || {
        if sys::ep_wait(outer, 5).is_ok_and(|told| !told.is_empty()) {
            seen = sys::ep_show(inner, 0);
        }
        seen.contains("IN")
    });
    say!("{seen} {}", take(fd));
}

/// Held bytes are heard of in a wait, and are long due when the next one begins.
fn a_set_that_was_left_alone(cx: &mut Cx) {
    let Pair { fd, id } = cx.warm();
    let (set, (left, right)) = (sys::epoll(), sys::socketpair());
    sys::ep_add(set, fd, EPOLLIN, 1).expect("added");
    sys::ep_add(set, left, EPOLLIN, 2).expect("added");
    cx.ask(&format!("later 30 more {id} held"));
    sys::write(right, b"x").expect("written");
    for _ in 0..20 {
        let _ = sys::ep_wait(set, 20);
    }
    sys::read(left, &mut [0; 4]).expect("read");
    std::thread::sleep(std::time::Duration::from_millis(600));
    say!("{} {}", sys::ep_show(set, -1), take(fd));
}

fn whatever_ends_the_stream_lets_out(cx: &mut Cx) {
    let pair = cx.warm();
    cx.ask(&format!("more {} held", pair.id));
    cx.ask(&format!("shut {} 1", pair.id));
    say!("shutdown {}", read_all(pair.fd, usize::MAX));
    let pair = cx.warm();
    cx.ask(&format!("more {} held", pair.id));
    cx.ask(&format!("close {}", pair.id));
    say!("close {}", read_all(pair.fd, usize::MAX));
    let pair = cx.warm();
    cx.ask(&format!("more {} held", pair.id));
    cx.end_by("exit");
    say!("exit {}", read_all(pair.fd, usize::MAX));
}

fn a_killed_writer_has_written(cx: &mut Cx) {
    let pair = cx.warm();
    cx.ask(&format!("more {} held", pair.id));
    cx.end_by("die");
    say!("{}", read_all(pair.fd, usize::MAX));
}

fn much_is_not_held(cx: &mut Cx) {
    let Pair { fd, id } = cx.warm();
    cork(fd, 1);
    let bytes = pattern(200_000);
    cx.tell(&format!("recvn {id} 100000"));
    say!("{}", write_all(fd, &bytes));
    say!("{}", cx.answer());
    cork(fd, 0);
    cx.peer(&format!("recvn {id} 100000"));
}

fn urgent_data_behind_what_is_held(cx: &mut Cx) {
    let Pair { fd, id } = cx.warm();
    say!("more -> {}", show(sys::send(fd, b"held", MSG_MORE)));
    say!("oob -> {}", show(sys::send(fd, b"!", libc::MSG_OOB)));
    say!("then -> {}", show(sys::write(fd, b"then")));
    cx.peer(&format!("recvn {id} 8"));
}

/// Nothing but held pieces, more than any buffer takes: the writer is told of no space and goes on when
/// there is some.
fn a_full_ring_of_small_pieces(cx: &mut Cx) {
    let Pair { fd, id } = cx.warm();
    cx.tell(&format!("tally {id}"));
    let piece = pattern(1000);
    for _ in 0..8000 {
        assert_eq!(sys::send(fd, &piece, MSG_MORE), Ok(1000));
    }
    sys::shutdown(fd, 1).expect("shut");
    say!("{}", cx.answer());
}
