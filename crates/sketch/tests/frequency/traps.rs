//! The traps of docs/sketches.md, as far as they are not beside the code or in the other files here: rows
//! of one hash and bits of RSS are in `count_min`, the loose bound in `bounds`, seeds and merges in
//! `merging`.

use crate::streams::{Stream, hashed};
use hw::random::Random;
use sketch::count_min::CountMinOptions;
use sketch::reversible::{MOST_FILL, Unrecoverable};
use sketch::{
    CountMin, FrequencySketch, HeavyHitters, Policy, Reversible, ReversibleOptions, Seed,
    SimpleTable, Sketch, Updates, Weights, Width,
};

const SEED: Seed = Seed::new(61);

/// Trap "running heavy hitter": what is offered at a carry only must not miss the flows of a short
/// interval, none of which reaches a carry, and estimates must be current at its end.
#[test]
fn candidates_of_a_short_interval_are_complete_and_current() {
    for (packets, expected) in [(300, 1.0), (3000, 1.0), (300_000, 0.98)] {
        let stream = Stream::zipf(packets, 20_000, 1.0, 1);
        let options = CountMinOptions {
            candidates: 400,
            ..CountMinOptions::new(4, 8192)
        };
        let mut sketch = CountMin::new(options, SEED).unwrap();
        stream.count_packets(&mut sketch, SEED);
        let found = sketch.heavy_hitters(1);
        let heaviest = stream.heaviest(200);
        let is_found = |key: &&u128| found.iter().any(|found| found.key == **key);
        let recall = heaviest.iter().filter(is_found).count() as f64 / heaviest.len() as f64;
        assert!(recall >= expected, "{recall} of {packets} packets");
        for found in &found {
            assert!(found.estimate.value >= stream.packets[&found.key]);
        }
        let list = sketch.candidates().unwrap();
        for entry in list.entries() {
            assert_eq!(entry.estimate(), sketch.smallest(entry.key().hash));
        }
    }
}

/// Trap "running heavy hitter": one maximum is no list, and is the maximum.
#[test]
fn the_running_heavy_hitter_is_the_heaviest() {
    let stream = Stream::zipf(50_000, 5000, 1.0, 2);
    let options = CountMinOptions {
        running: true,
        ..CountMinOptions::new(4, 4096)
    };
    let mut sketch = CountMin::new(options, SEED).unwrap();
    stream.count_packets(&mut sketch, SEED);
    let found = sketch.heavy_hitters(1);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].key, stream.heaviest(1)[0]);
}

/// Keys of `key_bytes`, with the 20 first heavy.
fn tuples(count: usize, key_bytes: usize) -> (Vec<u128>, Vec<u32>) {
    let mut random = Random::new(3, 3);
    let mask = u128::MAX >> (128 - 8 * key_bytes);
    // Alike in most bytes, as the addresses and ports of a site.
    let keys = (0..count as u128).map(|number| {
        (0x0a00_0000 + number + (u128::from(random.below(1 << 16)) << 32) + (number << 48)) & mask
    });
    let weights = (0..count).map(|number| {
        if number < 20 {
            100_000
        } else {
            1 + number as u32 % 50
        }
    });
    (keys.collect(), weights.collect())
}

/// Trap "reversible sketch over 5-tuples": all heavy keys are recovered from a sketch with room, keyed by
/// address and by 5-tuple; a fuller one refuses, and says why, instead of searching without end.
#[test]
fn heavy_keys_are_recovered_or_refused() {
    for (key_bytes, column_bits) in [(4, 12), (13, 13)] {
        let options = ReversibleOptions {
            rows: 4,
            key_bytes,
            column_bits,
            width: Width::Narrow,
        };
        for (flows, refused) in [
            (10_000, false),
            (if key_bytes == 4 { 100_000 } else { 300_000 }, true),
        ] {
            let (keys, weights) = tuples(flows, key_bytes);
            let mut sketch = Reversible::new(options, SEED).unwrap();
            sketch.update(Updates::new(
                &keys,
                &vec![0; flows],
                Weights::Each(&weights),
            ));
            let fill = sketch.fill();
            let found = sketch.heavy_hitters(100_000);
            if refused {
                assert!(fill > MOST_FILL);
                assert_eq!(found, Err(Unrecoverable::Full { fill }));
                continue;
            }
            let found = found.unwrap();
            for &key in &keys[..20] {
                assert!(
                    found.iter().any(|found| found.key == key),
                    "{key:x} of {key_bytes} bytes"
                );
            }
            assert!(found.len() <= 40, "{} for 20", found.len());
            for found in &found {
                assert_eq!(found.estimate, sketch.query(found.key));
                assert!(found.estimate.value >= 100_000);
            }
            // A threshold that everything reaches has an end too.
            if let Ok(all) = sketch.heavy_hitters(1) {
                assert!(all.len() >= keys.len() / 2);
            }
        }
    }
}

#[test]
fn keys_that_do_not_fit_a_reversible_sketch_are_counted() {
    let options = ReversibleOptions {
        rows: 2,
        key_bytes: 4,
        column_bits: 8,
        width: Width::Narrow,
    };
    let mut sketch = Reversible::new(options, SEED).unwrap();
    sketch.update(Updates::new(&[1, 1 << 32], &[0; 2], Weights::Each(&[5, 7])));
    assert_eq!((sketch.total(), sketch.unkeyed()), (12, 7));
    assert_eq!((sketch.query(1).value, sketch.query(1 << 32).high), (5, 7));
}

