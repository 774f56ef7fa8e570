//! The part of the text summary that compares devices' own counts with what was read from them.

use crate::units;
use engine::{Loss, QueueReport};
use std::fmt::Write;

/// The driver that does not count what it loses: the kernel fills its ring, and drops packets
/// unnoticed when the ring is full.
const NO_LOSS_COUNTER: &str = "dpdk:net_af_packet";

/// A device with its count and its queues.
struct Device<'a> {
    name: &'a str,
    delivered: u64,
    queues: Vec<&'a QueueReport>,
}

/// Writes a line for each device that counts. What it delivered should equal what was read from all
/// of its queues, including filtered packets.
pub(crate) fn devices(text: &mut String, queues: &[QueueReport]) -> std::fmt::Result {
    for device in group_by_device(queues) {
        let read: u64 = device.queues.iter().map(|queue| packets_read(queue)).sum();
        let filtered: u64 = device
            .queues
            .iter()
            .map(|queue| queue.books.filtered.packets)
            .sum();
        write!(
            text,
            "  {}: {} packets delivered according to the device, {} read from it",
            device.name,
            units::count(device.delivered),
            units::count(read),
        )?;
        if device.queues.len() > 1 {
            write!(text, " ({} queues)", device.queues.len())?;
        }
        if filtered > 0 {
            write!(text, ", {} of them filtered", units::count(filtered))?;
        }
        writeln!(text)?;
        if read > device.delivered {
            writeln!(
                text,
                "  {}: MORE packets were read than the device says it delivered: one of the counts is wrong",
                device.name
            )?;
        }
        if device.name.starts_with(NO_LOSS_COUNTER) {
            writeln!(
                text,
                "  {}: its driver does not count packets that found its ring full or exceeded framesz (-i eth0 does)",
                device.name
            )?;
        }
    }
    Ok(())
}

/// Returns the devices that count, each with its queues.
fn group_by_device(queues: &[QueueReport]) -> Vec<Device<'_>> {
    let mut devices: Vec<Device<'_>> = Vec::new();
    for queue in queues {
        if let Some(counted) = queue.device {
            let name = device_name(&queue.name);
            match devices.iter_mut().find(|device| device.name == name) {
                // The queues of a software NIC have a count each.
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
            .filter(|queue| device_name(&queue.name) == device.name)
            .collect();
    }
    devices
}

/// Returns `dpdk:net_null0` for `dpdk:net_null0@1`.
fn device_name(name: &str) -> &str {
    match name.rsplit_once('@') {
        Some((stem, queue)) if queue.bytes().all(|byte| byte.is_ascii_digit()) => stem,
        _ => name,
    }
}

/// Returns the packets read from a queue, including those lost later but not those that the device
/// lost.
fn packets_read(queue: &QueueReport) -> u64 {
    let books = &queue.books;
    let lost_by_device: u64 = [Loss::Kernel, Loss::Missed, Loss::NoBuffer, Loss::Error]
        .iter()
        .map(|reason| books.dropped[*reason as usize].packets)
        .sum();
    (books.received.packets + books.filtered.packets).saturating_sub(lost_by_device)
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

    fn rendered(queues: &[QueueReport]) -> String {
        let mut text = String::new();
        devices(&mut text, queues).unwrap();
        text
    }

    #[test]
    fn device_count_is_compared_with_the_sum_of_its_queues() {
        let mut first = queue("dpdk:net_ring0@0", 107, 20, Some(150));
        // Seven packets never left the device; the three that found a monitor's ring full did.
        first.books.dropped[Loss::Missed as usize].packets = 7;
        first.books.dropped[Loss::Ring as usize].packets = 3;
        let queues = [
            first,
            queue("dpdk:net_ring0@1", 30, 0, None),
            queue("eth0@1", 30, 0, None),
        ];
        assert_eq!(
            rendered(&queues),
            "  dpdk:net_ring0: 150 packets delivered according to the device, 150 read from it (2 queues), 20 of \
             them filtered\n"
        );
    }

    #[test]
    fn reading_more_than_was_delivered_is_reported() {
        let text = rendered(&[
            queue("dpdk:a@0", 10, 0, Some(10)),
            queue("dpdk:a@1", 10, 0, None),
        ]);
        assert!(
            text.contains(
                "10 packets delivered according to the device, 20 read from it (2 queues)"
            )
        );
        assert!(text.contains("dpdk:a: MORE packets were read"), "{text}");
    }

    #[test]
    fn driver_without_loss_counter_is_reported() {
        let text = rendered(&[queue("dpdk:net_af_packet0", 10, 0, Some(10))]);
        assert!(
            text.ends_with("exceeded framesz (-i eth0 does)\n"),
            "{text}"
        );
        assert!(!text.contains("MORE"));
    }
}
