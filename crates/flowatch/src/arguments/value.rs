//! The values of flags that several commands have, and flags whose values have a syntax of their own.

use clap::ValueEnum;
use std::time::Duration;

/// `--summary`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SummaryArgument {
    /// Text.
    Text,
    /// One JSON object.
    Json,
    /// No summary.
    None,
}

/// A timeout; `None` is `none`. (A newtype, because clap treats an `Option` field as an optional flag.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timeout(pub(crate) Option<Duration>);

/// A list of cores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cores(pub(crate) Vec<usize>);

pub(super) fn timeout(text: &str) -> Result<Timeout, String> {
    if text == "none" {
        return Ok(Timeout(None));
    }
    let duration = humantime::parse_duration(text)
        .map_err(|error| format!("{error}; write a time such as 15s, 500ms or 30m, or none"))?;
    if duration.as_millis() == 0 {
        return Err("at least 1ms, or none".into());
    }
    if duration > flow::Timeouts::MAX {
        return Err("at most 2 hours, or none".into());
    }
    Ok(Timeout(Some(duration)))
}

/// Parses a duration above zero.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(Duration::ZERO) => Err("must be above 0".into()),
        result => result.map_err(|error| error.to_string()),
    }
}

pub(super) fn count(text: &str) -> Result<u64, String> {
    let number = match text.strip_prefix("2^") {
        Some(power) => power.parse().ok().and_then(|power| 1u64.checked_shl(power)),
        None => text.replace('_', "").parse().ok(),
    };
    number
        .filter(|&number| number > 0)
        .ok_or_else(|| "must be a number of at least 1, such as 65536 or 2^16".into())
}

pub(super) fn cores(text: &str) -> Result<Cores, String> {
    let mut list = Vec::new();
    for part in text.split(',') {
        let number = |text: &str| {
            text.trim()
                .parse::<usize>()
                .map_err(|_| format!("'{part}' is not a core number; write a list such as 2,4-6"))
        };
        match part.split_once('-') {
            None => list.push(number(part)?),
            Some((first, last)) => {
                let (first, last) = (number(first)?, number(last)?);
                if first > last || last - first > 4096 {
                    return Err(format!("'{part}' is not a range of cores such as 4-6"));
                }
                list.extend(first..=last);
            }
        }
    }
    Ok(Cores(list))
}

pub(super) fn garbage(text: &str) -> Result<flow::GarbageSchedule, String> {
    let invalid = || format!("'{text}' is not PERIOD,PARTS,FRACTION, such as 10s,10000,1");
    let mut parts = text.split(',');
    let (Some(period), Some(count), Some(fraction), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(invalid());
    };
    let period = humantime::parse_duration(period).map_err(|_| invalid())?;
    let count: u32 = count.parse().map_err(|_| invalid())?;
    let fraction: f64 = fraction.parse().map_err(|_| invalid())?;
    if period.is_zero() || count == 0 || !(fraction > 0.0 && fraction <= 1.0) {
        return Err(
            "the period must be above 0, the parts at least 1, the fraction above 0 and at most 1"
                .into(),
        );
    }
    let schedule = flow::GarbageSchedule {
        period,
        parts: count,
        fraction,
    };
    if schedule.round() > flow::GarbageSchedule::ROUND_MAX {
        return Err("a full sweep (period / fraction) must take at most a day".into());
    }
    Ok(schedule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_core_lists_timeouts_and_sweep_schedules() {
        assert_eq!(cores("2,4-6").unwrap().0, [2, 4, 5, 6]);
        assert!(cores("2,x").is_err());
        assert!(cores("6-4").is_err());
        assert_eq!(timeout("none").unwrap().0, None);
        assert_eq!(
            timeout("500ms").unwrap().0,
            Some(Duration::from_millis(500))
        );
        assert!(timeout("0s").is_err());
        assert!(timeout("3h").is_err());
        assert!(garbage("50ms,100,0.5").is_ok());
        assert!(garbage("50ms,0,1").is_err());
    }
}