/// Trap "overflow": a counter stops at its largest value, and the estimate says that the truth may be
/// larger. Wrapped around, the heaviest key would be among the lightest.
#[test]
fn counters_stop_at_their_largest_value() {
    let key = hashed(7, SEED);
    let hashes = [key.hash; 3];
    let batch = Updates::new(&[7; 3], &hashes, Weights::Each(&[u32::MAX; 3]));
    let total = 3 * u64::from(u32::MAX);
    let check = |sketch: &dyn Fn() -> (u64, u64), width: Width| {
        let (value, high) = sketch();
        assert_eq!(high, total);
        assert_eq!(value, total.min(width.largest()));
    };
    for width in [Width::Narrow, Width::Wide] {
        for policy in [
            Policy::RandomAdmission,
            Policy::SpaceSaving,
            Policy::Unbiased,
        ] {
            let mut table = HeavyHitters::with_memory(1000, policy, width, SEED).unwrap();
            table.update(batch);
            assert_eq!(table.total(), total);
            check(&|| (table.query(key).value, table.query(key).high), width);
        }
        let options = CountMinOptions {
            width,
            ..CountMinOptions::new(4, 16)
        };
        let mut sketch = CountMin::new(options, SEED).unwrap();
        sketch.update(batch);
        check(&|| (sketch.query(key).value, sketch.query(key).high), width);
        let mut table = SimpleTable::with_slots(16, width, SEED).unwrap();
        table.update(batch);
        check(&|| (table.query(key).value, table.query(key).high), width);
        let options = ReversibleOptions {
            rows: 2,
            key_bytes: 4,
            column_bits: 8,
            width,
        };
        let mut sketch = Reversible::new(options, SEED).unwrap();
        sketch.update(batch);
        check(&|| (sketch.query(7).value, sketch.query(7).high), width);
    }
}

/// Trap "clearing": a cleared sketch is as a new one, whatever it held. The memory that it states is what
/// it has; a twin to swap with doubles it.
#[test]
fn a_cleared_sketch_is_as_new() {
    fn check<S: Sketch>(mut sketch: S, stream: &Stream) {
        let written = |sketch: &S| {
            let mut bytes = Vec::new();
            sketch.write(&mut bytes);
            bytes
        };
        let (new, memory) = (written(&sketch), sketch.memory());
        stream.count_packets(&mut sketch, SEED);
        assert_ne!(written(&sketch), new);
        sketch.clear();
        assert_eq!(written(&sketch), new);
        assert_eq!((sketch.total(), sketch.memory()), (0, memory));
    }
    let stream = Stream::zipf(5000, 800, 1.0, 4);
    for width in [Width::Narrow, Width::Wide] {
        check(
            HeavyHitters::with_memory(9000, Policy::SpaceSaving, width, SEED).unwrap(),
            &stream,
        );
        let options = CountMinOptions {
            candidates: 50,
            running: true,
            width,
            ..CountMinOptions::new(3, 64)
        };
        check(CountMin::new(options, SEED).unwrap(), &stream);
        check(SimpleTable::with_slots(64, width, SEED).unwrap(), &stream);
        let options = ReversibleOptions {
            rows: 2,
            key_bytes: 4,
            column_bits: 8,
            width,
        };
        check(Reversible::new(options, SEED).unwrap(), &stream);
    }
}

/// Trap "false sharing and store forwarding": a bucket is one line that begins where a line begins, so that
/// an update stores whole vectors to one line.
#[test]
fn a_bucket_is_one_line() {
    assert_eq!(
        (
            size_of::<hw::buckets::Bucket>(),
            align_of::<hw::buckets::Bucket>()
        ),
        (64, 64)
    );
    assert_eq!(size_of::<hw::buckets::WideCounts>(), 64);
    assert_eq!(HeavyHitters::bucket_bytes(Width::Narrow), 192);
    assert_eq!(HeavyHitters::bucket_bytes(Width::Wide), 224);
}

/// Trap "flood": with every second packet of a new key, Space-Saving says by its bound which keys it may
/// have missed, and random admission still finds all above twice the average of a slot.
#[test]
fn a_flood_leaves_the_heavy_keys_and_the_bound() {
    for number in 0..30 {
        let (stream, seed) = (Stream::flood(100_000, 10_000, number), Seed::new(number));
        let mut table =
            HeavyHitters::with_memory(64 << 10, Policy::SpaceSaving, Width::Narrow, seed).unwrap();
        stream.count_packets(&mut table, seed);
        let memory = table.memory();
        let bound = table.largest_minimum();
        for (&key, &truth) in &stream.packets {
            let estimate = table.query(hashed(key, seed));
            assert!(estimate.low <= truth && truth <= estimate.high);
            assert!(estimate.value > 0 || truth <= bound);
        }
        let mut table =
            HeavyHitters::with_memory(64 << 10, Policy::RandomAdmission, Width::Narrow, seed)
                .unwrap();
        stream.count_packets(&mut table, seed);
        assert_eq!(table.memory(), memory);
        assert!(memory <= 64 << 10 && memory > 62 << 10);
        let average = stream.keys.len() as u64 / table.slots() as u64;
        for (&key, _) in stream
            .packets
            .iter()
            .filter(|(_, packets)| **packets > 2 * average)
        {
            assert!(table.query(hashed(key, seed)).value > 0);
        }
    }
}
