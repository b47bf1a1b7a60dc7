//! The modules of a crate form floors, as the crates do: no module reaches itself through others.
//!
//! The rule holds at every level of the module tree by itself. The nodes of a level are the children of one
//! module, each with all below it, and the items that the parent defines itself, one by one. An edge is a
//! name: whoever's source names an item depends on where it is defined, through every `use` and re-export in
//! between; a re-export alone is a sign on a door and no edge. So a parent may use its children, and children
//! may use what their parent defines, as long as that does not lead back to them. Code for tests does not
//! count. Methods have no path: what is reached through a value alone is not seen.

mod graph;
mod names;
mod tree;

use std::path::Path;

use anyhow::Context;
use cargo_metadata::{Metadata, Target, TargetKind};

use self::graph::{Knot, knots};
use self::tree::Tree;

/// Most edges that a finding shows.
const SHOWN: usize = 8;

/// One finding for each knot of modules.
pub(super) fn check(metadata: &Metadata) -> anyhow::Result<Vec<String>> {
    let mut findings = vec![];
    for target in metadata.workspace_packages().iter().flat_map(|package| &package.targets) {
        if !is_checked(target) {
            continue;
        }
        let knots = of_crate(target.src_path.as_std_path())
            .with_context(|| format!("the modules of {} cannot be read", target.name))?;
        let root = metadata.workspace_root.as_std_path();
        findings.extend(knots.iter().map(|knot| say(&target.name, knot, root)));
    }
    Ok(findings)
}

/// What is compiled into a library or a program; a `tests/*.rs` is one file, or a folder that is seen at a
/// glance.
fn is_checked(target: &Target) -> bool {
    let kinds = [TargetKind::Lib, TargetKind::Bin, TargetKind::CDyLib];
    target.kind.iter().any(|kind| kinds.contains(kind))
}

fn of_crate(root: &Path) -> anyhow::Result<Vec<Knot>> {
    let tree = Tree::read(root)?;
    Ok(knots(&tree, &names::edges(&tree)))
}

fn say(krate: &str, knot: &Knot, root: &Path) -> String {
    let mut text = format!(
        "{krate}: the modules {} reach each other{}; move what they share to a module below all of them:",
        knot.nodes.join(", "),
        if knot.level.is_empty() { String::new() } else { format!(" (in {})", knot.level) }
    );
    for edge in knot.edges.iter().take(SHOWN) {
        let file = edge.file.strip_prefix(root).unwrap_or(&edge.file).display();
        text += &format!("\n      {} -> {}: {file}:{} names {}", edge.from, edge.to, edge.line, edge.name);
    }
    if knot.edges.len() > SHOWN {
        text += &format!("\n      and {} more", knot.edges.len() - SHOWN);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{of_crate, say};
    use std::fs;

    /// What is found in a crate of these files; the first is its root.
    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let dir = tempfile::tempdir().expect("a temporary directory");
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        }
        let knots = of_crate(&dir.path().join(files[0].0)).expect("readable");
        knots.iter().map(|knot| say("attic", knot, dir.path())).collect()
    }

    #[test]
    fn floors_have_no_finding() {
        let files = [
            ("lib.rs", "mod high; mod low; pub use high::f; fn g() { low::f() }"),
            ("high.rs", "use crate::low::f as fall; pub fn f() { fall() } mod deep;"),
            ("high/deep.rs", "use super::super::low; fn f() { low::f() }"),
            ("low.rs", "pub fn f() {} #[cfg(test)] mod tests { use crate::high::f; }"),
        ];
        assert_eq!(found(&files), Vec::<String>::new());
    }

    #[test]
    fn two_files_that_use_each_other_are_a_knot() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::f;\npub fn g() { f() }"),
            ("b.rs", "pub fn f() { let _ = vec![super::a::g()]; }"),
            ("c.rs", "use crate::{a, b}; fn f() { a::g(); b::f() }"),
        ];
        let found = found(&files);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("attic: the modules a, b reach each other;"), "{}", found[0]);
        assert!(found[0].contains("a -> b: a.rs:1 names crate::b::f"), "{}", found[0]);
        assert!(found[0].contains("b -> a: b.rs:1 names super::a::g"), "{}", found[0]);
    }

    #[test]
    fn a_way_round_three_modules_and_through_their_children_is_a_knot() {
        let files = [
            ("lib.rs", "mod a; mod b { use crate::c::C; pub struct B(C); } mod c;"),
            ("a/mod.rs", "pub mod deep;"),
            ("a/deep.rs", "use crate::b::B; pub struct A(B);"),
            ("c.rs", "pub struct C(*const crate::a::deep::A);"),
        ];
        let found = found(&files);
        assert!(found.len() == 1 && found[0].contains("modules a, b, c reach"), "{found:?}");
    }

    #[test]
    fn a_parent_holds_what_its_children_share_or_uses_them() {
        let holds = [("lib.rs", "mod a; pub struct S;"), ("a.rs", "use super::S; fn f(_: S) {}")];
        assert_eq!(found(&holds), Vec::<String>::new());
        let both = [
            ("lib.rs", "mod a; pub struct S; fn g() { a::f(S) }"),
            ("a.rs", "use super::S; pub fn f(_: S) {}"),
        ];
        assert_eq!(found(&both), Vec::<String>::new(), "what is shared leads nowhere");
        let back = [
            ("lib.rs", "mod a; pub struct S; impl S { pub fn g() { a::f() } }"),
            ("a.rs", "pub fn f() { crate::S::g() }"),
        ];
        assert!(found(&back)[0].contains("the modules a, self::S reach each other"), "{:?}", found(&back));
        let of_others = [
            ("lib.rs", "mod a; mod b; pub use b::S; use a::f; fn g() { f(S) }"),
            ("a.rs", "use crate::S; pub fn f(_: S) {}"),
            ("b.rs", "pub struct S;"),
        ];
        assert_eq!(found(&of_others), Vec::<String>::new(), "a re-export is no item of the parent");
    }

    #[test]
    fn globs_are_followed() {
        let files = [
            ("lib.rs", "mod a; mod b; pub use a::*;"),
            ("a.rs", "use crate::b::*; pub struct S(T);"),
            ("b.rs", "pub struct T; fn f(_: crate::S) {}"),
        ];
        assert!(found(&files)[0].contains("modules a, b reach each other"), "{:?}", found(&files));
    }
}
