//! Who may import whom: the table here binds, and the one in ARCHITECTURE.md must say the same.

use cargo_metadata::{DependencyKind, Metadata, Package};

/// A room and the rooms it may import.
const ARROWS: [(&str, &[&str]); 18] = [
    ("sync", &[]),
    ("wire", &[]),
    ("proto", &["wire"]),
    ("shm", &["sync"]),
    ("os", &["sync"]),
    ("fabric", &["sync", "wire", "proto", "shm", "os"]),
    ("socket", &["sync", "proto", "fabric", "shm", "os"]),
    ("preload", &["sync", "socket", "os"]),
    ("clang", &[]),
    ("ismd", &["clang", "fabric", "wire", "shm", "os"]),
    ("device-plugin", &["wire"]),
    ("tools", &["fabric", "wire", "os"]),
    ("uperf", &[]),
    ("bench", &["clang", "uperf", "shm", "os"]),
    ("testkit", ALL),
    ("sim", &["os", "socket"]),
    ("isthmus-tests", ALL),
    ("xtask", &[]),
];
const ALL: &[&str] = &["sync", "wire", "proto", "shm", "os", "fabric", "socket", "testkit"];
/// Whoever may import it, imports it for its tests only.
const FOR_TESTS: &str = "testkit";

/// One finding for each arrow that the table does not have.
pub(super) fn check(metadata: &Metadata) -> Vec<String> {
    let packages = metadata.workspace_packages();
    let names: Vec<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    packages.iter().flat_map(|package| check_room(package, &names)).collect()
}

fn check_room(package: &Package, rooms: &[&str]) -> Vec<String> {
    let ours = package.dependencies.iter().filter(|d| d.path.is_some() && rooms.contains(&d.name.as_str()));
    ours.filter_map(|d| check_arrow(package.name.as_str(), &d.name, d.kind == DependencyKind::Development))
        .collect()
}

fn check_arrow(from: &str, to: &str, is_for_tests: bool) -> Option<String> {
    let Some((_, allowed)) = ARROWS.iter().find(|(room, _)| *room == from) else {
        return Some(format!(
            "{from}: a room without a row in xtask/src/tidy/arrows.rs and ARCHITECTURE.md: add both"
        ));
    };
    let is_allowed = allowed.contains(&to) || (is_for_tests && to == FOR_TESTS);
    (!is_allowed).then(|| {
        let list = if allowed.is_empty() { "nothing of ours".into() } else { allowed.join(", ") };
        format!("{from} -> {to}: a new arrow. {from} may import {list}. Move the code to a room below both instead")
    })
}

/// One finding for each row of ARCHITECTURE.md that tells another story than the table here.
pub(super) fn check_document(text: &str) -> Vec<String> {
    text.lines().filter_map(Row::read).filter_map(|row| row.check()).collect()
}

/// `| \`crates/ROOM\` | what | imports | kind |`
struct Row<'a> {
    room: &'a str,
    imports: Vec<&'a str>,
}

impl<'a> Row<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let mut cells = line.strip_prefix("| `crates/")?.split('|');
        let room = cells.next()?.trim().strip_suffix('`')?;
        let imports = cells.nth(1)?.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        Some(Self { room, imports })
    }

    fn check(&self) -> Option<String> {
        let (_, allowed) = ARROWS.iter().find(|(room, allowed)| *room == self.room && *allowed != ALL)?;
        let same =
            self.imports.len() == allowed.len() && self.imports.iter().all(|name| allowed.contains(name));
        (!same).then(|| {
            format!(
                "ARCHITECTURE.md: {} may import [{}] by xtask/src/tidy/arrows.rs: make both say the same",
                self.room,
                allowed.join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{ARROWS, FOR_TESTS, check_arrow, check_document};

    #[test]
    fn the_document_says_what_is_checked() {
        let table = |imports| {
            format!(
                "# Rooms\n| room | what |\n|---|---|\n| `crates/proto` | machines | {imports} | no_std |\n"
            )
        };
        assert!(check_document(&table("wire")).is_empty());
        for wrong in ["", "shm", "wire, shm"] {
            assert_eq!(check_document(&table(wrong)).len(), 1, "{wrong}");
        }
        assert!(check_document(include_str!("../../../ARCHITECTURE.md")).is_empty());
    }

    #[test]
    fn rooms_reach_down_only() {
        assert_eq!(check_arrow("fabric", "shm", false), None);
        assert!(
            check_arrow("wire", "fabric", false).is_some_and(|f| f.contains("may import nothing of ours"))
        );
        assert!(
            check_arrow("tools", "bench", false).is_some_and(|f| f.contains("may import fabric, wire, os"))
        );
        assert!(check_arrow("attic", "wire", false).is_some());
    }

    #[test]
    fn the_testkit_is_for_tests() {
        assert_eq!(check_arrow("proto", FOR_TESTS, true), None);
        assert!(check_arrow("proto", FOR_TESTS, false).is_some());
    }

    #[test]
    fn the_table_has_no_circle() {
        let below =
            |room: &str| ARROWS.iter().find(|(name, _)| *name == room).map_or(&[][..], |(_, below)| below);
        for (room, _) in ARROWS.iter().filter(|(room, _)| *room != FOR_TESTS) {
            let mut open: Vec<&str> = below(room).to_vec();
            for _ in 0..ARROWS.len() {
                assert!(!open.contains(room), "{room} reaches itself");
                open = open
                    .iter()
                    .filter(|name| **name != FOR_TESTS)
                    .flat_map(|name| below(name).to_vec())
                    .collect();
            }
            assert!(open.is_empty() || !open.contains(room), "{room} reaches itself");
        }
    }
}
