//! What a preloaded library costs calls that are none of its business: small reads and writes on a pipe and
//! on a file, by a process of this program as it is and under smc_run.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};
use tempfile::{NamedTempFile, TempDir};

use crate::install::Install;
use crate::paths::launch::Place;

/// Of each call: the smaller, the more the way into the kernel counts.
const BYTES: usize = 64;
/// Calls of each kind between two looks at the clock. A file of so many pieces stays in the page cache.
const PIECES: u32 = 500;
/// Batches of each kind in a slice, in turns; the fastest counts, the rest was disturbed (first the warm-up).
const BATCHES: u32 = 10;
/// Of a batch: tens of thousands of calls.
const LENGTH: Duration = Duration::from_millis(5);
/// Starting and ending a process under a guard.
const START: Duration = Duration::from_millis(30);
/// For a slice, on whatever machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Calls per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rates {
    /// On a pipe with both ends in the process.
    pub(crate) pipe: f64,
    /// On a file.
    pub(crate) file: f64,
}

/// Where slices run: one process each, since where a program lies in memory is worth a per cent.
pub(crate) struct Calls {
    plain: Place,
    preloaded: Place,
    folder: TempDir,
}

impl Calls {
    /// # Errors
    ///
    /// There is no library here, or no place for a file.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("smc_bench-").tempdir();
        let folder = folder.context("no place for a file")?;
        let in_folder = |place: Place| Place { scratch: Some(folder.path().to_owned()), ..place };
        let (plain, preloaded) = (Place::default(), Place::with_smc(&Install::find())?);
        Ok(Self { plain: in_folder(plain), preloaded: in_folder(preloaded), folder })
    }

    /// One slice of each kind, with the library or without.
    ///
    /// # Errors
    ///
    /// The process cannot be started, or fails.
    pub(crate) fn slice(&self, preloaded: bool) -> anyhow::Result<Rates> {
        let place = if preloaded { &self.preloaded } else { &self.plain };
        let program = std::env::current_exe().context("where is this program?")?;
        let words = ["inner", "descriptors", "--folder"].map(std::ffi::OsString::from);
        let words = words.into_iter().chain([self.folder.path().into()]);
        let printed = place.start(&program, words)?.finish(PATIENCE)?;
        serde_json::from_str(&printed).context("a slice of reads and writes printed no result")
    }
}

/// How long a slice takes.
pub(crate) fn guess() -> Duration {
    START + LENGTH * BATCHES * 2
}

/// Where the file is made.
#[derive(Args)]
pub(crate) struct Options {
    #[arg(long)]
    folder: PathBuf,
}

/// `smc_bench inner descriptors`: prints [`Rates`] as JSON.
pub(crate) fn print(options: &Options) -> anyhow::Result<()> {
    stay_on_one_cpu();
    println!("{}", serde_json::to_string(&fastest(&options.folder)?)?);
    Ok(())
}

/// The same one for every slice: CPUs of one machine may differ by a third while somebody uses what they
/// share. The last, since interrupts most often go to the first.
fn stay_on_one_cpu() {
    let Ok(allowed) = sched_getaffinity(None) else { return };
    if let Some(last) = (0..CpuSet::MAX_CPU).rev().find(|cpu| allowed.is_set(*cpu)) {
        let mut one = CpuSet::new();
        one.set(last);
        // Where that is forbidden, medians have to bear it.
        let _ = sched_setaffinity(None, &one);
    }
}

fn fastest(folder: &Path) -> anyhow::Result<Rates> {
    let mut pipe = pipe().context("no pipe")?;
    let mut file = file(folder).context("no file")?;
    let mut best = Rates { pipe: 0.0, file: 0.0 };
    for _ in 0..BATCHES {
        best.pipe = best.pipe.max(rate(&mut pipe).context("cannot use a pipe")?);
        best.file = best.file.max(rate(&mut file).context("cannot use a file")?);
    }
    Ok(best)
}

/// [`PIECES`] writes, and as many reads.
fn pipe() -> io::Result<impl FnMut() -> io::Result<()>> {
    let (mut reader, mut writer) = io::pipe()?;
    let (bytes, mut buffer) = ([b'x'; BYTES], [0; BYTES]);
    Ok(move || {
        (0..PIECES).try_for_each(|_| {
            writer.write_all(&bytes)?;
            reader.read_exact(&mut buffer)
        })
    })
}

/// The same, all writes first.
fn file(folder: &Path) -> io::Result<impl FnMut() -> io::Result<()>> {
    let mut writer = NamedTempFile::new_in(folder)?;
    let mut reader = writer.reopen()?;
    let (bytes, mut buffer) = ([b'x'; BYTES], [0; BYTES]);
    Ok(move || {
        let writer: &mut File = writer.as_file_mut();
        writer.rewind()?;
        reader.rewind()?;
        (0..PIECES).try_for_each(|_| writer.write_all(&bytes))?;
        (0..PIECES).try_for_each(|_| reader.read_exact(&mut buffer))
    })
}

/// Calls per second in a batch of passes.
fn rate(pass: &mut impl FnMut() -> io::Result<()>) -> io::Result<f64> {
    let (start, mut passes) = (Instant::now(), 0_u32);
    while start.elapsed() < LENGTH {
        pass()?;
        passes += 1;
    }
    Ok(f64::from(passes) * f64::from(2 * PIECES) / start.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_counts_the_calls_of_every_pass() {
        let mut passes = 0_u32;
        let rate_of = rate(&mut || {
            passes += 1;
            std::thread::sleep(Duration::from_millis(2));
            Ok(())
        });
        // No pass takes less than its sleep.
        let most = f64::from(2 * PIECES) / 0.002;
        assert!(rate_of.is_ok_and(|rate| rate > 0.0 && rate <= most) && passes >= 1, "{passes}");
        assert!(rate(&mut || Err(io::Error::other("no"))).is_err());
    }

    #[test]
    fn a_pass_reads_what_it_wrote() {
        let folder = tempfile::tempdir().expect("a folder");
        let size = || {
            let entries = std::fs::read_dir(folder.path()).expect("it is there").flatten();
            entries.filter_map(|entry| entry.metadata().ok()).map(|file| file.len()).sum::<u64>()
        };
        let mut pass = file(folder.path()).expect("a file");
        for _ in 0..2 {
            pass().expect("all that was written can be read");
            assert_eq!(size(), u64::from(PIECES) * BYTES as u64, "it begins anew");
        }
        drop(pass);
        let rates = fastest(folder.path()).expect("a slice");
        assert!(rates.pipe > 0.0 && rates.file > 0.0 && size() == 0, "{rates:?}");
    }
}
