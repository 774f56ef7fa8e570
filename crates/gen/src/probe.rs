//! What a payload carries to be recognised: a sequence number, and the time it was sent.
//!
//! ```text
//! offset in the payload  0        2                   10                  18
//!                        | mark   | sequence number   | time sent         |
//!                        | F10Ah  | 64 bits           | ns since 1970     |
//!                        | F10Bh  | 64 bits           | absent            |
//! ```
//! The mark says whether there is a time: what stands in its place may be random.
//! Both numbers are in network byte order. 18 bytes are what a UDP packet in IPv4 has in the
//! smallest Ethernet frame.

use crate::checksum::Sum;

/// What probes with a time stamp begin with, and those without.
const TIMED_MARK: u16 = 0xf10a;
const MARK: u16 = 0xf10b;

/// Bytes of a probe without a time stamp, and with one.
const SEQUENCE_BYTES: usize = 10;
const TIMED_BYTES: usize = 18;

/// What a probe carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Sequence number.
    pub sequence: u64,
    /// When it was sent, nanoseconds since the Unix epoch by the sender's clock; 0 where the payload
    /// says nothing of it.
    pub time_ns: i64,
}

impl Probe {
    /// Bytes of payload that it takes.
    #[must_use]
    pub const fn size(timed: bool) -> usize {
        if timed { TIMED_BYTES } else { SEQUENCE_BYTES }
    }

    /// Reads the probe at the start of a payload, if there is one.
    ///
    /// The mark is 16 bits: of other traffic with random payload, one packet in 32,768 has one.
    #[inline]
    #[must_use]
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let (mark, rest) = payload.split_first_chunk::<2>()?;
        let timed = match u16::from_be_bytes(*mark) {
            TIMED_MARK => true,
            MARK => false,
            _ => return None,
        };
        let (sequence, rest) = rest.split_first_chunk::<8>()?;
        let time = rest.first_chunk::<8>().filter(|_| timed);
        let time_ns = time.map_or(0, |time| i64::from_be_bytes(*time));
        Some(Self {
            sequence: u64::from_be_bytes(*sequence),
            time_ns,
        })
    }

    /// Writes it over zeroes at the start of a payload that has room; what that adds to the checksum.
    #[inline]
    pub(crate) fn write(self, payload: &mut [u8], timed: bool) -> Sum {
        let mark = if timed { TIMED_MARK } else { MARK };
        payload[..2].copy_from_slice(&mark.to_be_bytes());
        payload[2..SEQUENCE_BYTES].copy_from_slice(&self.sequence.to_be_bytes());
        let sum = Sum::default().add_u16(mark).add_u64(self.sequence);
        if !timed {
            return sum;
        }
        let time = self.time_ns.cast_unsigned();
        payload[SEQUENCE_BYTES..TIMED_BYTES].copy_from_slice(&time.to_be_bytes());
        sum.add_u64(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let probe = Probe {
            sequence: 0x0102_0304_0506_0708,
            time_ns: 1_700_000_000_123_456_789,
        };
        let mut payload = [0; 20];
        let sum = probe.write(&mut payload, true);
        assert_eq!(sum.fold(), Sum::default().add_bytes(&payload).fold());
        assert_eq!(Probe::parse(&payload), Some(probe));
        let mut short = [0; 10];
        let sum = probe.write(&mut short, false);
        assert_eq!(sum.fold(), Sum::default().add_bytes(&short).fold());
        assert_eq!(
            Probe::parse(&short),
            Some(Probe {
                time_ns: 0,
                ..probe
            })
        );
        assert_eq!(Probe::parse(&short[..9]), None);
        // A time stamp that a limit cut.
        assert_eq!(Probe::parse(&payload[..17]), Probe::parse(&short));
        assert_eq!(Probe::parse(&[0; 18]), None);
    }

    #[test]
    fn random_payload_behind_a_number_is_no_time() {
        let probe = Probe {
            sequence: 7,
            time_ns: 0,
        };
        let mut payload = [0x5a; 40];
        probe.write(&mut payload, false);
        assert_eq!(Probe::parse(&payload), Some(probe));
    }
}
