//! epoll control without libc, and what the kernel shows of a set. Owns: nothing; waiting is done by
//! functions of libc in the preload library.

use crate::decimal::decimal;
use crate::file::{self, How};
use crate::raw::{nr, syscall};
use crate::{Result, check};
use core::ffi::CStr;

pub use linux_raw_sys::general::epoll_event as Event;

/// `EPOLL*` bits (`linux/eventpoll.h`).
#[allow(missing_docs)]
pub mod bits {
    pub const IN: u32 = 0x001;
    pub const PRI: u32 = 0x002;
    pub const OUT: u32 = 0x004;
    pub const ERR: u32 = 0x008;
    pub const HUP: u32 = 0x010;
    pub const RDNORM: u32 = 0x040;
    pub const RDBAND: u32 = 0x080;
    pub const WRNORM: u32 = 0x100;
    pub const WRBAND: u32 = 0x200;
    pub const RDHUP: u32 = 0x2000;
    pub const EXCLUSIVE: u32 = 1 << 28;
    pub const WAKEUP: u32 = 1 << 29;
    pub const ONESHOT: u32 = 1 << 30;
    pub const ET: u32 = 1 << 31;
}

/// What epoll_ctl does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// EPOLL_CTL_ADD
    Add = 1,
    /// EPOLL_CTL_DEL
    Del = 2,
    /// EPOLL_CTL_MOD
    Mod = 3,
}

/// epoll_ctl(2) with `events` and `data`.
pub fn ctl(epfd: i32, op: Op, fd: i32, events: u32, data: u64) -> Result<()> {
    let event = Event { events, data };
    // SAFETY: the event has the kernel's layout and outlives the call.
    check(unsafe { syscall!(nr::__NR_epoll_ctl, epfd, op as u32, fd, &raw const event) }).map(drop)
}

/// Whether a record of the set `epfd` is for the number `fd` and has `data`: what the kernel shows in
/// /proc/thread-self/fdinfo (`tfd:`, Documentation/filesystems/proc.rst). `None` where it cannot be asked:
/// without a /proc, without a free descriptor, behind a filter of calls.
pub fn has_record(epfd: i32, fd: i32, data: u64) -> Option<bool> {
    has_line(epfd, |record| record == (u64::from(fd.unsigned_abs()), data))
}

/// How many records of the set have `data`. `None` if the kernel does not say.
pub fn count_with(epfd: i32, data: u64) -> Option<usize> {
    let mut count = 0;
    let counted = |(_, has)| {
        count += usize::from(has == data);
        false
    };
    has_line(epfd, counted).map(|_| count)
}

/// The same with whatever data.
pub fn has_number(epfd: i32, fd: i32) -> Option<bool> {
    has_line(epfd, |(number, _)| number == u64::from(fd.unsigned_abs()))
}

#[cold]
#[inline(never)]
fn has_line(epfd: i32, mut is_it: impl FnMut((u64, u64)) -> bool) -> Option<bool> {
    const FOLDER: &[u8] = b"/proc/thread-self/fdinfo/";
    if crate::confined::is_confined() {
        return None;
    }
    let (mut digits, mut path) = ([0u8; 10], [0u8; FOLDER.len() + 11]);
    let number = decimal(u32::try_from(epfd).ok()?, &mut digits);
    path[..FOLDER.len()].copy_from_slice(FOLDER);
    path[FOLDER.len()..][..number.len()].copy_from_slice(number);
    let text = file::open(CStr::from_bytes_until_nul(&path).ok()?, How::READ).ok()?;
    let mut part = [0u8; 512];
    let mut lines = Lines::new();
    let all = loop {
        // SAFETY: `part` is writable for its length.
        match check(unsafe { syscall!(nr::__NR_read, text, part.as_mut_ptr(), part.len()) }) {
            Ok(0) => break Some(false),
            Ok(got) if lines.find(&part[..got], &mut is_it) => break Some(true),
            Ok(_) => {}
            Err(_) => break None,
        }
    };
    crate::fd::close(text);
    all
}

/// A record is looked for in the lines of such a text, which comes in parts.
struct Lines {
    line: [u8; 64],
    len: usize,
}

impl Lines {
    fn new() -> Self {
        Lines { line: [0; 64], len: 0 }
    }

    /// Whether the record is in what is known by now. (The rest of a long line says other things.)
    fn find(&mut self, part: &[u8], mut is_it: impl FnMut((u64, u64)) -> bool) -> bool {
        part.iter().any(|byte| {
            if *byte != b'\n' {
                if let Some(place) = self.line.get_mut(self.len) {
                    *place = *byte;
                    self.len += 1;
                }
                return false;
            }
            let found = record(&self.line[..self.len]).is_some_and(&mut is_it);
            self.len = 0;
            found
        })
    }
}

/// The number and the data of a line `tfd: 8 events: 19 data: ff ...`.
fn record(line: &[u8]) -> Option<(u64, u64)> {
    let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let mut after = |name: &[u8]| words.find(|word| *word == name).and_then(|_| words.next());
    let fd = number(after(b"tfd:")?, 10)?;
    Some((fd, number(after(b"data:")?, 16)?))
}

fn number(digits: &[u8], radix: u32) -> Option<u64> {
    u64::from_str_radix(core::str::from_utf8(digits).ok()?, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "pos:\t0\nflags:\t02\nmnt_id:\t15\nino:\t77\n\
        tfd:        8 events: 40000000 data: 15c0000179980003  pos:0 ino:12cd40cf sdev:9\n\
        tfd:  1000006 events:       19 data: ffffffffffffffff  pos:0 ino:12cd40a4 sdev:f\n";

    #[test]
    fn a_record_is_found_by_number_and_data_however_the_text_comes() {
        let is_in = |fd, data, size| {
            let mut lines = Lines::new();
            TEXT.as_bytes().chunks(size).any(|part| lines.find(part, |record| record == (fd, data)))
        };
        for size in [1, 7, 64, 512] {
            assert!(is_in(8, 0x15c0_0001_7998_0003, size) && is_in(1_000_006, u64::MAX, size), "{size}");
            assert!(!is_in(8, u64::MAX, size) && !is_in(9, 0x15c0_0001_7998_0003, size), "{size}");
        }
    }

    #[test]
    fn what_is_no_set_has_no_record() {
        let file = std::fs::File::open("/proc/self/stat").unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&file);
        assert_eq!((has_record(number, 8, 1), has_record(-1, 8, 1)), (Some(false), None));
        assert_eq!((count_with(number, 1), count_with(-1, 1)), (Some(0), None));
    }
}
