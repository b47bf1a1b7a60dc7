//! `bare`: what this machine allows. Two processes and rings of shared memory between them, a thread per connection and end,
//! no sockets, no library; of three ways to wait the one that moves most during the warm-up.
//!
//! The rings are those of the library, so that what SMC loses against this path is lost on the way to them.

use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use hdrhistogram::Histogram;
use nix::sys::resource::UsageWho;
use serde::{Deserialize, Serialize};
use shm::layout::{PAGE, Side};
use shm::ring::{HAND_OVER_UP_TO, Reader, Ring};
use shm::segment::{Geometry, Segment};
use shm::wait::WaitWord;
use shm::{Consumer, Producer, RxCache, TxCache};
use uperf::profile::{Piece, pieces};
use uperf::result::{Latency, Run, Usage, histogram};

use super::launch::Place;
use crate::cell::Cell;

/// Of each direction: as much as a core's cache bears beside everything else.
const RING: u32 = 128 * 1024;
/// How to wait: pauses, then yields, then a futex.
const WAITS: [(u32, u32); 3] = [(20_000, 0), (100, 20), (0, 0)];
/// The first word: which of them, and what is done.
const MEASURING: u64 = 1 << 8;
const STOP: u64 = 1 << 9;
/// A sleeper looks so often whether all is over.
const NAP_MS: u32 = 20;
/// Between two looks at the first word by whoever only watches.
const PAUSE: Duration = Duration::from_millis(2);
/// Shortest trial of a way to wait.
const TRIAL: Duration = Duration::from_millis(10);

/// What both ends are told.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Order {
    pieces: Vec<Piece>,
    connections: u32,
    duration: Duration,
    trial: Duration,
}

/// The command line of an end.
#[derive(Args)]
pub(crate) struct Options {
    /// What to do, as JSON
    order: String,
    /// The server's memory; without it this is the server
    memory: Option<String>,
}

/// Measures `cell` once.
pub(super) fn run(cell: &Cell, warm_up: Duration, patience: Duration) -> anyhow::Result<Run> {
    let variables = cell.variables.iter().map(|(name, value)| (format!("?{name}"), value.clone()));
    let host = ("?h".to_owned(), "localhost".to_owned());
    let pieces = pieces(&cell.profile, &variables.chain([host]).collect())?;
    let Some(pieces) = pieces else {
        bail!("bare only writes and reads pieces of fixed size, and {} does more", cell.profile)
    };
    let trial = (warm_up / WAITS.len() as u32).max(TRIAL);
    let order = Order { pieces, connections: cell.connections, duration: cell.duration, trial };
    let order = serde_json::to_string(&order)?;
    let program = std::env::current_exe().context("where is this program?")?;
    let mut server = Place::default().start(&program, ["inner", "bare", &order])?;
    let memory = server.line(patience)?;
    let client = Place::default().start(&program, ["inner", "bare", &order, &memory])?;
    let run: Run = serde_json::from_str(&client.finish(patience + cell.duration + trial * 4)?)?;
    let server = serde_json::from_str(&server.finish(patience)?)?;
    Ok(Run { profile: cell.profile.clone(), server: Some(server), ..run })
}

/// Is one of the ends.
pub(crate) fn end(options: &Options) -> anyhow::Result<()> {
    let order: Order = serde_json::from_str(&options.order).context("no order")?;
    let result = match &options.memory {
        None => serde_json::to_string(&serve(&order)?),
        Some(memory) => serde_json::to_string(&ask(&order, memory)?),
    };
    println!("{}", result?);
    Ok(())
}

const GEOMETRY: Geometry = Geometry { slots: 1, ring_size: RING };

type Memory = &'static [AtomicU64];

fn map(fd: i32, order: &Order) -> anyhow::Result<Memory> {
    os::mem::map_shared(fd, length(order)).map_err(|error| anyhow!("cannot map memory: {error:?}"))
}

fn length(order: &Order) -> usize {
    PAGE + order.connections as usize * GEOMETRY.len()
}

/// The segments behind the first page.
fn segments(memory: Memory) -> impl Iterator<Item = Memory> {
    memory[PAGE / 8..].chunks_exact(GEOMETRY.len() / 8)
}

