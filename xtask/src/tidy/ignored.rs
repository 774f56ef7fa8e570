//! Rule: no test is `#[ignore]`d. A test that cannot run on a machine prints SKIPPED with the
//! reason, which CI counts; an ignored one is forgotten.

use proc_macro2::{Delimiter, TokenTree};

use super::finding::Finding;
use super::rust_file::{RustFile, for_each_group, is_ident};

pub(super) fn check(file: &RustFile) -> Vec<Finding> {
    let mut found = Vec::new();
    for_each_group(&file.tokens, &mut |tokens| {
        for pair in tokens.windows(2) {
            let [TokenTree::Punct(sign), TokenTree::Group(group)] = pair else {
                continue;
            };
            let first = group.stream().into_iter().next();
            if sign.as_char() == '#'
                && group.delimiter() == Delimiter::Bracket
                && first.is_some_and(|token| is_ident(&token, "ignore"))
            {
                let line = sign.span().start().line;
                let message = "an ignored test: make it print SKIPPED, or delete it";
                found.push(Finding::new(&file.path, line, message));
            }
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn ignored_tests_are_found_with_and_without_a_reason() {
        let code = "#[test]\n#[ignore]\nfn a() {}\n#[ignore = \"slow\"]\nfn b() {}\n\
            // #[ignore]\nfn ignore() {}\n";
        let file = RustFile::parse(Path::new("a.rs"), code).unwrap();
        let lines: Vec<usize> = check(&file).iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [2, 4]);
    }
}
