//! What docs/analysis.md says of the memory of a flow is what its types take.

use analysis::{FLOW_BYTES, RARE_BYTES, RARE_SHARE, TCP_BYTES};
use app::{Names, NamesLimits};

const DOCS: &str = include_str!("../../../docs/analysis.md");

#[test]
fn the_state_of_a_flow_is_what_the_docs_say() {
    let names = Names::BYTES_PER_FLOW;
    let texts = NamesLimits::TEXT_BYTES;
    let udp = FLOW_BYTES + names + texts;
    let rare = RARE_BYTES / RARE_SHARE;
    let tcp = udp + TCP_BYTES + rare;
    for line in [
        format!("| any flow | {FLOW_BYTES} |"),
        format!("| TCP, besides | {TCP_BYTES} |"),
        format!(
            "| places of {RARE_BYTES} bytes for what is rare of a side of TCP, a flow of the table on average | {rare} |"
        ),
        format!("| names, besides | {names} |"),
        format!("| texts of names, a flow of the table on average | {texts} |"),
        format!("| a UDP flow, all names and the shares included | {udp} |"),
        format!("| a TCP flow, likewise | {tcp} |"),
        // With the handle in the slot.
        format!(": {} and 1,{:03} in all.", udp + 4, tcp + 4 - 1000),
        format!(
            "that is 3,{:03} bytes of text",
            Names::TEXT_BYTES_PER_FLOW_MAX - 3000
        ),
    ] {
        assert!(DOCS.contains(&line), "docs/analysis.md lacks {line:?}");
    }
    assert!(udp + 4 <= 512, "the goal of a UDP flow: {udp}");
    assert!(tcp + 4 <= 1024, "the goal of a TCP flow: {tcp}");
}

/// The memory that a table's names are said to take grows by what a flow takes.
#[test]
fn a_flow_more_is_that_many_bytes_more() {
    let memory = |flows| {
        let names = Names::new(flows, &NamesLimits::default(), std::sync::Arc::default(), 1);
        names.unwrap().memory_bytes()
    };
    let (few, many) = (1 << 20, 1 << 21);
    let grown = memory(many) - memory(few);
    let expected = (many - few) * (Names::BYTES_PER_FLOW + NamesLimits::TEXT_BYTES);
    // The pool of texts is a whole number of blocks.
    assert!(grown.abs_diff(expected) < 128, "{grown}, not {expected}");
}
