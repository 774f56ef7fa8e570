//! The memory of a flow in docs/analysis.md equals the size of its types.

use analysis::{FLOW_BYTES, FLOWS_PER_TCP_COLD, TCP_BYTES, TCP_COLD_BYTES};
use app::{Inspector, InspectorLimits};

const DOCS: &str = include_str!("../../../docs/analysis.md");

#[test]
fn docs_have_the_memory_of_a_flow() {
    let inspection = Inspector::BYTES_PER_FLOW;
    let texts = InspectorLimits::TEXT_BYTES_PER_FLOW;
    let udp = FLOW_BYTES + inspection + texts;
    let cold = TCP_COLD_BYTES / FLOWS_PER_TCP_COLD;
    let tcp = udp + TCP_BYTES + cold;
    for line in [
        format!("| any flow | {FLOW_BYTES} |"),
        format!("| TCP, in addition | {TCP_BYTES} |"),
        format!(
            "| cold TCP state ({TCP_COLD_BYTES} bytes a side), average share of a flow of the table | {cold} |"
        ),
        format!("| payload inspection, in addition | {inspection} |"),
        format!("| pool of texts, average share of a flow of the table | {texts} |"),
        format!("| a UDP flow with payload inspection and all shares | {udp} |"),
        format!("| a TCP flow with payload inspection and all shares | {tcp} |"),
        // With the handle in the slot of the table.
        format!(": {} and 1,{:03} in all.", udp + 4, tcp + 4 - 1000),
        format!(
            "that is 3,{:03} bytes of text",
            Inspector::TEXT_BYTES_PER_FLOW_MAX - 3000
        ),
    ] {
        assert!(DOCS.contains(&line), "docs/analysis.md lacks {line:?}");
    }
    assert!(udp + 4 <= 512, "the goal of a UDP flow: {udp}");
    assert!(tcp + 4 <= 1024, "the goal of a TCP flow: {tcp}");
}

/// The reported memory of payload inspection grows with the number of flows.
#[test]
fn reported_memory_grows_by_the_bytes_of_a_flow() {
    let memory = |flows| {
        let inspector = Inspector::new(
            flows,
            &InspectorLimits::default(),
            std::sync::Arc::default(),
            1,
        );
        inspector.unwrap().memory_bytes()
    };
    let (few, many) = (1 << 20, 1 << 21);
    let grown = memory(many) - memory(few);
    let expected =
        (many - few) * (Inspector::BYTES_PER_FLOW + InspectorLimits::TEXT_BYTES_PER_FLOW);
    // The pool of texts is a whole number of blocks.
    assert!(grown.abs_diff(expected) < 128, "{grown}, not {expected}");
}
