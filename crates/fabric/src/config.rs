//! What the environment asks for: SMC_DISABLE, SMC_DEBUG, SMC_SNDBUF, SMC_RCVBUF, SMC_SPIN, SMC_REGISTRY_DIR.
//! Owns: the parsed values. They are set once, before the first hook does anything.

use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use shm::segment::{RING_MAX, RING_MIN};

/// Ring size when nobody asks for another: holds several 30 KiB writes, which smaller rings throttle (docs/performance.md).
pub const RING_DEFAULT: u32 = 256 * 1024;
/// Most rounds of pauses and yields before a sleep, unless SMC_SPIN says otherwise (docs/performance.md).
const SPIN_DEFAULT: u32 = 16;
/// More are not had: some 10 ms of spinning.
const SPIN_LARGEST: u32 = 4096;
/// Longest registry path with its NUL.
pub const PATH_LEN: usize = 256;

static DISABLED: AtomicBool = AtomicBool::new(false);
static DEBUG: AtomicBool = AtomicBool::new(false);
static SNDBUF: AtomicU32 = AtomicU32::new(0);
static RCVBUF: AtomicU32 = AtomicU32::new(0);
static SPIN: AtomicU32 = AtomicU32::new(SPIN_DEFAULT);
static DIRECTORY: [AtomicU8; PATH_LEN] = [const { AtomicU8::new(0) }; PATH_LEN];

/// Takes over one environment variable; unknown ones are ignored.
pub fn set(name: &[u8], value: &[u8]) {
    match name {
        b"SMC_DISABLE" => DISABLED.store(is_on(value), Ordering::Relaxed),
        b"SMC_DEBUG" => DEBUG.store(is_on(value), Ordering::Relaxed),
        b"SMC_SNDBUF" => SNDBUF.store(size(value), Ordering::Relaxed),
        b"SMC_RCVBUF" => RCVBUF.store(size(value), Ordering::Relaxed),
        b"SMC_SPIN" => SPIN.store(number(value).min(SPIN_LARGEST), Ordering::Relaxed),
        b"SMC_REGISTRY_DIR" => set_directory(value),
        _ => {}
    }
}

fn is_on(value: &[u8]) -> bool {
    value.first().is_some_and(|first| *first != b'0')
}

/// Leading decimal digits; 0 without any.
fn number(value: &[u8]) -> u32 {
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0u32, |sum, digit| sum.saturating_mul(10).saturating_add(u32::from(digit - b'0')))
}

/// `strtol` and a k or m suffix, as the original library reads it; 0 for nonsense.
fn size(value: &[u8]) -> u32 {
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit());
    let number =
        digits.fold(0u64, |sum, digit| (sum * 10 + u64::from(digit - b'0')).min(u64::from(u32::MAX)));
    let unit = match value.iter().find(|byte| !byte.is_ascii_digit()) {
        Some(b'k' | b'K') => 1024,
        Some(b'm' | b'M') => 1024 * 1024,
        _ => 1,
    };
    u32::try_from(number * unit).unwrap_or(u32::MAX)
}

fn set_directory(value: &[u8]) {
    // Room for "/isthmus.4294967295-0123456789abcdef\0" must remain.
    if value.len() + 37 < PATH_LEN {
        for (cell, byte) in DIRECTORY.iter().zip(value) {
            cell.store(*byte, Ordering::Relaxed);
        }
    }
}

/// Whether everything is switched off (SMC_DISABLE).
pub fn is_disabled() -> bool {
    DISABLED.load(Ordering::Relaxed)
}

/// Whether decisions are told on stderr (SMC_DEBUG).
pub fn is_debug() -> bool {
    DEBUG.load(Ordering::Relaxed)
}

/// SMC_SNDBUF in bytes, 0 if unset.
pub fn sndbuf() -> u32 {
    SNDBUF.load(Ordering::Relaxed)
}

/// SMC_RCVBUF in bytes, 0 if unset.
pub fn rcvbuf() -> u32 {
    RCVBUF.load(Ordering::Relaxed)
}

/// Most rounds to spin before a sleep; 0 for none, not even a yield (SMC_SPIN).
#[inline]
pub fn spin() -> u32 {
    SPIN.load(Ordering::Relaxed)
}

/// The buffer class for a request of `bytes`: rounded up to a power of two, 16 KiB to 1 MiB; 0 means the default.
pub fn ring_size(bytes: u32) -> u32 {
    match bytes {
        0 => RING_DEFAULT,
        _ => bytes.clamp(RING_MIN, RING_MAX).next_power_of_two(),
    }
}

