//! `cargo xtask golden`: tables that other programs make from captures. They are committed in
//! `tests/golden`, so that tests can compare with them on machines without those programs.
//!
//! A new table needs an entry in [`TABLES`] and the function that makes it.

mod names;
mod tcp;
mod tshark;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};

use crate::workspace::{self, command, output};

/// A table and the program that makes it.
struct Table {
    file: &'static str,
    /// The program that the function runs.
    program: &'static str,
    /// Whether the table is made from the shared captures, which not every machine has.
    uses_shared: bool,
    make: fn(captures: &Path) -> anyhow::Result<String>,
}

const TABLES: [Table; 4] = [
    Table {
        file: "capinfos.tsv",
        program: "capinfos",
        uses_shared: false,
        make: capinfos,
    },
    Table {
        file: "example_flows.tsv",
        program: "tshark",
        uses_shared: false,
        make: example_flows,
    },
    Table {
        file: "names.tsv",
        program: "tshark",
        uses_shared: true,
        make: names::make,
    },
    Table {
        file: "tcp.tsv",
        program: "tshark",
        uses_shared: true,
        make: tcp::make,
    },
];

pub(crate) fn run(check: bool) -> anyhow::Result<()> {
    let root = workspace::root();
    let captures = root.join("tests/captures");
    let directory = root.join("tests/golden");
    fs::create_dir_all(&directory)?;
    let shared = traffic::find()?;
    let mut differing = Vec::new();
    for table in TABLES {
        if table.uses_shared && shared.is_none() {
            println!(
                "golden: {} is skipped: no shared captures; set FLOWATCH_TRAFFIC",
                table.file
            );
            continue;
        }
        let path = directory.join(table.file);
        ensure!(
            workspace::on_path(table.program),
            "{} is made by {}, which is not installed: run ./setup --golden",
            table.file,
            table.program
        );
        let made = (table.make)(&captures).context(table.file)?;
        let committed = fs::read_to_string(&path).unwrap_or_default();
        if made == committed {
            println!("golden: {} agrees with {}", table.file, table.program);
        } else if check {
            println!(
                "golden: {} differs from the output of {}:",
                table.file, table.program
            );
            print!("{}", difference(&committed, &made));
            differing.push(table.file);
        } else {
            fs::write(&path, made)?;
            println!("golden: {} written", table.file);
        }
    }
    if !differing.is_empty() {
        bail!("golden tables differ: {}", differing.join(", "));
    }
    Ok(())
}

/// The lines that only one side has.
fn difference(committed: &str, made: &str) -> String {
    let only = |sign: char, of: &str, other: &str| {
        let missing = |line: &&str| !other.lines().any(|candidate| candidate == *line);
        let lines = of.lines().filter(missing);
        lines
            .map(|line| format!("{sign}{line}\n"))
            .collect::<String>()
    };
    only('-', committed, made) + &only('+', made, committed)
}

/// Packets and bytes of each capture.
fn capinfos(captures: &Path) -> anyhow::Result<String> {
    let mut table = String::from("file\ttype\tencapsulation\tpackets\tdata_bytes\n");
    for path in capture_files(captures)? {
        let line = output(command(
            "capinfos",
            &["-T", "-r", "-t", "-E", "-c", "-d", &path.to_string_lossy()],
        ))?;
        let line = String::from_utf8(line)?;
        let (_, columns) = line.trim_end().split_once('\t').context("no columns")?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        writeln!(table, "{name}\t{columns}")?;
    }
    Ok(table)
}

