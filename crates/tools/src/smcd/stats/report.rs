//! The text of smcd stats. Owns: labels, columns and percentages of smc-tools 1.8.5.

use crate::smcd::abbreviation::abbreviated;
use crate::smcd::counts::{Direction, Fallbacks, Stats};
use std::fmt::Write;

/// Reasons shown per role.
const TOP: usize = 3;

/// The whole report.
pub(super) fn text(stats: &Stats, details: bool) -> String {
    let mut text = summary(stats, details);
    text += &direction("RX Stats", &stats.rx, details);
    text += &direction("TX Stats", &stats.tx, details);
    text += &extras(stats, details);
    text
}

fn line(label: &str, number: u64) -> String {
    format!("{label:<29}{number:>12}")
}

fn by_role(numbers: [u64; 2], details: bool) -> String {
    if details { format!(" (client {}, server {})", numbers[0], numbers[1]) } else { String::new() }
}

fn summary(stats: &Stats, details: bool) -> String {
    let roles = [stats.client.iter().sum::<u64>(), stats.server.iter().sum()];
    let fallbacks =
        [0, 1].map(|role| stats.fallbacks[role].iter().map(|(_, count)| u64::from(*count)).sum::<u64>());
    let connections = roles[0] + roles[1];
    let errors = stats.handshake_errors.iter().sum::<u64>();
    let fallen = fallbacks[0] + fallbacks[1];
    let mut text = "SMC-D Connections Summary\n".to_string();
    let _ = writeln!(text, "{}", line("  Total connections handled", connections + errors + fallen));
    let _ = writeln!(text, "{}{}", line("  SMC connections", connections), by_role(roles, details));
    if details {
        let _ = writeln!(text, "{}", line("    v1", stats.client[0] + stats.server[0]));
        let _ = writeln!(text, "{}", line("    v2", stats.client[1] + stats.server[1]));
    }
    let _ =
        writeln!(text, "{}{}", line("  Handshake errors", errors), by_role(stats.handshake_errors, details));
    let requests = (stats.rx.requests + stats.tx.requests) as f64;
    let average = if connections == 0 { 0.0 } else { requests / connections as f64 };
    let _ = writeln!(text, "{:<27}{average:>14.1}", "  Avg requests per SMC conn");
    let _ = writeln!(text, "{}{}", line("  TCP fallback", fallen), by_role(fallbacks, details));
    if details {
        text += &reasons("    Server", &stats.fallbacks[1]);
        text += &reasons("    Client", &stats.fallbacks[0]);
    }
    text + "\n"
}

/// The most frequent reasons; nothing if there are none.
fn reasons(label: &str, fallbacks: &Fallbacks) -> String {
    if fallbacks.is_empty() {
        return String::new();
    }
    let mut sorted = fallbacks.clone();
    sorted.sort_by_key(|(reason, count)| (std::cmp::Reverse(*count), *reason));
    let rows = sorted.iter().take(TOP).map(|(reason, count)| {
        format!("{}\n", line(&format!("     {}", reason.stats_name()), u64::from(*count)))
    });
    std::iter::once(format!("{label}\n")).chain(rows).collect()
}

fn bytes(label: &str, number: u64) -> String {
    format!("{label:<27}{number:>14} ({})\n", abbreviated(number))
}

fn share(label: &str, number: u64, of: u64) -> String {
    let percent = if of == 0 { 0.0 } else { 100.0 * number as f64 / of as f64 };
    format!("{} ({percent:.2}%)\n", line(label, number))
}

fn direction(title: &str, of: &Direction, details: bool) -> String {
    let mut text = format!("{title}\n");
    text += &bytes("  Data transmitted (Bytes)", of.bytes);
    text += &format!("{}\n", line("  Total requests", of.requests));
    text += &bytes("  Buffer usage (Bytes)", of.usage);
    text += &share("  Buffer full", of.full, of.requests);
    if title.starts_with("TX") {
        text += &share("  Buffer full (remote)", of.full_peer, of.requests);
        text += &share("  Buffer too small", of.too_small, of.requests);
        text += &share("  Buffer too small (remote)", of.too_small_peer, of.requests);
    }
    if details {
        text += &format!("{}\n", line("  Buffer downgrades", of.downgrades));
        text += &format!("{}\n", line("  Buffer reuses", of.reuses));
    }
    text += "            8KB    16KB    32KB    64KB   128KB   256KB   512KB  >512KB\n";
    text + &classes("  Bufs   ", &of.buffers) + &classes("  Reqs   ", &of.sizes) + "\n"
}

/// Eight columns: what is above 512 KB stands together.
fn classes(label: &str, counts: &[u64; 9]) -> String {
    let mut shown = [0; 8];
    shown.copy_from_slice(&counts[..8]);
    shown[7] += counts[8];
    let cells = shown.map(|count| format!("{:>6}", abbreviated(count)));
    format!("{label}{}\n", cells.join("  "))
}

fn extras(stats: &Stats, details: bool) -> String {
    let calls = [
        ("    cork", stats.cork),
        ("    nodelay", stats.nodelay),
        ("    sendpage", stats.sendpage),
        ("    splice", stats.splice),
        ("    urgent data", stats.urgent),
    ];
    let all = calls.iter().map(|(_, count)| count).sum();
    let mut text = format!("Extras\n{}\n", line("  Special socket calls", all));
    for (label, count) in calls.iter().filter(|_| details) {
        let _ = writeln!(text, "{}", line(label, *count));
    }
    text
}
