//! What a process can do to its peers that is no system call of theirs: write into memory that they share,
//! and put other things under the numbers that it has told them. Invariant: everything follows from a seed,
//! and nothing but this process's own segments, doorbells and rows is touched.

use isthmus_tests::sys;
use isthmus_tests::words::{
    BELLS, CONNECTION_ROWS, CURSORS, FLAGS, HEADER, IDENTITY, LOCKS, MAIL, NONBLOCKING, PAGE, RINGS, SIDES,
    SLEEPERS, Values, WAITS, each,
};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use testkit::Random;

const F_ADD_SEALS: i32 = 1033;
/// F_SEAL_SEAL, SHRINK, GROW: those of the library; and WRITE, FUTURE_WRITE.
const SEALS: [i32; 4] = [7, 2, 15, 23];
const MFD_ALLOW_SEALING: u32 = 2;
const MFD_HUGETLB: u32 = 4;
/// The library's descriptors lie above, and nothing of this program's own.
const LOWEST: i32 = 100;
/// Descriptors that are kept for what may still be mapped of them.
const KEPT: usize = 24;

/// A kind of attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// Words of a slot's header.
    Words,
    /// Words of the segment's header.
    Header,
    /// The mailbox.
    Mail,
    /// Bytes anywhere in the memory.
    Bytes,
    /// Pages of it are taken out.
    Hole,
    /// Other memory under its number.
    Memory,
    /// Something that is no memory under its number, or no doorbell under a doorbell's.
    Alien,
    /// A number is closed.
    Close,
    /// What was under a number is there again.
    Back,
    /// Memory that was put under a number loses its pages.
    Shrink,
    /// Doorbells are drained before whoever they are for.
    Drain,
    /// Doorbells are filled.
    Fill,
    /// This process's rows in the registry.
    Rows,
}

const ACTS: [Act; 13] = [
    Act::Words,
    Act::Header,
    Act::Mail,
    Act::Bytes,
    Act::Hole,
    Act::Memory,
    Act::Alien,
    Act::Close,
    Act::Back,
    Act::Shrink,
    Act::Drain,
    Act::Fill,
    Act::Rows,
];

/// One attacker: what it does, and what it has put where.
pub(crate) struct Attack {
    random: Random,
    acts: Vec<Act>,
    values: Vec<Values>,
    /// Between two acts of its own accord.
    pub(crate) pause: Duration,
    /// Numbers that were replaced, with what was there.
    taken: Vec<(i32, File)>,
    kept: std::collections::VecDeque<OwnedFd>,
}

impl Attack {
    /// The attack of a seed.
    pub(crate) fn new(seed: u64) -> Attack {
        let mut random = Random::new(seed);
        let acts = (0..random.size(4)).map(|_| ACTS[random.below(ACTS.len())]).collect();
        let all =
            [Values::Random, Values::Near, Values::Zero, Values::Odd, Values::HeldByInit, Values::Small];
        let values = (0..random.size(2)).map(|_| all[random.below(all.len())]).collect();
        let pause = Duration::from_micros([0, 50, 1_000, 20_000][random.below(4)]);
        Attack { random, acts, values, pause, taken: vec![], kept: Default::default() }
    }

    /// What it does, for the report of a failure.
    pub(crate) fn plan(&self) -> String {
        format!("{:?} with {:?} every {:?}", self.acts, self.values, self.pause)
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        if of.is_empty() { None } else { Some(of[self.random.below(of.len())]) }
    }

    fn value(&mut self, now: u64) -> u64 {
        let values = self.values[self.random.below(self.values.len())];
        values.one(&mut self.random, || now)
    }

    /// One act.
    pub(crate) fn step(&mut self) {
        let acts = self.acts.clone();
        let Some(act) = self.pick(&acts) else { return };
        match act {
            Act::Words | Act::Header | Act::Mail | Act::Bytes | Act::Hole => {
                let memories = numbers("memfd:isthmus-dmb");
                if let Some(memory) = self.pick(&memories).and_then(reopened) {
                    self.write(act, &memory);
                }
            }
            Act::Memory => self.replace_memory(),
            Act::Alien => self.replace_by_alien(),
            Act::Close => {
                let all = [numbers("memfd:isthmus-dmb"), numbers("pipe:")].concat();
                if let Some(number) = self.pick(&all) {
                    self.remember(number);
                    sys::close_unseen(number);
                }
            }
            Act::Back => {
                if let Some((number, was)) = self.taken.pop() {
                    sys::dup2_unseen(was.as_raw_fd(), number);
                    self.keep(was.into());
                }
            }
            Act::Shrink => self.shrink(),
            Act::Drain | Act::Fill => {
                let bells = numbers("pipe:");
                if let Some(bell) = self.pick(&bells) {
                    let _ = if act == Act::Fill {
                        sys::write(bell, &[0; 4096])
                    } else {
                        sys::read(bell, &mut [0; 4096])
                    };
                }
            }
            Act::Rows => self.write_rows(),
        }
    }

