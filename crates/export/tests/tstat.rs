//! Tstat's logs: header lines, a small log byte by byte, and directories.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod samples;

use export::{ExportError, ExportOptions, Exporter};
use flow::{FlowDefinition, Record, RecordBatch};
use samples::{batch, dns, schema, tcp};
use std::fs;
use std::path::Path;

fn open(directory: &Path, suffix: &str, options: &ExportOptions) -> Box<dyn Exporter> {
    let spec = format!("tstat:{}{suffix}", directory.display());
    export::open(
        &spec.parse().unwrap(),
        &schema(FlowDefinition::Bidirectional),
        options,
    )
    .unwrap()
}

/// A complete connection, an incomplete one, and a UDP datagram.
fn records() -> [Record; 3] {
    let complete = Record {
        packets: [6, 4],
        bytes: [900, 5000],
        tcp_flags: [0x1b, 0x1b],
        ..tcp()
    };
    let open = Record {
        packets: [1, 0],
        tcp_flags: [0x02, 0],
        ..tcp()
    };
    [complete, open, dns()]
}

/// Without the analyser, only the columns of the record itself are filled: the others are zero, or
/// `-` for a name.
#[test]
fn small_log_matches_byte_for_byte() {
    let directory = tempfile::tempdir().unwrap();
    let mut exporter = open(directory.path(), "", &ExportOptions::default());
    let icmp = Record {
        key: wire::FlowKey {
            protocol: 1,
            ..tcp().key
        },
        ..tcp()
    };
    let [complete, nocomplete, udp] = records();
    let batch = batch(&[complete, nocomplete, udp, icmp]);
    exporter.write(&batch).unwrap();
    exporter.finish().unwrap();
    assert_eq!((exporter.written(), exporter.lost()), (3, 0));
    assert_eq!(exporter.left_out(), 1);

    let logs = directory.path().join("2024_02_29_12_34.out");
    let log = |name: &str| fs::read_to_string(logs.join(name)).unwrap();
    let complete = log("log_tcp_complete");
    let mut lines = complete.lines();
    let header = lines.next().unwrap();
    assert!(header.starts_with("#15#c_ip:1 c_port:2 c_pkts_all:3 c_rst_cnt:4 "));
    assert!(header.contains(" s_ip:15 ") && header.contains(" first:29 last:30 durat:31 "));
    assert!(header.contains(" con_t:42 p2p_t:43 http_t:44 c_rtt_avg:45 "));
    assert!(header.contains(" s_syn_retx:110 http_req_cnt:111 "));
    assert!(header.ends_with(" http_hostname:131 c_TLSvers:132 s_TLSvers:133 dns_enc:134"));
    let expected = format!(
        "128.232.110.120 34855 6 0 1 0 0 0 0 0 0 0 1 1 \
         66.35.250.204 80 4 0 1 0 0 0 0 0 0 0 1 1 \
         1709210096123.456 1709210098623.456 2500.000 0.000 0.000 0.000 0.000 0.000 0.000 0 0 0 0 0 0 0 \
         {rtt} {rtt} 0 0 0 0 0 0 {zeros} {zeros} 0 0 0 1 1 - - 0 0 0 0 0 0 0 0 0 - - 0 0.000 - - - 0",
        rtt = "0.000000 0.000000 0.000000 0.000000 0 0 0",
        zeros = ["0"; 23].join(" "),
    );
    assert_eq!(expected.split(' ').count(), 134);
    assert_eq!(lines.collect::<Vec<_>>(), [expected]);

    let nocomplete = log("log_tcp_nocomplete");
    let lines: Vec<&str> = nocomplete.lines().collect();
    assert_eq!(lines.len(), 2);
    assert!(lines[0].starts_with("#15#c_ip:1 ") && lines[0].ends_with(" http_t:44"));
    assert_eq!(lines[1].split(' ').count(), 44);

    let udp = log("log_udp_complete");
    let lines: Vec<&str> = udp.lines().collect();
    assert_eq!(
        lines[0],
        "#c_ip:1 c_port:2 c_first_abs:3 c_durat:4 c_bytes_all:5 c_pkts_all:6 c_isint:7 c_iscrypto:8 c_type:9 \
         s_ip:10 s_port:11 s_first_abs:12 s_durat:13 s_bytes_all:14 s_pkts_all:15 s_isint:16 s_iscrypto:17 s_type:18 \
         fqdn:19 quic_SNI:20 quic_UA:21 quic_c_vers:22 quic_s_vers:23 quic_zero_rtt:24"
    );
    assert_eq!(
        lines[1..],
        [
            "2001:db8::1:0:0:1 40000 1709210096000.000 0.000000 0 1 0 0 19 \
          2001:db8::53 53 0.000 0.000000 0 0 0 0 19 - - - - - 0"
        ]
    );
}

