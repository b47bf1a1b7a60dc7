//! The log, on standard error. Owns: the daemon neither dies nor waits because of it. Lines go through a
//! queue to a thread of its own, which alone may sleep in a write that nobody reads; what finds no room
//! there, and what cannot be written, is lost and counted. (Not by O_NONBLOCK: the description is others'
//! as well.) Nor does it say the same as often as somebody likes: see [`bounds`](crate::bounds).

use crate::arguments::{Arguments, LogFormat};
use crate::bounds::Bounds;
use anyhow::Context;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber, info, warn};
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Context as Seen, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

/// Bytes that may wait: some thousand lines.
const ROOM: usize = 256 << 10;
/// So long the end of the daemon waits for its last lines.
const LAST_WORDS: Duration = Duration::from_secs(1);

static LOST: AtomicU64 = AtomicU64::new(0);

/// Lines that nobody will read.
pub(crate) fn lost() -> u64 {
    LOST.load(Relaxed)
}

/// The queue, and the thread at its end.
#[derive(Clone)]
pub(crate) struct Log(Arc<Queue>);

struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    bounds: Mutex<Bounds<Identifier>>,
}

#[derive(Default)]
struct State {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    is_writing: bool,
}

impl Log {
    /// Logs from now on, as the command line asks. Error: there is no thread for it.
    pub(crate) fn start(arguments: &Arguments) -> anyhow::Result<Log> {
        // (Where standard error is a file as long as it may get, a write is to fail, not to kill.)
        let _ = signal_hook::flag::register(
            rustix::process::Signal::XFSZ.as_raw(),
            Arc::new(AtomicBool::new(false)),
        );
        let log = Log::to(io::stderr())?;
        let lines = tracing_subscriber::fmt()
            .with_max_level(arguments.log_level)
            .log_internal_errors(false)
            .with_writer(log.clone())
            .with_ansi(false)
            .with_target(false);
        match arguments.log_format {
            LogFormat::Text => lines.finish().with(log.clone()).init(),
            LogFormat::Json => lines.json().finish().with(log.clone()).init(),
        }
        Ok(log)
    }

    fn to(out: impl Write + Send + 'static) -> anyhow::Result<Log> {
        let (state, changed) = (Mutex::default(), Condvar::new());
        let queue = Arc::new(Queue { state, changed, bounds: Mutex::new(Bounds::new()) });
        let theirs = Arc::clone(&queue);
        let writer = thread::Builder::new().name("log".into()).stack_size(128 << 10);
        writer.spawn(move || theirs.write_all(out)).context("no thread for the log")?;
        Ok(Log(queue))
    }

    fn say(&self, line: &[u8]) {
        let mut state = self.0.lock();
        if state.bytes + line.len() > ROOM {
            LOST.fetch_add(1, Relaxed);
            return;
        }
        state.bytes += line.len();
        state.lines.push_back(line.into());
        self.0.changed.notify_all();
    }

    /// The daemon ends: what was said is written, unless nobody takes it.
    pub(crate) fn finish(&self, last: Option<&str>) {
        self.0.tell_what_was_left_out();
        last.into_iter().for_each(|last| self.say(format!("{last}\n").as_bytes()));
        let is_pending = |state: &mut State| state.is_writing || !state.lines.is_empty();
        let _ = self.0.changed.wait_timeout_while(self.0.lock(), LAST_WORDS, is_pending);
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_all(&self, mut out: impl Write) {
        let mut told = 0;
        loop {
            let Some(line) = self.next() else {
                self.tell_what_was_left_out();
                continue;
            };
            match out.write_all(&line).and_then(|()| out.flush()) {
                Err(_) => _ = LOST.fetch_add(1, Relaxed),
                // (It can be heard again. Said as every line is, in the format that was asked for.)
                Ok(()) if lost() > told => {
                    told = lost();
                    warn!(so_far = told, "lines of the log were lost");
                }
                Ok(()) => {}
            }
        }
    }

    /// None when it is time to tell what was left out.
    fn next(&self) -> Option<Vec<u8>> {
        let mut state = self.lock();
        state.is_writing = false;
        self.changed.notify_all();
        loop {
            let due = self.bounds().due();
            let left = due.map(|due| due.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return None;
            }
            if let Some(line) = state.lines.pop_front() {
                state.bytes -= line.len();
                state.is_writing = true;
                return Some(line);
            }
            state = match left {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(left) => {
                    self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    fn bounds(&self) -> MutexGuard<'_, Bounds<Identifier>> {
        self.bounds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell_what_was_left_out(&self) {
        let all = self.bounds().left_out();
        for (what, left_out) in all {
            let users = left_out.users.iter().flatten();
            // (Of many it would say nothing to name one.)
            let uid = users.clone().next().filter(|_| left_out.users.len() == 1);
            info!(what, lines = left_out.lines, uid, users = users.count(), "left out of the log");
        }
    }
}

impl<S: Subscriber> Layer<S> for Log {
    /// What somebody asks for by the level of debug is for a moment, and whole. What this file says it says
    /// seldom.
    fn event_enabled(&self, event: &Event<'_>, _: Seen<'_, S>) -> bool {
        let about = event.metadata();
        if *about.level() > Level::INFO || about.target() == module_path!() {
            return true;
        }
        let mut uid = Uid(None);
        event.record(&mut uid);
        let what = || {
            let mut what = What(String::new());
            event.record(&mut what);
            what.0
        };
        let mut bounds = self.0.bounds();
        let was_due = bounds.due().is_some();
        let is_said = bounds.admit(about.callsite(), uid.0, what);
        drop(bounds);
        if !is_said && !was_due {
            // (The thread that is to tell it looks under this lock, and sleeps.)
            drop(self.0.lock());
            self.0.changed.notify_all();
        }
        is_said
    }
}

/// The user that a line is about.
struct Uid(Option<u32>);

impl Visit for Uid {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if matches!(field.name(), "uid" | "peer.uid") {
            self.0 = u32::try_from(value).ok();
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

/// A line without what it is about.
struct What(String);

impl Visit for What {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

/// One line, whole: so they are given.
pub(crate) struct Line<'a>(&'a Log);

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.say(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn who_speaks_waits_for_no_reader_and_what_finds_no_room_is_counted() {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let log = Log::to(writer).expect("a thread");
        let line = [b'x'; 1024];
        let before = lost();
        // (Nobody reads: as much as the pipe and the queue take, and as much again.)
        let said = 2 * (ROOM + (64 << 10)) / line.len();
        (0..said).for_each(|_| log.say(&line));
        assert!(lost() > before);
        log.finish(Some("the end"));
        let kept = said as u64 - (lost() - before) + 1;
        let mut heard = [0; 1024];
        for _ in 0..kept.min(100) {
            reader.read_exact(&mut heard).expect("what was kept is written");
        }
        drop(reader);
        log.finish(None);
    }
}
