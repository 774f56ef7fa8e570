//! Shifts the addresses of copied packets, and updates their checksums.

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_VLAN: u16 = 0x8100;
const ETHERTYPE_QINQ: u16 = 0x88a8;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;

/// Adds `k` to both addresses of the outermost IP header, and updates the checksums that cover them.
/// Frames without a complete IP header do not change, and missing checksums are ignored.
pub fn shift_addresses(frame: &mut [u8], k: u32) {
    let mut at = 12;
    let Some(mut ethertype) = u16_at(frame, at) else {
        return;
    };
    at += 2;
    while ethertype == ETHERTYPE_VLAN || ethertype == ETHERTYPE_QINQ {
        let Some(inner) = u16_at(frame, at + 2) else {
            return;
        };
        ethertype = inner;
        at += 4;
    }
    let Some(ip) = frame.get_mut(at..) else {
        return;
    };
    match ethertype {
        ETHERTYPE_IPV4 if ip.len() >= 20 && ip[0] >> 4 == 4 => shift_ipv4(ip, k),
        ETHERTYPE_IPV6 if ip.len() >= 40 && ip[0] >> 4 == 6 => shift_ipv6(ip, k),
        _ => {}
    }
}

fn shift_ipv4(ip: &mut [u8], k: u32) {
    let mut old = [0; 8];
    old.copy_from_slice(&ip[12..20]);
    for address in ip[12..20].chunks_exact_mut(4) {
        let value = address
            .iter()
            .fold(0, |value, &byte| value << 8 | u32::from(byte));
        address.copy_from_slice(&value.wrapping_add(k).to_be_bytes());
    }
    let mut new = [0; 8];
    new.copy_from_slice(&ip[12..20]);
    update_checksum(ip, 10, &old, &new);
    let offset = u16::from_be_bytes([ip[6], ip[7]]) & 0x1fff;
    let header = usize::from(ip[0] & 15) * 4;
    if offset == 0 {
        let has_no_checksum = ip[9] == UDP && u16_at(ip, header + 6) == Some(0);
        if !has_no_checksum {
            update_transport_checksum(ip, ip[9], header, &old, &new);
        }
    }
}

fn shift_ipv6(ip: &mut [u8], k: u32) {
    let mut old = [0; 32];
    old.copy_from_slice(&ip[8..40]);
    for address in ip[8..40].chunks_exact_mut(16) {
        let value = address
            .iter()
            .fold(0, |value, &byte| value << 8 | u128::from(byte));
        address.copy_from_slice(&value.wrapping_add(k.into()).to_be_bytes());
    }
    let mut new = [0; 32];
    new.copy_from_slice(&ip[8..40]);
    update_transport_checksum(ip, ip[6], 40, &old, &new);
}

/// Updates the checksum of the transport header at `header`, which also covers the addresses.
fn update_transport_checksum(ip: &mut [u8], protocol: u8, header: usize, old: &[u8], new: &[u8]) {
    let checksum = match protocol {
        TCP => 16,
        UDP => 6,
        // ICMP for IPv4 does not cover the addresses; ICMPv6 does (RFC 4443 section 2.3).
        ICMPV6 if ip[0] >> 4 == 6 => 2,
        _ => return,
    };
    update_checksum(ip, header + checksum, old, new);
    // UDP sends a checksum of 0 as 0xffff (RFC 768).
    if protocol == UDP && u16_at(ip, header + 6) == Some(0) {
        ip[header + 6..header + 8].fill(0xff);
    }
}

/// Updates the checksum at `at` for a change of the covered bytes from `old` to `new` (RFC 1624, section
/// 3, equation 3).
fn update_checksum(bytes: &mut [u8], at: usize, old: &[u8], new: &[u8]) {
    let Some(checksum) = u16_at(bytes, at) else {
        return;
    };
    let mut sum = u32::from(!checksum);
    for (old, new) in old.chunks_exact(2).zip(new.chunks_exact(2)) {
        sum += u32::from(!u16::from_be_bytes([old[0], old[1]]));
        sum += u32::from(u16::from_be_bytes([new[0], new[1]]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    bytes[at..at + 2].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The Internet checksum (RFC 1071) over `parts`, which have even lengths except for the last.
    fn sum(parts: &[&[u8]]) -> u16 {
        let mut sum = 0u32;
        for part in parts {
            for pair in part.chunks(2) {
                sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            }
        }
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    fn udp_over_ipv4() -> Vec<u8> {
        let mut frame = vec![0; 14 + 20 + 8 + 5];
        frame[12..14].copy_from_slice(&[8, 0]);
        let ip = &mut frame[14..];
        ip[0] = 0x45;
        ip[3] = 33;
        ip[9] = UDP;
        ip[12..20].copy_from_slice(&[10, 0, 0, 255, 255, 255, 255, 255]);
        ip[25] = 13;
        ip[28..].copy_from_slice(b"hello");
        let header = sum(&[&ip[..20]]);
        ip[10..12].copy_from_slice(&header.to_be_bytes());
        let whole = sum(&[&ip[12..20], &[0, UDP, 0, 13], &ip[20..]]);
        ip[26..28].copy_from_slice(&whole.to_be_bytes());
        frame
    }

    #[test]
    fn shift_carries_and_checksums_stay_correct() {
        for k in [0, 1, 14, 65_535, 1 << 20] {
            let mut frame = udp_over_ipv4();
            shift_addresses(&mut frame, k);
            let ip = &frame[14..];
            let address = |at: usize| u32::from_be_bytes(*ip[at..].first_chunk().unwrap());
            assert_eq!(address(12), 0x0a00_00ff + k);
            assert_eq!(address(16), u32::MAX.wrapping_add(k));
            // The checksum over data that contains its correct checksum is zero.
            assert_eq!(sum(&[&ip[..20]]), 0, "{k}");
            assert_eq!(sum(&[&ip[12..20], &[0, UDP, 0, 13], &ip[20..]]), 0, "{k}");
        }
    }

    #[test]
    fn absent_udp_checksum_stays_absent() {
        let mut frame = udp_over_ipv4();
        frame[14 + 26..14 + 28].fill(0);
        shift_addresses(&mut frame, 7);
        assert_eq!(frame[14 + 26..14 + 28], [0, 0]);
    }

    #[test]
    fn shifts_ipv6_after_a_vlan_tag() {
        let mut frame = vec![0; 18 + 40 + 8];
        frame[12..18].copy_from_slice(&[0x81, 0, 0, 5, 0x86, 0xdd]);
        let ip = &mut frame[18..];
        (ip[0], ip[5], ip[6], ip[39]) = (0x60, 8, ICMPV6, 9);
        ip[16..24].fill(0xff);
        ip[40] = 128;
        let whole = sum(&[&ip[8..40], &[0, 8, 0, ICMPV6], &ip[40..]]);
        ip[42..44].copy_from_slice(&whole.to_be_bytes());
        shift_addresses(&mut frame, 3);
        let ip = &frame[18..];
        // The carry reaches the upper half of the address.
        assert_eq!((ip[15], ip[23], ip[39]), (1, 2, 12));
        assert_eq!(sum(&[&ip[8..40], &[0, 8, 0, ICMPV6], &ip[40..]]), 0);
    }

    #[test]
    fn truncated_frames_do_not_panic() {
        let frame = udp_over_ipv4();
        for length in 0..frame.len() {
            shift_addresses(&mut frame[..length].to_vec(), 1);
        }
    }
}
