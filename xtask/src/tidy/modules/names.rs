//! Which item's source names which other item. Owns: how a path is followed to where its item is defined.

use std::collections::BTreeSet;

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{ImplItemFn, Item, ItemMod, ItemUse, Macro, Path, UseTree, VisRestricted};

use super::tree::{Id, Tree, is_door, is_for_tests, name_of};

/// Re-exports of re-exports that are followed; more is a circle of imports, which rustc refuses.
const STEPS: usize = 16;

/// An item of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) module: Id,
    /// Its name; an `impl` belongs to its type. `None` is the module as such.
    pub(super) item: Option<String>,
}

/// Somebody names something.
pub(super) struct Naming {
    pub(super) from: Spot,
    /// Where the item is defined.
    pub(super) to: Spot,
    pub(super) line: usize,
    /// The path as it is written.
    pub(super) name: String,
}

/// All names that lead from one item of the crate to another.
pub(super) fn edges(tree: &Tree) -> Vec<Naming> {
    let mut found = vec![];
    for (id, module) in tree.modules.iter().enumerate() {
        for item in &module.items {
            let from = Spot { module: id, item: name_of(item) };
            Reader { tree, from, found: &mut found }.visit_item(item);
        }
    }
    found
}

struct Reader<'a> {
    tree: &'a Tree,
    from: Spot,
    found: &'a mut Vec<Naming>,
}

impl Reader<'_> {
    fn note(&mut self, path: &[String], at: Span) {
        if let Some(to) = resolve(self.tree, self.from.module, path, STEPS).filter(|to| *to != self.from) {
            let (line, name) = (at.start().line, path.join("::"));
            self.found.push(Naming { from: self.from.clone(), to, line, name });
        }
    }

    fn leaves(&mut self, tree: &UseTree, before: &mut Vec<String>) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.leaves(&path.tree, before);
                before.pop();
            }
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.leaves(tree, before)),
            UseTree::Glob(glob) => self.note(before, glob.star_token.spans[0]),
            UseTree::Name(leaf) if leaf.ident == "self" => self.note(before, leaf.ident.span()),
            UseTree::Name(leaf) => self.leaf(&leaf.ident, before),
            UseTree::Rename(leaf) => self.leaf(&leaf.ident, before),
        }
    }

    fn leaf(&mut self, name: &syn::Ident, before: &[String]) {
        let path: Vec<String> = before.iter().cloned().chain([name.to_string()]).collect();
        self.note(&path, name.span());
    }

    /// Paths in the tokens of a macro, which may be anything.
    fn tokens(&mut self, tokens: TokenStream) {
        let trees: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < trees.len() {
            match &trees[at] {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Ident(first) => {
                    let (path, next) = path_at(&trees, at);
                    // One word may be a field or a variable as well; what the module defines itself, it
                    // rather is.
                    if path.len() > 1 || self.tree.modules[self.from.module].defined.contains(&path[0]) {
                        self.note(&path, first.span());
                    }
                    at = next;
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
    }
}

/// The words joined by `::` from `at` on, and where the next token is.
fn path_at(trees: &[TokenTree], mut at: usize) -> (Vec<String>, usize) {
    let is_colon = |i: usize| matches!(trees.get(i), Some(TokenTree::Punct(p)) if p.as_char() == ':');
    let mut path = vec![];
    while let Some(TokenTree::Ident(word)) = trees.get(at) {
        path.push(word.to_string());
        at += 1;
        if !(is_colon(at) && is_colon(at + 1)) {
            break;
        }
        at += 2;
    }
    (path, at)
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if let Item::Fn(function) = item
            && is_for_tests(&function.attrs)
        {
            return;
        }
        visit::visit_item(self, item);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        if !is_for_tests(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    /// `pub(super)` names nothing of the parent's.
    fn visit_vis_restricted(&mut self, _: &'ast VisRestricted) {}

    /// Within a function; those of files are modules of the tree.
    fn visit_item_mod(&mut self, _: &'ast ItemMod) {}

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if !is_door(item) {
            self.leaves(&item.tree, &mut vec![]);
        }
    }

    fn visit_path(&mut self, path: &'ast Path) {
        let words: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        // (One word in an expression is no module, whatever else bears the name.)
        let is_variable =
            words.len() == 1 && self.tree.modules[self.from.module].children.contains_key(&words[0]);
        if let Some(first) = path.segments.first().filter(|_| path.leading_colon.is_none() && !is_variable) {
            self.note(&words, first.ident.span());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast Macro) {
        self.visit_path(&item.path);
        self.tokens(item.tokens.clone());
    }
}

/// What `path` names in module `from`; `None` if that is not of this crate.
fn resolve(tree: &Tree, from: Id, path: &[String], steps: usize) -> Option<Spot> {
    let (first, rest) = path.split_first()?;
    match first.as_str() {
        "crate" => follow(tree, 0, rest, steps),
        "self" => follow(tree, from, rest, steps),
        "super" => follow(tree, tree.modules[from].parent, rest, steps),
        _ => follow(tree, from, path, steps).filter(|to| to.module != from || to.item.is_some()),
    }
}

/// Goes down from module `at`. A name that it does not know ends at the module as such: it is of another
/// crate, or made by a macro.
fn follow(tree: &Tree, at: Id, path: &[String], steps: usize) -> Option<Spot> {
    let as_such = Spot { module: at, item: None };
    let (Some((first, rest)), module) = (path.split_first(), &tree.modules[at]) else { return Some(as_such) };
    let Some(steps) = steps.checked_sub(1) else { return Some(as_such) };
    if first == "super" {
        return follow(tree, module.parent, rest, steps);
    }
    if let Some(child) = module.children.get(first) {
        return follow(tree, *child, rest, steps);
    }
    if module.defined.contains(first) {
        return Some(Spot { module: at, item: Some(first.clone()) });
    }
    // (`use clap;` stands for itself.)
    if let Some(target) =
        module.imported.get(first).filter(|target| target.as_slice() != std::slice::from_ref(first))
    {
        let whole: Vec<String> = target.iter().chain(rest).cloned().collect();
        return resolve(tree, at, &whole, steps);
    }
    let opened = module.globs.iter().filter_map(|glob| resolve(tree, at, glob, steps));
    let through: BTreeSet<Id> =
        opened.filter(|spot| spot.item.is_none() && spot.module != at).map(|spot| spot.module).collect();
    match through.into_iter().find(|id| knows(tree, *id, first)) {
        Some(id) => follow(tree, id, path, steps),
        None => Some(as_such),
    }
}

fn knows(tree: &Tree, id: Id, name: &str) -> bool {
    let module = &tree.modules[id];
    module.children.contains_key(name) || module.defined.contains(name) || module.imported.contains_key(name)
}