fn capture_files(captures: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(captures)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|kind| kind == "pcap" || kind == "pcapng")
        {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The fields that tshark prints of each packet. Of a field that occurs more than once it prints the
/// first, which is that of the outermost header.
const FIELDS: [&str; 12] = [
    "frame.protocols",
    "frame.len",
    "ip.src",
    "ip.dst",
    "ip.proto",
    "ipv6.src",
    "ipv6.dst",
    "ipv6.nxt",
    "tcp.srcport",
    "tcp.dstport",
    "udp.srcport",
    "udp.dstport",
];

/// Unidirectional flows of the example by the 5-tuple of the outermost IP header, after Ethernet and
/// VLAN tags only. Fragments are not reassembled. Ports are 0 if there are none; bytes are lengths on
/// the wire.
fn example_flows(captures: &Path) -> anyhow::Result<String> {
    let example = captures.join("example.pcap");
    let mut tshark = command("tshark", &["-n", "-r", &example.to_string_lossy()]);
    tshark.args(["-o", "ip.defragment:FALSE", "-o", "ipv6.defragment:FALSE"]);
    tshark.args(["-T", "fields", "-E", "occurrence=f"]);
    for field in FIELDS {
        tshark.args(["-e", field]);
    }
    let mut flows: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for line in String::from_utf8(output(tshark)?)?.lines() {
        let values: Vec<&str> = line.split('\t').collect();
        let Ok(values) = <[&str; FIELDS.len()]>::try_from(values) else {
            bail!("tshark printed {line:?}");
        };
        if let Some(flow) = flow_of(&values) {
            let (packets, bytes) = flows.entry(flow).or_default();
            *packets += 1;
            *bytes += values[1].parse::<u64>()?;
        }
    }
    let mut table = String::from(
        "sourceAddress\tdestinationAddress\tprotocolIdentifier\tsourceTransportPort\t\
         destinationTransportPort\tpackets\tbytes\n",
    );
    for (flow, (packets, bytes)) in flows {
        writeln!(table, "{flow}\t{packets}\t{bytes}")?;
    }
    Ok(table)
}

/// The 5-tuple from the values of [`FIELDS`]; `None` for packets without IP, or with MPLS or PPPoE
/// before it.
fn flow_of(values: &[&str; FIELDS.len()]) -> Option<String> {
    let layers: Vec<&str> = values[0].split(':').collect();
    let ip = layers
        .iter()
        .position(|layer| ["ip", "ipv6"].contains(layer))?;
    let only_tags = |layer: &&str| ["eth", "ethertype", "vlan", "ieee8021ad"].contains(layer);
    if !layers[..ip].iter().all(only_tags) {
        return None;
    }
    // tshark reports extension headers as layers such as `ipv6.hopopts`.
    let transport = layers[ip + 1..]
        .iter()
        .find(|layer| !layer.starts_with("ipv6."))
        .unwrap_or(&"");
    let [source, destination, first_protocol] = if layers[ip] == "ip" {
        [values[2], values[3], values[4]]
    } else {
        [values[5], values[6], values[7]]
    };
    let (protocol, ports) = match *transport {
        "tcp" => ("6", [values[8], values[9]]),
        "udp" => ("17", [values[10], values[11]]),
        "icmpv6" => ("58", ["0", "0"]),
        _ => (first_protocol, ["0", "0"]),
    };
    let [from, to] = ports;
    Some(format!("{source}\t{destination}\t{protocol}\t{from}\t{to}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flow_is_that_of_the_outermost_header() {
        let line = "eth:ethertype:ipv6:ipv6.hopopts:udp:lisp:ip:tcp|90|1.1.1.1|2.2.2.2|6|::1|::2|0|9|8|7|6";
        let values: Vec<&str> = line.split('|').collect();
        let flow = flow_of(&values.try_into().unwrap());
        assert_eq!(flow.as_deref(), Some("::1\t::2\t17\t7\t6"));
        let arp = "eth:ethertype:arp|42||||||||||"
            .split('|')
            .collect::<Vec<_>>();
        assert_eq!(flow_of(&arp.try_into().unwrap()), None);
        let mpls = "eth:ethertype:mpls:ip:udp|99|1.1.1.1|2.2.2.2|17||||||7|6";
        let mpls: Vec<&str> = mpls.split('|').collect();
        assert_eq!(flow_of(&mpls.try_into().unwrap()), None);
    }

    #[test]
    fn a_difference_shows_both_sides() {
        assert_eq!(difference("a\nb\n", "a\nc\n"), "-b\n+c\n");
    }
}
