//! Rows and columns.

use super::*;
use std::collections::HashSet;

const COLUMNS: usize = 1 << 10;
const KEYS: u128 = 1 << 16;

/// Keys as traffic has them: two addresses that count upwards.
fn structured_keys() -> Vec<u128> {
    let key = |i: u128| (0x0a00_0000 + (i & 0xff)) << 64 | (0xc0a8_0000 + (i >> 8)) << 32 | 0x01bb;
    (0..KEYS).map(key).collect()
}

fn hashes(keys: &[u128]) -> Vec<u64> {
    let mut hashes = vec![0; keys.len()];
    Seed::new(9).hash().hash(keys, &mut hashes);
    hashes
}

/// Returns how many keys have the same columns in all rows as another.
fn equal_in_all_rows(columns_of: impl Fn(usize) -> [usize; 4]) -> usize {
    let all: HashSet<_> = (0..KEYS as usize).map(columns_of).collect();
    KEYS as usize - all.len()
}

/// Trap "rows from one linear hash": rows from CRC32C with other initial values differ by a constant,
/// and are one row. The same count must be large for them, or this test finds nothing.
#[test]
fn keys_that_collide_in_one_row_do_not_collide_in_all() {
    let keys = structured_keys();
    let hashes = hashes(&keys);
    let ours = |key: usize| [0, 1, 2, 3].map(|row| column_of(hashes[key], row, COLUMNS));
    assert_eq!(equal_in_all_rows(ours), 0);
    let linear = |key: usize| {
        let checksum = hw::crc32c::bytes(&keys[key].to_le_bytes()) as usize;
        [0x12, 0x123, 0x3a1, 0x155].map(|constant| (checksum ^ constant) % COLUMNS)
    };
    assert!(equal_in_all_rows(linear) > 1000);
}

/// Trap "RSS and the row use the same bits": the keys of one queue use all columns of each row. Columns
/// from the hash that chose the queue are half unused.
#[test]
fn keys_of_one_queue_use_all_columns() {
    let mut keys = structured_keys();
    let rss = |key: &u128| {
        let columns = hw::crc32c::bytes(&key.to_le_bytes()) as usize;
        columns % COLUMNS
    };
    keys.retain(|key| rss(key) % 2 == 0);
    let hashes = hashes(&keys);
    for row in 0..MOST_ROWS {
        let used: HashSet<_> = hashes
            .iter()
            .map(|&hash| column_of(hash, row, COLUMNS))
            .collect();
        assert_eq!(used.len(), COLUMNS, "row {row}");
        // Even if a bit of our own hash had chosen the queue.
        let halved = hashes.iter().filter(|hash| *hash & 1 == 0);
        let used: HashSet<_> = halved.map(|&hash| column_of(hash, row, COLUMNS)).collect();
        assert_eq!(used.len(), COLUMNS, "row {row}");
    }
    let used: HashSet<_> = keys.iter().map(rss).collect();
    assert!(used.len() <= COLUMNS / 2);
}

#[test]
fn columns_are_even() {
    let hashes = hashes(&structured_keys());
    for row in 0..MOST_ROWS {
        let mut counts = vec![0i32; 1000];
        for &hash in &hashes {
            counts[column_of(hash, row, 1000)] += 1;
        }
        // Mean 66, standard deviation 8.
        assert!(
            counts.iter().all(|count| (count - 66).abs() < 60),
            "row {row}"
        );
    }
}

#[test]
fn dimensions_follow_from_error_and_confidence_or_memory() {
    let options = CountMinOptions::new(1, 1).with_error(0.001, 0.98).unwrap();
    assert_eq!((options.rows, options.columns), (4, 2719));
    for (error, confidence) in [
        (0.0, 0.9),
        (0.1, 1.0),
        (-1.0, 0.5),
        (f64::NAN, 0.5),
        (0.1, f64::NAN),
    ] {
        assert!(
            CountMinOptions::new(1, 1)
                .with_error(error, confidence)
                .is_err()
        );
    }
    let options = CountMinOptions {
        candidates: 100,
        ..CountMinOptions::new(4, 1)
    };
    let options = options.with_memory(100_000).unwrap();
    let memory = CountMin::new(options, Seed::new(1)).unwrap().memory();
    assert!((99_900..=100_000).contains(&memory), "{memory}");
    assert!(options.with_memory(1000).is_err());
    assert!(CountMin::new(CountMinOptions::new(9, 8), Seed::new(1)).is_err());
}
