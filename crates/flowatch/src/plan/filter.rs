//! The filter expression, and what cannot be asked of it.

use super::Source;
use port::{CaptureFiles, Input, Port, Received};
use std::path::Path;
use wire::LinkType;

/// What only the kernel knows of a packet, and captures of Linux' cooked links.
const OF_THE_KERNEL: [&str; 3] = ["inbound", "outbound", "ifindex"];

/// Before these names, such a word is a name too.
const BEFORE_A_NAME: [&str; 7] = ["host", "net", "port", "src", "dst", "gateway", "proto"];

/// The expression that the words make, if there are any.
///
/// # Errors
/// One line: a file among words that make none, or what files do not tell.
pub(super) fn expression(words: &[String], source: &Source) -> Result<Option<String>, String> {
    if words.is_empty() {
        return Ok(None);
    }
    let expression = words.join(" ");
    if let Some(file) = file_among(words)
        && port::filter::check(&expression).is_err()
    {
        return Err(format!(
            "'{file}' is a file, and no filter: give each file its own -r, as in -r {file}"
        ));
    }
    if let Some(word) = asks_the_kernel(&expression) {
        match source {
            Source::Live(_) => {
                return Err(format!(
                    "filter '{expression}': {word} is known to the kernel alone, and flowatch filters what is in the \
                     frames; tell them apart by address, as in 'ether src 02:00:00:00:00:01', or read what tcpdump \
                     lets through: tcpdump -i eth0 -w - {word} | flowatch watch -r -"
                ));
            }
            Source::Files(inputs) => {
                if let Some(input) = inputs.iter().find(|input| !tells_direction(input)) {
                    return Err(format!(
                        "filter '{expression}': {word} is not known of packets of {input}, and nothing would match; \
                         captures of Linux' cooked links (tcpdump -i any) tell it"
                    ));
                }
            }
        }
    }
    Ok(Some(expression))
}

/// The first word that is the name of a file.
pub(super) fn file_among(words: &[String]) -> Option<&str> {
    let mut words = words.iter().map(String::as_str);
    words.find(|word| Path::new(word).is_file())
}

/// The first of [`OF_THE_KERNEL`] that is asked for.
fn asks_the_kernel(expression: &str) -> Option<&str> {
    let mut before = "";
    for word in expression.split(|letter: char| letter.is_whitespace() || "()!&|".contains(letter))
    {
        if OF_THE_KERNEL.contains(&word) && !BEFORE_A_NAME.contains(&before) {
            return Some(word);
        }
        if !word.is_empty() {
            before = word;
        }
    }
    None
}

/// Whether the packets of a file tell which way they went. What cannot be opened, or is empty, is told
/// of when it is read.
fn tells_direction(input: &Input) -> bool {
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
    fn words_of_the_kernel_are_found_where_they_are_no_names() {
        for (expression, word) in [
            ("inbound", Some("inbound")),
            ("tcp and (not outbound)", Some("outbound")),
            ("!inbound&&tcp", Some("inbound")),
            ("ifindex 3", Some("ifindex")),
            ("host inbound", None),
            ("tcp port 80", None),
        ] {
            assert_eq!(asks_the_kernel(expression), word, "{expression}");
        }
    }
}
