//! Rule: threads are started by functions that can fail. `std::thread::spawn` and `Scope::spawn` panic where
//! the kernel refuses a thread, and a thread that waits for it then waits forever.

use proc_macro2::TokenTree;

use super::finding::Finding;
use super::rust_file::{RustFile, for_each_group, is_ident};

pub(super) fn check(file: &RustFile) -> Vec<Finding> {
    let tests = file.text.find("#[cfg(test)]\nmod tests");
    let last = tests.map_or(usize::MAX, |at| file.text[..at].lines().count());
    let mut found = Vec::new();
    for_each_group(&file.tokens, &mut |tokens| {
        for window in tokens.windows(4) {
            let is_path = is_ident(&window[0], "thread")
                && is_punct(&window[1], ':')
                && is_punct(&window[2], ':')
                && is_ident(&window[3], "spawn");
            let is_scoped = is_ident(&window[0], "scope")
                && is_punct(&window[1], '.')
                && is_ident(&window[2], "spawn");
            let line = window[0].span().start().line;
            if (is_path || is_scoped) && line <= last {
                let message = "panics if the thread cannot start: use `hw::threads`";
                found.push(Finding::new(&file.path, line, message));
            }
        }
    });
    found
}

fn is_punct(token: &TokenTree, character: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == character)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn lines(code: &str) -> Vec<usize> {
        let file = RustFile::parse(Path::new("crates/a/src/a.rs"), code).unwrap();
        check(&file).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn panicking_starts_are_found_outside_tests() {
        assert_eq!(lines("fn f() {\nstd::thread::spawn(g);\n}\n"), [2]);
        assert_eq!(lines("fn f() { thread::spawn(g); }\n"), [1]);
        assert_eq!(
            lines("fn f() { thread::scope(|scope| { scope.spawn(g); }); }\n"),
            [1]
        );
        assert!(lines("fn f() { hw::threads::spawn(\"a\", g); }\n").is_empty());
        assert!(lines("#[cfg(test)]\nmod tests {\nfn f() { thread::spawn(g); }\n}\n").is_empty());
    }
}
