//! A parsed Rust file, and which code in it is test code.

use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::{Attribute, Item, ItemMod, Meta};

/// A Rust file with what the rules read of it.
pub(super) struct RustFile {
    /// Relative to the root.
    pub(super) path: PathBuf,
    pub(super) text: String,
    pub(super) tokens: TokenStream,
    pub(super) syntax: syn::File,
}

impl RustFile {
    pub(super) fn parse(path: &Path, text: &str) -> syn::Result<Self> {
        let tokens: TokenStream = text.parse()?;
        Ok(Self {
            path: path.to_path_buf(),
            text: text.to_owned(),
            syntax: syn::parse2(tokens.clone())?,
            tokens,
        })
    }
}

/// Calls `visit` with each list of sibling tokens: that of the file, then those in brackets.
/// Macro definitions and calls are included, since they are tokens too.
pub(super) fn for_each_group(tokens: &TokenStream, visit: &mut impl FnMut(&[TokenTree])) {
    let siblings: Vec<TokenTree> = tokens.clone().into_iter().collect();
    visit(&siblings);
    for token in siblings {
        if let TokenTree::Group(group) = token {
            for_each_group(&group.stream(), visit);
        }
    }
}

/// Whether `token` is a `(..)` that contains the one identifier `name`.
pub(super) fn is_parenthesised(token: &TokenTree, name: &str) -> bool {
    let TokenTree::Group(group) = token else {
        return false;
    };
    let mut inside = group.stream().into_iter();
    group.delimiter() == Delimiter::Parenthesis
        && inside.next().is_some_and(|token| is_ident(&token, name))
        && inside.next().is_none()
}

pub(super) fn is_ident(token: &TokenTree, name: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == name)
}

/// Whether the attributes mark test code: `#[test]`, `#[cfg(test)]` or `#[cfg(all(test, ..))]`.
pub(super) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        if attribute.path().is_ident("test") {
            return true;
        }
        let Meta::List(list) = &attribute.meta else {
            return false;
        };
        attribute.path().is_ident("cfg") && needs_test(&list.tokens)
    })
}

pub(super) fn item_attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Whether a `cfg` predicate holds in tests only.
fn needs_test(predicate: &TokenStream) -> bool {
    let tokens: Vec<TokenTree> = predicate.clone().into_iter().collect();
    match tokens.as_slice() {
        [only] => is_ident(only, "test"),
        [all, TokenTree::Group(group)] if is_ident(all, "all") => {
            let tokens: Vec<TokenTree> = group.stream().into_iter().collect();
            tokens
                .split(|token| matches!(token, TokenTree::Punct(comma) if comma.as_char() == ','))
                .any(|part| needs_test(&part.iter().cloned().collect()))
        }
        _ => false,
    }
}

/// Whether the path alone says that a file is test code.
pub(super) fn is_test_path(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests") || path.ends_with("tests.rs")
}

/// Whether a crate begins in the file.
pub(super) fn is_crate_root(path: &Path) -> bool {
    let below = |directory: &str| {
        path.parent()
            .is_some_and(|parent| parent.ends_with(directory))
    };
    let is_crate = below("src") && (path.ends_with("lib.rs") || path.ends_with("main.rs"));
    is_crate || below("src/bin") || below("examples")
}

/// The files that may define `module`, declared without a body in `file` inside the inline modules
/// `within`.
pub(super) fn module_files(file: &Path, within: &[String], module: &ItemMod) -> Vec<PathBuf> {
    let directory = file.parent().unwrap_or(Path::new(""));
    if let Some(path) = path_attribute(&module.attrs) {
        return vec![directory.join(path)];
    }
    let mut directory = directory.to_path_buf();
    if !is_crate_root(file) && !file.ends_with("mod.rs") {
        directory.push(file.file_stem().unwrap_or_default());
    }
    directory.extend(within);
    let name = ident_text(&module.ident);
    vec![
        directory.join(format!("{name}.rs")),
        directory.join(&name).join("mod.rs"),
    ]
}

/// The value of `#[path = ".."]`.
fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| {
        let Meta::NameValue(pair) = &attribute.meta else {
            return None;
        };
        match &pair.value {
            syn::Expr::Lit(syn::ExprLit {
                lit: syn::Lit::Str(path),
                ..
            }) if pair.path.is_ident("path") => Some(path.value()),
            _ => None,
        }
    })
}

/// The identifier without the `r#` of a raw one.
pub(super) fn ident_text(ident: &proc_macro2::Ident) -> String {
    let text = ident.to_string();
    text.strip_prefix("r#").map_or(text.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_item_is_test(code: &str) -> bool {
        let file = RustFile::parse(Path::new("a.rs"), code).unwrap();
        is_test(item_attributes(&file.syntax.items[0]))
    }

    #[test]
    fn test_code_is_known_by_its_attributes() {
        assert!(first_item_is_test("#[test] fn f() {}"));
        assert!(first_item_is_test("#[cfg(test)] mod tests;"));
        assert!(first_item_is_test("#[cfg(all(unix, test))] mod m {}"));
        assert!(!first_item_is_test("#[cfg(not(test))] mod m {}"));
        assert!(!first_item_is_test(
            "#[cfg(any(test, feature = \"x\"))] mod m {}"
        ));
        assert!(!first_item_is_test("fn test() {}"));
    }

    #[test]
    fn test_files_are_known_by_their_paths() {
        assert!(is_test_path(Path::new("crates/flow/tests/a.rs")));
        assert!(is_test_path(Path::new("crates/flow/src/table/tests.rs")));
        assert!(!is_test_path(Path::new("crates/flow/src/latests.rs")));
    }

    #[test]
    fn a_module_lies_beside_its_root_or_below_its_parent() {
        let declared = |code: &str| -> ItemMod { syn::parse_str(code).unwrap() };
        let first = |file: &str, within: &[String], code: &str| {
            module_files(Path::new(file), within, &declared(code))[0].clone()
        };
        let b = "mod b;";
        assert_eq!(first("src/lib.rs", &[], b), Path::new("src/b.rs"));
        assert_eq!(first("src/a.rs", &[], b), Path::new("src/a/b.rs"));
        assert_eq!(first("src/a/mod.rs", &[], b), Path::new("src/a/b.rs"));
        assert_eq!(
            first("src/a.rs", &["x".to_owned()], b),
            Path::new("src/a/x/b.rs")
        );
        assert_eq!(
            first("src/a.rs", &[], "#[path = \"c.rs\"] mod b;"),
            Path::new("src/c.rs")
        );
    }
}
