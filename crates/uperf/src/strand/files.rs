//! sendfile: a folder's files over a connection, one picked at random each time, through libc's sendfile.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use super::flowop::missing;
use super::network::Network;
use super::run::{Stop, Strand};
use super::steps::{Call, Step};
use nix::sys::sendfile::sendfile64;

/// Regular files of a folder and all below it, open.
pub(crate) struct Files {
    dir: String,
    files: Vec<(File, u64)>,
}

impl Files {
    /// Opens what can be opened. An error if that is nothing.
    pub(crate) fn open(dir: &str) -> io::Result<Self> {
        let mut files = vec![];
        collect(Path::new(dir), &mut files)?;
        if files.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("no file in {dir}")));
        }
        Ok(Self { dir: dir.into(), files })
    }
}

fn collect(dir: &Path, files: &mut Vec<(File, u64)>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            collect(&entry.path(), files)?;
        } else if kind.is_file() {
            let size = entry.metadata()?.len();
            files.extend(File::open(entry.path()).ok().filter(|_| size > 0).map(|file| (file, size)));
        }
    }
    Ok(())
}

impl<N: Network> Strand<N> {
    pub(super) fn send_files(
        &mut self,
        step: &Step,
        dir: &str,
        count: u32,
        chunk: Option<u32>,
    ) -> Result<(), Stop> {
        if self.files.as_ref().is_none_or(|files| files.dir != dir) {
            self.files = Some(Files::open(dir).map_err(|error| self.trouble(step, error))?);
        }
        for _ in 0..count {
            self.send_file(step, chunk)?;
        }
        Ok(())
    }

    fn send_file(&mut self, step: &Step, chunk: Option<u32>) -> Result<(), Stop> {
        let chosen = fastrand::usize(..self.files.as_ref().map_or(1, |files| files.files.len()));
        let mut offset = 0;
        loop {
            let Some((file, size)) = self.files.as_ref().and_then(|files| files.files.get(chosen)) else {
                return Ok(());
            };
            let left = size.saturating_sub(u64::try_from(offset).unwrap_or(0));
            if left == 0 {
                return Ok(());
            }
            let count = left.min(chunk.map_or(left, u64::from));
            let Some(connection) = self.connections.last(step.slot) else { return Err(missing(step)) };
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            match sendfile64(&*connection.socket, file, Some(&mut offset), count) {
                // The file has become shorter since.
                Ok(0) => return Ok(()),
                Ok(bytes) => self.recorder.counts.sent += bytes as u64,
                Err(error) => self.obstacle(step, Call::Write, error.into())?,
            }
            if self.is_over() {
                return Err(Stop::Ended);
            }
        }
    }
}