fn serve(order: &Order) -> anyhow::Result<Usage> {
    let fd = os::mem::sealed_memfd(c"smc_bench-bare", length(order) as u64)
        .map_err(|error| anyhow!("no shared memory: {error:?}"))?;
    let memory = map(fd, order)?;
    let mirrored: Vec<Piece> =
        order.pieces.iter().map(|piece| Piece { is_write: !piece.is_write, ..*piece }).collect();
    let mut threads = vec![];
    for part in segments(memory) {
        let segment = Segment::format(part, GEOMETRY, 0).context("no segment")?;
        let (mut end, pieces) = (End::new(memory, &segment, Side::Server, &mirrored)?, mirrored.clone());
        threads.push(
            thread::Builder::new().spawn(move || while end.pass(&pieces, &AtomicU64::new(0)).is_some() {})?,
        );
    }
    println!("/proc/{}/fd/{fd}", std::process::id());
    let mut before = None;
    while memory[0].load(Relaxed) & STOP == 0 {
        thread::sleep(PAUSE);
        if memory[0].load(Relaxed) & MEASURING != 0 && before.is_none() {
            before = Some(Usage::now(UsageWho::RUSAGE_SELF));
        }
    }
    let usage = Usage::now(UsageWho::RUSAGE_SELF) - before.context("nothing was measured")?;
    threads.into_iter().for_each(|thread| drop(thread.join()));
    Ok(usage)
}

fn ask(order: &Order, memory: &str) -> anyhow::Result<Run> {
    let file = OpenOptions::new().read(true).write(true).open(memory).context("no memory")?;
    let memory = map(file.as_raw_fd(), order)?;
    let counts: Arc<Vec<AtomicU64>> = Arc::new((0..order.connections).map(|_| AtomicU64::new(0)).collect());
    let mut threads = vec![];
    for (number, part) in segments(memory).enumerate() {
        let segment = Segment::attach(part, 0).map_err(|error| anyhow!("no segment: {error:?}"))?;
        let end = End::new(memory, &segment, Side::Client, &order.pieces)?;
        let (pieces, counts) = (order.pieces.clone(), counts.clone());
        threads.push(thread::Builder::new().spawn(move || end.measure(&pieces, &counts[number]))?);
    }
    let moved = || counts.iter().map(|count| count.load(Relaxed)).sum::<u64>();
    let mut trials = vec![];
    // Who has no core of its own must not pause only: a trial is shorter than the slice in which that looks good.
    let has_cores = 2 * order.connections as usize <= thread::available_parallelism().map_or(1, usize::from);
    for wait in u64::from(!has_cores)..WAITS.len() as u64 {
        memory[0].store(wait, Relaxed);
        let before = moved();
        thread::sleep(order.trial);
        trials.push((moved() - before, wait));
    }
    let best = trials.into_iter().max().map_or(1, |(_, wait)| wait);
    memory[0].store(best | MEASURING, Relaxed);
    let (used_before, moved_before, start) = (Usage::now(UsageWho::RUSAGE_SELF), moved(), Instant::now());
    thread::sleep(order.duration);
    let (operations, elapsed) = (moved() - moved_before, start.elapsed());
    memory[0].store(best | STOP, Relaxed);
    let client = Some(Usage::now(UsageWho::RUSAGE_SELF) - used_before);
    let mut all = histogram();
    for thread in threads {
        all.add(thread.join().map_err(|_| anyhow!("a thread of bare panicked"))?)?;
    }
    // A pass of a stream is longer than a short run: what was moved is counted in pieces.
    let of_a_pass = order.pieces.iter().map(|piece| piece.count).sum::<u64>().max(1);
    let bytes = |is_write| {
        let own = order.pieces.iter().filter(|piece| piece.is_write == is_write);
        operations * own.map(|piece| u64::from(piece.bytes) * piece.count).sum::<u64>() / of_a_pass
    };
    Ok(Run {
        strands: order.connections,
        elapsed_ns: elapsed.as_nanos() as u64,
        operations,
        transactions: all.len(),
        bytes_sent: bytes(true),
        bytes_received: bytes(false),
        latency: Latency::from(&all),
        client,
        ..Run::default()
    })
}

/// One end of one connection.
struct End {
    state: &'static AtomicU64,
    outgoing: Ring,
    incoming: Ring,
    caches: (TxCache, RxCache),
    buffer: Vec<u8>,
    /// Each piece is followed by a wait: requests and responses.
    takes_turns: bool,
}

