//! Formats numbers for people: prefixes, separators, units. NaN and infinities become `-`.

use std::time::Duration;

/// Printed in place of a value that is not a number.
const NOTHING: &str = "-";

/// Packets per second: `14.88 Mpps`.
pub(crate) fn rate_packets(per_second: f64) -> String {
    prefixed(per_second, "pps")
}

/// Bits per second: `9.97 Gbit/s`.
pub(crate) fn rate_bits(per_second: f64) -> String {
    prefixed(per_second, "bit/s")
}

/// A count, with separators: `1,234,567`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes of traffic, in powers of ten as rates are: `1.50 GB`.
pub(crate) fn bytes(number: u64) -> String {
    prefixed(number as f64, "B")
}

/// Bytes of memory, in powers of two: `64.0 MiB`.
pub(crate) fn memory(number: u64) -> String {
    const PREFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let mut value = number as f64;
    let mut prefix = 0;
    while value >= 1023.95 && prefix + 1 < PREFIXES.len() {
        value /= 1024.0;
        prefix += 1;
    }
    let decimals = usize::from(prefix > 0 && value < 99.95);
    format!("{value:.decimals$} {}B", PREFIXES[prefix])
}

/// A number in one short word without a unit: `812`, `12.35k`, `9.97G`.
pub(crate) fn compact(number: f64) -> String {
    prefixed(number, "").replace(' ', "")
}

/// A duration in at most two parts: `12.3 s`, `3m 12s`, `1h 02m`, `2d 03h`.
pub(crate) fn duration(time: Duration) -> String {
    // Anything that would round to 60.0 s is printed as minutes.
    if time < Duration::from_millis(59_950) {
        return seconds(time.as_secs_f64());
    }
    let whole = time
        .as_secs()
        .saturating_add(u64::from(time.subsec_millis() >= 500));
    let (minutes, hours, days) = (whole / 60, whole / 3600, whole / 86_400);
    match (days, hours) {
        (0, 0) => format!("{minutes}m {:02}s", whole % 60),
        (0, _) => format!("{hours}h {:02}m", minutes % 60),
        _ => format!("{days}d {:02}h", hours % 24),
    }
}

/// A running time as a clock shows it: `00:03:12`, `3d 04:00:00`.
pub(crate) fn clock(time: Duration) -> String {
    let whole = time.as_secs();
    let (hours, minutes, seconds) = (whole / 3600 % 24, whole / 60 % 60, whole % 60);
    match whole / 86_400 {
        0 => format!("{hours:02}:{minutes:02}:{seconds:02}"),
        days => format!("{days}d {hours:02}:{minutes:02}:{seconds:02}"),
    }
}

/// Part of a whole in per cent: `0 %`, `0.0012 %`, `12.3 %`. Only exact values are printed as 0 or
/// 100 %.
pub(crate) fn share(part: u64, whole: u64) -> String {
    if part == 0 {
        return "0 %".into();
    }
    if whole == 0 {
        return NOTHING.into();
    }
    if part == whole {
        return "100 %".into();
    }
    let per_cent = part as f64 / whole as f64 * 100.0;
    if per_cent < 0.0001 {
        "<0.0001 %".into()
    } else if per_cent < 0.995 {
        // Two significant digits.
        let decimals = (-per_cent.log10().floor()) as usize + 1;
        format!("{per_cent:.decimals$} %")
    } else if per_cent < 99.95 {
        format!("{per_cent:.1} %")
    } else if per_cent < 100.0 {
        ">99.9 %".into()
    } else {
        format!("{per_cent:.0} %")
    }
}

