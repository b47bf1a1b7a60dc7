//! What a connection leaves behind when it is reset, and who gets it next. Invariant: no byte that is written
//! on an old descriptor reaches another connection, however long its owner keeps it.

use crate::context::{Case, Cx, Pair, Role, got, say, settle, until_ready};
use isthmus_tests::sys::{self, show};
use libc::{MSG_DONTWAIT, MSG_NOSIGNAL, POLLHUP};

const fn any(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: false, run }
}

pub(crate) const CASES: &[Case] = &[
    any("slots.reset_and_kept", |cx| reset_and_kept(cx, false)),
    any("slots.unread_and_kept", |cx| reset_and_kept(cx, true)),
    any("slots.reset_by_a_child_and_kept", reset_by_a_child_and_kept),
    any("slots.kept_by_a_child", kept_by_a_child),
];

/// More than a link group lends before it looks for used ones.
const MANY: usize = 140;

/// The client resets many connections; the server keeps its descriptors and writes on them when others have
/// come.
fn reset_and_kept(cx: &mut Cx, by_unread: bool) {
    let old: Vec<Pair> = (0..MANY).map(|_| cx.warm()).collect();
    old.iter().for_each(|pair| reset(cx, *pair, by_unread));
    settle();
    let new: Vec<Pair> = (0..MANY).map(|_| cx.warm()).collect();
    let answers: Vec<String> = old.iter().map(|pair| send_as_server(cx, *pair, "foreign")).collect();
    say!("old {}", summary(&answers));
    let answers: Vec<String> = old.iter().map(|pair| send_as_server(cx, *pair, "foreign")).collect();
    say!("again {}", summary(&answers));
    check(cx, &new);
}

/// The client's end of a connection is reset.
fn reset(cx: &mut Cx, pair: Pair, by_unread: bool) {
    if by_unread {
        send_as_server(cx, pair, "unread");
        settle_one(cx, pair);
    }
    match cx.role {
        Role::Client => {
            if !by_unread {
                let _ = sys::set_linger(pair.fd, true, 0);
            }
            let _ = sys::close(pair.fd);
        }
        Role::Server => {
            if !by_unread {
                cx.ask(&format!("linger {} 1 0", pair.id));
            }
            cx.ask(&format!("close {}", pair.id));
            until_ready(pair.fd, POLLHUP);
        }
    }
}

/// Until the bytes are in the client's hands, so that they are unread and not under way.
fn settle_one(cx: &mut Cx, pair: Pair) {
    match cx.role {
        Role::Client => crate::context::until_queued(pair.fd, 6),
        Role::Server => drop(cx.ask(&format!("poll {} 1 1000", pair.id))),
    }
}

fn send_as_server(cx: &mut Cx, pair: Pair, text: &str) -> String {
    match cx.role {
        Role::Client => cx.ask(&format!("send {} {text}", pair.id)),
        Role::Server => show(sys::send(pair.fd, text.as_bytes(), MSG_NOSIGNAL)),
    }
}

/// Whether nothing foreign has come to any of the new ones, and whether they work both ways.
fn check(cx: &mut Cx, pairs: &[Pair]) {
    let mut told = Vec::new();
    for pair in pairs {
        let (mut here, sent) = ([0; 32], sys::send(pair.fd, b"ours", MSG_NOSIGNAL));
        let seen_here = got(sys::recv(pair.fd, &mut here, MSG_DONTWAIT), &here);
        let seen_there = cx.ask(&format!("recv {} 32", pair.id));
        cx.ask(&format!("send {} theirs", pair.id));
        let answer = got(sys::recv(pair.fd, &mut here, 0), &here);
        told.push(format!("{} {seen_here} {seen_there} {answer}", show(sent)));
    }
    say!("new {}", summary(&told));
}

/// Equal lines once, with their number.
fn summary(lines: &[String]) -> String {
    let mut counted: Vec<(&String, usize)> = Vec::new();
    for line in lines {
        match counted.iter_mut().find(|(known, _)| *known == line) {
            Some((_, count)) => *count += 1,
            None => counted.push((line, 1)),
        }
    }
    counted.iter().map(|(line, count)| format!("{count} x {line}")).collect::<Vec<_>>().join("; ")
}

/// The same where a child of this process has the last copy of the end that is reset.
fn reset_by_a_child_and_kept(cx: &mut Cx) {
    let old: Vec<Pair> = (0..MANY).map(|_| cx.warm()).collect();
    let fds: Vec<i32> = old.iter().map(|pair| pair.fd).collect();
    let child = sys::fork(|| sys::kill(std::process::id() as i32, libc::SIGKILL).map_or(1, |_| 0));
    sys::wait(child);
    for fd in fds {
        let _ = sys::set_linger(fd, true, 0);
        let _ = sys::close(fd);
    }
    settle();
    let new: Vec<Pair> = (0..MANY).map(|_| cx.warm()).collect();
    let answers: Vec<String> = old.iter().map(|pair| cx.ask(&format!("send {} foreign", pair.id))).collect();
    say!("old {}", summary(&answers));
    check(cx, &new);
}

/// A child keeps copies of this end, the other end resets, this process closes its own: who writes last is
/// the child.
fn kept_by_a_child(cx: &mut Cx) {
    let old: Vec<Pair> = (0..MANY).map(|_| cx.warm()).collect();
    let (go, tell) = sys::pipe(0);
    let fds: Vec<i32> = old.iter().map(|pair| pair.fd).collect();
    let child = sys::fork(|| {
        let _ = sys::read(go, &mut [0; 1]);
        let accepted = fds.iter().filter(|fd| sys::send(**fd, b"foreign", MSG_NOSIGNAL).is_ok()).count();
        u8::try_from(accepted).unwrap_or(u8::MAX)
    });
    old.iter().for_each(|pair| {
        let _ = sys::close(pair.fd);
        cx.ask(&format!("linger {} 1 0", pair.id));
        cx.ask(&format!("close {}", pair.id));
    });
    settle();
    let new: Vec<Pair> = (0..MANY).map(|_| cx.warm()).collect();
    let _ = sys::write(tell, b"g");
    say!("child {}", sys::wait(child));
    check(cx, &new);
}
