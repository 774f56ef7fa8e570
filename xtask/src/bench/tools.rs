//! The measured programs, and the command of each for the same work: read the capture, account for
//! its flows, write a record of each.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use crate::workspace;

/// The role of a program in the comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Role {
    /// Reads the capture and does less work than a flow meter: a lower bound.
    Bound,
    /// Another flow meter.
    Meter,
    /// flowatch, which is compared with the others.
    Flowatch,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) role: Role,
    call: Call,
    /// The text before the number of flows in its output.
    pub(crate) flows_label: Option<&'static str>,
}

#[derive(Clone, Copy, Debug)]
enum Call {
    BareLoop,
    Tcpdump,
    Nfpcapd,
    Softflowd,
    Yaf,
    Flowatch {
        flow: &'static str,
        format: &'static str,
    },
}

/// The name of the lower bound that reads and counts flows.
pub(crate) const BARE_LOOP: &str = "bare loop";

const FLOWATCH: fn(&'static str, &'static str, &'static str) -> Tool = |name, flow, format| Tool {
    name,
    role: Role::Flowatch,
    call: Call::Flowatch { flow, format },
    flows_label: Some("\"flows\":"),
};

/// All programs, in the order of the first round.
pub(crate) fn all() -> Vec<Tool> {
    let tool = |name, role, call, flows_label| Tool {
        name,
        role,
        call,
        flows_label,
    };
    vec![
        tool(BARE_LOOP, Role::Bound, Call::BareLoop, Some("flows: ")),
        FLOWATCH("flowatch 5tuple csv", "5tuple", "csv"),
        FLOWATCH("flowatch 5tuple json", "5tuple", "json"),
        FLOWATCH("flowatch 5tuple parquet", "5tuple", "parquet"),
        FLOWATCH("flowatch bidirectional csv", "bidirectional", "csv"),
        FLOWATCH("flowatch bidirectional json", "bidirectional", "json"),
        FLOWATCH("flowatch bidirectional parquet", "bidirectional", "parquet"),
        tool("tcpdump", Role::Bound, Call::Tcpdump, None),
        tool("nfpcapd", Role::Meter, Call::Nfpcapd, Some(" Flows: ")),
        tool(
            "softflowd",
            Role::Meter,
            Call::Softflowd,
            Some("Flows exported: "),
        ),
        tool("yaf", Role::Meter, Call::Yaf, Some("Exported ")),
    ]
}

impl Tool {
    /// The program that must be installed; `None` if this repository builds it.
    pub(crate) fn program(&self) -> Option<&'static str> {
        match self.call {
            Call::BareLoop | Call::Flowatch { .. } => None,
            Call::Tcpdump => Some("tcpdump"),
            Call::Nfpcapd => Some("nfpcapd"),
            Call::Softflowd => Some("softflowd"),
            Call::Yaf => Some("yaf"),
        }
    }

    /// The command that reads `capture` of about 2^`log2_flows` flows and writes to `directory`, or
    /// sends to `collector`.
    pub(crate) fn command(
        &self,
        capture: &Path,
        log2_flows: u32,
        directory: &Path,
        collector: SocketAddr,
    ) -> Command {
        let capture = capture.to_string_lossy();
        let inside = |name: &str| directory.join(name).to_string_lossy().into_owned();
        let built = |name: &str| {
            let path = workspace::target().join("release").join(name);
            path.to_string_lossy().into_owned()
        };
        match self.call {
            Call::BareLoop => {
                // The table is then at most half full.
                let entries = (log2_flows + 1).to_string();
                workspace::command(&built("bare_loop"), &[&capture, &entries])
            }
            Call::Tcpdump => {
                workspace::command("tcpdump", &["-n", "-r", &capture, "-w", "/dev/null"])
            }
            Call::Nfpcapd => workspace::command(
                "nfpcapd",
                &["-r", &capture, "-w", &directory.to_string_lossy()],
            ),
            // Its default maximum is 8192 flows; beyond that it would end flows early.
            Call::Softflowd => workspace::command(
                "softflowd",
                &[
                    "-d",
                    "-r",
                    &capture,
                    "-v",
                    "9",
                    "-m",
                    "1000000",
                    "-c",
                    "none",
                    "-p",
                    &inside("pid"),
                    "-n",
                    &collector.to_string(),
                ],
            ),
            Call::Yaf => workspace::command("yaf", &["--in", &capture, "--out", &inside("yaf")]),
            Call::Flowatch { flow, format } => {
                // Parquet goes to a directory, because it is written as several files.
                let target = match format {
                    "parquet" => format!("{format}:{}", directory.to_string_lossy()),
                    _ => format!("{format}:{}", inside(&format!("flows.{format}"))),
                };
                workspace::command(
                    &built("flowatch"),
                    &[
                        "watch",
                        "-q",
                        // Runs follow each other.
                        "--overwrite",
                        "-r",
                        &capture,
                        "--flow",
                        flow,
                        "-o",
                        &target,
                        "--summary",
                        "json",
                    ],
                )
            }
        }
    }
}

/// The sum of the numbers that follow `label` in `text`.
pub(crate) fn labelled_sum(text: &str, label: &str) -> Option<u64> {
    text.match_indices(label)
        .filter_map(|(at, _)| {
            let after = text[at + label.len()..].trim_start();
            let end = after
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(after.len());
            after[..end].parse::<u64>().ok()
        })
        .reduce(|sum, number| sum + number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_after_a_label_are_added() {
        let text = "Ident: 'none' Flows: 12, Packets: 3\nIdent: 'none' Flows: 30,";
        assert_eq!(labelled_sum(text, " Flows: "), Some(42));
        assert_eq!(labelled_sum("{\"flows\": 7}", "\"flows\":"), Some(7));
        assert_eq!(labelled_sum("none", "Flows: "), None);
    }
}
