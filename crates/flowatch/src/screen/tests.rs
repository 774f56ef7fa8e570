//! Tests of the screen's text at several sizes, with made-up figures, and of merging views.

use super::dashboard::Dashboard;
use super::palette::Palette;
use super::state::merge_views;
use super::{Measure, RunTitle, ScreenState};
use flow::view::{BIN_OF_ONE, BINS};
use flow::{EndReason, FlowDefinition, LiveView, Record};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Color;
use std::net::IpAddr;
use std::time::Duration;
use wire::FlowKey;

/// A TCP flow from port 51443 to 443, of packets of 1000 bytes.
pub(super) fn record(source: &str, destination: &str, bytes: u64, seconds: f64) -> Record {
    let octets = |text: &str| match text.parse().unwrap() {
        IpAddr::V4(address) => {
            let mut octets = [0; 16];
            octets[..4].copy_from_slice(&address.octets());
            (4, octets)
        }
        IpAddr::V6(address) => (6, address.octets()),
    };
    let (version, source) = octets(source);
    let (_, destination) = octets(destination);
    let start_ns = 1_700_000_000_000_000_000;
    Record {
        key: FlowKey {
            version,
            protocol: 6,
            source,
            destination,
            source_port: 51443,
            destination_port: 443,
            vlan: [0; 2],
        },
        start_ns,
        end_ns: start_ns + (seconds * 1e9) as i64,
        packets: [bytes / 1000, 0],
        bytes: [bytes, 0],
        tcp_flags: [0x1a, 0],
        icmp_type_code: 0,
        end_reason: EndReason::ActiveTimeout,
    }
}

pub(super) fn view(top: Vec<Record>) -> LiveView {
    let mut distribution = [0; BINS];
    for (index, count) in [40, 25, 12, 9, 6, 4, 2, 1, 1].into_iter().enumerate() {
        distribution[BIN_OF_ONE + index] = count;
    }
    LiveView {
        flows: 100,
        top,
        distribution,
    }
}

fn title() -> RunTitle {
    RunTitle {
        sources: "eth0, eth1@2".into(),
        filter: Some("tcp port 443 and not net 10.0.0.0/8".into()),
        engine: "run to completion, 2 queues, bucket table".into(),
        flow: FlowDefinition::FiveTuple,
        numeric: false,
        measure: Measure {
            name: "packets".into(),
            unit: "packets",
        },
        round: Duration::from_secs(5),
    }
}

fn ipv4_flows() -> Vec<Record> {
    (1..=30u64)
        .map(|index| {
            record(
                &format!("192.168.100.{}", 100 + index),
                "203.0.113.200",
                (40 - index) * 1_234_567,
                12.3,
            )
        })
        .collect()
}

/// A minute of 1.5 Mpps, of 600 bytes each.
fn state(seconds: u64, top: Vec<Record>) -> ScreenState {
    ScreenState {
        elapsed: Duration::from_secs(seconds),
        packets: seconds * 1_500_000,
        bytes: seconds * 900_000_000,
        flows: 65_536,
        records: Some(1_234_567),
        memory_bytes: 120 << 20,
        view: Some(view(top)),
        ..ScreenState::default()
    }
}

fn face(top: &[Record]) -> Dashboard {
    let mut face = Dashboard::new(title(), Palette::new(true, true));
    for second in 1..60 {
        face.update(&ScreenState {
            view: None,
            ..state(second, Vec::new())
        });
    }
    face.update(&state(60, top.to_vec()));
    face
}

fn buffer(face: &Dashboard, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal
        .draw(|frame| face.render(frame.area(), frame.buffer_mut()))
        .unwrap();
    terminal.backend().buffer().clone()
}

fn text(face: &Dashboard, width: u16, height: u16) -> Vec<String> {
    let buffer = buffer(face, width, height);
    let line = |y| {
        (0..width)
            .map(|x| buffer[(x, y)].symbol())
            .collect::<String>()
    };
    (0..height).map(|y| line(y).trim_end().to_owned()).collect()
}

fn find<'a>(lines: &'a [String], part: &str) -> &'a str {
    let found = lines.iter().find(|line| line.contains(part));
    found.unwrap_or_else(|| panic!("no {part:?} in\n{}", lines.join("\n")))
}