/// A time in seconds, from `850 ns` to `59.9 s`; longer times are formatted as by [`duration`].
pub(crate) fn seconds(seconds: f64) -> String {
    const UNITS: [(&str, f64); 4] = [("ns", 1e-9), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    if !seconds.is_finite() {
        return NOTHING.into();
    }
    let size = seconds.abs();
    if size == 0.0 {
        return "0 s".into();
    }
    if (60.0..1e12).contains(&size) {
        let text = duration(Duration::from_secs_f64(size));
        return if seconds < 0.0 {
            format!("-{text}")
        } else {
            text
        };
    }
    let mut unit = UNITS[UNITS.len() - 1];
    for candidate in UNITS {
        // From 999.5 on, the value would round to 1000 of this unit.
        if size / candidate.1 < 999.5 {
            unit = candidate;
            break;
        }
    }
    let value = seconds / unit.1;
    format!("{value:.*} {}", decimals(value.abs()), unit.0)
}

/// Number of decimals for three significant digits.
fn decimals(value: f64) -> usize {
    if value < 9.995 {
        2
    } else if value < 99.95 {
        1
    } else {
        0
    }
}

fn prefixed(number: f64, unit: &str) -> String {
    const PREFIXES: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
    if !number.is_finite() {
        return NOTHING.into();
    }
    let mut value = number;
    let mut prefix = 0;
    while value.abs() >= 999.95 && prefix + 1 < PREFIXES.len() {
        value /= 1000.0;
        prefix += 1;
    }
    let decimals = match value.abs() {
        // Whole numbers have no decimals, slow rates one.
        size if prefix == 0 => usize::from(size < 9.95 && size.fract() != 0.0),
        size if size < 99.995 => 2,
        _ => 1,
    };
    format!("{value:.decimals$} {}{unit}", PREFIXES[prefix])
        .trim_end()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_prefixes_and_never_reach_1000() {
        // 10 Gbit/s of minimum frames: 10^10 / ((64 + 20) * 8) = 14,880,952 packets a second.
        assert_eq!(rate_packets(1e10 / 672.0), "14.88 Mpps");
        assert_eq!(rate_bits(9.97e9), "9.97 Gbit/s");
        assert_eq!(rate_packets(0.0), "0 pps");
        assert_eq!(rate_packets(3.5), "3.5 pps");
        assert_eq!(rate_packets(812.4), "812 pps");
        assert_eq!(rate_packets(999.96), "1.00 kpps");
        assert_eq!(rate_packets(999_960.0), "1.00 Mpps");
        assert_eq!(rate_bits(123_456.0), "123.5 kbit/s");
        assert_eq!(rate_bits(f64::NAN), "-");
        assert_eq!(rate_bits(f64::INFINITY), "-");
        assert_eq!(compact(12_345.0), "12.35k");
        assert_eq!(compact(7.0), "7");
    }

    #[test]
    fn counts_have_separators_and_bytes_units() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1500), "1.50 kB");
        assert_eq!(bytes(u64::MAX), "18.45 EB");
        assert_eq!(memory(1023), "1023 B");
        assert_eq!(memory(64 << 20), "64.0 MiB");
        assert_eq!(memory((64 << 20) - 1), "64.0 MiB");
        assert_eq!(memory((1 << 20) - 1), "1.0 MiB");
        assert_eq!(memory(u64::MAX), "16.0 EiB");
    }

    #[test]
    fn times_from_nanoseconds_to_days() {
        assert_eq!(seconds(0.0), "0 s");
        assert_eq!(seconds(850e-9), "850 ns");
        assert_eq!(seconds(1.25e-6), "1.25 µs");
        assert_eq!(seconds(0.99999e-3), "1.00 ms");
        assert_eq!(seconds(2.5), "2.50 s");
        assert_eq!(seconds(-2.5), "-2.50 s");
        assert_eq!(seconds(f64::NAN), "-");
        assert_eq!(seconds(90.0), "1m 30s");
        assert_eq!(seconds(1e13), "10000000000000 s");
        assert_eq!(duration(Duration::from_millis(12_300)), "12.3 s");
        assert_eq!(duration(Duration::from_millis(59_990)), "1m 00s");
        assert_eq!(duration(Duration::from_secs(192)), "3m 12s");
        assert_eq!(duration(Duration::from_secs(3720)), "1h 02m");
        assert_eq!(
            duration(Duration::from_secs(2 * 86_400 + 3 * 3600)),
            "2d 03h"
        );
        assert_eq!(duration(Duration::MAX), "213503982334601d 07h");
        assert_eq!(clock(Duration::from_secs(192)), "00:03:12");
        assert_eq!(
            clock(Duration::from_secs(3 * 86_400 + 4 * 3600)),
            "3d 04:00:00"
        );
    }

    #[test]
    fn shares_are_never_rounded_to_0_or_100_percent() {
        assert_eq!(share(0, 0), "0 %");
        assert_eq!(share(5, 0), "-");
        assert_eq!(share(12, 1_000_000), "0.0012 %");
        assert_eq!(share(1, 1 << 40), "<0.0001 %");
        assert_eq!(share(123, 1000), "12.3 %");
        assert_eq!(share(1, 100), "1.0 %");
        assert_eq!(share(995, 100_000), "1.0 %");
        assert_eq!(share(94, 10_000), "0.94 %");
        assert_eq!(share(999_999_999, 1_000_000_000), ">99.9 %");
        assert_eq!(share(7, 7), "100 %");
        assert_eq!(share(14, 7), "200 %");
    }
}
