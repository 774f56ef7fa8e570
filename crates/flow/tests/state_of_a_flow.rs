//! What docs/analysis.md says of the memory of a flow is what its types take.

use flow::analysis::{Anomalies, FLOW_BYTES, TCP_BYTES};
use flow::names::{Names, NamesLimits};

#[test]
fn the_state_of_a_flow_is_what_the_docs_say() {
    let docs = include_str!("../../../docs/analysis.md");
    let anomalies = size_of::<[Anomalies; 2]>();
    let [names_of_tcp, names_of_udp] = Names::bytes_per_flow_max(&NamesLimits::default());
    for line in [
        format!("| any flow | {FLOW_BYTES} |"),
        format!("| TCP, besides | {TCP_BYTES} |"),
        format!("| TCP with anomalies, besides | {anomalies} |"),
        format!("| names of a TCP flow, at most | {names_of_tcp} |"),
        format!("| names of a UDP flow, at most | {names_of_udp} |"),
    ] {
        assert!(docs.contains(&line), "docs/analysis.md lacks {line:?}");
    }
}
