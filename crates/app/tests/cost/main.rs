//! What packets that an outsider can send cost, compared with benign ones of the same reader, in
//! instructions that valgrind counts: the worst must cost less than ten times as much. `./setup` installs
//! valgrind; where it is missing, the test prints that it is skipped.

#![allow(
    clippy::unwrap_used,
    reason = "all of this is test code; clippy knows only the test functions"
)]

mod datagrams;
mod dns;
mod headers;
mod streams;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A hostile packet must cost less than this number of benign ones.
const RATIO_MAX: f64 = 10.0;

/// Set where the test runs itself under valgrind.
const VARIABLE: &str = "FLOWATCH_COST";

/// What is measured. It calls [`measured`] with each packet, and returns the number of packets.
pub(crate) struct Run {
    name: String,
    run: Box<dyn Fn() -> usize>,
}

impl Run {
    pub(crate) fn new(name: impl Into<String>, run: impl Fn() -> usize + 'static) -> Self {
        Self {
            name: name.into(),
            run: Box::new(run),
        }
    }
}

/// Of a reader: its benign packets, and hostile ones.
pub(crate) struct Reader {
    pub(crate) benign: Run,
    pub(crate) hostile: Vec<Run>,
}

/// The part of a run whose instructions are counted.
#[inline(never)]
pub(crate) fn measured(work: &mut dyn FnMut()) {
    work();
}

/// Valgrind writes the instructions of a run when this returns, and counts anew.
#[inline(never)]
fn end_run(packets: usize) {
    std::hint::black_box(packets);
}

fn readers() -> Vec<Reader> {
    let mut readers = headers::readers();
    readers.extend(streams::readers());
    readers.extend(dns::readers());
    readers.extend(datagrams::readers());
    readers
}

/// All runs, in the order in which they are measured.
fn runs(readers: &[Reader]) -> impl Iterator<Item = &Run> {
    readers
        .iter()
        .flat_map(|reader| std::iter::once(&reader.benign).chain(&reader.hostile))
}

/// Instructions per packet of each run, by its name.
fn instructions(readers: &[Reader]) -> HashMap<&str, f64> {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cost");
    drop(std::fs::remove_dir_all(&directory));
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("instructions");
    let output = Command::new("valgrind")
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg("--toggle-collect=cost::measured*")
        .arg("--dump-after=cost::end_run*")
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "hostile_packets_cost_little",
            "--test-threads=1",
            "--nocapture",
        ])
        .env(VARIABLE, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let counts = text
        .lines()
        .filter_map(|line| line.strip_prefix("packets: "));
    let counts: Vec<f64> = counts.map(|count| count.parse().unwrap()).collect();
    assert_eq!(counts.len(), runs(readers).count());
    let costs = runs(readers)
        .zip(counts)
        .zip(1..)
        .map(|((run, packets), number)| {
            let file = PathBuf::from(format!("{}.{number}", file.display()));
            let instructions = collected(&file);
            assert!(instructions > 0.0 && packets > 0.0, "{}", run.name);
            (run.name.as_str(), instructions / packets)
        });
    let costs: HashMap<_, _> = costs.collect();
    assert_eq!(
        costs.len(),
        runs(readers).count(),
        "two runs have the same name"
    );
    drop(std::fs::remove_dir_all(&directory));
    costs
}

/// The instructions in a file that callgrind wrote.
fn collected(file: &Path) -> f64 {
    let text = std::fs::read_to_string(file).unwrap();
    let of_line = |prefix| text.lines().find_map(|line| line.strip_prefix(prefix));
    let number = of_line("summary: ").or_else(|| of_line("totals: "));
    number.unwrap().trim().parse().unwrap()
}

#[test]
fn hostile_packets_cost_little() {
    let readers = readers();
    if std::env::var_os(VARIABLE).is_some() {
        for run in runs(&readers) {
            let packets = (run.run)();
            eprintln!("packets: {packets}");
            end_run(packets);
        }
        return;
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("SKIPPED hostile_packets_cost_little: no valgrind");
        return;
    }
    let costs = instructions(&readers);
    let mut expensive = Vec::new();
    for Reader { benign, hostile } in &readers {
        let expected = costs[&*benign.name];
        eprintln!("{}: {expected:.0} instructions a packet", benign.name);
        for Run { name, .. } in hostile {
            let cost = costs[&**name];
            let ratio = cost / expected;
            eprintln!("  {name}: {cost:.0}, {ratio:.1} times");
            if ratio >= RATIO_MAX {
                expensive.push(format!("{name}: {ratio:.1} times {}", benign.name));
            }
        }
    }
    assert!(expensive.is_empty(), "{expensive:#?}");
}