#[test]
fn vlan_tags_are_shown_if_there_are_any() {
    let mut flows = ipv4_flows();
    let untagged = text(&face(&flows), 120, 40);
    assert!(!untagged.iter().any(|line| line.contains("VLAN")));
    flows[0].key.vlan = [FlowKey::VLAN_PRESENT | 100, FlowKey::VLAN_PRESENT | 7];
    let tagged = text(&face(&flows), 120, 40);
    assert!(find(&tagged, "SOURCE").contains("VLAN"));
    assert!(find(&tagged, "192.168.100.101").contains(" 100/7 "));
}

#[test]
fn a_standard_terminal_shows_everything() {
    let lines = text(&face(&ipv4_flows()), 80, 24);
    assert_eq!(
        lines[0],
        format!(
            "flowatch  eth0, eth1@2  tcp port 443 and not net 10.0.0.0/8{:>21}",
            "00:01:00"
        )
    );
    assert_eq!(lines[1], "run to completion, 2 queues, bucket table");
    assert_eq!(
        lines[2],
        "                      now          mean          peak  total"
    );
    assert_eq!(
        lines[3],
        "  packets       1.50 Mpps     1.50 Mpps     1.50 Mpps  90,000,000"
    );
    assert_eq!(
        lines[4],
        "  traffic     7.20 Gbit/s   7.20 Gbit/s   7.20 Gbit/s  54.00 GB"
    );
    assert_eq!(
        lines[5],
        "  lost              0 pps         0 pps         0 pps  0 (0 %)"
    );
    assert_eq!(
        lines[6],
        "  flows            65,536   records 1,234,567   memory 120 MiB"
    );
    assert!(
        lines[7].starts_with("── packet rate, last 3m 54s ─"),
        "{}",
        lines[7]
    );
    assert!(lines[7].ends_with("─ top 1.50 Mpps ──"), "{}", lines[7]);
    // Three seconds a column.
    assert_eq!(lines[9], " ".repeat(59) + &"█".repeat(20));
    assert_eq!(
        lines[10],
        " SOURCE           PORT DESTINATION      PORT PROTO   PKTS BYTES▾  BIT/S  TIME"
    );
    assert_eq!(
        lines[11],
        " 192.168.100.101 51443 203.0.113.200     443 tcp   48.15k 48.15M 31.32M 12.3s"
    );
    assert!(lines[18].contains("192.168.100.108"));
    assert!(lines[19].starts_with("── flows by packets ─"));
    assert_eq!(
        lines[22],
        " 1     2     4     8     16    32    64    128   256"
    );
    assert_eq!(lines[23], "  q quit  p pause  s sort (bytes)  ? help");
}

#[test]
fn ipv6_addresses_are_shortened_only_if_there_is_no_room() {
    let long = "2001:db8:85a3:8d3:1319:8a2e:370:7348";
    let mut flows = ipv4_flows();
    flows.insert(0, record(long, "2001:db8::1", 90_000_000, 3720.0));
    let lines = text(&face(&flows), 80, 24);
    let line = find(&lines, "2001:db8::1 ");
    assert!(
        line.starts_with(" 2001:db8:85…2e:370:7348 51443 2001:db8::1"),
        "{line}"
    );
    assert!(find(&lines, "PKTS").ends_with("PROTO   PKTS BYTES▾  BIT/S"));
    find(&lines, "192.168.100.101 ");
    assert!(lines.iter().all(|line| line.chars().count() <= 80));

    let lines = text(&face(&flows), 200, 50);
    let line = find(&lines, long);
    assert!(line.contains("tcp    APS "), "{line}");
    assert!(line.contains("1h02m"), "{line}");
    // Beside the list: the distribution, with the share of each bin.
    assert!(find(&lines, "     256 ▋").ends_with("1.0 %"));
    find(&lines, "── flows by packets ─");
    find(&lines, "192.168.100.130");
}

#[test]
fn a_small_terminal_shows_the_most_important_figures() {
    let lines = text(&face(&ipv4_flows()), 20, 5);
    assert_eq!(
        lines,
        [
            "eth0, eth…  00:01:00",
            "1.50 Mpps",
            "7.20 Gbit/s",
            "lost 0 (0 %)",
            "65,536 flows"
        ]
    );
    assert_eq!(text(&face(&[]), 40, 1), ["1.50 Mpps  7.20 Gbit/s"]);
}

#[test]
fn no_size_panics() {
    let mut flows = ipv4_flows();
    flows.push(record(
        "2001:db8:85a3:8d3:1319:8a2e:370:7348",
        "2001:db8::1",
        1,
        0.0,
    ));
    let mut face = face(&flows);
    for help in [false, true] {
        face.help = help;
        for width in (0..30).chain([63, 64, 80, 109, 110, 139, 140, 141, 300]) {
            for height in (0..30).chain([40, 44, 100]) {
                let area = Rect::new(0, 0, width, height);
                face.render(area, &mut Buffer::empty(area));
            }
        }
    }
}

