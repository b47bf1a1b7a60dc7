//! Families of processes: who forks, when, out of what, and who goes first.

use crate::context::{Case, Cx, got, say, settle, until};
use isthmus_tests::sys::{self, Fd, show};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub(crate) const CASES: &[Case] = &[
    Case { name: "family.parent_exits_first", shm: false, run: parent_exits_first },
    Case { name: "family.daemon", shm: false, run: daemon },
    Case { name: "family.threads_in_calls", shm: true, run: threads_in_calls },
    Case { name: "family.many_forks_beside_threads", shm: true, run: many_forks },
    Case { name: "family.handler_forks_in_a_read", shm: true, run: handler_forks },
    Case { name: "family.children_take_turns", shm: true, run: children_take_turns },
    Case { name: "family.chain", shm: false, run: chain },
    Case { name: "family.child_sweeps_and_ends", shm: true, run: child_sweeps },
    Case { name: "family.vfork_and_spawn", shm: true, run: vfork_and_spawn },
    Case { name: "family.vfork_child_tidies_up", shm: true, run: vfork_child_tidies_up },
    Case { name: "family.vfork_child_tidied_up_before_a_reset", shm: true, run: tidied_up_before_a_reset },
    Case { name: "family.vfork_child_at_work", shm: true, run: vfork_child_at_work },
    Case { name: "family.zombies_hold_nothing", shm: true, run: zombies },
    Case { name: "family.half_close_before_the_claim", shm: false, run: half_close_before_the_claim },
    Case { name: "family.same_addresses_in_two_networks", shm: false, run: same_addresses_in_two_networks },
    Case { name: "family.server_of_workers", shm: false, run: server_of_workers },
];

fn serve(fd: Fd) -> u8 {
    let mut buf = [0u8; 9];
    let good = sys::read(fd, &mut buf) == Ok(4) && &buf[..4] == b"ping" && sys::write(fd, b"pong") == Ok(4);
    (!good).into()
}

fn ping(cx: &mut Cx, id: u32) {
    cx.peer(&format!("send {id} ping"));
    cx.peer(&format!("recv {id} 9"));
}

/// A pause until the process `pid`, which may be nobody's child, has gone.
fn until_gone(pid: i32) {
    until("end of a process", || sys::kill(pid, 0).is_err());
}

/// The one who has the connection first ends without a close while its child serves.
fn parent_exits_first(cx: &mut Cx) {
    for way in [0, 1] {
        let p = cx.warm();
        let parent = sys::fork(|| {
            if serve(p.fd) != 0 {
                return 1;
            }
            let child = sys::fork(|| {
                std::thread::sleep(Duration::from_millis(50));
                serve(p.fd) + serve(p.fd)
            });
            if way == 1 {
                let _ = sys::kill(std::process::id() as i32, libc::SIGKILL);
            }
            u8::from(child <= 0)
        });
        say!("close -> {}", show(sys::close(p.fd)));
        ping(cx, p.id);
        say!("parent {}", sys::wait(parent));
        cx.peer(&format!("poll {} 1 20", p.id));
        ping(cx, p.id);
        ping(cx, p.id);
        cx.peer(&format!("drain {}", p.id));
    }
}

fn daemon(cx: &mut Cx) {
    let p = cx.warm();
    let first = sys::fork(|| {
        sys::fork(|| {
            let grandchild = sys::fork(|| serve(p.fd) + serve(p.fd));
            let _ = sys::close(p.fd);
            u8::from(grandchild <= 0)
        });
        0
    });
    say!("first {}", sys::wait(first));
    say!("close -> {}", show(sys::close(p.fd)));
    settle();
    ping(cx, p.id);
    ping(cx, p.id);
    cx.peer(&format!("drain {}", p.id));
}

/// Children of all fates, while threads sleep in each kind of call; then everything goes on, and ends.
fn threads_in_calls(cx: &mut Cx) {
    let pairs: Vec<_> = (0..4).map(|_| cx.warm()).collect();
    let [a, b, c, d] = [pairs[0].fd, pairs[1].fd, pairs[2].fd, pairs[3].fd];
    let ep = sys::epoll();
    sys::ep_add(ep, c, libc::EPOLLIN, 7).expect("add");
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || serve(a));
        let poller = scope.spawn(move || {
            let told = sys::poll1(b, libc::POLLIN, 10_000);
            format!("{told} {}", serve(b))
        });
        let waiter = scope.spawn(move || format!("{} {}", sys::ep_show(ep, 10_000), serve(c)));
        let selector = scope.spawn(move || {
            format!("{} {}", sys::select(sys::Select::Plain, &[d], &[], &[], 10_000), serve(d))
        });
        settle();
        for round in 0..40 {
            let child = sys::fork(|| match round % 4 {
                0 => 0,
                1 => sys::close_range(3, u32::MAX, 0).is_err().into(),
                2 => [a, b, c, d].iter().filter(|fd| sys::close(**fd).is_err()).count() as u8,
                _ => {
                    let _ = sys::kill(std::process::id() as i32, libc::SIGKILL);
                    9
                }
            });
            let wanted = if round % 4 == 3 { "signal 9" } else { "exit 0" };
            let end = sys::wait(child);
            if end != wanted {
                say!("child {end}");
            }
        }
        for p in &pairs {
            ping(cx, p.id);
        }
        say!("{} {}", reader.join().expect("reader"), poller.join().expect("poller"));
        say!("{} {}", waiter.join().expect("waiter"), selector.join().expect("selector"));
    });
    for p in &pairs[1..] {
        say!("close -> {}", show(sys::close(p.fd)));
        cx.peer(&format!("drain {}", p.id));
    }
    cx.watch(a);
}