/// Writes `<directory>/isthmus.<uid><suffix>` into `path`.
pub(crate) fn registry_path(path: &mut [u8; PATH_LEN], uid: u32, suffix: Option<u32>) -> Option<&CStr> {
    let mut writer = Writer { path, at: 0 };
    writer.folder();
    writer.bytes(b"/isthmus.");
    writer.number(uid);
    if let Some(number) = suffix {
        writer.bytes(b".");
        writer.number(number);
    }
    writer.bytes(&[0]);
    CStr::from_bytes_until_nul(path).ok()
}

/// Writes the registries' folder into `path`.
pub(crate) fn registry_folder(path: &mut [u8; PATH_LEN]) -> Option<&CStr> {
    let mut writer = Writer { path, at: 0 };
    writer.folder();
    writer.bytes(&[0]);
    CStr::from_bytes_until_nul(path).ok()
}

/// Writes `<directory>/isthmus.<uid>-<number>` into `path`: the name of a registry whose usual one is taken.
pub(crate) fn unforeseen_path(path: &mut [u8; PATH_LEN], uid: u32, number: u64) -> Option<&CStr> {
    let mut writer = Writer { path, at: 0 };
    writer.folder();
    writer.bytes(b"/isthmus.");
    writer.number(uid);
    writer.bytes(b"-");
    for digit in (0..16).rev().map(|at| number >> (4 * at) & 15) {
        writer.bytes(&[b"0123456789abcdef"[digit as usize]]);
    }
    writer.bytes(&[0]);
    CStr::from_bytes_until_nul(path).ok()
}

/// The number of such a name, if it is one of `uid`.
pub fn unforeseen_number(name: &[u8], uid: u32) -> Option<u64> {
    let (user, number) = core::str::from_utf8(name).ok()?.strip_prefix("isthmus.")?.split_once('-')?;
    let is_number = number.len() == 16 && number.bytes().all(|digit| digit.is_ascii_hexdigit());
    (is_number && user.parse() == Ok(uid)).then(|| u64::from_str_radix(number, 16).ok()).flatten()
}

struct Writer<'a> {
    path: &'a mut [u8; PATH_LEN],
    at: usize,
}

impl Writer<'_> {
    fn folder(&mut self) {
        if DIRECTORY[0].load(Ordering::Relaxed) == 0 {
            self.bytes(b"/dev/shm");
        }
        for cell in &DIRECTORY {
            match cell.load(Ordering::Relaxed) {
                0 => break,
                byte => self.bytes(&[byte]),
            }
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if let Some(cell) = self.path.get_mut(self.at) {
                *cell = *byte;
                self.at += 1;
            }
        }
    }

    fn number(&mut self, value: u32) {
        if value >= 10 {
            self.number(value / 10);
        }
        self.bytes(&[b'0' + (value % 10) as u8]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_the_original_library_reads_them() {
        let read = [&b"16384"[..], b"64k", b"1M", b"x", b"", b"99999999999"].map(size);
        assert_eq!(read, [16384, 65536, 1 << 20, 0, 0, u32::MAX]);
    }

    #[test]
    fn ring_sizes_are_smc_buffer_classes() {
        assert_eq!(
            [0, 1, 16384, 16385, 1 << 30].map(ring_size),
            [RING_DEFAULT, 16384, 16384, 32768, 1 << 20]
        );
    }

    #[test]
    fn the_registry_lies_in_dev_shm_by_default() {
        let mut path = [0; PATH_LEN];
        assert_eq!(registry_path(&mut path, 1000, Some(7)), Some(c"/dev/shm/isthmus.1000.7"));
        assert_eq!(registry_folder(&mut path), Some(c"/dev/shm"));
    }

    #[test]
    fn unforeseen_names_are_told_from_others() {
        let mut path = [0; PATH_LEN];
        let whole = unforeseen_path(&mut path, 1000, 0xab).unwrap().to_bytes();
        assert_eq!(whole, b"/dev/shm/isthmus.1000-00000000000000ab");
        assert_eq!(unforeseen_number(&whole[9..], 1000), Some(0xab));
        let others =
            [&b"isthmus.1000"[..], b"isthmus.1000.7", b"isthmus.1000-ab", b"isthmus.1001-00000000000000ab"];
        for other in others.into_iter().chain([&b"isthmus.1000-+0000000000000ab"[..], b"\xff"]) {
            assert_eq!(unforeseen_number(other, 1000), None);
        }
    }
}
