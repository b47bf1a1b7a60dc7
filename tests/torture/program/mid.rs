//! What happens to descriptor and process in the middle of a connection. Invariant: exactly one process acts
//! for an end at a time, and who starts a process collects it.

use crate::board::{CUT, DONE};
use crate::connection::{Connection, Flow};
use crate::drive;
use crate::run::run;
use crate::script::{Mid, Side};
use isthmus_tests::sys::{self, Fd};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// Lets it happen; the step is already counted as done.
pub(crate) fn happens(c: &Connection, mid: Mid) -> Flow {
    match mid {
        Mid::ForkChildGoesOn => child_goes_on(c, true),
        Mid::ForkBothHold => child_goes_on(c, false),
        Mid::ForkParentGoesOn => parent_goes_on(c),
        Mid::ForkTakesTurns => takes_turns(c),
        Mid::Dup => to(c, sys::fcntl(c.fd(), libc::F_DUPFD_CLOEXEC, 3)),
        Mid::Dup2 => dup2(c),
        Mid::Dup2Stdin => stdin(c),
        Mid::Exec => exec(c),
        Mid::ExecStdin => {
            stdin(c);
            exec(c)
        }
        Mid::FailedExec => {
            let error = sys::execv("/nonexistent/program", &["program".into()]);
            assert_eq!(error, sys::Errno(libc::ENOENT), "execv of nothing");
            Flow::Moved
        }
        Mid::Spawn => {
            let status = Command::new("/bin/true").stdin(Stdio::null()).status();
            assert!(status.is_ok_and(|s| s.success()), "/bin/true fails");
            Flow::Moved
        }
        Mid::Pass => pass(c),
    }
}

/// A child must not hold its parent's other connections: who waits for their end would wait for the child.
fn alone(c: &Connection) {
    let fd = c.fd();
    if c.script.number.is_multiple_of(2) {
        if fd > 3 {
            let _ = sys::close_range(3, fd as u32 - 1, 0);
        }
        let _ = sys::close_range((fd as u32 + 1).max(3), u32::MAX, 0);
    } else {
        (3..1024).filter(|other| *other != fd).for_each(|other| _ = sys::close(other));
    }
    c.mine.own(fd);
}

fn child_goes_on(c: &Connection, close_first: bool) -> Flow {
    let child = sys::fork(|| {
        alone(c);
        drive::to_the_end(c);
        0
    });
    if close_first {
        c.close();
    }
    collect(c, child);
    c.close();
    Flow::Gone
}

/// Waits for a process that went on with this end.
fn collect(c: &Connection, child: i32) {
    let status = sys::reap(child, 0).map_or(0, |(_, status)| status);
    if status != 0 && !c.mine.is(CUT) {
        c.fault("crash", &format!("the process that went on ended with {}", sys::show_status(status)));
    }
    c.mine.flag(DONE);
}

fn parent_goes_on(c: &Connection) -> Flow {
    let wait = c.script.number % 3 * 10;
    let child = sys::fork(|| {
        std::thread::sleep(Duration::from_millis(wait));
        0
    });
    c.children.lock().expect("no panic").push(child);
    Flow::Moved
}

/// The child does the next steps, then the parent goes on.
fn takes_turns(c: &Connection) -> Flow {
    let until = c.mine.step(0) + 2;
    let child = sys::fork(|| {
        alone(c);
        c.until.store(until, SeqCst);
        match drive::lists(c, &[0]) {
            Flow::Finished => {}
            _ => c.finish(),
        }
        0
    });
    let status = sys::reap(child, 0).map_or(0, |(_, status)| status);
    if status != 0 && !c.mine.is(CUT) {
        c.fault("crash", &format!("the process whose turn it was ended with {}", sys::show_status(status)));
    }
    if status != 0 || c.mine.is(DONE) {
        return Flow::Over;
    }
    c.mine.own(c.fd());
    Flow::Moved
}

fn to(c: &Connection, new: sys::Ret) -> Flow {
    let new = new.expect("a copy of the descriptor") as Fd;
    let _ = sys::close(c.fd());
    c.moved(new);
    Flow::Moved
}

fn dup2(c: &Connection) -> Flow {
    let number = sys::open_null().expect("/dev/null") as Fd;
    to(c, sys::dup3(c.fd(), number, libc::O_CLOEXEC))
}

fn stdin(c: &Connection) -> Flow {
    let old = c.fd();
    if old == 0 {
        // Standard input since its process began.
        return Flow::Moved;
    }
    for number in [0, 1] {
        sys::dup2(old, number).expect("dup2 to standard input and output");
    }
    let _ = sys::close(old);
    c.copies.lock().expect("no panic").push(1);
    c.moved(0);
    Flow::Moved
}

/// Replaces the process; the descriptor is inherited.
fn exec(c: &Connection) -> Flow {
    let fd = c.fd();
    sys::fcntl(fd, libc::F_SETFD, 0).expect("clear close-on-exec");
    let mut args = vec!["torture-load".to_string()];
    args.extend(words("resume", c));
    args.push(fd.to_string());
    let error = sys::execv(&program(), &args);
    panic!("exec of {} fails with {error}", program());
}

/// The path of this program.
pub(crate) fn program() -> String {
    std::env::var("TORTURE_PROGRAM").expect("TORTURE_PROGRAM")
}

fn words(task: &str, c: &Connection) -> [String; 5] {
    let side = if c.side == Side::Client { "client" } else { "server" };
    let folder = run().folder.to_string_lossy().into_owned();
    [task.into(), folder, run().seed.to_string(), c.script.number.to_string(), side.into()]
}

/// Hands the descriptor to a fresh process over a Unix socket.
fn pass(c: &Connection) -> Flow {
    let (near, far) = sys::socketpair();
    let _ = sys::fcntl(near, libc::F_SETFD, libc::FD_CLOEXEC);
    let mut child = Command::new(program())
        .args(words("receive", c))
        .stdin(Stdio::from(sys::owned(far)))
        .spawn()
        .expect("start the receiver");
    sys::send_fd(near, c.fd()).expect("pass the descriptor");
    let _ = sys::close(near);
    c.close();
    collect(c, child.id() as i32);
    let _ = child.try_wait();
    Flow::Gone
}