/// A thousand forks while two threads exchange without a pause.
fn many_forks(cx: &mut Cx) {
    let (p, q) = (cx.warm(), cx.warm());
    cx.ask(&format!("later 0 echo {} 1000000000", q.id));
    let stop = AtomicBool::new(false);
    let (good, wrong) = std::thread::scope(|scope| {
        let exchange = scope.spawn(|| {
            let (mut wrong, mut round) = (0, 0u8);
            while !stop.load(Ordering::Relaxed) {
                round = round.wrapping_add(1);
                let mut back = [0u8; 700];
                let sent = sys::write(q.fd, &[round; 700]);
                let got = sys::recv(q.fd, &mut back, libc::MSG_WAITALL);
                wrong += usize::from(sent != Ok(700) || got != Ok(700) || back != [round; 700]);
            }
            wrong
        });
        let child = |round| sys::fork(|| u8::from(round % 2 == 0 && sys::close(q.fd).is_err()));
        let good = (0..1000).filter(|round| sys::wait(child(*round)) == "exit 0").count();
        stop.store(true, Ordering::Relaxed);
        (good, exchange.join().expect("exchange"))
    });
    say!("{good} children ended well, {wrong} exchanges did not");
    cx.peer(&format!("send {} ping", p.id));
    say!("served {}", serve(p.fd));
    cx.watch(q.fd);
}

/// The handler of a signal that interrupts a read makes a child; both go on with that read.
fn handler_forks(cx: &mut Cx) {
    for round in 0..3 {
        let p = cx.warm();
        let (mine, me) = (std::process::id(), sys::this_thread());
        sys::fork_in_handler(libc::SIGUSR1);
        let interrupter = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            sys::signal_thread(me, libc::SIGUSR1);
        });
        let peer = format!("later 80 sendn {} 8", p.id);
        cx.ask(&peer);
        let mut four = [0u8; 4];
        let got = sys::recv(p.fd, &mut four, libc::MSG_WAITALL);
        let written = sys::write(p.fd, b"here");
        if std::process::id() != mine {
            let closed = sys::close(p.fd);
            sys::exit_now(u8::from(got != Ok(4) || written != Ok(4) || closed.is_err()));
        }
        interrupter.join().expect("interrupter");
        say!("recv -> {} write -> {}", show(got), show(written));
        say!("child {}", sys::wait(sys::forked()));
        cx.peer(&format!("recvn {} 8", p.id));
        ping_back(cx, p.fd, p.id);
        if round < 2 {
            say!("close -> {}", show(sys::close(p.fd)));
            cx.peer(&format!("drain {}", p.id));
        }
    }
}

fn ping_back(cx: &mut Cx, fd: Fd, id: u32) {
    cx.peer(&format!("send {id} ping"));
    say!("served {}", serve(fd));
    cx.peer(&format!("recv {id} 9"));
}

/// One request each, in turn, and the parent between them.
fn children_take_turns(cx: &mut Cx) {
    let p = cx.warm();
    for _ in 0..5 {
        let children = [0, 1, 2].map(|_| sys::fork(|| serve(p.fd)));
        for _ in children {
            ping(cx, p.id);
        }
        let good = children.iter().filter(|child| sys::wait(**child) == "exit 0").count();
        say!("{good} children");
        ping_back(cx, p.fd, p.id);
    }
}

/// Each gives the connection on to its child, and ends.
fn chain(cx: &mut Cx) {
    fn link(fd: Fd, left: u32) -> u8 {
        let bad = serve(fd);
        if left > 0 {
            sys::fork(|| link(fd, left - 1));
        }
        bad
    }
    let p = cx.warm();
    let first = sys::fork(|| link(p.fd, 6));
    say!("close -> {}", show(sys::close(p.fd)));
    for _ in 0..7 {
        ping(cx, p.id);
    }
    say!("first {}", sys::wait(first));
    cx.peer(&format!("drain {}", p.id));
}

