//! Exchanges images with the Python package `datasketches`, which `./setup --golden` installs in
//! `target/python`. Without it the test prints that it is skipped, except in the long run of CI.

use datasketches::cpc::CpcSketch;
use datasketches::hash::value::raw_bytes;
use datasketches::kll::{KllFloat, KllSketch};
use datasketches::req::{ReqFloat, ReqSketch};
use datasketches::theta::ThetaSketchBuilder;
use sketch::images::{self, Image, ImageError};
use sketch::{
    DistinctHash, HeavyHitters, HyperLogLog, Policy, Quantiles, Seed, Sketch, Updates, Weights,
    Width,
};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const COUNT: u32 = 100_000;

/// Returns a Python that has the package.
fn python() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let installed = root.join("target/python/bin/python");
    let has_package = |python: &Path| {
        let probe = Command::new(python)
            .args(["-c", "import datasketches"])
            .output();
        probe.is_ok_and(|output| output.status.success())
    };
    let found = [installed, "python3".into()]
        .into_iter()
        .find(|python| has_package(python));
    if found.is_none() {
        let is_long = std::env::var("FLOWATCH_CI").is_ok_and(|mode| mode == "long");
        assert!(
            !is_long,
            "no Python with datasketches: ./setup --golden installs it"
        );
        eprintln!("SKIPPED: no Python with datasketches");
    }
    found
}

/// Runs the script; returns the numbers that it prints.
fn run(python: &Path, mode: &str, directory: &Path) -> HashMap<String, f64> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/exchange_images.py");
    let output = Command::new(python)
        .arg(script)
        .arg(mode)
        .arg(directory)
        .output()
        .expect("Python starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let lines = String::from_utf8(output.stdout).expect("Python prints text");
    let numbers = lines.lines().map(|line| {
        let (name, number) = line.split_once(' ').expect("a name and a number");
        (name.to_owned(), number.parse().expect("a number"))
    });
    numbers.collect()
}

fn directory(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&directory).expect("the directory of tests is writable");
    directory
}

#[track_caller]
fn assert_near(found: f64, expected: f64, relative: f64) {
    assert!(
        (found - expected).abs() <= relative * expected.abs(),
        "{found}, {expected}"
    );
}

/// A guaranteed table of `flow0` with 2,000 packets, `flow1` with 1,000, and so on, and of many others.
fn table() -> HeavyHitters {
    let seed = Seed::new(1);
    let (policy, width) = (Policy::SpaceSaving, Width::Wide);
    let mut table =
        HeavyHitters::with_memory(64 << 10, policy, width, seed).expect("the size is valid");
    let mut keys: Vec<u128> = (0..1000)
        .flat_map(|key| vec![key; packets(key) as usize])
        .collect();
    keys.extend(1000..6000);
    for keys in keys.chunks(256) {
        let mut hashes = vec![0; keys.len()];
        seed.hash().hash(keys, &mut hashes);
        table.update(Updates::new(keys, &hashes, Weights::Ones));
    }
    table
}

const fn packets(key: u128) -> u128 {
    2000 / (key + 1) + 1
}

#[test]
fn python_reads_and_unites_our_images() {
    let Some(python) = python() else { return };
    let directory = directory("for-python");
    let hash = DistinctHash::Murmur { key_bytes: 16 };
    let mut hll = HyperLogLog::new(14, hash, Seed::new(1)).unwrap();
    let mut cpc = CpcSketch::new(11).unwrap();
    let mut theta = ThetaSketchBuilder::default().build().unwrap();
    let mut kll = KllSketch::new(200).unwrap();
    let mut req = ReqSketch::default();
    let mut histogram = Quantiles::new(7).unwrap();
    for number in 0..COUNT {
        let text = format!("flow{number}");
        hll.insert_bytes(text.as_bytes());
        cpc.update(raw_bytes::from_str(&text));
        theta.update(raw_bytes::from_str(&text));
        kll.update(KllFloat::<f32>::new(number as f32).unwrap());
        req.update(ReqFloat::<f32>::new(number as f32).unwrap());
        histogram.insert(number.into());
    }
    let theta = theta.compact(true);
    let estimates = [("cpc", cpc.estimate()), ("theta", theta.estimate())];
    let mut quantiles = [("kll", Image::Kll(kll)), ("req", Image::Req(req))];
    for (name, image) in &mut quantiles {
        fs::write(directory.join(*name), image.write()).unwrap();
    }
    fs::write(directory.join("hll"), hll.image()).unwrap();
    fs::write(directory.join("cpc"), Image::Cpc(Box::new(cpc)).write()).unwrap();
    fs::write(directory.join("theta"), Image::Theta(theta).write()).unwrap();
    fs::write(directory.join("t-digest"), images::t_digest(&histogram)).unwrap();
    let items = images::frequent_items(&table(), |key| format!("flow{key}")).unwrap();
    fs::write(directory.join("items"), items).unwrap();

    let read = run(&python, "read", &directory);
    let ours = hll.estimate();
    assert_near(read["hll"], ours.value, 1e-9);
    assert_near(read["hll-low"], ours.low, 1e-9);
    assert_near(read["hll-high"], ours.high, 1e-9);
    assert_near(read["hll-united"], read["hll-itself"], 1e-9);
    assert_near(ours.value, COUNT.into(), 0.02);
    for (name, estimate) in estimates {
        assert_near(read[name], estimate, 1e-9);
    }
    for (name, image) in &mut quantiles {
        assert_near(read[*name], image.quantile(0.5).unwrap(), 1e-6);
    }
    assert_near(read["t-digest"], 99_000.0, 0.005);
    assert_near(read["t-digest-merged"], 99_000.0, 0.005);
    assert_near(read["t-digest-weight"], COUNT.into(), 0.0);
    // Python has merged the image with itself.
    for key in 0..1000 {
        let truth = 2.0 * packets(key) as f64;
        let (low, high) = (
            read[&format!("low-flow{key}")],
            read[&format!("high-flow{key}")],
        );
        assert!(
            (low..=high).contains(&truth),
            "flow{key}: {low}, {truth}, {high}"
        );
    }
}

#[test]
fn we_read_images_of_python() {
    let Some(python) = python() else { return };
    let directory = directory("by-python");
    let written = run(&python, "write", &directory);
    let image = |name: &str| Image::read(&fs::read(directory.join(name)).unwrap());
    for kind in ["hll4", "hll6", "hll8"] {
        for count in [5, 500, COUNT] {
            for form in ["compact", "updatable"] {
                let name = format!("{kind}-{count}");
                let found = image(&format!("{name}-{form}"))
                    .unwrap()
                    .distinct()
                    .unwrap();
                // Python has the first keys in a list, we have them in registers.
                let exact = if count == COUNT { 1e-9 } else { 0.01 };
                assert_near(found.value, written[&name], exact);
                assert_near(found.value, count.into(), 0.02);
            }
        }
    }
    for name in ["cpc", "theta"] {
        let found = image(name).unwrap().distinct().unwrap();
        assert_near(found.value, written[name], 1e-9);
    }
    for name in ["kll", "req", "t-digest"] {
        let found = image(name).unwrap().quantile(0.5).unwrap();
        // The implementations interpolate between centroids differently.
        assert_near(found, written[name], 0.003);
    }
    let items = image("items").unwrap().items();
    assert_eq!(items[0].0, "flow1");
    assert_near(items[0].1.value as f64, written["items"], 0.0);
    assert_eq!(image("count-min").err(), Some(ImageError::CountMin));
}
