//! What devices count themselves, beside what was read from them, for a person.

use crate::units;
use engine::{Loss, QueueReport};
use std::fmt::Write;

/// The driver whose ring the kernel fills, and which does not hear of what finds it full.
const SILENT: &str = "dpdk:net_af_packet";

/// A device: its first queue and all of them.
struct Device<'a> {
    name: &'a str,
    delivered: u64,
    queues: Vec<&'a QueueReport>,
}

/// A line for each device that counts: what it has delivered is what was read from all its queues,
/// with what the filter left out.
pub(crate) fn devices(text: &mut String, queues: &[QueueReport]) -> std::fmt::Result {
    for device in grouped(queues) {
        let read: u64 = device.queues.iter().map(|queue| read(queue)).sum();
        let filtered: u64 = device
            .queues
            .iter()
            .map(|queue| queue.books.filtered.packets)
            .sum();
        write!(
            text,
            "  {}: {} packets delivered by the device's own count, {} read from it",
            device.name,
            units::count(device.delivered),
            units::count(read),
        )?;
        if device.queues.len() > 1 {
            write!(text, " ({} queues)", device.queues.len())?;
        }
        if filtered > 0 {
            write!(
                text,
                ", of which the filter left out {}",
                units::count(filtered)
            )?;
        }
        writeln!(text)?;
        if read > device.delivered {
            writeln!(
                text,
                "  {}: MORE was read than it says it has delivered: one of the two is wrong",
                device.name
            )?;
        }
        if device.name.starts_with(SILENT) {
            writeln!(
                text,
                "  {}: what found its ring full, or was longer than framesz, is in no count (-i eth0 counts it)",
                device.name
            )?;
        }
    }
    Ok(())
}

/// The devices that count, each with its queues.
fn grouped(queues: &[QueueReport]) -> Vec<Device<'_>> {
    let mut devices: Vec<Device<'_>> = Vec::new();
    for queue in queues {
        if let Some(counted) = queue.device {
            let name = stem(&queue.name);
            match devices.iter_mut().find(|device| device.name == name) {
                // A software card's queues count for themselves.
                Some(device) => device.delivered += counted.frames,
                None => devices.push(Device {
                    name,
                    delivered: counted.frames,
                    queues: Vec::new(),
                }),
            }
        }
    }
    for device in &mut devices {
        device.queues = queues
            .iter()
            .filter(|queue| stem(&queue.name) == device.name)
            .collect();
    }
    devices
}

/// `dpdk:net_null0` of `dpdk:net_null0@1`.
fn stem(name: &str) -> &str {
    match name.rsplit_once('@') {
        Some((stem, queue)) if queue.bytes().all(|byte| byte.is_ascii_digit()) => stem,
        _ => name,
    }
}

/// Packets that a queue handed over, be they lost later or not; those of the device's losses it never
/// did.
fn read(queue: &QueueReport) -> u64 {
    let books = &queue.books;
    let never: u64 = [Loss::Kernel, Loss::Missed, Loss::NoBuffer, Loss::Error]
        .iter()
        .map(|reason| books.dropped[*reason as usize].packets)
        .sum();
    (books.received.packets + books.filtered.packets).saturating_sub(never)
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::DeviceCounters;

    fn queue(name: &str, received: u64, filtered: u64, device: Option<u64>) -> QueueReport {
        let mut queue = QueueReport {
            name: name.into(),
            device: device.map(|frames| DeviceCounters { frames, bytes: 0 }),
            ..QueueReport::default()
        };
        queue.books.received.packets = received;
        queue.books.filtered.packets = filtered;
        queue
    }

    fn told(queues: &[QueueReport]) -> String {
        let mut text = String::new();
        devices(&mut text, queues).unwrap();
        text
    }

    #[test]
    fn a_device_stands_against_the_sum_over_its_queues() {
        let mut first = queue("dpdk:net_ring0@0", 107, 20, Some(150));
        // Seven never left the device; the three that found a monitor's ring full did.
        first.books.dropped[Loss::Missed as usize].packets = 7;
        first.books.dropped[Loss::Ring as usize].packets = 3;
        let queues = [
            first,
            queue("dpdk:net_ring0@1", 30, 0, None),
            queue("eth0@1", 30, 0, None),
        ];
        assert_eq!(
            told(&queues),
            "  dpdk:net_ring0: 150 packets delivered by the device's own count, 150 read from it (2 queues), of which \
             the filter left out 20\n"
        );
    }

    #[test]
    fn more_than_was_delivered_is_not_passed_over() {
        let text = told(&[
            queue("dpdk:a@0", 10, 0, Some(10)),
            queue("dpdk:a@1", 10, 0, None),
        ]);
        assert!(text.contains(
            "10 packets delivered by the device's own count, 20 read from it (2 queues)"
        ));
        assert!(text.contains("dpdk:a: MORE was read"), "{text}");
    }

    #[test]
    fn a_device_that_loses_in_silence_is_told_of() {
        let text = told(&[queue("dpdk:net_af_packet0", 10, 0, Some(10))]);
        assert!(
            text.ends_with("is in no count (-i eth0 counts it)\n"),
            "{text}"
        );
        assert!(!text.contains("MORE"));
    }
}
