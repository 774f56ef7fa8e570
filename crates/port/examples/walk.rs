//! Reads capture files as fast as possible and prints nanoseconds per packet.
//!
//! `cargo run --release -p flowatch-port --example walk -- [--passes N] FILE..`
//!
//! The first pass loads the files into the page cache; the others are measured. The bytes of the frames
//! are not accessed: the time is that of reading, decompression, and walking the records.
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use port::{CaptureFiles, Input, Port, PortError, Received};

struct Pass {
    frames: u64,
    bytes: u64,
    bursts: u64,
    ns: f64,
}

fn pass(inputs: &[Input]) -> Result<Pass, PortError> {
    let started = hw::time::thread_cpu();
    let mut port = CaptureFiles::open(inputs)?;
    let mut bursts = 0;
    // Prevents the compiler from removing the frames.
    let mut sum = 0i64;
    loop {
        match port.receive()? {
            Received::Burst(burst) => {
                bursts += 1;
                for frame in burst.frames {
                    sum ^= frame.time_ns ^ frame.bytes.len().cast_signed() as i64;
                }
            }
            Received::Idle => {}
            Received::Fault(message) => println!("{message}"),
            Received::End => break,
        }
    }
    std::hint::black_box(sum);
    let counters = port.counters();
    Ok(Pass {
        frames: counters.frames,
        bytes: counters.bytes,
        bursts,
        ns: (hw::time::thread_cpu() - started).as_nanos() as f64,
    })
}

fn main() -> Result<(), PortError> {
    let mut passes = 7;
    let mut inputs = Vec::new();
    let mut arguments = std::env::args_os().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--passes" {
            let value = arguments
                .next()
                .and_then(|value| value.to_str()?.parse().ok());
            passes = value.unwrap_or(passes);
        } else {
            inputs.push(Input::from_argument(&argument));
        }
    }
    pass(&inputs)?;
    let mut times = Vec::new();
    for number in 1..=passes {
        let pass = pass(&inputs)?;
        let per_packet = pass.ns / pass.frames as f64;
        times.push(per_packet);
        if number == passes {
            times.sort_by(f64::total_cmp);
            println!(
                "{} packets, {} bytes, {:.1} packets per burst: {:.2} ns per packet (median of {passes}; minimum {:.2})",
                pass.frames,
                pass.bytes,
                pass.frames as f64 / pass.bursts as f64,
                times[times.len() / 2],
                times[0],
            );
        }
    }
    Ok(())
}
