//! smcd info: what this host can do. Owns: the labels.

use super::eid::SEID;

/// The host's name, as the kernel has it.
pub(super) fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim_end().to_string()
}

/// SMC pads the name with blanks to 32 characters.
pub(super) fn text(hostname: &str) -> String {
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
    ];
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::text;

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
";
        assert_eq!(text("host"), golden.replace('|', ""));
        assert!(text(&"x".repeat(64)).contains(&format!(" {}\n", "x".repeat(32))));
    }
}