impl End {
    fn new(memory: Memory, segment: &Segment, side: Side, pieces: &[Piece]) -> anyhow::Result<Self> {
        let ring = |side| segment.outgoing(0, side).context("no ring");
        let (outgoing, incoming) = (ring(side)?, ring(side.peer())?);
        if side == Side::Server {
            [outgoing, incoming].iter().for_each(|ring| ring.words().reset());
        }
        let longest = pieces.iter().map(|piece| piece.bytes as usize).max().unwrap_or(0);
        let is_short = longest <= HAND_OVER_UP_TO;
        let takes_turns = is_short && pieces.windows(2).any(|pair| pair[0].is_write != pair[1].is_write);
        let (caches, buffer) = ((TxCache::new(), RxCache::new()), vec![0; longest]);
        Ok(Self { state: &memory[0], outgoing, incoming, caches, buffer, takes_turns })
    }

    /// Passes until all is over; those that were measured are timed.
    fn measure(mut self, pieces: &[Piece], count: &AtomicU64) -> Histogram<u64> {
        let (mut times, mut start) = (histogram(), Instant::now());
        while self.pass(pieces, count).is_some() {
            if self.state.load(Relaxed) & MEASURING != 0 {
                times.saturating_record(start.elapsed().as_nanos() as u64);
            }
            start = Instant::now();
        }
        times
    }

    /// Counts what it moves; None if all is over.
    fn pass(&mut self, pieces: &[Piece], count: &AtomicU64) -> Option<()> {
        for piece in pieces.iter().flat_map(|piece| (0..piece.count).map(move |_| piece)) {
            let bytes = piece.bytes as usize;
            (if piece.is_write { self.write(bytes) } else { self.read(bytes) })?;
            count.fetch_add(1, Relaxed);
        }
        Some(())
    }

    fn write(&mut self, bytes: usize) -> Option<()> {
        let state = self.state.load(Relaxed);
        // (Who always finds what he wants never comes to the look in `wait`.)
        if state & STOP != 0 {
            return None;
        }
        let reader = match (state & 0xff, self.takes_turns) {
            (0, true) => Reader::Waiting,
            (0, false) => Reader::Apart,
            _ => Reader::InTurn,
        };
        let (ring, mut at) = (self.outgoing, 0);
        let mut producer = Producer::alone(&ring, &mut self.caches.0);
        while at < bytes {
            let written = producer.write(shm::Source::from(&self.buffer[at..bytes]), reader).ok()?;
            at += written;
            if written == 0 {
                wait(self.state, || producer.has_room(1), &ring.words().space_wait.0)?;
            } else {
                wake(&ring.words().data_wait.0);
            }
        }
        Some(())
    }

    fn read(&mut self, bytes: usize) -> Option<()> {
        let (ring, mut at) = (self.incoming, 0);
        let words = ring.words();
        let mut consumer = Consumer::alone(&ring, &mut self.caches.1);
        while at < bytes {
            let read = consumer.read(shm::Sink::from(&mut self.buffer[at..bytes])).ok()?;
            at += read;
            if read == 0 {
                wait(self.state, || consumer.available_now().map(|ready| ready > 0), &words.data_wait.0)?;
            } else {
                wake(&words.space_wait.0);
            }
        }
        Some(())
    }
}

/// After something was published.
fn wake(word: &WaitWord) {
    if word.take_ring().nap() {
        os::futex::wake(word.futex());
    }
}

/// Until `is_ready`, in the way that is tried or was chosen; None if all is over.
fn wait<E>(state: &AtomicU64, mut is_ready: impl FnMut() -> Result<bool, E>, word: &WaitWord) -> Option<()> {
    let (pauses, yields) = WAITS[(state.load(Relaxed) & 0xff) as usize % WAITS.len()];
    for turn in 0..pauses + yields {
        if is_ready().ok()? {
            return Some(());
        }
        if turn < pauses { core::hint::spin_loop() } else { os::process::yield_now() }
    }
    loop {
        let asked = word.arm_nap();
        if is_ready().ok()? {
            word.take_nap();
            return Some(());
        }
        if state.load(Relaxed) & STOP != 0 {
            return None;
        }
        // Woken, interrupted or tired: it looks again.
        let _ = os::futex::wait(word.futex(), asked, NAP_MS);
    }
}

#[test]
fn who_finds_room_for_ever_ends_as_well() {
    let order = Order { pieces: vec![], connections: 1, duration: PAUSE, trial: PAUSE };
    let memory = map(os::mem::sealed_memfd(c"bare", length(&order) as u64).unwrap(), &order).unwrap();
    let segment = Segment::format(segments(memory).next().unwrap(), GEOMETRY, 0).unwrap();
    let mut end = End::new(memory, &segment, Side::Server, &[]).unwrap();
    assert!(end.write(0).is_some());
    memory[0].store(STOP | 1, Relaxed);
    assert!(end.write(0).is_none());
}
