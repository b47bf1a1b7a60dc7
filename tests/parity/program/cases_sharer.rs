//! Processes that share a connection, of which one is stopped, or killed and not waited for, in the middle of
//! whatever it does: the other's calls are never refused for it.

use crate::context::{Case, Cx, say, settle};
use isthmus_tests::sys::{self, Fd, show};
use std::time::Duration;

pub(crate) const CASES: &[Case] = &[
    Case { name: "sharer.killed_writer_is_not_waited_for", shm: true, run: killed_writer },
    Case { name: "sharer.stopped_writer", shm: false, run: stopped_writer },
    Case { name: "sharer.killed_while_both_sleep", shm: true, run: killed_while_both_sleep },
    Case { name: "sharer.drained_under_a_set", shm: true, run: drained_under_a_set },
    Case { name: "sharer.drained_under_a_set_in_a_set", shm: true, run: drained_under_a_nested_set },
    Case { name: "sharer.drained_under_a_ticking_loop", shm: true, run: drained_under_a_ticking_loop },
    Case { name: "sharer.zombie_then_close", shm: true, run: zombie_then_close },
    Case { name: "sharer.low_water_of_another", shm: true, run: low_water_of_another },
    Case { name: "sharer.peek_offset_of_another", shm: true, run: peek_offset_of_another },
    Case { name: "sharer.reads_the_last_words_after_the_others_close", shm: true, run: last_words },
];

/// Has a child set an option of the socket.
fn set_by_a_child(fd: Fd, name: i32, value: i32) {
    let child = sys::fork(|| u8::from(sys::setopt(fd, libc::SOL_SOCKET, name, value).is_err()));
    say!("option {name} to {value}: {}", sys::wait(child));
}

fn low_water_of_another(cx: &mut Cx) {
    let (p, ep) = (cx.warm(), sys::epoll());
    sys::ep_add(ep, p.fd, libc::EPOLLIN, 1).expect("add");
    let look = || {
        settle();
        say!("poll {} set {}", sys::poll1(p.fd, libc::POLLIN, 0), sys::ep_show(ep, 0));
    };
    set_by_a_child(p.fd, libc::SO_RCVLOWAT, 10);
    cx.peer("send 0 hello");
    look();
    cx.peer("send 0 world");
    look();
    say!("read {}", show(sys::recv(p.fd, &mut [0; 3], 0)));
    look();
    set_by_a_child(p.fd, libc::SO_RCVLOWAT, 1);
    look();
    say!("read {}", show(sys::recv(p.fd, &mut [0; 99], 0)));
    look();
}

fn peek_offset_of_another(cx: &mut Cx) {
    let p = cx.warm();
    set_by_a_child(p.fd, libc::SO_PEEK_OFF, 2);
    cx.peer("send 0 0123456789");
    crate::context::until_queued(p.fd, 10);
    for flags in [libc::MSG_PEEK, libc::MSG_PEEK, 0, libc::MSG_PEEK] {
        let mut buf = [0; 3];
        let told = sys::recv(p.fd, &mut buf, flags | libc::MSG_DONTWAIT);
        say!("recv {flags} -> {}", crate::context::got(told, &buf));
    }
}

/// Writes without end from memory that nobody has touched before: each page costs a fault in the middle of
/// the copy.
fn write_untouched(fd: Fd) -> u8 {
    loop {
        let block = vec![0u8; 32 << 20];
        if sys::write(fd, &block).is_err() {
            return 1;
        }
    }
}

/// The child is a zombie until the end.
fn killed_writer(cx: &mut Cx) {
    let mut children = Vec::new();
    for _ in 0..20 {
        let p = cx.warm();
        cx.tell(&format!("discard {}", p.id));
        let child = sys::fork(|| write_untouched(p.fd));
        std::thread::sleep(Duration::from_millis(15));
        sys::kill(child, libc::SIGKILL).expect("kill");
        children.push(child);
        let sent = (0..20).filter(|_| sys::send(p.fd, b"alive", libc::MSG_NOSIGNAL) == Ok(5)).count();
        if sent != 20 {
            say!("sent {sent}");
        }
        sys::shutdown(p.fd, libc::SHUT_WR).expect("shutdown");
        cx.answer();
        sys::close(p.fd).expect("close");
    }
    let good = children.into_iter().filter(|child| sys::wait(*child) == "signal 9").count();
    say!("{good} were killed");
    let last = cx.warm();
    cx.watch(last.fd);
}