/// Close loops, as daemons make them, in a child of each kind of end.
fn child_sweeps(cx: &mut Cx) {
    let p = cx.warm();
    for way in 0..3 {
        let child = sys::fork(|| {
            match way {
                0 => (3..1024).for_each(|fd| _ = sys::close(fd)),
                1 => _ = sys::close_range(3, u32::MAX, 0),
                _ => (0..1024).for_each(|fd| _ = sys::close(fd)),
            }
            0
        });
        say!("child {}", sys::wait(child));
        cx.peer(&format!("poll {} 1 30", p.id));
        ping_back(cx, p.fd, p.id);
    }
}

fn vfork_and_spawn(cx: &mut Cx) {
    let p = cx.warm();
    for _ in 0..10 {
        say!("vfork: {}", sys::wait(sys::vfork_exec(c"/bin/true")));
        say!("vfork in vain: {}", sys::wait(sys::vfork_exec(c"/nowhere/at/all")));
        let spawned = std::process::Command::new("/bin/true").status();
        say!("spawned {}", spawned.map_or("failed".into(), |status| status.to_string()));
        ping_back(cx, p.fd, p.id);
    }
    sys::fcntl(p.fd, libc::F_SETFD, 0).expect("inheritable");
    say!("vfork: {}", sys::wait(sys::vfork_exec(c"/bin/true")));
    say!("vfork in vain: {}", sys::wait(sys::vfork_exec(c"/nowhere/at/all")));
    ping_back(cx, p.fd, p.id);
    let q = cx.warm();
    say!("close -> {}", show(sys::close(p.fd)));
    cx.peer(&format!("drain {}", p.id));
    cx.watch(q.fd);
}

/// What a child closes and replaces before it becomes another program is its parent's still, though they
/// share memory.
fn vfork_child_tidies_up(cx: &mut Cx) {
    let (p, q) = (cx.warm(), cx.warm());
    let (r, _w) = sys::pipe(0);
    let ep = sys::epoll();
    sys::ep_add(ep, p.fd, libc::EPOLLIN, 7).expect("add");
    for _ in 0..5 {
        say!("vfork: {}", sys::wait(sys::vfork_tidying(p.fd, r, q.fd, 3)));
        for pair in [p, q] {
            ping_back(cx, pair.fd, pair.id);
        }
        cx.ask(&format!("send {} x", p.id));
        say!("set {}", sys::ep_show(ep, 3000));
        say!("read -> {}", show(sys::read(p.fd, &mut [0; 1])));
    }
    say!("close -> {}", show(sys::close(p.fd)));
    cx.peer(&format!("drain {}", p.id));
    cx.watch(q.fd);
}

/// A child that had the connection's number, and closed it before it became another program, has no part in
/// it: who closes it with bytes unread is the last, and resets it.
fn tidied_up_before_a_reset(cx: &mut Cx) {
    let (p, q, unrelated) = (cx.warm(), cx.warm(), cx.warm());
    let (r, _w) = sys::pipe(0);
    say!("vfork: {}", sys::wait(sys::vfork_tidying(p.fd, r, q.fd, 3)));
    for pair in [p, q] {
        cx.peer(&format!("send {} unread", pair.id));
        say!("comes {}", sys::poll1(pair.fd, libc::POLLIN, 3000));
        say!("close -> {}", show(sys::close(pair.fd)));
        // (It looks at nothing but TCP.)
        settle();
        cx.peer(&format!("has_peer {}", pair.id));
        cx.peer(&format!("recv {} 9", pair.id));
    }
    cx.watch(unrelated.fd);
}

/// What a child in its parent's memory does with numbers that it has changed goes where the kernel's would.
fn vfork_child_at_work(cx: &mut Cx) {
    let p = cx.warm();
    let (r, w) = sys::pipe(0);
    for _ in 0..5 {
        say!("vfork: {}", sys::wait(sys::vfork_at_work(p.fd, w)));
        cx.peer(&format!("recv {} 4", p.id));
        let mut buf = [0; 8];
        let read = sys::read(r, &mut buf);
        say!("the pipe -> {} {:?}", show(read), buf);
        ping_back(cx, p.fd, p.id);
    }
    say!("close -> {}", show(sys::close(p.fd)));
    cx.peer(&format!("drain {}", p.id));
}

/// Twenty of them, which had the connection, and were killed at work or in a call.
fn zombies(cx: &mut Cx) {
    let p = cx.warm();
    let children: Vec<i32> = (0..20)
        .map(|n| {
            sys::fork(
                || if n % 2 == 0 { serve(p.fd) } else { sys::poll1(p.fd, libc::POLLIN, -1).len() as u8 },
            )
        })
        .collect();
    settle();
    children.iter().for_each(|child| _ = sys::kill(*child, libc::SIGKILL));
    settle();
    ping_back(cx, p.fd, p.id);
    let q = cx.warm();
    say!("close -> {}", show(sys::close(p.fd)));
    cx.peer(&format!("drain {}", p.id));
    let good = children.iter().filter(|child| sys::wait(**child) == "signal 9").count();
    say!("{good} were killed");
    cx.watch(q.fd);
}

