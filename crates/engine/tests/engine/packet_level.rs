//! Packet level: exact totals without flows.

use crate::runs;
use engine::{Level, Model, Options};
use port::Port;

#[test]
fn counts_packets_and_bytes_only() {
    let packets: Vec<(u8, i64)> = (0..70_000u32).map(|n| (n as u8, i64::from(n))).collect();
    let memory = runs::memory(&packets);
    for queues in [1, 3] {
        let options = Options {
            level: Level::Packet,
            ..Options::default()
        };
        let ports = (0..queues)
            .map(|_| Box::new(memory.clone()) as Box<dyn Port>)
            .collect();
        let result = runs::run(&options, ports, false);
        let books = &result.report.books;
        let packets = 70_000 * queues as u64;
        assert_eq!(
            (books.counted_only.packets, books.counted_only.bytes),
            (packets, packets * 64)
        );
        assert_eq!(books.received, books.counted_only);
        assert_eq!(books.without_flow().packets, 0);
        assert!(result.records.is_empty());
    }
}

#[test]
fn threads_that_share_the_reading_count_each_packet_once() {
    let memory = runs::memory(&[(1, 0), (2, 1), (9, 2)]);
    let options = Options {
        model: Model::SharedReading,
        monitors: 3,
        level: Level::Packet,
        ..Options::default()
    };
    let result = runs::run(&options, vec![Box::new(memory)], false);
    assert_eq!(result.report.books.counted_only.packets, 3);
    assert_eq!(result.report.measurements[0].counted.packets, 3);
}
