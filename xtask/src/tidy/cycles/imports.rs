//! Which files of a crate use items of which others.

use std::collections::BTreeMap;
use std::path::Path;

use proc_macro2::{Ident, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Arm, Field, ImplItem, Item, ItemUse, Macro, Variant, Visibility};

use super::modules::{ModuleId, Modules, Target, use_leaves};
use crate::tidy::rust_file::{for_each_group, ident_text, is_test, item_attributes};

/// Where a file first uses an item of another.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Import {
    pub(super) line: usize,
    pub(super) path: String,
}

/// The first import of each pair of files, by the file that imports and the one that defines.
pub(super) type Imports<'a> = BTreeMap<&'a Path, BTreeMap<&'a Path, Import>>;

/// Adds the imports of a crate.
pub(super) fn collect<'a>(modules: &Modules<'a>, imports: &mut Imports<'a>) {
    for (module, content) in modules.modules.iter().enumerate() {
        let mut visitor = Visitor {
            modules,
            module,
            imports,
        };
        for item in content.items {
            // Inline modules are in the list themselves.
            if !matches!(item, Item::Mod(_)) {
                visitor.visit_item(item);
            }
        }
    }
}

struct Visitor<'a, 'm> {
    modules: &'m Modules<'a>,
    module: ModuleId,
    imports: &'m mut Imports<'a>,
}

impl Visitor<'_, '_> {
    /// Notes the use of an item. A module alone is no use of its file: what is used through it is.
    fn item(&mut self, path: &[String], line: usize) {
        if let Some(Target::ItemOf(definer)) = self.modules.resolve(self.module, path) {
            self.edge(definer, path.join("::"), line);
        }
    }

    fn edge(&mut self, definer: ModuleId, path: String, line: usize) {
        let from = self.modules.modules[self.module].file.path.as_path();
        let to = self.modules.modules[definer].file.path.as_path();
        if from != to {
            self.imports
                .entry(from)
                .or_default()
                .entry(to)
                .or_insert(Import { line, path });
        }
    }

    /// Notes the paths in the tokens of a macro.
    fn tokens(&mut self, tokens: &TokenStream) {
        let mut paths = Vec::new();
        for_each_group(tokens, &mut |tokens| paths.extend(token_paths(tokens)));
        for (path, line) in paths {
            self.item(&path, line);
        }
    }
}

impl<'ast> Visit<'ast> for Visitor<'_, '_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test(item_attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let attributes = match item {
            ImplItem::Const(item) => &item.attrs,
            ImplItem::Fn(item) => &item.attrs,
            ImplItem::Type(item) => &item.attrs,
            ImplItem::Macro(item) => &item.attrs,
            _ => return,
        };
        if !is_test(attributes) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_variant(&mut self, variant: &'ast Variant) {
        if !is_test(&variant.attrs) {
            visit::visit_variant(self, variant);
        }
    }

    fn visit_field(&mut self, field: &'ast Field) {
        if !is_test(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    fn visit_arm(&mut self, arm: &'ast Arm) {
        if !is_test(&arm.attrs) {
            visit::visit_arm(self, arm);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        // A re-export gives a name to others. If this file uses it too, a path in it says so.
        if !matches!(item.vis, Visibility::Inherited) {
            return;
        }
        for leaf in use_leaves(&item.tree) {
            match self.modules.resolve(self.module, &leaf.path) {
                // All names of the module are used, as far as anyone can see.
                Some(Target::Module(definer)) if leaf.name.is_none() => {
                    self.edge(definer, format!("{}::*", leaf.path.join("::")), leaf.line);
                }
                _ => self.item(&leaf.path, leaf.line),
            }
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            let names: Vec<String> = path
                .segments
                .iter()
                .map(|segment| ident_text(&segment.ident))
                .collect();
            let line = path.segments[0].ident.span().start().line;
            self.item(&names, line);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.visit_path(&call.path);
        self.tokens(&call.tokens);
    }

    /// `pub(in path)` uses nothing.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}

/// The paths among sibling tokens, each with its line.
fn token_paths(tokens: &[TokenTree]) -> Vec<(Vec<String>, usize)> {
    let mut paths = Vec::new();
    let mut names: Vec<&Ident> = Vec::new();
    let mut colons = 0;
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => {
                if colons != 2 {
                    finish(&mut names, &mut paths);
                }
                names.push(ident);
                colons = 0;
            }
            TokenTree::Punct(punct) if punct.as_char() == ':' && colons < 2 => colons += 1,
            _ => {
                finish(&mut names, &mut paths);
                colons = 0;
            }
        }
    }
    finish(&mut names, &mut paths);
    paths
}

fn finish(names: &mut Vec<&Ident>, paths: &mut Vec<(Vec<String>, usize)>) {
    if let Some(first) = names.first() {
        let line = first.span().start().line;
        paths.push((names.drain(..).map(ident_text).collect(), line));
    }
}
