//! Rule: a function has at most 100 lines, from its signature to its closing brace. Tests are
//! exempt, and so are tables: functions whose body is one literal, one macro call, or one `match`
//! that maps each case to an expression.

use proc_macro2::Span;
use syn::visit::{self, Visit};
use syn::{Block, Expr, ImplItemFn, Item, ItemFn, Signature, Stmt, TraitItemFn};

use super::finding::Finding;
use super::rust_file::{RustFile, ident_text, is_test, item_attributes};

const LINES_MAX: usize = 100;

/// The functions of a file that is not test code.
pub(super) fn check(file: &RustFile) -> Vec<Finding> {
    let mut visitor = Visitor {
        file,
        found: Vec::new(),
    };
    visitor.visit_file(&file.syntax);
    visitor.found
}

struct Visitor<'a> {
    file: &'a RustFile,
    found: Vec<Finding>,
}

impl Visitor<'_> {
    fn function(&mut self, signature: &Signature, body: &Block) {
        let first = first_span(signature).start().line;
        let lines = body.brace_token.span.close().end().line - first + 1;
        if lines > LINES_MAX && !is_table(body) {
            let name = ident_text(&signature.ident);
            let message = format!("`{name}` has {lines} lines; {LINES_MAX} is the maximum");
            self.found
                .push(Finding::new(&self.file.path, first, message));
        }
    }
}

/// Where the signature starts, at `const`, `async` or `fn`.
fn first_span(signature: &Signature) -> Span {
    match (&signature.constness, &signature.asyncness) {
        (Some(token), _) => token.span,
        (None, Some(token)) => token.span,
        (None, None) => signature.fn_token.span,
    }
}

/// Whether a body is data, with no step that follows another.
fn is_table(body: &Block) -> bool {
    match body.stmts.as_slice() {
        [Stmt::Macro(_)] => true,
        [Stmt::Expr(expression, None)] => match expression {
            Expr::Array(_) | Expr::Struct(_) | Expr::Macro(_) | Expr::Tuple(_) => true,
            Expr::Match(table) => table
                .arms
                .iter()
                .all(|arm| !matches!(*arm.body, Expr::Block(_))),
            _ => false,
        },
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Visitor<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test(item_attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        if let Some(body) = &item.default {
            self.function(&item.sig, body);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn messages(code: &str) -> Vec<String> {
        let file = RustFile::parse(Path::new("a.rs"), code).unwrap();
        check(&file).iter().map(ToString::to_string).collect()
    }

    /// A function of `lines` lines.
    fn function(lines: usize) -> String {
        format!("fn f() {{\n{}}}\n", "g();\n".repeat(lines - 2))
    }

    #[test]
    fn the_lines_from_the_signature_to_the_brace_count() {
        let documented = format!("/// One.\n#[inline]\n{}", function(100));
        assert!(messages(&documented).is_empty());
        let expected = "a.rs:1: `f` has 101 lines; 100 is the maximum";
        assert_eq!(messages(&function(101)), [expected]);
    }

    #[test]
    fn methods_and_nested_functions_count() {
        let method = format!("impl A {{\n{}}}\n", function(101));
        assert_eq!(messages(&method).len(), 1);
        let provided = format!("trait A {{\n{}}}\n", function(101));
        assert_eq!(messages(&provided).len(), 1);
        let nested = format!("fn outer() {{\n{}g();\n}}\n", function(101));
        assert_eq!(messages(&nested).len(), 2);
    }

    #[test]
    fn tests_and_tables_are_exempt() {
        let test = format!("#[test]\n{}", function(101));
        assert!(messages(&test).is_empty());
        let module = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", function(101));
        assert!(messages(&module).is_empty());
        let lines = "1,\n".repeat(101);
        assert!(messages(&format!("fn f() -> A {{ [\n{lines}] }}\n")).is_empty());
        assert!(messages(&format!("fn f() -> A {{ vec![\n{lines}] }}\n")).is_empty());
        let arms = "1 => g(),\n".repeat(101);
        assert!(messages(&format!("fn f(a: u8) {{ match a {{\n{arms}}} }}\n")).is_empty());
    }

    #[test]
    fn a_match_with_steps_in_its_arms_is_no_table() {
        let arms = "1 => { g(); h(); }\n".repeat(101);
        assert_eq!(
            messages(&format!("fn f(a: u8) {{ match a {{\n{arms}}} }}\n")).len(),
            1
        );
    }
}
