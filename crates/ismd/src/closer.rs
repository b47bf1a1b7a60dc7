//! Closing what clients passed, or left in a socket. Owns: the daemon's one thread closes nothing of which a
//! close may last: a socket lingers, a file system of somebody's own answers when it likes. Such descriptors
//! go to other threads, by user; whose user has too many there is not let in meanwhile.

use os::passing;
use rustix::net::{Shutdown, shutdown};
use std::collections::HashMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Who waits, waits with users of the same remainder.
const THREADS: u32 = 4;
/// So many descriptors of a user may wait for their end before he is turned away.
const MOST: u32 = 64;

/// The way to those threads. They are made at the first need.
#[derive(Clone, Default)]
pub(crate) struct Closer(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    threads: HashMap<u32, Sender<(u32, Closing)>>,
    /// Descriptors that wait, by user.
    owed: HashMap<u32, u32>,
}

/// What a thread is to close, by dropping it.
type Closing = Box<dyn Send>;

/// A number that came from elsewhere.
struct Number(i32);

impl Drop for Number {
    fn drop(&mut self) {
        os::fd::close(self.0);
    }
}

/// A descriptor of which nothing is known.
pub(crate) struct Doubtful {
    number: i32,
    uid: u32,
    closer: Option<Closer>,
}

impl Closer {
    pub(crate) fn new() -> Self {
        Closer::default()
    }

    /// This number came from this user.
    pub(crate) fn doubtful(&self, uid: u32, number: i32) -> Doubtful {
        Doubtful { number, uid, closer: Some(self.clone()) }
    }

    /// Whether a user has so many descriptors in the hands of the kernel that he is to have no more.
    pub(crate) fn is_full_of(&self, uid: u32) -> bool {
        self.with(|state| state.owed.get(&uid).is_some_and(|owed| *owed >= MOST))
    }

    /// Descriptors that are not closed yet.
    pub(crate) fn waiting(&self) -> usize {
        self.with(|state| state.owed.values().map(|owed| *owed as usize).sum())
    }

    fn with<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends a client's connection. The other end hears of it now. What lies in it unread stays there, without
    /// numbers of ours: if there are descriptors among it, the socket as a whole is closed elsewhere.
    pub(crate) fn dispose(&self, uid: u32, socket: OwnedFd) {
        /// More than a client's buffer holds of small packets: who sends such waits elsewhere.
        const PACKETS: usize = 64;
        let number = socket.as_raw_fd();
        let _ = shutdown(&socket, Shutdown::Both);
        // (So that a packet of no bytes is told from the end.)
        if passing::ask_for_senders(number).is_err() || !passing::drain(number, PACKETS) {
            self.close_socket(uid, socket);
        }
    }

    /// Closes a socket of this user's, with whatever lies in it unread.
    fn close_socket(&self, uid: u32, socket: OwnedFd) {
        self.close(uid, Box::new(socket));
    }

    fn close(&self, uid: u32, fd: Closing) {
        let state = &self.0;
        self.with(|known| {
            *known.owed.entry(uid).or_default() += 1;
            let thread = known.threads.entry(uid % THREADS).or_insert_with(|| start(Arc::clone(state)));
            // (A thread that could not be made has dropped its end, and the descriptor is closed here.)
            if thread.send((uid, fd)).is_err() {
                give_back(known, uid);
            }
        });
    }
}

fn give_back(state: &mut State, uid: u32) {
    if let Some(owed) = state.owed.get_mut(&uid) {
        *owed -= 1;
        if *owed == 0 {
            state.owed.remove(&uid);
        }
    }
}

fn start(state: Arc<Mutex<State>>) -> Sender<(u32, Closing)> {
    let (sender, receiver) = channel::<(u32, Closing)>();
    let close_all = move || {
        for (uid, fd) in receiver {
            drop(fd);
            give_back(&mut state.lock().unwrap_or_else(PoisonError::into_inner), uid);
        }
    };
    let _ = thread::Builder::new().name("closer".into()).stack_size(64 << 10).spawn(close_all);
    sender
}

impl Doubtful {
    pub(crate) fn number(&self) -> i32 {
        self.number
    }

    /// It was looked at, and closes at once.
    pub(crate) fn is_harmless(&mut self) {
        self.closer = None;
    }
}

impl Drop for Doubtful {
    fn drop(&mut self) {
        let closing = Box::new(Number(self.number));
        match &self.closer {
            Some(closer) => closer.close(self.uid, closing),
            None => drop(closing),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// A TCP socket that lingers, with bytes that nobody takes: closing it lasts as long as it lingers.
    #[test]
    fn what_lingers_is_waited_for_elsewhere_and_its_user_is_told_apart() {
        let (closer, begun) = (Closer::new(), Instant::now());
        for _ in 0..MOST {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
            let at = listener.local_addr().expect("an address");
            let full = std::net::TcpStream::connect(at).expect("connected");
            full.set_nonblocking(true).expect("set");
            while std::io::Write::write(&mut &full, &[0; 65536]).is_ok() {}
            rustix::net::sockopt::set_socket_linger(&full, Some(Duration::from_secs(3600))).expect("set");
            let (peer, _) = listener.accept().expect("accepted");
            std::mem::forget(peer);
            closer.close_socket(7, full.into());
        }
        assert!(closer.is_full_of(7) && !closer.is_full_of(8));
        let (reader, writer) = std::io::pipe().expect("a pipe");
        closer.close_socket(8, writer.into());
        // (Not behind the ones that linger.)
        assert_eq!(std::io::Read::read(&mut &reader, &mut [0]).expect("the end"), 0);
        assert!(begun.elapsed() < Duration::from_secs(3600));
    }
}
