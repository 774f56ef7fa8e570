//! Rules for Rust files: where `unsafe` may stand and that each one is explained, how long a file
//! is, and nothing left undone.

use std::path::Path;

use super::Finding;

/// Longer files are told of, and above [`LINES_MAX`] refused.
const LINES_WARNED: usize = 600;
const LINES_MAX: usize = 800;

/// The crates that may hold unsafe code.
const UNSAFE_CRATES: [&str; 2] = ["crates/hw", "crates/port"];

/// How many lines above an `unsafe` its explanation may start.
const EXPLANATION_LINES: usize = 8;

/// What must not be left in code.
const UNDONE: [&str; 4] = ["todo!", "unimplemented!", "dbg!", "#[ignore"];

pub(super) fn check(file: &Path, content: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let length = content.lines().count();
    if length > LINES_WARNED {
        let message = format!("{length} lines; split it before it has {LINES_MAX}");
        found.push(Finding {
            warning: length <= LINES_MAX,
            ..Finding::new(file, 0, message)
        });
    }
    let code = code_only(content);
    let lines: Vec<&str> = content.lines().collect();
    for (index, line) in code.lines().enumerate() {
        for undone in UNDONE {
            if let Some(at) = line.find(undone)
                && !line[..at].ends_with(is_word)
            {
                found.push(Finding::new(file, index + 1, format!("`{undone}` is left")));
            }
        }
        if holds_unsafe(line) {
            if !UNSAFE_CRATES.iter().any(|crate_| file.starts_with(crate_)) {
                let message = "unsafe code stands in the crates hw and port only";
                found.push(Finding::new(file, index + 1, message));
            } else if !explained(&lines, index) {
                let message = "no SAFETY comment above this `unsafe`";
                found.push(Finding::new(file, index + 1, message));
            }
        }
    }
    found
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether the word `unsafe` stands in a line of code, other than in a pointer's type.
fn holds_unsafe(line: &str) -> bool {
    line.match_indices("unsafe").any(|(at, word)| {
        let (before, after) = (&line[..at], &line[at + word.len()..]);
        let pointer_type = ["fn(", "extern \"C\" fn(", "extern   fn("]
            .iter()
            .any(|start| after.trim_start().starts_with(start));
        !before.ends_with(is_word) && !after.starts_with(is_word) && !pointer_type
    })
}

/// Whether a comment near line `index` says why it is sound, or, for an `unsafe fn`, what the
/// caller must hold to.
fn explained(lines: &[&str], index: usize) -> bool {
    lines[index.saturating_sub(EXPLANATION_LINES)..=index]
        .iter()
        .any(|line| {
            line.split_once("//").is_some_and(|(_, comment)| {
                comment.contains("SAFETY:") || comment.contains("# Safety")
            })
        })
}

/// The text with comments and what is in literals replaced by spaces, line by line as it was.
fn code_only(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let after_word = code.ends_with(is_word);
        let (length, is_code) = if rest.starts_with("//") {
            (rest.find('\n').unwrap_or(rest.len()), false)
        } else if rest.starts_with("/*") {
            (block_comment(rest), false)
        } else if first == '"' {
            (string(rest), false)
        } else if !after_word && let Some(length) = raw_string(rest) {
            (length, false)
        } else if first == '\''
            && let Some(length) = character(rest)
        {
            (length, false)
        } else {
            (first.len_utf8(), true)
        };
        let (piece, remaining) = rest.split_at(length);
        if is_code {
            code.push_str(piece);
        } else {
            code.extend(piece.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        }
        rest = remaining;
    }
    code
}

/// Length of the comment at the start of `text`, which may hold others.
fn block_comment(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    let bytes = text.as_bytes();
    while at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// Length of the string literal at the start of `text`.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Length of the raw string literal at the start of `text`, if there is one.
fn raw_string(text: &str) -> Option<usize> {
    let prefix = ["br", "cr", "r"]
        .into_iter()
        .find(|prefix| text.starts_with(prefix))?;
    let hashes = text[prefix.len()..]
        .bytes()
        .take_while(|&b| b == b'#')
        .count();
    let open = prefix.len() + hashes;
    text[open..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let end = text[open + 1..].find(&close);
    Some(end.map_or(text.len(), |end| open + 1 + end + close.len()))
}

/// Length of the character literal at the start of `text`; `None` for a lifetime.
fn character(text: &str) -> Option<usize> {
    let inner = &text[1..];
    if let Some(escape) = inner.strip_prefix('\\') {
        let escaped = escape.chars().next()?.len_utf8();
        return Some(2 + escaped + escape[escaped..].find('\'')? + 1);
    }
    let width = inner.chars().next()?.len_utf8();
    inner[width..].starts_with('\'').then_some(width + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(file: &str, content: &str) -> Vec<String> {
        check(Path::new(file), content)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn comments_and_literals_are_not_code() {
        let text = "a // unsafe\nb /* x /* unsafe */ y */ c\n\"un\\\"safe\" 'u' '\\'' &'a r#\"un\"safe\"# d";
        let expected = "abc&'ad";
        let code = code_only(text);
        assert_eq!(code.split_whitespace().collect::<String>(), expected);
        assert_eq!(code.lines().count(), text.lines().count());
    }

    #[test]
    fn unsafe_stands_in_two_crates_only() {
        let code = "fn f() { unsafe { g() } }\n";
        assert_eq!(
            messages("crates/flow/src/a.rs", code),
            ["crates/flow/src/a.rs:1: unsafe code stands in the crates hw and port only"]
        );
        assert!(
            messages(
                "crates/flow/src/a.rs",
                "// unsafe\nlet not_unsafe = \"unsafe\";\n"
            )
            .is_empty()
        );
    }

    #[test]
    fn each_unsafe_needs_its_explanation() {
        let file = "crates/hw/src/a.rs";
        assert_eq!(messages(file, "unsafe { g() }\n").len(), 1);
        assert_eq!(messages(file, "unsafe impl Send for A {}\n").len(), 1);
        assert!(messages(file, "// SAFETY: g is pure.\nunsafe { g() }\n").is_empty());
        assert!(messages(file, "/// # Safety\n/// Call it once.\nunsafe fn g() {}\n").is_empty());
        assert!(messages(file, "type G = unsafe fn(u8);\n").is_empty());
        let far = format!(
            "// SAFETY: g is pure.\n{}unsafe {{ g() }}\n",
            "\n".repeat(9)
        );
        assert_eq!(messages(file, &far).len(), 1);
        let text = "let s = \"SAFETY: no comment\"; unsafe { g() }\n";
        assert_eq!(messages(file, text).len(), 1);
    }

    #[test]
    fn nothing_is_left_undone() {
        let left = concat!("fn f() { to", "do!() }\n#[ig", "nore]\n");
        assert_eq!(messages("a.rs", left).len(), 2);
        assert!(messages("a.rs", "my_todo!(); ignore(); // todo!\n").is_empty());
    }

    #[test]
    fn long_files_are_told_of_then_refused() {
        let finding = |lines: usize| check(Path::new("a.rs"), &"x\n".repeat(lines));
        assert!(finding(600).is_empty());
        assert!(finding(601)[0].warning && finding(800)[0].warning);
        assert!(!finding(801)[0].warning);
    }
}
