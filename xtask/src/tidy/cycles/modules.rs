//! The modules of a crate, the names in each, and the file that defines what a path names.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use syn::{Item, UseTree};

use crate::tidy::rust_file::{
    RustFile, ident_text, is_test, is_test_path, item_attributes, module_files,
};

/// A longer chain of re-exports is a cycle of them, which the compiler refuses.
const RE_EXPORTS_MAX: usize = 32;

/// Index into [`Modules::modules`]; the root is 0.
pub(super) type ModuleId = usize;

/// The modules of a crate without its test code.
pub(super) struct Modules<'a> {
    pub(super) modules: Vec<Module<'a>>,
}

pub(super) struct Module<'a> {
    pub(super) file: &'a RustFile,
    pub(super) items: &'a [Item],
    parent: Option<ModuleId>,
    names: HashMap<String, Vec<Name>>,
    /// What `use path::*` imports from.
    globs: Vec<Vec<String>>,
}

enum Name {
    /// An item that this module defines.
    Item,
    Module(ModuleId),
    /// A path that a `use` brings in.
    Import(Vec<String>),
}

/// What a path names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Target {
    /// An item that the module defines.
    ItemOf(ModuleId),
    Module(ModuleId),
}

impl<'a> Modules<'a> {
    /// The modules reached from the crate's root file, `root`.
    pub(super) fn of_crate(root: &'a RustFile, files: &'a HashMap<PathBuf, RustFile>) -> Self {
        let mut modules = Self {
            modules: Vec::new(),
        };
        modules.add(root, &[], &root.syntax.items, None, files);
        modules
    }

    fn add(
        &mut self,
        file: &'a RustFile,
        within: &[String],
        items: &'a [Item],
        parent: Option<ModuleId>,
        files: &'a HashMap<PathBuf, RustFile>,
    ) -> ModuleId {
        let id = self.modules.len();
        self.modules.push(Module {
            file,
            items,
            parent,
            names: HashMap::new(),
            globs: Vec::new(),
        });
        for item in items {
            if is_test(item_attributes(item)) {
                continue;
            }
            match item {
                Item::Mod(module) => {
                    let name = ident_text(&module.ident);
                    let child = if let Some((_, items)) = &module.content {
                        let within = [within, std::slice::from_ref(&name)].concat();
                        self.add(file, &within, items, Some(id), files)
                    } else {
                        let candidates = module_files(&file.path, within, module);
                        let found = candidates
                            .iter()
                            .filter(|path| !is_test_path(path))
                            .find_map(|path| files.get(&normalised(path)));
                        let Some(file) = found else {
                            continue;
                        };
                        self.add(file, &[], &file.syntax.items, Some(id), files)
                    };
                    self.name(id, name, Name::Module(child));
                }
                Item::Use(item) => {
                    for leaf in use_leaves(&item.tree) {
                        match leaf.name {
                            Some(name) => self.name(id, name, Name::Import(leaf.path)),
                            None => self.modules[id].globs.push(leaf.path),
                        }
                    }
                }
                _ => {
                    if let Some(name) = defined_name(item) {
                        self.name(id, name, Name::Item);
                    }
                }
            }
        }
        id
    }

    fn name(&mut self, module: ModuleId, name: String, what: Name) {
        self.modules[module]
            .names
            .entry(name)
            .or_default()
            .push(what);
    }

    /// What `path` names in module `from`; `None` for names of other crates.
    pub(super) fn resolve(&self, from: ModuleId, path: &[String]) -> Option<Target> {
        self.resolve_within(from, path, 0)
    }

    fn resolve_within(&self, from: ModuleId, path: &[String], depth: usize) -> Option<Target> {
        if depth > RE_EXPORTS_MAX {
            return None;
        }
        let (mut module, mut rest) = match path.first()?.as_str() {
            "crate" => (0, &path[1..]),
            "self" => (from, &path[1..]),
            "super" => (self.modules[from].parent?, &path[1..]),
            _ => (from, path),
        };
        // An unknown first name is that of another crate; an unknown later one is an item of `module`.
        let mut is_local = rest.len() < path.len();
        while let [name, after @ ..] = rest {
            if name == "super" {
                module = self.modules[module].parent?;
                rest = after;
                continue;
            }
            match self.look_up(module, name, after.is_empty(), depth) {
                Some(Target::Module(next)) => module = next,
                Some(item) => return Some(item),
                // A re-export of another crate, or what a macro defines.
                None => return is_local.then_some(Target::ItemOf(module)),
            }
            is_local = true;
            rest = after;
        }
        Some(Target::Module(module))
    }

    /// What `name` is in `module`. A name can be a module and an item at once: the last name of a
    /// path is then the item.
    fn look_up(&self, module: ModuleId, name: &str, is_last: bool, depth: usize) -> Option<Target> {
        let here = &self.modules[module];
        let names = here.names.get(name).map_or(&[][..], Vec::as_slice);
        let child = names.iter().find_map(|name| match name {
            Name::Module(child) => Some(Target::Module(*child)),
            _ => None,
        });
        let item = names.iter().find_map(|name| match name {
            Name::Item => Some(Target::ItemOf(module)),
            Name::Import(path) => self.resolve_within(module, path, depth + 1),
            Name::Module(_) => None,
        });
        let named = if is_last {
            item.or(child)
        } else {
            child.or(item)
        };
        named.or_else(|| {
            here.globs.iter().find_map(|glob| {
                let Target::Module(from) = self.resolve_within(module, glob, depth + 1)? else {
                    return None;
                };
                (from != module)
                    .then(|| self.look_up(from, name, is_last, depth + 1))
                    .flatten()
            })
        })
    }
}

/// One name that a `use` brings in.
pub(super) struct UseLeaf {
    pub(super) path: Vec<String>,
    /// The name in the importing module; `None` for a glob.
    pub(super) name: Option<String>,
    pub(super) line: usize,
}

/// The names that a `use` brings in.
pub(super) fn use_leaves(tree: &UseTree) -> Vec<UseLeaf> {
    let mut leaves = Vec::new();
    collect_leaves(tree, &[], &mut leaves);
    leaves
}

fn collect_leaves(tree: &UseTree, prefix: &[String], leaves: &mut Vec<UseLeaf>) {
    let joined = |ident: &proc_macro2::Ident| [prefix, &[ident_text(ident)]].concat();
    let mut leaf = |ident: &proc_macro2::Ident, rename: Option<String>| {
        // `use a::{self}` brings in `a`.
        let path = match ident == "self" && !prefix.is_empty() {
            true => prefix.to_vec(),
            false => joined(ident),
        };
        let name = rename.or_else(|| path.last().cloned());
        let line = ident.span().start().line;
        leaves.push(UseLeaf { path, name, line });
    };
    match tree {
        UseTree::Path(path) => collect_leaves(&path.tree, &joined(&path.ident), leaves),
        UseTree::Name(name) => leaf(&name.ident, None),
        UseTree::Rename(name) => leaf(&name.ident, Some(ident_text(&name.rename))),
        UseTree::Glob(glob) => leaves.push(UseLeaf {
            path: prefix.to_vec(),
            name: None,
            line: glob.star_token.spans[0].start().line,
        }),
        UseTree::Group(group) => {
            for tree in &group.items {
                collect_leaves(tree, prefix, leaves);
            }
        }
    }
}

fn defined_name(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident_text(ident))
}

/// The path without `..`.
fn normalised(path: &Path) -> PathBuf {
    let mut normalised = PathBuf::new();
    for part in path.components() {
        if part.as_os_str() == ".." {
            normalised.pop();
        } else {
            normalised.push(part);
        }
    }
    normalised
}
