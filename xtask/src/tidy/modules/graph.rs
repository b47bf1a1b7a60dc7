//! Knots: nodes of one level of the module tree that reach each other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::names::{Naming, Spot};
use super::tree::{Id, Tree};

/// Modules that reach each other.
pub(super) struct Knot {
    /// The module whose children they are; empty for the root.
    pub(super) level: String,
    pub(super) nodes: Vec<String>,
    /// One for each pair of them.
    pub(super) edges: Vec<Edge>,
}

/// A dependency and the place that makes it.
pub(super) struct Edge {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) file: PathBuf,
    pub(super) line: usize,
    pub(super) name: String,
}

type Level<'a> = BTreeMap<(String, String), &'a Naming>;

/// All knots of all levels.
pub(super) fn knots(tree: &Tree, names: &[Naming]) -> Vec<Knot> {
    let mut levels: BTreeMap<Id, Level<'_>> = BTreeMap::new();
    for naming in names {
        if let Some((level, from, to)) = place(tree, naming) {
            levels.entry(level).or_default().entry((from, to)).or_insert(naming);
        }
    }
    levels.iter().flat_map(|(level, edges)| of_level(tree, *level, edges)).collect()
}

/// The level where two items part, and what they belong to there. `None` if one is the parent as such: a
/// `use` of its own says nothing until an item of it uses the name.
fn place(tree: &Tree, naming: &Naming) -> Option<(Id, String, String)> {
    let (from, to) = (tree.line(naming.from.module), tree.line(naming.to.module));
    let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let name = |line: &[Id], spot: &Spot| match line.get(common) {
        Some(id) => Some(tree.modules[*id].name.clone()),
        None => spot.item.as_ref().map(|item| format!("self::{item}")),
    };
    Some((from[common - 1], name(&from, &naming.from)?, name(&to, &naming.to)?))
}

fn of_level(tree: &Tree, level: Id, edges: &Level<'_>) -> Vec<Knot> {
    let nodes: BTreeSet<&str> = edges.keys().map(|(from, _)| from.as_str()).collect();
    let mut left = nodes.clone();
    let mut knots = vec![];
    for node in nodes {
        let around: BTreeSet<&str> =
            reach(edges, node).into_iter().filter(|other| reach(edges, other).contains(node)).collect();
        // Items of one module may well use each other.
        let is_among_modules = around.len() > 1 && around.iter().any(|node| !node.starts_with("self::"));
        if is_among_modules && left.contains(node) {
            left.retain(|other| !around.contains(other));
            knots.push(knot(tree, level, edges, &around));
        }
    }
    knots
}

/// All that a node comes to by one edge or more.
fn reach<'a>(edges: &'a Level<'_>, node: &str) -> BTreeSet<&'a str> {
    let next = |node: &str| -> Vec<&'a str> {
        edges.keys().filter(|(from, _)| from == node).map(|(_, to)| to.as_str()).collect()
    };
    let (mut reached, mut open) = (BTreeSet::new(), next(node));
    while let Some(node) = open.pop() {
        if reached.insert(node) {
            open.extend(next(node));
        }
    }
    reached
}

fn knot(tree: &Tree, level: Id, edges: &Level<'_>, around: &BTreeSet<&str>) -> Knot {
    let inside =
        edges.iter().filter(|((from, to), _)| around.contains(from.as_str()) && around.contains(to.as_str()));
    let edges = inside.map(|((from, to), naming)| Edge {
        from: from.clone(),
        to: to.clone(),
        file: tree.modules[naming.from.module].file.clone(),
        line: naming.line,
        name: naming.name.clone(),
    });
    Knot {
        level: tree.path(level),
        nodes: around.iter().map(|node| node.to_string()).collect(),
        edges: edges.collect(),
    }
}
