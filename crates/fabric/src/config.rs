//! What the environment asks for: SMC_DISABLE, SMC_DEBUG, SMC_SNDBUF, SMC_RCVBUF, SMC_SPIN, SMC_BRIEF,
//! SMC_MEMORY, SMC_USER_MEMORY. Owns: the parsed values. They are set once, before the first hook does
//! anything. (Where a tier lies is the tier's.)

use shm::segment::{RING_MAX, RING_MIN};
use sync::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Ring size when nobody asks for another: holds several 30 KiB writes, which smaller rings throttle
/// (docs/performance.md).
pub const RING_DEFAULT: u32 = 256 * 1024;
/// Most rounds of pauses and yields before a sleep, unless SMC_SPIN says otherwise (docs/performance.md).
const SPIN_DEFAULT: u32 = 16;
/// So many connections to one address may end before they have paid, and new ones are TCP (`socket::brief`).
const BRIEF_DEFAULT: u32 = 1000;
const BRIEF_LARGEST: u32 = 1_000_000_000;
/// More are not had: some 10 ms of spinning.
const SPIN_LARGEST: u32 = 4096;

/// The values. Those of nobody's asking are all zero, so that a value that holds them lies where memory is
/// zero anyway.
pub struct Config {
    is_disabled: AtomicBool,
    is_debug: AtomicBool,
    sndbuf: AtomicU32,
    rcvbuf: AtomicU32,
    /// By which bits SMC_SPIN and SMC_BRIEF differ from their defaults.
    spin_change: AtomicU32,
    brief_change: AtomicU32,
    /// Plus one; 0 for nobody's asking.
    memory: AtomicU64,
    user_memory: AtomicU64,
}

impl Config {
    /// What holds if nobody asks.
    pub const fn new() -> Self {
        Config {
            is_disabled: AtomicBool::new(false),
            is_debug: AtomicBool::new(false),
            sndbuf: AtomicU32::new(0),
            rcvbuf: AtomicU32::new(0),
            spin_change: AtomicU32::new(0),
            brief_change: AtomicU32::new(0),
            memory: AtomicU64::new(0),
            user_memory: AtomicU64::new(0),
        }
    }

    /// Takes over one environment variable; unknown ones are ignored.
    pub fn set(&self, name: &[u8], value: &[u8]) {
        match name {
            b"SMC_DISABLE" => self.is_disabled.store(is_on(value), Relaxed),
            b"SMC_DEBUG" => self.is_debug.store(is_on(value), Relaxed),
            b"SMC_SNDBUF" => self.sndbuf.store(size(value), Relaxed),
            b"SMC_RCVBUF" => self.rcvbuf.store(size(value), Relaxed),
            b"SMC_SPIN" => {
                self.spin_change.store(SPIN_DEFAULT ^ number(value).min(SPIN_LARGEST), Relaxed);
            }
            b"SMC_BRIEF" => {
                self.brief_change.store(BRIEF_DEFAULT ^ number(value).min(BRIEF_LARGEST), Relaxed);
            }
            b"SMC_MEMORY" => self.memory.store(asked(value), Relaxed),
            b"SMC_USER_MEMORY" => self.user_memory.store(asked(value), Relaxed),
            _ => {}
        }
    }

    /// SMC_MEMORY in bytes.
    pub fn memory(&self) -> Option<u64> {
        self.memory.load(Relaxed).checked_sub(1)
    }

    /// SMC_USER_MEMORY in bytes.
    pub fn user_memory(&self) -> Option<u64> {
        self.user_memory.load(Relaxed).checked_sub(1)
    }

    /// Whether everything is switched off (SMC_DISABLE).
    pub fn is_disabled(&self) -> bool {
        self.is_disabled.load(Relaxed)
    }

    /// Whether decisions are told on stderr (SMC_DEBUG).
    pub fn is_debug(&self) -> bool {
        self.is_debug.load(Relaxed)
    }

    /// SMC_SNDBUF in bytes, 0 if unset.
    pub fn sndbuf(&self) -> u32 {
        self.sndbuf.load(Relaxed)
    }

