//! The process of one strand: hears orders, has a group of one thread do them, and tells what happens.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getppid};
use signal_hook::consts::{SIGHUP, SIGINT};

use super::pipe::{Ear, Order, Word, say};
use super::{Event, Events, Threads, Workers, fixed_port};
use crate::profile::options::Protocol;
use crate::strand::listeners::Listeners;
use crate::strand::plan::Plan;

/// The command line of such a process.
#[derive(Clone, Debug, clap::Args)]
pub struct StrandArgs {
    /// Process id of whoever started it
    #[arg(long)]
    parent: i32,
}

/// Works until the strand has ended, or whoever started it has.
pub fn work(args: &StrandArgs) -> anyhow::Result<()> {
    set_pdeathsig(Signal::SIGKILL).context("cannot tie this process to the one that started it")?;
    if getppid() != Pid::from_raw(args.parent) {
        bail!("`smc_bench strand` is started by a master or slave, not by hand");
    }
    // Ctrl-C at a terminal, and its end, reach all; the one that started us decides what it means.
    for signal in [SIGINT, SIGHUP] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    let pipe = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut ear = Ear::new(&pipe)?;
    let Some(Order::Prepare { plan, shared }) = ear.hear().context("an unreadable order")? else {
        return Ok(());
    };
    let progress = plan.detail.progress;
    let pipe = Arc::new(Mutex::new(pipe));
    match prepare(*plan, shared, pipe.clone()) {
        Ok(workers) => obey(workers, &mut ear, &pipe, progress),
        Err(error) => tell(&pipe, &Word::Unable(error.to_string())).context("nobody listens"),
    }
}

/// The one strand, which listens already.
fn prepare(plan: Plan, shared: Option<Protocol>, pipe: Arc<Mutex<UnixStream>>) -> io::Result<Threads> {
    let mut listeners = Listeners::default();
    if let (Some(protocol), Some(opening)) = (shared, fixed_port(&plan)?) {
        let socket = io::stdout().as_fd().try_clone_to_owned()?.into();
        listeners.inherit(protocol, socket, opening.port.unwrap_or(0));
    }
    let events: Events = Arc::new(move |event| {
        let (word, is_last) = match event {
            // The parent asks for nothing: all that it needs to know comes with this.
            Event::AtGate { transaction, turns, counts, .. } => {
                (Word::AtGate { transaction, turns, counts }, false)
            }
            Event::Released { transaction, .. } => (Word::Released { transaction }, false),
            Event::Done { report, .. } => (Word::Done(report), true),
        };
        if tell(&pipe, &word).is_err() || is_last {
            std::process::exit(0);
        }
    });
    Threads::prepare(plan, 1, events, &mut listeners)
}

fn obey(
    mut workers: Threads,
    ear: &mut Ear,
    pipe: &Arc<Mutex<UnixStream>>,
    progress: Option<Duration>,
) -> anyhow::Result<()> {
    tell(pipe, &Word::Listening(workers.ports().pop().unwrap_or_default()))?;
    while let Some(order) = ear.hear().context("an unreadable order")? {
        match order {
            Order::Prepare { .. } => bail!("prepared twice"),
            Order::Begin(ports) => {
                workers.begin(vec![ports])?;
                if let Some(interval) = progress {
                    show_progress(workers.watch(), pipe.clone(), interval)?;
                }
            }
            Order::Release { transaction, begin_ns } => workers.release(transaction, begin_ns),
            Order::End { transaction, end } => workers.end(0, transaction, end),
            Order::Stop => workers.stop(),
            Order::Shut => workers.shut(),
        }
    }
    Ok(())
}

/// Tells from time to time what has been done.
fn show_progress(
    counts: impl Fn() -> crate::strand::Counts + Send + 'static,
    pipe: Arc<Mutex<UnixStream>>,
    interval: Duration,
) -> io::Result<()> {
    let work = move || {
        loop {
            thread::sleep(interval);
            if tell(&pipe, &Word::Counts(counts())).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("progress".into()).spawn(work).map(drop)
}

fn tell(pipe: &Mutex<UnixStream>, word: &Word) -> io::Result<()> {
    say(&pipe.lock().unwrap_or_else(PoisonError::into_inner), word)
}
