//! One version of each dependency: it stands in `[workspace.dependencies]`, and every crate's manifest
//! inherits it.

use std::fs;

use anyhow::Context;
use cargo_metadata::Metadata;

/// One finding for each dependency of a crate that has a version or a path of its own.
pub(super) fn check(metadata: &Metadata) -> anyhow::Result<Vec<String>> {
    let mut findings = vec![];
    for package in metadata.workspace_packages() {
        let path = package.manifest_path.as_std_path();
        let name = path.strip_prefix(&metadata.workspace_root).unwrap_or(path).display().to_string();
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
        findings.extend(check_manifest(&name, &text));
    }
    Ok(findings)
}

fn check_manifest(name: &str, text: &str) -> Vec<String> {
    let (mut findings, mut is_dependencies) = (vec![], false);
    for (i, line) in text.lines().enumerate() {
        if line.starts_with('[') {
            // Also [dev-dependencies] and [target.'cfg(loom)'.dependencies].
            is_dependencies = line.trim_end().ends_with("dependencies]");
            continue;
        }
        let Some((key, value)) = line.split_once('=').filter(|_| is_dependencies && !line.starts_with('#'))
        else {
            continue;
        };
        if !key.trim_end().ends_with(".workspace") && !value.contains("workspace = true") {
            findings.push(format!(
                "{name}:{}: {}: name its version in [workspace.dependencies] of Cargo.toml, and say `workspace = true` here",
                i + 1,
                key.trim()
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::check_manifest;

    #[test]
    fn inherited_versions_have_no_finding() {
        let text = "[package]\nversion = \"1\"\n[dependencies]\n# libc = \"0\"\nos.workspace = true\n\
                    clap = { workspace = true, features = [\"derive\"] }\n[[test]]\nname = \"cli\"\n";
        assert_eq!(check_manifest("crates/tools/Cargo.toml", text), Vec::<String>::new());
    }

    #[test]
    fn versions_and_paths_of_a_crates_own_are_found() {
        for section in ["[dependencies]", "[dev-dependencies]", "[target.'cfg(loom)'.dependencies]"] {
            for entry in ["clap = \"4\"", "clap = { version = \"4\" }", "os = { path = \"../os\" }"] {
                let found = check_manifest("a/Cargo.toml", &format!("{section}\n{entry}\n"));
                assert!(
                    found.len() == 1 && found[0].starts_with("a/Cargo.toml:2: "),
                    "{section} {entry}: {found:?}"
                );
            }
        }
    }
}
