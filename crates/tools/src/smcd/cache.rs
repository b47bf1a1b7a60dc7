//! What the numbers were at the last `smcd stats reset`. Owns: a file of this user alone, never reached
//! through a link.
//!
//! Text: a numbered line per counter, 30 lines per role (server first) with reason and count of fallbacks,
//! two totals.

use super::counts::{Fallbacks, Stats};
use nix::fcntl::{Flock, FlockArg, OFlag};
use std::fmt::Write as _;
use std::fs::{File, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use wire::Reason;

/// Reasons kept per role.
const REASONS: usize = 30;
/// Longer files are not ours.
const LEN_MAX: u64 = 64 * 1024;

/// `/tmp/.smcstats.u<uid>`; with SMC_REGISTRY_DIR the file lies beside the registry it belongs to.
pub(super) fn path() -> PathBuf {
    let folder =
        std::env::var_os("SMC_REGISTRY_DIR").filter(|folder| !folder.is_empty()).unwrap_or("/tmp".into());
    Path::new(&folder).join(format!(".smcstats.u{}", os::process::euid()))
}

/// The numbers at the last reset, `None` if there was none. The error is a sentence for stderr.
pub(super) fn read(path: &Path) -> Result<Option<Stats>, String> {
    let file = match open(path, File::options().read(true)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|error| complaint(path, &error.to_string()))?,
    };
    let file = own(path, file)?;
    let mut text = String::new();
    let read = (&*file).take(LEN_MAX).read_to_string(&mut text);
    Ok(read.ok().and_then(|_| parse(&text)))
}

/// Keeps `stats` for later.
pub(super) fn write(path: &Path, stats: &Stats) -> Result<(), String> {
    let told = |error: std::io::Error| complaint(path, &error.to_string());
    let file = open(path, File::options().read(true).write(true).create(true).mode(0o600)).map_err(told)?;
    let file = own(path, file)?;
    file.set_permissions(Permissions::from_mode(0o600)).map_err(told)?;
    file.set_len(0).map_err(told)?;
    (&*file).write_all(emit(stats).as_bytes()).map_err(told)
}

/// Forgets the reset.
pub(super) fn remove(path: &Path) {
    let _ = std::fs::remove_file(path);
}

fn complaint(path: &Path, why: &str) -> String {
    format!("Error: cannot use {}: {why}\n", path.display())
}

fn open(path: &Path, options: &mut std::fs::OpenOptions) -> std::io::Result<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    options.custom_flags(flags.bits()).open(path)
}

/// Locks the file if it is a plain one of this user.
fn own(path: &Path, file: File) -> Result<Flock<File>, String> {
    let about = file.metadata().map_err(|error| complaint(path, &error.to_string()))?;
    if about.uid() != os::process::euid() || !about.is_file() {
        return Err(complaint(path, "it belongs to another user"));
    }
    Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| complaint(path, errno.desc()))
}

fn emit(stats: &Stats) -> String {
    let (mut text, mut stats) = (String::new(), stats.clone());
    for (i, counter) in stats.counters().into_iter().enumerate() {
        let _ = writeln!(text, "{i:<12}{:<16}", counter.value);
    }
    let roles = [&stats.fallbacks[1], &stats.fallbacks[0]];
    for (role, fallbacks) in roles.iter().enumerate() {
        for place in 0..REASONS {
            let (reason, count) = fallbacks.get(place).copied().unwrap_or_default();
            let _ = writeln!(text, "{:<12}{:<16}{count:<16}", role * REASONS + place, reason.0);
        }
    }
    for (i, fallbacks) in roles.iter().enumerate() {
        let total: u64 = fallbacks.iter().map(|(_, count)| u64::from(*count)).sum();
        let _ = writeln!(text, "{i:<12}{total:<16}");
    }
    text
}

/// `None` for what is not as [`emit`] writes it.
fn parse(text: &str) -> Option<Stats> {
    let mut stats = Stats::default();
    let mut lines = text.lines();
    for (i, counter) in stats.counters().into_iter().enumerate() {
        let [at, number] = fields(lines.next()?)?;
        *counter.value = (at == i as u64).then_some(number)?;
    }
    for role in [1, 0] {
        stats.fallbacks[role] = fallbacks(&mut lines)?;
    }
    for _ in 0..2 {
        let [_, _total] = fields(lines.next()?)?;
    }
    lines.next().is_none().then_some(stats)
}

fn fallbacks<'a>(lines: &mut impl Iterator<Item = &'a str>) -> Option<Fallbacks> {
    let mut all = vec![];
    for _ in 0..REASONS {
        let [_, code, count] = fields(lines.next()?)?;
        all.push((Reason(u32::try_from(code).ok()?), u32::try_from(count).ok()?));
    }
    all.retain(|(_, count)| *count > 0);
    Some(all)
}

fn fields<const N: usize>(line: &str) -> Option<[u64; N]> {
    let numbers: Option<Vec<u64>> = line.split_whitespace().map(|word| word.parse().ok()).collect();
    numbers?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::{Stats, emit, parse, read, remove, write};
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;
    use wire::Reason;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("smcd-cache-{name}-{}", std::process::id()));
            let _ = std::fs::remove_file(&path);
            Scratch(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn stats() -> Stats {
        let mut stats = Stats::default();
        for (i, counter) in stats.counters().into_iter().enumerate() {
            *counter.value = i as u64 * 7;
        }
        stats.fallbacks = [vec![(Reason::MEM, 3)], vec![(Reason::PEERNOSMC, 4), (Reason::MAX_DMB, 1)]];
        stats
    }

    #[test]
    fn what_was_written_is_read() {
        assert_eq!(parse(&emit(&stats())), Some(stats()));
        let text = emit(&stats());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 65 + 60 + 2);
        assert_eq!(
            (lines[3], lines[65]),
            ("3           21              ", "0           50397184        4               ")
        );
        assert_eq!(lines[126], "1           3               ");
        for broken in ["", "x", &text[..text.len() - 40], &(text.clone() + "more\n")] {
            assert_eq!(parse(broken), None);
        }
    }

    #[test]
    fn the_file_is_private_and_survives() {
        let scratch = Scratch::new("file");
        assert_eq!(read(&scratch.0), Ok(None));
        write(&scratch.0, &Stats::default()).expect("written");
        write(&scratch.0, &stats()).expect("written again");
        assert_eq!(read(&scratch.0), Ok(Some(stats())));
        let mode = std::fs::metadata(&scratch.0).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        remove(&scratch.0);
        assert_eq!(read(&scratch.0), Ok(None));
    }

    #[test]
    fn a_link_is_never_followed() {
        let (link, victim) = (Scratch::new("link"), Scratch::new("victim"));
        std::fs::write(&victim.0, "precious").expect("written");
        std::os::unix::fs::symlink(&victim.0, &link.0).expect("a link");
        assert!(write(&link.0, &stats()).is_err() && read(&link.0).is_err());
        assert_eq!(std::fs::read(&victim.0).expect("it is there"), b"precious");
    }
}
