//! Trust: a server of root's whose worker gives something up, and then looks for whatever of root's it still
//! has. Invariant: the worker judges nothing; it says what it found, and serves its connections to their
//! ends.

use crate::{connect, listen};
use isthmus_tests::sys::{self, Change};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;

const NOBODY: u32 = 65534;

/// Where the change happens.
#[derive(Clone, Copy, PartialEq)]
enum Worker {
    /// A forked child.
    Forked,
    /// A child of clone(2), of which no handler is told.
    Cloned,
    /// A forked child whose other thread makes the change.
    Threaded,
}

/// The worker and how it changes, by the word on the command line.
fn plan(word: &str) -> Option<(Worker, Vec<Change>)> {
    let forked = |changes: &[Change]| Some((Worker::Forked, changes.to_vec()));
    match word {
        "setuid" => forked(&[Change::Setuid]),
        "setreuid" => forked(&[Change::Setreuid]),
        "setresuid" => forked(&[Change::Setresuid]),
        "setuid-by-number" => forked(&[Change::SetuidByNumber]),
        "setresuid-by-number" => forked(&[Change::SetresuidByNumber]),
        "as-daemons-do" => forked(&[Change::Initgroups, Change::Setgid, Change::Setuid]),
        "setgid" => forked(&[Change::Setgid]),
        "setgroups" => forked(&[Change::Setgroups]),
        "initgroups" => forked(&[Change::Initgroups]),
        "capset" => forked(&[Change::Capset]),
        "seteuid" => forked(&[Change::Seteuid]),
        "cloned" => Some((Worker::Cloned, vec![Change::Setuid])),
        "threaded" => Some((Worker::Threaded, vec![Change::Setuid])),
        _ => None,
    }
}

/// Serves four connections: one that was used by both before the change, one that nobody has looked at by
/// then, and two that come after it.
pub(crate) fn server(port: u16, how: &str) -> Result<String, String> {
    let (worker, changes) = plan(how).ok_or("what change?")?;
    // (Root in a container may have no group that it could lose.)
    sys::set_groups(&[0, 1, 2]).map_err(|e| format!("groups: {e}"))?;
    let listener = listen(port)?;
    let mut used = accept(&listener)?;
    echo(&mut used)?;
    let mut other = accept(&listener)?;
    echo(&mut other)?;
    let unused = accept(&listener)?;
    let roots = other.as_raw_fd();
    let serve = || match work(&listener, roots, (used, unused), worker, &changes) {
        Ok(found) => {
            println!("{found}");
            0
        }
        Err(e) => {
            println!("BAD worker: {e}");
            1
        }
    };
    let pid = if worker == Worker::Cloned { sys::bare_clone(serve) } else { sys::fork(serve) };
    // Root goes on with a connection of the same client.
    while echo(&mut other)? > 0 {}
    match sys::wait(pid).as_str() {
        "exit 0" => Ok("good".into()),
        end => Err(format!("the worker ended by {end}")),
    }
}

fn work(
    listener: &TcpListener,
    roots: sys::Fd,
    (mut used, mut unused): (TcpStream, TcpStream),
    worker: Worker,
    changes: &[Change],
) -> Result<String, String> {
    if worker != Worker::Cloned {
        echo(&mut used)?;
        sys::close(roots).map_err(|e| format!("close: {e}"))?;
    }
    let make = || changes.iter().try_for_each(|how| sys::change(*how, NOBODY).map(drop));
    let made = if worker == Worker::Threaded {
        std::thread::scope(|s| s.spawn(make).join().expect("a thread"))
    } else {
        make()
    };
    made.map_err(|e| format!("change: {e}"))?;
    let found = findings();
    if changes == [Change::Seteuid] {
        sys::change(Change::Seteuid, 0).map_err(|e| format!("back: {e}"))?;
    }
    if worker != Worker::Cloned {
        while echo(&mut used)? > 0 {}
        while echo(&mut unused)? > 0 {}
        for _ in 0..2 {
            let mut late = accept(listener)?;
            while echo(&mut late)? > 0 {}
        }
    }
    Ok(found)
}

/// What of the registry and of shared segments this process has.
fn findings() -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let is_ours = |line: &&str| line.contains("isthmus.") || line.contains("isthmus-dmb");
    let shared: Vec<&str> = maps.lines().filter(is_ours).collect();
    let bytes = |line: &&str| {
        let (from, to) = line.split(' ').next()?.split_once('-')?;
        Some(u64::from_str_radix(to, 16).ok()? - u64::from_str_radix(from, 16).ok()?)
    };
    let segments = shared.iter().filter(|line| line.contains("isthmus-dmb"));
    let kib = segments.filter_map(bytes).sum::<u64>() / 1024;
    let registries = shared.iter().filter(|line| !line.contains("isthmus-dmb")).count();
    let links = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let links = links.filter_map(|e| {
        let mode = e.path().symlink_metadata().ok()?.permissions().mode();
        Some((std::fs::read_link(e.path()).ok()?.to_string_lossy().into_owned(), mode))
    });
    let (mut files, mut pipes, mut netlink) = (0, 0, 0);
    for (link, mode) in links {
        files += usize::from(link.contains("isthmus."));
        files += usize::from(link.contains("isthmus-dmb"));
        // Doorbells are open for both ways, as no pipe that came from outside is.
        pipes += usize::from(link.starts_with("pipe:") && mode & 0o600 == 0o600);
        netlink += usize::from(link.contains("NETLINK"));
    }
    let mut text = String::new();
    let _ = write!(
        text,
        "registries {registries} descriptors {files} netlink {netlink} doorbells {pipes} shared {kib} KiB"
    );
    text
}

