//! A filter that allows what the program calls and kills for all else comes while bytes are unread: reads and
//! waits of every kind find them, and what comes after.

use crate::context::{Case, Cx, got, say, until_queued};
use isthmus_tests::sys::{self, Fd, Select};

const fn case(name: &'static str, run: fn(&mut Cx)) -> Case {
    Case { name, shm: false, run }
}

pub(crate) const CASES: &[Case] = &[
    case("filterrest.reads_alone", |cx| behind(cx, &[], |_, _| String::new())),
    #[cfg(target_arch = "x86_64")]
    case("filterrest.poll", |cx| behind(cx, &[libc::SYS_poll], |fd, _| sys::poll1(fd, libc::POLLIN, 5000))),
    #[cfg(target_arch = "x86_64")]
    case("filterrest.poll_for_both", |cx| {
        behind(cx, &[libc::SYS_poll], |fd, _| {
            let told = sys::poll1(fd, libc::POLLIN | libc::POLLOUT, 5000);
            format!("in {}", told.contains("IN"))
        });
    }),
    case("filterrest.select", |cx| {
        behind(cx, &[libc::SYS_select, libc::SYS_pselect6], |fd, _| {
            sys::select(Select::Plain, &[fd], &[], &[], 5000)
        });
    }),
    case("filterrest.pselect", |cx| {
        behind(cx, &[libc::SYS_pselect6], |fd, _| sys::select(Select::Precise, &[fd], &[], &[], 5000));
    }),
    case("filterrest.epoll", |cx| behind(cx, EPOLL, |_, set| sys::ep_show(set, 5000))),
    case("filterrest.epoll_edge", |cx| behind_asking(cx, EPOLL, EDGE, |_, set| sys::ep_show(set, 5000))),
    case("filterrest.epoll_once", |cx| {
        let calls = [EPOLL, &[libc::SYS_epoll_ctl]].concat();
        behind_asking(cx, &calls, libc::EPOLLIN | libc::EPOLLONESHOT, |fd, set| {
            let told = sys::ep_show(set, 5000);
            sys::ep_mod(set, fd, libc::EPOLLIN | libc::EPOLLONESHOT, 9).expect("mod");
            told
        });
    }),
    case("filterrest.epoll_added_again", |cx| {
        let calls = [EPOLL, &[libc::SYS_epoll_ctl]].concat();
        behind(cx, &calls, |fd, set| {
            sys::ep_del(set, fd).expect("del");
            sys::ep_add(set, fd, libc::EPOLLIN, 8).expect("add");
            sys::ep_show(set, 5000)
        });
    }),
    #[cfg(target_arch = "x86_64")]
    case("filterrest.poll_of_the_set", |cx| {
        behind(cx, &[libc::SYS_poll], |_, set| sys::poll1(set, libc::POLLIN, 5000));
    }),
    case("filterrest.refused", refused),
    // (All that a shared connection needs is there but for a change of the set.)
    case("filterrest.epoll_without_ctl", |cx| {
        let more = [
            libc::SYS_poll,
            libc::SYS_ppoll,
            libc::SYS_futex,
            libc::SYS_clock_gettime,
            libc::SYS_getpid,
            libc::SYS_close,
        ];
        behind(cx, &[EPOLL, &more].concat(), |_, set| sys::ep_show(set, 5000));
    }),
];

const EPOLL: &[i64] = &[libc::SYS_epoll_wait, libc::SYS_epoll_pwait];
const EDGE: i32 = libc::EPOLLIN | libc::EPOLLET;
/// What the harness itself needs.
const HARNESS: &[i64] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_brk,
    libc::SYS_exit_group,
];

fn behind(cx: &mut Cx, calls: &[i64], wait: fn(Fd, Fd) -> String) {
    behind_asking(cx, calls, libc::EPOLLIN, wait);
}

fn behind_asking(cx: &mut Cx, calls: &[i64], asked: i32, wait: fn(Fd, Fd) -> String) {
    for is_unread in [true, false] {
        let p = cx.warm();
        let pid = sys::fork(|| {
            let set = sys::epoll();
            sys::ep_add(set, p.fd, asked, 9).expect("add");
            if is_unread {
                cx.ask(&format!("send {} a-request", p.id));
                until_queued(p.fd, 9);
            }
            sys::allow_only(&[HARNESS, calls].concat(), true).expect("filter");
            let mut buf = [0; 16];
            for word in ["one", "two", "three", "last"] {
                if word != "one" || !is_unread {
                    cx.ask(&format!("later 20 send {} {word}", p.id));
                }
                say!("told {}", wait(p.fd, set));
                let (first, second) = buf.split_at_mut(2);
                let r = sys::read(p.fd, first);
                say!("read {}", got(r, first));
                let r = sys::read(p.fd, second);
                say!("read {}", got(r, second));
                say!("write {}", sys::show(sys::write(p.fd, b"answer")));
                cx.peer(&format!("recvn {} 6", p.id));
            }
            cx.ask(&format!("later 20 shut {} 1", p.id));
            say!("told {}", wait(p.fd, set));
            let r = sys::read(p.fd, &mut buf);
            say!("end {}", got(r, &buf));
            0
        });
        say!("child {}", sys::wait(pid));
    }
}

/// The kernel does not take the filter: nothing has changed for the sets.
fn refused(cx: &mut Cx) {
    let p = cx.warm();
    let pid = sys::fork(|| {
        let set = sys::epoll();
        sys::ep_add(set, p.fd, libc::EPOLLIN, 9).expect("add");
        say!("quiet {}", sys::ep_show(set, 0));
        cx.ask(&format!("send {} a-request", p.id));
        until_queued(p.fd, 9);
        say!("no filter at all -> {}", sys::show(sys::allow_only(&[0; 4096], true)));
        let mut buf = [0; 16];
        for word in ["one", "two"] {
            say!("told {}", sys::ep_show(set, 5000));
            let r = sys::read(p.fd, &mut buf);
            say!("read {}", got(r, &buf));
            cx.ask(&format!("later 20 send {} {word}", p.id));
        }
        0
    });
    say!("child {}", sys::wait(pid));
}
