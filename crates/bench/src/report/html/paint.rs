//! Which colour and which dash each path has, by the names that the style sheet knows.

use crate::compare::plan::Contender;
use crate::path::Path;

/// Classes of a bar.
pub(crate) fn fill(contender: &Contender) -> String {
    let variant = if contender.environment.is_empty() { "" } else { " variant" };
    format!("fill {}{variant}", class(contender.path))
}

/// Classes of a line.
pub(crate) fn stroke(contender: &Contender) -> String {
    let variant = if contender.environment.is_empty() { "" } else { " variant" };
    format!("stroke {}{variant}", class(contender.path))
}

/// One per path, as in `style.css`.
fn class(path: Path) -> &'static str {
    match path {
        Path::TcpLoopback => "tcp-loopback",
        Path::TcpVeth => "tcp-veth",
        Path::Unix => "unix",
        Path::Smc => "smc",
        Path::SmcClient => "smc-client",
        Path::AfSmc => "af-smc",
        Path::Sockmap => "sockmap",
        Path::Bare => "bare",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn every_path_has_a_colour() {
        let style = include_str!("style.css");
        for path in Path::value_variants() {
            assert!(style.contains(&format!(".{} {{", class(*path))), "{path}");
        }
    }
}