fn accept(listener: &TcpListener) -> Result<TcpStream, String> {
    listener.accept().map(|(conn, _)| conn).map_err(|e| format!("accept: {e}"))
}

/// Sends one message back; 0 at the end.
fn echo(conn: &mut TcpStream) -> Result<usize, String> {
    let mut message = [0u8; 1000];
    match conn.read(&mut message[..1]) {
        Ok(0) => return Ok(0),
        Ok(_) => {}
        Err(e) => return Err(format!("read: {e}")),
    }
    conn.read_exact(&mut message[1..]).map_err(|e| format!("read: {e}"))?;
    conn.write_all(&message).map_err(|e| format!("write: {e}"))?;
    Ok(message.len())
}

/// The four connections from the other side, and one that root serves all the while.
pub(crate) fn client(port: u16, how: &str) -> Result<String, String> {
    let is_cloned = how == "cloned";
    let mut used = connect(port)?;
    ask(&mut used, 1)?;
    let mut other = connect(port)?;
    ask(&mut other, 2)?;
    let mut unused = connect(port)?;
    for round in 0..50 {
        if !is_cloned {
            ask(&mut used, round)?;
        }
        ask(&mut other, round)?;
    }
    drop(used);
    if !is_cloned {
        ask(&mut unused, 3)?;
        drop(unused);
        for round in 0..2 {
            let mut late = connect(port)?;
            ask(&mut late, round)?;
        }
        ask(&mut other, 7)?;
    }
    Ok("good".into())
}

fn ask(conn: &mut TcpStream, round: u8) -> Result<(), String> {
    let question = [round; 1000];
    let mut answer = [!round; 1000];
    conn.write_all(&question).map_err(|e| format!("ask: {e}"))?;
    conn.read_exact(&mut answer).map_err(|e| format!("answer: {e}"))?;
    if answer == question { Ok(()) } else { Err("a wrong answer".into()) }
}

/// A server of root's that starts a helper as another user, between the first and the second of three
/// connections.
pub(crate) fn helped_server(port: u16) -> Result<String, String> {
    let listener = listen(port)?;
    let mut first = accept(&listener)?;
    echo(&mut first)?;
    let helper = sys::fork(|| u8::from(sys::change(Change::Setuid, NOBODY).is_err()));
    if sys::wait(helper) != "exit 0" {
        return Err("the helper could not change".into());
    }
    while echo(&mut first)? > 0 {}
    for _ in 0..2 {
        let mut late = accept(&listener)?;
        while echo(&mut late)? > 0 {}
    }
    Ok("good".into())
}

/// Its client.
pub(crate) fn helped_client(port: u16) -> Result<String, String> {
    let mut first = connect(port)?;
    ask(&mut first, 1)?;
    ask(&mut first, 2)?;
    drop(first);
    for round in 0..2 {
        let mut late = connect(port)?;
        ask(&mut late, round)?;
    }
    Ok("good".into())
}

/// Connections that open, talk and close in several threads, while another one gives this process's user up.
const BUSY_THREADS: u64 = 4;
const BUSY_CONNECTIONS: u64 = 60;

/// Serves all connections of a busy client, a thread for each. `changes`: this end changes in their midst.
pub(crate) fn busy_server(port: u16, changes: bool) -> Result<String, String> {
    let listener = listen(port)?;
    let all = BUSY_THREADS * BUSY_CONNECTIONS;
    std::thread::scope(|s| {
        let talks: Vec<_> = (0..all)
            .map(|n| {
                let mut conn = accept(&listener)?;
                if changes && n == all / 2 {
                    s.spawn(|| sys::change(Change::Setuid, NOBODY));
                }
                Ok(s.spawn(move || {
                    while echo(&mut conn)? > 0 {}
                    Ok(())
                }))
            })
            .collect::<Result<_, String>>()?;
        talks.into_iter().try_for_each(|talk| talk.join().map_err(|_| "panicked".to_string())?)
    })
    .map(|()| format!("good as {}", sys::euid()))
}

/// The client of [`busy_server`].
pub(crate) fn busy_client(port: u16, changes: bool) -> Result<String, String> {
    std::thread::scope(|s| {
        let talk = move |thread: u64| {
            for n in 0..BUSY_CONNECTIONS {
                let mut conn = connect(port)?;
                if changes && thread == 0 && n == BUSY_CONNECTIONS / 2 {
                    s.spawn(|| sys::change(Change::Setuid, NOBODY));
                }
                for round in 0..n % 4 {
                    ask(&mut conn, round as u8)?;
                }
            }
            Ok(())
        };
        let talks: Vec<_> = (0..BUSY_THREADS).map(|thread| s.spawn(move || talk(thread))).collect();
        talks.into_iter().try_for_each(|talk| talk.join().map_err(|_| "panicked".to_string())?)
    })
    .map(|()| format!("good as {}", sys::euid()))
}