/// A client that says all it has to say, half-closes and is gone before anybody has accepted it.
fn half_close_before_the_claim(cx: &mut Cx) {
    let (listener, port) = sys::listener();
    for way in ["close", "exit", "kill", "half only"] {
        for how in [libc::SHUT_WR, libc::SHUT_RDWR] {
            let client = sys::fork(|| {
                let fd = sys::tcp(0);
                let said = sys::connect(fd, port).is_ok()
                    && sys::write(fd, b"first words") == Ok(11)
                    && sys::shutdown(fd, how).is_ok();
                match way {
                    "close" => _ = sys::close(fd),
                    "kill" => _ = sys::kill(std::process::id() as i32, libc::SIGKILL),
                    "half only" => std::thread::sleep(Duration::from_millis(100)),
                    _ => {}
                }
                u8::from(!said)
            });
            if way == "half only" {
                settle();
            } else {
                say!("{way} {how}: {}", sys::wait(client));
            }
            let fd = sys::accept(listener).expect("accept") as Fd;
            let mut all = [0u8; 64];
            let got = sys::recv(fd, &mut all, libc::MSG_WAITALL);
            say!("{way} {how}: got {} {}", show(got), String::from_utf8_lossy(&all[..got.unwrap_or(0)]));
            if way == "half only" {
                say!("client {}", sys::wait(client));
            }
            say!("recv -> {}", show(sys::recv(fd, &mut all, 0)));
            say!("close -> {}", show(sys::close(fd)));
        }
    }
    let _ = cx;
}

/// A listener whose workers accept, fork for each connection, and let go of it themselves.
fn server_of_workers(cx: &mut Cx) {
    let (listener, port) = sys::listener();
    let workers = [0, 1].map(|_| {
        sys::fork(|| {
            for _ in 0..4 {
                let Ok(fd) = sys::accept(listener) else { return 1 };
                let fd = fd as Fd;
                let child = sys::fork(|| serve(fd) + serve(fd));
                let _ = sys::close(fd);
                if child <= 0 {
                    return 2;
                }
            }
            0
        })
    });
    for id in 100..108 {
        cx.ask(&format!("connect {id} {port}"));
        ping(cx, id);
        cx.peer(&format!("poll {id} 1 20"));
        ping(cx, id);
        cx.peer(&format!("drain {id}"));
    }
    for worker in workers {
        let end = sys::wait(worker);
        say!("worker {end}");
        until_gone(worker);
    }
}

/// A process with sockets in two network namespaces: the same addresses and ports are two connections, and
/// neither is the other's.
fn same_addresses_in_two_networks(_: &mut Cx) {
    let read_by = |fd: Fd| {
        let mut buf = [0; 9];
        let read = sys::read(fd, &mut buf);
        got(read, &buf)
    };
    let here = sys::this_network().expect("a namespace");
    let (listener, port) = sys::listener();
    let at_home = sys::tcp(0);
    sys::connect(at_home, port).expect("connect");
    if sys::own_network().is_err() {
        return say!("this user has no other network");
    }
    let away = sys::this_network().expect("a namespace");
    let elsewhere = sys::tcp_listener(0);
    sys::bind(elsewhere, port).expect("bind");
    sys::listen(elsewhere, 9).expect("listen");
    let far = sys::tcp(0);
    sys::setopt(far, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1).expect("SO_REUSEADDR");
    sys::bind_client(far, sys::port_of(at_home)).expect("bind");
    sys::connect(far, port).expect("connect");
    say!("same ports {}", sys::port_of(far) == sys::port_of(at_home));
    for (client, text) in [(at_home, "at home"), (far, "far")] {
        say!("write -> {}", show(sys::write(client, text.as_bytes())));
    }
    sys::enter_network(&here).expect("back");
    let accepted = [elsewhere, listener].map(|listener| sys::accept(listener).expect("accept") as Fd);
    accepted.iter().for_each(|fd| say!("read -> {}", read_by(*fd)));
    for (fd, text) in accepted.iter().zip(["to far", "to home"]) {
        say!("answer -> {}", show(sys::write(*fd, text.as_bytes())));
    }
    [far, at_home].iter().for_each(|fd| say!("answered {}", read_by(*fd)));
    // (A question that is asked over there for the first time.)
    sys::enter_network(&away).expect("there");
    for fd in accepted {
        say!("close -> {}", show(sys::close(fd)));
    }
    [far, at_home].iter().for_each(|fd| say!("end {}", read_by(*fd)));
    sys::enter_network(&here).expect("back");
}
