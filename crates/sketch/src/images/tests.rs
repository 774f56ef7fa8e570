use super::*;
use crate::test_support::{Zipf, hashed, table};
use crate::{DistinctHash, Seed};
use datasketches::hash::value::raw_bytes;
use datasketches::hll::{HllSketch, HllType};
use datasketches::theta::ThetaSketchBuilder;

/// Counts `keys` in an image of each family.
fn images(keys: core::ops::Range<u32>) -> Vec<Image> {
    let hash = DistinctHash::Murmur { key_bytes: 4 };
    let mut hll = HyperLogLog::new(12, hash, Seed::new(1)).unwrap();
    let mut cpc = CpcSketch::new(11).unwrap();
    let mut theta = ThetaSketchBuilder::default().build().unwrap();
    let mut items = FrequentItemsSketch::new(256).unwrap();
    let mut kll = KllSketch::new(200).unwrap();
    let mut req = ReqSketch::default();
    let mut digest = TDigestMut::new(100).unwrap();
    for key in keys {
        hll.insert_bytes(&key.to_be_bytes());
        cpc.update(raw_bytes::from_slice(&key.to_be_bytes()));
        theta.update(raw_bytes::from_slice(&key.to_be_bytes()));
        items.update(format!("{}", key % 100));
        kll.update(KllFloat::<f32>::new(key as f32).unwrap());
        req.update(ReqFloat::<f32>::new(key as f32).unwrap());
        digest.update(key.into());
    }
    vec![
        Image::Hll(hll),
        Image::Cpc(Box::new(cpc)),
        Image::Theta(theta.compact(true)),
        Image::FrequentItems(items),
        Image::Kll(kll),
        Image::Req(req),
        Image::TDigest(digest),
    ]
}

#[test]
fn images_of_all_families_return_and_merge() {
    for ((mut half, mut other), mut whole) in images(0..6_000)
        .into_iter()
        .zip(images(4_000..10_000))
        .zip(images(0..10_000))
    {
        let mut read = Image::read(&half.write()).unwrap();
        // Items are in no order, so not all images are equal.
        assert_eq!(read.write().len(), half.write().len(), "{}", half.name());
        assert_eq!(
            (read.distinct(), read.items()),
            (half.distinct(), half.items())
        );
        assert_eq!(read.quantile(0.3), half.quantile(0.3));
        read.merge(&Image::read(&other.write()).unwrap()).unwrap();
        match (read.distinct(), whole.distinct()) {
            (Some(merged), Some(whole)) => {
                assert!(
                    (merged.value / 10_000.0 - 1.0).abs() < 0.05,
                    "{}",
                    read.name()
                );
                assert!((merged.value / whole.value - 1.0).abs() < 0.05);
                assert!(merged.low <= merged.value && merged.value <= merged.high);
            }
            found => assert_eq!(found, (None, None)),
        }
        if let Some(median) = whole.quantile(0.5) {
            assert!(
                (median / 5_000.0 - 1.0).abs() < 0.05,
                "{}: {median}",
                whole.name()
            );
            assert!((read.quantile(0.5).unwrap() / 5_000.0 - 1.0).abs() < 0.05);
        }
        for (name, estimate) in read.items() {
            assert!(
                (estimate.low..=estimate.high).contains(&120),
                "{name}: {estimate:?}"
            );
        }
    }
}