    fn write(&mut self, act: Act, memory: &File) {
        let len = memory.metadata().map_or(0, |about| about.len());
        let slot = self.random_slot(memory, len);
        match act {
            Act::Header => self.write_words(memory, 0, HEADER),
            Act::Mail => {
                let places: Vec<_> = (0..MAIL.1 / 4).map(|n| (MAIL.0 + 4 * n, 4)).collect();
                self.write_words(memory, slot, &places);
            }
            Act::Bytes => {
                let at = self.random.bits() % len.max(1);
                let bytes: Vec<u8> = (0..self.random.size(5000)).map(|_| self.random.bits() as u8).collect();
                let room = usize::try_from(len - at).unwrap_or(usize::MAX).min(bytes.len());
                let _ = memory.write_all_at(&bytes[..room], at);
            }
            Act::Hole => sys::punch(memory, len),
            _ => {
                let kinds = [
                    each(&RINGS, CURSORS),
                    each(&RINGS, WAITS),
                    each(&SIDES, FLAGS),
                    each(&SIDES, NONBLOCKING),
                    each(&SIDES, BELLS),
                    each(&SIDES, LOCKS),
                    each(&SIDES, SLEEPERS),
                    IDENTITY.to_vec(),
                    (0..PAGE / 8).map(|n| (n * 8, 8)).collect(),
                ];
                let places = kinds[self.random.below(kinds.len())].clone();
                self.write_words(memory, slot, &places);
            }
        }
    }

    fn write_words(&mut self, memory: &File, base: u64, places: &[(u64, usize)]) {
        for &(at, width) in places {
            let mut now = [0; 8];
            let _ = memory.read_at(&mut now[..width], base + at);
            let value = self.value(u64::from_le_bytes(now));
            let _ = memory.write_all_at(&value.to_le_bytes()[..width], base + at);
        }
    }

    /// Where a slot begins, by what the header says or, where that is a lie, anywhere.
    fn random_slot(&mut self, memory: &File, len: u64) -> u64 {
        let (slots, slot_len) = geometry(memory).unwrap_or((1, PAGE));
        let at = slot_len.wrapping_mul(self.random.bits() % slots.max(1)).wrapping_add(PAGE);
        at.min(len.saturating_sub(PAGE))
    }

    /// Notes what is under a number, which is about to be something else.
    fn remember(&mut self, number: i32) {
        if let Some(was) = reopened(number) {
            self.taken.push((number, was));
        }
        if self.taken.len() > KEPT {
            self.taken.remove(0);
        }
    }

    fn keep(&mut self, fd: OwnedFd) {
        self.kept.push_back(fd);
        if self.kept.len() > KEPT {
            self.kept.pop_front();
        }
    }

    /// Memory that says the same, of another kind: unsealed, sealed too much, too short, of huge pages, a
    /// file.
    fn replace_memory(&mut self) {
        let memories = numbers("memfd:isthmus-dmb");
        let Some(number) = self.pick(&memories) else { return };
        let Some(was) = reopened(number) else { return };
        let folder = std::env::current_dir().unwrap_or_default();
        let fresh = match self.random.below(6) {
            0 => sys::memfd(0),
            1 => sys::memfd(MFD_ALLOW_SEALING | MFD_HUGETLB),
            2 => unnamed(Path::new("/dev/shm")),
            3 => unnamed(&folder),
            _ => sys::memfd(MFD_ALLOW_SEALING),
        };
        let Some(fresh) = fresh else { return };
        self.copy(&was, &fresh);
        if self.random.once_in(2) {
            let seals = self.pick(&SEALS).unwrap_or(7);
            let _ = sys::fcntl(fresh.as_raw_fd(), F_ADD_SEALS, seals);
        }
        self.remember(number);
        sys::dup2_unseen(fresh.as_raw_fd(), number);
        self.keep(fresh.into());
    }

    /// Length and headers, or a little less or more of them.
    fn copy(&mut self, from: &File, to: &File) {
        let len = from.metadata().map_or(0, |about| about.len());
        let wanted = [len, len, len, len / 2, len + PAGE, PAGE, 1][self.random.below(7)];
        // (Of huge pages a length in whole ones.)
        let _ = to.set_len(wanted).or_else(|_| to.set_len(wanted.next_multiple_of(2 << 20)));
        let (slots, slot_len) = geometry(from).unwrap_or((1, PAGE));
        let slots = (0..slots.min(64)).map(|n| PAGE.wrapping_add(n.wrapping_mul(slot_len)));
        let mut page = vec![0; PAGE as usize];
        for at in std::iter::once(0).chain(slots).filter(|at| at + PAGE <= wanted) {
            let _ = from.read_at(&mut page, at);
            let _ = to.write_all_at(&page, at);
        }
    }

