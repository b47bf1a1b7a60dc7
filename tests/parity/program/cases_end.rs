//! Last bytes: whatever way a process ends, every byte that its write() had returned for arrives, and then
//! the end that TCP tells. (Killed by a signal before the other end's first look, a client loses what it had
//! written: LIMITATIONS names it.)

use crate::context::{Case, Cx, got, pattern, read_all, say, settle};
use isthmus_tests::sys::{self, Fd, Way, show};
use std::time::Duration;

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: true, run }
}

const fn any(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: false, run }
}

pub(crate) const CASES: &[Case] = &[
    case("end.exit", |cx| used(cx, Way::Exit)),
    case("end._exit", |cx| used(cx, Way::Immediately)),
    case("end.quick_exit", |cx| used(cx, Way::Quickly)),
    case("end.exit_group", |cx| used(cx, Way::Syscall)),
    case("end.abort", |cx| used(cx, Way::Abort)),
    case("end.term", |cx| used(cx, Way::Term)),
    case("end.kill", |cx| used(cx, Way::Kill)),
    case("end.exec", |cx| used(cx, Way::Exec)),
    any("end.early_exit", |cx| early(cx, Way::Exit)),
    any("end.early__exit", |cx| early(cx, Way::Immediately)),
    any("end.early_quick_exit", |cx| early(cx, Way::Quickly)),
    any("end.early_exit_group", |cx| early(cx, Way::Syscall)),
    any("end.early_abort", |cx| early(cx, Way::Abort)),
    any("end.early_exec", |cx| early(cx, Way::Exec)),
    case("end.napping_exit", |cx| napping(cx, Way::Exit)),
    case("end.napping_exit_group", |cx| napping(cx, Way::Syscall)),
    case("end.napping_kill", |cx| napping(cx, Way::Kill)),
    case("end.polled", polled),
    case("end.watched", watched),
];

/// The peer writes so many bytes, from another thread while a third waits in a read, and ends at once.
const BYTES: usize = 9000;

fn end(cx: &mut Cx, id: u32, way: Way) {
    cx.tell(&format!("end {id} {way:?} {BYTES}"));
}

fn used(cx: &mut Cx, way: Way) {
    let p = cx.warm();
    end(cx, p.id, way);
    say!("{way:?}: {}", read_all(p.fd, usize::MAX));
}

/// Our side looks at the connection for the first time when the peer is gone.
fn early(cx: &mut Cx, way: Way) {
    let p = cx.pair();
    end(cx, p.id, way);
    settle();
    settle();
    say!("{way:?}: {}", read_all(p.fd, usize::MAX));
}

fn napping(cx: &mut Cx, way: Way) {
    let p = cx.warm();
    for _ in 0..8 {
        cx.ask(&format!("later 2 send {} z", p.id));
        let mut byte = [0];
        let r = sys::read(p.fd, &mut byte);
        say!("{}", got(r, &byte));
    }
    end(cx, p.id, way);
    say!("{way:?}: {}", read_all(p.fd, usize::MAX));
}

/// Reads until `next` says that nothing comes any more.
fn drain(fd: Fd, mut next: impl FnMut() -> bool) -> String {
    let (mut all, mut buf) = (vec![], [0; 5000]);
    while next() {
        match sys::recv(fd, &mut buf, libc::MSG_DONTWAIT) {
            Ok(0) => return format!("{} of it, end", all == pattern(BYTES)),
            Ok(count) => all.extend_from_slice(&buf[..count]),
            Err(sys::Errno(libc::EAGAIN)) => {}
            other => return format!("{} bytes, {}", all.len(), show(other)),
        }
    }
    format!("{} bytes, nothing more", all.len())
}

fn polled(cx: &mut Cx) {
    let p = cx.warm();
    end(cx, p.id, Way::Immediately);
    say!("{}", drain(p.fd, || sys::poll(&[(p.fd, libc::POLLIN)], 5000).0 == Ok(1)));
}

fn watched(cx: &mut Cx) {
    let p = cx.warm();
    let ep = sys::epoll();
    sys::ep_add(ep, p.fd, libc::EPOLLIN, 1).expect("add");
    end(cx, p.id, Way::Syscall);
    say!("{}", drain(p.fd, || sys::ep_wait(ep, 5000).is_ok_and(|events| !events.is_empty())));
}

/// What the peer does: never returns.
pub(crate) fn end_by(way: Way, fd: Fd, bytes: usize) -> ! {
    std::thread::spawn(move || sys::read(fd, &mut [0; 100]));
    std::thread::sleep(Duration::from_millis(20));
    let wrote = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let done = wrote.clone();
    std::thread::spawn(move || {
        for piece in pattern(bytes).chunks(1500) {
            assert_eq!(sys::write(fd, piece), Ok(piece.len()));
        }
        done.store(true, std::sync::atomic::Ordering::Release);
        std::thread::sleep(Duration::from_secs(5));
    });
    while !wrote.load(std::sync::atomic::Ordering::Acquire) {
        std::hint::spin_loop();
    }
    sys::end(way)
}
