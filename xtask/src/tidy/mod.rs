//! `cargo xtask tidy`: the rules of the house that no compiler checks. All findings are printed, then the
//! task fails.

mod arrows;
mod document;
pub(crate) mod hooks;
mod manifests;
mod modules;
mod pins;
mod sources;
mod width;

use anyhow::{Context, bail};

use crate::workspace::Workspace;

/// Runs all checks.
pub(crate) fn tidy(ws: &Workspace) -> anyhow::Result<()> {
    let mut findings = arrows::check(&ws.metadata);
    let document =
        std::fs::read_to_string(ws.root().join("ARCHITECTURE.md")).context("ARCHITECTURE.md is gone")?;
    findings.extend(arrows::check_document(&document));
    findings.extend(document::check(&ws.root(), &document)?);
    findings.extend(hooks::check(&ws.root())?);
    findings.extend(manifests::check(&ws.metadata)?);
    findings.extend(modules::check(&ws.metadata)?);
    findings.extend(pins::check(&ws.root())?);
    findings.extend(sources::check(&ws.root())?);
    for finding in &findings {
        eprintln!("   {finding}");
    }
    if !findings.is_empty() {
        bail!("tidy found {}; each line above says how to mend it", findings.len());
    }
    println!(
        "tidy: arrows, modules, hooks, pins, manifests, file heads, sizes and unsafe are as ARCHITECTURE.md says"
    );
    Ok(())
}
