//! Runs experiments without the flowatch command, which builds in half the time.
//!
//! `cargo run --release -p flowatch-lab --example run_experiment -- DIR EXPERIMENT…`; `report`
//! writes the page.
#![allow(clippy::print_stdout, reason = "printing is what an example is for")]

use lab::experiments::{self, Extent};
use lab::{report, results};
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = PathBuf::from(arguments.next().ok_or("give a directory")?);
    let extent = Extent {
        full: false,
        seed: 1,
        repetitions: None,
        command: "run_experiment".into(),
    };
    for name in arguments {
        if name == "report" {
            let page = report::html(&results::read(&directory)?)?;
            std::fs::write(directory.join("report.html"), page)?;
            continue;
        }
        let experiment = experiments::find(&name).ok_or("no such experiment")?;
        match experiment.run(&extent, &mut |step| println!("{name}: {step}")) {
            Ok(outcome) => {
                results::write(&directory, &outcome)?;
                println!("{name}: {:.1} s, {:?}", outcome.seconds, outcome.trials);
                for finding in &outcome.findings {
                    for part in &finding.parts {
                        println!("  {}: {} {}", part.verdict.label(), part.claim, part.reason);
                    }
                }
            }
            Err(error) => println!("{name}: {error}"),
        }
    }
    Ok(())
}
