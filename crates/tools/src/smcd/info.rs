//! smcd info: what this host can do. Owns: the labels.

use super::eid::SEID;
use crate::registry::Registry;
use fabric::budget::Limits;
use fabric::config::Config;

/// Memory of connections: what is set aside for them, and what may be.
pub(super) struct Memory {
    /// Bytes of the users whose registries are read.
    taken: u64,
    /// Most bytes of a user.
    user: u64,
    /// Most bytes of a process that is started as this one was.
    process: u64,
}

impl Memory {
    /// As it is now.
    pub(super) fn now(registries: &[Registry]) -> Self {
        let config = Config::new();
        for name in ["SMC_MEMORY", "SMC_USER_MEMORY"] {
            if let Some(value) = std::env::var_os(name) {
                config.set(name.as_bytes(), value.as_encoded_bytes());
            }
        }
        let limits = Limits::now(&config);
        let processes = registries.iter().flat_map(|registry| registry.view.processes());
        let taken = processes.filter(|process| process.is_alive).map(|process| process.memory).sum();
        Memory { taken, user: limits.user, process: limits.process }
    }
}

/// In MiB.
fn mib(bytes: u64) -> String {
    if bytes == u64::MAX { "unlimited".to_string() } else { format!("{} MiB", bytes >> 20) }
}

/// The host's name, as the kernel has it.
pub(super) fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim_end().to_string()
}

/// SMC pads the name with blanks to 32 characters.
pub(super) fn text(hostname: &str, memory: &Memory) -> String {
    let hostname: String = hostname.chars().take(32).collect();
    let lines = [
        "Kernel Capabilities".to_string(),
        "SMC Version:      2.1".to_string(),
        format!("SMC Hostname:     {hostname:<32}"),
        "SMC-D Features:   v1 v2".to_string(),
        "SMC-R Features:   n/a".to_string(),
        String::new(),
        "Hardware Capabilities".to_string(),
        format!("SEID:             {SEID:<32}"),
        "ISM:              v1 v2".to_string(),
        "RoCE:             n/a".to_string(),
        String::new(),
        "Shared Memory".to_string(),
        format!("Set aside:        {}", mib(memory.taken)),
        format!("Most of a user:   {}", mib(memory.user)),
        format!("Of a process:     {}", mib(memory.process)),
    ];
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::{Memory, text};

    #[test]
    fn golden() {
        let golden = "\
Kernel Capabilities
SMC Version:      2.1
SMC Hostname:     host                            |
SMC-D Features:   v1 v2
SMC-R Features:   n/a

Hardware Capabilities
SEID:             ISTHMUS-LOCAL-SEID              |
ISM:              v1 v2
RoCE:             n/a

Shared Memory
Set aside:        12 MiB
Most of a user:   unlimited
Of a process:     64 MiB
";
        let memory = Memory { taken: 12 << 20, user: u64::MAX, process: 64 << 20 };
        assert_eq!(text("host", &memory), golden.replace('|', ""));
        assert!(text(&"x".repeat(64), &memory).contains(&format!(" {}\n", "x".repeat(32))));
    }
}