#[test]
fn other_families_are_refused_with_the_reason() {
    let mut all = images(0..10);
    let last = all.pop().unwrap();
    for image in &mut all {
        assert!(matches!(
            image.merge(&last),
            Err(MergeError::Kind(_, "t-digest"))
        ));
    }
    let count_min = [2, 1, family::COUNT_MIN, 0, 0, 0, 0, 0];
    assert_eq!(Image::read(&count_min).err(), Some(ImageError::CountMin));
    let tuple = [2, 1, 9, 0, 0, 0, 0, 0];
    assert_eq!(Image::read(&tuple).err(), Some(ImageError::Family(9)));
    let large = [4, 1, family::FREQUENCY, 30, 30, 0, 0, 0, 1, 0, 0, 0];
    assert_eq!(Image::read(&large).err(), Some(ImageError::Size(30)));
    let large = [10, 1, family::CPC, 26, 0, 0, 0, 0];
    assert_eq!(Image::read(&large).err(), Some(ImageError::Size(26)));
    assert!(Image::read(&[1, 2, 3]).is_err());
    // The least register of HLL_4, where a sum of eight bits would overflow.
    let mut hll = HllSketch::new(8, HllType::Hll4).unwrap();
    (0..10_000u32).for_each(|key| hll.update(key));
    let mut image = hll.serialize();
    image[6] = 250;
    assert!(matches!(Image::read(&image), Err(ImageError::Hll(_))));
    // DataSketches would panic when it merges them.
    for at in [16, 24] {
        let mut image = images(0..10)[3].write();
        image[at + 7] = 0x7f;
        assert!(matches!(Image::read(&image), Err(ImageError::Weight(_))));
    }
    let mut items = FrequentItemsSketch::new(64).unwrap();
    items.update_with_count("a".to_owned(), 1 << 62);
    let (mut one, two) = (
        Image::FrequentItems(items.clone()),
        Image::FrequentItems(items),
    );
    assert!(one.merge(&two).is_err());
}

#[test]
fn damaged_images_are_refused_or_answer() {
    for mut image in images(0..300) {
        let bytes = image.write();
        for at in 0..bytes.len() {
            assert!(
                Image::read(&bytes[..at]).is_err(),
                "{} to {at}",
                image.name()
            );
            for change in [1, 0x40, 0xff] {
                let mut other = bytes.clone();
                other[at] ^= change;
                if let Ok(mut read) = Image::read(&other) {
                    let _ = (
                        read.distinct(),
                        read.quantile(0.5),
                        read.items(),
                        read.write(),
                    );
                }
            }
        }
    }
}

#[test]
fn bounds_of_a_table_hold_as_frequent_items_also_after_their_merge() {
    let zipf = Zipf::new(2, 20_000, 100_000, 1.0);
    let seed = Seed::new(2);
    let halves = zipf.packets.chunks(50_000).map(|half| {
        let mut table = table(32 << 10, Policy::SpaceSaving, seed);
        hashed(seed, half.iter().copied(), |updates| table.update(updates));
        frequent_items(&table, |key| key.to_string()).unwrap()
    });
    let mut halves = halves.map(|image| Image::read(&image).unwrap());
    let mut merged = halves.next().unwrap();
    merged.merge(&halves.next().unwrap()).unwrap();
    let items = merged.items();
    assert!(items.len() > 100);
    for (name, estimate) in &items {
        let truth = zipf.truth[&name.parse::<u128>().unwrap()];
        assert!(
            (estimate.low..=estimate.high).contains(&truth),
            "{name}: {estimate:?}, {truth}"
        );
    }
    let empty = table(32 << 10, Policy::SpaceSaving, seed);
    let image = frequent_items(&empty, |key| key.to_string()).unwrap();
    assert!(Image::read(&image).unwrap().items().is_empty());
    let unbounded = table(32 << 10, Policy::RandomAdmission, seed);
    assert!(frequent_items(&unbounded, |key| key.to_string()).is_err());
}

#[test]
fn a_histogram_has_its_quantiles_as_t_digest() {
    let mut histogram = Quantiles::new(7).unwrap();
    assert_eq!(
        Image::read(&t_digest(&histogram)).unwrap().quantile(0.5),
        None
    );
    histogram.insert_all([5]);
    assert_eq!(
        Image::read(&t_digest(&histogram)).unwrap().quantile(0.5),
        Some(5.0)
    );
    histogram.insert_all((1..=100_000u64).map(|value| value * value));
    let mut digest = Image::read(&t_digest(&histogram)).unwrap();
    for share in [0.01f64, 0.5, 0.9, 0.99, 0.999] {
        let truth = (share * 100_000.0).powi(2);
        let found = digest.quantile(share).unwrap();
        assert!(
            (found / truth - 1.0).abs() < 0.02,
            "{share}: {found}, {truth}"
        );
    }
    assert_eq!(digest.quantile(1.0), Some(1e10));
}
