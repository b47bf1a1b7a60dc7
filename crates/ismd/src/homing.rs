//! Connections whose memory is taken back go to TCP. Owns: that the daemon waits for none of them: a thread
//! of its own does it, made at the first need, and gives up who cannot be moved for a minute.

use crate::broker::Offer;
use fabric::revoke;
use os::mem::{self, Shared};
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;
use tracing::{info, warn};
use wire::Reason;

/// Between two rounds over what could not be moved. An end that was stopped in the middle of a copy goes on
/// some time, or never.
const BETWEEN: Duration = Duration::from_millis(20);
/// So many rounds: a minute.
const ROUNDS: u32 = 3_000;

/// Where offers go that were taken back.
pub(crate) struct Homing(Option<Sender<Offer<OwnedFd>>>);

/// Memory whose connections are on their way.
struct Job {
    words: Shared,
    doorbells: BTreeMap<u32, OwnedFd>,
    rounds: u32,
    home: u32,
}

/// Jobs, and addresses at which earlier ones were mapped (mappings are never given up, but used again).
#[derive(Default)]
struct Jobs {
    all: Vec<Job>,
    places: Vec<Shared>,
}

impl Homing {
    /// Nothing to do yet, and no thread.
    pub(crate) fn new() -> Self {
        Homing(None)
    }

    /// Sends home what lies in the memory of `offer`.
    pub(crate) fn send(&mut self, offer: Offer<OwnedFd>) {
        let sender = self.0.get_or_insert_with(|| {
            let (sender, queue) = channel();
            let started = thread::Builder::new().name("homing".into()).spawn(move || serve(&queue));
            if let Err(error) = started {
                warn!(%error, "cannot take memory back");
            }
            sender
        });
        let _ = sender.send(offer);
    }
}

fn serve(queue: &Receiver<Offer<OwnedFd>>) {
    let mut jobs = Jobs::default();
    loop {
        let next = match jobs.all.is_empty() {
            true => queue.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => queue.recv_timeout(BETWEEN),
        };
        match next {
            Ok(offer) => jobs.begin(offer),
            Err(RecvTimeoutError::Timeout) => jobs.round(),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

impl Jobs {
    fn begin(&mut self, offer: Offer<OwnedFd>) {
        let Offer { memory, doorbells, .. } = offer;
        let Some(words) = self.map(memory.as_raw_fd()) else {
            return warn!("cannot map memory that is taken back");
        };
        let mut job = Job { words, doorbells, rounds: 0, home: 0 };
        match job.is_done() {
            true => self.places.push(job.end()),
            false => self.all.push(job),
        }
    }

    fn map(&mut self, memory: i32) -> Option<Shared> {
        let len = usize::try_from(mem::file_len(memory).ok()?).ok()?;
        let place = self.places.iter().position(|place| size_of_val(*place) == len);
        match place.map(|at| self.places.swap_remove(at)) {
            Some(place) => mem::remap_shared(place, memory).is_ok().then_some(place),
            None => mem::map_shared(memory, len).ok(),
        }
    }

    fn round(&mut self) {
        let done = self.all.extract_if(.., |job| job.is_done());
        self.places.extend(done.map(Job::end));
    }
}

impl Job {
    /// One round; whether it was the last.
    fn is_done(&mut self) -> bool {
        let bell = |number| self.doorbells.get(&number).map(AsRawFd::as_raw_fd);
        let round = revoke::take_back(self.words, bell, Reason::OPERATOR);
        self.home += round.home;
        self.rounds += 1;
        let is_over = round.left == 0 || self.rounds == ROUNDS;
        if is_over && (self.home, round.left) != (0, 0) {
            info!(home = self.home, left = round.left, "connections went back to TCP");
        }
        is_over
    }

    fn end(self) -> Shared {
        let _ = mem::retire(self.words);
        self.words
    }
}
