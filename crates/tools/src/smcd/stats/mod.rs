//! smcd stats: how much went over SMC-D, and why the rest did not. Owns: that a reset is remembered, and by
//! whom.

mod read;
mod report;

use super::cache;
use super::counts::Stats;
use super::syntax::{self, Request};
use crate::output;
use crate::registry::Registry;

/// What `smcd stats` prints, and whether it did what was asked. A reset shows the numbers for the last time.
pub(super) fn text(registries: &[Registry], action: syntax::Stats, request: &Request) -> (String, bool) {
    let absolute = read::steady(registries);
    let shown = if request.absolute { absolute.clone() } else { since_reset(&absolute) };
    let text = match action {
        syntax::Stats::Json => shown.json(request.details),
        _ => report::text(&shown, request.details),
    };
    if action == syntax::Stats::Reset
        && let Err(why) = cache::write(&cache::path(), &absolute)
    {
        output::complain(&why);
        return (text, false);
    }
    (text, true)
}

fn since_reset(absolute: &Stats) -> Stats {
    let path = cache::path();
    match cache::read(&path) {
        Ok(Some(before)) => absolute.since(&before).unwrap_or_else(|| {
            cache::remove(&path);
            absolute.clone()
        }),
        Ok(None) => absolute.clone(),
        Err(why) => {
            output::complain(&why);
            absolute.clone()
        }
    }
}

#[cfg(test)]
mod tests;
