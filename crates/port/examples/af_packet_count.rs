//! Counts the frames of an interface: `af_packet_count INTERFACE[@QUEUE] [SECONDS] [SOCKETS]`.
//!
//! With several sockets, each has a thread. Prints a line per socket: frames and bytes received, frames
//! dropped, and CPU time per frame of its thread.
#![allow(clippy::print_stdout)]

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn main() -> Result<(), port::PortError> {
    use std::thread;
    use std::time::Duration;

    use port::PortError;
    use port::af_packet::{Options, open_fanout};

    let usage = || {
        PortError::Failed("usage: af_packet_count INTERFACE[@QUEUE] [SECONDS] [SOCKETS]".to_owned())
    };
    let mut arguments = std::env::args().skip(1);
    let source = arguments.next().ok_or_else(usage)?;
    let mut number = |default: u64| match arguments.next() {
        Some(text) => text.parse().map_err(|_| usage()),
        None => Ok(default),
    };
    let time = Duration::from_secs(number(5)?);
    let sockets = usize::try_from(number(1)?).map_err(|_| usage())?;
    let options = Options {
        promiscuous: true,
        ..Options::from_source(&source)?
    };
    let readers: Vec<_> = open_fanout(&options, sockets)?
        .into_iter()
        .map(|port| thread::spawn(move || linux::count(port, time)))
        .collect();
    for reader in readers {
        match reader.join() {
            Ok(line) => println!("{}", line?),
            Err(_) => return Err(PortError::Failed("a reader ended early".to_owned())),
        }
    }
    Ok(())
}

#[cfg(target_os = "linux")]
mod linux {
    use std::time::{Duration, Instant};

    use port::{AfPacket, Port, PortError, Received};

    /// Receives for `time`, then drains the ring.
    pub(crate) fn count(mut port: AfPacket, time: Duration) -> Result<String, PortError> {
        let start = Instant::now();
        let mut bursts = 0u64;
        // Touch a byte of each frame.
        let mut sum = 0u64;
        loop {
            match port.receive()? {
                Received::Burst(burst) => {
                    bursts += 1;
                    for frame in burst.frames {
                        sum += u64::from(frame.bytes.last().copied().unwrap_or(0));
                    }
                }
                Received::Fault(line) => eprintln!("{line}"),
                Received::Idle => {}
                Received::End => break,
            }
            if start.elapsed() >= time {
                port.stop();
            }
        }
        let used = thread_cpu_time();
        let counters = port.counters();
        let details = port.socket_counters();
        Ok(format!(
            "{}: frames {} bytes {} dropped {} kernel_packets {} freezes {} blocks {} bursts {bursts} \
             ns_per_frame {:.1} sum {sum}",
            port.name(),
            counters.frames,
            counters.bytes,
            counters.dropped,
            details.kernel_packets,
            details.freezes,
            details.blocks,
            used.as_nanos() as f64 / counters.frames.max(1) as f64,
        ))
    }

    /// CPU time of this thread.
    fn thread_cpu_time() -> Duration {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the call fills the structure, which outlives it.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
        Duration::new(
            time.tv_sec.unsigned_abs(),
            time.tv_nsec.unsigned_abs() as u32,
        )
    }
}
