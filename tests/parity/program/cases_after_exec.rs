//! A client's program becomes another one, which gets rid of every descriptor that it has not opened, as
//! daemons do, before its first look at the connection: the connection goes on.

use crate::context::{Case, Cx, say};
use isthmus_tests::sys::{self, Exec, Fd};

pub(crate) const CASES: &[Case] = &[
    Case { name: "afterexec.range", shm: true, run: |cx| becomes_another(cx, "range") },
    Case { name: "afterexec.each", shm: true, run: |cx| becomes_another(cx, "each") },
    Case { name: "afterexec.first_of_all", shm: true, run: |cx| becomes_another(cx, "first") },
    Case { name: "afterexec.replaced", shm: false, run: |cx| becomes_another(cx, "replaced") },
    Case { name: "afterexec.replaced_one_by_one", shm: false, run: replaced_one_by_one },
    Case { name: "afterexec.set_tells_of_a_reset", shm: false, run: set_tells_of_a_reset },
    Case { name: "afterexec.killed_with_bytes_unread", shm: false, run: |cx| killed(cx, "12345") },
    Case { name: "afterexec.killed_with_nothing_unread", shm: false, run: |cx| killed(cx, "") },
];

const ID: u32 = 700;
/// More numbers than a connection has beside its socket.
const ONE_OF: usize = 8;

fn becomes_another(cx: &mut Cx, how: &str) {
    let port = cx.listening_peer();
    let pid = sys::fork(|| {
        let fd = sys::tcp(0);
        if sys::connect(fd, port).is_err() || sys::write(fd, b"hi") != Ok(2) || !reads(fd, b"hello") {
            return 8;
        }
        sys::exec(Exec::Execve, "/proc/self/exe", &["parity-case", "--after-exec", how, &fd.to_string()]);
        9
    });
    cx.ask(&format!("accept {ID}"));
    cx.peer(&format!("recvn {ID} 2"));
    cx.peer(&format!("send {ID} hellothere"));
    cx.peer(&format!("recvn {ID} 4"));
    cx.peer(&format!("send {ID} again"));
    cx.peer(&format!("recv {ID} 9"));
    say!("child {}", sys::wait(pid));
    cx.peer(&format!("close {ID}"));
}

/// Each number of them alone: what else the connection has stays.
fn replaced_one_by_one(cx: &mut Cx) {
    for number in 0..ONE_OF {
        becomes_another(cx, &number.to_string());
    }
}

/// What the next program does.
pub(crate) fn inherited(how: &str, fd: Fd) {
    match how {
        "range" => {
            let _ = sys::close_range(fd as u32 + 1, u32::MAX, 0);
        }
        "each" => (fd + 1..70_000).for_each(close),
        "first" => others(fd).into_iter().take(1).for_each(close),
        "replaced" => others(fd).into_iter().for_each(replace),
        number => {
            let number = number.parse::<usize>().expect("a number");
            others(fd).into_iter().skip(number).take(1).for_each(replace);
        }
    }
    let goes_on = reads(fd, b"there") && sys::write(fd, b"pong") == Ok(4) && reads(fd, b"again");
    std::process::exit(if goes_on { 0 } else { 7 });
}

fn reads(fd: Fd, wanted: &[u8; 5]) -> bool {
    let mut bytes = [0; 5];
    sys::recv(fd, &mut bytes, libc::MSG_WAITALL) == Ok(5) && bytes == *wanted
}

fn close(number: Fd) {
    let _ = sys::close(number);
}

/// Something of the program's takes the number, and goes.
fn replace(number: Fd) {
    let _ = sys::dup2(0, number);
    close(number);
}

/// The descriptors that this program has got beside `fd`.
fn others(fd: Fd) -> Vec<Fd> {
    let names = std::fs::read_dir("/proc/self/fd").expect("/proc");
    let numbers = names.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let mut numbers: Vec<Fd> = numbers.filter(|number| *number > fd).collect();
    numbers.sort_unstable();
    numbers
}

/// A set goes along, and in it a connection whose peer was killed with bytes unread: what it tells is the
/// program's own data.
fn set_tells_of_a_reset(cx: &mut Cx) {
    let pid = sys::fork(|| {
        let numbers = [sys::epoll(), cx.warm().fd];
        let [set, fd] = numbers.map(|one| sys::dup(one).expect("a number that goes on") as Fd);
        sys::ep_add(set, fd, libc::EPOLLIN, 0x1234).expect("add");
        say!("write -> {}", sys::show(sys::write(fd, b"12345")));
        cx.tell("die");
        crate::context::until_ready(fd, libc::POLLHUP);
        say!("before {}", sys::ep_show(set, 1000));
        let mut buf = [0; 9];
        (0..2).for_each(|_| say!("read -> {}", sys::show(sys::read(fd, &mut buf))));
        let set = set.to_string();
        sys::exec(Exec::Execve, "/proc/self/exe", &["parity-case", "--set-after-exec", &set]);
        9
    });
    say!("child {}", sys::wait(pid));
}

/// A peer that is killed with bytes of this program's unread has reset the connection, whichever program
/// hears of it.
fn killed(cx: &mut Cx, unread: &str) {
    let pid = sys::fork(|| {
        let fd = sys::dup(cx.warm().fd).expect("a number that goes on");
        say!("write -> {}", sys::show(sys::write(fd as Fd, unread.as_bytes())));
        cx.tell("die");
        (0..5).for_each(|_| crate::context::settle());
        sys::exec(Exec::Execve, "/proc/self/exe", &["parity-case", "--read-after-exec", &fd.to_string()]);
        9
    });
    say!("child {}", sys::wait(pid));
}

/// What the next program reads.
pub(crate) fn reads_on(fd: Fd) {
    let mut buf = [0; 9];
    (0..2).for_each(|_| say!("read -> {}", sys::show(sys::read(fd, &mut buf))));
}

/// What the next program is told: of whom, and that it is over.
pub(crate) fn inherited_set(set: Fd) {
    for _ in 0..3 {
        let told = sys::ep_wait(set, 1000).expect("wait");
        let is_over = |(data, events): &(u64, u32)| (*data, events & libc::EPOLLHUP as u32 != 0);
        say!("after {:?}", told.iter().map(is_over).collect::<Vec<_>>());
    }
}