#[test]
fn logs_rotate_with_their_directory_and_are_compressed() {
    let directory = tempfile::tempdir().unwrap();
    let options = ExportOptions {
        rotation: Some("5m".parse().unwrap()),
        anonymised: true,
        ..ExportOptions::default()
    };
    let mut exporter = open(directory.path(), ",gz", &options);
    for minute in [0, 1, 6, 2] {
        let record = Record {
            end_ns: tcp().end_ns + minute * 60_000_000_000,
            ..records()[0]
        };
        exporter.write(&batch(&[record])).unwrap();
    }
    let names = || {
        let entries = fs::read_dir(directory.path()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert_eq!(
        names(),
        [
            "2024_02_29_12_30.out",
            "2024_02_29_12_35.out",
            "2024_02_29_12_40.out.partial"
        ]
    );
    exporter.finish().unwrap();
    assert_eq!(names()[2], "2024_02_29_12_40.out");
    assert_eq!(exporter.written(), 4);
    let bytes = fs::read(
        directory
            .path()
            .join("2024_02_29_12_40.out/log_tcp_complete.gz"),
    );
    let mut text = String::new();
    std::io::Read::read_to_string(
        &mut flate2::read::GzDecoder::new(&*bytes.unwrap()),
        &mut text,
    )
    .unwrap();
    assert_eq!(text.lines().count(), 3);
    // c_iscrypto and s_iscrypto.
    let columns: Vec<&str> = text.lines().nth(1).unwrap().split(' ').collect();
    assert_eq!([columns[39], columns[40]], ["1", "1"]);
}

#[test]
fn reports_and_recreates_a_removed_directory() {
    let directory = tempfile::tempdir().unwrap();
    let all = directory.path().join("logs");
    let mut exporter = open(&all, "", &ExportOptions::default());
    exporter.write(&batch(&records())).unwrap();
    exporter.flush().unwrap();
    fs::remove_dir_all(&all).unwrap();
    exporter.write(&batch(&records())).unwrap();
    // Pending lines go to new files; flushed ones are lost with the removed files.
    assert!(matches!(exporter.flush(), Err(ExportError::Removed { .. })));
    exporter.finish().unwrap();
    assert_eq!((exporter.written(), exporter.lost()), (3, 3));
    let logs = all.join("2024_02_29_12_34.out");
    for name in ["log_tcp_complete", "log_tcp_nocomplete", "log_udp_complete"] {
        let text = fs::read_to_string(logs.join(name)).unwrap();
        assert!(text.starts_with('#') && text.lines().count() == 2, "{text}");
    }
}

#[test]
fn records_are_lost_until_the_directory_can_be_recreated() {
    let directory = tempfile::tempdir().unwrap();
    let parent = directory.path().join("disk");
    fs::create_dir(&parent).unwrap();
    let all = parent.join("logs");
    let options = ExportOptions {
        rotation: Some("5m".parse().unwrap()),
        ..ExportOptions::default()
    };
    let mut exporter = open(&all, "", &options);
    fs::remove_dir_all(&parent).unwrap();
    let fault = exporter.write(&batch(&records())).unwrap_err();
    assert!(
        matches!(fault, ExportError::NoSuchDirectory { .. }),
        "{fault}"
    );
    assert_eq!((exporter.written(), exporter.lost()), (0, 3));
    fs::create_dir(&parent).unwrap();
    exporter.write(&batch(&records())).unwrap();
    exporter.finish().unwrap();
    assert_eq!((exporter.written(), exporter.lost()), (3, 3));
}

#[test]
fn requires_bidirectional_flows() {
    let directory = tempfile::tempdir().unwrap();
    let spec = format!("tstat:{}", directory.path().display());
    let opened = export::open(
        &spec.parse().unwrap(),
        &schema(FlowDefinition::FiveTuple),
        &ExportOptions::default(),
    );
    assert!(matches!(
        opened.err(),
        Some(ExportError::NotBidirectional { .. })
    ));
}

/// The eight anomalies and the names come from the analyser.
#[test]
fn fills_columns_from_the_analyser() {
    use app::{AppRecord, HttpRecord};
    let directory = tempfile::tempdir().unwrap();
    let mut exporter = open(directory.path(), "", &ExportOptions::default());
    let mut analysis = analysis::Analysis {
        tcp: Some(analysis::Tcp::default()),
        app: Some(AppRecord {
            http: Some(Box::new(HttpRecord {
                method: Some("POST".into()),
                host: Some("example.com".into()),
                status: Some(204),
                requests: 2,
                responses: 1,
                ..HttpRecord::default()
            })),
            ..AppRecord::default()
        }),
        ..analysis::Analysis::default()
    };
    analysis.cold[1].anomalies.classes = [1, 2, 3, 4, 5, 6, 7, 8];
    let batch = RecordBatch {
        analyses: vec![analysis].into(),
        ..batch(&records()[..1])
    };
    exporter.write(&batch).unwrap();
    exporter.finish().unwrap();
    let path = directory
        .path()
        .join("2024_02_29_12_34.out/log_tcp_complete");
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap().split(' ').collect();
    let values: Vec<&str> = lines.next().unwrap().split(' ').collect();
    for (name, value) in [
        ("s_pkts_rto", "1"),
        ("s_pkts_fs", "2"),
        ("s_pkts_reor", "3"),
        ("s_pkts_dup", "4"),
        ("s_pkts_fc", "5"),
        ("s_pkts_unrto", "6"),
        ("s_pkts_unfs", "7"),
        ("s_pkts_unk", "8"),
        ("c_pkts_rto", "0"),
        ("con_t", "1"),
        ("http_t", "2"),
        ("http_req_cnt", "2"),
        ("http_res_cnt", "1"),
        ("http_res", "204"),
        ("http_hostname", "example.com"),
        ("c_tls_SNI", "-"),
    ] {
        let column = header
            .iter()
            .position(|column| column.split(':').next() == Some(name));
        assert_eq!(values[column.unwrap()], value, "{name}");
    }
}
