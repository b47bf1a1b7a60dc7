//! The module tree of a crate as its sources declare it: files, inline modules, and what each module defines
//! and imports.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use syn::{Attribute, Item, ItemUse, Type, UseTree, Visibility};

/// A module's number in its tree; 0 is the root.
pub(super) type Id = usize;

/// All modules of a crate but those for tests.
pub(super) struct Tree {
    pub(super) modules: Vec<Module>,
}

/// A module.
pub(super) struct Module {
    /// Empty for the root.
    pub(super) name: String,
    pub(super) parent: Id,
    pub(super) file: PathBuf,
    pub(super) children: BTreeMap<String, Id>,
    /// Names of what it defines itself.
    pub(super) defined: BTreeSet<String>,
    /// Names that it imports, and the paths they stand for.
    pub(super) imported: BTreeMap<String, Vec<String>>,
    /// Paths whose contents it imports.
    pub(super) globs: Vec<Vec<String>>,
    /// Its items but for modules with a place of their own in the tree.
    pub(super) items: Vec<Item>,
}

impl Tree {
    /// Reads a crate from its root file on.
    pub(super) fn read(root: &Path) -> anyhow::Result<Self> {
        let mut tree = Tree { modules: vec![] };
        let folder = root.parent().context("a file lies in a folder")?.to_path_buf();
        tree.add(String::new(), 0, root.to_path_buf(), items_of(root)?, &folder)?;
        Ok(tree)
    }

    /// Adds a module and all below it; the files of its children lie in `folder`.
    fn add(
        &mut self,
        name: String,
        parent: Id,
        file: PathBuf,
        all: Vec<Item>,
        folder: &Path,
    ) -> anyhow::Result<Id> {
        let id = self.modules.len();
        let mut module = Module {
            name,
            parent,
            file: file.clone(),
            children: BTreeMap::new(),
            defined: BTreeSet::new(),
            imported: BTreeMap::new(),
            globs: vec![],
            items: vec![],
        };
        let mut inner = vec![];
        for item in all.into_iter().filter(|item| !is_for_tests(attributes(item))) {
            match item {
                Item::Mod(item) => inner.push(item),
                Item::Use(item) => {
                    imports(&item.tree, &mut vec![], &mut module);
                    module.items.push(Item::Use(item));
                }
                item => {
                    if !matches!(item, Item::Impl(_)) {
                        module.defined.extend(name_of(&item));
                    }
                    module.items.push(item);
                }
            }
        }
        self.modules.push(module);
        for item in inner {
            let name = item.ident.to_string();
            let below = folder.join(&name);
            let child = match item.content {
                Some((_, items)) => self.add(name.clone(), id, file.clone(), items, &below)?,
                None => {
                    let beside = folder.join(format!("{name}.rs"));
                    let path = if beside.is_file() { beside } else { below.join("mod.rs") };
                    let items = items_of(&path)?;
                    self.add(name.clone(), id, path, items, &below)?
                }
            };
            self.modules[id].children.insert(name, child);
        }
        Ok(id)
    }

    /// The module and all that it lies in, from the root on.
    pub(super) fn line(&self, id: Id) -> Vec<Id> {
        let mut line = vec![id];
        while let Some(&last) = line.last().filter(|id| **id != 0) {
            line.push(self.modules[last].parent);
        }
        line.reverse();
        line
    }

    /// `a::b`, or nothing for the root.
    pub(super) fn path(&self, id: Id) -> String {
        let names: Vec<&str> = self.line(id)[1..].iter().map(|id| self.modules[*id].name.as_str()).collect();
        names.join("::")
    }
}

fn items_of(path: &Path) -> anyhow::Result<Vec<Item>> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(syn::parse_file(&text).with_context(|| format!("cannot parse {}", path.display()))?.items)
}

/// Whether an item is there for tests or model checkers only.
pub(super) fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let words = attribute.meta.require_list().map(|list| list.tokens.to_string()).unwrap_or_default();
        attribute.path().is_ident("cfg")
            && !words.contains("not")
            && words.split(|c: char| !c.is_alphanumeric()).any(|word| word == "test" || word == "loom")
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// What an item is called; an `impl` as its type.
pub(super) fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Impl(item) => match &*item.self_ty {
            Type::Path(path) => &path.path.segments.last()?.ident,
            _ => return None,
        },
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

/// Whether a `use` hands on what it names.
pub(super) fn is_door(item: &ItemUse) -> bool {
    !matches!(item.vis, Visibility::Inherited)
}

fn imports(tree: &UseTree, before: &mut Vec<String>, module: &mut Module) {
    match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            imports(&path.tree, before, module);
            before.pop();
        }
        UseTree::Group(group) => group.items.iter().for_each(|tree| imports(tree, before, module)),
        UseTree::Glob(_) => module.globs.push(before.clone()),
        UseTree::Name(leaf) => import(&leaf.ident.to_string(), &leaf.ident.to_string(), before, module),
        UseTree::Rename(leaf) => import(&leaf.ident.to_string(), &leaf.rename.to_string(), before, module),
    }
}

fn import(name: &str, known_as: &str, before: &[String], module: &mut Module) {
    let mut path = before.to_vec();
    let known_as = match name {
        "self" => path.last().cloned().unwrap_or_default(),
        _ => {
            path.push(name.to_string());
            known_as.to_string()
        }
    };
    module.imported.insert(known_as, path);
}
