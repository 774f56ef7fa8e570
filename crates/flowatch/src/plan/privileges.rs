//! The user of a run, and what it needs after its inputs and outputs are open.

use super::error::PlanError;
use super::source::Source;
use crate::arguments::privileges::PrivilegeArguments;
use crate::sources;
use ::engine::Options;
use export::{Endpoint, Spec};
use hw::schedule::Schedule;
use port::Input;
use sandbox::{Exemptions, Needs, User};
use std::path::PathBuf;

/// What a run gives up, and what it keeps.
#[derive(Debug)]
pub(crate) struct Privileges {
    /// The user to change to.
    pub(crate) user: Option<User>,
    /// The parts of the sandbox that are off.
    pub(crate) exemptions: Exemptions,
    /// What the run needs.
    pub(crate) needs: Needs,
}

pub(super) fn privileges(
    flags: &PrivilegeArguments,
    source: &Source,
    outputs: &[Spec],
    engine: &Options,
    filter: &[String],
) -> Result<Privileges, PlanError> {
    let user = flags.user.as_deref().map(User::find).transpose();
    Ok(Privileges {
        user: user.map_err(|error| error.to_string())?,
        exemptions: Exemptions::new(flags.no_sandbox.clone())?,
        needs: Needs {
            network: has_network_output(outputs) || has_name(&filter.join(" ")),
            ..needs(source, outputs, engine)
        },
    })
}

fn needs(source: &Source, outputs: &[Spec], engine: &Options) -> Needs {
    let mut needs = Needs {
        real_time: engine
            .schedules
            .iter()
            .any(|schedule| *schedule != Schedule::Other),
        ..Needs::default()
    };
    match source {
        Source::Files(inputs) => needs.reads = inputs.iter().filter_map(path).collect(),
        Source::Live(names) => needs.dpdk = sources::use_dpdk(names),
    }
    for spec in outputs {
        if let Some(Endpoint::Tcp(address)) = spec.target.endpoint() {
            needs.tcp_ports.push(address.port);
        }
        needs.writes.extend(spec.target.path().map(PathBuf::from));
    }
    needs
}

fn has_network_output(outputs: &[Spec]) -> bool {
    outputs.iter().any(|spec| spec.target.endpoint().is_some())
}

/// Words of pcap-filter(7). A filter with another word may hold the name of a host, network, port or
/// protocol, which libpcap looks up.
#[rustfmt::skip]
const FILTER_WORDS: &[&str] = &[
    "and", "or", "not", "host", "net", "mask", "port", "portrange", "src", "dst", "ether", "ip", "ip6",
    "tcp", "udp", "icmp", "icmp6", "sctp", "arp", "rarp", "vlan", "mpls", "pppoed", "pppoes", "proto",
    "broadcast", "multicast", "less", "greater", "len", "inbound", "outbound", "link", "geneve", "vxlan",
    "llc", "stp", "igmp", "esp", "ah", "vrrp", "carp", "pim",
];

fn has_name(filter: &str) -> bool {
    let is_in_word = |letter: char| letter.is_alphanumeric() || "._-:".contains(letter);
    let mut words = filter.split(|letter| !is_in_word(letter));
    words.any(|word| !word.is_empty() && !is_number(word) && !FILTER_WORDS.contains(&word))
}

/// Whether a word is a number, a range of them, or an address.
fn is_number(word: &str) -> bool {
    let digits = word.strip_prefix("0x").unwrap_or(word);
    let is_hexadecimal = |letter: char| letter.is_ascii_hexdigit() || ".:-".contains(letter);
    digits.chars().all(is_hexadecimal)
        && digits.contains(|letter: char| letter.is_ascii_digit() || letter == ':')
}

fn path(input: &Input) -> Option<PathBuf> {
    match input {
        Input::Path(path) => Some(path.clone()),
        Input::StandardInput => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_with_names_need_the_resolver() {
        for filter in [
            "",
            "tcp port 443 and not (host 192.0.2.1 or net 10.0.0.0/8)",
            "ip6 host 2001:db8::1 or ether src aa:bb:cc:dd:ee:ff",
            "tcp[13] & 0x2f != 0 and portrange 1-1023",
        ] {
            assert!(!has_name(filter), "{filter}");
        }
        for filter in [
            "host example.com",
            "tcp port http",
            "host 1.2.3.4 or beef",
            "ip proto ospf",
        ] {
            assert!(has_name(filter), "{filter}");
        }
    }
}
