//! Text that others chose (names in packets, file names), made harmless where a terminal, a shell or a
//! spreadsheet may read it.
//!
//! What a terminal or an editor acts upon instead of showing it counts as unprintable: control
//! characters (ESC, NUL, U+009B), line separators, and invisible format characters such as those that
//! turn the direction of writing (U+202E).

use crate::text::TextBuffer;
use std::borrow::Cow;
use std::fmt::Write;

/// The invisible format characters outside ASCII (general category Cf of Unicode 16) and the line and
/// paragraph separators (Zl, Zp).
const FORMAT_CHARACTERS: [(char, char); 22] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{180e}', '\u{180e}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{fff9}', '\u{fffb}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0001}', '\u{e0001}'),
    ('\u{e0020}', '\u{e007f}'),
    // Variation selectors, which hide data.
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{e0100}', '\u{e01ef}'),
];

/// The characters with which a spreadsheet begins a formula, also in their wide forms.
const FORMULA_STARTS: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];

/// Whether a character is never written as it is.
#[must_use]
pub fn is_unprintable(character: char) -> bool {
    character.is_control()
        || !character.is_ascii()
            && FORMAT_CHARACTERS
                .iter()
                .any(|&(first, last)| (first..=last).contains(&character))
}

/// Returns a message with every unprintable character, line feeds included, as `\xNN` for each of its
/// bytes.
#[must_use]
pub fn message(text: &str) -> Cow<'_, str> {
    escape_where(text, is_unprintable)
}

/// Returns lines with every unprintable character except line feeds as `\xNN` for each of its bytes.
#[must_use]
pub fn lines(text: &str) -> Cow<'_, str> {
    escape_where(text, |character| {
        character != '\n' && is_unprintable(character)
    })
}

fn escape_where(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_escaped(character) {
            push_hexadecimal(&mut escaped, character);
        } else {
            escaped.push(character);
        }
    }
    Cow::Owned(escaped)
}

/// Appends each byte of `character` as `\xNN`.
fn push_hexadecimal(text: &mut String, character: char) {
    for byte in character.encode_utf8(&mut [0; 4]).bytes() {
        // Writing to a string cannot fail.
        let _ = write!(text, "\\x{byte:02x}");
    }
}

/// Returns JSON with every unprintable character in its strings as `\uNNNN`. A serializer escapes those
/// of ASCII; the others occur only within strings.
#[must_use]
pub fn json(json: &str) -> Cow<'_, str> {
    let is_escaped = |character: char| character > '\u{7e}' && is_unprintable(character);
    if !json.contains(is_escaped) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len() + 16);
    for character in json.chars() {
        if is_escaped(character) {
            push_json_escape(&mut escaped, character);
        } else {
            escaped.push(character);
        }
    }
    Cow::Owned(escaped)
}

fn push_json_escape(text: &mut String, character: char) {
    for unit in character.encode_utf16(&mut [0; 2]) {
        // Writing to a string cannot fail.
        let _ = write!(text, "\\u{unit:04x}");
    }
}

/// Appends `value` with the escapes of a JSON string (RFC 8259 section 7), also for unprintable
/// characters that JSON allows.
#[cold]
#[inline(never)]
pub(crate) fn append_json(text: &mut TextBuffer, value: &str) {
    let mut escaped = String::with_capacity(value.len() + 16);
    for character in value.chars() {
        match character {
            '"' | '\\' => escaped.extend(['\\', character]),
            _ if is_unprintable(character) => push_json_escape(&mut escaped, character),
            _ => escaped.push(character),
        }
    }
    text.push_bytes(escaped.as_bytes());
}

/// Appends `value` as a CSV field. A backslash is doubled, and an unprintable character, or one that
/// would begin a formula, is `\xNN` for each of its bytes. A formula can begin at the start of the text,
/// and behind a semicolon, where many spreadsheets start another cell. The field has quotes if it needs
/// any (RFC 4180 section 2).
#[cold]
#[inline(never)]
pub(crate) fn append_csv(text: &mut TextBuffer, value: &str) {
    let mut escaped = String::with_capacity(value.len() + 16);
    let has_quotes = value.contains([',', '"']);
    if has_quotes {
        escaped.push('"');
    }
    let mut starts_cell = true;
    for character in value.chars() {
        match character {
            '\\' => escaped.push_str("\\\\"),
            '"' => escaped.push_str("\"\""),
            _ if is_unprintable(character)
                || starts_cell && FORMULA_STARTS.contains(&character) =>
            {
                push_hexadecimal(&mut escaped, character);
            }
            _ => escaped.push(character),
        }
        starts_cell = character == ';';
    }
    if has_quotes {
        escaped.push('"');
    }
    text.push_bytes(escaped.as_bytes());
}

/// Whether `value` can begin a formula.
#[inline(always)]
pub(crate) fn starts_formula(value: &str) -> bool {
    matches!(value.as_bytes().first(), Some(b'=' | b'+' | b'-' | b'@'))
}

