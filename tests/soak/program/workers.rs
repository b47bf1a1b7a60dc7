//! Workers that wait on one level-triggered set, each for a few events at a time, and are away for moments:
//! whom two threads lose between them nobody answers.

use crate::{LOST, Tally};
use isthmus_tests::sys::{self, Fd, Wait};
use libc::{EPOLLIN, MSG_NOSIGNAL};
use std::time::{Duration, Instant};
use testkit::Random;

const WORKERS: u64 = 4;
const CONNECTIONS: u64 = 100;
const LONGEST_PAUSE_US: usize = 20;

/// Serves all connections that it is asked for in the beginning.
pub(crate) fn server(port: u16) -> Result<String, String> {
    let (listener, ep) = (sys::tcp_listener(0), sys::epoll());
    sys::bind(listener, port).map_err(|e| format!("bind: {e}"))?;
    sys::listen(listener, 128).map_err(|e| format!("listen: {e}"))?;
    for _ in 0..CONNECTIONS {
        let fd = sys::accept4(listener, libc::SOCK_NONBLOCK).map_err(|e| format!("accept: {e}"))?;
        sys::ep_add(ep, fd as Fd, EPOLLIN, fd as u64).map_err(|e| format!("add: {e}"))?;
    }
    let (to, from) = std::sync::mpsc::channel();
    for seed in 0..WORKERS {
        let to = to.clone();
        std::thread::spawn(move || to.send(work(ep, seed)));
    }
    // (The first that cannot go on ends all.)
    from.recv().expect("workers").map(|()| Tally::default().to_string())
}

fn work(ep: Fd, seed: u64) -> Result<(), String> {
    let (mut random, mut message) = (Random::new(seed), [0; 64]);
    loop {
        let most = 1 + random.below(3);
        for (data, _) in sys::ep_wait_by(Wait::Plain, ep, most, -1).map_err(|e| format!("wait: {e}"))? {
            if random.once_in(8) {
                std::thread::sleep(Duration::from_micros(random.below(LONGEST_PAUSE_US) as u64));
            }
            // (Another worker may have been faster.)
            if let Ok(n) = sys::read(data as Fd, &mut message)
                && n > 0
            {
                sys::send(data as Fd, &message[..n], MSG_NOSIGNAL).map_err(|e| format!("send: {e}"))?;
            }
        }
    }
}

/// One message at a time is on its way over each connection.
pub(crate) fn client(port: u16, seconds: u64) -> Result<String, String> {
    let ep = sys::epoll();
    let connect = |n: u64| {
        let fd = sys::tcp(0);
        sys::connect(fd, port).map_err(|e| format!("connect: {e}"))?;
        sys::ep_add(ep, fd, EPOLLIN, n).map_err(|e| format!("add: {e}"))?;
        Ok::<_, String>((fd, Instant::now()))
    };
    let mut talks = (0..CONNECTIONS).map(connect).collect::<Result<Vec<_>, _>>()?;
    let say = |fd, n: u64| sys::send(fd, &n.to_ne_bytes(), MSG_NOSIGNAL).map_err(|e| format!("send: {e}"));
    for (n, (fd, begun)) in (0..).zip(&mut talks) {
        *begun = Instant::now();
        say(*fd, n)?;
    }
    let (end, mut tally) = (Instant::now() + Duration::from_secs(seconds), Tally::default());
    while Instant::now() < end {
        for (n, _) in sys::ep_wait(ep, 100).map_err(|e| format!("wait: {e}"))? {
            let (fd, begun) = &mut talks[n as usize];
            let mut answer = [0; 8];
            let got = sys::read(*fd, &mut answer).map_err(|e| format!("read: {e}"))?;
            if got != answer.len() || u64::from_ne_bytes(answer) != n {
                return Err(format!("connection {n}: {got} bytes, {answer:?}"));
            }
            tally.note(*begun);
            *begun = Instant::now();
            say(*fd, n)?;
        }
        if let Some(lost) = talks.iter().position(|(_, begun)| begun.elapsed() > LOST) {
            return Err(format!("connection {lost}: no answer: asleep"));
        }
    }
    talks.iter().for_each(|(_, begun)| tally.note_open(*begun));
    Ok(tally.to_string())
}