    fn replace_by_alien(&mut self) {
        let all = [numbers("memfd:isthmus-dmb"), numbers("pipe:")].concat();
        let Some(number) = self.pick(&all) else { return };
        let Some(alien) = self.alien() else { return };
        self.remember(number);
        sys::dup2_unseen(alien.as_raw_fd(), number);
        self.keep(alien);
    }

    fn alien(&mut self) -> Option<OwnedFd> {
        let opened =
            |path: &str| OpenOptions::new().read(true).write(true).open(path).ok().map(OwnedFd::from);
        match self.random.below(12) {
            0 => std::io::pipe().ok().map(|(reader, _)| reader.into()),
            1 => std::io::pipe().ok().map(|(_, writer)| writer.into()),
            2 => sys::packets().and_then(|(reader, _)| both_ways(&reader)),
            3 => std::io::pipe().ok().and_then(|(reader, mut writer)| {
                writer.write_all(&[1; 60_000]).ok()?;
                both_ways(&reader.into())
            }),
            4 => Some(sys::owned(sys::eventfd(1))),
            5 => UnixStream::pair().ok().map(|(one, _)| one.into()),
            6 => opened("/dev/zero"),
            7 => opened("/dev/null"),
            8 => opened("/proc/self/mem"),
            9 => File::open("/").ok().map(OwnedFd::from),
            10 => std::net::UdpSocket::bind("127.0.0.1:0").ok().map(OwnedFd::from),
            _ => unnamed(&std::env::current_dir().unwrap_or_default()).map(OwnedFd::from),
        }
    }

    fn shrink(&mut self) {
        let kept: Vec<i32> = self.kept.iter().map(AsRawFd::as_raw_fd).collect();
        if let Some(file) = self.pick(&kept).and_then(reopened) {
            let len = file.metadata().map_or(0, |about| about.len());
            let _ = file.set_len([0, PAGE, len / 2][self.random.below(3)]);
        }
    }

    /// Rows of the registry that name this process.
    fn write_rows(&mut self) {
        /// So many are looked at.
        const LOOKED_AT: usize = 1024;
        let (first, row_len, _) = CONNECTION_ROWS;
        let folder = PathBuf::from(std::env::var_os("SMC_REGISTRY_DIR").unwrap_or_default());
        let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let Some(path) = names.map(|name| name.path()).find(|path| path.is_file()) else { return };
        let Ok(file) = OpenOptions::new().read(true).write(true).open(path) else { return };
        let mut table = vec![0; row_len * LOOKED_AT];
        if file.read_exact_at(&mut table, first).is_err() {
            return;
        }
        let (me, mut at) = (std::process::id().to_le_bytes(), first);
        for row in table.chunks(row_len) {
            if row.chunks(4).any(|word| word == me) {
                let word = 4 * self.random.below(row_len / 4) as u64;
                let value = self.value(0);
                let _ = file.write_all_at(&value.to_le_bytes()[..4], at + word);
            }
            at += row_len as u64;
        }
    }
}

/// The library's descriptors whose link begins so.
fn numbers(link: &str) -> Vec<i32> {
    let names = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let leads = |path: &Path| {
        std::fs::read_link(path)
            .is_ok_and(|to| to.to_string_lossy().trim_start_matches('/').starts_with(link))
    };
    let found = names.map(|name| name.path()).filter(|path| leads(path));
    found
        .filter_map(|path| path.file_name()?.to_str()?.parse().ok())
        .filter(|number| *number >= LOWEST)
        .collect()
}

/// What a number leads to, in a description of its own.
fn reopened(number: i32) -> Option<File> {
    OpenOptions::new().read(true).write(true).open(format!("/proc/self/fd/{number}")).ok()
}

fn both_ways(pipe: &OwnedFd) -> Option<OwnedFd> {
    reopened(pipe.as_raw_fd()).map(OwnedFd::from)
}

/// A file without a name.
fn unnamed(folder: &Path) -> Option<File> {
    use std::os::unix::fs::OpenOptionsExt;
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_TMPFILE).open(folder).ok()
}

/// Slots of a segment and bytes of each, by its header.
fn geometry(memory: &File) -> Option<(u64, u64)> {
    let mut header = [0; 20];
    memory.read_exact_at(&mut header, 0).ok()?;
    let word = |at: usize| u64::from(u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes")));
    Some((word(12), PAGE + 2 * word(16)))
}