/// Appends `value` as one word: white space, unprintable characters and the start of a formula become
/// `_`. A word that is only `-`, which means no name, becomes `_` too.
#[cold]
#[inline(never)]
pub(crate) fn append_word(text: &mut TextBuffer, value: &str) {
    let word: String = value
        .char_indices()
        .map(|(at, character)| {
            let is_replaced = character.is_whitespace()
                || is_unprintable(character)
                || at == 0 && FORMULA_STARTS.contains(&character);
            if is_replaced { '_' } else { character }
        })
        .collect();
    text.push_bytes(word.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Text in which the characters that matter are frequent.
    fn hostile_text() -> impl Strategy<Value = String> {
        let character = prop_oneof![
            any::<char>(),
            prop::char::range('\0', '\u{a0}'),
            prop::sample::select(
                "\\\",;=+-@＝－ \t\r\n\0\u{1b}\u{7f}\u{9b}\u{202e}\u{200b}\u{feff}\u{e0041}x"
                    .chars()
                    .collect::<Vec<_>>()
            ),
        ];
        prop::collection::vec(character, 0..24).prop_map(String::from_iter)
    }

    fn appended(append: impl FnOnce(&mut TextBuffer)) -> String {
        let mut text = TextBuffer::default();
        append(&mut text);
        String::from_utf8(text.as_bytes().to_vec()).unwrap()
    }

    /// Reads `\\` and `\xNN`, as a reader of the documentation would.
    fn unescaped(text: &str) -> String {
        let mut bytes = Vec::new();
        let mut rest = text.as_bytes();
        while let Some((&first, more)) = rest.split_first() {
            rest = more;
            match (first, rest) {
                (b'\\', [b'\\', more @ ..]) => {
                    bytes.push(b'\\');
                    rest = more;
                }
                (b'\\', [b'x', high, low, more @ ..]) => {
                    let digits = String::from_utf8(vec![*high, *low]).unwrap();
                    bytes.push(u8::from_str_radix(&digits, 16).unwrap());
                    rest = more;
                }
                (b'\\', _) => panic!("a single backslash in {text}"),
                _ => bytes.push(first),
            }
        }
        String::from_utf8(bytes).unwrap()
    }

    proptest! {
        #[test]
        fn csv_field_is_harmless_and_reads_back(value in hostile_text()) {
            let field = appended(|text| append_csv(text, &value));
            prop_assert!(!field.contains(is_unprintable), "{field:?}");
            let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(field.as_bytes());
            let cell = reader.records().next().map_or(String::new(), |row| row.unwrap()[0].to_owned());
            for part in cell.split(';') {
                prop_assert!(!part.starts_with(FORMULA_STARTS), "{cell:?}");
            }
            prop_assert_eq!(unescaped(&cell), value);
        }

        #[test]
        fn json_string_is_harmless_and_reads_back(value in hostile_text()) {
            let string = appended(|text| append_json(text, &value));
            prop_assert!(!string.contains(is_unprintable), "{string:?}");
            let read: String = serde_json::from_str(&format!("\"{string}\"")).unwrap();
            prop_assert_eq!(&read, &value);
            let by_serializer = serde_json::to_string(&[&value]).unwrap();
            let harmless = json(&by_serializer);
            prop_assert!(!harmless.contains(|c| is_unprintable(c) && c != '\u{7f}'), "{harmless:?}");
            let read: [String; 1] = serde_json::from_str(&harmless).unwrap();
            prop_assert_eq!(&read[0], &value);
        }

        #[test]
        fn word_is_one_column(value in hostile_text()) {
            let word = appended(|text| append_word(text, &value));
            prop_assert_eq!(word.chars().count(), value.chars().count());
            prop_assert!(!word.contains(|c: char| is_unprintable(c) || c.is_whitespace()), "{word:?}");
            prop_assert!(!word.starts_with(FORMULA_STARTS), "{word:?}");
        }

        #[test]
        fn messages_are_harmless(text in hostile_text()) {
            prop_assert!(!message(&text).contains(is_unprintable));
            let lines = lines(&text);
            prop_assert!(!lines.contains(|c| is_unprintable(c) && c != '\n'));
            prop_assert_eq!(lines.matches('\n').count(), text.matches('\n').count());
        }
    }

    #[test]
    fn what_terminals_act_upon_is_unprintable() {
        for character in
            "\0\t\n\r\u{1b}\u{7f}\u{85}\u{9b}\u{202e}\u{2066}\u{2028}\u{200b}\u{feff}\u{e0041}"
                .chars()
        {
            assert!(is_unprintable(character), "{character:?}");
        }
        for character in "aZ0 ~é\u{a0}ß漢😀\u{301}\u{fffd}".chars() {
            assert!(!is_unprintable(character), "{character:?}");
        }
        assert_eq!(message("a\u{1b}[2J\u{9b}b"), "a\\x1b[2J\\xc2\\x9bb");
        assert_eq!(appended(|text| append_csv(text, "=1+1")), "\\x3d1+1");
        assert_eq!(appended(|text| append_csv(text, "-")), "\\x2d");
        assert_eq!(appended(|text| append_csv(text, "a,b\\")), "\"a,b\\\\\"");
    }
}
