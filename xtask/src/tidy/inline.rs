//! Rule: an `inline(always)` has a comment beside it that says why. It overrides the compiler's
//! judgement, so the reason (usually a measurement) must be there for the next reader.

use super::finding::Finding;
use super::rust_file::{RustFile, for_each_group, is_ident, is_parenthesised};

pub(super) fn check(file: &RustFile) -> Vec<Finding> {
    let lines: Vec<&str> = file.text.lines().collect();
    let mut found = Vec::new();
    for_each_group(&file.tokens, &mut |tokens| {
        for pair in tokens.windows(2) {
            if !is_ident(&pair[0], "inline") || !is_parenthesised(&pair[1], "always") {
                continue;
            }
            let line = pair[0].span().start().line;
            let above = line.checked_sub(2).map_or("", |above| lines[above]);
            if !lines[line - 1].contains("//") && !is_plain_comment(above) {
                let message = "`inline(always)` without a `//` comment above that says why";
                found.push(Finding::new(&file.path, line, message));
            }
        }
    });
    found
}

/// Whether the line is a comment that is not documentation.
fn is_plain_comment(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("//") && !line.starts_with("///") && !line.starts_with("//!")
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
    fn a_reason_stands_above_or_on_the_same_line() {
        assert_eq!(lines("#[inline(always)]\nfn f() {}\n"), [1]);
        assert!(lines("// 3 % of a packet.\n#[inline(always)]\nfn f() {}\n").is_empty());
        assert!(lines("#[inline(always)] // 3 % of a packet.\nfn f() {}\n").is_empty());
        assert!(lines("#[inline]\nfn f() {}\n").is_empty());
    }

    #[test]
    fn documentation_is_no_reason() {
        let code = "/// Adds one.\n#[inline(always)]\nfn f() {}\n";
        assert_eq!(lines(code), [2]);
    }

    #[test]
    fn methods_macros_and_conditional_attributes_count() {
        let code = "impl A {\n#[cfg_attr(x, inline(always))]\nfn f() {}\n}\n\
            macro_rules! m { () => {\n#[inline(always)]\nfn g() {}\n} }\n";
        assert_eq!(lines(code), [2, 6]);
    }
}
