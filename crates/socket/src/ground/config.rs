//! What the environment asks of this process, as the edge hands it over. Owns: nothing; the values are the
//! fabric's.

use crate::here::fabric;

/// Takes over one environment variable; unknown ones are ignored.
pub fn set(name: &[u8], value: &[u8]) {
    fabric().set(name, value);
}

/// Whether a variable says no number where one is wanted.
pub fn is_misread(name: &[u8], value: &[u8]) -> bool {
    fabric::config::is_misread(name, value)
}

/// Whether everything is switched off (SMC_DISABLE).
pub fn is_disabled() -> bool {
    fabric().config.is_disabled()
}

/// Whether decisions are told on stderr (SMC_DEBUG).
pub fn is_debug() -> bool {
    fabric().config.is_debug()
}