#[test]
fn loss_is_red_and_shown_by_reason() {
    let mut face = face(&ipv4_flows());
    let mut state = state(61, ipv4_flows());
    state.lost = 1098;
    state.lost_by = vec![("kernel", 1000), ("ring", 98)];
    face.update(&state);
    let lines = text(&face, 100, 24);
    assert_eq!(
        find(&lines, "  lost"),
        "  lost          1.10 kpps        18 pps     1.10 kpps  1,098 (0.0012 %)  kernel 1.00k, ring 98"
    );
    let buffer = buffer(&face, 100, 24);
    let red = |x: u16, y: u16| buffer[(x, y)].fg == Color::Red;
    assert!(red(60, 5));
    // In the chart, the column of that time, and no other.
    assert!(red(98, 9));
    assert!(!red(90, 9));
}

#[test]
fn no_cell_has_a_colour_if_colours_are_off() {
    let mut face = Dashboard::new(title(), Palette::new(false, false));
    let mut state = state(1, ipv4_flows());
    state.lost = 5;
    face.update(&state);
    let buffer = buffer(&face, 100, 30);
    for cell in buffer.content() {
        assert_eq!((cell.fg, cell.bg), (Color::Reset, Color::Reset));
        assert!(cell.symbol().is_ascii(), "{}", cell.symbol());
    }
}

#[test]
fn p_pauses_the_display_and_s_changes_the_order() {
    let mut flows = ipv4_flows();
    flows.push(record("198.51.100.9", "203.0.113.9", 1000, 3600.0));
    let mut face = face(&flows);
    face.press('p');
    face.update(&state(75, flows.clone()));
    let paused = text(&face, 80, 24);
    assert!(paused[0].ends_with(" PAUSED   00:01:00"), "{}", paused[0]);
    find(&paused, "90,000,000");
    face.press('s');
    face.press('s');
    face.press('s');
    let lines = text(&face, 80, 24);
    assert!(lines[11].starts_with(" 198.51.100.9 "), "{}", lines[11]);
    find(&lines, "TIME▾");
    find(&lines, "sort (time)");
    face.press('p');
    assert!(text(&face, 80, 24)[0].ends_with(" 00:01:15"));
}

#[test]
fn flow_keys_of_addresses_have_only_address_columns() {
    let mut one = RunTitle {
        flow: FlowDefinition::Source,
        ..title()
    };
    let heading = |title: &RunTitle| {
        let mut face = Dashboard::new(title.clone(), Palette::new(true, true));
        face.update(&state(1, ipv4_flows()));
        find(&text(&face, 80, 24), "BYTES")
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(heading(&one), "SOURCE PKTS BYTES▾ B/PKT BIT/S TIME");
    one.flow = FlowDefinition::SourceDestination;
    assert_eq!(
        heading(&one),
        "SOURCE DESTINATION PKTS BYTES▾ B/PKT BIT/S TIME"
    );
}

#[test]
fn before_the_first_view_the_screen_says_when_it_will_appear() {
    let mut face = Dashboard::new(title(), Palette::new(true, true));
    face.update(&ScreenState {
        elapsed: Duration::from_millis(100),
        ..ScreenState::default()
    });
    let lines = text(&face, 80, 24);
    find(
        &lines,
        "flows appear after the first sweep of the table (5.00 s)",
    );
    find(&lines, "0 pps");
}

#[test]
fn merging_views_adds_flows_with_the_same_key() {
    let flow = |address: &str, bytes| record(address, "203.0.113.1", bytes, 1.0);
    let first = view(vec![flow("192.0.2.1", 9000), flow("192.0.2.2", 5000)]);
    let second = view(vec![flow("192.0.2.3", 7000), flow("192.0.2.2", 4500)]);
    let merged = merge_views([first, second]).unwrap();
    assert_eq!(merged.flows, 200);
    assert_eq!(merged.distribution[BIN_OF_ONE], 80);
    let bytes: Vec<u64> = merged.top.iter().map(|record| record.bytes[0]).collect();
    assert_eq!(bytes, [9500, 9000]);
    assert_eq!(merged.top[0].packets[0], 9);
    assert!(merge_views([]).is_none());
}
