//! Rule: an `unsafe fn`, `unsafe trait` or `unsafe extern` has a comment that says what its user must
//! ensure. Clippy requires this of public functions only; it does cover unsafe blocks and impls.

use proc_macro2::TokenTree;

use super::finding::Finding;
use super::rust_file::{RustFile, for_each_group, is_ident};

/// How many lines above the declaration the comment may start.
const COMMENT_LINES: usize = 8;

pub(super) fn check(file: &RustFile) -> Vec<Finding> {
    let lines: Vec<&str> = file.text.lines().collect();
    let mut found = Vec::new();
    for_each_group(&file.tokens, &mut |tokens| {
        for three in tokens.windows(3) {
            let line = three[0].span().start().line;
            if declares_unsafe(three) && !is_explained(&lines, line - 1) {
                let message = "no `# Safety` section or SAFETY comment above";
                found.push(Finding::new(&file.path, line, message));
            }
        }
    });
    found
}

/// Whether the tokens start an unsafe declaration; `unsafe fn(..)` is a type.
fn declares_unsafe(tokens: &[TokenTree]) -> bool {
    let [keyword, kind, next] = tokens else {
        return false;
    };
    is_ident(keyword, "unsafe")
        && match kind {
            TokenTree::Ident(kind) if kind == "extern" => true,
            TokenTree::Ident(kind) if kind == "fn" || kind == "trait" => {
                matches!(next, TokenTree::Ident(_))
            }
            _ => false,
        }
}

/// Whether a comment near the line at `index` explains what is unsafe.
fn is_explained(lines: &[&str], index: usize) -> bool {
    lines[index.saturating_sub(COMMENT_LINES)..=index]
        .iter()
        .filter_map(|line| line.split_once("//"))
        .any(|(_, comment)| comment.contains("SAFETY:") || comment.contains("# Safety"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn lines(code: &str) -> Vec<usize> {
        let file = RustFile::parse(Path::new("a.rs"), code).unwrap();
        check(&file).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn unsafe_declarations_need_a_comment() {
        assert_eq!(lines("unsafe fn f() {}\n"), [1]);
        assert_eq!(lines("impl A {\nunsafe fn f() {}\n}\n"), [2]);
        assert_eq!(lines("unsafe trait A {}\n"), [1]);
        assert_eq!(lines("unsafe extern \"C\" { fn f(); }\n"), [1]);
        let far = format!("// SAFETY: pure.\n{}unsafe fn f() {{}}\n", "\n".repeat(9));
        assert_eq!(lines(&far), [11]);
    }

    #[test]
    fn a_safety_section_or_comment_explains() {
        assert!(lines("/// # Safety\n/// Call it once.\nunsafe fn f() {}\n").is_empty());
        assert!(lines("// SAFETY: as in shim.c.\nunsafe extern \"C\" { fn f(); }\n").is_empty());
    }

    #[test]
    fn types_and_blocks_are_left_to_clippy() {
        assert!(lines("type F = unsafe fn(u8);\n").is_empty());
        assert!(lines("fn f() { unsafe { g() } }\n").is_empty());
        assert!(lines("unsafe impl Send for A {}\n").is_empty());
    }
}
