//! Rule: no word that docs/glossary.md bans. The table "Say this, not that" there is the only list
//! of them; its introduction says how an entry matches.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, ensure};
use proc_macro2::TokenTree;

use super::finding::Finding;
use super::rust_file::{RustFile, for_each_group, ident_text};

pub(super) const GLOSSARY: &str = "docs/glossary.md";

/// The heading above the table of banned words.
const HEADING: &str = "## Say this, not that";

/// Whether the rule reads a file. The glossary quotes the banned words, and history is not rewritten.
pub(super) fn applies(file: &Path) -> bool {
    let by_name = ["setup", ".ci/run"]
        .iter()
        .any(|name| file == Path::new(name));
    let by_extension = file
        .extension()
        .is_some_and(|extension| ["rs", "md", "sh"].iter().any(|known| extension == *known));
    let exempt = file == Path::new(GLOSSARY)
        || file == Path::new("CHANGELOG.md")
        || file.starts_with("docs/history");
    (by_name || by_extension) && !exempt
}

/// The banned words and what to say instead.
#[derive(Default)]
pub(super) struct Banned {
    /// By the first word, in lower case.
    phrases: HashMap<String, Vec<Phrase>>,
    /// Single words that ban every word they begin, with their messages.
    beginnings: Vec<(String, String)>,
    /// Identifiers, each with its message.
    identifiers: HashMap<String, String>,
    /// Beginnings of identifiers.
    identifier_beginnings: Vec<(String, String)>,
}

/// One or more words in sequence.
struct Phrase {
    /// The words after the first, each with the way in which it follows.
    rest: Vec<(Joint, String)>,
    message: String,
}

/// How a word follows the one before it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Joint {
    /// In the same identifier: `two_words` or `TwoWords`.
    Identifier,
    /// After a space or a line break.
    Space,
    Hyphen,
    Other,
}

impl Banned {
    /// Reads the table of the glossary.
    pub(super) fn read(glossary: &str) -> anyhow::Result<Self> {
        let mut banned = Self::default();
        let rows = glossary
            .lines()
            .skip_while(|line| *line != HEADING)
            .skip_while(|line| !line.starts_with('|'))
            .take_while(|line| line.starts_with('|'))
            .skip(2);
        let mut count = 0;
        for row in rows {
            let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            let [instead, words] = cells[..] else {
                anyhow::bail!("{GLOSSARY}: not two columns: {row}");
            };
            for word in words.split(',').map(str::trim) {
                banned
                    .add(word, instead)
                    .with_context(|| format!("{GLOSSARY}: {row}"))?;
                count += 1;
            }
        }
        ensure!(count > 0, "{GLOSSARY} has no table below \"{HEADING}\"");
        Ok(banned)
    }

    fn add(&mut self, entry: &str, instead: &str) -> anyhow::Result<()> {
        let shown = entry.trim_matches('`');
        let message = format!("not \"{shown}\" but: {instead}");
        if entry.starts_with('`') {
            match shown.strip_suffix('*') {
                Some(beginning) => self
                    .identifier_beginnings
                    .push((beginning.to_owned(), message)),
                None => {
                    self.identifiers.insert(shown.to_owned(), message);
                }
            }
            return Ok(());
        }
        if let Some(beginning) = entry.strip_suffix('*') {
            ensure!(
                beginning.chars().all(char::is_alphanumeric),
                "only a single word can end with `*`"
            );
            self.beginnings.push((beginning.to_lowercase(), message));
            return Ok(());
        }
        let mut words = words(entry).into_iter();
        let (_, first) = words.next().context("an empty entry")?;
        let rest = words
            .map(|(joint, word)| (joint, word.text.to_lowercase()))
            .collect();
        self.phrases
            .entry(first.text.to_lowercase())
            .or_default()
            .push(Phrase { rest, message });
        Ok(())
    }

