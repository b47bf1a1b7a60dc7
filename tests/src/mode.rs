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