/// Where it was stopped in the middle of a copy the other waits until it goes on, or is told EAGAIN if it may
/// not wait; at any other place it does not notice.
fn stopped_writer(cx: &mut Cx) {
    let p = cx.warm();
    cx.tell(&format!("discard {}", p.id));
    let child = sys::fork(|| write_untouched(p.fd));
    let mut refused = 0;
    for _ in 0..24 {
        std::thread::sleep(Duration::from_millis(7));
        sys::kill(child, libc::SIGSTOP).expect("stop");
        let writer = std::thread::spawn(move || sys::send(p.fd, b"alive", libc::MSG_NOSIGNAL));
        std::thread::sleep(Duration::from_millis(60));
        let is_held_up = !writer.is_finished();
        if is_held_up {
            // Longer than anybody is believed who could go on.
            std::thread::sleep(Duration::from_millis(2500));
        }
        sys::kill(child, libc::SIGCONT).expect("go on");
        refused += usize::from(writer.join().expect("writer") != Ok(5));
        if is_held_up {
            break;
        }
    }
    say!("refused {refused}");
    sys::kill(child, libc::SIGKILL).expect("kill");
    say!("child {}", sys::wait(child));
    say!("shutdown -> {}", show(sys::shutdown(p.fd, libc::SHUT_WR)));
    cx.answer();
}

/// A zombie holds nothing: the close of the last living one is the end, and its descriptors are the program's
/// again.
fn zombie_then_close(cx: &mut Cx) {
    let mut children = Vec::new();
    for _ in 0..4 {
        let p = cx.warm();
        let child = sys::fork(|| sys::read(p.fd, &mut [0; 9]).is_err().into());
        std::thread::sleep(Duration::from_millis(10));
        sys::kill(child, libc::SIGKILL).expect("kill");
        children.push(child);
        std::thread::sleep(Duration::from_millis(10));
        say!("write -> {}", show(sys::write(p.fd, b"last")));
        say!("close -> {}", show(sys::close(p.fd)));
        cx.peer(&format!("drain {}", p.id));
        cx.peer(&format!("close {}", p.id));
    }
    let good = children.into_iter().filter(|child| sys::wait(*child) == "signal 9").count();
    say!("{good} were killed");
    let last = cx.warm();
    cx.watch(last.fd);
}

/// Two processes sleep for the same bytes, and one is killed at the moment in which both are woken: the other
/// hears of whatever comes next.
fn killed_while_both_sleep(cx: &mut Cx) {
    let (mut killed, mut missed) = (0, 0);
    let p = cx.warm();
    sys::set_timeout(p.fd, libc::SO_RCVTIMEO, 3000).expect("timeout");
    for round in 0..60u64 {
        let child = sys::fork(|| {
            while sys::read(p.fd, &mut [0; 1]) == Ok(1) {}
            0
        });
        let reader = std::thread::spawn(move || {
            let mut last = [0u8; 1];
            while sys::read(p.fd, &mut last).is_ok_and(|count| count == 1) && last != [b'z'] {}
            last == [b'z']
        });
        std::thread::sleep(Duration::from_millis(8));
        cx.tell(&format!("send {} abcdefgh", p.id));
        std::thread::sleep(Duration::from_micros(40 + 7 * round));
        sys::kill(child, libc::SIGKILL).expect("kill");
        killed += usize::from(sys::wait(child) == "signal 9");
        cx.answer();
        cx.ask(&format!("send {} z", p.id));
        missed += usize::from(!reader.join().expect("reader"));
    }
    say!("missed {missed}, {killed} were killed");
}