    /// The message for the words that `words` begins with.
    fn phrase(&self, words: &[(Joint, Word<'_>)]) -> Option<&str> {
        let first = words[0].1.text.to_lowercase();
        let phrases = self.phrases.get(&first).into_iter().flatten();
        let by_phrase = phrases
            .filter(|phrase| phrase.follows(&words[1..]))
            .map(|phrase| &phrase.message);
        let by_beginning = self
            .beginnings
            .iter()
            .filter(|(beginning, _)| first.starts_with(beginning))
            .map(|(_, message)| message);
        by_phrase.chain(by_beginning).next().map(String::as_str)
    }

    fn identifier(&self, name: &str) -> Option<&str> {
        self.identifiers
            .get(name)
            .or_else(|| {
                let (_, message) = self
                    .identifier_beginnings
                    .iter()
                    .find(|(beginning, _)| name.starts_with(beginning))?;
                Some(message)
            })
            .map(String::as_str)
    }
}

impl Phrase {
    fn follows(&self, words: &[(Joint, Word<'_>)]) -> bool {
        words.len() >= self.rest.len()
            && self
                .rest
                .iter()
                .zip(words)
                .all(|((joint, word), (found_joint, found))| {
                    let joined = match joint {
                        Joint::Space => *found_joint != Joint::Other,
                        _ => joint == found_joint,
                    };
                    joined && found.text.eq_ignore_ascii_case(word)
                })
    }
}

/// Checks a file; `rust` is its parsed form if it is a Rust file.
pub(super) fn check(
    banned: &Banned,
    path: &Path,
    text: &str,
    rust: Option<&RustFile>,
) -> Vec<Finding> {
    let mut found = Vec::new();
    let words = words(text);
    for index in 0..words.len() {
        if let Some(message) = banned.phrase(&words[index..]) {
            found.push((words[index].1.line, message));
        }
    }
    if let Some(rust) = rust {
        for_each_group(&rust.tokens, &mut |tokens| {
            for token in tokens {
                if let TokenTree::Ident(ident) = token
                    && let Some(message) = banned.identifier(&ident_text(ident))
                {
                    found.push((ident.span().start().line, message));
                }
            }
        });
    }
    for (index, line) in text.lines().enumerate() {
        let quoted = line.split('`').skip(1).step_by(2);
        let names = quoted.flat_map(|code| code.split(|c: char| !is_word(c)));
        for message in names.filter_map(|name| banned.identifier(name)) {
            found.push((index + 1, message));
        }
    }
    found.sort_unstable();
    let finding = |(line, message)| Finding::new(path, line, message);
    found.into_iter().map(finding).collect()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// A word of prose, or one of those that make up an identifier.
struct Word<'a> {
    text: &'a str,
    /// From 1.
    line: usize,
}

/// The words of a text, each with the way in which it follows the one before.
fn words(text: &str) -> Vec<(Joint, Word<'_>)> {
    let mut words = Vec::new();
    let (mut line, mut rest, mut after_word) = (1, text, false);
    while let Some(start) = rest.find(char::is_alphanumeric) {
        let (gap, found) = rest.split_at(start);
        line += gap.matches('\n').count();
        if gap.ends_with('\\') && found.starts_with(['n', 'r', 't', '0']) {
            // The letter of an escape such as `\n` belongs to no word.
            (rest, after_word) = (&found[1..], false);
            continue;
        }
        let joint = if after_word && gap.chars().all(|c| c == '_') {
            Joint::Identifier
        } else {
            gap_joint(gap)
        };
        let (text, following) = found.split_at(word_length(found));
        words.push((joint, Word { text, line }));
        (rest, after_word) = (following, true);
    }
    words
}

/// How two words are joined by what lies between them. A line break between words of a comment is a
/// space, together with the comment signs around it.
fn gap_joint(gap: &str) -> Joint {
    match gap {
        " " => Joint::Space,
        "-" => Joint::Hyphen,
        _ if gap.contains('\n')
            && gap
                .chars()
                .all(|c| c.is_whitespace() || "/!#\\".contains(c)) =>
        {
            Joint::Space
        }
        _ => Joint::Other,
    }
}

/// The length in bytes of the word at the start of `text`: up to the end of the identifier, or to a
/// capital that begins the next word in it.
fn word_length(text: &str) -> usize {
    let mut characters = text.char_indices().peekable();
    let mut before = '_';
    while let Some((at, c)) = characters.next() {
        if !c.is_alphanumeric() {
            return at;
        }
        let next_is_small = characters
            .peek()
            .is_some_and(|(_, next)| next.is_lowercase());
        let begins_word = c.is_uppercase()
            && (before.is_lowercase()
                || before.is_numeric()
                || before.is_uppercase() && next_is_small);
        if at > 0 && begins_word {
            return at;
        }
        before = c;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GLOSSARY_TEXT: &str = "# Glossary\n\n## Our words\n| word | meaning |\n|---|---|\n| a | b |\n\n\
        ## Say this, not that\n\nText.\n\n| say | not |\n|---|---|\n\
        | plugh | frobbed, frob out |\n| xyzzy | quux-lot, grault* |\n\
        | slot | `Nook`, `take_nook`, `near_*` |\n\nMore.\n";

    fn found(file: &str, text: &str) -> Vec<String> {
        let path = Path::new(file);
        let rust = file
            .ends_with(".rs")
            .then(|| RustFile::parse(path, text).unwrap());
        let banned = Banned::read(GLOSSARY_TEXT).unwrap();
        check(&banned, path, text, rust.as_ref())
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn words_match_whole_and_in_any_case() {
        let expected = "a.md:2: not \"frobbed\" but: plugh";
        assert_eq!(found("a.md", "It is\nFrobbed.\n"), [expected]);
        assert!(found("a.md", "unfrobbed frobbedly frob outer\n").is_empty());
    }

    #[test]
    fn words_match_within_identifiers() {
        let code =
            "fn is_frobbed() {}\nstruct FrobbedFlow;\nconst FROBBED: u8 = 1;\nfn frob_out() {}\n";
        assert_eq!(found("a.rs", code).len(), 4);
        assert!(found("a.rs", "fn unfrobbed() {}\n").is_empty());
        assert_eq!(found("a.rs", "fn f() { g(\"a\\nfrobbed\") }\n").len(), 1);
    }

    #[test]
    fn a_phrase_spans_hyphens_and_the_lines_of_a_comment() {
        assert_eq!(found("a.md", "frob out, frob-out\n").len(), 2);
        assert_eq!(found("a.rs", "/// To frob\n/// out.\nfn f() {}\n").len(), 1);
        assert!(found("a.md", "frob. Out, frob (out)\n").is_empty());
    }

    #[test]
    fn an_entry_with_a_hyphen_leaves_the_separate_words_alone() {
        assert_eq!(found("a.md", "a quux-lot\n").len(), 1);
        assert!(found("a.md", "a quux lot\n").is_empty());
        assert!(found("a.rs", "fn quux_lot() {}\n").is_empty());
    }

    #[test]
    fn an_entry_with_a_star_bans_what_begins_so() {
        assert_eq!(found("a.md", "grault, graults, Graulting\n").len(), 3);
        assert!(found("a.md", "ungrault\n").is_empty());
    }

    #[test]
    fn identifiers_match_in_code_and_in_backticks_only() {
        let code = "// A Nook, near_by: no `Nook`.\nstruct Nook;\nfn take_nook(near_end: u8) {}\n";
        let lines: Vec<String> = found("a.rs", code);
        assert_eq!(lines.len(), 4, "{lines:?}");
        assert!(lines[0].starts_with("a.rs:1: "));
        assert!(found("a.rs", "struct Nooks;\nfn retake_nook() {}\nfn nook() {}\n").is_empty());
        assert_eq!(found("a.md", "Nook `a::Nook` near_by\n").len(), 1);
    }

    #[test]
    fn the_glossary_and_history_are_exempt() {
        for name in ["a/b.rs", "README.md", "x.sh", "setup", ".ci/run"] {
            assert!(applies(Path::new(name)), "{name}");
        }
        for name in [
            "docs/glossary.md",
            "CHANGELOG.md",
            "docs/history/2.md",
            "Cargo.toml",
        ] {
            assert!(!applies(Path::new(name)), "{name}");
        }
    }

    #[test]
    fn a_glossary_without_its_table_is_an_error() {
        assert!(Banned::read("# Glossary\n").is_err());
        assert!(Banned::read("## Say this, not that\n| a | b |\n|---|---|\n| one |\n").is_err());
    }
}
