//! The probe in a payload: a sequence number and, optionally, the time of sending.
//!
//! ```text
//! offset in the payload  0        2                   10                  18
//!                        | magic  | sequence number   | timestamp         |
//!                        | F10Ah  | 64 bits           | ns since 1970     |
//!                        | F10Bh  | 64 bits           | absent            |
//! ```
//! The magic number says whether there is a timestamp, because random payload may follow the
//! sequence number. Both numbers are in network byte order. A probe has at most 18 bytes, the
//! payload of a UDP packet over IPv4 in the smallest Ethernet frame.

use crate::checksum::Sum;

/// Magic numbers of probes with and without a timestamp.
const TIMED_MAGIC: u16 = 0xf10a;
const UNTIMED_MAGIC: u16 = 0xf10b;

/// Bytes of a probe without and with a timestamp.
const SEQUENCE_BYTES: usize = 10;
const TIMED_BYTES: usize = 18;

/// A sequence number and a timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Sequence number.
    pub sequence: u64,
    /// Time of sending by the sender's clock, in nanoseconds since the Unix epoch; 0 if the probe has
    /// no timestamp.
    pub time_ns: i64,
}

impl Probe {
    /// Bytes of a probe in the payload.
    #[must_use]
    pub const fn size(timed: bool) -> usize {
        if timed { TIMED_BYTES } else { SEQUENCE_BYTES }
    }

    /// Parses the probe at the start of a payload, if there is one.
    ///
    /// The magic number has 16 bits, so one packet in 32,768 with random payload looks like a probe.
    #[inline]
    #[must_use]
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let (magic, rest) = payload.split_first_chunk::<2>()?;
        let timed = match u16::from_be_bytes(*magic) {
            TIMED_MAGIC => true,
            UNTIMED_MAGIC => false,
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

    /// Writes the probe over zeros at the start of `payload`. Returns the change of the checksum.
    #[inline]
    pub(crate) fn write(self, payload: &mut [u8], timed: bool) -> Sum {
        let magic = if timed { TIMED_MAGIC } else { UNTIMED_MAGIC };
        payload[..2].copy_from_slice(&magic.to_be_bytes());
        payload[2..SEQUENCE_BYTES].copy_from_slice(&self.sequence.to_be_bytes());
        let sum = Sum::default().add_u16(magic).add_u64(self.sequence);
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
    fn parses_what_was_written() {
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
        // A timestamp truncated by the snaplen.
        assert_eq!(Probe::parse(&payload[..17]), Probe::parse(&short));
        assert_eq!(Probe::parse(&[0; 18]), None);
    }

    #[test]
    fn random_payload_after_an_untimed_probe_is_not_a_timestamp() {
        let probe = Probe {
            sequence: 7,
            time_ns: 0,
        };
        let mut payload = [0x5a; 40];
        probe.write(&mut payload, false);
        assert_eq!(Probe::parse(&payload), Some(probe));
    }
}