    /// SMC_RCVBUF in bytes, 0 if unset.
    pub fn rcvbuf(&self) -> u32 {
        self.rcvbuf.load(Relaxed)
    }

    /// Most rounds to spin before a sleep; 0 for none, not even a yield (SMC_SPIN).
    #[inline]
    pub fn spin(&self) -> u32 {
        SPIN_DEFAULT ^ self.spin_change.load(Relaxed)
    }

    /// How many connections to one address may end before they have paid; 0 for any number (SMC_BRIEF).
    pub fn brief(&self) -> u32 {
        BRIEF_DEFAULT ^ self.brief_change.load(Relaxed)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether a variable says no number where one is wanted: such a value counts as none.
pub fn is_misread(name: &[u8], value: &[u8]) -> bool {
    const NUMBERS: [&[u8]; 7] = [
        b"SMC_SNDBUF",
        b"SMC_RCVBUF",
        b"SMC_SPIN",
        b"SMC_BRIEF",
        b"SMC_MEMORY",
        b"SMC_USER_MEMORY",
        b"SMC_ISMD_PATIENCE",
    ];
    NUMBERS.contains(&name) && !value.first().is_some_and(u8::is_ascii_digit)
}

/// Whether a switch is on.
pub(crate) fn is_on(value: &[u8]) -> bool {
    value.first().is_some_and(|first| *first != b'0')
}

/// Leading decimal digits; 0 without any.
pub(crate) fn number(value: &[u8]) -> u32 {
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0u32, |sum, digit| sum.saturating_mul(10).saturating_add(u32::from(digit - b'0')))
}

/// `strtol` and a k or m suffix, as the original library reads it; 0 for nonsense.
fn size(value: &[u8]) -> u32 {
    u32::try_from(bytes(value)).unwrap_or(u32::MAX)
}

/// The same for more, with a g suffix.
fn bytes(value: &[u8]) -> u64 {
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit());
    let number =
        digits.fold(0u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
    let unit = match value.iter().find(|byte| !byte.is_ascii_digit()) {
        Some(b'k' | b'K') => 1024,
        Some(b'm' | b'M') => 1024 * 1024,
        Some(b'g' | b'G') => 1024 * 1024 * 1024,
        _ => 1,
    };
    number.saturating_mul(unit)
}

/// A number of bytes plus one; 0 where none is named.
fn asked(value: &[u8]) -> u64 {
    if value.first().is_some_and(u8::is_ascii_digit) { bytes(value).saturating_add(1) } else { 0 }
}

/// The buffer class for a request of `bytes`: rounded up to a power of two, 16 KiB to 1 MiB; 0 means the
/// default.
pub fn ring_size(bytes: u32) -> u32 {
    match bytes {
        0 => RING_DEFAULT,
        _ => bytes.clamp(RING_MIN, RING_MAX).next_power_of_two(),
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
    fn values_are_the_defaults_until_they_are_set() {
        let config = Config::new();
        assert_eq!((config.spin(), config.sndbuf(), config.is_disabled()), (16, 0, false));
        for (name, value) in
            [("SMC_SPIN", "100000"), ("SMC_SNDBUF", "64k"), ("SMC_DISABLE", "1"), ("SMC_X", "1")]
        {
            config.set(name.as_bytes(), value.as_bytes());
        }
        assert_eq!((config.spin(), config.sndbuf(), config.is_disabled()), (4096, 65536, true));
        config.set(b"SMC_SPIN", b"0");
        assert_eq!(config.spin(), 0);
        assert_eq!((config.memory(), config.user_memory()), (None, None));
        for (name, value) in [("SMC_MEMORY", "0"), ("SMC_USER_MEMORY", "3g")] {
            config.set(name.as_bytes(), value.as_bytes());
        }
        assert_eq!((config.memory(), config.user_memory()), (Some(0), Some(3 << 30)));
        config.set(b"SMC_MEMORY", b"lots");
        assert_eq!(config.memory(), None);
    }
}
