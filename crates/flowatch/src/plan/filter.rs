//! The filter expression, and the words in it that flowatch cannot evaluate.

use super::source::{Source, first_file};
use port::{CaptureFiles, Input, Port, Received};
use wire::LinkType;

/// Filter words about what only the kernel knows of a packet, and Linux cooked captures record.
const KERNEL_ONLY: [&str; 3] = ["inbound", "outbound", "ifindex"];

/// After one of these words, such a word is a name.
const NAME_QUALIFIERS: [&str; 7] = ["host", "net", "port", "src", "dst", "gateway", "proto"];

/// Joins the words into an expression; returns `None` without words.
///
/// # Errors
/// If a word of an invalid expression is a file, or if the expression needs information that the
/// source does not have.
pub(super) fn expression(words: &[String], source: &Source) -> Result<Option<String>, String> {
    if words.is_empty() {
        return Ok(None);
    }
    let expression = words.join(" ");
    if let Some(file) = first_file(words)
        && port::filter::validate(&expression).is_err()
    {
        return Err(format!(
            "'{file}' is a file, not a filter: give the files after -r and the filter last, as in -r {file} 'tcp'"
        ));
    }
    if let Some(word) = kernel_only_word(&expression) {
        match source {
            Source::Live(_) => {
                return Err(format!(
                    "filter '{expression}': {word} is known to the kernel only, and flowatch filters by the contents of \
                     frames; filter by address, as in 'ether src 02:00:00:00:00:01', or let tcpdump filter: \
                     tcpdump -i eth0 -w - {word} | flowatch watch -r -"
                ));
            }
            Source::Files(inputs) => {
                if let Some(input) = inputs.iter().find(|input| !has_direction(input)) {
                    return Err(format!(
                        "filter '{expression}': {word} is not known for packets of {input}, so nothing would match; \
                         only Linux cooked captures (tcpdump -i any) record it"
                    ));
                }
            }
        }
    }
    Ok(Some(expression))
}

/// Returns the first word of the expression that is in [`KERNEL_ONLY`].
fn kernel_only_word(expression: &str) -> Option<&str> {
    let mut before = "";
    for word in expression.split(|letter: char| letter.is_whitespace() || "()!&|".contains(letter))
    {
        if KERNEL_ONLY.contains(&word) && !NAME_QUALIFIERS.contains(&before) {
            return Some(word);
        }
        if !word.is_empty() {
            before = word;
        }
    }
    None
}

/// Whether a file records the direction of its packets. Also true for files that are empty or
/// cannot be opened: reading them reports the error.
fn has_direction(input: &Input) -> bool {
    if !input.is_repeatable() {
        return matches!(input, Input::Path(path) if !path.exists());
    }
    let Ok(mut file) = CaptureFiles::open(std::slice::from_ref(input)) else {
        return true;
    };
    loop {
        match file.receive() {
            Ok(Received::Burst(burst)) => {
                return matches!(burst.link, LinkType::LinuxSll | LinkType::LinuxSll2);
            }
            Ok(Received::Idle) => {}
            _ => return true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_kernel_only_words_unless_they_are_names() {
        for (expression, word) in [
            ("inbound", Some("inbound")),
            ("tcp and (not outbound)", Some("outbound")),
            ("!inbound&&tcp", Some("inbound")),
            ("ifindex 3", Some("ifindex")),
            ("host inbound", None),
            ("tcp port 80", None),
        ] {
            assert_eq!(kernel_only_word(expression), word, "{expression}");
        }
    }
}
