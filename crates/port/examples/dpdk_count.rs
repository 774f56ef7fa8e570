//! Measures the frames per second of a DPDK port, to compare with `dpdk-testpmd` in mode `rxonly`.
//!
//! ```text
//! cargo run --release -p flowatch-port --features dpdk --example dpdk_count -- DEVICE SECONDS BATCH [EAL…]
//! ```

use std::hint::black_box;
use std::time::{Duration, Instant};

use port::dpdk::{DeviceName, DpdkPort, Eal, Options};
use port::{Port, Received};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().ok_or("DEVICE SECONDS BATCH [EAL…]");
    let device = DeviceName::parse(&next()?)?;
    let time = Duration::from_secs_f64(next()?.parse()?);
    let batch = next()?.parse()?;
    let eal = Eal::start(
        std::slice::from_ref(&device),
        &arguments.collect::<Vec<_>>(),
    )?;
    let options = Options {
        batch,
        ..Options::default()
    };
    let mut ports = DpdkPort::open(&eal, &device, &options)?;
    let port = &mut ports[0];
    let start = Instant::now();
    let mut bytes = 0u64;
    while start.elapsed() < time {
        for _ in 0..1000 {
            match port.receive()? {
                Received::Burst(burst) => {
                    // Access as much as a packet counter does.
                    for frame in burst.frames {
                        bytes += u64::from(frame.wire_length);
                    }
                    black_box(burst);
                }
                Received::Idle => break,
                Received::Fault(message) => eprintln!("{message}"),
                Received::End => return Ok(()),
            }
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let frames = port.counters().frames;
    println!(
        "{frames} frames, {bytes} bytes, {:.2} Mpps",
        frames as f64 / seconds / 1e6
    );
    Ok(())
}
