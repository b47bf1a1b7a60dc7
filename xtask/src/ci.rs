//! `cargo xtask ci`: everything a change must pass, cheapest first. The tests come last, so the last words
//! are theirs.

use std::thread;
use std::time::Instant;

use anyhow::anyhow;

use crate::workspace::Workspace;
use crate::{checks, cross, dist, exec, ordinary_user, packages, symbols, tidy};

type Step = (&'static str, fn(&Workspace) -> anyhow::Result<()>);

/// What is compiled depends on it.
const FIRST: Step = ("compiler", packages::compiler);

/// Waits for the network and touches nothing that is compiled, so it is under way from the start.
const MEANWHILE: Step = ("packages", packages::packages);

/// In order; each is also a task of its own. (Alone, each of the last two has what both share here.)
const STEPS: [Step; 12] = [
    ("fmt", checks::fmt),
    ("tidy", tidy::tidy),
    ("lint", checks::lint),
    ("doc", checks::doc),
    ("deny", checks::deny),
    ("cross", cross::cross),
    ("dist", dist::dist),
    ("symbols", symbols::symbols),
    MEANWHILE,
    ("loom", checks::loom),
    ("test-user", test_user),
    ("test", checks::test_in_ci),
];

/// The ordinary user's tests wait for a third of their time, in which those that come next are compiled.
fn test_user(ws: &Workspace) -> anyhow::Result<()> {
    thread::scope(|scope| {
        let compiled = scope.spawn(|| checks::compile_tests(ws));
        ordinary_user::test_in_ci(ws)?;
        compiled.join().map_err(|_| anyhow!("the compilation of the tests panicked"))?
    })
}

/// Runs all steps; stops at the first that fails, and when what is under way has ended.
pub(crate) fn ci(ws: &Workspace) -> anyhow::Result<()> {
    one(FIRST.0, || FIRST.1(ws))?;
    thread::scope(|scope| {
        let mut under_way = Some(scope.spawn(|| MEANWHILE.1(ws)));
        STEPS.into_iter().try_for_each(|(name, step)| match under_way.take_if(|_| name == MEANWHILE.0) {
            Some(under_way) => one(name, || under_way.join().map_err(|_| anyhow!("`{name}` panicked"))?),
            None => one(name, || step(ws)),
        })
    })
}

fn one(name: &str, step: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    exec::interrupted()?;
    println!("\n== cargo xtask {name}");
    let (start, before) = (Instant::now(), exec::descendant_ids());
    step()?;
    if name.starts_with("test") {
        no_stray(name, &before)?;
    }
    // After the last step the last word is the test runner's.
    if name != STEPS[STEPS.len() - 1].0 {
        eprintln!("   {name}: {} s", start.elapsed().as_secs());
    }
    Ok(())
}

/// Tests that leave a process behind have failed, whatever they say. What was there `before` is a compiler's
/// daemon.
fn no_stray(step: &str, before: &[i32]) -> anyhow::Result<()> {
    let strays = exec::end_descendants_but(before);
    if strays.is_empty() {
        return Ok(());
    }
    anyhow::bail!(
        "`{step}` left processes behind: {}.\n   How to fix it: the test that started them must end them, on failure too",
        strays.join(", ")
    )
}