/// Both directions have ended, and the kernel lists the socket no more as one that is open, though a child
/// has it still, and bytes to read: the parent's close is not the last, and the peer's memory is not free.
fn last_words(cx: &mut Cx) {
    let mut read = 0;
    for _ in 0..3 {
        let p = cx.warm();
        let (near, far) = sys::socketpair();
        let child = sys::fork(|| {
            let _ = sys::close(near);
            let _ = sys::read(far, &mut [0; 1]);
            let mut words = [0; 16];
            let is_read = sys::read(p.fd, &mut words) == Ok(5) && words.starts_with(b"adieu");
            u8::from(!is_read || sys::read(p.fd, &mut words) != Ok(0))
        });
        let _ = sys::close(far);
        sys::shutdown(p.fd, libc::SHUT_WR).expect("shutdown");
        cx.ask(&format!("drain {}", p.id));
        cx.ask(&format!("send {} adieu", p.id));
        cx.ask(&format!("close {}", p.id));
        settle();
        sys::close(p.fd).expect("close");
        let later: Vec<_> = (0..4).map(|_| cx.warm()).collect();
        let _ = sys::write(near, b"x");
        read += usize::from(sys::wait(child) == "exit 0");
        later.iter().for_each(|pair| _ = sys::close(pair.fd));
        let _ = sys::close(near);
    }
    say!("{read} of 3 have read all");
    let last = cx.warm();
    cx.watch(last.fd);
}

fn drained_under_a_set(cx: &mut Cx) {
    drained_under(cx, false, -1);
}

fn drained_under_a_nested_set(cx: &mut Cx) {
    drained_under(cx, true, -1);
}

fn drained_under_a_ticking_loop(cx: &mut Cx) {
    drained_under(cx, false, 40);
}

/// A process sleeps in epoll_wait. What is done to the common doorbell meanwhile is what a sharer does that
/// is killed after he has drained it, and before he has asked anew for everybody. (Both on one core: who
/// began to wait last is woken first, and the other finds nothing.)
fn drained_under(cx: &mut Cx, is_nested: bool, tick_ms: i32) {
    let p = cx.warm();
    let (told, tell) = sys::pipe(0);
    let child = sys::fork(|| {
        let _ = sys::on_one_cpu(None);
        let (inner, outer) = (sys::epoll(), sys::epoll());
        sys::ep_add(inner, p.fd, libc::EPOLLIN, 7).expect("add");
        sys::ep_add(outer, inner, libc::EPOLLIN, 8).expect("add");
        while let Ok(events) = sys::ep_wait(if is_nested { outer } else { inner }, tick_ms) {
            if !events.is_empty() {
                let _ = sys::recv(p.fd, &mut [0; 64], libc::MSG_DONTWAIT);
                let _ = sys::write(tell, b"!");
            }
        }
        1
    });
    let _ = sys::on_one_cpu(None);
    let missed = (0..8).filter(|_| {
        std::thread::sleep(Duration::from_millis(30));
        cx.ask(&format!("later 30 send {} x", p.id));
        drain_what_is_rung();
        sys::poll1(told, libc::POLLIN, 4000) != "IN" || sys::read(told, &mut [0; 1]) != Ok(1)
    });
    say!("missed {}", missed.count());
    sys::kill(child, libc::SIGKILL).expect("kill");
    say!("child {}", sys::wait(child));
    let last = cx.warm();
    cx.watch(last.fd);
}

/// Waits for a pipe among the library's high numbers to be readable, and empties it.
fn drain_what_is_rung() {
    let numbers = std::fs::read_dir("/proc/self/fd").expect("descriptors").flatten();
    let pipes: Vec<_> = numbers
        .filter(|entry| {
            std::fs::read_link(entry.path()).is_ok_and(|to| to.to_string_lossy().starts_with("pipe:"))
        })
        .filter_map(|entry| entry.file_name().to_str()?.parse::<Fd>().ok())
        .filter(|fd| *fd >= 256)
        .map(|fd| (fd, libc::POLLIN))
        .collect();
    if pipes.is_empty() {
        return;
    }
    let (_, told) = sys::poll(&pipes, 1000);
    for ((fd, _), _) in pipes.iter().zip(told).filter(|(_, told)| *told != 0) {
        let _ = sys::read(*fd, &mut [0; 4096]);
    }
}
