//! Which ends of a test's connections are enabled, and in which of these modes a test runs. Invariant: what
//! runs follows from names and settings alone.

/// Which ends of the connections run with the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Neither: the oracle.
    Plain,
    /// Both: data moves through shared memory.
    Smc,
    /// The server only: plain TCP.
    ServerOnly,
    /// The client only: plain TCP.
    ClientOnly,
}

impl Mode {
    /// All four.
    pub const ALL: [Mode; 4] = [Mode::Plain, Mode::Smc, Mode::ServerOnly, Mode::ClientOnly];

    /// Whether servers get the library.
    pub fn server(self) -> bool {
        matches!(self, Mode::Smc | Mode::ServerOnly)
    }

    /// Whether clients get the library.
    pub fn client(self) -> bool {
        matches!(self, Mode::Smc | Mode::ClientOnly)
    }

    /// The modes this run asks for: `$ISTHMUS_MODES`, a comma-separated list of plain, smc, server, client;
    /// else all. "plain" alone checks the tests themselves and needs no product.
    pub fn wanted() -> Vec<Mode> {
        let names = std::env::var("ISTHMUS_MODES").unwrap_or_default();
        if names.is_empty() {
            return Mode::ALL.to_vec();
        }
        names.split(',').map(Mode::named).collect()
    }

    /// The modes in which this run has the test of this name: those wanted, but where `$ISTHMUS_PART` says
    /// that several runs share the work ("1/2" is the first of two), each mode but smc is in one of them
    /// only.
    pub fn wanted_of(test: &str) -> Vec<Mode> {
        let mut modes = Mode::wanted();
        if let Some(part) = shared() {
            modes.retain(|mode| mode.is_in(part, test));
        }
        modes
    }

    /// The modes in which this run compares the test of this name with plain TCP, in its `nth` variant. Where
    /// several runs share the work, one of them has a variant, in all modes, and another has the next one.
    /// Plain once more is in none then: whatever differs from itself differs from the other modes, too.
    pub fn compared(test: &str, nth: u64) -> Vec<Mode> {
        let mut modes = Mode::wanted();
        if let Some(part) = shared() {
            modes.retain(|mode| *mode != Mode::Plain && is_in_turn(part, test, nth));
        }
        modes
    }

    /// Smc, which is what the tests are about, is in every part. Which one has another mode follows from the
    /// name.
    fn is_in(self, part: (u64, u64), test: &str) -> bool {
        self == Mode::Smc || is_in_turn(part, test, self as u64)
    }

    fn named(name: &str) -> Mode {
        match name {
            "plain" => Mode::Plain,
            "smc" => Mode::Smc,
            "server" => Mode::ServerOnly,
            "client" => Mode::ClientOnly,
            other => panic!("ISTHMUS_MODES: no mode named {other}"),
        }
    }
}

/// Whether this run has the `nth` variant of the test of this name. Where several runs share the work, one of
/// them has it, and another has the next one.
pub fn has_variant(test: &str, nth: usize) -> bool {
    shared().is_none_or(|part| is_in_turn(part, test, nth as u64))
}

/// The part of this run, where several share the work.
fn shared() -> Option<(u64, u64)> {
    part(&std::env::var("ISTHMUS_PART").unwrap_or_default())
}

/// Whether a part has the `nth` of something that is done for a test: the parts have them in turns, and which
/// one begins follows from the name.
fn is_in_turn((part, parts): (u64, u64), test: &str, nth: u64) -> bool {
    (hash(test) + nth) % parts == part - 1
}

/// A number that follows from a name (FNV-1a: the same in every run and on every machine).
pub fn hash(name: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, step) >> 32
}

/// "1/2" as numbers; nothing is all of it.
fn part(text: &str) -> Option<(u64, u64)> {
    if text.is_empty() {
        return None;
    }
    let numbers = text.split_once('/').and_then(|(part, parts)| part.parse().ok().zip(parts.parse().ok()));
    match numbers {
        Some((part, parts)) if (1..=parts).contains(&part) => Some((part, parts)),
        _ => panic!("ISTHMUS_PART: {text} is no part, as 1/2 is"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Mode, is_in_turn, part};

    #[test]
    fn the_parts_together_have_every_mode_and_each_has_smc() {
        let names: Vec<String> = (0..100).map(|n| format!("epoll.case_{n} server")).collect();
        for mode in Mode::ALL {
            let [first, second] = [(1, 2), (2, 2)]
                .map(|part| names.iter().map(|name| mode.is_in(part, name)).collect::<Vec<_>>());
            for (first, second) in first.iter().zip(&second) {
                assert!(if mode == Mode::Smc { *first && *second } else { first != second }, "{mode:?}");
            }
            let share = first.iter().filter(|is_in| **is_in).count();
            assert!(mode == Mode::Smc || (30..70).contains(&share), "{mode:?}: {share} of 100");
        }
    }

    #[test]
    fn each_part_has_every_test_in_one_of_two_variants() {
        for name in (0..100).map(|n| format!("epoll.case_{n}")) {
            for part in [(1, 2), (2, 2)] {
                let variants = [0, 1].map(|nth| is_in_turn(part, &name, nth));
                assert_ne!(variants[0], variants[1], "{name}");
                assert_eq!(
                    variants.map(|has| !has),
                    [0, 1].map(|nth| is_in_turn((3 - part.0, 2), &name, nth))
                );
            }
        }
    }

    #[test]
    fn a_part_is_one_of_so_many() {
        assert_eq!((part(""), part("2/2")), (None, Some((2, 2))));
        for wrong in ["0/2", "3/2", "1", "1/x"] {
            assert!(std::panic::catch_unwind(|| part(wrong)).is_err(), "{wrong}");
        }
    }
}
